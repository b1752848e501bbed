//! Ranks of several channels, whose threads call at once: each has several engines.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use weft_fabric::Fabric;
use weft_fabric_local::Local;
use weft_fabric_shm::{Options, Shm, Use};
use weft_fabric_tcp::Tcp;
use weft_mpi::coll::{self, Members};
use weft_mpi::{Comm, Process, SendMode, Source, TagPattern, Target};

use super::{Part, over};

fn run<F: Fabric + 'static>(endpoints: Vec<F>, rank: Part<'_>) {
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

/// What connects the ranks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Through {
    Local,
    Shm(Use),
    Tcp,
}

/// All of them; over the last there is one channel.
const ALL: [Through; 4] = [
    Through::Local,
    Through::Shm(Use::Auto),
    Through::Shm(Use::Off),
    Through::Tcp,
];

impl Through {
    /// As `WEFT_FABRIC` has it.
    fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shm(_) => "shm",
            Self::Tcp => "tcp",
        }
    }

    /// Runs `rank` as so many ranks whose threads call at once. It must end.
    fn play(self, ranks: u32, channels: u32, rank: Arc<dyn Fn(Arc<Process>) + Send + Sync>) {
        within(Box::new(move || match self {
            Self::Local => run(Local::group_with_channels(ranks as usize, channels), &*rank),
            Self::Shm(cross_memory) => {
                let options = Options {
                    cross_memory,
                    ..Options::default()
                };
                let group = Shm::group_with_channels(ranks, channels, &options);
                run(group.expect("a memory file"), &*rank);
            }
            Self::Tcp => run(Tcp::group(ranks, |_| ()).expect("loopback"), &*rank),
        }));
    }
}

/// Runs `rank` as so many ranks whose threads call at once, over fabrics of so many channels. It must end.
pub fn side_by_side(
    ranks: u32,
    channels: u32,
    rank: impl Fn(Arc<Process>) + Send + Sync + 'static,
) {
    let rank: Arc<dyn Fn(Arc<Process>) + Send + Sync> = Arc::new(rank);
    for through in ALL.into_iter().filter(|through| *through != Through::Tcp) {
        through.play(ranks, channels, Arc::clone(&rank));
    }
}

fn number(variable: &str) -> Option<u64> {
    let number = std::env::var(variable).ok()?;
    Some(number.parse().expect("a number"))
}

/// Plays random programs one after the other, each as [`side_by_side`] and over TCP: two for each fabric, or `WEFT_SEEDS`; or, with
/// `WEFT_SECONDS`, as many as begin within that time on each fabric. `WEFT_FIRST_SEED` is the first one's; `WEFT_FABRIC` (local, shm,
/// tcp) leaves out the others.
pub fn random_programs<R: Fn(Arc<Process>) + Send + Sync + 'static>(
    ranks: u32,
    channels: u32,
    program: impl Fn(u64) -> R,
) {
    let wanted = std::env::var("WEFT_FABRIC").ok();
    let first = number("WEFT_FIRST_SEED").unwrap_or(0);
    let time = number("WEFT_SECONDS").map(Duration::from_secs);
    let seeds = number("WEFT_SEEDS").unwrap_or(1);
    let mut played = 0;
    for through in ALL {
        if wanted.as_ref().is_some_and(|name| name != through.name()) {
            continue;
        }
        let begun = Instant::now();
        let mut seed = first;
        while time.map_or(seed < first + seeds, |time| begun.elapsed() < time) {
            // What fails is told with what was printed.
            println!("{through:?}, seed {seed}");
            through.play(ranks, channels, Arc::new(program(seed)));
            seed += 1;
        }
        played += seed - first;
        eprintln!("{through:?}: seeds {first} to {seed}, the last one not");
    }
    assert!(played > 0, "no fabric has this name: {wanted:?}");
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
