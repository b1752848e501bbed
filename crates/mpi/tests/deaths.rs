//! Random traffic in which ranks die: whatever is said to have succeeded is right, whatever has ended leaves its
//! buffer alone, and what concerns the dead ends.
//!
//! Every rank begins sends, receives and collectives at random, of all protocols, and never waits. A message is known
//! by its sender and its tag, which say whom it is for and what its bytes are. When a request has ended its buffer
//! is overwritten, and must stay so.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::pattern;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weft_fabric::Peer;
use weft_fabric_sim::{Config, Fault, World};
use weft_mpi::coll::{self, Members, Reduction};
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::op::Predefined;
use weft_mpi::{
    Buffer, Comm, ErrorClass, Op, Process, RequestId, SendMode, Source, Status, TagPattern, Target,
};

/// Seeds that are played, unless one is named.
const SEEDS: u64 = 60;

/// Names the only seed to play, and has its trace shown if it fails.
const VARIABLE: &str = "WEFT_SEED";

/// Most bytes of a message.
const MOST: usize = 12_000;

/// What a buffer is overwritten with when its request has ended.
const CANARY: u8 = 0xc3;

/// Nobody dies later, and nobody begins anything later.
const BUSY: Duration = Duration::from_micros(200);

/// When all that concerns the dead has ended: they are noticed after 50 microseconds.
const QUIET: Duration = Duration::from_micros(800);

/// Whom a message is for, and its bytes.
fn message(seed: u64, from: u32, tag: i32, ranks: u32) -> (u32, Vec<u8>) {
    let number = u64::from(from) << 32 | u64::from(tag.cast_unsigned());
    let mut random = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9) ^ number);
    let most = [0, 8, 100, 2500, MOST][random.random_range(0..5)];
    let to = random.random_range(0..ranks);
    (
        to,
        pattern(random.random_range(0..=most), random.random_range(0..256)),
    )
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Send {
        to: u32,
    },
    Receive {
        from: Option<u32>,
        typed: bool,
        persistent: bool,
    },
    Broadcast {
        root: u32,
        number: usize,
    },
    Sum {
        number: usize,
    },
}

/// A request and its memory.
struct Held {
    kind: Kind,
    request: Option<RequestId>,
    room: Vec<u8>,
    own: Vec<u8>,
}

impl Held {
    fn is_intact(&self) -> bool {
        let canary = |bytes: &[u8]| bytes.iter().all(|byte| *byte == CANARY);
        self.request.is_some() || canary(&self.room) && canary(&self.own)
    }
}

struct Player<'a> {
    process: Arc<Process>,
    world: Arc<Comm>,
    random: StdRng,
    seed: u64,
    dead: &'a [u32],
    held: Vec<Held>,
    came: HashSet<(u32, i32)>,
    next_tag: i32,
    collectives: usize,
}

fn flat(bytes: &mut [u8]) -> Buffer {
    crate::common::over(bytes)
}

/// Two bytes, a gap of two.
fn with_gaps() -> Arc<Datatype> {
    let datatype = Datatype::vector(MOST as i64 / 2, 2, 4, Basic::Byte.datatype()).unwrap();
    datatype.commit();
    datatype
}

/// What every rank gives to a reduction, and the sum of all.
fn summands(number: usize, rank: u32) -> Vec<i64> {
    let count = [1, 40, 1200][number % 3];
    (0..count)
        .map(|place| place * 7 + i64::from(rank) * 3 + number as i64)
        .collect()
}

