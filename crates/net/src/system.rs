//! A system built from its description: all memory and bells, and what each component is granted.
//!
//! ```text
//!   Description ──▶ System (every file, every bell) ──▶ Grant of each component ──▶ Runner
//! ```
//!
//! A [`Grant`] is a role as plain data with the descriptors that the role needs, in a fixed order,
//! and nothing else. Whether it is built in a thread here or in a process that got it over a socket,
//! [`Grant::build`] is the same code.
//!
//! What a client reaches is made anew for its successor (`attachment.rs`): whoever still has the old is
//! alone with it.

mod attachment;
mod grant;
#[cfg(test)]
mod tests;
mod threads;

pub use grant::{Grant, Role, RxTap, Tap, TxTap};
pub use threads::Threads;

use std::io;

use weft_sys::MemoryFile;
use weft_sys::event::{EventFd, EventWaiter};

use crate::board::{self, Board};
use crate::buffers::BufferMemory;
use crate::description::{ClientDescription, Description, DriverThreads};
use crate::orders::OrderPair;
use crate::queue::ChannelMemory;

/// Steps of [`System::renew`].
pub const PHASES: usize = 2;

/// A component of a system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Id {
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

/// What belongs to a component alone: its page and where it is rung.
struct Seat {
    board_file: MemoryFile,
    board: Board,
    ear: EventWaiter,
    /// The broker's bell.
    bell: EventFd,
    /// How it is given other memory, if it ever is.
    orders: Option<OrderPair>,
    /// An order could not be sent: whatever it acknowledges, it works with memory of the past until it is
    /// replaced.
    is_cut_off: bool,
}

impl Seat {
    fn new(name: &str, takes_orders: bool) -> io::Result<Self> {
        let board_file = board::create(&format!("weft-board-{name}"))?;
        let (ear, bell) = (EventWaiter::new()?, EventFd::new()?);
        ear.hear(&bell)?;
        Ok(Self {
            board: Board::adopt(board_file.share()?.into_descriptor())?,
            board_file,
            ear,
            bell,
            orders: takes_orders.then(OrderPair::new).transpose()?,
            is_cut_off: false,
        })
    }
}

/// Whom [`System::renew`] has told.
#[derive(Debug, Default)]
pub struct Renewed {
    /// To be waited for until they have [followed](System::has_followed).
    pub told: Vec<Id>,
    /// Those who could not be told, because they do not read what they are sent: they must be replaced.
    pub cut_off: Vec<Id>,
}

/// A channel with the bells of both sides, and its generation.
struct Link {
    memory: ChannelMemory,
    /// Rings the source.
    source_bell: EventFd,
    /// Rings the sink.
    sink_bell: EventFd,
    source: (Id, usize),
    sink: (Id, usize),
    generation: u32,
    limit: u32,
}

impl Link {
    fn touches(&self, id: Id) -> bool {
        self.source.0 == id || self.sink.0 == id
    }
}

