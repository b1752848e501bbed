//! Successors of a client that has ended but left behind a process that holds everything of it: descriptors, mappings,
//! events, the connection to the broker. The bytes of the successor do not reach that process, and nothing that the
//! process does affects the successor or the components.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_net::broker;
use weft_net::socket::Network;
use weft_sys::event::{EventFd, EventWaiter};
use weft_sys::{Mapping, MemoryFile, descriptor};

use super::{TWO, Up};

/// Variables for the processes of this test: the system, and the numbers of the inherited descriptors.
const SYSTEM: &str = "WEFT_TEST_SYSTEM";
const INHERITED: &str = "WEFT_TEST_INHERITED";

/// This test program as another process of the test.
fn actor() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("we run"));
    command.args(["--exact", "successors::actor_main", "--nocapture"]);
    command
}

/// Not a test, but the code of its other processes. The predecessor attaches, starts another process with
/// everything that it was given, and ends.
#[test]
fn actor_main() {
    if let Ok(numbers) = std::env::var(INHERITED) {
        linger(&numbers);
        // The last output of a test program has no reader any more.
        std::process::exit(0);
    }
    let Ok(system) = std::env::var(SYSTEM) else {
        return;
    };
    let (capabilities, connection) = broker::attach(&system, "guest").expect("the place is free");
    let mut command = actor();
    let (_, descriptors) = capabilities.into_parts();
    let numbers: Vec<String> = descriptors
        .into_iter()
        .chain([OwnedFd::from(connection)])
        .map(|one| descriptor::hand_over(&mut command, one).to_string())
        .collect();
    command.env(INHERITED, numbers.join(","));
    let child = command.spawn().expect("we start again");
    // It is not waited for: it continues when this process ends.
    drop(child);
}

/// Uses everything that the predecessor had, in the process that it left behind, as the test requests.
fn linger(numbers: &str) {
    let mut all: Vec<OwnedFd> = numbers
        .split(',')
        .map(|number| descriptor::inherited(number.parse().expect("a number")).expect("open"))
        .collect();
    // The order is that of `Role::Client`: control page, waiter, two regions, memory and event of two
    // channels; the connection.
    assert_eq!(all.len(), 9);
    let connection = std::os::unix::net::UnixStream::from(all.pop().expect("the connection"));
    let events = [all.remove(7), all.remove(5)].map(EventFd::adopt);
    let waiter = EventWaiter::adopt(all.remove(1));
    let memory: Vec<Mapping> = all
        .into_iter()
        .map(|file| {
            let file = MemoryFile::adopt(file).expect("a memory file");
            file.map().expect("maps")
        })
        .collect();
    let contents = || -> Vec<Vec<u8>> {
        let read = |memory: &Mapping| {
            let mut bytes = vec![0; memory.len()];
            let all = memory.bytes(0, memory.len()).expect("all of it");
            all.copy_to(&mut bytes);
            bytes
        };
        memory.iter().map(read).collect()
    };
    let mut known = contents();
    let input = std::io::stdin();
    println!("@ready");
    for order in input.lock().lines() {
        match order.expect("the test lives").as_str() {
            // Remembers the present state; later changes count as new.
            "remember" => {
                known = contents();
                println!("@done");
            }
            "tell" => {
                let changed: usize = contents()
                    .iter()
                    .zip(&known)
                    .map(|(now, then)| now.iter().zip(then).filter(|(a, b)| a != b).count())
                    .sum();
                println!("@{changed}");
            }
            // Writes every word and signals every event, many times.
            "strike" => {
                let mut noise = 1u64;
                for round in 0..60u64 {
                    for region in &memory {
                        for place in 0..region.len() / 8 {
                            noise = noise
                                .wrapping_mul(6_364_136_223_846_793_005)
                                .wrapping_add(round);
                            let word = match noise >> 62 {
                                0 => noise,
                                1 => noise >> 40 & 0x3ff,
                                _ => (noise >> 20 & 0x3ff) << 11 | 60 << 32,
                            };
                            let there = region.atomic_u64(place * 8).expect("within");
                            there.store(word, Ordering::Relaxed);
                        }
                        for _ in 0..50 {
                            events.iter().for_each(EventFd::notify);
                        }
                    }
                    let soon = weft_sys::clock::monotonic() + 1_000;
                    waiter.wait(Some(soon)).expect("waits");
                }
                let _ = (&connection).write_all(b"\"Down\"\n");
                println!("@done");
            }
            _ => break,
        }
    }
}

/// The process that was left behind, from the test's view.
struct Left {
    starter: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Left {
    fn behind(up: &Up) -> Self {
        let mut starter = actor()
            .env(SYSTEM, &up.name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("we start again");
        let mut left = Self {
            orders: starter.stdin.take().expect("piped"),
            answers: BufReader::new(starter.stdout.take().expect("piped")),
            starter,
        };
        assert_eq!(left.answer(), "ready");
        // The predecessor itself is gone.
        assert!(left.starter.wait().expect("ours").success());
        left
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            let length = self.answers.read_line(&mut line).expect("it answers");
            assert!(length > 0, "the process left behind is gone");
            if let Some((_, word)) = line.split_once('@') {
                return word.trim().to_owned();
            }
        }
    }

    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("it listens");
        self.answer()
    }
}

