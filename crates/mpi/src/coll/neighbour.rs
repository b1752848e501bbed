//! Collectives among the neighbours of a topology (MPI 5.0, section 8.6): each rank communicates with its neighbours
//! directly. What a rank gives itself, in a grid that is one rank wide and closed to a ring, is copied.
//!
//! The blocking forms are a value first, [`NeighbourExchange`]: its messages may [end at once](crate::engine), and what is left then is
//! a schedule.

use super::blocks::Blocks;
use super::mismatch;
use super::plan::{Cut, Plan};
use crate::buffer::Buffer;
use crate::comm::topology::Neighbours;
use crate::error::{Error, ErrorClass, Result};
use crate::schedule::{Schedule, Span};

/// What a rank gives its neighbours.
#[derive(Clone, Debug)]
enum Given {
    /// One block to all.
    ToAll(Buffer),
    /// A block to each.
    ToEach(Blocks),
}

/// A collective among neighbours, with the arguments of this rank.
#[derive(Clone, Debug)]
pub struct NeighbourExchange<'a> {
    name: &'static str,
    neighbours: &'a Neighbours,
    send: Given,
    receive: Blocks,
}

impl<'a> NeighbourExchange<'a> {
    /// One block to all neighbours, and one of each. `name` is the call.
    ///
    /// # Errors
    /// `Count` unless there is one block for each source.
    pub fn allgather(
        name: &'static str,
        neighbours: &'a Neighbours,
        send: Buffer,
        receive: Blocks,
    ) -> Result<Self> {
        check(name, "source", neighbours.sources.len(), receive.len())?;
        let send = Given::ToAll(send);
        Ok(Self {
            name,
            neighbours,
            send,
            receive,
        })
    }

    /// A block to each neighbour, and one of each. `name` is the call.
    ///
    /// # Errors
    /// `Count` unless there is one block for each source and for each destination.
    pub fn alltoall(
        name: &'static str,
        neighbours: &'a Neighbours,
        send: Blocks,
        receive: Blocks,
    ) -> Result<Self> {
        let (destinations, sources) = (neighbours.destinations.len(), neighbours.sources.len());
        check(name, "destination", destinations, send.len())?;
        check(name, "source", sources, receive.len())?;
        let send = Given::ToEach(send);
        Ok(Self {
            name,
            neighbours,
            send,
            receive,
        })
    }

    /// The call.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether a neighbour is the rank itself.
    pub(crate) fn has_itself(&self) -> bool {
        self.neighbours.itself.is_some()
    }

    /// The messages that this rank sends, in order: rank and data.
    #[inline]
    pub(crate) fn outgoing(&self) -> impl Iterator<Item = (u32, Buffer)> {
        self.destinations().map(|(place, rank)| {
            let data = match &self.send {
                Given::ToAll(own) => own.clone(),
                Given::ToEach(blocks) => blocks.block(place),
            };
            (rank, data)
        })
    }

    /// The messages that it receives, from one rank in the order in which that sends: rank and where the data go.
    #[inline]
    pub(crate) fn incoming(&self) -> impl Iterator<Item = (u32, Buffer)> {
        self.sources()
            .map(|(place, rank)| (rank, self.receive.block(place)))
    }

    /// Place and rank of each other rank that it sends to.
    #[inline]
    fn destinations(&self) -> impl Iterator<Item = (usize, u32)> {
        let all = self.neighbours.destinations.iter().enumerate();
        all.filter_map(|(place, rank)| {
            let rank = rank.filter(|_| !self.neighbours.is_itself(*rank))?;
            Some((place, rank))
        })
    }

    /// Place and rank of each other rank that it receives from.
    #[inline]
    fn sources(&self) -> impl Iterator<Item = (usize, u32)> {
        let all = self.neighbours.arrivals.iter();
        all.filter_map(|&place| {
            let source = self.neighbours.sources[place];
            let rank = source.filter(|_| !self.neighbours.is_itself(source))?;
            Some((place, rank))
        })
    }

    /// The steps of this rank, but for so many messages that were sent and received already.
    ///
    /// # Errors
    /// `Truncate` if the rank gives itself another number of bytes than it expects; `NoMem`.
    pub(crate) fn schedule_behind(&self, sent: usize, received: usize) -> Result<Schedule> {
        let mut plan = Plan::new(self.name);
        let to_others: Vec<(u32, Span)> = match &self.send {
            Given::ToAll(own) => {
                let mut others = self.destinations().skip(sent).peekable();
                // Packed only if anybody else gets it.
                let own = others.peek().map(|_| plan.input(own));
                others.filter_map(|(_, rank)| Some((rank, own?))).collect()
            }
            Given::ToEach(blocks) => {
                let others = self.destinations().skip(sent);
                others
                    .map(|(place, rank)| (rank, plan.input(&blocks.block(place))))
                    .collect()
            }
        };
        for (rank, from) in to_others {
            plan.send(rank as usize, from);
        }
        for (place, rank) in self.sources().skip(received) {
            let into = plan.output(&self.receive.block(place));
            debug_assert_eq!(into.len(), self.receive.bytes(place));
            plan.receive(rank as usize, into);
        }
        for (from, into) in self.neighbours.own_blocks() {
            let into = self.receive.block(into);
            match &self.send {
                Given::ToAll(own) => keep(&mut plan, own, &into)?,
                Given::ToEach(blocks) => keep(&mut plan, &blocks.block(from), &into)?,
            }
        }
        plan.finish()
    }
}

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
    let (send, receive) = (send.clone(), receive.clone());
    NeighbourExchange::allgather(name, neighbours, send, receive)?.schedule_behind(0, 0)
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
    let (send, receive) = (send.clone(), receive.clone());
    NeighbourExchange::alltoall(name, neighbours, send, receive)?.schedule_behind(0, 0)
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
    use crate::schedule::Step;

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

    /// What is left behind some messages is the whole without these.
    #[test]
    fn a_schedule_goes_on_behind_any_message() {
        let topology = Topology::Cartesian(Cartesian::new(&[3, 3], &[true, false]).unwrap());
        let neighbours = topology.neighbours(4);
        for gaps in [false, true] {
            let setting = setting(9, gaps);
            let mut out = Memory::new(&setting, 8);
            let mut into = Memory::new(&setting, 8);
            let (send, receive) = (out.even(2, 4), into.even(2, 4));
            let name = "MPI_Neighbor_alltoall";
            let exchange = NeighbourExchange::alltoall(name, &neighbours, send, receive).unwrap();
            let ranks = |sent, received| {
                let steps = exchange.schedule_behind(sent, received).unwrap().steps;
                let to = steps.iter().filter_map(|step| match step {
                    Step::Send { to, .. } => Some(*to),
                    _ => None,
                });
                let from = steps.iter().filter_map(|step| match step {
                    Step::Receive { from, .. } => Some(*from),
                    _ => None,
                });
                (to.collect::<Vec<_>>(), from.collect::<Vec<_>>())
            };
            let (to, from) = ranks(0, 0);
            assert_eq!((to.len(), from.len()), (4, 4));
            assert!(exchange.outgoing().map(|(rank, _)| rank).eq(to.clone()));
            assert!(exchange.incoming().map(|(rank, _)| rank).eq(from.clone()));
            for sent in 0..=4 {
                for received in 0..=4 {
                    let left = ranks(sent, received);
                    assert_eq!(left, (to[sent..].to_vec(), from[received..].to_vec()));
                }
            }
        }
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
