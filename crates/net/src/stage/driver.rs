//! The Ethernet driver: the only part that knows the wire. It has two halves, which run in turn as one
//! component, or each in its own thread.

use std::io;
use std::os::fd::BorrowedFd;

use super::{BURST, Pool, Stage};
use crate::buffers::SIZE;
use crate::control::Counters;
use crate::control::orders::{NewRegion, Reattachment};
use crate::queue::{Descriptor, Ledger, Sink, Source};
use crate::wire::{RxWire, TxWire};

/// Receives: gives the wire empty buffers, passes full ones to the Rx multiplexer (party 1).
pub struct RxDriver {
    wire: Box<dyn RxWire>,
    mux: Option<Source>,
    pool: Pool,
    deadline: Option<u64>,
}

const MUX: u32 = 1;

impl RxDriver {
    /// `mux` is port 0; the region has `buffers` buffers.
    #[must_use]
    pub fn new(wire: Box<dyn RxWire>, mux: Source, buffers: u32) -> Self {
        Self {
            wire,
            mux: Some(mux),
            pool: Pool::new(buffers, SIZE),
            deadline: None,
        }
    }
}

impl Stage for RxDriver {
    fn step(&mut self, now: u64, counters: &mut [Counters]) -> bool {
        let Some(mux) = &mut self.mux else {
            return false;
        };
        let counters = &mut counters[0];
        let mut moved = false;
        while let Some(descriptor) = mux.take_back() {
            moved = true;
            counters.faults += u64::from(self.pool.take_back(descriptor, MUX).is_err());
        }
        while let Some(offset) = self.pool.take() {
            if !self.wire.supply(offset) {
                self.pool.put(offset);
                break;
            }
        }
        for _ in 0..BURST {
            if mux.room() == 0 {
                break;
            }
            let Some((offset, length)) = self.wire.receive(now) else {
                break;
            };
            moved = true;
            let descriptor = Descriptor {
                offset,
                length,
                tag: 0,
            };
            // Both succeed: there is room, and the buffer came from the wire, which had it from us.
            let given = self.pool.give(descriptor, MUX).is_ok();
            if given && mux.push(descriptor).is_ok() {
                counters.frames += 1;
                counters.bytes += u64::from(length);
            } else {
                counters.faults += 1;
            }
        }
        self.wire.flush();
        mux.settle();
        counters.full = self.wire.missed();
        self.deadline = self.wire.deadline();
        moved
    }

    fn is_ahead(&mut self) -> bool {
        self.mux.as_mut().is_some_and(Source::is_ahead)
    }

    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        self.mux = change.source(self.mux.take())?;
        counters[0].reclaimed += self.pool.reclaim(MUX);
        Ok(())
    }

    fn announce(&mut self) -> bool {
        // Without buffers nothing can be received: only then their return matters at once.
        let hungry = self.pool.is_empty();

        match &mut self.mux {
            Some(mux) if hungry => mux.announce_returns(),
            _ => false,
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wire.descriptor()
    }
}

/// Transmits: takes frames from the Tx multiplexer in its order, gives the buffers back once sent.
pub struct TxDriver {
    wire: Box<dyn TxWire>,
    mux: Option<Sink>,
    /// For each client: the region that its frames come from.
    regions: Vec<Sent>,
    /// A frame for which the wire had no room.
    waiting: Option<Descriptor>,
    deadline: Option<u64>,
}

/// A region from which frames of a client are sent.
struct Sent {
    /// Its number: frames that the multiplexer still sends from the previous one are refused.
    epoch: u32,
    /// Its buffers that the wire has.
    ledger: Ledger,
}

impl Sent {
    fn new(buffers: u32, epoch: u32) -> Self {
        Self {
            epoch,
            ledger: Ledger::new(buffers, SIZE),
        }
    }

    fn accept(&mut self, frame: Descriptor) -> bool {
        frame.is_of_epoch(self.epoch) && self.ledger.accept(frame).is_ok()
    }

