//! The Tx multiplexer: sends the frames of all clients in the order that a [`Policy`] decides. This file keeps
//! count of the buffers.

use std::io;

use super::Stage;
use crate::buffers::SIZE;
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::policy::{Backlog, Choice, Policy, Turn};
use crate::queue::{Descriptor, Ledger, Sink, Source};

/// Keeps the first frame of each client at hand, asks the policy, and lets at most `window` frames wait at
/// the driver, so that the next client is chosen late.
///
/// It maps no buffers, as it never reads a frame. Port 0 is the driver, port `1 + i` client `i`.
pub struct TxMux {
    driver: Option<Source>,
    clients: Vec<Client>,
    backlog: Backlog,
    policy: Box<dyn Policy>,
    window: u32,
    in_flight: u32,
    deadline: Option<u64>,
}

struct Client {
    sink: Option<Sink>,
    /// The number of the region of its frames: returned buffers of another region are not its own.
    epoch: u32,
    /// Its buffers that are here or at the driver.
    ledger: Ledger,
    held: u32,
    buffers: u32,
    /// Its first frame, validated; the backlog has its length.
    first: Descriptor,
}

/// Shortest frame that is sent: an Ethernet header.
const HEADER: u16 = 14;

/// Most descriptors of a client that are refused in one step.
const PATIENCE: u32 = 64;

impl TxMux {
    /// A multiplexer with the clients in order, each with the number of buffers in its region, and the number
    /// of that region. The policy is the default until another is set.
    #[must_use]
    pub fn new(driver: Source, clients: Vec<(Sink, u32, u32)>, window: u32) -> Self {
        Self {
            policy: Choice::default().build(),
            driver: Some(driver),
            clients: clients
                .into_iter()
                .map(|(sink, buffers, epoch)| Client {
                    sink: Some(sink),
                    epoch,
                    ledger: Ledger::new(buffers, SIZE),
                    held: 0,
                    buffers,
                    first: Descriptor::default(),
                })
                .collect(),
            backlog: Backlog::default(),
            window: window.max(1),
            in_flight: 0,
            deadline: None,
        }
    }

    /// Frames at the driver are lost; their buffers go back to their clients.
    fn take_back_all(&mut self, counters: &mut [Counters]) {
        self.in_flight = 0;
        for (index, client) in self.clients.iter_mut().enumerate() {
            let first = self.backlog.has(index).then_some(client.first);
            let (sink, held) = (&mut client.sink, &mut client.held);
            let counters = &mut counters[1 + index];
            client.ledger.reclaim(0, |offset| {
                if first.is_none_or(|first| first.offset != offset) {
                    *held -= 1;
                    counters.reclaimed += 1;
                    if let Some(sink) = sink {
                        sink.give_back(Descriptor::empty(offset));
                    }
                }
            });
            if let Some(first) = first {
                // It is still here.
                let _ = client.ledger.accept(first);
            }
        }
    }

    /// Fetches the next valid frame of a client; true if anything was taken from its queue.
    #[inline]
    fn refill(&mut self, index: usize, counters: &mut Counters) -> bool {
        let client = &mut self.clients[index];
        let Some(sink) = &mut client.sink else {
            return false;
        };
        for turn in 0..PATIENCE {
            let Some(descriptor) = sink.take() else {
                return turn > 0;
            };
            if descriptor.length < HEADER || client.ledger.accept(descriptor).is_err() {
                counters.faults += 1;
                continue;
            }
            client.held += 1;
            client.first = descriptor;
            self.backlog.set(index, descriptor.length);
            break;
        }
        true
    }
}

impl Stage for TxMux {
    fn step(&mut self, now: u64, counters: &mut [Counters]) -> bool {
        let mut moved = false;
        while let Some(back) = self.driver.as_mut().and_then(|driver| driver.take_back()) {
            moved = true;
            self.in_flight = self.in_flight.saturating_sub(1);
            let Some(client) = self.clients.get_mut(back.client()) else {
                counters[0].faults += 1;
                continue;
            };
            if back.is_of_epoch(client.epoch) && client.ledger.hand_back(back).is_ok() {
                client.held -= 1;
                if let Some(sink) = &mut client.sink {
                    sink.give_back(Descriptor { tag: 0, ..back });
                }
            }
        }
        for index in 0..self.clients.len() {
            if !self.backlog.has(index) {
                moved |= self.refill(index, &mut counters[1 + index]);
            }
        }
        self.deadline = None;
        while self.in_flight < self.window {
            let index = match self.policy.next(&self.backlog, now) {
                Turn::Send(index) => index,
                Turn::Wait(moment) => {
                    self.deadline = Some(moment);
                    break;
                }
                Turn::Idle => break,
            };
            let client = &self.clients[index];
            let frame = client.first.of_region(index, client.epoch);
            let Some(driver) = &mut self.driver else {
                break;
            };
            if driver.push(frame).is_err() {
                // A window larger than the queue: the frame stays where it is.
                break;
            }
            moved = true;
            self.in_flight += 1;
            let counters = &mut counters[1 + index];
            counters.frames += 1;
            counters.bytes += u64::from(frame.length);
            self.backlog.clear(index);
            self.refill(index, counters);
        }
        if let Some(driver) = &mut self.driver {
            driver.settle();
        }
        for client in &mut self.clients {
            if let Some(sink) = &mut client.sink {
                sink.settle();
            }
        }
        moved
    }

    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        let port = change.port();
        if port == 0 {
            self.driver = change.source(self.driver.take())?;
            self.take_back_all(counters);
        } else if let Some(client) = self.clients.get_mut(port - 1) {
            client.epoch = change.epoch().unwrap_or(client.epoch);
            client.sink = change.sink(client.sink.take())?;
            counters[port].reclaimed += u64::from(client.held);
            client.ledger = Ledger::new(client.buffers, SIZE);
            client.held = 0;
            self.backlog.clear(port - 1);
        }
        Ok(())
    }

    fn set_policy(&mut self, choice: &Choice) {
        // The first frames stay where they are: a change of policy loses nothing.
        self.policy = choice.build();
    }

    fn announce(&mut self) -> bool {
        let mut found = false;
        let full = self.in_flight >= self.window;
        let scarce = self.in_flight * 2 >= self.window
            || self
                .clients
                .iter()
                .any(|client| client.held * 2 >= client.buffers);
        if scarce
            && self.in_flight > 0
            && let Some(driver) = &mut self.driver
        {
            found = driver.announce_returns();
        }
        if !full {
            for (index, client) in self.clients.iter_mut().enumerate() {
                // A client with a frame at hand waits for its turn, not for more frames.
                if !self.backlog.has(index)
                    && let Some(sink) = &mut client.sink
                {
                    found |= sink.announce();
                }
            }
        }
        found
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }
}
