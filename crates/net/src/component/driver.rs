//! The Ethernet driver: the only part that knows the wire. Two halves, which run in turn as one
//! component or each in a thread of its own.

use std::os::fd::BorrowedFd;

use super::{BURST, Component, Pool};
use crate::board::Station;
use crate::buffers::SIZE;
use crate::queue::{Descriptor, Ledger, Sink, Source};
use crate::wire::{RxWire, TxWire};

/// Receives: gives the wire empty buffers, passes full ones to the Rx multiplexer (party 1).
pub struct RxDriver {
    station: Station,
    wire: Box<dyn RxWire>,
    mux: Option<Source>,
    pool: Pool,
    deadline: Option<u64>,
}

const MUX: u32 = 1;

impl RxDriver {
    /// `mux` is port 0; the region has so many buffers.
    #[must_use]
    pub fn new(station: Station, wire: Box<dyn RxWire>, mux: Source, buffers: u32) -> Self {
        Self {
            station,
            wire,
            mux: Some(mux),
            pool: Pool::new(buffers, SIZE),
            deadline: None,
        }
    }

    #[cold]
    fn follow(&mut self) {
        let changes = self.station.board().changes();
        for (_, generation) in self.station.renewals() {
            self.mux = self.mux.take().map(|mux| mux.renewed(generation));
            self.station.counters[0].reclaimed += self.pool.reclaim(MUX);
        }
        self.station.followed(changes);
    }
}

impl Component for RxDriver {
    fn step(&mut self, now: u64) -> bool {
        if self.station.is_changed() {
            self.follow();
        }
        let Some(mux) = &mut self.mux else {
            return false;
        };
        let counters = &mut self.station.counters[0];
        let mut moved = false;
        while let Some(descriptor) = mux.free.pop() {
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
            if mux.used.room() == 0 {
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
            // Both hold: there is room, and the buffer came from the wire, which had it from us.
            let given = self.pool.give(descriptor, MUX).is_ok();
            if given && mux.used.push(descriptor).is_ok() {
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
        self.station.show();
        moved
    }

    fn is_ahead(&mut self) -> bool {
        self.mux.as_mut().is_some_and(Source::is_ahead)
    }

    fn announce(&mut self) -> bool {
        // Without buffers nothing can be received: only then their return matters at once.
        let hungry = self.pool.is_empty();
        let came = match &mut self.mux {
            Some(mux) if hungry => mux.free.announce(),
            _ => false,
        };
        came || self.station.is_changed()
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
    station: Station,
    wire: Box<dyn TxWire>,
    mux: Option<Sink>,
    /// For each region that frames come from: which buffers the wire has.
    ledgers: Vec<Ledger>,
    /// A frame that the wire had no room for.
    waiting: Option<Descriptor>,
    deadline: Option<u64>,
}

impl TxDriver {
    /// `mux` is port 0; frames come from regions of so many buffers each, named by their tags.
    #[must_use]
    pub fn new(station: Station, wire: Box<dyn TxWire>, mux: Sink, regions: &[u32]) -> Self {
        Self {
            station,
            wire,
            mux: Some(mux),
            ledgers: regions
                .iter()
                .map(|&count| Ledger::new(count, SIZE))
                .collect(),
            waiting: None,
            deadline: None,
        }
    }

    #[cold]
    fn follow(&mut self) {
        let changes = self.station.board().changes();
        for (_, generation) in self.station.renewals() {
            self.mux = self.mux.take().map(|mux| mux.renewed(generation));
            self.waiting = None;
            for ledger in &mut self.ledgers {
                let mut reclaimed = 0;
                ledger.reclaim(0, |_| reclaimed += 1);
                self.station.counters[0].reclaimed += reclaimed;
            }
        }
        self.station.followed(changes);
    }
}

impl Component for TxDriver {
    fn step(&mut self, now: u64) -> bool {
        if self.station.is_changed() {
            self.follow();
        }
        let Some(mux) = &mut self.mux else {
            return false;
        };
        let counters = &mut self.station.counters[0];
        let mut moved = false;
        while let Some(descriptor) = self.wire.completed(now) {
            moved = true;
            // One that was sent for a multiplexer since replaced is not held any more.
            let ledger = self.ledgers.get_mut(usize::from(descriptor.tag));
            if ledger.is_some_and(|ledger| ledger.hand_back(descriptor).is_ok())
                && !mux.give_back(descriptor)
            {
                counters.faults += 1;
            }
        }
        for _ in 0..BURST {
            let descriptor = match self.waiting.take() {
                Some(descriptor) => descriptor,
                None => {
                    let Some(descriptor) = mux.used.pop() else {
                        break;
                    };
                    moved = true;
                    let ledger = self.ledgers.get_mut(usize::from(descriptor.tag));
                    if ledger.is_none_or(|ledger| ledger.accept(descriptor).is_err()) {
                        // Sent twice, as when its client was replaced while the first was on its way:
                        // it goes back unsent, so that the multiplexer's count is right.
                        counters.faults += 1;
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
        // What was completed by the flush goes back at once.
        while let Some(descriptor) = self.wire.completed(now) {
            let ledger = self.ledgers.get_mut(usize::from(descriptor.tag));
            if ledger.is_some_and(|ledger| ledger.hand_back(descriptor).is_ok()) {
                mux.give_back(descriptor);
            }
        }
        mux.settle();
        self.deadline = self.wire.deadline();
        self.station.show();
        moved
    }

    fn announce(&mut self) -> bool {
        let came = match &mut self.mux {
            Some(mux) if self.waiting.is_none() => mux.used.announce(),
            _ => false,
        };
        came || self.station.is_changed()
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }
}