fn exchange(network: &Network, count: u32) {
    let socket = network.udp(7).expect("bound");
    let mut buffer = [0; 2048];
    for _ in 0..count {
        let limit = Duration::from_secs(20);
        let (length, from) = socket.recv_within(&mut buffer, limit).expect("load comes");
        assert_eq!(length, 1472);
        socket.send_to(&buffer[..length], from).expect("sent");
    }
}

fn play(name: &str, guest: &str) {
    let up = Up::start(name, &format!("{TWO}{guest}")).expect("up");
    let mut left = Left::behind(&up);
    up.until("the place is free", |status| {
        status["clients"][2]["attached"] == false
    });
    let network = Network::attach(&up.name, "guest").expect("the place is free");
    exchange(&network, 5);
    assert_eq!(left.ask("remember"), "done");
    exchange(&network, 50);
    assert_eq!(left.ask("tell"), "0", "bytes of what it had have changed");
    let before = up.status();
    writeln!(left.orders, "strike").expect("it listens");
    exchange(&network, 200);
    assert_eq!(left.answer(), "done");
    exchange(&network, 50);
    let after = up.status();
    for what in ["faults", "reclaimed"] {
        let all = |status: &serde_json::Value| -> Vec<u64> {
            let clients = status["clients"].as_array().expect("a list");
            let numbers = clients.iter().map(|client| client[what].as_u64());
            numbers.map(|number| number.expect("a number")).collect()
        };
        assert_eq!(all(&after), all(&before), "{what}");
    }
    assert_eq!(after["clients"][2]["attached"], true);
    // A neighbour that is replaced receives the successor's memory, not the predecessor's.
    for name in ["rx-copier-guest", "tx-mux", "driver"] {
        let victim = super::process(&after, name);
        assert!(
            Command::new("kill")
                .args(["-9", &victim.to_string()])
                .status()
                .expect("there is kill")
                .success()
        );
        up.until(name, |status| {
            ![0, victim].contains(&super::process(status, name))
        });
        assert_eq!(left.ask("remember"), "done");
        exchange(&network, 20);
        assert_eq!(left.ask("tell"), "0", "after {name} was replaced");
    }
    drop(network);
}

#[test]
fn what_a_client_left_behind_holds_nothing_of_its_successor() {
    play("successor", "[[client]]\nname = \"guest\"\n");
}

#[test]
fn nor_behind_a_driver_and_a_copier_of_its_own() {
    play(
        "successor-behind-both",
        "[[client]]\nname = \"guest\"\ndriver = true\ntx-copier = true\n",
    );
}

#[test]
fn nor_behind_a_driver_alone() {
    play(
        "successor-behind-driver",
        "[[client]]\nname = \"guest\"\ndriver = true\n",
    );
}

/// No child is needed here: closing the connection releases the place, but not the descriptors that came over
/// it.
#[test]
fn one_that_gives_its_place_back_and_lives_on_sees_nothing() {
    let up = Up::start("kept", &format!("{TWO}[[client]]\nname = \"guest\"\n")).expect("up");
    let (capabilities, connection) = broker::attach(&up.name, "guest").expect("the place is free");
    // Control page, two regions, two channels.
    let all: Vec<_> = capabilities
        .into_parts()
        .1
        .into_iter()
        .enumerate()
        .collect();
    let memory: Vec<Mapping> = all
        .into_iter()
        .filter(|(place, _)| [0, 2, 3, 4, 6].contains(place))
        .map(|(_, file)| {
            let file = MemoryFile::adopt(file).expect("a memory file");
            file.map().expect("maps")
        })
        .collect();
    drop(connection);
    up.until("the place is free", |status| {
        status["clients"][2]["attached"] == false
    });
    let network = Network::attach(&up.name, "guest").expect("the place is free");
    let contents = || -> Vec<Vec<u8>> {
        let read = |memory: &Mapping| {
            let mut bytes = vec![0; memory.len()];
            let all = memory.bytes(0, memory.len()).expect("all of it");
            all.copy_to(&mut bytes);
            bytes
        };
        memory.iter().map(read).collect()
    };
    let before = contents();
    exchange(&network, 50);
    assert!(contents() == before, "bytes of what it had have changed");
    for region in &memory {
        for place in 0..region.len() / 8 {
            let there = region.atomic_u64(place * 8).expect("within");
            there.store(u64::MAX, Ordering::Relaxed);
        }
    }
    exchange(&network, 50);
    assert_eq!(up.status()["clients"][2]["faults"], 0);
}

#[test]
fn a_hundred_attachments_leave_nothing_with_their_servers() {
    let up = Up::start("turns", &format!("{TWO}[[client]]\nname = \"guest\"\n")).expect("up");
    // Descriptors and mappings of memory files.
    let held = |status: &serde_json::Value| -> usize {
        let names = ["driver", "tx-mux", "rx-copier-guest"];
        let served = names.map(|name| super::process(status, name));
        let all = served.into_iter().chain([up.child.id().into()]);
        all.map(|process| {
            let open = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it lives");
            let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it lives");
            let mapped = maps.lines().filter(|line| line.contains("/memfd:"));
            open.count() + mapped.count()
        })
        .sum()
    };
    let turn = || {
        let (capabilities, connection) =
            broker::attach(&up.name, "guest").expect("the place is free");
        let (_, descriptors) = capabilities.into_parts();
        assert_eq!(descriptors.len(), 8);
        drop((descriptors, connection));
        up.until("the place is free", |status| {
            status["clients"][2]["attached"] == false
        })
    };
    let before = held(&turn());
    for _ in 0..100 {
        turn();
    }
    up.until("nothing is left", |status| held(status) <= before);
}
