//! Collectives through the engine on every fabric: blocking, non-blocking and persistent.

use std::sync::Arc;

use crate::common::everywhere;
use weft_mpi::coll::{self, Blocks, Members, Reduction};
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::op::Predefined;
use weft_mpi::{Buffer, Comm, ErrorClass, Op};

fn long() -> &'static Arc<Datatype> {
    Basic::Int64.datatype()
}

fn over(values: &mut [i64]) -> Buffer {
    // SAFETY: each test waits for the end of what it starts before it looks at the slice.
    unsafe { Buffer::new(values.as_mut_ptr().cast(), values.len(), long()) }
}

fn blocks(values: &mut [i64], ranks: usize) -> Blocks {
    let count = values.len() / ranks;
    // SAFETY: as above.
    unsafe { Blocks::even(values.as_mut_ptr().cast(), count, long(), ranks) }.unwrap()
}

fn sum(count: usize) -> Reduction {
    Reduction {
        count,
        datatype: Arc::clone(long()),
        op: Op::predefined(Predefined::Sum),
    }
}

/// What rank `rank` contributes.
fn own(rank: usize, count: usize) -> Vec<i64> {
    (0..count as i64)
        .map(|place| place * 13 + rank as i64 * 1000)
        .collect()
}

fn total(ranks: usize, count: usize) -> Vec<i64> {
    let mut all = vec![0; count];
    for rank in 0..ranks {
        all.iter_mut()
            .zip(own(rank, count))
            .for_each(|(sum, one)| *sum += one);
    }
    all
}

fn check(world: &Comm, count: usize) {
    let members = Members::of(world);
    let (rank, size) = (members.rank, members.size);
    let joined: Vec<i64> = (0..size).flat_map(|rank| own(rank, count)).collect();
    world.run(coll::barrier(&members).unwrap()).unwrap();
    for root in [0, size - 1, size / 2] {
        let mut data = own(if rank == root { 77 } else { 0 }, count);
        let plan = coll::bcast(&members, &over(&mut data), root).unwrap();
        world.run(plan).unwrap();
        assert_eq!(data, own(77, count));

        let (mut send, mut receive) = (own(rank, count), vec![0; count * size]);
        let all = blocks(&mut receive, size);
        let here = (rank == root).then_some(&all);
        let plan = coll::gather(&members, Some(&over(&mut send)), here, root).unwrap();
        world.run(plan).unwrap();
        if rank == root {
            assert_eq!(receive, joined);
        }

        let mut part = vec![0; count];
        let all = blocks(&mut receive, size);
        let here = (rank == root).then_some(&all);
        let plan = coll::scatter(&members, here, Some(&over(&mut part)), root).unwrap();
        world.run(plan).unwrap();
        assert_eq!(part, own(rank, count));

        let mut result = vec![0; count];
        let into = over(&mut result);
        let here = (rank == root).then_some(&into);
        let plan = coll::reduce(&members, &over(&mut send), here, &sum(count), root).unwrap();
        world.run(plan).unwrap();
        if rank == root {
            assert_eq!(result, total(size, count));
        }
    }
    let (mut send, mut receive) = (own(rank, count), vec![0; count * size]);
    let all = blocks(&mut receive, size);
    let plan = coll::allgather(&members, Some(&over(&mut send)), &all).unwrap();
    world.run(plan).unwrap();
    assert_eq!(receive, joined);

    let mut out: Vec<i64> = (0..size)
        .flat_map(|to| own(rank * size + to, count))
        .collect();
    let plan = coll::alltoall(&members, Some(&blocks(&mut out, size)), &all).unwrap();
    world.run(plan).unwrap();
    let expected: Vec<i64> = (0..size)
        .flat_map(|from| own(from * size + rank, count))
        .collect();
    assert_eq!(receive, expected);

    // In place.
    let mut data = own(rank, count);
    let buffer = over(&mut data);
    let plan = coll::allreduce(&members, &buffer, &buffer, &sum(count)).unwrap();
    world.run(plan).unwrap();
    assert_eq!(data, total(size, count));

    let (mut send, mut result) = (own(rank, count), vec![0; count]);
    let (from, into) = (over(&mut send), over(&mut result));
    let plan = coll::scan(&members, &from, &into, &sum(count)).unwrap();
    world.run(plan).unwrap();
    assert_eq!(result, total(rank + 1, count));
    let plan = coll::exscan(&members, &from, &into, &sum(count)).unwrap();
    world.run(plan).unwrap();
    if rank > 0 {
        assert_eq!(result, total(rank, count));
    }

    let (mut send, mut part) = (own(rank, count * size), vec![0; count]);
    let (from, into) = (over(&mut send), over(&mut part));
    let all = sum(count * size);
    let plan = coll::reduce_scatter_block(&members, &from, &into, count, &all).unwrap();
    world.run(plan).unwrap();
    assert_eq!(
        part,
        total(size, count * size)[rank * count..(rank + 1) * count]
    );
}

