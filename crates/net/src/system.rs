//! System: all memory and events of a description, and the capabilities of each component.
//!
//! ```text
//!   Description ──▶ System (every file, every event) ──▶ Capabilities of each component ──▶ Runner
//! ```
//!
//! [`Capabilities`] are a role, as plain data, with exactly the descriptors that the role needs, in a fixed
//! order. [`Capabilities::build`] is the same code for a component in a thread here and in a process that got
//! them over a socket.
//!
//! Everything that a client can access is replaced for its successor (`attachment.rs`): a process that still
//! has the old memory shares it with nobody.

mod attachment;
mod build;
mod capabilities;
#[cfg(test)]
mod tests;
mod threads;
mod wire_ends;

pub use build::ClientEnd;
pub use capabilities::{Capabilities, Role};
pub use threads::Threads;
pub use wire_ends::WireEnds;

use std::io;

use weft_sys::MemoryFile;
use weft_sys::event::{EventFd, EventWaiter};

use crate::buffers::BufferMemory;
use crate::control::ControlPage;
use crate::control::orders::OrderPair;
use crate::description::{ClientDescription, Description, DriverThreads};
use crate::queue::ChannelMemory;

/// Steps of [`System::reattach`].
pub const PHASES: usize = 2;

/// A component of a system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ComponentId {
    /// Both directions, or the receiving one of two.
    Driver,
    /// The transmitting direction of a driver of two.
    TxDriver,
    /// The Rx multiplexer.
    RxMux,
    /// The Tx multiplexer.
    TxMux,
    /// The Rx copier of a client.
    RxCopier(usize),
    /// The Tx copier of a client.
    TxCopier(usize),
    /// The client-side driver of a client.
    ClientDriver(usize),
    /// A client.
    Client(usize),
}

/// Control block of a component: its page, and what wakes it.
struct ControlBlock {
    page_file: MemoryFile,
    page: ControlPage,
    /// Wakes it when its neighbours or the broker notify.
    waiter: EventWaiter,
    /// The broker's event.
    event: EventFd,
    /// The socket pair by which it gets new memory, if it ever does.
    orders: Option<OrderPair>,
    /// An order could not be sent: whatever it acknowledges, it works with old memory until it is replaced.
    is_cut_off: bool,
}

impl ControlBlock {
    fn new(name: &str, takes_orders: bool) -> io::Result<Self> {
        let page_file = ControlPage::create(&format!("weft-control-{name}"))?;
        let (waiter, event) = (EventWaiter::new()?, EventFd::new()?);
        waiter.register(&event)?;
        Ok(Self {
            page: ControlPage::adopt(page_file.share()?.into_descriptor())?,
            page_file,
            waiter,
            event,
            orders: takes_orders.then(OrderPair::new).transpose()?,
            is_cut_off: false,
        })
    }
}

/// The components that [`System::reattach`] has told.
#[derive(Debug, Default)]
pub struct Reattached {
    /// To be waited for until they have [followed](System::has_followed).
    pub told: Vec<ComponentId>,
    /// Components that could not be told, because they do not read their messages: they must be replaced.
    pub cut_off: Vec<ComponentId>,
}

/// A channel with the events of both sides, and its generation.
struct Link {
    memory: ChannelMemory,
    /// Wakes the source.
    source_event: EventFd,
    /// Wakes the sink.
    sink_event: EventFd,
    source: (ComponentId, usize),
    sink: (ComponentId, usize),
    generation: u32,
    limit: u32,
}

impl Link {
    fn touches(&self, id: ComponentId) -> bool {
        self.source.0 == id || self.sink.0 == id
    }
}

/// All memory and events of a system.
pub struct System {
    description: Description,
    blocks: Vec<(ComponentId, ControlBlock)>,
    links: Vec<Link>,
    card: BufferMemory,
    /// By client: the region it receives into.
    received: Vec<BufferMemory>,
    /// By client: the region it sends from.
    sent: Vec<BufferMemory>,
    /// By client: how often its regions were replaced.
    epochs: Vec<u32>,
    /// By client: the region its Tx copier sends from, if it has one.
    copied: Vec<Option<BufferMemory>>,
}

