//! Players: the threads of a rank that do what a program says, and what those who watch see of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weft_atomic::{AtomicU8, AtomicU32, Ordering};
use weft_fabric::{Bell, Fabric};
use weft_mpi::coll::{self, Members};
use weft_mpi::waits::{Link, RankWaits};
use weft_mpi::{Comm, Process, SendMode, Source, TagPattern, Target};

use super::reference::{SEMAPHORES, Step};
use crate::common::inquired::Inquired;
use crate::common::over;

/// Communicators that messages are sent on; one more is for the end.
pub const COMMS: u8 = 3;

/// What a mutex guards.
pub fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Somebody has ended the run.
#[derive(Debug)]
pub struct Over;

/// Semaphores of one rank.
#[derive(Default)]
pub struct Semaphores {
    counts: Mutex<([u32; SEMAPHORES], bool)>,
    changed: Condvar,
}

impl Semaphores {
    fn post(&self, which: u8) {
        open(&self.counts).0[usize::from(which)] += 1;
        self.changed.notify_all();
    }

    fn acquire(&self, which: u8) -> Result<(), Over> {
        let mut counts = open(&self.counts);
        loop {
            if counts.1 {
                return Err(Over);
            }
            let count = &mut counts.0[usize::from(which)];
            if *count > 0 {
                *count -= 1;
                return Ok(());
            }
            counts = self.changed.wait(counts).expect("no panic");
        }
    }

    pub fn end(&self) {
        open(&self.counts).1 = true;
        self.changed.notify_all();
    }
}

/// What the watch knows of a rank.
pub struct Watched {
    pub inquiry: Arc<AtomicU32>,
    pub bells: Arc<Mutex<Vec<Arc<dyn Bell>>>>,
    /// The rank's own threads.
    pub threads: Arc<Mutex<Vec<u32>>>,
    pub places: Vec<AtomicU8>,
    pub semaphores: Semaphores,
    pub comms: Mutex<Vec<Arc<Comm>>>,
}

/// What the ranks tell.
#[derive(Default)]
pub struct Told {
    pub answers: Mutex<BTreeMap<u32, RankWaits>>,
    pub ended: Mutex<BTreeMap<u32, Vec<Link>>>,
    pub something: Condvar,
}

fn compute(microseconds: u16, asleep: bool) {
    let time = Duration::from_micros(microseconds.into());
    if asleep {
        std::thread::sleep(time);
        return;
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn barrier(comm: &Comm) -> Result<(), Over> {
    let barrier = coll::barrier(&Members::of(comm)).map_err(|_| Over)?;
    comm.run(barrier).map_err(|_| Over)
}

fn play(
    program: &[Step],
    place: &AtomicU8,
    comms: &[Arc<Comm>],
    semaphores: &Semaphores,
) -> Result<(), Over> {
    let source = |from: Option<u8>| from.map_or(Source::Any, |from| Source::Rank(from.into()));
    let mut data = [7_u8; 8];
    for step in program {
        match *step {
            Step::Send {
                to,
                tag,
                comm,
                synchronous,
            } => {
                let mode = match synchronous {
                    true => SendMode::Synchronous,
                    false => SendMode::Standard,
                };
                let to = Target::Rank(to.into());
                let sent = comms[usize::from(comm)].send(mode, over(&mut data), to, tag.into());
                sent.map_err(|_| Over)?;
            }
            Step::Receive { from, tag, comm } => {
                let tag = tag.map_or(TagPattern::Any, |tag| TagPattern::Exact(tag.into()));
                let got = comms[usize::from(comm)].recv(over(&mut data), source(from), tag);
                got.map_err(|_| Over)?;
            }
            Step::Probe { from, comm } => {
                let found = comms[usize::from(comm)].probe(source(from), TagPattern::Any);
                found.map_err(|_| Over)?;
            }
            Step::Barrier { twin } => barrier(&comms[usize::from(twin)])?,
            Step::Post(which) => semaphores.post(which),
            Step::Await(which) => semaphores.acquire(which)?,
            Step::Compute {
                microseconds,
                asleep,
            } => compute(microseconds, asleep),
        }
        place.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// One rank, whose first thread this is.
pub fn rank(
    fabric: Box<dyn Fabric>,
    programs: &[Vec<Step>],
    at_once: bool,
    (me, watched, told): (u32, &Watched, &Arc<Told>),
) {
    let process = Process::new(Box::new(Inquired {
        inner: fabric,
        inquiry: Arc::clone(&watched.inquiry),
        bells: Arc::clone(&watched.bells),
    }));
    if at_once {
        process.let_threads_call_at_once();
    }
    let threads = Arc::clone(&watched.threads);
    open(&threads).push(weft_sys::process::thread_id());
    process.set_threads(move || {
        let threads = open(&threads);
        threads.iter().map(|id| (*id, String::new())).collect()
    });
    let world = process.world();
    let comms: Vec<Arc<Comm>> = (0..=COMMS)
        .map(|_| world.dup().expect("all of them"))
        .collect();
    open(&watched.comms).clone_from(&comms);
    let listener = Arc::clone(told);
    process.hear_waits(move |waits| {
        open(&listener.answers).insert(me, waits);
        listener.something.notify_all();
    });
    let there = Barrier::new(programs.len());
    let played = std::thread::scope(|scope| {
        let others: Vec<_> = (1..programs.len())
            .map(|thread| {
                let (there, comms) = (&there, &comms);
                scope.spawn(move || {
                    let id = weft_sys::process::thread_id();
                    open(&watched.threads).push(id);
                    there.wait();
                    let place = &watched.places[thread];
                    let played = play(&programs[thread], place, comms, &watched.semaphores);
                    open(&watched.threads).retain(|other| *other != id);
                    played
                })
            })
            .collect();
        there.wait();
        let first = &watched.places[0];
        let played = play(&programs[0], first, &comms, &watched.semaphores);
        let others = others.into_iter().map(|one| one.join().expect("no panic"));
        let ended = others.fold(played, Result::and);
        ended.and_then(|()| {
            first.fetch_add(1, Ordering::Relaxed);
            barrier(&comms[usize::from(COMMS)])
        })
    });
    if played.is_ok() {
        process.drain();
        watched.places[0].fetch_add(1, Ordering::Relaxed);
    }
    open(&told.ended).insert(me, Vec::new());
    told.something.notify_all();
    drop(world);
    open(&watched.comms).clear();
    process.release();
}
