//! Capabilities of one component: its role as plain data, and descriptors in a fixed order.

use std::io;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use weft_sys::event::EventFd;
use weft_sys::{Mapping, MemoryFile};

use super::{ComponentId, Link, System};
use crate::client::Work;
use crate::control::orders::ChannelEnd;

/// The work of a component, and the ends of its channels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Descriptors: card, `rx`, `tx`, the regions to send from.
    Driver {
        /// Towards the Rx multiplexer.
        rx: Option<ChannelEnd>,
        /// From the Tx multiplexer.
        tx: Option<ChannelEnd>,
        /// The number of the region that frames come from, by client.
        regions: Vec<u32>,
    },
    /// Descriptors: card, driver, copiers.
    RxMux {
        /// From the driver.
        driver: ChannelEnd,
        /// Towards the copiers, by client.
        copiers: Vec<ChannelEnd>,
    },
    /// Descriptors: driver, clients.
    TxMux {
        /// Towards the driver.
        driver: ChannelEnd,
        /// From the clients, each with its number of buffers and the number of its region.
        clients: Vec<(ChannelEnd, u32, u32)>,
        /// Frames that may wait at the driver.
        window: u32,
    },
    /// Descriptors: card, what the client receives, multiplexer, client.
    RxCopier {
        /// From the Rx multiplexer.
        mux: ChannelEnd,
        /// Towards the client.
        client: ChannelEnd,
    },
    /// Descriptors: what the client sends, what the copier sends, multiplexer, client.
    TxCopier {
        /// Towards the Tx multiplexer.
        mux: ChannelEnd,
        /// From the client.
        client: ChannelEnd,
    },
    /// Descriptors: copier, client as receiver, client as sender, multiplexer or Tx copier.
    ClientDriver {
        /// In the order of the descriptors.
        ends: [ChannelEnd; 4],
        /// How many buffers the client receives into, and sends from.
        buffers: (u32, u32),
    },
    /// Descriptors: what it receives, what it sends, rx, tx.
    Client {
        /// Its index.
        index: usize,
        /// From its Rx copier.
        rx: ChannelEnd,
        /// Towards the Tx multiplexer or its Tx copier.
        tx: ChannelEnd,
        /// Its work.
        work: Option<Work>,
    },
}

/// A role with its descriptors: control page and waiter first, then the socket for orders (not for clients
/// and the Rx multiplexer, nor a driver that only receives), then those of the role.
pub struct Capabilities {
    pub(super) role: Role,
    pub(super) descriptors: Vec<OwnedFd>,
    /// All neighbours run in turn in the same thread: nobody needs to be notified.
    pub(super) silent: bool,
}

impl Capabilities {
    /// Capabilities from a role and its descriptors in order, as another process took them
    /// [apart](Self::into_parts).
    #[must_use]
    pub fn from_parts(role: Role, descriptors: Vec<OwnedFd>) -> Self {
        Self {
            role,
            descriptors,
            silent: false,
        }
    }

    /// The role, and its descriptors in order: to be passed on.
    #[must_use]
    pub fn into_parts(self) -> (Role, Vec<OwnedFd>) {
        (self.role, self.descriptors)
    }

    /// The same for a component that runs in turn with all of its neighbours: it notifies nobody.
    #[must_use]
    pub fn silent(self) -> Self {
        Self {
            silent: true,
            ..self
        }
    }

    /// For a client: the memory of its two channels, as any holder of these capabilities can map and write
    /// it, and the event that notifies the other side of each. First the one from which it receives.
    ///
    /// # Errors
    /// If these are the capabilities of another component, or something cannot be mapped.
    pub fn into_channels(self) -> io::Result<[(Mapping, EventFd); 2]> {
        let is_client = matches!(self.role, Role::Client { .. });
        // Control page, waiter, two regions; then memory and event of each channel.
        let mut rest = self.descriptors.into_iter().skip(4);
        let mut channel = || -> io::Result<(Mapping, EventFd)> {
            match (rest.next(), rest.next()) {
                (Some(memory), Some(event)) if is_client => {
                    Ok((MemoryFile::adopt(memory)?.map()?, EventFd::adopt(event)))
                }
                _ => Err(not_of_a_client()),
            }
        };
        Ok([channel()?, channel()?])
    }
}

pub(super) fn not_of_a_client() -> io::Error {
    io::Error::other("these are not the capabilities of a client")
}

/// Puts the descriptors of a component in order.
struct Writer<'s> {
    system: &'s System,
    descriptors: Vec<OwnedFd>,
}

