//! Protocol between head and agent: which messages an agent may send to the head, and when.
//!
//! ```text
//!   new ── Hello ──▶ greeted ── the head says Start ──▶ assigned ── Ended ──▶ over
//! ```
//!
//! Any process that knows the key may be an agent, and may be broken or hostile. It can end the job, as each of its
//! members can; it cannot speak for ranks of others, open a fence that others have not come to, or make the head keep
//! more than a member may. Each of its messages is checked here, against what the head has sent it; a message that does
//! not fit is an error, and the agent is cut off with all of its ranks.
//!
//! A rank's messages about itself ([`Notice`]) may come in any order: they come from the rank, and are judged as if it were
//! on the host of the head.

use crate::control;
use crate::exchange::PublishedValue;
use crate::job_request::JobRequest;

use super::message::{Assignment, FromAgent, Hello, Notice, Room, ToAgent};

/// Longest message of an agent in bytes.
pub const LONGEST: usize = 1 << 20;
/// Longest text of an agent in bytes: a reason, the text of an abort, the name of its host.
const TEXT: usize = 16 << 10;
/// Longest profile of a rank in bytes: as many events as there is room for, of all threads.
const LONGEST_PROFILE: usize = 64 << 20;
/// Most ranks that one may offer.
const RANKS: u32 = 9_999;

/// State of one agent, for its head.
#[derive(Debug)]
pub struct Protocol {
    phase: Phase,
    /// It was told to end what it has.
    ending: bool,
}

#[derive(Debug)]
enum Phase {
    New,
    Greeted,
    Assigned(Assigned),
    Over,
}

/// What an agent with ranks has said of them.
#[derive(Debug)]
struct Assigned {
    /// Ascending.
    ranks: Vec<Rank>,
    /// It has come to the fence that the head has not opened yet.
    at_fence: bool,
    /// Bytes for rank 0 that were sent and that it has not taken.
    untaken: u64,
    /// Processes that may be started there later, by their number in the job: the first, and how many; the slot of the
    /// first one.
    later: (u32, u32),
    first_slot: u32,
    /// What it was asked and has not answered: how much room it has; to start processes; to record where some are.
    asked_room: u32,
    asked_start: Vec<Vec<u32>>,
    asked_record: u32,
    /// It is to say when its ranks sleep; the last inquiry.
    watched: bool,
    inquiry: u32,
    asked_clock: u32,
    /// Bytes of profiles that may still come.
    profile_left: usize,
}

#[derive(Debug)]
struct Rank {
    number: u32,
    started: bool,
    refused: bool,
    exited: bool,
    /// Standard output and standard error.
    closed: [bool; 2],
    /// The last inquiry that it has answered.
    answered: u32,
}

impl Rank {
    fn new(number: u32) -> Self {
        Self {
            number,
            started: false,
            refused: false,
            exited: false,
            closed: [false; 2],
            answered: 0,
        }
    }
}

/// Why what an agent says does not fit.
type Wrong = String;

