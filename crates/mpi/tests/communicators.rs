//! Making communicators, on every fabric.

use std::sync::Arc;

use crate::common::{everywhere, over, pattern};
use weft_fabric::Region;
use weft_mpi::coll::inter::{Root, Sides};
use weft_mpi::coll::{self, Blocks};
use weft_mpi::comm::Bridge;
use weft_mpi::comm::topology::{Cartesian, Edge};
use weft_mpi::datatype::Basic;
use weft_mpi::group::Comparison;
use weft_mpi::{Comm, ErrorClass, Group, RequestId, SendMode, Source, TagPattern, Target};

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

/// An intercommunicator of the ranks below `first` and those from there on; leaders: the last of each.
fn two_sides(world: &Comm, first: u32) -> Arc<Comm> {
    let low = world.rank() < first;
    let local = world.split(Some(i32::from(!low)), 0).unwrap().unwrap();
    let leaders = (first - 1, world.size() - 1);
    let local_leader = local.size() - 1;
    let bridge = (local.rank() == local_leader).then_some(Bridge {
        comm: world,
        remote_leader: if low { leaders.1 } else { leaders.0 },
        tag: 5,
    });
    local.connect(local_leader, bridge).unwrap()
}

/// Everybody tells everybody of the remote group its rank in the world.
fn talk(comm: &Comm, world: &Comm) {
    let remote = comm.remote_group().unwrap();
    let size = remote.size();
    for rank in 0..size {
        let mut word = [world.rank() as u8, comm.rank() as u8];
        comm.send(SendMode::Standard, over(&mut word), Target::Rank(rank), 3)
            .unwrap();
    }
    let mut heard = Vec::new();
    for _ in 0..size {
        let mut word = [0; 2];
        let status = comm
            .recv(over(&mut word), Source::Any, TagPattern::Exact(3))
            .unwrap();
        assert_eq!(status.source, Some(u32::from(word[1])));
        assert_eq!(remote.peer(u32::from(word[1])).0, u32::from(word[0]));
        heard.push(word[1]);
    }
    heard.sort_unstable();
    assert!(heard.iter().copied().eq(0..size as u8));
}

#[test]
fn two_groups_talk_to_each_other() {
    for (size, first) in [(2, 1), (3, 2), (7, 3)] {
        everywhere(size, |process| {
            let world = process.world();
            let inter = two_sides(&world, first);
            let low = world.rank() < first;
            assert_eq!(inter.size(), if low { first } else { size - first });
            talk(&inter, &world);
            let twin = inter.dup().unwrap();
            assert_eq!(twin.compare(&inter), Comparison::Congruent);
            assert_eq!(twin.compare(&world), Comparison::Unequal);
            talk(&twin, &world);
        });
    }
}

#[test]
fn copies_are_made_without_waiting() {
    everywhere(5, |process| {
        let world = process.world();
        let inter = two_sides(&world, 2);
        // Both are under way at once, and a message of the world passes them.
        let (twin, request) = world.idup().unwrap();
        let (other, later) = inter.idup().unwrap();
        ring(&world);
        assert!(process.wait(later).is_ok());
        assert!(process.wait(request).is_ok());
        assert_eq!(twin.compare(&world), Comparison::Congruent);
        assert_eq!(other.compare(&inter), Comparison::Congruent);
        ring(&twin);
        talk(&other, &world);
        assert_eq!(twin.known_context(), Some(twin.context()));
    });
}

#[test]
fn grids_and_graphs_of_ranks() {
    everywhere(6, |process| {
        let world = process.world();
        let grid = Cartesian::new(&[2, 2], &[true, false]).unwrap();
        let comm = world.cartesian(grid).unwrap();
        assert_eq!(comm.is_some(), world.rank() < 4);
        if let Some(comm) = comm {
            let row = comm.part_of_grid(&[false, true]).unwrap();
            assert_eq!(row.size(), 2);
            assert_eq!(row.rank(), comm.rank() % 2);
            assert_eq!(row.grid().unwrap().dims(), [2]);
            ring(&row.dup().unwrap());
        }
        // Every rank names the edge from the rank after it to the one after that.
        let at = |distance: u32| ((world.rank() + distance) % 6).cast_signed();
        let edge = Edge {
            source: at(1),
            destination: at(2),
            weight: at(0),
        };
        let comm = world.distributed(&[edge], true).unwrap();
        let edges = comm.edges().unwrap();
        let before = (world.rank() + 5) % 6;
        assert_eq!(edges.sources, [(before, (before.cast_signed() + 5) % 6)]);
        assert_eq!(
            edges.destinations,
            [((world.rank() + 1) % 6, before.cast_signed())]
        );
        assert_eq!(
            world.neighbours().unwrap_err().class(),
            ErrorClass::Topology
        );
    });
}

