//! Reference: what can become of a program of several threads in each rank, found by going through all states that it can have.
//!
//! ```text
//!   a thread takes its next step │ a message arrives: behind those of the same sender to the same receiver on the same communicator,
//!                                │ before or after any other
//! ```
//!
//! Between communicators there is no order (MPI 5.0, section 3.5), and none where each has a channel of its own: what was sent later on
//! another one may be received first, and have a third message sent that comes before the first.
//!
//! Nothing of the library is used here. A message is matched by what the standard says: the first that fits of those that have come, the
//! first receive that fits of those posted.

use std::collections::{BTreeSet, HashSet};

use super::players::COMMS;

/// A step of a thread's program.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// To a rank: small and buffered, or synchronous.
    Send {
        to: u8,
        tag: u8,
        comm: u8,
        synchronous: bool,
    },
    Receive {
        from: Option<u8>,
        tag: Option<u8>,
        comm: u8,
    },
    Probe {
        from: Option<u8>,
        comm: u8,
    },
    /// Of all ranks, by the first thread of each.
    Barrier {
        twin: bool,
    },
    /// Of the rank's own threads, without MPI: a semaphore.
    Post(u8),
    Await(u8),
    /// Spins, or sleeps, for so many microseconds.
    Compute {
        microseconds: u16,
        asleep: bool,
    },
}

/// Semaphores of each rank.
pub const SEMAPHORES: usize = 2;

/// The steps of each thread of each rank. The first thread of a rank waits for the end of the others after its last step, and meets
/// those of all ranks then.
pub type Programs = Vec<Vec<Vec<Step>>>;

/// How far each thread of each rank has come: the steps that it has done. One more says that the first thread waits for
/// all ranks, two more that it has ended.
pub type Places = Vec<Vec<u8>>;

/// States that are gone through at most.
const MOST_STATES: usize = 40_000;

