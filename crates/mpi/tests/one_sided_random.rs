//! Random one-sided operations on windows of every kind, by ranks that run under a simulation with faults, against a model of
//! which values the standard allows. Programs shrink when one fails.
//!
//! A program is a list of phases, each an epoch of one kind for all ranks. A word of a window is used in one of two ways within
//! a phase:
//!
//! * *atomic*: by accumulating operations of all ranks. What they found must be explained by some order of all of them, in
//!   which those of one rank keep theirs, and which ends with the value that the word has after the phase. The same holds for all
//!   operations, plain ones too, where every one is made under an exclusive lock.
//! * *plain*: by puts and gets. What a get finds was there before the phase, or was put in it; unless its own rank knows
//!   better, because it has put something else and flushed since.
#![allow(missing_docs)]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use weft_fabric::Region;
use weft_fabric_sim::{Config, World};
use weft_mpi::coll::{self, Members};
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::info::Info;
use weft_mpi::op::Predefined;
use weft_mpi::rma::{Allocation, Assertion, Ends, Flavor, LockKind, TargetBuffer, Window};
use weft_mpi::{Buffer, Comm, Op, Process};

/// Words of each rank's memory.
const WORDS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Epoch {
    Fence,
    Post,
    LockAll,
    /// A lock for each operation.
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Put,
    Get,
    Accumulate(Predefined),
    GetAccumulate(Predefined),
    CompareAndSwap {
        compare: i64,
    },
    /// Under an exclusive lock: a get, then a put of the sum.
    GetThenPut,
}

/// What follows an operation, where the epoch lets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    Nothing,
    Flush,
    FlushAll,
    FlushLocal,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    kind: Kind,
    target: usize,
    place: usize,
    /// 1: one word, 2: two neighbours, 3: two with a gap.
    shape: u8,
    value: i64,
    after: After,
}

#[derive(Clone, Debug)]
struct Phase {
    epoch: Epoch,
    /// Words below it are used by accumulating operations, the others by puts and gets.
    atomic: usize,
    /// Of each rank.
    steps: Vec<Vec<Step>>,
}

#[derive(Clone, Debug)]
struct Program {
    ranks: usize,
    flavor: Flavor,
    one_host: bool,
    /// Elements are combined many at a time.
    coarse: bool,
    faulty: bool,
    seed: u64,
    phases: Vec<Phase>,
}

impl Phase {
    /// All of it behaves as if one operation came after the other.
    fn is_serial(&self) -> bool {
        self.epoch == Epoch::Exclusive
    }

    fn is_atomic(&self, word: usize) -> bool {
        self.is_serial() || word < self.atomic
    }

    /// The words that a step uses, by its way of using them; none if this phase has none for it.
    fn words(&self, step: &Step) -> Vec<usize> {
        let plain = matches!(step.kind, Kind::Put | Kind::Get);
        let range = match (self.is_serial(), plain) {
            (true, _) => 0..WORDS,
            (false, true) => self.atomic..WORDS,
            (false, false) => 0..self.atomic,
        };
        if step.kind == Kind::GetThenPut && !self.is_serial() {
            return Vec::new();
        }
        let single = matches!(step.kind, Kind::CompareAndSwap { .. } | Kind::GetThenPut);
        let reach = match step.shape {
            _ if single => 0,
            3 if range.len() > 2 => 2,
            2 if range.len() > 1 => 1,
            _ => 0,
        };
        if range.is_empty() {
            return Vec::new();
        }
        let first = range.start + step.place % (range.len() - reach);
        if reach == 0 {
            vec![first]
        } else {
            vec![first, first + reach]
        }
    }
}

// ---- Playing.

/// What the steps of one rank found, word by word of each step, and its memory at the end of the phase.
#[derive(Clone, Default, Debug)]
struct Seen {
    found: Vec<Vec<i64>>,
    memory: [i64; WORDS],
}