#[test]
fn all_of_them_small_and_large() {
    for ranks in [1, 2, 3, 5, 8] {
        everywhere(ranks, |process| {
            let world = process.world();
            for count in [0, 1, 15, 5000, 40_000] {
                check(&world, count);
            }
        });
    }
}

#[test]
fn several_at_once_do_not_mix() {
    everywhere(4, |process| {
        let world = process.world();
        let members = Members::of(&world);
        let mut data: Vec<Vec<i64>> = (1..20).map(|count| own(members.rank, count)).collect();
        let requests: Vec<_> = data
            .iter_mut()
            .map(|data| {
                let buffer = over(data);
                let reduction = sum(buffer.bytes() / 8);
                let plan = coll::allreduce(&members, &buffer, &buffer, &reduction).unwrap();
                world.begin(plan).unwrap()
            })
            .collect();
        // In another order than they were begun in.
        for request in requests.into_iter().rev() {
            process.wait(request).unwrap();
        }
        for (count, data) in (1..).zip(&data) {
            assert_eq!(*data, total(4, count));
        }
    });
}

/// A blocking and a non-blocking collective do not match each other, so that each form has an order of its own.
#[test]
fn forms_do_not_match_each_other() {
    everywhere(3, |process| {
        let world = process.world();
        let members = Members::of(&world);
        let mut data = own(members.rank, 7);
        let buffer = over(&mut data);
        let plan = coll::allreduce(&members, &buffer, &buffer, &sum(7)).unwrap();
        let barrier = || world.run(coll::barrier(&members).unwrap()).unwrap();
        if members.rank == 0 {
            let request = world.begin(plan).unwrap();
            barrier();
            process.wait(request).unwrap();
        } else {
            barrier();
            process.wait(world.begin(plan).unwrap()).unwrap();
        }
        assert_eq!(data, total(3, 7));
    });
}

#[test]
fn a_kept_one_runs_again_with_what_is_there_then() {
    everywhere(3, |process| {
        let world = process.world();
        let members = Members::of(&world);
        let mut data = vec![0; 7];
        let buffer = over(&mut data);
        let plan = coll::allreduce(&members, &buffer, &buffer, &sum(7)).unwrap();
        let request = world.prepare(plan).unwrap();
        for _ in 0..3 {
            data.copy_from_slice(&own(members.rank, 7));
            process.start(request).unwrap();
            process.wait(request).unwrap();
            assert_eq!(data, total(3, 7));
        }
        process.free_request(request).unwrap();
    });
}

#[test]
fn a_count_that_differs_is_an_error_of_the_receiver() {
    everywhere(2, |process| {
        let world = process.world();
        let members = Members::of(&world);
        let mut data = vec![0; if members.rank == 0 { 4 } else { 3 }];
        let plan = coll::bcast(&members, &over(&mut data), 0).unwrap();
        let result = world.run(plan);
        if members.rank == 1 {
            let error = result.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Truncate);
            assert!(error.text().contains("MPI_Bcast"), "{error}");
        }
    });
}

/// Rank 0 passes a small block and expects a tree; the last rank passes a large one and sends to the
/// root itself. Its parent in the tree waits for it and is not asked here.
#[test]
fn ranks_that_take_different_ways_are_found_out() {
    const RANKS: u32 = 34;
    crate::common::simulated(RANKS, &|process: Arc<weft_mpi::Process>| {
        let world = process.world();
        let members = Members::of(&world);
        let count = if world.rank() == RANKS - 1 { 200 } else { 1 };
        let mut out = own(members.rank, count);
        let mut into = vec![0; count * RANKS as usize];
        let root = world.rank() == 0;
        let receive = root.then(|| blocks(&mut into, RANKS as usize));
        let schedule = coll::gather(&members, Some(&over(&mut out)), receive.as_ref(), 0).unwrap();
        let request = world.begin(schedule).unwrap();
        if root {
            let error = process.wait(request).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Truncate);
            let text = error.text();
            assert!(
                text.contains("rank 33") && text.contains("MPI_Gather"),
                "{text}"
            );
        }
        // The others have begun all that they do, but for those who wait for the last one.
        std::mem::forget((out, into));
    });
}
