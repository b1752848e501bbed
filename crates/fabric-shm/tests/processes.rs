//! Real processes: this test program starts itself again as the ranks of a job.
//!
//! `harness = false`, so that a child is nothing but its rank.

mod common;

use std::env;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use common::*;
use weft_fabric::waiting::{Step, Waiting};
use weft_fabric::{Fabric, Operation, Peer, Posted, Rights, SyncKey, Token, Uses};
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
        inbox.moved.len() == pending
    });
    assert!(inbox.moved.iter().all(|(_, result)| result.is_ok()));
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

fn child(segment: &str, rank: &str, way: &str) {
    let number = segment.parse().expect("a number");
    let segment = descriptor::inherited(number).expect("the parent passed it on");
    let options = match way {
        "attach" => Options::default(),
        "attach with help" => Options {
            assist: Use::On,
            ..Options::default()
        },
        _ => without_attach(),
    };
    let shm = Shm::attach_with(segment, rank.parse().expect("a rank"), &options)
        .expect("the segment of the test");
    let expected = match way {
        "chunks" => "shm without cross-memory attach",
        _ => "shm",
    };
    everybody_to_everybody(shm, expected);
}

fn job(ranks: u32, way: &str) {
    let size = segment_size(ranks).expect("fits");
    let file = MemoryFile::create("weft-test", size).expect("memory files exist here");
    let mapping = file.map().expect("maps");
    initialise(&mapping, ranks, 2).expect("the right size");
    let watch = Watch::open(mapping).expect("initialised");
    let mut children: Vec<Child> = (0..ranks)
        .map(|rank| {
            let mut command = Command::new(env::current_exe().expect("this program"));
            let copy = file.as_fd().try_clone_to_owned().expect("duplicates");
            let number = descriptor::hand_over(&mut command, copy);
            command
                .args(["rank", &number.to_string(), &rank.to_string(), way])
                .stdin(Stdio::null())
                .spawn()
                .expect("a child")
        })
        .collect();
    let end = Instant::now() + Duration::from_secs(60);
    let mut left = children.len();
    while left > 0 {
        assert!(Instant::now() < end, "{ranks} ranks by {way} do not end");
        std::thread::sleep(Duration::from_millis(2));
        left = 0;
        for child in &mut children {
            match child.try_wait().expect("a child of ours") {
                None => left += 1,
                Some(status) => assert!(status.success(), "{ranks} ranks by {way}: {status}"),
            }
        }
    }
    for rank in 0..ranks {
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
