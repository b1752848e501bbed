//! Collectives among the neighbours of a topology (MPI 5.0, section 8.6): each rank communicates with its neighbours
//! directly. What a rank gives itself, in a grid that is one rank wide and closed to a ring, is copied.

use super::blocks::Blocks;
use super::mismatch;
use super::plan::{Cut, Plan};
use crate::buffer::Buffer;
use crate::comm::topology::Neighbours;
use crate::error::{Error, ErrorClass, Result};
use crate::schedule::{Schedule, Span};

/// One block to all neighbours, and one of each. `name` is the call.
///
/// # Errors
/// `Count` unless there is one block for each source.
pub fn neighbour_allgather(
    name: &'static str,
    neighbours: &Neighbours,
    send: &Buffer,
    receive: &Blocks,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    check(name, "source", neighbours.sources.len(), receive.len())?;
    let others = || {
        let all = neighbours.destinations.iter().flatten();
        all.filter(|rank| !neighbours.is_itself(Some(**rank)))
    };
    // Packed only if anybody else gets it.
    let own = others().next().map(|_| plan.input(send));
    arrive(&mut plan, neighbours, receive);
    if let Some(own) = own {
        for rank in others() {
            plan.send(*rank as usize, own);
        }
    }
    for (_, place) in neighbours.own_blocks() {
        keep(&mut plan, send, &receive.block(place))?;
    }
    plan.finish()
}

/// A block to each neighbour, and one of each. `name` is the call.
///
/// # Errors
/// `Count` unless there is one block for each source and for each destination.
pub fn neighbour_alltoall(
    name: &'static str,
    neighbours: &Neighbours,
    send: &Blocks,
    receive: &Blocks,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    check(
        name,
        "destination",
        neighbours.destinations.len(),
        send.len(),
    )?;
    check(name, "source", neighbours.sources.len(), receive.len())?;
    let to_others = (0..send.len()).filter_map(|place| {
        let rank =
            neighbours.destinations[place].filter(|rank| !neighbours.is_itself(Some(*rank)))?;
        Some((rank, plan.input(&send.block(place))))
    });
    let to_others: Vec<(u32, Span)> = to_others.collect();
    arrive(&mut plan, neighbours, receive);
    for (rank, from) in to_others {
        plan.send(rank as usize, from);
    }
    for (from, into) in neighbours.own_blocks() {
        keep(&mut plan, &send.block(from), &receive.block(into))?;
    }
    plan.finish()
}

/// Copies a block that the rank gives itself.
fn keep(plan: &mut Plan, from: &Buffer, into: &Buffer) -> Result<()> {
    let (came, expected) = (from.bytes(), into.bytes());
    if came != expected {
        return Err(mismatch(plan.name(), came, expected));
    }
    plan.transfer(from, into);
    Ok(())
}

/// Begins to receive from all others; from one rank in the order in which it sends.
fn arrive(plan: &mut Plan, neighbours: &Neighbours, receive: &Blocks) {
    for &place in &neighbours.arrivals {
        let source = neighbours.sources[place];
        if let Some(rank) = source.filter(|_| !neighbours.is_itself(source)) {
            let into = plan.output(&receive.block(place));
            debug_assert_eq!(into.len(), receive.bytes(place));
            plan.receive(rank as usize, into);
        }
    }
}