impl System {
    /// Makes everything; nothing runs yet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create(description: Description) -> io::Result<Self> {
        let queue = description.queue;
        let two = description.driver_threads == DriverThreads::Two;
        let mut system = Self {
            blocks: Vec::new(),
            links: Vec::new(),
            // Twice the queue: as many buffers can be with the wire as with the multiplexer.
            card: BufferMemory::create("weft-card", card_buffers(&description))?,
            received: Vec::new(),
            sent: Vec::new(),
            epochs: vec![0; description.clients.len()],
            copied: Vec::new(),
            description,
        };
        let clients = system.description.clients.clone();
        for id in system.components() {
            let block = ControlBlock::new(&system.name(id), system.takes_orders(id))?;
            system.blocks.push((id, block));
        }
        let tx_driver = system.tx_driver();
        // A driver of both directions has its receiving channel at port 0, the other at port 1.
        let tx_port = usize::from(!two);
        system.link(
            (ComponentId::Driver, 0),
            (ComponentId::RxMux, 0),
            2 * queue,
            2 * queue,
        )?;
        system.link((ComponentId::TxMux, 0), (tx_driver, tx_port), queue, queue)?;
        for (index, client) in clients.iter().enumerate() {
            let rx = rx_limit(client, queue);
            let tx = tx_limit(client, queue);
            let name = &client.name;
            let (received, sent) = system.regions(index)?;
            system.received.push(received);
            system.sent.push(sent);
            let copied = BufferMemory::create(&format!("weft-copied-{name}"), tx);
            system
                .copied
                .push(client.tx_copier.then_some(copied).transpose()?);
            // Frames for several clients are in several queues: each can return all buffers of the card.
            system.link(
                (ComponentId::RxMux, 1 + index),
                (ComponentId::RxCopier(index), 0),
                2 * queue,
                rx,
            )?;
            let mut receiver = (ComponentId::Client(index), 0);
            let mut sender = (ComponentId::Client(index), 1);
            if client.driver {
                let driver = ComponentId::ClientDriver(index);
                system.link((driver, 1), receiver, queue, rx)?;
                system.link(sender, (driver, 2), queue, tx)?;
                receiver = (driver, 0);
                sender = (driver, 3);
            }
            system.link((ComponentId::RxCopier(index), 1), receiver, queue, rx)?;
            if client.tx_copier {
                system.link(sender, (ComponentId::TxCopier(index), 1), queue, tx)?;
                system.link(
                    (ComponentId::TxCopier(index), 0),
                    (ComponentId::TxMux, 1 + index),
                    queue,
                    tx,
                )?;
            } else {
                system.link(sender, (ComponentId::TxMux, 1 + index), queue, tx)?;
            }
        }
        let choice = system.description.choice();
        system.control_page(ComponentId::TxMux).set_policy(&choice);
        Ok(system)
    }

    fn link(
        &mut self,
        source: (ComponentId, usize),
        sink: (ComponentId, usize),
        size: u32,
        limit: u32,
    ) -> io::Result<()> {
        let link = Link {
            memory: self.channel(source.0, sink.0, size)?,
            source_event: EventFd::new()?,
            sink_event: EventFd::new()?,
            source,
            sink,
            generation: 0,
            limit,
        };
        self.block(source.0).waiter.register(&link.source_event)?;
        self.block(sink.0).waiter.register(&link.sink_event)?;
        self.links.push(link);
        Ok(())
    }

    fn channel(
        &self,
        source: ComponentId,
        sink: ComponentId,
        size: u32,
    ) -> io::Result<ChannelMemory> {
        let label = format!("weft-queue-{}-{}", self.name(source), self.name(sink));
        ChannelMemory::create(&label, size)
    }

    /// New regions for a client, to receive into and to send from.
    fn regions(&self, client: usize) -> io::Result<(BufferMemory, BufferMemory)> {
        let known = &self.description.clients[client];
        let (name, queue) = (&known.name, self.description.queue);
        let received =
            BufferMemory::create(&format!("weft-received-{name}"), rx_limit(known, queue))?;
        let sent = BufferMemory::create(&format!("weft-sent-{name}"), tx_limit(known, queue))?;
        Ok((received, sent))
    }

    /// The component that sends frames out.
    fn tx_driver(&self) -> ComponentId {
        match self.description.driver_threads {
            DriverThreads::One => ComponentId::Driver,
            DriverThreads::Two => ComponentId::TxDriver,
        }
    }

    /// Whether it shares memory with a client, so that it gets new memory with the next one.
    fn takes_orders(&self, id: ComponentId) -> bool {
        match id {
            ComponentId::RxMux | ComponentId::Client(_) => false,
            ComponentId::Driver => self.tx_driver() == id,
            _ => true,
        }
    }

    /// The description of this system.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// How many buffers the card has.
    #[must_use]
    pub fn card_buffers(&self) -> u32 {
        card_buffers(&self.description)
    }

    /// All components, those nearest the wire first; clients last.
    #[must_use]
    pub fn components(&self) -> Vec<ComponentId> {
        let mut all = vec![ComponentId::Driver];
        if self.description.driver_threads == DriverThreads::Two {
            all.push(ComponentId::TxDriver);
        }
        all.extend([ComponentId::RxMux, ComponentId::TxMux]);
        for (index, client) in self.description.clients.iter().enumerate() {
            all.push(ComponentId::RxCopier(index));
            if client.tx_copier {
                all.push(ComponentId::TxCopier(index));
            }
            if client.driver {
                all.push(ComponentId::ClientDriver(index));
            }
        }
        all.extend((0..self.description.clients.len()).map(ComponentId::Client));
        all
    }

    /// Its name, for people and in the description's table of cores.
    #[must_use]
    pub fn name(&self, id: ComponentId) -> String {
        let client = |index: usize| &self.description.clients[index].name;
        match id {
            ComponentId::Driver => "driver".into(),
            ComponentId::TxDriver => "tx-driver".into(),
            ComponentId::RxMux => "rx-mux".into(),
            ComponentId::TxMux => "tx-mux".into(),
            ComponentId::RxCopier(index) => format!("rx-copier-{}", client(index)),
            ComponentId::TxCopier(index) => format!("tx-copier-{}", client(index)),
            ComponentId::ClientDriver(index) => format!("driver-{}", client(index)),
            ComponentId::Client(index) => client(index).clone(),
        }
    }

    fn block(&self, id: ComponentId) -> &ControlBlock {
        let found = self.blocks.iter().find(|(other, _)| *other == id);
        // Every component of the description has one.
        &found
            .unwrap_or_else(|| unreachable!("{id:?} has no control block"))
            .1
    }

    fn block_mut(&mut self, id: ComponentId) -> &mut ControlBlock {
        let found = self.blocks.iter_mut().find(|(other, _)| *other == id);
        // As above.
        &mut found
            .unwrap_or_else(|| unreachable!("{id:?} has no control block"))
            .1
    }

    /// The page of a component.
    #[must_use]
    pub fn control_page(&self, id: ComponentId) -> &ControlPage {
        &self.block(id).page
    }

    /// Wakes a component, after its orders have changed.
    pub fn order(&self, id: ComponentId) {
        let block = self.block(id);
        block.page.announce();
        block.event.notify();
    }

    /// Changes the policy of the running system.
    pub fn set_policy(&mut self, choice: &crate::policy::Choice) {
        self.control_page(ComponentId::TxMux).set_policy(choice);
        self.order(ComponentId::TxMux);
    }

    /// Prepares for a successor of a component that is gone: channels go to their next generation, on both
    /// sides, and the owners of buffers take them back. A client's successor finds new memory. To be called
    /// for each of [`PHASES`] in turn; returns the components to wait for until they have
    /// [followed](System::has_followed).
    ///
    /// A buffer of the card must not be filled again while a copier still reads it: the buffers of copiers
    /// are dropped before the driver takes buffers back, and before another driver begins.
    ///
    /// # Errors
    /// If there is no memory or descriptor for the replacements: then nothing has changed, and it can be
    /// retried.
    pub fn reattach(&mut self, gone: ComponentId, phase: usize) -> io::Result<Reattached> {
        let due: Vec<usize> = (0..self.links.len())
            .filter(|&link| is_due(&self.links[link], gone, phase))
            .collect();
        let mut messages = Vec::new();
        if phase == 0 {
            if self.block(gone).orders.is_some() {
                // Its successor gets the present state, not the messages sent to the one that is gone.
                self.block_mut(gone).orders = Some(OrderPair::new()?);
                self.block_mut(gone).is_cut_off = false;
            }
            if let ComponentId::Client(client) = gone {
                messages = self.replace_attachment(client, &due)?;
            }
        }
        let mut reattached = Reattached::default();
        for (id, message) in messages {
            let block = self.block_mut(id);
            let sent = block.orders.as_ref().map(|orders| orders.send(&message));
            if !matches!(sent, Some(Ok(()))) {
                block.is_cut_off = true;
                reattached.cut_off.push(id);
            }
            reattached.told.push(id);
        }
        for link in due {
            let link = &mut self.links[link];
            link.generation += 1;
            let generation = link.generation;
            for (id, port) in [link.source, link.sink] {
                // A component that has not received this generation's memory must not believe that it has.
                if !self.block(id).is_cut_off {
                    self.control_page(id).set_generation(port, generation);
                }
                reattached.told.push(id);
            }
        }
        reattached
            .told
            .retain(|&id| id != gone && !self.block(id).is_cut_off);
        reattached.told.sort_unstable();
        reattached.told.dedup();
        for &id in &reattached.told {
            self.order(id);
        }
        Ok(reattached)
    }

    /// Whether a component has followed all of its orders.
    #[must_use]
    pub fn has_followed(&self, id: ComponentId) -> bool {
        let block = self.block(id);
        !block.is_cut_off && block.page.acknowledged() == block.page.changes()
    }

    /// How many frames wait in the queue of a client now.
    #[must_use]
    pub fn waiting_for(&self, client: usize) -> u32 {
        let mut links = self.links.iter();
        let link = links.find(|link| link.sink == (ComponentId::Client(client), 0));
        link.and_then(|link| link.memory.waiting().ok())
            .unwrap_or(0)
    }
}