fn bytes_of(values: &[i64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

impl Player<'_> {
    fn ranks(&self) -> u32 {
        self.world.size()
    }

    fn begin(&mut self) {
        let me = self.world.rank();
        let held = match self.random.random_range(0..9) {
            0..4 => {
                let tag = self.next_tag;
                self.next_tag += 1;
                let (to, mut room) = message(self.seed, me, tag, self.ranks());
                let mode = [SendMode::Standard, SendMode::Synchronous][tag as usize % 2];
                let begun = self
                    .world
                    .isend(mode, flat(&mut room), Target::Rank(to), tag);
                let request = match begun {
                    Ok(request) => Some(request),
                    Err(error) => {
                        assert_eq!(error.class(), ErrorClass::ProcFailed);
                        room.fill(CANARY);
                        None
                    }
                };
                Held {
                    kind: Kind::Send { to },
                    request,
                    room,
                    own: Vec::new(),
                }
            }
            4..8 => {
                let from = self
                    .random
                    .random::<bool>()
                    .then(|| self.random.random_range(0..self.ranks()));
                let (typed, persistent) = (
                    self.random.random_ratio(1, 3),
                    self.random.random_ratio(1, 3),
                );
                let mut room = vec![0; 2 * MOST];
                let buffer = if typed {
                    // SAFETY: the memory is kept as long as the process.
                    unsafe { Buffer::new(room.as_mut_ptr(), 1, &with_gaps()) }
                } else {
                    flat(&mut room[..MOST])
                };
                let source = from.map_or(Source::Any, Source::Rank);
                let request = if persistent {
                    let request = self
                        .world
                        .recv_init(buffer, source, TagPattern::Any)
                        .unwrap();
                    self.process.start(request).unwrap();
                    request
                } else {
                    self.world.irecv(buffer, source, TagPattern::Any).unwrap()
                };
                let kind = Kind::Receive {
                    from,
                    typed,
                    persistent,
                };
                Held {
                    kind,
                    request: Some(request),
                    room,
                    own: Vec::new(),
                }
            }
            _ => {
                let number = self.collectives;
                self.collectives += 1;
                let members = Members::of(&self.world);
                let mut own = bytes_of(&summands(number, me));
                let (schedule, kind, room) = if number.is_multiple_of(2) {
                    let root = number as u32 / 2 % self.ranks();
                    let schedule = coll::bcast(&members, &flat(&mut own), root as usize);
                    (schedule, Kind::Broadcast { root, number }, Vec::new())
                } else {
                    let mut room = vec![0; own.len()];
                    let datatype = Arc::clone(Basic::Int64.datatype());
                    let count = own.len() / 8;
                    // SAFETY: the memory is kept as long as the process.
                    let over = |bytes: &mut Vec<u8>| unsafe {
                        Buffer::new(bytes.as_mut_ptr(), count, &datatype)
                    };
                    let (own, all) = (over(&mut own), over(&mut room));
                    let reduction = Reduction {
                        count,
                        datatype: Arc::clone(&datatype),
                        op: Op::predefined(Predefined::Sum),
                    };
                    (
                        coll::allreduce(&members, &own, &all, &reduction),
                        Kind::Sum { number },
                        room,
                    )
                };
                let request = self.world.begin(schedule.unwrap()).unwrap();
                Held {
                    kind,
                    request: Some(request),
                    room,
                    own,
                }
            }
        };
        self.held.push(held);
    }

    /// Looks at a request: if it has ended, it is judged and its memory overwritten.
    fn look(&mut self, place: usize) {
        let held = &mut self.held[place];
        assert!(
            held.is_intact(),
            "{:?} has ended, and its memory was written to",
            held.kind
        );
        let Some(request) = held.request else { return };
        if let Kind::Receive {
            persistent: false, ..
        } = held.kind
            && self.random.random_ratio(1, 40)
        {
            self.process.cancel(request).unwrap();
        }
        let status = match self.process.test(request) {
            Ok(None) => return,
            Ok(Some(status)) => Some(status),
            Err(error) if error.class() == ErrorClass::ProcFailedPending => {
                assert!(matches!(held.kind, Kind::Receive { from: None, .. }));
                self.world.acknowledge_failed(usize::MAX);
                return;
            }
            Err(error) => {
                // Who has ended a collective for a loss withdraws what it sent to the others.
                let withdrawn = error.class() == ErrorClass::Other
                    && matches!(held.kind, Kind::Broadcast { .. } | Kind::Sum { .. });
                assert!(
                    withdrawn || error.class() == ErrorClass::ProcFailed,
                    "{:?}: {error}",
                    held.kind
                );
                None
            }
        };
        let held = &mut self.held[place];
        held.request = None;
        let (kind, room, own) = (
            held.kind,
            std::mem::take(&mut held.room),
            std::mem::take(&mut held.own),
        );
        if let Some(status) = status {
            self.judge(kind, &status, &room, &own);
        }
        let held = &mut self.held[place];
        (held.room, held.own) = (room, own);
        held.room.fill(CANARY);
        held.own.fill(CANARY);
        if let Kind::Receive {
            persistent: true, ..
        } = kind
            && self.random.random_ratio(1, 4)
        {
            // Nothing but the new start may write to it.
            self.process.start(request).unwrap();
            held.request = Some(request);
        }
    }

    fn judge(&mut self, kind: Kind, status: &Status, room: &[u8], own: &[u8]) {
        let (me, ranks) = (self.world.rank(), self.ranks());
        match kind {
            Kind::Send { .. } => {}
            Kind::Receive { .. } if status.cancelled => {}
            Kind::Receive { from, typed, .. } => {
                let source = status.source.expect("somebody sent it");
                assert!(from.is_none_or(|from| from == source));
                let (to, bytes) = message(self.seed, source, status.tag, ranks);
                let size = status.bytes as usize;
                let got: Vec<u8> = if typed {
                    room.chunks(4)
                        .flat_map(|four| &four[..2])
                        .take(size)
                        .copied()
                        .collect()
                } else {
                    room[..size].to_vec()
                };
                assert_eq!(to, me, "{source} has sent {} to another", status.tag);
                assert!(
                    got == bytes,
                    "{source} has sent other bytes with {}: {kind:?}",
                    status.tag
                );
                assert!(self.came.insert((source, status.tag)), "twice");
            }
            Kind::Broadcast { root, number } => {
                assert!(own == bytes_of(&summands(number, root)), "{kind:?}");
            }
            Kind::Sum { number } => {
                let mut sum = vec![0; own.len() / 8];
                for rank in 0..ranks {
                    for (sum, one) in sum.iter_mut().zip(summands(number, rank)) {
                        *sum += one;
                    }
                }
                assert!(room == bytes_of(&sum), "{kind:?}");
            }
        }
    }

    /// What cannot go on without one that is dead.
    fn concerns_the_dead(&self, kind: Kind) -> bool {
        let dead = |rank: u32| self.dead.contains(&rank);
        match kind {
            Kind::Send { to } => dead(to),
            Kind::Receive { from, .. } => from.is_some_and(dead),
            Kind::Broadcast { .. } | Kind::Sum { .. } => true,
        }
    }

    fn play(&mut self) {
        while self.process.now() < BUSY {
            if self.held.len() < 60 && self.random.random_ratio(1, 3) {
                self.begin();
            }
            if !self.held.is_empty() {
                let place = self.random.random_range(0..self.held.len());
                self.look(place);
            }
            _ = self.world.iprobe(Source::Any, TagPattern::Exact(i32::MAX));
        }
        // Looks pass time.
        while self.process.now() < QUIET {
            _ = self.world.iprobe(Source::Any, TagPattern::Exact(i32::MAX));
            for place in 0..self.held.len() {
                if self.random.random_ratio(1, 20) {
                    self.look(place);
                }
            }
        }
        for place in 0..self.held.len() {
            self.look(place);
            let held = &self.held[place];
            assert!(
                held.request.is_none() || !self.concerns_the_dead(held.kind),
                "{:?} has not ended, and {:?} are dead",
                held.kind,
                self.dead
            );
        }
    }
}

fn one(seed: u64, trace: usize) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let ranks: u32 = random.random_range(3..6);
    let base = if seed.is_multiple_of(2) {
        Config::new(ranks as usize, seed)
    } else {
        Config::faulty(ranks as usize, seed)
    };
    let mut config = Config { trace, ..base };
    // Nobody has anything else to do: time passes with fewer looks.
    config.cost.poll = Duration::from_nanos(400);
    let dead: Vec<u32> = (0..random.random_range(1..ranks)).collect();
    for peer in &dead {
        let at = random.random_range(5..BUSY.as_micros() as u64);
        config = config.with(Fault::Death {
            peer: Peer(*peer),
            at: Duration::from_micros(at),
        });
    }
    let faults = format!("{:?}", config.faults);
    let outcome = World::new(config).run(|endpoint| {
        let process = Process::new(Box::new(endpoint));
        let mine = u64::from(process.me().0) << 32 | seed;
        let mut player = Player {
            world: process.world(),
            process: Arc::clone(&process),
            random: StdRng::seed_from_u64(mine),
            seed,
            dead: &dead,
            held: Vec::new(),
            came: HashSet::new(),
            next_tag: 0,
            collectives: 0,
        };
        player.play();
    });
    outcome.map(drop).map_err(|failure| {
        format!(
            "seed {seed}: {failure}\nfaults: {faults}\nagain, with the last events: \
             {VARIABLE}={seed} cargo test -p weft-mpi --test engine deaths::"
        )
    })
}

#[test]
fn what_ends_beside_the_dead_has_ended_and_is_right() {
    let named = std::env::var(VARIABLE).ok().map(|seed| seed.parse::<u64>());
    let outcome = match named {
        Some(seed) => one(seed.expect("a number is the seed"), 400),
        None => (0..SEEDS).try_for_each(|seed| one(seed, 0)),
    };
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
