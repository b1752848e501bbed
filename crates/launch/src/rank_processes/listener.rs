//! Listener: reads the messages of ranks, over their control sockets and by PMI. What a rank tells becomes an event; what it asks is
//! answered, here or by the owner.
//!
//! *Invariant:* of the messages that are read at once, what is told comes before what is asked. A rank at a fence is answered once,
//! when the fence opens.

use weft_fabric_shm::Watch;

use super::fences::{Arrival, Fences, NobodyWaits};
use super::host_ranks::HostRanks;
use super::notices::Notices;
use super::{Event, pmi};
use crate::control::{Answer, Message};
use crate::exchange::PublishedValue;

/// The listener of a host.
pub struct Listener {
    fences: Fences,
    notices: Notices,
}

impl Listener {
    /// For ranks that exchange values at these fences.
    pub fn new(fences: Fences) -> Self {
        Self {
            fences,
            notices: Notices::default(),
        }
    }

    /// Reads what a rank has to say. Questions are answered; what it tells comes back.
    pub fn listen(&mut self, ranks: &mut HostRanks, local: usize) -> Vec<Event> {
        let Some(rank) = ranks.get_mut(local) else {
            return Vec::new();
        };
        let messages = rank.read();
        let mut events = Vec::new();
        let mut questions = Vec::new();
        for message in messages {
            match message {
                Message::Notice(told) => events.push(self.notices.tell(ranks, local, told)),
                Message::Waits { last, piece } => {
                    let rank = &mut ranks[local];
                    let waits = rank.take_waits(last, &piece);
                    let rank = rank.number();
                    events.extend(waits.map(|waits| Event::Waits { rank, waits }));
                }
                question => questions.push(question),
            }
        }
        for question in questions {
            let answer = self.take_question(ranks, local, question, &mut events);
            if let Some(answer) = answer {
                ranks[local].answer(&answer);
            }
        }
        self.listen_to_pmi(ranks, local, &mut events);
        events
    }

    /// Reads what a rank says over PMI, which is answered, and tells what it means.
    fn listen_to_pmi(&mut self, ranks: &mut HostRanks, local: usize, events: &mut Vec<Event>) {
        let numbers = ranks[local].numbers();
        if let Some(connection) = ranks[local].pmi_mut() {
            connection.read();
        }
        for _ in 0..pmi::AT_ONCE {
            let connection = ranks[local].pmi_mut();
            let meaning =
                connection.and_then(|connection| self.fences.serve_pmi(connection, numbers));
            match meaning {
                None => break,
                Some(pmi::Meaning::Nothing) => {}
                Some(pmi::Meaning::Notice(told)) => {
                    events.push(self.notices.tell(ranks, local, told));
                }
                Some(pmi::Meaning::Barrier) => self.arrive(ranks, local, events),
            }
        }
    }

    /// Does what a rank asks. `None` if it is not answered now.
    fn take_question(
        &mut self,
        ranks: &mut HostRanks,
        local: usize,
        question: Message,
        events: &mut Vec<Event>,
    ) -> Option<Answer> {
        match question {
            Message::Notice(_) | Message::Waits { .. } => None,
            Message::Put { name, value } => {
                let rank = ranks[local].number();
                Some(self.fences.put(PublishedValue { rank, name, value }))
            }
            Message::Get { rank, name } => Some(self.fences.get(rank, &name)),
            Message::Ask { last, piece } => {
                let rank = &mut ranks[local];
                match rank.take_request(last, &piece)? {
                    Ok(request) => {
                        let rank = rank.number();
                        events.push(Event::Asked { rank, request });
                        None
                    }
                    Err(refused) => Some(refused),
                }
            }
            Message::AskHosts { from } => Some(self.fences.hosts(from)),
            Message::Fence => {
                self.arrive(ranks, local, events);
                None
            }
        }
    }

    /// A rank has come to a fence.
    fn arrive(&mut self, ranks: &mut HostRanks, local: usize, events: &mut Vec<Event>) {
        match self.fences.arrive(local as u32) {
            Arrival::Early => {}
            Arrival::OfHost(values) => events.push(Event::Fence { values }),
            Arrival::OfJob => let_through(ranks),
        }
    }

    /// Keeps values that ranks of other hosts have put before the fence.
    ///
    /// # Errors
    /// If no rank waits at a fence, or a value is of a rank that the job does not have.
    pub fn keep_values(&mut self, values: &[PublishedValue]) -> Result<(), NobodyWaits> {
        self.fences.keep(values)
    }

    /// Lets the ranks go on from the fence: those of all hosts have come.
    ///
    /// # Errors
    /// If none waits at one.
    pub fn open_fence(&mut self, ranks: &mut HostRanks) -> Result<(), NobodyWaits> {
        self.fences.open()?;
        let_through(ranks);
        Ok(())
    }

    /// Tells what only the segment tells of the ranks, of which these have just ended.
    pub fn look_into_segment(
        &mut self,
        ranks: &mut HostRanks,
        watch: &Watch,
        ended: &[usize],
    ) -> Vec<Event> {
        self.notices.look_into_segment(ranks, watch, ended)
    }
}

/// Answers the ranks at the fence.
fn let_through(ranks: &mut HostRanks) {
    for rank in ranks.iter_mut() {
        let by_pmi = rank.pmi_mut().is_some_and(pmi::Connection::leave_barrier);
        if !by_pmi {
            rank.answer(&Answer::Taken);
        }
    }
}
