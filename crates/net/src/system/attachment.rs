//! What a client can reach, made anew for its successor, and given to those that the client shared it with.
//!
//! ```text
//!   made anew       two regions, the queues with its neighbours and their bells, its page, its ear
//!   told            Rx copier │ Tx copier │ client-side driver │ Tx multiplexer │ driver
//! ```
//!
//! Whoever a client left behind still has the old memory, of which nobody reads a byte any more; and bells
//! that lie in nobody's ear.

use std::io;

use weft_sys::event::EventFd;

use super::{Id, Link, Seat, System};
use crate::buffers::BufferMemory;
use crate::orders::{End, Message, Order};
use crate::queue::ChannelMemory;

/// A channel in the place of one that a client reaches.
struct NewLink {
    /// Which one.
    place: usize,
    memory: ChannelMemory,
    source_bell: EventFd,
    sink_bell: EventFd,
}

/// Everything that is made anew.
struct Attachment {
    seat: Seat,
    received: BufferMemory,
    sent: BufferMemory,
    links: Vec<NewLink>,
}

impl System {
    /// Makes everything anew that a client reaches and puts it in the place of the old; answers what its
    /// neighbours are to be sent. `due`: the channels that are about to go to their next generation.
    ///
    /// # Errors
    /// If something cannot be made: nothing has changed then.
    pub(super) fn replace_attachment(
        &mut self,
        client: usize,
        due: &[usize],
    ) -> io::Result<Vec<(Id, Message)>> {
        let new = self.make_attachment(client, due)?;
        let epoch = self.epochs[client] + u32::from(!self.description.clients[client].tx_copier);
        let messages = self.messages(client, due, &new, epoch)?;
        // From here on nothing fails.
        for link in new.links {
            let old = &self.links[link.place];
            for (id, bell) in [
                (old.source.0, &old.source_bell),
                (old.sink.0, &old.sink_bell),
            ] {
                // Nobody else took it away. The client's own ear goes as a whole.
                let _ = self.seat(id).ear.forget(bell);
            }
            let old = &mut self.links[link.place];
            old.memory = link.memory;
            old.source_bell = link.source_bell;
            old.sink_bell = link.sink_bell;
        }
        *self.seat_mut(Id::Client(client)) = new.seat;
        self.received[client] = new.received;
        self.sent[client] = new.sent;
        self.epochs[client] = epoch;
        Ok(messages)
    }

    fn make_attachment(&self, client: usize, due: &[usize]) -> io::Result<Attachment> {
        let id = Id::Client(client);
        let seat = Seat::new(&self.name(id), false)?;
        let (received, sent) = self.regions(client)?;
        let mut links = Vec::new();
        for &place in due {
            let old = &self.links[place];
            if !old.touches(id) {
                continue;
            }
            let link = NewLink {
                place,
                memory: self.channel(old.source.0, old.sink.0, old.memory.capacity())?,
                source_bell: EventFd::new()?,
                sink_bell: EventFd::new()?,
            };
            // A bell that nobody else has leaves an ear when it is dropped.
            for (owner, bell) in [
                (old.source.0, &link.source_bell),
                (old.sink.0, &link.sink_bell),
            ] {
                let ear = if owner == id {
                    &seat.ear
                } else {
                    &self.seat(owner).ear
                };
                ear.hear(bell)?;
            }
            links.push(link);
        }
        Ok(Attachment {
            seat,
            received,
            sent,
            links,
        })
    }

    /// For each neighbour that maps a region of the client, or has a channel with it: the channel over which
    /// its buffers come and go, in its next generation.
    fn messages(
        &self,
        client: usize,
        due: &[usize],
        new: &Attachment,
        epoch: u32,
    ) -> io::Result<Vec<(Id, Message)>> {
        let has_copier = self.description.clients[client].tx_copier;
        let mut messages = Vec::new();
        for &place in due {
            let link = &self.links[place];
            let fresh = new.links.iter().find(|link| link.place == place);
            for (id, port) in [link.source, link.sink] {
                let region = match id {
                    Id::RxCopier(_) => Some(new.received.share(true)?),
                    Id::TxCopier(_) => Some(new.sent.share(false)?),
                    _ => None,
                };
                let names_other_buffers = region.is_some() || id == Id::TxMux;
                if id == Id::Client(client) || !(fresh.is_some() || names_other_buffers) {
                    continue;
                }
                let (memory, bell) = channel_of(link, fresh, (id, port) == link.source);
                let end = End {
                    capacity: link.memory.capacity(),
                    generation: link.generation + 1,
                    limit: link.limit,
                };
                let mut descriptors = vec![memory.share()?, bell.share()?.into_descriptor()];
                descriptors.extend(region);
                let order = Order::Channel { port, end, epoch };
                messages.push((id, Message { order, descriptors }));
            }
        }
        if !has_copier {
            let message = Message {
                order: Order::Region { client, epoch },
                descriptors: vec![new.sent.share(false)?],
            };
            messages.push((self.tx_driver(), message));
        }
        Ok(messages)
    }

    /// Whether all that a client shares memory with have let go of what its predecessor had: what the next
    /// one sends and receives goes nowhere else.
    #[must_use]
    pub fn is_settled(&self, client: usize) -> bool {
        let known = &self.description.clients[client];
        let mut neighbours = vec![Id::RxCopier(client), Id::TxMux, self.tx_driver()];
        neighbours.extend(known.tx_copier.then_some(Id::TxCopier(client)));
        neighbours.extend(known.driver.then_some(Id::ClientDriver(client)));
        neighbours.into_iter().all(|id| self.has_followed(id))
    }
}

/// The memory of a channel and the bell that one side of it rings.
fn channel_of<'l>(
    link: &'l Link,
    fresh: Option<&'l NewLink>,
    is_source: bool,
) -> (&'l ChannelMemory, &'l EventFd) {
    match (fresh, is_source) {
        (Some(fresh), true) => (&fresh.memory, &fresh.sink_bell),
        (Some(fresh), false) => (&fresh.memory, &fresh.source_bell),
        (None, true) => (&link.memory, &link.sink_bell),
        (None, false) => (&link.memory, &link.source_bell),
    }
}
