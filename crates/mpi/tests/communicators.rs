//! Making communicators, on every fabric.

mod common;

use std::sync::Arc;

use common::{everywhere, over};
use weft_mpi::group::Comparison;
use weft_mpi::{Comm, Group, SendMode, Source, TagPattern, Target};

/// Passes a byte around the ring of a communicator: everybody is reached, nobody else.
fn ring(comm: &Comm) {
    let (rank, size) = (comm.rank(), comm.size());
    let (mut out, mut into) = ([rank as u8], [0]);
    let status = comm
        .sendrecv(
            (over(&mut out), Target::Rank((rank + 1) % size), 0),
            (over(&mut into), Source::Any, TagPattern::Any),
        )
        .unwrap();
    assert_eq!(status.source, Some((rank + size - 1) % size));
    assert_eq!(u32::from(into[0]), (rank + size - 1) % size);
}

#[test]
fn duplicates_do_not_hear_each_other() {
    everywhere(3, |process| {
        let world = process.world();
        let twin = world.dup().unwrap();
        assert_eq!(world.compare(&twin), Comparison::Congruent);
        let (one, two) = (Target::Rank((world.rank() + 1) % 3), Source::Any);
        world
            .send(SendMode::Standard, over(&mut [1]), one, 0)
            .unwrap();
        twin.send(SendMode::Standard, over(&mut [2]), one, 0)
            .unwrap();
        let mut got = [0];
        twin.recv(over(&mut got), two, TagPattern::Any).unwrap();
        assert_eq!(got, [2]);
        world.recv(over(&mut got), two, TagPattern::Any).unwrap();
        assert_eq!(got, [1]);
    });
}

#[test]
fn splits_order_by_key_then_rank() {
    for size in 1..=7 {
        everywhere(size, |process| {
            let world = process.world();
            let rank = world.rank();
            let color = (rank != 5).then_some((rank % 2).cast_signed());
            let part = world.split(color, -(rank.cast_signed())).unwrap();
            assert_eq!(part.is_some(), color.is_some());
            if let Some(part) = part {
                let before =
                    (0..size).filter(|other| other % 2 == rank % 2 && *other != 5 && *other > rank);
                assert_eq!(part.rank() as usize, before.count());
                ring(&part);
            }
        });
    }
}

#[test]
fn subgroups_get_communicators_with_and_without_the_others() {
    everywhere(5, |process| {
        let world = process.world();
        let group: Arc<Group> = Arc::new(world.group().include(&[4, 0, 2]).unwrap());
        let first = world.create(&group).unwrap();
        let second = if group.rank_of(process.me()).is_some() {
            world.create_group(&group, 3).unwrap()
        } else {
            None
        };
        assert_eq!(first.is_some(), group.rank_of(process.me()).is_some());
        for comm in [first, second].into_iter().flatten() {
            assert_eq!(comm.size(), 3);
            ring(&comm);
        }
    });
}