    /// Whether the multiplexer waits for this frame, which has left. It must be told even about a frame of a
    /// former region; a frame sent for a multiplexer that was replaced is no longer held.
    fn hand_back(&mut self, frame: Descriptor) -> bool {
        !frame.is_of_epoch(self.epoch) || self.ledger.hand_back(frame).is_ok()
    }
}

impl TxDriver {
    /// `mux` is port 0; `regions` gives, by client, the number of buffers and the epoch of the region that
    /// frames come from.
    #[must_use]
    pub fn new(wire: Box<dyn TxWire>, mux: Sink, regions: &[(u32, u32)]) -> Self {
        Self {
            wire,
            mux: Some(mux),
            regions: regions
                .iter()
                .map(|&(count, epoch)| Sent::new(count, epoch))
                .collect(),
            waiting: None,
            deadline: None,
        }
    }
}

impl Stage for TxDriver {
    fn step(&mut self, now: u64, counters: &mut [Counters]) -> bool {
        let Some(mux) = &mut self.mux else {
            return false;
        };
        let counters = &mut counters[0];
        let mut moved = false;
        while let Some(descriptor) = self.wire.completed(now) {
            moved = true;
            let region = self.regions.get_mut(descriptor.client());
            if region.is_some_and(|region| region.hand_back(descriptor))
                && !mux.give_back(descriptor)
            {
                counters.faults += 1;
            }
        }
        for _ in 0..BURST {
            let descriptor = match self.waiting.take() {
                Some(descriptor) => descriptor,
                None => {
                    let Some(descriptor) = mux.take() else {
                        break;
                    };
                    moved = true;
                    let region = self.regions.get_mut(descriptor.client());
                    let is_current = region
                        .as_ref()
                        .is_some_and(|region| descriptor.is_of_epoch(region.epoch));
                    if !region.is_some_and(|region| region.accept(descriptor)) {
                        // A frame of a client that is gone, or one sent twice, for instance when a
                        // client-side driver was replaced while the first copy was on its way: it goes back
                        // unsent, so that the multiplexer's count stays right.
                        match is_current {
                            true => counters.faults += 1,
                            false => counters.reclaimed += 1,
                        }
                        mux.give_back(descriptor);
                        continue;
                    }
                    descriptor
                }
            };
            if !self.wire.submit(descriptor, now) {
                self.waiting = Some(descriptor);
                break;
            }
            counters.frames += 1;
            counters.bytes += u64::from(descriptor.length);
        }
        self.wire.flush(now);
        // Frames completed by the flush go back at once.
        while let Some(descriptor) = self.wire.completed(now) {
            let region = self.regions.get_mut(descriptor.client());
            if region.is_some_and(|region| region.hand_back(descriptor)) {
                mux.give_back(descriptor);
            }
        }
        mux.settle();
        self.deadline = self.wire.deadline();
        moved
    }

    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        self.mux = change.sink(self.mux.take())?;
        self.waiting = None;
        for region in &mut self.regions {
            let mut reclaimed = 0;
            region.ledger.reclaim(0, |_| reclaimed += 1);
            counters[0].reclaimed += reclaimed;
        }
        Ok(())
    }

    fn replace_region(&mut self, region: NewRegion, counters: &mut [Counters]) -> io::Result<()> {
        let (client, epoch) = (region.client(), region.epoch());
        let Some(sent) = self.regions.get_mut(client) else {
            return Ok(());
        };
        let buffers = region.map()?;
        *sent = Sent::new(buffers.count(), epoch);
        self.wire.replace(client, buffers);
        if let Some(frame) = self.waiting.take_if(|frame| frame.client() == client) {
            counters[0].reclaimed += 1;
            if let Some(mux) = &mut self.mux {
                mux.give_back(frame);
            }
        }
        Ok(())
    }

    fn announce(&mut self) -> bool {
        match &mut self.mux {
            Some(mux) if self.waiting.is_none() => mux.announce(),
            _ => false,
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }
}
