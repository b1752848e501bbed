//! One-sided communication on every fabric: windows of all kinds, each operation, each kind of epoch. Windows of a program's own
//! memory and dynamic ones go by portal and by messages, the others by loads and stores.
#![allow(missing_docs)]

use std::sync::Arc;

use crate::common::{everywhere, on_threads};
use weft_fabric::Region;
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::info::Info;
use weft_mpi::op::Predefined;
use weft_mpi::rma::{
    Allocation, Assertion, Ends, Flavor, LockKind, TargetBuffer, TargetElement, Window,
};
use weft_mpi::{Buffer, Comm, ErrorClass, Op, Process, RequestId};

const FLAVORS: [Flavor; 4] = [
    Flavor::Create,
    Flavor::Allocate,
    Flavor::Shared,
    Flavor::Dynamic,
];

/// A window over so many numbers of each rank, and where its displacements begin at each rank.
struct Numbers {
    window: Arc<Window>,
    /// Kept as long as the window.
    _memory: Vec<u64>,
    own: Region,
    bases: Vec<i64>,
}

fn long() -> &'static Arc<Datatype> {
    Basic::Int64.datatype()
}

fn over<T>(memory: &mut [T]) -> Region {
    // SAFETY: tests keep the memory until the window is freed.
    unsafe { Region::new(memory.as_mut_ptr().cast(), size_of_val(memory)) }
}

/// A buffer over numbers that the test keeps until the operation has ended.
fn buffer<T>(numbers: &mut [T]) -> Buffer {
    Buffer::untyped(over(numbers))
}

/// A buffer over elements that the test keeps until the operation has ended.
fn elements<T>(numbers: &mut [T], count: usize, datatype: &Arc<Datatype>) -> Buffer {
    // SAFETY: tests keep the memory until the operation has ended, and the elements lie within.
    unsafe { Buffer::new(numbers.as_mut_ptr().cast(), count, datatype) }
}

impl Numbers {
    fn new(comm: &Arc<Comm>, flavor: Flavor, count: usize) -> Self {
        let mut memory = vec![0u64; count];
        let region = over(&mut memory);
        let allocation = match flavor {
            Flavor::Create => Allocation::OfProgram(region),
            Flavor::Dynamic => Allocation::Later,
            Flavor::Allocate | Flavor::Shared => Allocation::OfWeft(count * 8),
        };
        let unit = if flavor == Flavor::Dynamic { 1 } else { 8 };
        let window = Window::new(comm, flavor, allocation, unit, &Info::default()).unwrap();
        assert_eq!(window.flavor(), flavor);
        let (mut bases, mut own) = (vec![0; comm.size() as usize], window.memory());
        if flavor == Flavor::Dynamic {
            window.attach_memory(region).unwrap();
            own = region;
            // Everybody learns the addresses by a window.
            let table = Numbers::new(comm, Flavor::Allocate, comm.size() as usize);
            let mut address = [region.as_ptr().addr() as u64];
            table.window.fence(Assertion::default()).unwrap();
            for rank in 0..comm.size() {
                let place = table.place(rank, comm.rank() as i64, 1);
                table
                    .window
                    .put(buffer(&mut address), &place, Ends::WithEpoch)
                    .unwrap();
            }
            table.window.fence(Assertion::default()).unwrap();
            bases = (0..bases.len())
                .map(|at| table.read(at).cast_signed())
                .collect();
            table.window.free().unwrap();
        }
        Self {
            window,
            _memory: memory,
            own,
            bases,
        }
    }