/// All memory and bells of a system.
pub struct System {
    /// What was asked for.
    pub description: Description,
    seats: Vec<(Id, Seat)>,
    links: Vec<Link>,
    card: BufferMemory,
    /// By client: what it receives.
    received: Vec<BufferMemory>,
    /// By client: what it sends.
    sent: Vec<BufferMemory>,
    /// By client: how often that was replaced.
    epochs: Vec<u32>,
    /// By client: what its Tx copier sends, if it has one.
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
            seats: Vec::new(),
            links: Vec::new(),
            // Twice the queue: as many can lie with the wire as with the multiplexer.
            card: BufferMemory::create("weft-card", card_buffers(&description))?,
            received: Vec::new(),
            sent: Vec::new(),
            epochs: vec![0; description.clients.len()],
            copied: Vec::new(),
            description,
        };
        let clients = system.description.clients.clone();
        for id in system.components() {
            let seat = Seat::new(&system.name(id), system.takes_orders(id))?;
            system.seats.push((id, seat));
        }
        let tx_driver = system.tx_driver();
        // A driver of both directions has its receiving channel at port 0, the other at port 1.
        let tx_port = usize::from(!two);
        system.link((Id::Driver, 0), (Id::RxMux, 0), 2 * queue, 2 * queue)?;
        system.link((Id::TxMux, 0), (tx_driver, tx_port), queue, queue)?;
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
            // Frames for several clients are on several queues: each can return all of the card's.
            system.link(
                (Id::RxMux, 1 + index),
                (Id::RxCopier(index), 0),
                2 * queue,
                rx,
            )?;
            let mut receiver = (Id::Client(index), 0);
            let mut sender = (Id::Client(index), 1);
            if client.driver {
                let driver = Id::ClientDriver(index);
                system.link((driver, 1), receiver, queue, rx)?;
                system.link(sender, (driver, 2), queue, tx)?;
                receiver = (driver, 0);
                sender = (driver, 3);
            }
            system.link((Id::RxCopier(index), 1), receiver, queue, rx)?;
            if client.tx_copier {
                system.link(sender, (Id::TxCopier(index), 1), queue, tx)?;
                system.link((Id::TxCopier(index), 0), (Id::TxMux, 1 + index), queue, tx)?;
            } else {
                system.link(sender, (Id::TxMux, 1 + index), queue, tx)?;
            }
        }
        let choice = system.description.choice();
        system.board(Id::TxMux).set_policy(&choice);
        Ok(system)
    }

    fn link(
        &mut self,
        source: (Id, usize),
        sink: (Id, usize),
        size: u32,
        limit: u32,
    ) -> io::Result<()> {
        let link = Link {
            memory: self.channel(source.0, sink.0, size)?,
            source_bell: EventFd::new()?,
            sink_bell: EventFd::new()?,
            source,
            sink,
            generation: 0,
            limit,
        };
        self.seat(source.0).ear.hear(&link.source_bell)?;
        self.seat(sink.0).ear.hear(&link.sink_bell)?;
        self.links.push(link);
        Ok(())
    }

    fn channel(&self, source: Id, sink: Id, size: u32) -> io::Result<ChannelMemory> {
        let label = format!("weft-queue-{}-{}", self.name(source), self.name(sink));
        ChannelMemory::create(&label, size)
    }

    /// What a client receives into, and sends from.
    fn regions(&self, client: usize) -> io::Result<(BufferMemory, BufferMemory)> {
        let known = &self.description.clients[client];
        let (name, queue) = (&known.name, self.description.queue);
        let received =
            BufferMemory::create(&format!("weft-received-{name}"), rx_limit(known, queue))?;
        let sent = BufferMemory::create(&format!("weft-sent-{name}"), tx_limit(known, queue))?;
        Ok((received, sent))
    }

    /// Who sends frames out.
    fn tx_driver(&self) -> Id {
        match self.description.driver_threads {
            DriverThreads::One => Id::Driver,
            DriverThreads::Two => Id::TxDriver,
        }
    }

    /// Whether it has memory in common with a client, so that it is given other memory with the next one.
    fn takes_orders(&self, id: Id) -> bool {
        match id {
            Id::RxMux | Id::Client(_) => false,
            Id::Driver => self.tx_driver() == id,
            _ => true,
        }
    }

    /// How many buffers the card has.
    #[must_use]
    pub fn card_buffers(&self) -> u32 {
        card_buffers(&self.description)
    }

    /// All components, those nearest the wire first; clients last.
    #[must_use]
    pub fn components(&self) -> Vec<Id> {
        let mut all = vec![Id::Driver];
        if self.description.driver_threads == DriverThreads::Two {
            all.push(Id::TxDriver);
        }
        all.extend([Id::RxMux, Id::TxMux]);
        for (index, client) in self.description.clients.iter().enumerate() {
            all.push(Id::RxCopier(index));
            if client.tx_copier {
                all.push(Id::TxCopier(index));
            }
            if client.driver {
                all.push(Id::ClientDriver(index));
            }
        }
        all.extend((0..self.description.clients.len()).map(Id::Client));
        all
    }

    /// Its name, for people and in the description's table of cores.
    #[must_use]
    pub fn name(&self, id: Id) -> String {
        let client = |index: usize| &self.description.clients[index].name;
        match id {
            Id::Driver => "driver".into(),
            Id::TxDriver => "tx-driver".into(),
            Id::RxMux => "rx-mux".into(),
            Id::TxMux => "tx-mux".into(),
            Id::RxCopier(index) => format!("rx-copier-{}", client(index)),
            Id::TxCopier(index) => format!("tx-copier-{}", client(index)),
            Id::ClientDriver(index) => format!("driver-{}", client(index)),
            Id::Client(index) => client(index).clone(),
        }
    }

    fn seat(&self, id: Id) -> &Seat {
        let found = self.seats.iter().find(|(other, _)| *other == id);
        // Every component of the description has a seat.
        &found
            .unwrap_or_else(|| unreachable!("{id:?} has no seat"))
            .1
    }

    fn seat_mut(&mut self, id: Id) -> &mut Seat {
        let found = self.seats.iter_mut().find(|(other, _)| *other == id);
        // As above.
        &mut found
            .unwrap_or_else(|| unreachable!("{id:?} has no seat"))
            .1
    }

    /// The page of a component.
    #[must_use]
    pub fn board(&self, id: Id) -> &Board {
        &self.seat(id).board
    }

    /// Rings a component, after its orders have changed.
    pub fn order(&self, id: Id) {
        let seat = self.seat(id);
        seat.board.announce();
        seat.bell.ring();
    }

    /// Changes the policy of the running system.
    pub fn set_policy(&mut self, choice: &crate::policy::Choice) {
        self.board(Id::TxMux).set_policy(choice);
        self.order(Id::TxMux);
    }

    /// Prepares for a successor of a component that is gone: channels go to their next generation, on
    /// both sides, and whoever owns buffers takes them back. A client's successor finds other memory. To be
    /// called for each of [`PHASES`] in turn; answers whom to wait for until they have
    /// [followed](System::has_followed).
    ///
    /// A buffer of the card must not be filled again while a copier still reads it: what copiers have
    /// is forgotten before the driver takes buffers back, and before another driver begins.
    ///
    /// # Errors
    /// If there is no memory or no descriptor for what is made anew: nothing has changed then, and it can be
    /// tried again.
    pub fn renew(&mut self, gone: Id, phase: usize) -> io::Result<Renewed> {
        let due: Vec<usize> = (0..self.links.len())
            .filter(|&link| is_due(&self.links[link], gone, phase))
            .collect();
        let mut messages = Vec::new();
        if phase == 0 {
            if self.seat(gone).orders.is_some() {
                // Its successor is granted what holds now, not what was sent to the one that is gone.
                self.seat_mut(gone).orders = Some(OrderPair::new()?);
                self.seat_mut(gone).is_cut_off = false;
            }
            if let Id::Client(client) = gone {
                messages = self.replace_attachment(client, &due)?;
            }
        }
        let mut renewed = Renewed::default();
        for (id, message) in messages {
            let seat = self.seat_mut(id);
            let sent = seat.orders.as_ref().map(|orders| orders.send(&message));
            if !matches!(sent, Some(Ok(()))) {
                seat.is_cut_off = true;
                renewed.cut_off.push(id);
            }
            renewed.told.push(id);
        }
        for link in due {
            let link = &mut self.links[link];
            link.generation += 1;
            let generation = link.generation;
            for (id, port) in [link.source, link.sink] {
                // Who has not got what belongs to this generation must not believe that it has.
                if !self.seat(id).is_cut_off {
                    self.board(id).set_generation(port, generation);
                }
                renewed.told.push(id);
            }
        }
        renewed
            .told
            .retain(|&id| id != gone && !self.seat(id).is_cut_off);
        renewed.told.sort_unstable();
        renewed.told.dedup();
        for &id in &renewed.told {
            self.order(id);
        }
        Ok(renewed)
    }

    /// Whether a component has followed all of its orders.
    #[must_use]
    pub fn has_followed(&self, id: Id) -> bool {
        let seat = self.seat(id);
        !seat.is_cut_off && seat.board.acknowledged() == seat.board.changes()
    }

    /// How many frames wait in the queue of a client now.
    #[must_use]
    pub fn waiting_for(&self, client: usize) -> u32 {
        let mut links = self.links.iter();
        let link = links.find(|link| link.sink == (Id::Client(client), 0));
        link.and_then(|link| link.memory.waiting().ok())
            .unwrap_or(0)
    }
}

/// Whether a channel goes to its next generation in this phase of a renewal.
fn is_due(link: &Link, gone: Id, phase: usize) -> bool {
    let to_copier = link.source.0 == Id::RxMux;
    // Behind a client-side driver: who owns the buffers has all of them again, so whoever may still have some
    // forgets them too. With a client its regions go, so nobody may hold a buffer of them.
    let behind = match gone {
        Id::RxCopier(client) => link.source == (Id::ClientDriver(client), 1),
        Id::Client(client) => {
            link.source == (Id::ClientDriver(client), 3)
                || link.sink == (Id::ClientDriver(client), 0)
        }
        _ => false,
    };
    match (gone, phase) {
        (Id::Driver, 0) => link.touches(gone) || to_copier,
        (Id::RxMux, 0) => to_copier,
        (Id::RxMux, 1) => !to_copier && link.touches(gone),
        (_, 0) => link.touches(gone) || behind,
        _ => false,
    }
}

/// How many buffers the card of such a system has.
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