impl Writer<'_> {
    /// The end of a component's channel at one of its ports; memory and event follow.
    fn end(&mut self, id: ComponentId, port: usize) -> io::Result<ChannelEnd> {
        let here = |link: &&Link| link.source == (id, port) || link.sink == (id, port);
        let link = self.system.links.iter().find(here);
        // Every port of a component is linked by `System::create`.
        let link = link.unwrap_or_else(|| unreachable!("port {port} of {id:?} leads nowhere"));
        let is_source = link.source == (id, port);
        self.descriptors.push(link.memory.share()?);
        let event = if is_source {
            &link.sink_event
        } else {
            &link.source_event
        };
        self.descriptors.push(event.share()?.into_descriptor());
        Ok(ChannelEnd {
            capacity: link.memory.capacity(),
            generation: link.generation,
            limit: link.limit,
        })
    }
}

impl System {
    /// The capabilities that a component gets.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn capabilities(&self, id: ComponentId) -> io::Result<Capabilities> {
        let block = self.block(id);
        let mut writer = Writer {
            system: self,
            descriptors: vec![
                block.page_file.share()?.into_descriptor(),
                block.waiter.share()?.into_descriptor(),
            ],
        };
        if let Some(orders) = &block.orders {
            writer.descriptors.push(orders.share()?);
        }
        let clients = self.description.clients.len();
        let role = match id {
            ComponentId::Driver | ComponentId::TxDriver => {
                let two = self.tx_driver() == ComponentId::TxDriver;
                let (receives, sends) = (id == ComponentId::Driver, id == self.tx_driver());
                let mut rx = None;
                if receives {
                    writer.descriptors.push(self.card.share(true)?);
                    rx = Some(writer.end(id, 0)?);
                }
                let mut tx = None;
                let mut regions = Vec::new();
                if sends {
                    tx = Some(writer.end(id, usize::from(!two))?);
                    regions.clone_from(&self.epochs);
                    for index in 0..clients {
                        let region = self.copied[index].as_ref().unwrap_or(&self.sent[index]);
                        writer.descriptors.push(region.share(false)?);
                    }
                }
                Role::Driver { rx, tx, regions }
            }
            ComponentId::RxMux => {
                writer.descriptors.push(self.card.share(false)?);
                Role::RxMux {
                    driver: writer.end(id, 0)?,
                    copiers: (0..clients)
                        .map(|index| writer.end(id, 1 + index))
                        .collect::<io::Result<_>>()?,
                }
            }
            ComponentId::TxMux => {
                let queue = self.description.queue;
                let buffers =
                    |index: usize| super::tx_limit(&self.description.clients[index], queue);
                Role::TxMux {
                    driver: writer.end(id, 0)?,
                    clients: (0..clients)
                        .map(|index| {
                            let end = writer.end(id, 1 + index)?;
                            Ok((end, buffers(index), self.epochs[index]))
                        })
                        .collect::<io::Result<_>>()?,
                    window: self.description.window,
                }
            }
            ComponentId::RxCopier(index) => {
                writer.descriptors.push(self.card.share(false)?);
                writer.descriptors.push(self.received[index].share(true)?);
                Role::RxCopier {
                    mux: writer.end(id, 0)?,
                    client: writer.end(id, 1)?,
                }
            }
            ComponentId::TxCopier(index) => {
                writer.descriptors.push(self.sent[index].share(false)?);
                let copied = self.copied[index].as_ref();
                let copied =
                    copied.ok_or_else(|| io::Error::other("this client has no Tx copier"))?;
                writer.descriptors.push(copied.share(true)?);
                Role::TxCopier {
                    mux: writer.end(id, 0)?,
                    client: writer.end(id, 1)?,
                }
            }
            ComponentId::ClientDriver(index) => {
                let client = &self.description.clients[index];
                let queue = self.description.queue;
                Role::ClientDriver {
                    ends: [
                        writer.end(id, 0)?,
                        writer.end(id, 1)?,
                        writer.end(id, 2)?,
                        writer.end(id, 3)?,
                    ],
                    buffers: (
                        super::rx_limit(client, queue),
                        super::tx_limit(client, queue),
                    ),
                }
            }
            ComponentId::Client(index) => {
                writer.descriptors.push(self.received[index].share(true)?);
                writer.descriptors.push(self.sent[index].share(true)?);
                Role::Client {
                    index,
                    rx: writer.end(id, 0)?,
                    tx: writer.end(id, 1)?,
                    work: self.description.clients[index].work,
                }
            }
        };
        Ok(Capabilities {
            role,
            descriptors: writer.descriptors,
            silent: false,
        })
    }
}