    /// `count` numbers from `at` of a rank.
    fn place(&self, rank: u32, at: i64, count: usize) -> TargetBuffer<'static> {
        self.place_of(rank, at, count, long())
    }

    fn place_of<'a>(
        &self,
        rank: u32,
        at: i64,
        count: usize,
        datatype: &'a Arc<Datatype>,
    ) -> TargetBuffer<'a> {
        let dynamic = self.window.flavor() == Flavor::Dynamic;
        TargetBuffer {
            rank,
            displacement: self.bases[rank as usize] + if dynamic { at * 8 } else { at },
            count,
            datatype,
        }
    }

    /// A number of this rank.
    fn read(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.own.part(at * 8, 8).unwrap().copy_to_slice(&mut bytes);
        u64::from_ne_bytes(bytes)
    }

    fn write(&self, at: usize, value: u64) {
        let part = self.own.part(at * 8, 8).unwrap();
        part.copy_from_slice(&value.to_ne_bytes());
    }
}

/// Runs a test for windows of every flavor on every fabric, with 1 to 4 ranks.
fn with_windows(count: usize, test: impl Fn(&Comm, &Numbers) + Sync) {
    let test: &(dyn Fn(&Comm, &Numbers) + Sync) = &test;
    for ranks in 1..=4 {
        everywhere(ranks, |process: Arc<Process>| {
            let world = process.world();
            for flavor in FLAVORS {
                let numbers = Numbers::new(&world, flavor, count);
                test(&world, &numbers);
                numbers.window.free().unwrap();
            }
        });
    }
}

fn add() -> Arc<Op> {
    Op::predefined(Predefined::Sum)
}

#[test]
fn fences_order_what_is_between_them() {
    with_windows(8, |world, numbers| {
        let (me, size) = (world.rank(), world.size());
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let window = &numbers.window;
        numbers.write(4, 100 + u64::from(me));
        window.fence(Assertion::default()).unwrap();
        let (mut sent, mut got) = ([u64::from(me), 7], [0]);
        let place = numbers.place(next, 1, 2);
        window
            .put(buffer(&mut sent), &place, Ends::WithEpoch)
            .unwrap();
        let place = numbers.place(next, 4, 1);
        window
            .get(buffer(&mut got), &place, Ends::WithEpoch)
            .unwrap();
        window.fence(Assertion::default()).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|at| numbers.read(at)),
            [0, before.into(), 7, 0]
        );
        assert_eq!(got, [100 + u64::from(next)]);
        // All to one, each number once.
        for _ in 0..10 {
            let mut one = [1u64];
            let place = numbers.place(0, 7, 1);
            window
                .accumulate(buffer(&mut one), &place, &add(), Ends::WithEpoch)
                .unwrap();
            window.fence(Assertion::default()).unwrap();
        }
        if me == 0 {
            assert_eq!(numbers.read(7), 10 * u64::from(size));
        }
        let end = Assertion {
            no_succeed: true,
            ..Assertion::default()
        };
        window.fence(end).unwrap();
    });
}

#[test]
fn counters_count_every_rank_once() {
    with_windows(4, |world, numbers| {
        let (size, window) = (world.size(), &numbers.window);
        let mut seen = Vec::new();
        window.lock_all(Assertion::default()).unwrap();
        for _ in 0..20 {
            let (mut one, mut old) = ([1u64], [0u64]);
            let place = numbers.place(size - 1, 2, 1);
            let (source, into) = (buffer(&mut one), buffer(&mut old));
            window
                .get_accumulate(Some(source), into, &place, &add(), Ends::WithEpoch)
                .unwrap();
            window.flush(size - 1).unwrap();
            seen.push(old[0]);
        }
        window.unlock_all().unwrap();
        assert!(seen.is_sorted_by(|one, two| one < two), "{seen:?}");
        let swap = |old: u64, new: u64| {
            let (mut compare, mut new, mut found) = ([old], [new], [0]);
            let place = numbers.place(0, 1, 1);
            let (compare, new) = (buffer(&mut compare), buffer(&mut new));
            window
                .compare_and_swap(&compare, &new, buffer(&mut found), &place)
                .unwrap();
            window.flush(0).unwrap();
            found[0]
        };
        window
            .lock(LockKind::Shared, 0, Assertion::default())
            .unwrap();
        for _ in 0..5 {
            let mut known = 0;
            loop {
                match swap(known, known + 1) {
                    found if found == known => break,
                    found => known = found,
                }
            }
        }
        window.unlock(0).unwrap();
        window.fence(Assertion::default()).unwrap();
        if world.rank() == 0 {
            assert_eq!(numbers.read(1), 5 * u64::from(size));
        }
        if world.rank() == size - 1 {
            assert_eq!(numbers.read(2), 20 * u64::from(size));
        }
    });
}

