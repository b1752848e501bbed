//! Attachment of a client: everything that the client can access; it is made anew for a successor, and given
//! to the components that shared it.
//!
//! ```text
//!   made anew       two regions, the queues with its neighbours and their events, its page, its waiter
//!   told            Rx copier │ Tx copier │ client-side driver │ Tx multiplexer │ driver
//! ```
//!
//! Processes that a client left behind still have the old memory, which nobody reads any more, and events
//! that wake nobody.

use std::io;

use weft_sys::event::EventFd;

use super::{ComponentId, ControlBlock, Link, System};
use crate::buffers::BufferMemory;
use crate::control::orders::{ChannelEnd, Message, Order};
use crate::queue::ChannelMemory;

/// A channel that replaces one of a client.
struct NewLink {
    /// The index of the replaced channel.
    place: usize,
    memory: ChannelMemory,
    source_event: EventFd,
    sink_event: EventFd,
}

/// Everything that is made anew.
struct Attachment {
    block: ControlBlock,
    received: BufferMemory,
    sent: BufferMemory,
    links: Vec<NewLink>,
}

impl System {
    /// Replaces everything that a client can access; returns the messages for its neighbours. `due`: the
    /// channels that are about to go to their next generation.
    ///
    /// # Errors
    /// If something cannot be made: then nothing has changed.
    pub(super) fn replace_attachment(
        &mut self,
        client: usize,
        due: &[usize],
    ) -> io::Result<Vec<(ComponentId, Message)>> {
        let new = self.make_attachment(client, due)?;
        let epoch = self.epochs[client] + u32::from(!self.description.clients[client].tx_copier);
        let messages = self.messages(client, due, &new, epoch)?;
        // From here on nothing fails.
        for link in new.links {
            let old = &self.links[link.place];
            for (id, event) in [
                (old.source.0, &old.source_event),
                (old.sink.0, &old.sink_event),
            ] {
                // Nobody else removed it. The client's own waiter is dropped as a whole.
                let _ = self.block(id).waiter.deregister(event);
            }
            let old = &mut self.links[link.place];
            old.memory = link.memory;
            old.source_event = link.source_event;
            old.sink_event = link.sink_event;
        }
        *self.block_mut(ComponentId::Client(client)) = new.block;
        self.received[client] = new.received;
        self.sent[client] = new.sent;
        self.epochs[client] = epoch;
        Ok(messages)
    }

    fn make_attachment(&self, client: usize, due: &[usize]) -> io::Result<Attachment> {
        let id = ComponentId::Client(client);
        let block = ControlBlock::new(&self.name(id), false)?;
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
                source_event: EventFd::new()?,
                sink_event: EventFd::new()?,
            };
            // An event without other holders leaves a waiter when it is dropped.
            for (owner, event) in [
                (old.source.0, &link.source_event),
                (old.sink.0, &link.sink_event),
            ] {
                let waiter = if owner == id {
                    &block.waiter
                } else {
                    &self.block(owner).waiter
                };
                waiter.register(event)?;
            }
            links.push(link);
        }
        Ok(Attachment {
            block,
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
    ) -> io::Result<Vec<(ComponentId, Message)>> {
        let has_copier = self.description.clients[client].tx_copier;
        let mut messages = Vec::new();
        for &place in due {
            let link = &self.links[place];
            let fresh = new.links.iter().find(|link| link.place == place);
            for (id, port) in [link.source, link.sink] {
                let region = match id {
                    ComponentId::RxCopier(_) => Some(new.received.share(true)?),
                    ComponentId::TxCopier(_) => Some(new.sent.share(false)?),
                    _ => None,
                };
                let names_other_buffers = region.is_some() || id == ComponentId::TxMux;
                if id == ComponentId::Client(client) || !(fresh.is_some() || names_other_buffers) {
                    continue;
                }
                let (memory, event) = channel_of(link, fresh, (id, port) == link.source);
                let end = ChannelEnd {
                    capacity: link.memory.capacity(),
                    generation: link.generation + 1,
                    limit: link.limit,
                };
                let mut descriptors = vec![memory.share()?, event.share()?.into_descriptor()];
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

    /// Whether all components that share memory with a client have released its predecessor's memory: then
    /// the frames of the next one go nowhere else.
    #[must_use]
    pub fn is_settled(&self, client: usize) -> bool {
        let known = &self.description.clients[client];
        let mut neighbours = vec![
            ComponentId::RxCopier(client),
            ComponentId::TxMux,
            self.tx_driver(),
        ];
        neighbours.extend(known.tx_copier.then_some(ComponentId::TxCopier(client)));
        neighbours.extend(known.driver.then_some(ComponentId::ClientDriver(client)));
        neighbours.into_iter().all(|id| self.has_followed(id))
    }
}

/// The memory of a channel and the event that one side of it notifies.
fn channel_of<'l>(
    link: &'l Link,
    fresh: Option<&'l NewLink>,
    is_source: bool,
) -> (&'l ChannelMemory, &'l EventFd) {
    match (fresh, is_source) {
        (Some(fresh), true) => (&fresh.memory, &fresh.sink_event),
        (Some(fresh), false) => (&fresh.memory, &fresh.source_event),
        (None, true) => (&link.memory, &link.sink_event),
        (None, false) => (&link.memory, &link.source_event),
    }
}
