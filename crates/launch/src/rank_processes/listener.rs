//! Listener: reads the messages of a rank, over its control socket and by PMI. What the rank tells becomes an event; what it asks is
//! answered, here or by the owner.
//!
//! *Invariant:* of the messages that are read at once, what is told comes before what is asked. A rank at a fence is answered once,
//! when the fence opens.

use super::fences::{Arrival, Fences};
use super::host_ranks::HostRanks;
use super::notices::Notices;
use super::{Event, pmi};
use crate::control::{Answer, Message};
use crate::exchange::PublishedValue;

/// The listener of a host, with what messages change.
pub struct Listener<'a> {
    ranks: &'a mut HostRanks,
    fences: &'a mut Fences,
    notices: &'a mut Notices,
}

impl<'a> Listener<'a> {
    /// For ranks that exchange values at these fences.
    pub fn new(ranks: &'a mut HostRanks, fences: &'a mut Fences, notices: &'a mut Notices) -> Self {
        Self {
            ranks,
            fences,
            notices,
        }
    }

    /// Reads what a rank has to say. Questions are answered; what it tells comes back.
    pub fn listen(&mut self, local: usize) -> Vec<Event> {
        let Some(rank) = self.ranks.get_mut(local) else {
            return Vec::new();
        };
        let messages = rank.read();
        let mut events = Vec::new();
        let mut questions = Vec::new();
        for message in messages {
            match message {
                Message::Notice(told) => events.push(self.notices.tell(self.ranks, local, told)),
                Message::Waits { last, piece } => {
                    let rank = &mut self.ranks[local];
                    let waits = rank.take_waits(last, &piece);
                    let rank = rank.number();
                    events.extend(waits.map(|waits| Event::Waits { rank, waits }));
                }
                question => questions.push(question),
            }
        }
        for question in questions {
            let answer = self.take_question(local, question, &mut events);
            if let Some(answer) = answer {
                self.ranks[local].answer(&answer);
            }
        }
        self.listen_to_pmi(local, &mut events);
        events
    }

    /// Reads what a rank says over PMI, which is answered, and tells what it means.
    fn listen_to_pmi(&mut self, local: usize, events: &mut Vec<Event>) {
        let numbers = self.ranks[local].numbers();
        if let Some(connection) = self.ranks[local].pmi_mut() {
            connection.read();
        }
        for _ in 0..pmi::AT_ONCE {
            let connection = self.ranks[local].pmi_mut();
            let meaning =
                connection.and_then(|connection| self.fences.serve_pmi(connection, numbers));
            match meaning {
                None => break,
                Some(pmi::Meaning::Nothing) => {}
                Some(pmi::Meaning::Notice(told)) => {
                    events.push(self.notices.tell(self.ranks, local, told));
                }
                Some(pmi::Meaning::Barrier) => self.arrive(local, events),
            }
        }
    }

    /// Does what a rank asks. `None` if it is not answered now.
    fn take_question(
        &mut self,
        local: usize,
        question: Message,
        events: &mut Vec<Event>,
    ) -> Option<Answer> {
        match question {
            Message::Notice(_) | Message::Waits { .. } => None,
            Message::Put { name, value } => {
                let rank = self.ranks[local].number();
                Some(self.fences.put(PublishedValue { rank, name, value }))
            }
            Message::Get { rank, name } => Some(self.fences.get(rank, &name)),
            Message::Ask { last, piece } => {
                let rank = &mut self.ranks[local];
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
                self.arrive(local, events);
                None
            }
        }
    }

    /// A rank has come to a fence.
    fn arrive(&mut self, local: usize, events: &mut Vec<Event>) {
        match self.fences.arrive(local as u32) {
            Arrival::Early => {}
            Arrival::OfHost(values) => events.push(Event::Fence { values }),
            Arrival::OfJob => self.ranks.let_through(),
        }
    }
}