fn check(name: &str, what: &str, expected: usize, given: usize) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::Count,
        format!("{name}: {given} blocks for {expected} neighbours; give one for each {what}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::interpreter::{Random, run};
    use super::super::tests::{Arrangement, Memory, Setting, elements};
    use super::*;
    use crate::comm::topology::{Cartesian, Graph, Topology};

    fn setting(size: usize, gaps: bool) -> Setting {
        Setting {
            size,
            crowded: false,
            in_place: false,
            gaps,
            count: 2,
            hosts: Arrangement::OneHost,
        }
    }

    /// Each rank gives each neighbour a block that names both the rank and the place of the block; it
    /// must come in where the topology says.
    fn exchange(
        topology: &Topology,
        size: usize,
        partner: impl Fn(usize, usize) -> (usize, usize),
    ) {
        for gaps in [false, true] {
            let setting = setting(size, gaps);
            let neighbours: Vec<Neighbours> = (0..size)
                .map(|rank| topology.neighbours(rank as u32))
                .collect();
            let block = |rank: usize, place: usize| elements(rank * 50 + place, 0..2);
            let mut out: Vec<Memory> = (0..size)
                .map(|rank| {
                    let places = 0..neighbours[rank].destinations.len();
                    let data: Vec<u8> = places.flat_map(|place| block(rank, place)).collect();
                    Memory::holding(&setting, &data)
                })
                .collect();
            let mut into: Vec<Memory> = (0..size)
                .map(|rank| Memory::new(&setting, 2 * neighbours[rank].sources.len()))
                .collect();
            let before: Vec<Vec<u8>> = into.iter().map(Memory::data).collect();
            let schedules = (0..size).map(|rank| {
                let own = &neighbours[rank];
                let send = out[rank].even(2, own.destinations.len());
                let receive = into[rank].even(2, own.sources.len());
                neighbour_alltoall("MPI_Neighbor_alltoall", own, &send, &receive).unwrap()
            });
            run(schedules.collect(), &mut Random(99)).unwrap();
            for rank in 0..size {
                let got = into[rank].data();
                for (place, source) in neighbours[rank].sources.iter().enumerate() {
                    let here = place * 16..place * 16 + 16;
                    match source {
                        None => assert_eq!(got[here.clone()], before[rank][here], "untouched"),
                        Some(_) => {
                            let (other, theirs) = partner(rank, place);
                            assert_eq!(got[here], block(other, theirs), "{rank} {place}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_goes_left_comes_in_from_the_right() {
        for (dims, periods) in [
            (vec![3, 2], vec![true, true]),
            (vec![1, 2], vec![true, true]),
            (vec![1], vec![true]),
            (vec![4, 3], vec![false, true]),
            (vec![2, 2, 2], vec![false, true, false]),
        ] {
            let grid = Cartesian::new(&dims, &periods).unwrap();
            let size = grid.places() as usize;
            let topology = Topology::Cartesian(grid.clone());
            exchange(&topology, size, |rank, place| {
                let sources = topology.neighbours(rank as u32).sources;
                (sources[place].unwrap() as usize, place ^ 1)
            });
        }
    }

    #[test]
    fn several_edges_between_two_ranks_keep_their_order() {
        let graph = Graph::new(&[3, 6], &[1, 1, 0, 0, 1, 0]).unwrap();
        let topology = Topology::Graph(graph);
        // Of rank 0: 1, 1, 0; of rank 1: 0, 1, 0.
        exchange(&topology, 2, |rank, place| match (rank, place) {
            (0, 0) => (1, 0),
            (0, 1) => (1, 2),
            (0, _) => (0, 2),
            (_, 0) => (0, 0),
            (_, 1) => (1, 1),
            _ => (0, 1),
        });
    }

    #[test]
    fn neighbours_gather_each_other() {
        let grid = Cartesian::new(&[5], &[false]).unwrap();
        let topology = Topology::Cartesian(grid);
        let setting = setting(5, true);
        let mut own: Vec<Memory> = (0..5)
            .map(|rank| Memory::holding(&setting, &elements(rank, 0..2)))
            .collect();
        let mut all: Vec<Memory> = (0..5).map(|_| Memory::new(&setting, 4)).collect();
        let schedules = (0..5).map(|rank| {
            let (send, receive) = (own[rank].buffer(2), all[rank].even(2, 2));
            let neighbours = topology.neighbours(rank as u32);
            neighbour_allgather("MPI_Neighbor_allgather", &neighbours, &send, &receive).unwrap()
        });
        run(schedules.collect(), &mut Random(7)).unwrap();
        for (rank, got) in all.iter().enumerate().take(4).skip(1) {
            let expected = [elements(rank - 1, 0..2), elements(rank + 1, 0..2)].concat();
            assert_eq!(got.data(), expected);
        }
        assert_eq!(all[0].data()[16..], elements(1, 0..2));
    }
}
