//! Ranks of several channels, whose threads call at once: each has several engines.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use weft_fabric::Fabric;
use weft_fabric_local::Local;
use weft_fabric_shm::{Options, Shm, Use};
use weft_fabric_tcp::Tcp;
use weft_mpi::coll::{self, Members};
use weft_mpi::{Comm, Process, SendMode, Source, TagPattern, Target};

use super::over;

fn run<F: Fabric + 'static>(endpoints: Vec<F>, rank: &(impl Fn(Arc<Process>) + Sync)) {
    std::thread::scope(|scope| {
        for endpoint in endpoints {
            scope.spawn(move || {
                let process = Process::new(Box::new(endpoint));
                process.let_threads_call_at_once();
                rank(Arc::clone(&process));
                process.finish().unwrap();
            });
        }
    });
}

/// What is played must end.
fn within(play: Box<dyn FnOnce() + Send>) {
    let (said, heard) = mpsc::channel();
    let played = std::thread::spawn(move || {
        play();
        said.send(()).unwrap();
    });
    match heard.recv_timeout(Duration::from_secs(100)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it stands still"),
        _ => played.join().unwrap(),
    }
}

/// As [`side_by_side`], and over TCP, where there is one channel.
pub fn side_by_side_and_over_tcp(
    ranks: u32,
    channels: u32,
    rank: impl Fn(Arc<Process>) + Send + Sync + 'static,
) {
    let rank = Arc::new(rank);
    let play = Arc::clone(&rank);
    side_by_side(ranks, channels, move |process| play(process));
    within(Box::new(move || {
        run(Tcp::group(ranks, |_| ()).expect("loopback"), &*rank);
    }));
}

/// Runs `rank` as so many ranks whose threads call at once, over fabrics of so many channels. It must end.
pub fn side_by_side(
    ranks: u32,
    channels: u32,
    rank: impl Fn(Arc<Process>) + Send + Sync + 'static,
) {
    let rank = Arc::new(rank);
    let play = Arc::clone(&rank);
    within(Box::new(move || {
        run(Local::group_with_channels(ranks as usize, channels), &*play);
    }));
    for cross_memory in [Use::Auto, Use::Off] {
        let options = Options {
            cross_memory,
            ..Options::default()
        };
        let play = Arc::clone(&rank);
        within(Box::new(move || {
            let group = Shm::group_with_channels(ranks, channels, &options);
            run(group.expect("a memory file"), &*play);
        }));
    }
}

pub fn send(comm: &Comm, to: u32, tag: i32, mut data: Vec<u8>) {
    let buffer = over(&mut data);
    comm.send(SendMode::Standard, buffer, Target::Rank(to), tag)
        .unwrap();
}

pub fn receive(comm: &Comm, from: u32, tag: i32, length: usize) -> Vec<u8> {
    let mut room = vec![0; length];
    let tag = TagPattern::Exact(tag);
    comm.recv(over(&mut room), Source::Rank(from), tag).unwrap();
    room
}

pub fn barrier(comm: &Comm) {
    comm.run(coll::barrier(&Members::of(comm)).unwrap())
        .unwrap();
}
