//! What one component is given: its role as plain data, and descriptors in a fixed order.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use weft_sys::MemoryFile;
use weft_sys::clock;
use weft_sys::event::{EventFd, EventWaiter};
use weft_sys::packet::PacketSocket;
use weft_sys::tap::TapDevice;

use super::{Id, Link, System};
use crate::board::{Board, Station};
use crate::buffers::{Buffers, SIZE};
use crate::client::{Client, Port, Stack, Work};
use crate::component::{
    ClientDriver, Component, Fused, Runner, RxCopier, RxDriver, RxMux, TxCopier, TxDriver, TxMux,
};
use crate::orders::{End, Orders};
use crate::plan;
use crate::queue::{ChannelMemory, Sink, Source};
use crate::wire::{
    DeviceRx, DeviceTx, Far, PacketRx, PacketTx, Plug, RxWire, Shape, TxWire, VirtualRx, VirtualTx,
    XdpPlug, XdpTx, virtual_wire,
};

/// What a component does, and the ends of its channels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Descriptors: card, `rx`, `tx`, the regions to send from.
    Driver {
        /// Towards the Rx multiplexer.
        rx: Option<End>,
        /// From the Tx multiplexer.
        tx: Option<End>,
        /// The number of each region that frames come from, by client.
        regions: Vec<u32>,
    },
    /// Descriptors: card, driver, copiers.
    RxMux {
        /// From the driver.
        driver: End,
        /// Towards the copiers, by client.
        copiers: Vec<End>,
    },
    /// Descriptors: driver, clients.
    TxMux {
        /// Towards the driver.
        driver: End,
        /// From the clients, with how many buffers each has, and the number of its region.
        clients: Vec<(End, u32, u32)>,
        /// Frames that may lie at the driver.
        window: u32,
    },
    /// Descriptors: card, what the client receives, multiplexer, client.
    RxCopier {
        /// From the Rx multiplexer.
        mux: End,
        /// Towards the client.
        client: End,
    },
    /// Descriptors: what the client sends, what the copier sends, multiplexer, client.
    TxCopier {
        /// Towards the Tx multiplexer.
        mux: End,
        /// From the client.
        client: End,
    },
    /// Descriptors: copier, client as receiver, client as sender, multiplexer or Tx copier.
    ClientDriver {
        /// In the order of the descriptors.
        ends: [End; 4],
        /// How many buffers the client receives into, and sends from.
        buffers: (u32, u32),
    },
    /// Descriptors: what it receives, what it sends, rx, tx.
    Client {
        /// Its index.
        index: usize,
        /// From its Rx copier.
        rx: End,
        /// Towards the Tx multiplexer or its Tx copier.
        tx: End,
        /// What it does.
        work: Option<Work>,
    },
}

/// What the receiving half of a driver is tapped into.
pub enum RxTap {
    /// A virtual wire.
    Virtual(VirtualRx),
    /// Packet sockets on an interface.
    Packet(PacketSocket),
    /// An AF_XDP socket; whoever binds it leaves the other half here.
    Xdp(XdpPlug, OtherHalf),
    /// A TAP interface.
    Device(TapDevice),
}

/// The transmitting half of an AF_XDP socket, once the receiving half is built.
pub type OtherHalf = Arc<Mutex<Option<XdpTx>>>;

/// What the transmitting half of a driver is tapped into.
pub enum TxTap {
    /// A virtual wire.
    Virtual(VirtualTx),
    /// Packet sockets on an interface.
    Packet(PacketSocket),
    /// An AF_XDP socket that the receiving half has bound.
    Xdp(OtherHalf),
    /// A TAP interface.
    Device(TapDevice),
}

/// A wire for a driver, or for one of two.
pub struct Tap {
    /// The receiving half.
    pub rx: Option<RxTap>,
    /// The transmitting half.
    pub tx: Option<TxTap>,
}

impl Tap {
    /// A virtual wire with somebody at its far end.
    #[must_use]
    pub fn virtual_wire(shape: Shape, far: Box<dyn Far>) -> Self {
        let (rx, tx) = virtual_wire(shape, far);
        Self {
            rx: Some(RxTap::Virtual(rx)),
            tx: Some(TxTap::Virtual(tx)),
        }
    }

    /// An interface of the host.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn plug(plug: Plug) -> io::Result<Self> {
        let (rx, tx) = match plug {
            Plug::Packet(socket) => (RxTap::Packet(socket.share()?), TxTap::Packet(socket)),
            Plug::Tap(device) => (RxTap::Device(device.share()?), TxTap::Device(device)),
            Plug::Xdp(plug) => {
                let half = OtherHalf::default();
                (RxTap::Xdp(plug, half.clone()), TxTap::Xdp(half))
            }
        };
        Ok(Self {
            rx: Some(rx),
            tx: Some(tx),
        })
    }

    /// The receiving and the transmitting half, for two drivers.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let rx = Self {
            rx: self.rx,
            tx: None,
        };
        let tx = Self {
            rx: None,
            tx: self.tx,
        };
        (rx, tx)
    }
}