fn over(numbers: &mut [i64]) -> Region {
    // SAFETY: whoever plays keeps the numbers until the operation, or the window, has ended.
    unsafe { Region::new(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

/// The memory of one step: what it brings, what it compares with, what it finds.
struct Room {
    source: [i64; 2],
    compare: [i64; 1],
    found: [i64; 2],
}

/// One rank at play.
struct Player<'a> {
    program: &'a Program,
    me: usize,
    window: Arc<Window>,
    long: Arc<Datatype>,
    gap: Arc<Datatype>,
}

impl Player<'_> {
    fn read(&self, own: Region) -> [i64; WORDS] {
        let mut bytes = [0; WORDS * 8];
        own.copy_to_slice(&mut bytes);
        let mut words = bytes.as_chunks::<8>().0.iter();
        std::array::from_fn(|_| i64::from_ne_bytes(*words.next().expect("as many words")))
    }

    fn start(&self, step: &Step, words: &[usize], room: &mut Room) {
        let count = words.len();
        let gap = count == 2 && words[1] > words[0] + 1;
        let (datatype, elements) = if gap {
            (&self.gap, 1)
        } else {
            (&self.long, count)
        };
        let place = TargetBuffer {
            rank: step.target as u32,
            displacement: words[0] as i64,
            count: elements,
            datatype,
        };
        let source = Buffer::untyped(over(&mut room.source[..count]));
        let found = Buffer::untyped(over(&mut room.found[..count]));
        let window = &self.window;
        let done = match step.kind {
            Kind::Put => window.put(source, &place, Ends::WithEpoch),
            Kind::Get => window.get(found, &place, Ends::WithEpoch),
            Kind::Accumulate(op) => {
                window.accumulate(source, &place, &Op::predefined(op), Ends::WithEpoch)
            }
            Kind::GetAccumulate(op) => {
                let op = Op::predefined(op);
                window.get_accumulate(Some(source), found, &place, &op, Ends::WithEpoch)
            }
            Kind::CompareAndSwap { compare } => {
                room.compare = [compare];
                let compare = Buffer::untyped(over(&mut room.compare));
                window.compare_and_swap(&compare, &source, found, &place)
            }
            Kind::GetThenPut => {
                window.get(found, &place, Ends::WithEpoch).expect("locked");
                window.flush(place.rank).expect("locked");
                room.source[0] = room.found[0] + step.value;
                let source = Buffer::untyped(over(&mut room.source[..1]));
                window.put(source, &place, Ends::WithEpoch)
            }
        };
        done.expect("within an epoch");
    }

    fn flush(&self, step: &Step) {
        let rank = step.target as u32;
        let done = match step.after {
            After::Nothing => Ok(()),
            After::Flush => self.window.flush(rank),
            After::FlushAll => self.window.flush_all(),
            After::FlushLocal => self.window.flush_local(rank),
        };
        done.expect("within an epoch of locks");
    }

    /// Plays one phase; answers what every step found.
    fn play(&self, phase: &Phase) -> Vec<Vec<i64>> {
        let steps = &phase.steps[self.me];
        let new = |step: &Step| Room {
            source: [step.value, step.value + 100],
            compare: [0],
            found: [-1; 2],
        };
        let mut rooms: Vec<Room> = steps.iter().map(new).collect();
        let (window, none) = (&self.window, Assertion::default());
        let group = window.group();
        match phase.epoch {
            Epoch::Fence => window.fence(none).expect("no other epoch"),
            Epoch::Post => {
                window.post(group, none).expect("no other epoch");
                window.start(group, none).expect("no other epoch");
            }
            Epoch::LockAll => window.lock_all(none).expect("no other epoch"),
            Epoch::Shared | Epoch::Exclusive => {}
        }
        for (step, room) in steps.iter().zip(&mut rooms) {
            let words = phase.words(step);
            if words.is_empty() {
                continue;
            }
            let rank = step.target as u32;
            let kind = match phase.epoch {
                Epoch::Shared => Some(LockKind::Shared),
                Epoch::Exclusive => Some(LockKind::Exclusive),
                _ => None,
            };
            if let Some(kind) = kind {
                window.lock(kind, rank, none).expect("no other epoch");
            }
            self.start(step, &words, room);
            if phase.epoch == Epoch::LockAll {
                self.flush(step);
            }
            if kind.is_some() {
                window.unlock(rank).expect("locked");
            }
        }
        match phase.epoch {
            Epoch::Fence => window.fence(none).expect("no other epoch"),
            Epoch::Post => {
                window.complete().expect("started");
                window.wait().expect("posted");
            }
            Epoch::LockAll => window.unlock_all().expect("locked"),
            Epoch::Shared | Epoch::Exclusive => {}
        }
        let found = |(step, room): (&Step, &Room)| room.found[..phase.words(step).len()].to_vec();
        steps.iter().zip(&rooms).map(found).collect()
    }
}

fn barrier(comm: &Comm) {
    let schedule = coll::barrier(&Members::of(comm)).expect("a schedule");
    comm.run(schedule).expect("nobody dies");
}

/// Plays the program: what each rank has seen in each phase.
fn play(program: &Program) -> Vec<Vec<Seen>> {
    let seen = Mutex::new(vec![
        vec![Seen::default(); program.ranks];
        program.phases.len()
    ]);
    let config = if program.faulty {
        Config::faulty(program.ranks, program.seed)
    } else {
        Config::new(program.ranks, program.seed)
    };
    let world = World::new(Config {
        shares_memory: program.one_host,
        ..config
    });
    let played = world.run(|endpoint| {
        let process = Process::new(Box::new(endpoint));
        let comm = process.world();
        let me = comm.rank() as usize;
        let mut memory = vec![0i64; WORDS];
        let allocation = match program.flavor {
            Flavor::Create => Allocation::OfProgram(over(&mut memory)),
            _ => Allocation::OfWeft(WORDS * 8),
        };
        let mut info = Info::default();
        let granularity = if program.coarse { "4096" } else { "0" };
        info.set("mpi_accumulate_granularity", granularity)
            .expect("a key and a value");
        let window = Window::new(&comm, program.flavor, allocation, 8, &info);
        let window = window.expect("a window");
        let long = Basic::Int64.datatype();
        let player = Player {
            program,
            me,
            window: Arc::clone(&window),
            long: Arc::clone(long),
            gap: Datatype::vector(2, 1, 2, long).expect("a datatype"),
        };
        assert_eq!(player.program.ranks, comm.size() as usize);
        for (number, phase) in program.phases.iter().enumerate() {
            let found = player.play(phase);
            barrier(&comm);
            window.sync();
            let memory = player.read(window.memory());
            seen.lock().expect("nobody panics with it")[number][me] = Seen { found, memory };
            // Nobody goes on before all have looked.
            barrier(&comm);
        }
        window.free().expect("no epoch is open");
        process.drain();
    });
    if let Err(failure) = played {
        panic!("{failure}");
    }
    seen.into_inner().expect("nobody panics with it")
}

// ---- The model.

/// One operation on one word: what it brings and what it found, if it tells.
#[derive(Clone, Copy, Debug)]
struct Used {
    kind: Kind,
    value: i64,
    found: Option<i64>,
    /// Flushes of its rank before it that it comes after for certain.
    generation: usize,
}

impl Used {
    /// The word after it, if it finds `now`; `None` if it cannot have found that.
    fn after(&self, now: i64) -> Option<i64> {
        if self.found.is_some_and(|found| found != now) {
            return None;
        }
        let combined = |op| match op {
            Predefined::Sum => now.wrapping_add(self.value),
            Predefined::Bxor => now ^ self.value,
            Predefined::Max => now.max(self.value),
            Predefined::NoOp => now,
            _ => self.value,
        };
        Some(match self.kind {
            Kind::Put => self.value,
            Kind::Get => now,
            Kind::Accumulate(op) | Kind::GetAccumulate(op) => combined(op),
            Kind::CompareAndSwap { compare } if compare == now => self.value,
            Kind::CompareAndSwap { .. } => now,
            Kind::GetThenPut => now.wrapping_add(self.value),
        })
    }
}

/// The operations of each rank on one word, in their order.
fn uses(phase: &Phase, seen: &[Seen], target: usize, word: usize) -> Vec<Vec<Used>> {
    let of_rank = |rank: usize| {
        let mut generation = 0;
        let mut used = Vec::new();
        for (step, found) in phase.steps[rank].iter().zip(&seen[rank].found) {
            let words = phase.words(step);
            if words.is_empty() {
                continue;
            }
            if step.target == target
                && let Some(index) = words.iter().position(|one| *one == word)
            {
                let tells = !matches!(step.kind, Kind::Put | Kind::Accumulate(_));
                used.push(Used {
                    kind: step.kind,
                    value: step.value + 100 * index as i64,
                    found: tells.then(|| found[index]),
                    generation,
                });
            }
            let flushed = match phase.epoch {
                Epoch::Shared | Epoch::Exclusive => true,
                Epoch::LockAll => match step.after {
                    After::Flush => step.target == target,
                    After::FlushAll => true,
                    After::FlushLocal | After::Nothing => false,
                },
                Epoch::Fence | Epoch::Post => false,
            };
            generation += usize::from(flushed);
        }
        used
    };
    (0..seen.len()).map(of_rank).collect()
}

/// Whether some order of all operations, which keeps that of each rank, explains what they found and ends with `last`.
fn is_explained(uses: &[Vec<Used>], first: i64, last: i64) -> bool {
    let mut tried = HashSet::new();
    let mut open = vec![(vec![0; uses.len()], first)];
    while let Some((done, now)) = open.pop() {
        let ended = done.iter().zip(uses).all(|(done, all)| *done == all.len());
        if ended && now == last {
            return true;
        }
        for (rank, all) in uses.iter().enumerate() {
            let Some(next) = all.get(done[rank]).and_then(|one| one.after(now)) else {
                continue;
            };
            let mut state = (done.clone(), next);
            state.0[rank] += 1;
            if tried.insert(state.clone()) {
                open.push(state);
            }
        }
    }
    false
}

/// Whether puts and gets that nothing orders but flushes may have found and left this.
fn is_allowed(uses: &[Vec<Used>], first: i64, last: i64) -> bool {
    let all = || {
        let ranks = uses.iter().enumerate();
        ranks.flat_map(|(rank, all)| all.iter().map(move |one| (rank, one)))
    };
    let puts = || all().filter(|(_, one)| one.kind == Kind::Put);
    // What a get of this rank and generation, or a look after the end (`None`), may find.
    let may_find = |value: i64, by: Option<(usize, usize)>| {
        let before = |(rank, put): (usize, &Used)| match by {
            Some((reader, generation)) => rank == reader && put.generation < generation,
            None => true,
        };
        let from_before = first == value && !puts().any(before);
        from_before
            || puts().any(|(rank, put)| {
                let after = by.is_some_and(|(reader, generation)| {
                    rank == reader && put.generation > generation
                });
                let replaced = puts().any(|(other, later)| {
                    other == rank && later.generation > put.generation && before((other, later))
                });
                put.value == value && !after && !replaced
            })
    };
    let gets = all().filter_map(|(rank, one)| Some((rank, one.generation, one.found?)));
    let found = |(rank, generation, found)| may_find(found, Some((rank, generation)));
    gets.into_iter().all(found) && may_find(last, None)
}

/// Compares what was seen with what the model allows; the error says where it is not.
fn check(program: &Program, seen: &[Vec<Seen>]) -> Result<(), String> {
    let mut before = vec![[0; WORDS]; program.ranks];
    for (number, (phase, seen)) in program.phases.iter().zip(seen).enumerate() {
        for target in 0..program.ranks {
            for (word, &first) in before[target].iter().enumerate() {
                let uses = uses(phase, seen, target, word);
                let last = seen[target].memory[word];
                let sound = if phase.is_atomic(word) {
                    is_explained(&uses, first, last)
                } else {
                    is_allowed(&uses, first, last)
                };
                if !sound {
                    return Err(format!(
                        "phase {number}, word {word} of rank {target}: from {first} to {last} by {uses:?}"
                    ));
                }
            }
            before[target] = seen[target].memory;
        }
    }
    Ok(())
}

// ---- Programs at random.

/// Operations that may change something: all that do not fetch are of these.
fn changes() -> impl Strategy<Value = Predefined> {
    prop_oneof![
        Just(Predefined::Sum),
        Just(Predefined::Replace),
        Just(Predefined::Bxor),
        Just(Predefined::Max),
    ]
}

fn operations() -> impl Strategy<Value = Predefined> {
    prop_oneof![4 => changes(), 1 => Just(Predefined::NoOp)]
}

fn steps(ranks: usize) -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        Just(Kind::Put),
        Just(Kind::Get),
        changes().prop_map(Kind::Accumulate),
        operations().prop_map(Kind::GetAccumulate),
        (0..4i64).prop_map(|compare| Kind::CompareAndSwap { compare }),
        Just(Kind::GetThenPut),
    ];
    let after = prop_oneof![
        3 => Just(After::Nothing),
        2 => Just(After::Flush),
        1 => Just(After::FlushAll),
        1 => Just(After::FlushLocal),
    ];
    (kind, 0..ranks, 0..WORDS, 1..4u8, 0..4i64, after).prop_map(
        |(kind, target, place, shape, value, after)| Step {
            kind,
            target,
            place,
            shape,
            value,
            after,
        },
    )
}

