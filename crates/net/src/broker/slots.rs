//! Client slots: the places for programs that attach. Which program has one, for how long, and what must be
//! done before the next one gets it.
//!
//! ```text
//!   free ──capabilities──▶ taken ──its process or its connection ends──▶ leaving ──memory made anew──▶ free
//! ```
//!
//! A place belongs to the process that connected. A child may have inherited all its descriptors and
//! mappings: when the process ends, the place is taken from the child too, and what the child still has is
//! connected to nobody.

use std::io;
use std::os::unix::net::UnixStream;

use weft_sys::poll::{Interest, PollFd};
use weft_sys::process::ProcessHandle;
use weft_sys::{clock, passing};

use super::Broker;
use super::callers::CallNumber;
use super::messages::{Answer, send_capabilities};
use crate::system::ComponentId;

/// How long a program waits for its place to be ready before it is told to try again, in nanoseconds.
const READY: u64 = 3_000_000_000;

/// The place of a client that is not free.
pub(super) enum ClientSlot {
    Taken(Attached),
    /// Its program is gone, and its memory is not replaced yet.
    Leaving,
}

/// A program that has a place.
pub(super) struct Attached {
    stream: UnixStream,
    process: ProcessHandle,
}

impl Attached {
    /// Both show its end: it has closed, sent something unasked, or ended.
    pub(super) fn watch<'a>(&'a self, entries: &mut Vec<PollFd<'a>>) {
        entries.push(PollFd::new(&self.stream, Interest::Read));
        entries.push(PollFd::new(&self.process, Interest::Read));
    }
}

/// A program that asked for a place.
pub(super) struct PendingAttachment {
    number: CallNumber,
    client: usize,
    until: u64,
}

impl Broker {
    /// Notes a request for a place.
    ///
    /// # Errors
    /// Why it cannot have it, and what to do.
    pub(super) fn ask_for_place(&mut self, number: CallNumber, name: &str) -> Result<(), String> {
        let clients = &self.system.description().clients;
        let places = || -> Vec<&str> {
            let free = clients.iter().filter(|client| client.work.is_none());
            free.map(|client| client.name.as_str()).collect()
        };
        let Some(client) = clients.iter().position(|client| client.name == name) else {
            return Err(format!(
                "there is no client {name:?}; free places are {:?}",
                places()
            ));
        };
        if clients[client].work.is_some() {
            return Err(format!(
                "client {name:?} has work of its own; free places are {:?}",
                places()
            ));
        }
        if matches!(self.slots.get(&client), Some(ClientSlot::Taken(_))) {
            return Err(taken(name));
        }
        self.pending.push(PendingAttachment {
            number,
            client,
            until: clock::monotonic() + READY,
        });
        Ok(())
    }

    /// Replaces the memory of programs that are gone. What cannot be made now is retried.
    pub(super) fn clear_slots(&mut self) {
        let leaving: Vec<usize> = self
            .slots
            .iter()
            .filter_map(|(&client, slot)| matches!(slot, ClientSlot::Leaving).then_some(client))
            .collect();
        for client in leaving {
            match self.reattach(ComponentId::Client(client)) {
                Ok(()) => _ = self.slots.remove(&client),
                Err(error) => {
                    let name = self.system.name(ComponentId::Client(client));
                    self.say(format_args!("the place {name} is not free yet: {error}"));
                }
            }
        }
    }

    /// Hands out places that are ready, in the order in which they were asked for.
    pub(super) fn attach_pending(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            if !self.callers.is_waiting(pending.number) {
                continue;
            }
            let name = self.system.name(ComponentId::Client(pending.client));
            let refusal = match self.slots.get(&pending.client) {
                Some(ClientSlot::Taken(_)) => taken(&name),
                // No byte for the next program may go where the last one can read.
                None if self.system.is_settled(pending.client) => match self.hand_out(&pending) {
                    Ok(()) => continue,
                    Err(error) => format!("the place {:?} cannot be given: {error}", name),
                },
                _ if clock::monotonic() < pending.until => {
                    self.pending.push(pending);
                    continue;
                }
                _ => format!(
                    "the place {:?} is not ready, as a component that serves it does not answer: see weft \
                     net status, and try again",
                    name
                ),
            };
            self.callers
                .answer(pending.number, &Answer::Refused(refusal));
        }
    }

    /// Gives a program its capabilities.
    ///
    /// # Errors
    /// If the capabilities could not be made: the caller still waits for an answer.
    fn hand_out(&mut self, pending: &PendingAttachment) -> io::Result<()> {
        let capabilities = self
            .system
            .capabilities(ComponentId::Client(pending.client))?;
        let Some(stream) = self.callers.release(pending.number) else {
            return Ok(());
        };
        let given = passing::peer_process(&stream).and_then(|process| {
            send_capabilities(&stream, capabilities)?;
            Ok(process)
        });
        let slot = match given {
            Ok(process) => ClientSlot::Taken(Attached { stream, process }),
            Err(error) => {
                let name = self.system.name(ComponentId::Client(pending.client));
                self.say(format_args!("the place {name} could not be given: {error}"));
                // Some of them may have arrived.
                ClientSlot::Leaving
            }
        };
        self.slots.insert(pending.client, slot);
        Ok(())
    }
}

fn taken(name: &str) -> String {
    format!("the place {name:?} is taken: describe another [[client]]")
}