/// A role with its descriptors: board and ear first, then where orders come from (not for clients and the Rx
/// multiplexer, nor a driver that only receives), then those of the role.
pub struct Grant {
    /// What the component is.
    pub role: Role,
    /// In the order that the role says.
    pub descriptors: Vec<OwnedFd>,
    /// All neighbours run in turn in the same thread: nobody is to be rung.
    pub silent: bool,
}

struct Giver<'s> {
    system: &'s System,
    descriptors: Vec<OwnedFd>,
}

impl Giver<'_> {
    /// The end of a component's channel at one of its ports; memory and bell follow.
    fn end(&mut self, id: Id, port: usize) -> io::Result<End> {
        let here = |link: &&Link| link.source == (id, port) || link.sink == (id, port);
        let link = self.system.links.iter().find(here);
        // Every port of a component is linked by `System::create`.
        let link = link.unwrap_or_else(|| unreachable!("port {port} of {id:?} leads nowhere"));
        let is_source = link.source == (id, port);
        self.descriptors.push(link.memory.share()?);
        let bell = if is_source {
            &link.sink_bell
        } else {
            &link.source_bell
        };
        self.descriptors.push(bell.share()?.into_descriptor());
        Ok(End {
            capacity: link.memory.capacity(),
            generation: link.generation,
            limit: link.limit,
        })
    }
}

impl System {
    /// What a component gets.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn grant(&self, id: Id) -> io::Result<Grant> {
        let seat = self.seat(id);
        let mut giver = Giver {
            system: self,
            descriptors: vec![
                seat.board_file.share()?.into_descriptor(),
                seat.ear.share()?.into_descriptor(),
            ],
        };
        if let Some(orders) = &seat.orders {
            giver.descriptors.push(orders.share()?);
        }
        let clients = self.description.clients.len();
        let role = match id {
            Id::Driver | Id::TxDriver => {
                let two = self.tx_driver() == Id::TxDriver;
                let (receives, sends) = (id == Id::Driver, id == self.tx_driver());
                let mut rx = None;
                if receives {
                    giver.descriptors.push(self.card.share(true)?);
                    rx = Some(giver.end(id, 0)?);
                }
                let mut tx = None;
                let mut regions = Vec::new();
                if sends {
                    tx = Some(giver.end(id, usize::from(!two))?);
                    regions.clone_from(&self.epochs);
                    for index in 0..clients {
                        let region = self.copied[index].as_ref().unwrap_or(&self.sent[index]);
                        giver.descriptors.push(region.share(false)?);
                    }
                }
                Role::Driver { rx, tx, regions }
            }
            Id::RxMux => {
                giver.descriptors.push(self.card.share(false)?);
                Role::RxMux {
                    driver: giver.end(id, 0)?,
                    copiers: (0..clients)
                        .map(|index| giver.end(id, 1 + index))
                        .collect::<io::Result<_>>()?,
                }
            }
            Id::TxMux => {
                let queue = self.description.queue;
                let buffers =
                    |index: usize| super::tx_limit(&self.description.clients[index], queue);
                Role::TxMux {
                    driver: giver.end(id, 0)?,
                    clients: (0..clients)
                        .map(|index| {
                            let end = giver.end(id, 1 + index)?;
                            Ok((end, buffers(index), self.epochs[index]))
                        })
                        .collect::<io::Result<_>>()?,
                    window: self.description.window,
                }
            }
            Id::RxCopier(index) => {
                giver.descriptors.push(self.card.share(false)?);
                giver.descriptors.push(self.received[index].share(true)?);
                Role::RxCopier {
                    mux: giver.end(id, 0)?,
                    client: giver.end(id, 1)?,
                }
            }
            Id::TxCopier(index) => {
                giver.descriptors.push(self.sent[index].share(false)?);
                let copied = self.copied[index].as_ref();
                let copied =
                    copied.ok_or_else(|| io::Error::other("this client has no Tx copier"))?;
                giver.descriptors.push(copied.share(true)?);
                Role::TxCopier {
                    mux: giver.end(id, 0)?,
                    client: giver.end(id, 1)?,
                }
            }
            Id::ClientDriver(index) => {
                let client = &self.description.clients[index];
                let queue = self.description.queue;
                Role::ClientDriver {
                    ends: [
                        giver.end(id, 0)?,
                        giver.end(id, 1)?,
                        giver.end(id, 2)?,
                        giver.end(id, 3)?,
                    ],
                    buffers: (
                        super::rx_limit(client, queue),
                        super::tx_limit(client, queue),
                    ),
                }
            }
            Id::Client(index) => {
                giver.descriptors.push(self.received[index].share(true)?);
                giver.descriptors.push(self.sent[index].share(true)?);
                Role::Client {
                    index,
                    rx: giver.end(id, 0)?,
                    tx: giver.end(id, 1)?,
                    work: self.description.clients[index].work,
                }
            }
        };
        Ok(Grant {
            role,
            descriptors: giver.descriptors,
            silent: false,
        })
    }
}

