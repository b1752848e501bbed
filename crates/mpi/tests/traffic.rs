//! Random traffic on a bad network: links that are slow, and links that are down for a while, by seed. Every
//! message arrives once, in its order, with its bytes.
//!
//! All ranks know the plan, which the seed makes: in each round every rank sends some messages to some ranks and
//! receives what is sent to it, in one of several ways; then comes a collective.

use std::sync::Arc;

use crate::common::{over, pattern};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use weft_fabric_sim::{Config, World};
use weft_mpi::coll::{self, Blocks, Members, Reduction};
use weft_mpi::datatype::Basic;
use weft_mpi::op::Predefined;
use weft_mpi::{Buffer, Comm, Op, Process, RequestId, SendMode, Source, TagPattern, Target};

/// Seeds that are played, unless one is named.
const SEEDS: u64 = 300;

/// Names the only seed to play, and has its trace shown if it fails.
const VARIABLE: &str = "WEFT_SEED";

const TAGS: i32 = 3;

#[derive(Clone, Copy, Debug)]
struct Message {
    from: u32,
    to: u32,
    tag: i32,
    size: usize,
    mode: SendMode,
    /// No other message has this one.
    number: usize,
}

impl Message {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = pattern(self.size, self.number);
        let number = self.number.to_le_bytes();
        let marked = bytes.len().min(number.len());
        bytes[..marked].copy_from_slice(&number[..marked]);
        bytes
    }
}

/// How a rank receives what is sent to it.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// From whom and with which tag it is known to come, the pairs in any order.
    Exact,
    /// From anybody, any tag.
    Anything,
    /// From anybody, by tag.
    ByTag,
    /// Looks first, then takes that very message.
    Probing,
}

#[derive(Debug)]
struct Round {
    messages: Vec<Message>,
    ways: Vec<Way>,
    /// Receives before it sends.
    early: Vec<bool>,
    collective: u32,
    count: usize,
    root: u32,
}

fn plan(ranks: u32, random: &mut StdRng) -> Vec<Round> {
    let mut number = 0;
    let mut message = |round: i32, random: &mut StdRng| {
        number += 1;
        let most = [0, 8, 100, 2500, 40_000][random.random_range(0..5)];
        let modes = [
            SendMode::Standard,
            SendMode::Standard,
            SendMode::Synchronous,
        ];
        Message {
            from: random.random_range(0..ranks),
            to: random.random_range(0..ranks),
            tag: round * TAGS + random.random_range(0..TAGS),
            size: random.random_range(0..=most),
            mode: modes[random.random_range(0..3)],
            number,
        }
    };
    let rounds = random.random_range(1..4);
    (0..rounds)
        .map(|round| Round {
            messages: (0..random.random_range(0..40))
                .map(|_| message(round, random))
                .collect(),
            ways: (0..ranks)
                .map(|_| {
                    [Way::Exact, Way::Anything, Way::ByTag, Way::Probing][random.random_range(0..4)]
                })
                .collect(),
            early: (0..ranks).map(|_| random.random()).collect(),
            collective: random.random_range(0..4),
            count: [1, 10, 700][random.random_range(0..3)],
            root: random.random_range(0..ranks),
        })
        .collect()
}

/// What is to come, by source and tag, in order.
struct Expected {
    messages: Vec<Message>,
}

impl Expected {
    /// Something has come: it must be the next that may come from there under this pattern.
    fn came(&mut self, source: Option<u32>, tag: i32, any_tag: bool, bytes: &[u8]) {
        let from = source.expect("somebody sent it");
        let next = self
            .messages
            .iter()
            .position(|one| one.from == from && (any_tag || one.tag == tag));
        let next =
            next.unwrap_or_else(|| panic!("from {from}, tag {tag}: more came than was sent"));
        let message = self.messages.remove(next);
        assert_eq!(message.tag, tag, "out of order: {message:?} was next");
        assert!(
            message.bytes() == bytes,
            "{message:?} was next, and {} bytes came that begin with {:?}",
            bytes.len(),
            &bytes[..bytes.len().min(8)]
        );
    }
}

fn begin_sends(world: &Comm, messages: &mut [(Message, Vec<u8>)]) -> Vec<RequestId> {
    let begin = |(message, bytes): &mut (Message, Vec<u8>)| {
        let to = Target::Rank(message.to);
        world
            .isend(message.mode, over(bytes), to, message.tag)
            .unwrap()
    };
    messages.iter_mut().map(begin).collect()
}

/// Receives all that is sent to this rank in one round. `between` is done when receives are posted.
fn receive(
    process: &Arc<Process>,
    world: &Comm,
    way: Way,
    messages: Vec<Message>,
    random: &mut StdRng,
    between: impl FnOnce(),
) {
    let mut posts = messages.clone();
    let mut expected = Expected { messages };
    if let Way::Exact = way {
        posts.shuffle(random);
    }
    if let Way::Probing = way {
        between();
        for _ in posts {
            let status = world.probe(Source::Any, TagPattern::Any).unwrap();
            let (source, tag) = (status.source, status.tag);
            let mut room = vec![0; status.bytes as usize];
            let from = Source::Rank(source.expect("somebody sent it"));
            let got = world
                .recv(over(&mut room), from, TagPattern::Exact(tag))
                .unwrap();
            assert_eq!(got.bytes, status.bytes);
            expected.came(source, tag, false, &room);
        }
        return;
    }
    let mut rooms: Vec<Vec<u8>> = posts.iter().map(|_| vec![0; 40_000]).collect();
    let post = |(message, room): (&Message, &mut Vec<u8>)| {
        let (from, tag) = match way {
            Way::Exact => (Source::Rank(message.from), TagPattern::Exact(message.tag)),
            Way::ByTag => (Source::Any, TagPattern::Exact(message.tag)),
            Way::Anything | Way::Probing => (Source::Any, TagPattern::Any),
        };
        world.irecv(over(room), from, tag).unwrap()
    };
    let requests: Vec<_> = posts.iter().zip(&mut rooms).map(post).collect();
    between();
    // In the order of posting each matches the next that is there for it; they are waited for in any order.
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.shuffle(random);
    let mut ended = vec![None; requests.len()];
    for place in order {
        ended[place] = Some(process.wait(requests[place]).unwrap());
    }
    for (status, room) in ended.into_iter().flatten().zip(&rooms) {
        let any_tag = matches!(way, Way::Anything);
        expected.came(
            status.source,
            status.tag,
            any_tag,
            &room[..status.bytes as usize],
        );
    }
    assert!(expected.messages.is_empty());
}

