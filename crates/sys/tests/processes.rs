//! Two processes, one memory file, two doorbells: the basis of the shared-memory fabric.
//!
//! The test starts itself again in the role of the peer, which gets the file by inheritance.

use std::os::fd::RawFd;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_atomic::FenceMode;
use weft_sys::attach::{self, Remote};
use weft_sys::{Futex, Mapping, MemoryFile, clock, descriptor, membarrier, process};

const ROUNDS: u32 = 2_000;
const FILE: &str = "WEFT_TEST_FILE";
const MODE: &str = "WEFT_TEST_MODE";

/// Where things are in the file.
const BELLS: [usize; 2] = [0, 64];
const TURN: usize = 128;
const ADDRESS: usize = 192;
const SECRET: [u8; 16] = *b"written by peer.";

/// The side whose turn it is passes the turn on; the other sleeps. True if all rounds were played.
fn play(memory: &Mapping, me: usize, mode: FenceMode) -> bool {
    let futex = Futex::shared();
    let [mine, other] = [BELLS[me], BELLS[1 - me]].map(|at| memory.doorbell(at).expect("fits"));
    let turn = memory.atomic_u32(TURN).expect("fits");
    // A lost wake-up shows as a missed deadline.
    let deadline = clock::deadline_after(Duration::from_secs(60));
    loop {
        let ticket = mine.prepare(mode, &futex);
        let now = turn.load(Ordering::Acquire);
        if now >= ROUNDS {
            mine.cancel(ticket);
            return true;
        }
        if now as usize % 2 == me {
            mine.cancel(ticket);
            turn.store(now + 1, Ordering::Release);
            other.ring(mode, &futex);
        } else if mine.wait(ticket, Some(deadline), &futex) == weft_atomic::Woken::TimedOut {
            return false;
        }
    }
}

fn peer(role: &str, file: MemoryFile, mode: Option<FenceMode>) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("we are a program"));
    process::child_dies_with_us(&mut command, process::SIGKILL);
    let number = descriptor::hand_over(&mut command, file.into_descriptor());
    command
        .args(["--exact", role, "--nocapture", "--include-ignored"])
        .env(FILE, number.to_string())
        .env(MODE, mode.map_or(0, |mode| mode as u32).to_string())
        .spawn()
        .expect("we can be started again")
}

/// In the peer: the inherited memory and mode.
fn inherited() -> (Mapping, FenceMode) {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let file = number(FILE).expect("started by the test") as RawFd;
    let file = descriptor::inherited(file).expect("left open for us");
    let file = MemoryFile::adopt(file).expect("sealed");
    let mode = number(MODE)
        .and_then(FenceMode::from_number)
        .expect("a mode");
    (file.map().expect("maps"), mode)
}

#[test]
#[ignore = "the peer of other tests"]
fn peer_plays() {
    let (memory, mode) = inherited();
    if mode == FenceMode::Asymmetric {
        assert!(membarrier::register_all().is_available());
    }
    assert!(play(&memory, 1, mode));
}

fn plays_through(mode: FenceMode) {
    let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
    let memory = file.map().expect("maps");
    let mut peer = peer("peer_plays", file, Some(mode));
    assert!(play(&memory, 0, mode));
    assert!(peer.wait().expect("ours").success());
}

#[test]
fn processes_take_turns_asleep() {
    plays_through(FenceMode::Symmetric);
}

#[test]
fn processes_take_turns_asleep_with_fences_on_one_side() {
    if membarrier::register_all().is_available() {
        plays_through(FenceMode::Asymmetric);
    }
}

#[test]
#[ignore = "the peer of other tests"]
fn peer_shows_a_secret() {
    let (memory, mode) = inherited();
    process::permit_attach().expect("granted or not needed");
    let secret = Box::new(SECRET);
    let address = secret.as_ptr().addr() as u64;
    let place = memory.atomic_u64(ADDRESS).expect("fits");
    place.store(address, Ordering::Release);
    let bell = memory.doorbell(BELLS[0]).expect("fits");
    bell.ring(mode, &Futex::shared());
    // Until the other side has read it and kills us.
    std::thread::sleep(Duration::from_secs(60));
    drop(secret);
}

#[test]
fn a_secret_proves_that_attaching_reaches_the_peer() {
    let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
    let memory = file.map().expect("maps");
    let mut peer = peer("peer_shows_a_secret", file, None);
    let (bell, futex) = (memory.doorbell(BELLS[0]).expect("fits"), Futex::shared());
    let deadline = clock::deadline_after(Duration::from_secs(60));
    let address = loop {
        let ticket = bell.prepare(FenceMode::Symmetric, &futex);
        let address = memory
            .atomic_u64(ADDRESS)
            .expect("fits")
            .load(Ordering::Acquire);
        if address != 0 {
            bell.cancel(ticket);
            break address;
        }
        let woken = bell.wait(ticket, Some(deadline), &futex);
        assert_ne!(woken, weft_atomic::Woken::TimedOut, "the peer did not ring");
    };
    let there = Remote {
        process: peer.id(),
        address,
    };
    let proof = attach::proves(there, SECRET);
    let other = attach::proves(there, [0; 16]);
    peer.kill().expect("ours");
    peer.wait().expect("ours");
    // A host may forbid attaching; then both probes say so. The wrong secret must never be proved.
    assert!(!other.is_available());
    if let Some(reason) = proof.reason() {
        assert!(
            reason.contains("not permitted") || reason.contains("not implemented"),
            "{reason}"
        );
    }
}