fn phases(ranks: usize) -> impl Strategy<Value = Phase> {
    let epoch = prop_oneof![
        Just(Epoch::Fence),
        Just(Epoch::Post),
        Just(Epoch::LockAll),
        Just(Epoch::Shared),
        Just(Epoch::Exclusive),
    ];
    let all = proptest::collection::vec(proptest::collection::vec(steps(ranks), 0..6), ranks);
    (epoch, 0..=WORDS, all).prop_map(|(epoch, atomic, steps)| Phase {
        epoch,
        atomic,
        steps,
    })
}

fn programs() -> impl Strategy<Value = Program> {
    let flavor = prop_oneof![
        Just((Flavor::Create, true)),
        Just((Flavor::Create, false)),
        Just((Flavor::Allocate, true)),
        Just((Flavor::Allocate, false)),
        Just((Flavor::Shared, true)),
    ];
    (1..4usize).prop_flat_map(move |ranks| {
        let all = proptest::collection::vec(phases(ranks), 1..5);
        let coarse_and_faulty = any::<(bool, bool)>();
        (flavor.clone(), coarse_and_faulty, any::<u64>(), all).prop_map(
            move |((flavor, one_host), (coarse, faulty), seed, phases)| Program {
                ranks,
                flavor,
                one_host,
                coarse,
                faulty,
                seed,
                phases,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_value_is_one_that_the_model_allows(program in programs()) {
        let seen = play(&program);
        if let Err(error) = check(&program, &seen) {
            prop_assert!(false, "{error}");
        }
    }
}

/// A program of two ranks and one phase, in which each has these steps, to word 0 of rank 0.
fn two(epoch: Epoch, steps: [&[(Kind, i64, After)]; 2]) -> Program {
    let step = |&(kind, value, after): &(Kind, i64, After)| Step {
        kind,
        target: 0,
        place: 0,
        shape: 1,
        value,
        after,
    };
    Program {
        ranks: 2,
        flavor: Flavor::Create,
        one_host: true,
        coarse: false,
        faulty: false,
        seed: 1,
        phases: vec![Phase {
            epoch,
            atomic: if matches!(steps[0][0].0, Kind::Put | Kind::Get) {
                0
            } else {
                WORDS
            },
            steps: steps.map(|all| all.iter().map(step).collect()).into(),
        }],
    }
}

#[test]
fn the_model_refuses_what_cannot_be() {
    let (sum, none) = (Kind::GetAccumulate(Predefined::Sum), After::Nothing);
    let sees = |program: &Program, found: [&[i64]; 2], last| {
        let mut seen = vec![Seen::default(); 2];
        for (seen, found) in seen.iter_mut().zip(found) {
            seen.found = found.iter().map(|one| vec![*one]).collect();
        }
        seen[0].memory[0] = last;
        check(program, &[seen]).is_ok()
    };
    // Both add 1 twice.
    let adds = two(Epoch::Fence, [&[(sum, 1, none); 2]; 2]);
    assert!(sees(&adds, [&[0, 3], &[1, 2]], 4));
    assert!(!sees(&adds, [&[0, 2], &[0, 2]], 4), "lost");
    assert!(!sees(&adds, [&[3, 0], &[1, 2]], 4), "out of order");
    assert!(!sees(&adds, [&[0, 3], &[1, 2]], 3), "not all there");
    // One puts 1, then 2 after a flush, then reads; the other reads.
    let put = |value, after| (Kind::Put, value, after);
    let get = (Kind::Get, 0, none);
    let puts = two(
        Epoch::LockAll,
        [&[put(1, After::Flush), put(2, After::Flush), get], &[get]],
    );
    for other in 0..3 {
        assert!(sees(&puts, [&[0, 0, 2], &[other]], 2));
    }
    assert!(!sees(&puts, [&[0, 0, 1], &[0]], 2), "it was replaced");
    assert!(!sees(&puts, [&[0, 0, 0], &[0]], 2), "it was replaced");
    assert!(!sees(&puts, [&[0, 0, 2], &[0]], 1), "it was replaced");
    assert!(!sees(&puts, [&[0, 0, 2], &[7]], 2), "nobody put it");
}