/// Adds one to a number, by whatever operation the round says, and to others if that one does.
fn add_in_round(numbers: &Numbers, round: usize, added: &mut [u64]) {
    let (window, words) = (&numbers.window, added.len());
    let word = round * 7 % words;
    match round % 5 {
        0 => {
            let (mut one, mut old) = ([1u64], [0u64]);
            let element = TargetElement {
                rank: 0,
                displacement: numbers.place(0, word as i64, 1).displacement,
                basic: Basic::Int64,
            };
            let (source, into) = (over(&mut one), over(&mut old));
            if !window.fetch_and_op_at_once(&element, Predefined::Sum, &source, &into) {
                let place = numbers.place(0, word as i64, 1);
                let (source, into) = (buffer(&mut one), buffer(&mut old));
                window
                    .get_accumulate(Some(source), into, &place, &add(), Ends::WithEpoch)
                    .unwrap();
            }
            window.flush(0).unwrap();
            added[word] += 1;
        }
        1 => {
            let mut ones = vec![1u64; words];
            let place = numbers.place(0, 0, words);
            window
                .accumulate(buffer(&mut ones), &place, &add(), Ends::WithEpoch)
                .unwrap();
            window.flush(0).unwrap();
            added.iter_mut().for_each(|sum| *sum += 1);
        }
        2 => {
            let mut known = [0u64];
            loop {
                let (mut next, mut found) = ([known[0] + 1], [0]);
                let element = TargetElement {
                    rank: 0,
                    displacement: numbers.place(0, word as i64, 1).displacement,
                    basic: Basic::Int64,
                };
                let sides = [over(&mut known), over(&mut next), over(&mut found)];
                let sides = [&sides[0], &sides[1], &sides[2]];
                if !window.compare_and_swap_at_once(&element, sides) {
                    let place = numbers.place(0, word as i64, 1);
                    let [compare, new, into] = sides.map(|side| Buffer::untyped(*side));
                    window
                        .compare_and_swap(&compare, &new, into, &place)
                        .unwrap();
                }
                window.flush(0).unwrap();
                if found == known {
                    break;
                }
                known = found;
            }
            added[word] += 1;
        }
        3 => {
            // Every second one.
            let pairs = Datatype::vector(words as i64 / 2, 1, 2, long()).unwrap();
            pairs.commit();
            let (mut ones, mut old) = (vec![1u64; words / 2], vec![0u64; words / 2]);
            let place = numbers.place_of(0, 0, 1, &pairs);
            let (source, into) = (buffer(&mut ones), buffer(&mut old));
            window
                .get_accumulate(Some(source), into, &place, &add(), Ends::WithEpoch)
                .unwrap();
            window.flush(0).unwrap();
            added.iter_mut().step_by(2).for_each(|sum| *sum += 1);
        }
        _ => {
            let mut one = [1u64];
            let place = numbers.place(0, word as i64, 1);
            window
                .accumulate(buffer(&mut one), &place, &add(), Ends::WithEpoch)
                .unwrap();
            window.flush(0).unwrap();
            added[word] += 1;
        }
    }
}

