//! Random programs under simulation, of which many come to a standstill: who watches by inquiries proves a standstill where
//! there is one, and nowhere else. The plain reference is the simulated machine, which knows the whole state: it ends a run
//! in which nobody can go on. In the memory of one host what was sent is there; between several hosts it takes its time, which
//! jitter and partitions make longer.
//!
//! `WEFT_SEEDS=100000` runs so many programs of each, `WEFT_FIRST_SEED=50000` begins later.

#[path = "deadlocks/judge.rs"]
pub mod judge;
#[path = "deadlocks/network.rs"]
mod network;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::over;
use judge::Judge;
use network::{Counted, Hosts};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use weft_fabric::{Bell, Fabric, Ticket, forward_bell};
use weft_fabric_sim::{Cause, Config, Cost, Handle, World};
use weft_mpi::coll::{self, Members};
use weft_mpi::waits::{Link, RankWaits};
use weft_mpi::{Comm, Group, Process, SendMode, Source, TagPattern, Target};

/// Inquiries after which the watch gives up: far more than any of these programs takes.
const MOST_INQUIRIES: u32 = 400;

/// What the watch and the ranks share, besides the machine: each with the time at which it was said, as no rank may hear of what its clock has
/// not come to.
#[derive(Default)]
struct Watched {
    inquiry: Arc<Mutex<(u32, Duration)>>,
    bells: Mutex<Vec<Handle>>,
    answers: Arc<Mutex<BTreeMap<u32, (Duration, RankWaits)>>>,
    /// Ranks that have come to their end, with what they have exchanged: what they sent may be on its way yet.
    ended: Mutex<BTreeMap<u32, (Duration, Vec<Link>)>>,
}

impl Watched {
    /// Those that have come to their end by now.
    fn ended_by(&self, now: Duration) -> BTreeMap<u32, Vec<Link>> {
        let ended = self.ended.lock().expect("no panic");
        let ended = ended.iter().filter(|(_, (at, _))| *at <= now);
        ended
            .map(|(rank, (_, links))| (*rank, links.clone()))
            .collect()
    }
}

/// A bell that tells of inquiries.
struct InquiredBell {
    inner: Arc<dyn Bell>,
    inquiry: Arc<Mutex<(u32, Duration)>>,
    handle: Handle,
    /// Before a rank sees that there is one, others run for a while, now and then.
    loses_core: Mutex<StdRng>,
}

impl Bell for InquiredBell {
    forward_bell!(self => self.inner; prepare, cancel, wait, ring, load, yield_core, shares_core, change_core, stands_apart,
        polls_per_clock_read);

    fn inquiry(&self) -> u32 {
        let mut random = self.loses_core.lock().expect("no panic");
        if random.random_bool(0.1) {
            let nanoseconds = random.random_range(100..40_000);
            self.handle.spend(Duration::from_nanos(nanoseconds));
        }
        let (number, asked) = *self.inquiry.lock().expect("no panic");
        // Whoever is rung wakes at a time of its own.
        let ahead = asked.saturating_sub(self.handle.now());
        if ahead > Duration::ZERO {
            self.handle.spend(ahead);
        }
        number
    }
}

/// A step of a rank's program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send {
        to: u32,
        tag: i32,
        bytes: usize,
        mode: SendMode,
        twin: bool,
    },
    Receive {
        from: Option<u32>,
        tag: Option<i32>,
        twin: bool,
    },
    Probe {
        from: Option<u32>,
        twin: bool,
    },
    Barrier {
        twin: bool,
    },
    Compute(u64),
}

