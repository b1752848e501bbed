//! Orders with memory: the messages to a client's neighbours when the client is replaced.
//!
//! ```text
//!   broker ──messages with descriptors──▶ component          (then the page says: generation n)
//! ```
//!
//! Everything that a client could access is given up with it: its two regions, its queues, its page, its waiter
//! and the events that it notified. Its successor gets new ones, and so do the neighbours, over a pair of sockets
//! that preserves message boundaries. The broker never waits for a reader; a component whose socket is full is cut
//! off, and replaced.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};
use weft_sys::descriptor::{self, Carries};
use weft_sys::event::EventFd;
use weft_sys::passing;

use crate::buffers::Buffers;
use crate::queue::{ChannelMemory, Sink, Source};

/// One end of a channel, as plain data: its memory and the other side's event come as descriptors.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ChannelEnd {
    pub(crate) capacity: u32,
    pub(crate) generation: u32,
    pub(crate) limit: u32,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A new channel at a port, whose descriptors name buffers of the region number `epoch`. Descriptors: its
    /// memory, the other side's event, and the region, if the component maps it.
    Channel {
        port: usize,
        end: ChannelEnd,
        epoch: u32,
    },
    /// From now on frames of a client are in another region, number `epoch`. Descriptor: the region.
    Region { client: usize, epoch: u32 },
}

/// A message that is ready to go.
pub(crate) struct Message {
    pub(crate) order: Order,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Both ends of the socket pair from the broker to one component.
pub(crate) struct OrderPair {
    sending: OwnedFd,
    receiving: OwnedFd,
}

impl OrderPair {
    pub(crate) fn new() -> io::Result<Self> {
        let (sending, receiving) = descriptor::socket_pair(Carries::Messages)?;
        descriptor::set_nonblocking(&sending, true)?;
        descriptor::set_nonblocking(&receiving, true)?;
        Ok(Self { sending, receiving })
    }

    /// The component's end, for its capabilities.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        self.receiving.try_clone()
    }

    /// Sends without waiting.
    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        let text = serde_json::to_vec(&message.order)?;
        let descriptors: Vec<_> = message.descriptors.iter().map(AsFd::as_fd).collect();
        passing::send(&self.sending, &text, &descriptors).map(drop)
    }
}

/// A component's end.
pub struct Orders {
    socket: OwnedFd,
    /// All neighbours run in turn in the same thread: nobody is to be notified.
    silent: bool,
}

/// Longest message, in bytes.
const LONGEST: usize = 256;

impl Orders {
    /// The end that came with its capabilities.
    #[must_use]
    pub(crate) fn adopt(socket: OwnedFd, silent: bool) -> Self {
        Self { socket, silent }
    }

    /// All messages that have arrived.
    pub(crate) fn take(&mut self) -> Vec<io::Result<Received>> {
        let mut all = Vec::new();
        let mut text = [0; LONGEST];
        loop {
            match passing::receive(&self.socket, &mut text) {
                // The broker is gone, so we end.
                Ok((0, _)) => return all,
                Ok((length, descriptors)) => all.push(self.open(&text[..length], descriptors)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return all,
                Err(error) => {
                    all.push(Err(error));
                    return all;
                }
            }
        }
    }

    fn open(&self, text: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<Received> {
        let mut descriptors = descriptors.into_iter();
        let mut next = || {
            descriptors.next().ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    "an order came with fewer descriptors than it names: both sides must be of the same \
                     version",
                )
            })
        };
        Ok(match serde_json::from_slice(text)? {
            Order::Channel { port, end, epoch } => {
                let memory = ChannelMemory::adopt(next()?, end.capacity)?;
                let event = EventFd::adopt(next()?);
                let channel = NewChannel {
                    memory,
                    event: (!self.silent).then_some(event),
                    end,
                    epoch,
                    region: descriptors.next(),
                };
                Received::Channel(port, channel)
            }
            Order::Region { client, epoch } => Received::Region(NewRegion {
                client,
                epoch,
                descriptor: next()?,
            }),
        })
    }
}

/// A message that came.
pub(crate) enum Received {
    Channel(usize, NewChannel),
    Region(NewRegion),
}

/// A channel that replaces another.
pub(crate) struct NewChannel {
    memory: ChannelMemory,
    event: Option<EventFd>,
    end: ChannelEnd,
    epoch: u32,
    region: Option<OwnedFd>,
}

impl NewChannel {
    pub(crate) fn is_newer_than(&self, generation: u32) -> bool {
        self.end.generation > generation
    }
}

/// A new region from which frames of a client are sent.
pub struct NewRegion {
    client: usize,
    epoch: u32,
    descriptor: OwnedFd,
}

impl NewRegion {
    /// The client.
    #[must_use]
    pub fn client(&self) -> usize {
        self.client
    }

    /// Its number.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Maps it for reading.
    ///
    /// # Errors
    /// If it is no region or cannot be mapped.
    pub fn map(self) -> io::Result<Buffers> {
        Buffers::adopt(self.descriptor, false)
    }
}

/// The change of the channel at a port.
pub struct Reattachment {
    port: usize,
    generation: u32,
    channel: Option<NewChannel>,
}

impl Reattachment {
    pub(crate) fn new(port: usize, generation: u32) -> Self {
        Self {
            port,
            generation,
            channel: None,
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> usize {
        self.port
    }

    /// The generation of its channel from now on.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Of several channels the last one counts. The channel may have been reattached once more since the
    /// message was sent, or the page may have been read before it said so.
    pub(crate) fn replace(&mut self, channel: NewChannel) {
        self.generation = self.generation.max(channel.end.generation);
        self.channel = Some(channel);
    }

    /// The number of the region that its descriptors name, if it is a new channel.
    #[must_use]
    pub fn epoch(&self) -> Option<u32> {
        self.channel.as_ref().map(|channel| channel.epoch)
    }

    /// The region that came with the channel; `None` if it is the one that is mapped already.
    ///
    /// # Errors
    /// If it is no region or cannot be mapped like this.
    pub fn region(&mut self, writable: bool) -> io::Result<Option<Buffers>> {
        let region = self
            .channel
            .as_mut()
            .and_then(|channel| channel.region.take());
        region
            .map(|descriptor| Buffers::adopt(descriptor, writable))
            .transpose()
    }

    /// The new source of the channel, made from the former one.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn source(self, former: Option<Source>) -> io::Result<Option<Source>> {
        match self.channel {
            Some(NewChannel {
                memory, event, end, ..
            }) => memory.source(self.generation, end.limit, event).map(Some),
            None => Ok(former.map(|end| end.reattach(self.generation))),
        }
    }

    /// The new sink of the channel, made from the former one.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn sink(self, former: Option<Sink>) -> io::Result<Option<Sink>> {
        match self.channel {
            Some(NewChannel { memory, event, .. }) => memory.sink(self.generation, event).map(Some),
            None => Ok(former.map(|end| end.reattach(self.generation))),
        }
    }
}