/// Threads of several ranks add to the same numbers, one and many at a time, in windows whose elements have a lock and in such
/// as have none: nothing is lost, and nothing is found twice.
#[test]
fn single_and_many_elements_are_combined_at_once() {
    const ROUNDS: usize = 60;
    for (words, flavor) in [16, 600, 10_000]
        .into_iter()
        .flat_map(|words| FLAVORS.map(|flavor| (words, flavor)))
    {
        on_threads(3, |process: Arc<Process>| {
            let world = process.world();
            let numbers = Numbers::new(&world, flavor, words);
            numbers.window.lock_all(Assertion::default()).unwrap();
            let mut added = vec![0u64; words];
            std::thread::scope(|scope| {
                let threads = [0, 2].map(|start| {
                    let numbers = &numbers;
                    scope.spawn(move || {
                        let mut added = vec![0u64; words];
                        for round in 0..ROUNDS {
                            add_in_round(numbers, round + start, &mut added);
                        }
                        added
                    })
                });
                for thread in threads {
                    let of_thread = thread.join().unwrap();
                    added
                        .iter_mut()
                        .zip(of_thread)
                        .for_each(|(sum, more)| *sum += more);
                }
            });
            numbers.window.unlock_all().unwrap();
            numbers.window.fence(Assertion::default()).unwrap();
            if world.rank() == 0 {
                for (at, sum) in added.iter().enumerate() {
                    assert_eq!(
                        numbers.read(at),
                        3 * sum,
                        "number {at} of {words}, {flavor:?}"
                    );
                }
            }
            numbers.window.free().unwrap();
        });
    }
}

/// A number is read, changed and written while the lock is held: nothing is lost.
#[test]
fn an_exclusive_lock_keeps_others_out() {
    with_windows(4, |world, numbers| {
        let (size, window) = (world.size(), &numbers.window);
        for round in 0..10u32 {
            let target = round % size;
            window
                .lock(LockKind::Exclusive, target, Assertion::default())
                .unwrap();
            let mut number = [0u64];
            let place = numbers.place(target, 3, 1);
            window
                .get(buffer(&mut number), &place, Ends::WithEpoch)
                .unwrap();
            window.flush(target).unwrap();
            number[0] += 1;
            window
                .put(buffer(&mut number), &place, Ends::WithEpoch)
                .unwrap();
            let (mut ones, place) = ([1u64; 2], numbers.place(target, 1, 2));
            window
                .accumulate(buffer(&mut ones), &place, &add(), Ends::WithEpoch)
                .unwrap();
            window.unlock(target).unwrap();
        }
        window.fence(Assertion::default()).unwrap();
        let rounds = (0..10).filter(|round| round % size == world.rank()).count() as u64;
        let all = rounds * u64::from(size);
        assert_eq!([1, 2, 3].map(|at| numbers.read(at)), [all; 3]);
    });
}

/// Threads whose first operations of an epoch go to the same member take its lock once, whichever way each of them goes: an exclusive lock
/// after the epoch waits for nobody.
#[test]
fn threads_share_the_lock_of_an_epoch() {
    on_threads(2, |process: Arc<Process>| {
        let world = process.world();
        for flavor in FLAVORS {
            let numbers = Numbers::new(&world, flavor, 8);
            let window = &numbers.window;
            for round in 0..40 {
                if world.rank() == 0 {
                    window.lock_all(Assertion::default()).unwrap();
                    let together = std::sync::Barrier::new(3);
                    std::thread::scope(|scope| {
                        for thread in 0..3i64 {
                            let (numbers, together) = (&numbers, &together);
                            scope.spawn(move || {
                                let (mut one, place) = ([1u64], numbers.place(1, thread, 1));
                                together.wait();
                                let source = buffer(&mut one);
                                // An accumulation never takes the lock by itself.
                                match (thread + round) % 3 {
                                    0 => window.accumulate(source, &place, &add(), Ends::WithEpoch),
                                    _ => window.put(source, &place, Ends::WithEpoch),
                                }
                                .unwrap();
                                window.flush(1).unwrap();
                            });
                        }
                    });
                    window.unlock_all().unwrap();
                    let exclusive = LockKind::Exclusive;
                    window.lock(exclusive, 1, Assertion::default()).unwrap();
                    window.unlock(1).unwrap();
                }
            }
            window.free().unwrap();
        }
    });
}