/// Blocks of so many bytes.
fn blocks(bytes: &mut [u8], each: usize) -> Blocks {
    let number = bytes.len() / each;
    // SAFETY: each test waits for the end of what it starts before it looks at the slice.
    unsafe {
        Blocks::even(
            bytes.as_mut_ptr().cast(),
            each,
            Basic::Byte.datatype(),
            number,
        )
    }
    .unwrap()
}

/// In a ring of one rank, what goes up comes in from below: it is copied, without a request.
#[test]
fn a_rank_gives_itself_its_blocks() {
    everywhere(2, |process| {
        let world = process.world();
        let grid = Cartesian::new(&[2, 1], &[true, true]).unwrap();
        let comm = world.cartesian(grid).unwrap().unwrap();
        let me = u8::try_from(comm.rank()).unwrap();
        let (own, theirs) = (10 * me, 10 * (1 - me));
        let mut out = [own, own + 1, own + 2, own + 3];
        let mut into = [99; 4];
        let schedule = |out: &mut [u8], into: &mut [u8], comm: &Comm| {
            let (out, into) = (blocks(out, 1), blocks(into, 1));
            let neighbours = comm.neighbours().unwrap();
            coll::neighbour_alltoall("MPI_Neighbor_alltoall", neighbours, &out, &into)
        };
        comm.run(schedule(&mut out, &mut into, &comm).unwrap())
            .unwrap();
        assert_eq!(into, [theirs + 1, theirs, own + 3, own + 2]);

        let ring = comm.part_of_grid(&[false, true]).unwrap();
        let request = ring.begin(schedule(&mut out[..2], &mut into[..2], &ring).unwrap());
        assert_eq!(request.unwrap(), RequestId::DONE);
        assert_eq!(into[..2], [own + 1, own]);
        // Both know the number of the next collective.
        comm.run(coll::barrier(&coll::Members::of(&comm)).unwrap())
            .unwrap();
        let (out, long) = (blocks(&mut out[..2], 1), blocks(&mut into, 2));
        let neighbours = ring.neighbours().unwrap();
        let error = coll::neighbour_alltoall("MPI_Neighbor_alltoall", neighbours, &out, &long);
        assert_eq!(error.unwrap_err().class(), ErrorClass::Truncate);
    });
}

#[test]
fn merged_groups_stand_in_the_order_asked_for() {
    everywhere(5, |process| {
        let world = process.world();
        let inter = two_sides(&world, 2);
        let low = world.rank() < 2;
        for (high, expected) in [
            (low, [2, 3, 4, 0, 1]),
            (!low, [0, 1, 2, 3, 4]),
            (true, [0, 1, 2, 3, 4]),
            (false, [0, 1, 2, 3, 4]),
        ] {
            let merged = inter.merge(high).unwrap();
            let order: Vec<u32> = merged.group().members().map(|peer| peer.0).collect();
            assert_eq!(order, expected);
            ring(&merged);
        }
        assert_eq!(world.merge(true).unwrap_err().class(), ErrorClass::Comm);
    });
}

#[test]
fn both_sides_are_split_and_cut() {
    everywhere(7, |process| {
        let world = process.world();
        let inter = two_sides(&world, 3);
        let low = world.rank() < 3;
        // Color 1 is on the second side alone; -> none. Ranks count backwards.
        let color = inter.rank() % 2;
        let color = if low { 0 } else { color.cast_signed() };
        let part = inter
            .split(Some(color), -inter.rank().cast_signed())
            .unwrap();
        assert_eq!(part.is_some(), color == 0);
        if let Some(part) = part {
            assert_eq!(part.size(), if low { 3 } else { 2 });
            assert_eq!(part.remote_group().unwrap().size(), if low { 2 } else { 3 });
            talk(&part, &world);
        }
        let last = inter
            .group()
            .include(&[inter.size().cast_signed() - 1, 0])
            .unwrap();
        let cut = inter.create(&Arc::new(last)).unwrap();
        let inside = [0, inter.size() - 1].contains(&inter.rank());
        assert_eq!(cut.is_some(), inside);
        if let Some(cut) = cut {
            assert_eq!(
                cut.rank() == 0,
                inter.rank() != 0,
                "in the order of the group"
            );
            talk(&cut, &world);
        }
        let nobody = inter.create(&Arc::new(Group::of(Vec::new()))).unwrap();
        assert!(nobody.is_none());
    });
}