impl Protocol {
    /// For an agent that has proved the key and sent nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            phase: Phase::New,
            ending: false,
        }
    }

    /// Notes what the head says to it.
    pub fn said(&mut self, message: &ToAgent) {
        match (message, &mut self.phase) {
            (ToAgent::End | ToAgent::Over { .. }, _) => self.ending = true,
            (ToAgent::Start(assignment), Phase::Greeted) => {
                self.phase = Phase::Assigned(Assigned::new(assignment));
            }
            (ToAgent::Fenced, Phase::Assigned(assigned)) => assigned.at_fence = false,
            (ToAgent::AskRoom, Phase::Assigned(assigned)) => assigned.asked_room += 1,
            (ToAgent::Inquire { number, .. }, Phase::Assigned(assigned)) => {
                assigned.inquiry = *number;
            }
            (ToAgent::AskClock { .. }, Phase::Assigned(assigned)) => assigned.asked_clock += 1,
            (ToAgent::RecordAddresses { .. }, Phase::Assigned(assigned)) => {
                assigned.asked_record += 1;
            }
            (ToAgent::StartLater(later), Phase::Assigned(assigned)) => {
                let numbers = later.processes.iter().map(|process| process.number);
                assigned.asked_start.push(numbers.collect());
            }
            (ToAgent::Input { bytes }, Phase::Assigned(assigned)) => {
                assigned.untaken += bytes.len() as u64;
            }
            _ => {}
        }
    }

    /// Takes a message of the agent.
    ///
    /// # Errors
    /// A sentence, if the message is not allowed, or not now. Nothing in the message may be trusted then.
    pub fn heard(&mut self, message: &FromAgent) -> Result<(), Wrong> {
        match (message, &mut self.phase) {
            (FromAgent::Hello(hello), Phase::New) => {
                check_hello(hello)?;
                self.phase = Phase::Greeted;
                Ok(())
            }
            (_, Phase::New) => Err("it says something before it has said who it is".into()),
            (FromAgent::Hello(_), _) => Err("it says twice who it is".into()),
            (FromAgent::Alive, _) => Ok(()),
            (_, Phase::Over) => {
                Err("it goes on after it has said that its ranks have ended".into())
            }
            (FromAgent::Leaving { .. }, _) => Ok(()),
            (FromAgent::Ended { .. }, Phase::Assigned(assigned)) => {
                if let Some(rank) = assigned.running().filter(|_| !self.ending) {
                    return Err(format!(
                        "it says that all of its ranks have ended, and has not said how rank {rank} did"
                    ));
                }
                self.phase = Phase::Over;
                Ok(())
            }
            (FromAgent::Ended { .. }, Phase::Greeted) if self.ending => {
                self.phase = Phase::Over;
                Ok(())
            }
            (_, Phase::Greeted) => Err("it speaks of ranks before it was given any".into()),
            (message, Phase::Assigned(assigned)) => assigned.heard(message),
        }
    }
}

impl Default for Protocol {
    fn default() -> Self {
        Self::new()
    }
}

impl Assigned {
    fn new(assignment: &Assignment) -> Self {
        let numbers = assignment.ranks.iter().map(|(number, _)| *number);
        let mut ranks: Vec<Rank> = numbers.map(Rank::new).collect();
        ranks.sort_unstable_by_key(|rank| rank.number);
        Self {
            ranks,
            at_fence: false,
            untaken: 0,
            later: (assignment.first_later, assignment.room),
            first_slot: assignment.ranks.len() as u32,
            asked_room: 0,
            asked_start: Vec::new(),
            asked_record: 0,
            watched: assignment.watched,
            inquiry: 0,
            asked_clock: 0,
            profile_left: match &assignment.profile {
                Some(_) => assignment.ranks.len() * LONGEST_PROFILE,
                None => 0,
            },
        }
    }

    /// It says how much room it has: of its own, of which nobody runs.
    fn check_room(&mut self, room: &Room) -> Result<(), Wrong> {
        let Some(asked) = self.asked_room.checked_sub(1) else {
            return Err("it says how much room it has, and was not asked".into());
        };
        self.asked_room = asked;
        let (first, count) = self.later;
        let slots = self.first_slot..self.first_slot + count;
        let mut ascending = room.free.windows(2);
        let running = |slot: &u32| {
            let number = first + (slot - self.first_slot);
            let ranks = self.ranks.iter();
            ranks
                .into_iter()
                .any(|rank| rank.number == number && !rank.exited)
        };
        if !ascending.all(|pair| pair[0] < pair[1])
            || !room.free.iter().all(|slot| slots.contains(slot))
            || room.free.iter().any(running)
            || room.soon > count
        {
            return Err("it offers room that it does not have".into());
        }
        Ok(())
    }