#[test]
fn posts_and_completions_pair_up() {
    with_windows(4, |world, numbers| {
        let (me, size) = (world.rank(), world.size());
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let group = |rank: u32| window_group(&numbers.window, rank);
        let window = &numbers.window;
        for round in 1..6u64 {
            window.post(&group(before), Assertion::default()).unwrap();
            window.start(&group(next), Assertion::default()).unwrap();
            let mut sent = [round * 100 + u64::from(me)];
            let place = numbers.place(next, 0, 1);
            window
                .put(buffer(&mut sent), &place, Ends::WithEpoch)
                .unwrap();
            let place = numbers.place(next, 1, 1);
            window
                .accumulate(buffer(&mut sent), &place, &add(), Ends::WithEpoch)
                .unwrap();
            window.complete().unwrap();
            if round % 2 == 0 {
                window.wait().unwrap();
            } else {
                while !window.test().unwrap() {
                    std::thread::yield_now();
                }
            }
            assert_eq!(numbers.read(0), round * 100 + u64::from(before));
        }
        let sum = (1..6)
            .map(|round| round * 100 + u64::from(before))
            .sum::<u64>();
        assert_eq!(numbers.read(1), sum);
    });
}

fn window_group(window: &Window, rank: u32) -> weft_mpi::Group {
    window.group().include(&[rank.cast_signed()]).unwrap()
}

/// Columns of a matrix at one side, other gaps at the other, larger than any message.
#[test]
fn derived_datatypes_on_both_sides() {
    const ROWS: usize = 3000;
    let column = Datatype::vector(ROWS as i64, 1, 3, long()).unwrap();
    let pairs = Datatype::vector(ROWS as i64 / 2, 2, 5, long()).unwrap();
    with_windows(ROWS * 3, |world, numbers| {
        let (me, size) = (world.rank(), world.size());
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let window = &numbers.window;
        let mut source: Vec<u64> = (0..ROWS as u64 * 5).map(|at| at + u64::from(me)).collect();
        let place = numbers.place_of(next, 1, 1, &column);
        window.fence(Assertion::default()).unwrap();
        let from = elements(&mut source, 1, &pairs);
        window.put(from.clone(), &place, Ends::WithEpoch).unwrap();
        window.fence(Assertion::default()).unwrap();
        window
            .accumulate(from, &place, &add(), Ends::WithEpoch)
            .unwrap();
        window.fence(Assertion::default()).unwrap();
        for row in 0..ROWS {
            let sent = (row / 2 * 5 + row % 2) as u64 + u64::from(before);
            assert_eq!(numbers.read(row * 3 + 1), 2 * sent, "row {row}");
            assert_eq!([numbers.read(row * 3), numbers.read(row * 3 + 2)], [0, 0]);
        }
        let mut back = vec![0u64; ROWS * 5];
        let into = elements(&mut back, 1, &pairs);
        window.get(into, &place, Ends::WithEpoch).unwrap();
        window.fence(Assertion::default()).unwrap();
        for row in 0..ROWS {
            let at = row / 2 * 5 + row % 2;
            assert_eq!(back[at], 2 * (at as u64 + u64::from(me)), "row {row}");
        }
    });
}

