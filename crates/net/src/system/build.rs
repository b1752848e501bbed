//! Construction of a component from its capabilities: the same code in a thread here and in a process of its
//! own.

use std::io;
use std::os::fd::OwnedFd;

use weft_sys::event::{EventFd, EventWaiter};
use weft_sys::{MemoryFile, clock};

use super::WireEnds;
use super::capabilities::{Capabilities, Role, not_of_a_client};
use crate::buffers::{Buffers, SIZE};
use crate::client::{Client, ClientPort, Stack, Work};
use crate::component::{Component, Fused};
use crate::control::orders::{ChannelEnd, Orders};
use crate::control::{ControlPage, ControlPort};
use crate::control_loop::ControlLoop;
use crate::plan;
use crate::queue::{ChannelMemory, Sink, Source};
use crate::runner::Runner;
use crate::stage::{ClientDriver, RxCopier, RxDriver, RxMux, Stage, TxCopier, TxDriver, TxMux};

/// Takes the descriptors of capabilities one by one.
struct Reader {
    descriptors: std::vec::IntoIter<OwnedFd>,
    silent: bool,
}

impl Reader {
    fn next(&mut self) -> io::Result<OwnedFd> {
        self.descriptors.next().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "capabilities have fewer descriptors than the role needs: both sides must be of the same version",
            )
        })
    }

    fn buffers(&mut self, writable: bool) -> io::Result<Buffers> {
        Buffers::adopt(self.next()?, writable)
    }

    fn card(&mut self) -> io::Result<Buffers> {
        Buffers::adopt_card(self.next()?, false)
    }

    fn event(&mut self) -> io::Result<Option<EventFd>> {
        let event = EventFd::adopt(self.next()?);
        Ok((!self.silent).then_some(event))
    }

    fn source(&mut self, end: ChannelEnd) -> io::Result<Source> {
        let memory = ChannelMemory::adopt(self.next()?, end.capacity)?;
        let event = self.event()?;
        memory.source(end.generation, end.limit, event)
    }

    fn sink(&mut self, end: ChannelEnd) -> io::Result<Sink> {
        let memory = ChannelMemory::adopt(self.next()?, end.capacity)?;
        let event = self.event()?;
        memory.sink(end.generation, event)
    }
}

impl Capabilities {
    /// Builds the component. `wire`: for a driver.
    ///
    /// # Errors
    /// If a descriptor is not what the role needs, or cannot be mapped.
    pub fn build(self, wire: Option<WireEnds>) -> io::Result<Runner> {
        let mut reader = Reader {
            descriptors: self.descriptors.into_iter(),
            silent: self.silent,
        };
        let page = ControlPage::adopt(reader.next()?)?;
        let waiter = EventWaiter::adopt(reader.next()?);
        let mut orders = match self.role {
            Role::RxMux { .. } | Role::Client { .. } | Role::Driver { tx: None, .. } => None,
            _ => Some(Orders::adopt(reader.next()?, reader.silent)),
        };
        let mut port = |ends: &[ChannelEnd]| {
            let generations = ends.iter().map(|end| end.generation).collect();
            ControlPort::new(page.clone(), generations, orders.take())
        };
        let now = clock::monotonic();
        let component: Box<dyn Component> = match self.role {
            Role::Driver { rx, tx, regions } => {
                let wire = wire.ok_or_else(|| io::Error::other("a driver needs a wire"))?;
                let tx = tx.zip(orders.take());
                build_driver(&mut reader, &page, rx, tx, &regions, wire)?
            }
            Role::RxMux { driver, copiers } => {
                let card = reader.card()?;
                let mut ends = vec![driver];
                ends.extend(&copiers);
                let driver = reader.sink(driver)?;
                let mut clients = Vec::new();
                for (index, copier) in copiers.into_iter().enumerate() {
                    clients.push((plan::address(index), reader.source(copier)?));
                }
                controlled(port(&ends), RxMux::new(card, driver, clients))
            }
            Role::TxMux {
                driver,
                clients,
                window,
            } => {
                let mut ends = vec![driver];
                let driver = reader.source(driver)?;
                let mut sinks = Vec::new();
                for (end, buffers, epoch) in clients {
                    ends.push(end);
                    sinks.push((reader.sink(end)?, buffers, epoch));
                }
                controlled(port(&ends), TxMux::new(driver, sinks, window))
            }
            Role::RxCopier { mux, client } => {
                let (card, own) = (reader.card()?, reader.buffers(true)?);
                let port = port(&[mux, client]);
                let (mux, client) = (reader.sink(mux)?, reader.source(client)?);
                controlled(port, RxCopier::new(card, own, mux, client))
            }
            Role::TxCopier { mux, client } => {
                let (theirs, own) = (reader.buffers(false)?, reader.buffers(true)?);
                let port = port(&[mux, client]);
                let (mux, client) = (reader.source(mux)?, reader.sink(client)?);
                controlled(port, TxCopier::new(theirs, own, mux, client))
            }
            Role::ClientDriver { ends, buffers } => {
                let [copier, to_client, from_client, mux] = ends;
                let incoming = (reader.sink(copier)?, reader.source(to_client)?);
                let outgoing = (reader.sink(from_client)?, reader.source(mux)?);
                controlled(port(&ends), ClientDriver::new(incoming, outgoing, buffers))
            }
            Role::Client {
                index,
                rx,
                tx,
                work,
            } => {
                let (control, port) = client_ports(&mut reader, &page, rx, tx)?;
                let stack = Stack::new(port, index, now, now);
                let client = Client::new(stack, work.unwrap_or(Work::Echo));
                controlled(control, client)
            }
        };
        Ok(Runner::new(component, waiter, page))
    }
}