/// Takes the descriptors of a grant one by one.
struct Taker {
    descriptors: std::vec::IntoIter<OwnedFd>,
    silent: bool,
}

impl Taker {
    fn next(&mut self) -> io::Result<OwnedFd> {
        self.descriptors.next().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "a grant has fewer descriptors than its role needs: both sides must be of the same version",
            )
        })
    }

    fn buffers(&mut self, writable: bool) -> io::Result<Buffers> {
        Buffers::adopt(self.next()?, writable)
    }

    fn card(&mut self) -> io::Result<Buffers> {
        Buffers::adopt_card(self.next()?, false)
    }

    fn bell(&mut self) -> io::Result<Option<EventFd>> {
        let bell = EventFd::adopt(self.next()?);
        Ok((!self.silent).then_some(bell))
    }

    fn source(&mut self, end: End) -> io::Result<Source> {
        let memory = ChannelMemory::adopt(self.next()?, end.capacity)?;
        let bell = self.bell()?;
        memory.source(end.generation, end.limit, bell)
    }

    fn sink(&mut self, end: End) -> io::Result<Sink> {
        let memory = ChannelMemory::adopt(self.next()?, end.capacity)?;
        let bell = self.bell()?;
        memory.sink(end.generation, bell)
    }
}

impl Grant {
    /// Builds the component. `tap`: for a driver, its wire.
    ///
    /// # Errors
    /// If something of the grant is not what the role needs, or cannot be mapped.
    pub fn build(self, tap: Option<Tap>) -> io::Result<Runner> {
        let mut taker = Taker {
            descriptors: self.descriptors.into_iter(),
            silent: self.silent,
        };
        let board = Board::adopt(taker.next()?)?;
        let ear = EventWaiter::adopt(taker.next()?);
        let mut orders = match self.role {
            Role::RxMux { .. } | Role::Client { .. } | Role::Driver { tx: None, .. } => None,
            _ => Some(Orders::adopt(taker.next()?, taker.silent)),
        };
        let mut station = |ends: &[End]| {
            let generations = ends.iter().map(|end| end.generation).collect();
            Station::new(board.clone(), generations, orders.take())
        };
        let now = clock::monotonic();
        let component: Box<dyn Component> = match self.role {
            Role::Driver { rx, tx, regions } => {
                let tap = tap.ok_or_else(|| io::Error::other("a driver needs a wire"))?;
                let tx = tx.zip(orders.take());
                build_driver(&mut taker, &board, rx, tx, &regions, tap)?
            }
            Role::RxMux { driver, copiers } => {
                let card = taker.card()?;
                let mut ends = vec![driver];
                ends.extend(&copiers);
                let driver = taker.sink(driver)?;
                let mut clients = Vec::new();
                for (index, copier) in copiers.into_iter().enumerate() {
                    clients.push((plan::address(index), taker.source(copier)?));
                }
                Box::new(RxMux::new(station(&ends), card, driver, clients))
            }
            Role::TxMux {
                driver,
                clients,
                window,
            } => {
                let mut ends = vec![driver];
                let driver = taker.source(driver)?;
                let mut sinks = Vec::new();
                for (end, buffers, epoch) in clients {
                    ends.push(end);
                    sinks.push((taker.sink(end)?, buffers, epoch));
                }
                Box::new(TxMux::new(station(&ends), driver, sinks, window))
            }
            Role::RxCopier { mux, client } => {
                let (card, own) = (taker.card()?, taker.buffers(true)?);
                let station = station(&[mux, client]);
                let (mux, client) = (taker.sink(mux)?, taker.source(client)?);
                Box::new(RxCopier::new(station, card, own, mux, client))
            }
            Role::TxCopier { mux, client } => {
                let (theirs, own) = (taker.buffers(false)?, taker.buffers(true)?);
                let station = station(&[mux, client]);
                let (mux, client) = (taker.source(mux)?, taker.sink(client)?);
                Box::new(TxCopier::new(station, theirs, own, mux, client))
            }
            Role::ClientDriver { ends, buffers } => {
                let [copier, to_client, from_client, mux] = ends;
                let incoming = (taker.sink(copier)?, taker.source(to_client)?);
                let outgoing = (taker.sink(from_client)?, taker.source(mux)?);
                Box::new(ClientDriver::new(
                    station(&ends),
                    incoming,
                    outgoing,
                    buffers,
                ))
            }
            Role::Client {
                index,
                rx,
                tx,
                work,
            } => {
                let port = build_port(&mut taker, &board, rx, tx)?;
                let stack = Stack::new(port, index, now, now);
                Box::new(Client::new(stack, work.unwrap_or(Work::Echo)))
            }
        };
        Ok(Runner {
            component,
            ear,
            board,
        })
    }
}