#[test]
fn requests_end_with_their_operations() {
    with_windows(2000, |world, numbers| {
        let (me, size) = (world.rank(), world.size());
        let (window, process) = (&numbers.window, world.process());
        let wait = |request: RequestId| process.wait(request).unwrap();
        let mut ones = vec![1u64; 2000];
        let mut got = vec![9u64; 2000];
        window.lock_all(Assertion::default()).unwrap();
        for rank in 0..size {
            let place = numbers.place(rank, 0, 2000);
            let request = window
                .accumulate(buffer(&mut ones), &place, &add(), Ends::WithRequest)
                .unwrap();
            wait(request);
        }
        window.flush_all().unwrap();
        window.unlock_all().unwrap();
        window.fence(Assertion::default()).unwrap();
        assert!((0..2000).all(|at| numbers.read(at) == u64::from(size)));
        window.fence(Assertion::default()).unwrap();
        let target = size - 1 - me;
        window
            .lock(LockKind::Exclusive, target, Assertion::default())
            .unwrap();
        let place = numbers.place(target, 0, 2000);
        wait(
            window
                .get(buffer(&mut got), &place, Ends::WithRequest)
                .unwrap(),
        );
        assert!(got.iter().all(|number| *number == u64::from(size)));
        got.fill(70 + u64::from(me));
        wait(
            window
                .put(buffer(&mut got), &place, Ends::WithRequest)
                .unwrap(),
        );
        window.flush_local(target).unwrap();
        window.flush(target).unwrap();
        let mut old = vec![0u64; 2000];
        let no_op = Op::predefined(Predefined::NoOp);
        let read = window.get_accumulate(None, buffer(&mut old), &place, &no_op, Ends::WithRequest);
        wait(read.unwrap());
        assert_eq!(old, got);
        window.unlock(target).unwrap();
        window.fence(Assertion::default()).unwrap();
    });
}

/// Values with an index, which no atomic instruction changes at once.
#[test]
fn pairs_are_combined_whole() {
    with_windows(64, |world, numbers| {
        let window = &numbers.window;
        let pair = Basic::DoubleInt.datatype();
        let most = Op::predefined(Predefined::Maxloc);
        window.fence(Assertion::default()).unwrap();
        let value = |round: u32| f64::from((world.rank() * 7 + round * 3) % 50);
        let index = |round: u32| u64::from(world.rank() * 100 + round);
        let mut own: Vec<_> = (0..20)
            .map(|round| [value(round).to_bits(), index(round)])
            .collect();
        for own in &mut own {
            let source = elements(own, 1, pair);
            let place = numbers.place_of(0, 2, 1, pair);
            window
                .accumulate(source, &place, &most, Ends::WithEpoch)
                .unwrap();
        }
        // Flushes are for epochs of locks.
        let flushed = window.flush_all().unwrap_err();
        assert_eq!(flushed.class(), ErrorClass::RmaSync);
        window.fence(Assertion::default()).unwrap();
        if world.rank() == 0 {
            let all = (0..world.size()).flat_map(|rank| (0..20).map(move |round| (rank, round)));
            let best = all.map(|(rank, round)| ((rank * 7 + round * 3) % 50, rank * 100 + round));
            let (value, index) = best
                .max_by_key(|(value, index)| (*value, u32::MAX - index))
                .unwrap();
            assert_eq!(f64::from_bits(numbers.read(2)), f64::from(value));
            assert_eq!(numbers.read(3) as u32, index);
        }
        window.fence(Assertion::default()).unwrap();
    });
}

