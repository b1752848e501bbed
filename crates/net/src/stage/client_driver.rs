//! The client-side driver: the only neighbour of its client, for both directions.

use std::io;

use super::{BURST, Stage};
use crate::buffers::SIZE;
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::queue::{Descriptor, Ledger, Sink, Source};

/// Validates everything that one client writes before a component that others depend on sees it: a client
/// that writes nonsense costs the time of its own driver, not that of the Tx multiplexer and of its copier.
/// It maps no buffers.
///
/// Port 0 is the Rx copier, port 1 the client as receiver, port 2 the client as sender, port 3 the Tx
/// copier or multiplexer.
pub struct ClientDriver {
    copier: Option<Sink>,
    to_client: Option<Source>,
    from_client: Option<Sink>,
    mux: Option<Source>,
    /// Buffers that the client has, to read.
    received: Ledger,
    /// Buffers of the client that are on their way.
    sent: Ledger,
    buffers: (u32, u32),
}

/// The client, as a party of a ledger.
const CLIENT: u32 = 1;

/// Shortest frame that is sent: an Ethernet header.
const HEADER: u16 = 14;

impl ClientDriver {
    /// A driver between these neighbours, in the order of the ports, with `buffers` to receive into and to
    /// send from.
    #[must_use]
    pub fn new(
        (copier, to_client): (Sink, Source),
        (from_client, mux): (Sink, Source),
        buffers: (u32, u32),
    ) -> Self {
        Self {
            copier: Some(copier),
            to_client: Some(to_client),
            from_client: Some(from_client),
            mux: Some(mux),
            received: Ledger::new(buffers.0, SIZE),
            sent: Ledger::new(buffers.1, SIZE),
            buffers,
        }
    }

    /// Frames to the client, empty buffers back.
    fn receive(&mut self, counters: &mut [Counters]) -> bool {
        let (Some(copier), Some(client)) = (&mut self.copier, &mut self.to_client) else {
            return false;
        };
        let [from_copier, counters, ..] = counters else {
            return false;
        };
        let mut moved = false;
        for _ in 0..BURST {
            let Some(back) = client.take_back() else {
                break;
            };
            moved = true;
            match self.received.take_back(back, CLIENT) {
                Ok(_) => _ = copier.give_back(back),
                Err(_) => counters.faults += 1,
            }
        }
        for _ in 0..BURST {
            // Frames that the client does not take stay with the copier, which drops and counts them.
            if client.room() == 0 {
                break;
            }
            let Some(frame) = copier.take() else {
                break;
            };
            moved = true;
            if self.received.give(frame, CLIENT).is_err() {
                from_copier.faults += 1;
                continue;
            }
            // There is room, as seen above.
            let _ = client.push(frame);
            counters.frames += 1;
            counters.bytes += u64::from(frame.length);
        }
        copier.settle();
        client.settle();
        moved
    }

    /// Frames from the client, empty buffers back.
    fn send(&mut self, counters: &mut [Counters]) -> bool {
        let (Some(client), Some(mux)) = (&mut self.from_client, &mut self.mux) else {
            return false;
        };
        let [_, _, counters, from_mux] = counters else {
            return false;
        };
        let mut moved = false;
        while let Some(back) = mux.take_back() {
            moved = true;
            match self.sent.hand_back(back) {
                Ok(()) => _ = client.give_back(back),
                Err(_) => from_mux.faults += 1,
            }
        }
        for _ in 0..BURST {
            if mux.room() == 0 {
                break;
            }
            let Some(frame) = client.take() else {
                break;
            };
            moved = true;
            if frame.length < HEADER || self.sent.accept(frame).is_err() {
                counters.faults += 1;
                continue;
            }
            // There is room, as seen above.
            let _ = mux.push(Descriptor { tag: 0, ..frame });
            counters.frames += 1;
            counters.bytes += u64::from(frame.length);
        }
        client.settle();
        mux.settle();
        moved
    }
}

impl Stage for ClientDriver {
    fn step(&mut self, _now: u64, counters: &mut [Counters]) -> bool {
        self.receive(counters) | self.send(counters)
    }

    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        match change.port() {
            0 => {
                // The copier has all of its buffers again. The client is reattached with it.
                self.copier = change.sink(self.copier.take())?;
                self.received = Ledger::new(self.buffers.0, SIZE);
            }
            1 => {
                self.to_client = change.source(self.to_client.take())?;
                let (copier, counters) = (&mut self.copier, &mut counters[1]);
                self.received.reclaim(CLIENT, |offset| {
                    counters.reclaimed += 1;
                    if let Some(copier) = copier {
                        copier.give_back(Descriptor::empty(offset));
                    }
                });
            }
            2 => {
                // The client has all of its buffers again. The multiplexer is reattached with it.
                self.from_client = change.sink(self.from_client.take())?;
                self.sent = Ledger::new(self.buffers.1, SIZE);
            }
            _ => {
                self.mux = change.source(self.mux.take())?;
                let (client, counters) = (&mut self.from_client, &mut counters[3]);
                self.sent.reclaim(0, |offset| {
                    counters.reclaimed += 1;
                    if let Some(client) = client {
                        client.give_back(Descriptor::empty(offset));
                    }
                });
            }
        }
        Ok(())
    }

    fn announce(&mut self) -> bool {
        let mut found = false;
        if let (Some(copier), Some(client)) = (&mut self.copier, &mut self.to_client) {
            if client.room() > 0 {
                found |= copier.announce();
            }
            // The copier needs its buffers; a client without frames would notify for nothing.
            found |= client.announce_returns();
        }
        if let (Some(client), Some(mux)) = (&mut self.from_client, &mut self.mux) {
            if mux.room() > 0 {
                found |= client.announce();
            }
            found |= mux.announce_returns();
        }
        found
    }
}
