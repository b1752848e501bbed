//! Agents that know the key of a job and send messages that agents must not send: the job ends with an error
//! that names their host, and ranks of others are not touched. Everything runs over loopback.

use std::io::Read;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weft_launch::bootstrap::VALUE_LIMIT;
use weft_launch::hosts::message::{
    FromAgent, Hello, Notice, PublishedValue, RELEASE, ToAgent, decode, encode,
};
use weft_secure::{Key, Session};

use crate::harness::{Ended, Job, Running, rank, weft};

const LONG: Duration = Duration::from_secs(20);

/// A head that waits for four ranks, its token and its address.
fn head(words: &[&str]) -> (Running, String, String) {
    let first = ["-n", "4", "--listen", "127.0.0.1:0"];
    waiting(Job::new(first.iter().chain(words)))
}

/// A head that has started to wait, its token and its address.
fn waiting(job: Job) -> (Running, String, String) {
    let mut running = job.start();
    let line = running.said();
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--token");
    let token = words[at.expect("a token") + 1].to_owned();
    let address = words.last().expect("an address").to_string();
    (running, token, address)
}

/// An honest agent with that many ranks, as part of the head's job.
fn honest(running: &Running, token: &str, address: &str, ranks: &str) -> Child {
    let mut command = Command::new(weft());
    running.adopt(&mut command);
    command
        .args(["join", "--token", token, "-n", ranks, address])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

/// The hostile one: it knows the key.
struct Hostile(Session<TcpStream>);

impl Hostile {
    fn join(token: &str, address: &str) -> Self {
        let key: Key = token.parse().expect("a token");
        let stream = TcpStream::connect(address).expect("the head listens");
        Self(Session::connect(stream, &key, "launch", b"", LONG).expect("the key is right"))
    }

    fn say(&mut self, message: &FromAgent) {
        // The connection may already be closed.
        let _ = self.0.send(&encode(message));
    }

    fn greet(&mut self) {
        self.say(&FromAgent::Hello(Hello {
            release: RELEASE,
            host: "hostile".into(),
            ranks: 2,
            program: false,
            adopted: Vec::new(),
        }));
    }

    /// Waits until the head has given it ranks; returns the first.
    fn await_start(&mut self) -> u32 {
        loop {
            let bytes = self
                .0
                .receive()
                .expect("sealed")
                .expect("the head is there");
            match decode(&bytes) {
                Some(ToAgent::Start(assignment)) => return assignment.ranks[0].0,
                Some(_) => {}
                None => panic!("the head says what is no message"),
            }
        }
    }

    /// Whether the head has closed the connection.
    fn await_end(&mut self) {
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            match self.0.receive() {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
        panic!("it was not cut off");
    }
}

/// Runs a job of an honest agent with ranks 0 and 1, which wait, and a hostile one, which calls `act` once it
/// has ranks 2 and 3.
fn beside(act: impl FnOnce(&mut Hostile)) -> (Ended, Option<i32>) {
    let rank = rank();
    let (mut running, token, address) = head(&["-v", &rank, "wait"]);
    let mut one = honest(&running, &token, &address, "2");
    // Ranks are given in the order in which agents have come.
    let line = running.said();
    assert!(line.contains("is here, for ranks 0, 1"), "{line}");
    let mut hostile = Hostile::join(&token, &address);
    hostile.greet();
    assert_eq!(hostile.await_start(), 2);
    running.hear("waiting\n");
    act(&mut hostile);
    hostile.await_end();
    let ended = running.end();
    let code = one.wait().expect("our child").code();
    (ended, code)
}

fn put(rank: u32, bytes: usize) -> FromAgent {
    let values = vec![PublishedValue {
        rank,
        name: "tcp".into(),
        value: vec![0; bytes],
    }];
    FromAgent::Put { values }
}

#[test]
fn what_an_agent_forges_ends_the_job_and_names_it() {
    let told = |rank, told| FromAgent::Notice { rank, told };
    let exited = |rank, status| FromAgent::Exited { rank, status };
    let forged: Vec<(Vec<FromAgent>, &str)> = vec![
        // Messages about ranks of others.
        (vec![exited(0, 0)], "rank 0, which is not one of its own"),
        (vec![exited(u32::MAX, 9)], "not one of its own"),
        (vec![told(1, Notice::Finalised)], "not one of its own"),
        (
            vec![FromAgent::Output {
                rank: 0,
                error: true,
                bytes: b"forged\n".to_vec(),
            }],
            "not one of its own",
        ),
        (
            vec![FromAgent::NotStarted {
                rank: 1,
                reason: "forged".into(),
            }],
            "not one of its own",
        ),
        (vec![put(0, 1)], "not one of its own"),
        // Messages in the wrong state.
        (vec![FromAgent::Fence, FromAgent::Fence], "while they wait"),
        (vec![FromAgent::Ended { clean: true }], "has not said how"),
        (vec![FromAgent::InputTaken { bytes: 1 }], "0 were sent"),
        (
            vec![FromAgent::Hello(Hello {
                release: RELEASE,
                host: "another".into(),
                ranks: 1,
                program: true,
                adopted: Vec::new(),
            })],
            "twice who it is",
        ),
        // Wrong sizes.
        (vec![put(2, VALUE_LIMIT + 1)], "no rank can do that"),
        (
            vec![FromAgent::Output {
                rank: 2,
                error: false,
                bytes: vec![b'x'; 2 << 20],
            }],
            "was announced",
        ),
        (vec![exited(2, 0x137f)], "wait status"),
    ];
    for (messages, said) in forged {
        let (ended, other) = beside(|hostile| {
            for message in &messages {
                hostile.say(message);
            }
        });
        assert_eq!(ended.code(), Some(1), "{said}: {ended:?}");
        let last = ended.last();
        assert!(
            last.starts_with("weft: host hostile failed first: it is lost with ranks 2, 3: "),
            "{said}: {ended:?}"
        );
        assert!(last.contains(said), "{said}: {ended:?}");
        assert!(!ended.error.contains("forged"), "{ended:?}");
        assert_eq!(other, Some(1), "the honest agent hears of the end");
    }
}

/// Before ranks are assigned, such an agent is rejected, and the job waits for another one.
#[test]
fn an_agent_that_speaks_too_early_is_refused() {
    let rank = rank();
    let (mut running, token, address) = head(&[&rank, "exchange"]);
    for early in [
        FromAgent::Fence,
        put(0, 1),
        FromAgent::Exited { rank: 0, status: 0 },
        FromAgent::Ended { clean: true },
    ] {
        for greets in [false, true] {
            let mut hostile = Hostile::join(&token, &address);
            if greets {
                hostile.greet();
            }
            hostile.say(&early);
            hostile.await_end();
        }
    }
    let mut honest = [0, 1].map(|_| honest(&running, &token, &address, "2"));
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("heard all").count(), 4, "{ended:?}");
    assert!(ended.error.contains("hostile has left: it speaks of ranks"));
    for one in &mut honest {
        assert_eq!(one.wait().expect("our child").code(), Some(0));
    }
}

/// The values that ranks exchange may be more than 64 KiB: here 160 KiB in a round.
#[test]
fn much_is_exchanged_between_agents() {
    let rank = rank();
    let words = ["-n", "40", "--listen", "127.0.0.1:0", &rank, "exchange"];
    let (mut running, token, address) = waiting(Job::new(words));
    let mut agents = [0, 1].map(|_| honest(&running, &token, &address, "20"));
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("heard all").count(), 40, "{ended:?}");
    for one in &mut agents {
        assert_eq!(one.wait().expect("our child").code(), Some(0));
    }
}

/// Arbitrary bytes where messages are expected.
#[test]
fn bytes_that_are_no_message_end_the_job_and_name_it() {
    let (ended, _) = beside(|hostile| {
        let _ = hostile.0.send(&[255; 100]);
    });
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended.last().contains("host hostile failed first"),
        "{ended:?}"
    );
    assert!(ended.last().contains("is not understood"), "{ended:?}");
}

/// A client that connects without the token and keeps the connection open does not delay agents that join.
#[test]
fn strangers_at_the_door_keep_nobody_out() {
    let rank = rank();
    let (mut running, token, address) = head(&[&rank, "exchange"]);
    let mut strangers: Vec<TcpStream> = (0..400)
        .filter_map(|_| TcpStream::connect(&address).ok())
        .collect();
    let one = honest(&running, &token, &address, "2");
    strangers.extend((0..400).filter_map(|_| TcpStream::connect(&address).ok()));
    let other = honest(&running, &token, &address, "2");
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.error.contains("turned away"), "{ended:?}");
    for mut child in [one, other] {
        assert_eq!(child.wait().expect("our child").code(), Some(0));
    }
    let read = strangers[0].read(&mut [0; 16]);
    assert!(!matches!(read, Ok(1..)), "a stranger was answered");
}