    /// It has started some of the processes that it was told to start.
    fn note_started(&mut self, processes: &[(u32, u32)]) -> Result<(), Wrong> {
        if self.asked_start.is_empty() {
            return Err("it says that it has started processes, and was not told to".into());
        }
        let asked = self.asked_start.remove(0);
        for (number, _) in processes {
            if !asked.contains(number) {
                return Err(format!(
                    "it says that it has started process {number}, and was not told to"
                ));
            }
            let mut rank = Rank::new(*number);
            rank.started = true;
            match self.ranks.binary_search_by_key(number, |rank| rank.number) {
                Ok(index) if self.ranks[index].exited => self.ranks[index] = rank,
                Ok(_) => return Err(format!("it says twice that process {number} was started")),
                Err(index) => self.ranks.insert(index, rank),
            }
        }
        Ok(())
    }

    /// One of its ranks of which it has not said that it has ended, unless one could not be started: then the
    /// job ends.
    fn running(&self) -> Option<u32> {
        if self.ranks.iter().any(|rank| rank.refused) {
            return None;
        }
        let running = self.ranks.iter().find(|rank| !rank.exited);
        running.map(|rank| rank.number)
    }

    fn own(&mut self, number: u32) -> Result<&mut Rank, Wrong> {
        let found = self.ranks.binary_search_by_key(&number, |rank| rank.number);
        match found {
            Ok(index) => Ok(&mut self.ranks[index]),
            Err(_) => Err(format!(
                "it speaks of rank {number}, which is not one of its own"
            )),
        }
    }

    fn heard(&mut self, message: &FromAgent) -> Result<(), Wrong> {
        match message {
            FromAgent::Started { rank, cores, .. } => {
                if cores.as_ref().is_some_and(|cores| cores.len() > TEXT) {
                    return Err(format!("it says too much of the cores of rank {rank}"));
                }
                let own = self.own(*rank)?;
                match std::mem::replace(&mut own.started, true) || own.exited {
                    true => Err(format!("it says twice that rank {rank} was started")),
                    false => Ok(()),
                }
            }
            FromAgent::NotStarted { rank, reason } => {
                let own = self.own(*rank)?;
                if std::mem::replace(&mut own.refused, true) || own.started {
                    return Err(format!(
                        "it says that rank {rank} could not be started, and that it was"
                    ));
                }
                check_text(reason)
            }
            FromAgent::Output { rank, error, .. } => {
                let closed = &mut self.own(*rank)?.closed[usize::from(*error)];
                let ends = matches!(message, FromAgent::Output { bytes, .. } if bytes.is_empty());
                match std::mem::replace(closed, *closed || ends) {
                    true => Err(format!(
                        "rank {rank} writes to an output that it has closed"
                    )),
                    false => Ok(()),
                }
            }
            FromAgent::Notice { rank, told } => {
                self.own(*rank)?;
                match told {
                    Notice::Abort { text, .. } => check_text(text),
                    Notice::Initialised
                    | Notice::Finalised
                    | Notice::EndsByLoss
                    | Notice::Connected
                    | Notice::Independent
                    | Notice::Counters(_)
                    | Notice::HandlesLosses
                    | Notice::Absent => Ok(()),
                }
            }
            FromAgent::Exited { rank, status } => {
                let own = self.own(*rank)?;
                if std::mem::replace(&mut own.exited, true) {
                    return Err(format!("it says twice that rank {rank} has ended"));
                }
                check_status(*rank, *status)
            }
            FromAgent::Asked { rank, request } => {
                self.own(*rank)?;
                match request {
                    // As long as a message may be; what it names is found out where they are started.
                    JobRequest::Spawn(request) => check_text(&request.port),
                    JobRequest::ClosePort { port: text }
                    | JobRequest::Abandon { port: text }
                    | JobRequest::FindPort { port: text }
                    | JobRequest::LookUp { service: text } => check_text(text),
                    JobRequest::Publish { service, port }
                    | JobRequest::Unpublish { service, port } => {
                        check_text(service).and_then(|()| check_text(port))
                    }
                    JobRequest::Introduce { address } => check_text(address),
                    JobRequest::World | JobRequest::Heard | JobRequest::OpenPort => Ok(()),
                }
            }
            FromAgent::InputTaken { bytes } => match self.untaken.checked_sub(*bytes) {
                Some(left) => {
                    self.untaken = left;
                    Ok(())
                }
                None => Err(format!(
                    "it says that {bytes} bytes of the input were taken; {} were sent",
                    self.untaken
                )),
            },
            FromAgent::Put { values } => {
                if self.at_fence {
                    return Err("its ranks put values while they wait at a fence".into());
                }
                values.iter().try_for_each(|value| {
                    self.own(value.rank)?;
                    check_value(value)
                })
            }
            FromAgent::Fence => match std::mem::replace(&mut self.at_fence, true) {
                true => Err("its ranks come to a fence while they wait at one".into()),
                false => Ok(()),
            },
            FromAgent::Room(room) => self.check_room(room),
            FromAgent::StartedLater { processes, reason } => {
                self.note_started(processes)?;
                check_text(reason.as_deref().unwrap_or_default())
            }
            FromAgent::AddressesRecorded => match self.asked_record.checked_sub(1) {
                Some(left) => {
                    self.asked_record = left;
                    Ok(())
                }
                None => Err("it has recorded where processes are, and was not told".into()),
            },
            FromAgent::Rest { .. } if !self.watched => {
                Err("it says whether its ranks sleep, and was not asked".into())
            }
            FromAgent::Rest { .. } => Ok(()),
            FromAgent::Waits { rank, waits } => {
                let (number, asked) = (waits.inquiry, self.inquiry);
                let own = self.own(*rank)?;
                if number > asked || number <= own.answered {
                    return Err(format!(
                        "it says what rank {rank} waits for, and was not asked"
                    ));
                }
                own.answered = number;
                Ok(())
            }
            FromAgent::Clock { .. } => match self.asked_clock.checked_sub(1) {
                Some(left) => {
                    self.asked_clock = left;
                    Ok(())
                }
                None => Err("it says what its clock says, and was not asked".into()),
            },
            FromAgent::Profile { rank, piece, .. } => {
                self.own(*rank)?;
                match self.profile_left.checked_sub(piece.len()) {
                    Some(left) => {
                        self.profile_left = left;
                        Ok(())
                    }
                    None => Err("it sends more of profiles than its ranks can write".into()),
                }
            }
            FromAgent::Hello(_)
            | FromAgent::Leaving { .. }
            | FromAgent::Ended { .. }
            | FromAgent::Alive => Ok(()),
        }
    }
}