/// The parts that a program needs to be a client with its own stack.
pub struct ClientEnd {
    /// Index of the client.
    pub index: usize,
    /// Its control port.
    pub control: ControlPort,
    /// Its port for frames.
    pub port: ClientPort,
    /// Wakes when its neighbours notify.
    pub waiter: EventWaiter,
}

impl Capabilities {
    /// The end of a client with its own stack.
    ///
    /// # Errors
    /// If these are the capabilities of another component, or something cannot be mapped.
    pub fn into_client(self) -> io::Result<ClientEnd> {
        let Role::Client { index, rx, tx, .. } = self.role else {
            return Err(not_of_a_client());
        };
        let mut reader = Reader {
            descriptors: self.descriptors.into_iter(),
            silent: self.silent,
        };
        let page = ControlPage::adopt(reader.next()?)?;
        let waiter = EventWaiter::adopt(reader.next()?);
        let (control, port) = client_ports(&mut reader, &page, rx, tx)?;
        Ok(ClientEnd {
            index,
            control,
            port,
            waiter,
        })
    }
}

fn controlled(port: ControlPort, stage: impl Stage + 'static) -> Box<dyn Component> {
    Box::new(ControlLoop::new(port, stage))
}

fn client_ports(
    reader: &mut Reader,
    page: &ControlPage,
    rx: ChannelEnd,
    tx: ChannelEnd,
) -> io::Result<(ControlPort, ClientPort)> {
    let (received, sent) = (reader.buffers(true)?, reader.buffers(true)?);
    let control = ControlPort::new(page.clone(), vec![rx.generation, tx.generation], None);
    let (rx, tx) = (reader.sink(rx)?, reader.source(tx)?);
    Ok((control, ClientPort::new(received, sent, rx, tx)))
}

fn build_driver(
    reader: &mut Reader,
    page: &ControlPage,
    rx: Option<ChannelEnd>,
    tx: Option<(ChannelEnd, Orders)>,
    regions: &[u32],
    mut wire: WireEnds,
) -> io::Result<Box<dyn Component>> {
    let mut halves: Vec<Box<dyn Component>> = Vec::new();
    if let Some(end) = rx {
        let card = reader.next()?;
        let mux = reader.source(end)?;
        let buffers = MemoryFile::adopt(card.try_clone()?)?.len() / SIZE as usize;
        let receiver = wire.receiver(card)?;
        let port = ControlPort::new(page.clone(), vec![end.generation], None);
        let driver = RxDriver::new(receiver, mux, buffers as u32);
        halves.push(Box::new(ControlLoop::new(port, driver)));
    }
    if let Some((end, orders)) = tx {
        let mux = reader.sink(end)?;
        let mut from = Vec::new();
        for _ in regions {
            from.push(reader.buffers(false)?);
        }
        let counts = from.iter().map(Buffers::count);
        let counts: Vec<_> = counts.zip(regions.iter().copied()).collect();
        let sender = wire.sender(from)?;
        // The halves of one driver share a control page. They follow orders in the same step.
        let generations = vec![end.generation];
        let port = ControlPort::at(page.clone(), halves.len(), generations, Some(orders));
        let driver = TxDriver::new(sender, mux, &counts);
        halves.push(Box::new(ControlLoop::new(port, driver)));
    }
    Ok(Box::new(Fused::from(halves)))
}