impl Grant {
    /// The port of a client that has a stack of its own, where it is rung, and its index.
    ///
    /// # Errors
    /// If it is the grant of another component, or something cannot be mapped.
    pub fn into_port(self) -> io::Result<(Port, EventWaiter, usize)> {
        let Role::Client { index, rx, tx, .. } = self.role else {
            return Err(io::Error::other("this is not the grant of a client"));
        };
        let mut taker = Taker {
            descriptors: self.descriptors.into_iter(),
            silent: self.silent,
        };
        let board = Board::adopt(taker.next()?)?;
        let ear = EventWaiter::adopt(taker.next()?);
        Ok((build_port(&mut taker, &board, rx, tx)?, ear, index))
    }
}

fn build_port(taker: &mut Taker, board: &Board, rx: End, tx: End) -> io::Result<Port> {
    let (received, sent) = (taker.buffers(true)?, taker.buffers(true)?);
    let station = Station::new(board.clone(), vec![rx.generation, tx.generation], None);
    let (rx, tx) = (taker.sink(rx)?, taker.source(tx)?);
    Ok(Port::new(station, received, sent, rx, tx))
}

fn build_driver(
    taker: &mut Taker,
    board: &Board,
    rx: Option<End>,
    tx: Option<(End, Orders)>,
    regions: &[u32],
    tap: Tap,
) -> io::Result<Box<dyn Component>> {
    let mut halves: Vec<Box<dyn Component>> = Vec::new();
    if let Some(end) = rx {
        let card = taker.next()?;
        let mux = taker.source(end)?;
        let buffers = MemoryFile::adopt(card.try_clone()?)?.len() / SIZE as usize;
        let mapped = |card| Buffers::adopt_card(card, true);
        let wire: Box<dyn RxWire> = match tap.rx {
            Some(RxTap::Virtual(wire)) => Box::new(wire.attached(mapped(card)?)),
            Some(RxTap::Packet(socket)) => Box::new(PacketRx::new(socket, mapped(card)?)),
            Some(RxTap::Device(device)) => Box::new(DeviceRx::new(device, mapped(card)?)),
            Some(RxTap::Xdp(plug, other)) => {
                let (rx, tx) = plug.bind(card)?;
                *other.lock().unwrap_or_else(PoisonError::into_inner) = Some(tx);
                Box::new(rx)
            }
            None => {
                return Err(io::Error::other(
                    "this driver receives and got no wire to receive from",
                ));
            }
        };
        let station = Station::new(board.clone(), vec![end.generation], None);
        halves.push(Box::new(RxDriver::new(station, wire, mux, buffers as u32)));
    }
    if let Some((end, orders)) = tx {
        let mux = taker.sink(end)?;
        let mut from = Vec::new();
        for _ in regions {
            from.push(taker.buffers(false)?);
        }
        let counts = from.iter().map(Buffers::count);
        let counts: Vec<_> = counts.zip(regions.iter().copied()).collect();
        let wire: Box<dyn TxWire> = match tap.tx {
            Some(TxTap::Virtual(wire)) => Box::new(wire.attached(from)),
            Some(TxTap::Packet(socket)) => Box::new(PacketTx::new(socket, from)),
            Some(TxTap::Device(device)) => Box::new(DeviceTx::new(device, from)),
            Some(TxTap::Xdp(half)) => {
                let bound = half.lock().unwrap_or_else(PoisonError::into_inner).take();
                let bound = bound.ok_or_else(|| {
                    io::Error::other("the receiving half of an AF_XDP socket comes first")
                })?;
                Box::new(bound.attached(from))
            }
            None => {
                return Err(io::Error::other(
                    "this driver sends and got no wire to send to",
                ));
            }
        };
        // The halves of one driver share a board. They follow orders in the same step.
        let generations = vec![end.generation];
        let station = Station::at(board.clone(), halves.len(), generations, Some(orders));
        halves.push(Box::new(TxDriver::new(station, wire, mux, &counts)));
    }
    Ok(Box::new(Fused::from(halves)))
}