/// Programs of all ranks: made such that they fit each other, then spoilt here and there.
fn programs(ranks: u32, random: &mut StdRng) -> Vec<Vec<Step>> {
    let mut all = vec![Vec::new(); ranks as usize];
    for _ in 0..random.random_range(1..12) {
        let twin = random.random_bool(0.3);
        match random.random_range(0..10) {
            0 => all
                .iter_mut()
                .for_each(|one| one.push(Step::Barrier { twin })),
            1 => {
                let who = random.random_range(0..ranks) as usize;
                all[who].push(Step::Compute(random.random_range(1..20_000)));
            }
            _ => {
                let (from, to) = (random.random_range(0..ranks), random.random_range(0..ranks));
                let tag = random.random_range(0..2);
                let modes = [SendMode::Standard, SendMode::Synchronous];
                let send = Step::Send {
                    to,
                    tag,
                    bytes: [0, 8, 3000, 20_000][random.random_range(0..4)],
                    mode: modes[usize::from(random.random_bool(0.3))],
                    twin,
                };
                let receive = Step::Receive {
                    from: random.random_bool(0.7).then_some(from),
                    tag: random.random_bool(0.7).then_some(tag),
                    twin,
                };
                all[from as usize].push(send);
                if random.random_bool(0.1) {
                    let from = Some(from);
                    all[to as usize].push(Step::Probe { from, twin });
                }
                all[to as usize].push(receive);
            }
        }
    }
    for _ in 0..random.random_range(0..3) {
        let one = &mut all[random.random_range(0..ranks) as usize];
        if one.is_empty() {
            continue;
        }
        let at = random.random_range(0..one.len());
        match random.random_range(0..3) {
            0 => _ = one.remove(at),
            1 => one.swap(0, at),
            _ => one.insert(at, one[at]),
        }
    }
    all
}

fn play(program: &[Step], world: &Comm, twin: &Comm, handle: &Handle) {
    let which = |is_twin: bool| if is_twin { twin } else { world };
    let source = |from: Option<u32>| from.map_or(Source::Any, Source::Rank);
    for step in program {
        match *step {
            Step::Send {
                to,
                tag,
                bytes,
                mode,
                twin,
            } => {
                let mut data = vec![7; bytes];
                let sent = which(twin).send(mode, over(&mut data), Target::Rank(to), tag);
                sent.expect("nobody is lost");
            }
            Step::Receive { from, tag, twin } => {
                let mut data = vec![0; 20_000];
                let tag = tag.map_or(TagPattern::Any, TagPattern::Exact);
                let got = which(twin).recv(over(&mut data), source(from), tag);
                got.expect("it fits");
            }
            Step::Probe { from, twin } => {
                let found = which(twin).probe(source(from), TagPattern::Any);
                found.expect("nobody is lost");
            }
            Step::Barrier { twin } => {
                let comm = which(twin);
                let barrier = coll::barrier(&Members::of(comm)).expect("members");
                // What does not fit is an error to some: they go on.
                let _ = comm.run(barrier);
            }
            Step::Compute(nanoseconds) => handle.spend(Duration::from_nanos(nanoseconds)),
        }
    }
}

/// The watch, which is the last rank of the machine and none of MPI's. True if it has proven a standstill.
fn watch(ranks: u32, watched: &Watched, handle: &Handle, random: &mut StdRng) -> bool {
    let mut judge = Judge::default();
    for number in 1..MOST_INQUIRIES {
        if watched.ended_by(handle.now()).len() == ranks as usize {
            return false;
        }
        *watched.inquiry.lock().expect("no panic") = (2 * number, handle.now());
        watched.answers.lock().expect("no panic").clear();
        for bell in watched.bells.lock().expect("no panic").iter() {
            bell.ring();
        }
        // Ranks that compute for longer do not answer in time.
        let _ticket = handle.prepare();
        let patience = random.random_range(1_000..20_000);
        handle.wait(Ticket(0), Some(Duration::from_nanos(patience)));
        let now = handle.now();
        let answers = watched.answers.lock().expect("no panic").clone();
        // Some are late, and answer the one before.
        let in_time =
            |(at, answer): &(Duration, RankWaits)| *at <= now && answer.inquiry == 2 * number;
        let answers = answers.into_iter().filter(|(_, told)| in_time(told));
        let ended = watched.ended_by(now);
        let answers = answers.map(|(rank, (_, answer))| (rank, answer));
        if judge.is_standstill(ranks, answers.collect(), ended) {
            return true;
        }
    }
    false
}