fn check_hello(hello: &Hello) -> Result<(), Wrong> {
    check_text(&hello.host)?;
    if hello.ranks > RANKS {
        return Err(format!(
            "it offers {} ranks; at most {RANKS} are possible",
            hello.ranks
        ));
    }
    let ascend = hello.adopted.is_sorted_by(|one, other| one < other);
    if !ascend || hello.adopted.last().is_some_and(|last| *last >= RANKS) {
        return Err("its list of ranks that are there is none".into());
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), Wrong> {
    if text.len() > TEXT {
        return Err(format!(
            "it says a text of {} bytes; at most {TEXT} are possible",
            text.len()
        ));
    }
    Ok(())
}

fn check_value(published: &PublishedValue) -> Result<(), Wrong> {
    if !control::is_value(&published.name, &published.value) {
        return Err(format!(
            "it puts a value of {} bytes under a name of {} for rank {}: no rank can do that",
            published.value.len(),
            published.name.len(),
            published.rank
        ));
    }
    Ok(())
}

/// A wait status must be that of a process that has ended.
fn check_status(rank: u32, status: i32) -> Result<(), Wrong> {
    use std::os::unix::process::ExitStatusExt;
    let status = std::process::ExitStatus::from_raw(status);
    let ended = status.code().is_some() || status.signal().is_some_and(|signal| signal > 0);
    match ended && status.into_raw() >> 16 == 0 {
        true => Ok(()),
        false => Err(format!(
            "it says that rank {rank} has ended with the wait status {:#x}, which no process has",
            status.into_raw()
        )),
    }
}

#[cfg(test)]
mod tests;
