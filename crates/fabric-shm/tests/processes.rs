//! Real processes: this test program starts itself again as the ranks of a job.
//!
//! `harness = false`, so that a child is nothing but its rank.

mod common;

use std::env;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use common::*;
use weft_fabric::waiting::{Step, Waiting};
use weft_fabric::{Fabric, FabricError, Operation, Peer, Posted, Rights, SyncKey, Token, Uses};
use weft_fabric_shm::{Options, ProcessState, Shm, Use, Watch, initialise, segment_size};
use weft_sys::{MemoryFile, descriptor};

const DONE: SyncKey = SyncKey(99);
const BYTES: usize = 2_500_003;

/// Waits as the layers above do.
fn until(shm: &mut Shm, inbox: &mut Inbox, done: impl Fn(&Shm, &Inbox) -> bool) {
    let bell = shm.bell();
    let mut waiting = Waiting::new();
    while !done(shm, inbox) {
        if shm.poll(inbox, 64) > 0 {
            waiting.found();
        } else if waiting.step(&*bell) == Step::Sleep {
            let ticket = bell.prepare();
            if shm.poll(inbox, 64) > 0 {
                bell.cancel(ticket);
            } else {
                bell.wait(ticket, Some(Duration::from_secs(20)));
            }
        }
    }
}

/// Each rank grants memory to all others, everybody reads and writes everywhere, and all leave.
fn everybody_to_everybody(mut shm: Shm, expected: &str) {
    let (me, ranks) = (shm.me().0, shm.peers());
    let mut inbox = Inbox::default();
    let mut memory = pattern(u64::from(me), BYTES);
    // The second half has a place for each rank to write to.
    let token = shm
        .grant(lend(&mut memory), None, Rights::ReadWrite, Uses::Many)
        .expect("a grant");
    let others: Vec<u32> = (0..ranks).filter(|&rank| rank != me).collect();
    for &rank in &others {
        while !send(&mut shm, rank, token.0, &[]) {
            shm.poll(&mut inbox, 64);
        }
    }
    until(&mut shm, &mut inbox, |_, inbox| {
        inbox.messages.len() == others.len()
    });
    let part = BYTES / 2 / ranks as usize;
    let mut read = vec![vec![0; BYTES / 2]; ranks as usize];
    let mut written = pattern(1000 + u64::from(me), part);
    let mut pending = 0;
    for (from, token, _) in std::mem::take(&mut inbox.messages) {
        let into = lend(&mut read[from.index()]);
        for posted in [
            shm.get(from, Token(token), 0, into, Operation(1)),
            shm.put(
                from,
                Token(token),
                (BYTES / 2 + me as usize * part) as u64,
                lend(&mut written),
                Operation(2),
            ),
        ] {
            match posted.expect("granted") {
                Posted::Done => {}
                Posted::Pending => pending += 1,
                Posted::Retry => panic!("refused"),
            }
        }
    }
    until(&mut shm, &mut inbox, |_, inbox| {
        inbox.completed.len() == pending
    });
    assert!(inbox.completed.iter().all(|(_, result)| result.is_ok()));
    for &rank in &others {
        assert_eq!(shm.route(Peer(rank)), expected);
        assert!(read[rank as usize] == pattern(u64::from(rank), BYTES)[..BYTES / 2]);
        while shm.signal(Peer(rank), DONE).expect("a peer") != Posted::Done {
            shm.poll(&mut inbox, 64);
        }
    }
    until(&mut shm, &mut inbox, |shm, _| {
        others
            .iter()
            .all(|&rank| shm.signals(Peer(rank), DONE) == 1)
    });
    assert!(shm.revoke(token));
    for &rank in &others {
        let at = BYTES / 2 + rank as usize * part;
        assert!(memory[at..at + part] == pattern(1000 + u64::from(rank), part));
    }
    assert!(inbox.lost.is_empty(), "{:?}", inbox.lost);
}

/// Bytes of a transfer that is long enough to be stopped in.
const LARGE: usize = 64 << 20;

const STARTED: SyncKey = SyncKey(98);
const PATIENCE: Duration = Duration::from_millis(150);