/// Runs the programs of a seed, on one host or on several ones: whether a standstill was proven, and whether there was one.
fn verdicts(seed: u64, several_hosts: bool) -> (bool, bool) {
    let mut random = StdRng::seed_from_u64(seed);
    let ranks = random.random_range(2..5);
    let programs = programs(ranks, &mut random);
    let mut config = Config::new(ranks as usize + 1, seed);
    // As in memory: what was sent is there.
    config.jitter = 0;
    config.cost = Cost {
        latency: Duration::ZERO,
        gap: Duration::ZERO,
        byte: 0,
        ..Cost::default()
    };
    let hosts = match several_hosts {
        false => Hosts::one(ranks),
        true => Hosts::several(ranks, &mut random, &mut config),
    };
    let watched = Watched::default();
    let proven = Mutex::new(false);
    let outcome = World::new(config).run(|endpoint| {
        let (me, handle) = (endpoint.me(), endpoint.handle());
        if me.0 == ranks {
            let mut random = StdRng::seed_from_u64(!seed);
            let found = watch(ranks, &watched, &handle, &mut random);
            *proven.lock().expect("no panic") = found;
            if !found {
                return;
            }
            // The others would hear of its end, and wake: it stays until the machine ends the run.
            loop {
                let ticket = handle.prepare();
                handle.wait(ticket, None);
            }
        }
        watched.bells.lock().expect("no panic").push(handle.clone());
        let bell = InquiredBell {
            inner: endpoint.bell(),
            inquiry: Arc::clone(&watched.inquiry),
            handle: handle.clone(),
            loses_core: Mutex::new(StdRng::seed_from_u64(seed << 3 | u64::from(me.0))),
        };
        let fabric = Box::new(Counted::new(endpoint, Arc::new(bell), &hosts));
        let links = fabric.links();
        let process = Process::in_world(fabric, ranks, Group::identity(ranks), 0);
        if seed % 2 == 1 {
            // Small messages wait for their receive, too, from the third one on.
            process.set_credit_window(300);
        }
        let world = process.world();
        let [twin, last] = [(); 2].map(|()| world.dup().expect("all of them"));
        let answers = Arc::clone(&watched.answers);
        // All ranks and the test itself are threads of one process, and none calls for another.
        process.one_thread_calls(true);
        let clock = handle.clone();
        process.hear_waits(move |waits| {
            let told = (clock.now(), waits);
            answers.lock().expect("no panic").insert(me.0, told);
        });
        play(&programs[me.index()], &world, &twin, &handle);
        // As in MPI_Finalize, where nobody leaves before all have come.
        let barrier = coll::barrier(&Members::of(&last)).expect("members");
        last.run(barrier).expect("nobody is lost");
        process.drain();
        let links = links.spoken().into_iter().map(Into::into).collect();
        let ended = (handle.now(), links);
        watched.ended.lock().expect("no panic").insert(me.0, ended);
    });
    let stood = match outcome {
        Ok(_) => false,
        Err(failure) => match failure.cause {
            Cause::Deadlock(stuck) => stuck.iter().any(|one| one.peer.0 != ranks),
            other => panic!("seed {seed}: {other:?}"),
        },
    };
    let proven = *proven.lock().expect("no panic");
    if proven != stood {
        println!("seed {seed}: {programs:#?}");
    }
    (proven, stood)
}

fn agree(several_hosts: bool, usual: u64) {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let seeds = match number("WEFT_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("WEFT_FIRST_SEED").unwrap_or(0);
            first..first + number("WEFT_SEEDS").unwrap_or(usual)
        }
    };
    let (mut stood, mut ran) = (0, 0);
    for seed in seeds.clone() {
        let (proven, stands) = verdicts(seed, several_hosts);
        assert_eq!(proven, stands, "seed {seed}: proven, stands");
        stood += u32::from(stands);
        ran += u32::from(!stands);
    }
    println!("{stood} standstills, {ran} programs that came to their end");
    let few = if seeds.end - seeds.start > 1 {
        (stood + ran) / 20
    } else {
        0
    };
    assert!(stood >= few && ran >= few, "{stood} and {ran}");
}

#[test]
fn what_is_proven_is_a_standstill_and_each_standstill_is_proven() {
    agree(false, 1500);
}

#[test]
fn standstills_between_hosts_are_proven_on_any_network() {
    agree(true, 600);
}