/// Whether a channel goes to its next generation in this phase of a reattachment.
fn is_due(link: &Link, gone: ComponentId, phase: usize) -> bool {
    let to_copier = link.source.0 == ComponentId::RxMux;
    // Behind a client-side driver: the owner of the buffers has all of them again, so other parties that may
    // still have some drop them too. A client's regions go with it, so nobody may hold a buffer of them.
    let behind = match gone {
        ComponentId::RxCopier(client) => link.source == (ComponentId::ClientDriver(client), 1),
        ComponentId::Client(client) => {
            link.source == (ComponentId::ClientDriver(client), 3)
                || link.sink == (ComponentId::ClientDriver(client), 0)
        }
        _ => false,
    };
    match (gone, phase) {
        (ComponentId::Driver, 0) => link.touches(gone) || to_copier,
        (ComponentId::RxMux, 0) => to_copier,
        (ComponentId::RxMux, 1) => !to_copier && link.touches(gone),
        (_, 0) => link.touches(gone) || behind,
        _ => false,
    }
}

/// How many buffers the card of the described system has.
#[must_use]
pub fn card_buffers(description: &Description) -> u32 {
    2 * description.queue
}

fn rx_limit(client: &ClientDescription, queue: u32) -> u32 {
    client.rx_queue.unwrap_or(queue)
}

fn tx_limit(client: &ClientDescription, queue: u32) -> u32 {
    client.tx_queue.unwrap_or(queue)
}