fn signal(process: u32, number: i32) {
    weft_sys::process::signal(process, number).expect("a process of this test");
}

const KILL: i32 = 9;
const CONTINUE: i32 = 18;
const STOP: i32 = 19;

/// Stops a process, and waits until it is.
fn stop(process: u32) {
    signal(process, STOP);
    for _ in 0..10_000 {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if state.contains(") T ") {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not stop");
}

fn message(shm: &mut Shm, inbox: &mut Inbox, to: u32, number: u64) {
    while !send(shm, to, number, &[]) {
        shm.poll(inbox, 64);
    }
}

/// Rank 0 takes back what rank 1 and rank 2 are at: rank 2 is killed, rank 1 stopped for longer than patience.
fn take_back(mut shm: Shm, write: bool) {
    let mut inbox = Inbox::default();
    let mut memory = vec![1; LARGE];
    let granted = shm.grant(lend(&mut memory), None, Rights::ReadWrite, Uses::Many);
    let token = granted.expect("fits");
    for user in [1, 2] {
        message(&mut shm, &mut inbox, user, token.0);
    }
    until(&mut shm, &mut inbox, |shm, inbox| {
        inbox.messages.len() == 2 && (1..3).all(|user| shm.signals(Peer(user), STARTED) > 0)
    });
    let process = |user| {
        let of = |(from, _, _): &&(Peer, u64, Vec<u8>)| *from == Peer(user);
        inbox.messages.iter().find(of).expect("two came").1 as u32
    };
    let (stopped, killed) = (process(1), process(2));
    signal(killed, KILL);
    until(&mut shm, &mut inbox, |_, inbox| inbox.lost.len() == 1);
    stop(stopped);
    let go_on = std::thread::spawn(move || {
        // A writer is waited for until it goes on.
        if write {
            std::thread::sleep(3 * PATIENCE);
            signal(stopped, CONTINUE);
        }
    });
    assert!(shm.revoke(token), "it was live");
    memory.fill(2);
    // The next grants have nothing of the late user.
    let mut later = vec![3; 100_000];
    let tokens: Vec<Token> = (0..8)
        .map(|_| {
            shm.grant(lend(&mut later), None, Rights::ReadWrite, Uses::Many)
                .expect("fits")
        })
        .collect();
    for token in &tokens {
        message(&mut shm, &mut inbox, 1, token.0);
    }
    go_on.join().expect("it ends");
    if !write {
        signal(stopped, CONTINUE);
    }
    until(&mut shm, &mut inbox, |_, inbox| inbox.messages.len() == 3);
    assert!(memory.iter().all(|byte| *byte == 2), "nothing moved since");
    assert!(tokens.into_iter().all(|token| shm.revoke(token)));
}

/// Ranks 1 and 2 move bytes until that is refused; rank 1 then uses what it is granted next.
fn be_taken_back_from(mut shm: Shm, write: bool) {
    let mut inbox = Inbox::default();
    until(&mut shm, &mut inbox, |_, inbox| !inbox.messages.is_empty());
    let token = Token(inbox.messages[0].1);
    message(&mut shm, &mut inbox, 0, std::process::id().into());
    let mut mine = vec![4; LARGE];
    let mut started = false;
    loop {
        let region = lend(&mut mine);
        let moved = match write {
            true => shm.put(Peer(0), token, 0, region, Operation(1)),
            false => shm.get(Peer(0), token, 0, region, Operation(1)),
        };
        match moved {
            Ok(Posted::Done) if write => {}
            Ok(Posted::Done) => {
                let right = mine.iter().step_by(4096).all(|byte| *byte == 1);
                assert!(right, "it has read what was not granted");
            }
            Err(FabricError::NotGranted { .. }) => break,
            other => panic!("{other:?}"),
        }
        if !started {
            started = true;
            assert_eq!(shm.signal(Peer(0), STARTED), Ok(Posted::Done));
        }
    }
    until(&mut shm, &mut inbox, |_, inbox| inbox.messages.len() == 9);
    for index in 1..9 {
        let token = Token(inbox.messages[index].1);
        let mut later = vec![0; 100_000];
        let moved = shm.get(Peer(0), token, 0, lend(&mut later), Operation(2));
        assert_eq!(moved, Ok(Posted::Done), "a later grant");
        assert!(later.iter().all(|byte| *byte == 3));
    }
    message(&mut shm, &mut inbox, 0, 0);
}

fn child(segment: &str, rank: &str, way: &str) {
    let number = segment.parse().expect("a number");
    let segment = descriptor::inherited(number).expect("the parent passed it on");
    let options = match way {
        "attach" => Options::default(),
        "attach with help" => Options {
            assist: Use::On,
            ..Options::default()
        },
        // What its owner sends nobody has to be told of who takes it back.
        "gets taken back" | "puts taken back" => Options {
            assist: Use::Off,
            patience: PATIENCE,
            ..Options::default()
        },
        _ => without_attach(),
    };
    let shm = Shm::attach_with(segment, rank.parse().expect("a rank"), &options)
        .expect("the segment of the test");
    if way.ends_with("taken back") {
        let write = way.starts_with("puts");
        return match shm.me() {
            Peer(0) => take_back(shm, write),
            _ => be_taken_back_from(shm, write),
        };
    }
    let expected = match way {
        "chunks" => "shm without cross-memory attach",
        _ => "shm",
    };
    everybody_to_everybody(shm, expected);
}

/// The processes of a job; what is left of them when a test fails is killed, also if it is stopped.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn job(ranks: u32, way: &str) {
    let size = segment_size(ranks).expect("fits");
    let file = MemoryFile::create("weft-test", size).expect("memory files exist here");
    let mapping = file.map().expect("maps");
    initialise(&mapping, ranks, 2).expect("the right size");
    let watch = Watch::open(&file).expect("initialised");
    // The one that is killed in jobs where one is.
    let victim = way.ends_with("taken back").then_some(2);
    let start = |rank: u32| {
        let mut command = Command::new(env::current_exe().expect("this program"));
        let copy = file.as_fd().try_clone_to_owned().expect("duplicates");
        let number = descriptor::hand_over(&mut command, copy);
        command
            .args(["rank", &number.to_string(), &rank.to_string(), way])
            .stdin(Stdio::null())
            .spawn()
            .expect("a child")
    };
    let mut children = Children((0..ranks).map(start).collect());
    let end = Instant::now() + Duration::from_secs(60);
    let mut left = ranks;
    let mut told = false;
    while left > 0 {
        assert!(Instant::now() < end, "{ranks} ranks by {way} do not end");
        std::thread::sleep(Duration::from_millis(2));
        left = 0;
        for (rank, child) in (0..).zip(&mut children.0) {
            match child.try_wait().expect("a child of ours") {
                None => left += 1,
                Some(status) if victim == Some(rank) => {
                    assert_eq!(status.signal(), Some(KILL), "{way}: {status}");
                    if !told {
                        told = true;
                        watch.tell_of_death(rank, status.into_raw());
                    }
                }
                Some(status) => assert!(status.success(), "{ranks} ranks by {way}: {status}"),
            }
        }
    }
    for rank in (0..ranks).filter(|rank| victim != Some(*rank)) {
        assert_eq!(watch.state(rank), ProcessState::Finalised);
    }
    assert_eq!(watch.awake(), 0);
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, role, segment, rank, way] = &arguments[..]
        && role == "rank"
    {
        child(segment, rank, way);
        return ExitCode::SUCCESS;
    }
    for (ranks, way) in [
        (2, "attach"),
        (2, "attach with help"),
        (2, "chunks"),
        (5, "attach"),
        (5, "attach with help"),
        (17, "chunks"),
        (17, "attach"),
        (3, "gets taken back"),
        (3, "puts taken back"),
        (3, "gets taken back"),
        (3, "puts taken back"),
    ] {
        let start = Instant::now();
        job(ranks, way);
        println!(
            "test {ranks} processes by {way} ... ok ({:?})",
            start.elapsed()
        );
    }
    ExitCode::SUCCESS
}
