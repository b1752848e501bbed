//! The Rx multiplexer: gives each frame to the client whose address it has.

use std::io;

use super::{BURST, Stage};
use crate::buffers::{Buffers, SIZE};
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::plan::Address;
use crate::queue::{Descriptor, Ledger, Sink, Source};

/// Looks at the destination address: a client's goes to that client, broadcast and multicast (hence ARP) to
/// all. A frame for a client whose queue is full is dropped here, so that a limited queue limits only its
/// client.
///
/// Port 0 is the driver, port `1 + i` client `i`, party `i` of the ledger.
pub struct RxMux {
    buffers: Buffers,
    driver: Option<Sink>,
    clients: Vec<Client>,
    ledger: Ledger,
}

struct Client {
    address: Address,
    copier: Option<Source>,
}

/// A client as a party of the ledger, which has a bit for each possible client.
const fn party(client: usize) -> u32 {
    client as u32
}

/// Shortest frame that is looked at: an Ethernet header.
const HEADER: u16 = 14;

impl RxMux {
    /// A multiplexer over the driver's region (mapped for reading), with the clients in order.
    #[must_use]
    pub fn new(buffers: Buffers, driver: Sink, clients: Vec<(Address, Source)>) -> Self {
        Self {
            ledger: Ledger::new(buffers.count(), SIZE),
            buffers,
            driver: Some(driver),
            clients: clients
                .into_iter()
                .map(|(address, copier)| Client {
                    address,
                    copier: Some(copier),
                })
                .collect(),
        }
    }

    /// Gives a frame to one client; true if its queue took it.
    fn deliver(
        &mut self,
        client: usize,
        descriptor: Descriptor,
        counters: &mut [Counters],
    ) -> bool {
        let counters = &mut counters[1 + client];
        let Some(copier) = &mut self.clients[client].copier else {
            return false;
        };
        if copier.room() == 0 {
            counters.full += 1;
            return false;
        }
        if self.ledger.give(descriptor, party(client)).is_err() || copier.push(descriptor).is_err()
        {
            counters.faults += 1;
            return false;
        }
        counters.frames += 1;
        counters.bytes += u64::from(descriptor.length);
        true
    }

    fn route(&mut self, descriptor: Descriptor, counters: &mut [Counters]) {
        let Ok(_) = self.ledger.slot(descriptor) else {
            counters[0].faults += 1;
            return;
        };
        let mut delivered = false;
        match self.buffers.head::<6>(descriptor.offset) {
            Some(address) if descriptor.length >= HEADER => {
                if address[0] & 1 != 0 {
                    for client in 0..self.clients.len() {
                        delivered |= self.deliver(client, descriptor, counters);
                    }
                } else if let Some(client) = self
                    .clients
                    .iter()
                    .position(|client| client.address == address)
                {
                    delivered = self.deliver(client, descriptor, counters);
                } else {
                    counters[0].unknown += 1;
                }
            }
            _ => counters[0].unknown += 1,
        }
        if !delivered && let Some(driver) = &mut self.driver {
            driver.give_back(descriptor);
        }
    }
}

impl Stage for RxMux {
    fn step(&mut self, _now: u64, counters: &mut [Counters]) -> bool {
        let mut moved = false;
        for (index, client) in self.clients.iter_mut().enumerate() {
            let (Some(copier), Some(driver)) = (&mut client.copier, &mut self.driver) else {
                continue;
            };
            while let Some(descriptor) = copier.take_back() {
                moved = true;
                match self.ledger.take_back(descriptor, party(index)) {
                    Ok(true) => {
                        driver.give_back(descriptor);
                    }
                    Ok(false) => {}
                    Err(_) => counters[1 + index].faults += 1,
                }
            }
        }
        for _ in 0..BURST {
            let Some(descriptor) = self.driver.as_mut().and_then(|driver| driver.take()) else {
                break;
            };
            moved = true;
            self.route(descriptor, counters);
        }
        if moved {
            for client in &mut self.clients {
                if let Some(copier) = &mut client.copier {
                    copier.settle();
                }
            }
        }
        if let Some(driver) = &mut self.driver {
            driver.settle();
        }
        moved
    }

    fn is_ahead(&mut self) -> bool {
        let mut copiers = self.clients.iter_mut();
        copiers.any(|client| client.copier.as_mut().is_some_and(Source::is_ahead))
    }

    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        let port = change.port();
        if port == 0 {
            // The driver takes all of its buffers back itself. The channels to the copiers are reattached
            // with it or before.
            self.driver = change.sink(self.driver.take())?;
            self.ledger = Ledger::new(self.buffers.count(), SIZE);
        } else if let Some(client) = self.clients.get_mut(port - 1) {
            client.copier = change.source(client.copier.take())?;
            let (driver, counters) = (&mut self.driver, &mut counters[port]);
            self.ledger.reclaim(party(port - 1), |offset| {
                counters.reclaimed += 1;
                if let Some(driver) = driver {
                    driver.give_back(Descriptor::empty(offset));
                }
            });
        }
        Ok(())
    }

    fn announce(&mut self) -> bool {
        let mut found = match &mut self.driver {
            Some(driver) => driver.announce(),
            None => false,
        };
        // Copiers return the card's buffers at once. They are passed on when the next frame arrives, or now
        // if the driver is running out.
        let away: u32 = self
            .clients
            .iter_mut()
            .filter_map(|client| client.copier.as_mut())
            .map(|copier| copier.depth())
            .sum();
        if !found && away * 2 >= self.buffers.count() {
            for client in &mut self.clients {
                if let Some(copier) = &mut client.copier {
                    found |= copier.announce_returns();
                }
            }
        }
        found
    }
}