/// What can become of a program.
#[derive(Default, Debug)]
pub struct Fates {
    /// All come to their end.
    pub ends: bool,
    /// Nobody goes on.
    pub standstills: BTreeSet<Places>,
    /// One of them has a rank of which no thread waits in MPI: nobody there answers.
    pub is_unjudged: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Message {
    from: u8,
    tag: u8,
    comm: u8,
    /// The thread of its rank that waits until this is received.
    sender: Option<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Rank {
    places: Vec<u8>,
    /// Threads that are within their step and wait for a message, or a receive of theirs, in order.
    waits: Vec<bool>,
    posted: Vec<u8>,
    /// In the order in which they came.
    unexpected: Vec<Message>,
    semaphores: [u8; SEMAPHORES],
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    ranks: Vec<Rank>,
    /// On their way: by sender, receiver and communicator.
    lanes: Vec<Vec<Message>>,
}

fn fits(step: Step, message: &Message) -> bool {
    match step {
        Step::Receive { from, tag, comm } => {
            comm == message.comm
                && from.is_none_or(|from| from == message.from)
                && tag.is_none_or(|tag| tag == message.tag)
        }
        Step::Probe { from, comm } => {
            comm == message.comm && from.is_none_or(|from| from == message.from)
        }
        _ => false,
    }
}

/// All that can become of these programs; `None` if that is too much to go through.
pub fn fates(programs: &Programs) -> Option<Fates> {
    let rank = |threads: &Vec<Vec<Step>>| Rank {
        places: vec![0; threads.len()],
        waits: vec![false; threads.len()],
        ..Rank::default()
    };
    let first = State {
        ranks: programs.iter().map(rank).collect(),
        lanes: vec![Vec::new(); programs.len() * programs.len() * usize::from(COMMS)],
    };
    let mut fates = Fates::default();
    let mut seen = HashSet::from([first.clone()]);
    let mut left = vec![first];
    while let Some(state) = left.pop() {
        let next = state.next(programs);
        if next.is_empty() {
            state.add_fate(programs, &mut fates);
        }
        for state in next {
            if seen.insert(state.clone()) {
                left.push(state);
            }
        }
        if seen.len() > MOST_STATES {
            return None;
        }
    }
    Some(fates)
}

impl State {
    fn step(&self, programs: &Programs, (rank, thread): (usize, usize)) -> Option<Step> {
        let place = self.ranks[rank].places[thread];
        programs[rank][thread].get(usize::from(place)).copied()
    }

    /// All states that may be the next one; if one thing can be done that has nothing to do with any other, that alone.
    fn next(&self, programs: &Programs) -> Vec<Self> {
        let mut next = Vec::new();
        for rank in 0..programs.len() {
            for thread in 0..programs[rank].len() {
                let who = (rank, thread);
                if self.ranks[rank].waits[thread] {
                    continue;
                }
                let Some(after) = self.advanced(programs, who) else {
                    continue;
                };
                if self.is_apart(programs, who) {
                    return vec![after];
                }
                next.push(after);
            }
        }
        let arrivals = (0..self.lanes.len()).filter(|lane| !self.lanes[*lane].is_empty());
        next.extend(arrivals.map(|lane| self.arrived(programs, lane)));
        next
    }

    /// Whether what a thread does next can as well be done before or after whatever else is done.
    fn is_apart(&self, programs: &Programs, (rank, thread): (usize, usize)) -> bool {
        match self.step(programs, (rank, thread)) {
            Some(Step::Send { to, .. }) => {
                let sends =
                    |step: &Step| matches!(step, Step::Send { to: other, .. } if *other == to);
                let others = (0..programs[rank].len()).filter(|other| *other != thread);
                others.into_iter().all(|other| {
                    let place = usize::from(self.ranks[rank].places[other]);
                    let rest = programs[rank][other].get(place..).unwrap_or(&[]);
                    !rest.iter().any(sends)
                })
            }
            Some(Step::Receive { .. } | Step::Probe { .. } | Step::Await(_)) => false,
            Some(Step::Barrier { .. } | Step::Post(_) | Step::Compute { .. }) | None => true,
        }
    }

    /// After a thread has begun its next step, and ended it if that is not up to others; `None` if it cannot.
    fn advanced(&self, programs: &Programs, (rank, thread): (usize, usize)) -> Option<Self> {
        let mut after = self.clone();
        let own = &mut after.ranks[rank];
        let Some(step) = self.step(programs, (rank, thread)) else {
            let is_last = usize::from(own.places[thread]) == programs[rank][thread].len();
            let is_over = |(other, place): (usize, &u8)| {
                other == 0 || usize::from(*place) == programs[rank][other].len()
            };
            // The first one, when the others have ended.
            if thread > 0 || !is_last || !own.places.iter().enumerate().all(is_over) {
                return None;
            }
            own.places[0] += 1;
            own.waits[0] = true;
            after.meet(programs);
            return Some(after);
        };
        match step {
            Step::Send {
                to,
                tag,
                comm,
                synchronous,
            } => {
                let message = Message {
                    from: rank as u8,
                    tag,
                    comm,
                    sender: synchronous.then_some(thread as u8),
                };
                own.waits[thread] = synchronous;
                own.places[thread] += u8::from(!synchronous);
                let pair = rank * programs.len() + usize::from(to);
                let lane = pair * usize::from(COMMS) + usize::from(comm);
                after.lanes[lane].push(message);
            }
            Step::Receive { .. } => match own.unexpected.iter().position(|one| fits(step, one)) {
                Some(place) => {
                    let message = own.unexpected.remove(place);
                    own.places[thread] += 1;
                    after.answer(&message);
                }
                None => {
                    own.posted.push(thread as u8);
                    own.waits[thread] = true;
                }
            },
            Step::Probe { .. } => {
                own.unexpected.iter().find(|one| fits(step, one))?;
                own.places[thread] += 1;
            }
            Step::Barrier { .. } => {
                own.waits[thread] = true;
                after.meet(programs);
            }
            Step::Post(which) => {
                own.semaphores[usize::from(which)] += 1;
                own.places[thread] += 1;
            }
            Step::Await(which) => {
                let count = &mut own.semaphores[usize::from(which)];
                *count = count.checked_sub(1)?;
                own.places[thread] += 1;
            }
            Step::Compute { .. } => own.places[thread] += 1,
        }
        Some(after)
    }

    /// Whoever sent it synchronously goes on.
    fn answer(&mut self, message: &Message) {
        if let Some(sender) = message.sender {
            self.go_on(usize::from(message.from), usize::from(sender));
        }
    }

    fn go_on(&mut self, rank: usize, thread: usize) {
        self.ranks[rank].places[thread] += 1;
        self.ranks[rank].waits[thread] = false;
    }

    /// The first threads go on if all of them wait in the same barrier.
    fn meet(&mut self, programs: &Programs) {
        let which = |rank: usize| -> Option<u8> {
            if !self.ranks[rank].waits[0] {
                return None;
            }
            match self.step(programs, (rank, 0)) {
                Some(Step::Barrier { twin }) => Some(u8::from(twin)),
                Some(_) => None,
                None => Some(2),
            }
        };
        let first = which(0);
        if first.is_some() && (1..programs.len()).all(|rank| which(rank) == first) {
            (0..programs.len()).for_each(|rank| self.go_on(rank, 0));
        }
    }

    fn arrived(&self, programs: &Programs, lane: usize) -> Self {
        let mut after = self.clone();
        let message = after.lanes[lane].remove(0);
        let to = lane / usize::from(COMMS) % programs.len();
        let takes = |thread: &u8| {
            let step = self.step(programs, (to, usize::from(*thread)));
            step.is_some_and(|step| fits(step, &message))
        };
        match after.ranks[to].posted.iter().position(takes) {
            Some(place) => {
                let thread = after.ranks[to].posted.remove(place);
                after.go_on(to, usize::from(thread));
                after.answer(&message);
            }
            None => after.ranks[to].unexpected.push(message),
        }
        after
    }

    fn places(&self) -> Places {
        self.ranks.iter().map(|rank| rank.places.clone()).collect()
    }

    /// Nothing can be done any more.
    fn add_fate(&self, programs: &Programs, fates: &mut Fates) {
        let has_ended =
            |(rank, own): (usize, &Rank)| usize::from(own.places[0]) == programs[rank][0].len() + 2;
        if self.ranks.iter().enumerate().all(has_ended) {
            fates.ends = true;
            return;
        }
        let waits_in_mpi = |rank: usize, thread: usize| {
            self.ranks[rank].waits[thread]
                || matches!(
                    self.step(programs, (rank, thread)),
                    Some(Step::Probe { .. })
                )
        };
        let answers =
            |rank: usize| (0..programs[rank].len()).any(|thread| waits_in_mpi(rank, thread));
        fates.is_unjudged |= !(0..programs.len()).all(answers);
        fates.standstills.insert(self.places());
    }
}