#[test]
fn collectives_change_sides() {
    everywhere(5, |process| {
        let world = process.world();
        let inter = two_sides(&world, 2);
        let sides = Sides::of(&inter).unwrap();
        inter.run(coll::inter::barrier(&sides).unwrap()).unwrap();
        // Rank 1 of the second side, rank 3 of the world, tells the first side.
        let root = match world.rank() {
            0 | 1 => Root::Rank(1),
            3 => Root::ThisRank,
            _ => Root::ProcNull,
        };
        let mut word = pattern(5000, world.rank() as usize);
        let schedule = coll::inter::bcast(&sides, Some(&over(&mut word)), root).unwrap();
        inter.run(schedule).unwrap();
        let expected = if world.rank() < 2 { 3 } else { world.rank() };
        assert_eq!(word, pattern(5000, expected as usize));
        let mut own = [inter.rank() as u8 + 10 * u8::from(world.rank() < 2)];
        let mut all = vec![0; sides.remote];
        // SAFETY: the memory holds the blocks and outlives the collective.
        let blocks =
            unsafe { Blocks::even(all.as_mut_ptr(), 1, &crate::common::bytes(), sides.remote) };
        let schedule =
            coll::inter::allgather("MPI_Allgather", &sides, &over(&mut own), &blocks.unwrap());
        inter.run(schedule.unwrap()).unwrap();
        let expected: &[u8] = if world.rank() < 2 {
            &[0, 1, 2]
        } else {
            &[10, 11]
        };
        assert_eq!(all, expected);
    });
}

#[test]
fn a_process_is_on_one_side_only() {
    everywhere(2, |process| {
        let world = process.world();
        let bridge = Bridge {
            comm: &world,
            remote_leader: 0,
            tag: 0,
        };
        // Rank 0 leads and is its own remote leader: both hear of it.
        let error = world.connect(0, Some(bridge)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Comm);
        let error = world.connect(7, None).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Rank);
    });
}

#[test]
fn messages_of_a_freed_communicator_are_dropped() {
    everywhere(2, |process| {
        let world = process.world();
        let (twin, kept) = (world.dup().unwrap(), world.dup().unwrap());
        if world.rank() == 1 {
            for comm in [&twin, &twin, &kept, &world] {
                comm.send(SendMode::Standard, over(&mut [3]), Target::Rank(0), 0)
                    .unwrap();
            }
            return;
        }
        // What was sent before the last message has come with it.
        world
            .recv(over(&mut [0]), Source::Rank(1), TagPattern::Exact(0))
            .unwrap();
        assert_eq!(process.unexpected_messages(), 3);
        let mut got = [0];
        let later = kept
            .recv_init(over(&mut got), Source::Rank(1), TagPattern::Any)
            .unwrap();
        twin.drop_messages();
        assert_eq!(process.unexpected_messages(), 1);
        // A persistent request may still be started.
        kept.drop_messages();
        process.start(later).unwrap();
        process.wait(later).unwrap();
        assert_eq!(got, [3]);
    });
}

/// A collective of one rank that ends at once is counted as others are; one that does not has no effect.
#[test]
fn what_ends_at_once_alone_is_counted_or_without_effect() {
    everywhere(2, |process| {
        assert!(!process.world().is_alone());
        let itself = process.itself().dup().unwrap();
        assert!(itself.is_alone());
        let (mut given, mut got) = ([1u8, 2, 3], [0; 3]);
        let ended = |got: &mut [u8], given: &mut [u8]| {
            // SAFETY: both arrays outlive the call, and nobody else uses them.
            let (from, to) = unsafe {
                (
                    Region::new(given.as_mut_ptr(), given.len()),
                    Region::new(got.as_mut_ptr(), got.len()),
                )
            };
            itself.end_alone_at_once(const { coll::place("MPI_Allreduce") }, Some((&from, &to)))
        };
        let before = itself.collectives();
        let has_ended = ended(&mut got, &mut given);
        assert_eq!(itself.collectives(), before + u32::from(has_ended));
        assert_eq!(got, if has_ended { given } else { [0; 3] });
        itself.revoke();
        got = [0; 3];
        assert!(!ended(&mut got, &mut given), "it is revoked");
        assert_eq!(got, [0; 3]);
    });
}