#[test]
fn wrong_use_is_named() {
    with_windows(4, |world, numbers| {
        let (window, size) = (&numbers.window, world.size());
        let mut number = [0u64];
        let put = |place: &TargetBuffer<'_>| {
            let mut number = [0u64];
            let put = window.put(buffer(&mut number), place, Ends::WithEpoch);
            put.map(drop).map_err(|error| error.class())
        };
        let good = numbers.place(0, 0, 1);
        assert_eq!(put(&good), Err(ErrorClass::RmaSync));
        window.fence(Assertion::default()).unwrap();
        if window.flavor() != Flavor::Dynamic {
            assert_eq!(put(&numbers.place(0, 4, 1)), Err(ErrorClass::RmaRange));
            assert_eq!(put(&numbers.place(0, i64::MAX, 1)), Err(ErrorClass::Disp));
            assert_eq!(put(&numbers.place(0, -1, 1)), Err(ErrorClass::Disp));
            let error = window.attach_memory(over(&mut number)).unwrap_err();
            assert_eq!(error.class(), ErrorClass::RmaFlavor);
        } else {
            let error = window.attach_memory(numbers.own).unwrap_err();
            assert_eq!(error.class(), ErrorClass::RmaAttach);
            assert_eq!(
                window.detach_memory(64).unwrap_err().class(),
                ErrorClass::RmaAttach
            );
            // What only the target can know is said at the end of the epoch.
            let nowhere = TargetBuffer {
                displacement: 64,
                ..good
            };
            let put = put(&nowhere);
            let ended = window
                .fence(Assertion::default())
                .map_err(|error| error.class());
            assert_eq!(put.and(ended), Err(ErrorClass::RmaRange));
        }
        let mut two = [0u64; 2];
        let put = window.put(buffer(&mut two), &good, Ends::WithEpoch);
        assert_eq!(put.unwrap_err().class(), ErrorClass::Count);
        // No elements of whatever datatype are no error.
        let nothing = TargetBuffer {
            count: 0,
            datatype: Basic::Byte.datatype(),
            ..good
        };
        let mut none = [0u64; 0];
        for op in [add(), Op::user(|_, _, _, _| {}, true)] {
            let source = buffer(&mut none);
            window
                .accumulate(source, &nothing, &op, Ends::WithEpoch)
                .unwrap();
        }
        window
            .put(buffer(&mut none), &nothing, Ends::WithEpoch)
            .unwrap();
        window
            .get(buffer(&mut none), &nothing, Ends::WithEpoch)
            .unwrap();
        let beyond = TargetBuffer { rank: size, ..good };
        let put = window.put(buffer(&mut number), &beyond, Ends::WithEpoch);
        assert_eq!(put.unwrap_err().class(), ErrorClass::Rank);
        let user = Op::user(|_, _, _, _| {}, true);
        let refused = window.accumulate(buffer(&mut number), &good, &user, Ends::WithEpoch);
        assert_eq!(refused.unwrap_err().class(), ErrorClass::Op);
        window.fence(Assertion::default()).unwrap();
        window
            .lock(LockKind::Shared, 0, Assertion::default())
            .unwrap();
        for error in [
            window.fence(Assertion::default()).unwrap_err(),
            window
                .lock(LockKind::Shared, 0, Assertion::default())
                .unwrap_err(),
            window.lock_all(Assertion::default()).unwrap_err(),
            window.free().unwrap_err(),
            window.wait().unwrap_err(),
            window.complete().unwrap_err(),
        ] {
            assert_eq!(error.class(), ErrorClass::RmaSync, "{error}");
        }
        window.unlock(0).unwrap();
        assert_eq!(window.unlock(0).unwrap_err().class(), ErrorClass::RmaSync);
        window.fence(Assertion::default()).unwrap();
    });
}

/// What one rank stores in memory that all share, the others load.
#[test]
fn shared_memory_is_one_piece() {
    everywhere(3, |process| {
        let world = process.world();
        let me = world.rank();
        let size = 8 * (me as usize + 1);
        let allocation = Allocation::OfWeft(size);
        let window = Window::new(&world, Flavor::Shared, allocation, 8, &Info::default()).unwrap();
        let (first, unit) = window.shared_query(None).unwrap().unwrap();
        assert_eq!((first.len(), unit), (8, 8));
        let mut end = first.as_ptr().addr();
        for rank in 0..3 {
            let (part, _) = window.shared_query(Some(rank)).unwrap().unwrap();
            assert_eq!(part.as_ptr().addr(), end, "one after the other");
            assert_eq!(part.len(), 8 * (rank as usize + 1));
            end += part.len();
        }
        window.fence(Assertion::default()).unwrap();
        window.memory().copy_from_slice(&[me as u8 + 1; 24]);
        window.fence(Assertion::default()).unwrap();
        for rank in 0..3 {
            let (part, _) = window.shared_query(Some(rank)).unwrap().unwrap();
            let mut bytes = vec![0; part.len()];
            part.copy_to_slice(&mut bytes);
            assert!(bytes.iter().all(|byte| *byte == rank as u8 + 1));
        }
        window.fence(Assertion::default()).unwrap();
        window.free().unwrap();
    });
}
