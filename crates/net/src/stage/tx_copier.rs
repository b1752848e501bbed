//! The optional Tx copier of one client: the card sends from memory that the client cannot change.

use std::io;

use super::{BURST, Pool, Stage};
use crate::buffers::{Buffers, SIZE};
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::queue::{Descriptor, Ledger, Sink, Source};

/// Copies each frame of its client into a region of its own and gives the client its buffer back at once. So
/// the frame is sent as it was when the copier read it.
///
/// Port 0 is the Tx multiplexer (party 1), port 1 the client.
pub struct TxCopier {
    theirs: Buffers,
    own: Buffers,
    mux: Option<Source>,
    client: Option<Sink>,
    pool: Pool,
    ledger: Ledger,
}

const MUX: u32 = 1;

impl TxCopier {
    /// `theirs` is the client's region, mapped for reading; `own` is mapped by the driver too.
    #[must_use]
    pub fn new(theirs: Buffers, own: Buffers, mux: Source, client: Sink) -> Self {
        Self {
            pool: Pool::new(own.count(), SIZE),
            ledger: Ledger::new(theirs.count(), SIZE),
            theirs,
            own,
            mux: Some(mux),
            client: Some(client),
        }
    }
}

impl Stage for TxCopier {
    fn step(&mut self, _now: u64, counters: &mut [Counters]) -> bool {
        let (Some(mux), Some(client)) = (&mut self.mux, &mut self.client) else {
            return false;
        };
        let mut moved = false;
        while let Some(back) = mux.take_back() {
            moved = true;
            let fault = self.pool.take_back(back, MUX).is_err();
            counters[0].faults += u64::from(fault);
        }
        let counters = &mut counters[1];
        for _ in 0..BURST {
            if self.pool.is_empty() || mux.room() == 0 {
                break;
            }
            let Some(frame) = client.take() else {
                break;
            };
            moved = true;
            if self.ledger.slot(frame).is_err() {
                counters.faults += 1;
                continue;
            }
            let Some(offset) = self.pool.take() else {
                break;
            };
            let copy = Descriptor {
                offset,
                length: frame.length,
                tag: 0,
            };
            let length = usize::from(frame.length);
            if Buffers::copy(&self.theirs, frame.offset, &self.own, offset, length)
                && self.pool.give(copy, MUX).is_ok()
            {
                // There is room, as seen above.
                let _ = mux.push(copy);
                counters.frames += 1;
                counters.bytes += length as u64;
            } else {
                self.pool.put(offset);
                counters.faults += 1;
            }
            client.give_back(frame);
        }
        mux.settle();
        client.settle();
        moved
    }

    fn is_ahead(&mut self) -> bool {
        self.mux.as_mut().is_some_and(Source::is_ahead)
    }

    fn reattach(&mut self, mut change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        if change.port() == 0 {
            self.mux = change.source(self.mux.take())?;
            counters[0].reclaimed += self.pool.reclaim(MUX);
            return Ok(());
        }
        let former = self.client.take();
        if let Some(theirs) = change.region(false)? {
            self.ledger = Ledger::new(theirs.count(), SIZE);
            self.theirs = theirs;
        }
        self.client = change.sink(former)?;
        Ok(())
    }

    fn announce(&mut self) -> bool {
        let (Some(mux), Some(client)) = (&mut self.mux, &mut self.client) else {
            return false;
        };

        if self.pool.is_empty() || mux.room() == 0 {
            mux.announce_returns()
        } else {
            client.announce()
        }
    }
}