fn barrier(world: &Comm) {
    let schedule = coll::barrier(&Members::of(world)).unwrap();
    world.run(schedule).unwrap();
}

fn collective(world: &Comm, round: &Round) {
    let members = Members::of(world);
    let (size, count, datatype) = (members.size, round.count, Basic::Int64.datatype());
    let of = |rank: usize| (0..count as i64).map(move |place| place * 7 + rank as i64);
    // SAFETY: what is run has ended before the values are looked at.
    let buffer = |values: &mut Vec<i64>| unsafe {
        Buffer::new(values.as_mut_ptr().cast(), values.len(), datatype)
    };
    let mut own: Vec<i64> = of(members.rank).collect();
    match round.collective {
        0 => barrier(world),
        1 => {
            let root = round.root as usize;
            world
                .run(coll::bcast(&members, &buffer(&mut own), root).unwrap())
                .unwrap();
            assert!(own.into_iter().eq(of(root)));
        }
        2 => {
            let mut all = vec![0; count];
            let reduction = Reduction {
                count,
                datatype: Arc::clone(datatype),
                op: Op::predefined(Predefined::Sum),
            };
            let schedule =
                coll::allreduce(&members, &buffer(&mut own), &buffer(&mut all), &reduction);
            world.run(schedule.unwrap()).unwrap();
            let sum = |place: i64| (0..size as i64).map(|rank| place * 7 + rank).sum();
            assert!(all.into_iter().eq((0..count as i64).map(sum)));
        }
        _ => {
            let mut all = vec![0i64; count * size];
            // SAFETY: as above.
            let blocks = unsafe { Blocks::even(all.as_mut_ptr().cast(), count, datatype, size) };
            let schedule = coll::allgather(&members, Some(&buffer(&mut own)), &blocks.unwrap());
            world.run(schedule.unwrap()).unwrap();
            assert!(all.into_iter().eq((0..size).flat_map(of)));
        }
    }
}

fn play(process: &Arc<Process>, rounds: &[Round], mut random: StdRng) {
    let world = process.world();
    let me = world.rank();
    for round in rounds {
        let of = |which: fn(&Message) -> u32| {
            let mine = round
                .messages
                .iter()
                .filter(move |message| which(message) == me);
            mine.copied().collect::<Vec<_>>()
        };
        let mut sent: Vec<_> = of(|message| message.from)
            .into_iter()
            .map(|message| (message, message.bytes()))
            .collect();
        let (way, early) = (round.ways[me as usize], round.early[me as usize]);
        let mut sends = Vec::new();
        let mut late = None;
        if early {
            late = Some(&mut sent);
        } else {
            sends = begin_sends(&world, &mut sent);
        }
        receive(
            process,
            &world,
            way,
            of(|message| message.to),
            &mut random,
            || {
                if let Some(sent) = late {
                    sends = begin_sends(&world, sent);
                }
            },
        );
        sends.shuffle(&mut random);
        for request in sends {
            process.wait(request).unwrap();
        }
        let wild = |way: &Way| matches!(way, Way::Anything | Way::Probing);
        if round.ways.iter().any(wild) {
            // Else somebody would take what is sent in the next round.
            barrier(&world);
        }
        collective(&world, round);
    }
    // What was doubled would have come by now.
    barrier(&world);
    assert_eq!(world.iprobe(Source::Any, TagPattern::Any).unwrap(), None);
}

fn one(seed: u64, trace: usize) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let ranks = random.random_range(2..6);
    let rounds = plan(ranks, &mut random);
    let config = Config {
        trace,
        ..Config::faulty(ranks as usize, seed)
    };
    let faults = format!("{:?}", config.faults);
    let outcome = World::new(config).run(|endpoint| {
        let process = Process::new(Box::new(endpoint));
        // Most would never see that a window is used up.
        match seed % 4 {
            0 => process.set_credit_window(0),
            1 => process.set_credit_window(700),
            2 => process.set_credit_window(5000),
            _ => {}
        }
        let mine = u64::from(process.me().0) << 32 | seed;
        play(&process, &rounds, StdRng::seed_from_u64(mine));
        process.drain();
    });
    outcome.map(drop).map_err(|failure| {
        format!(
            "seed {seed}: {failure}\nfaults: {faults}\nagain, with the last events: \
             {VARIABLE}={seed} cargo test -p weft-mpi --test engine traffic::"
        )
    })
}

#[test]
fn every_message_arrives_once_in_order_with_its_bytes() {
    let named = std::env::var(VARIABLE).ok().map(|seed| seed.parse::<u64>());
    let outcome = match named {
        Some(seed) => one(seed.expect("a number is the seed"), 400),
        None => (0..SEEDS).try_for_each(|seed| one(seed, 0)),
    };
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
