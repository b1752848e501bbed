//! The Rx copier of one client: the wall between the card's memory and the client's.

use std::io;

use super::{BURST, Pool, Stage};
use crate::buffers::{Buffers, SIZE};
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::queue::{Descriptor, Sink, Source};

/// Copies each frame into memory that its client maps, and gives the card's buffer back at once: a
/// client never sees the card's memory, and cannot keep a buffer of it.
///
/// Port 0 is the Rx multiplexer, port 1 the client (party 1).
pub struct RxCopier {
    card: Buffers,
    own: Buffers,
    mux: Option<Sink>,
    client: Option<Source>,
    pool: Pool,
}

const CLIENT: u32 = 1;

impl RxCopier {
    /// `card` is mapped for reading, `own` is shared with the client.
    #[must_use]
    pub fn new(card: Buffers, own: Buffers, mux: Sink, client: Source) -> Self {
        Self {
            pool: Pool::new(own.count(), SIZE),
            card,
            own,
            mux: Some(mux),
            client: Some(client),
        }
    }
}

impl Stage for RxCopier {
    fn step(&mut self, _now: u64, counters: &mut [Counters]) -> bool {
        let (Some(mux), Some(client)) = (&mut self.mux, &mut self.client) else {
            return false;
        };
        let counters = &mut counters[1];
        let mut moved = false;
        for _ in 0..BURST {
            let Some(frame) = mux.take() else {
                break;
            };
            moved = true;
            if self.pool.is_empty() {
                for _ in 0..BURST {
                    let Some(back) = client.take_back() else {
                        break;
                    };
                    counters.faults += u64::from(self.pool.take_back(back, CLIENT).is_err());
                }
            }
            if client.room() == 0 {
                counters.full += 1;
            } else if let Some(offset) = self.pool.take() {
                let copy = Descriptor {
                    offset,
                    length: frame.length,
                    tag: 0,
                };
                let length = usize::from(frame.length);
                let copied = length <= SIZE as usize
                    && Buffers::copy(&self.card, frame.offset, &self.own, offset, length);
                if copied && self.pool.give(copy, CLIENT).is_ok() {
                    // There is room, as seen above.
                    let _ = client.push(copy);
                    counters.frames += 1;
                    counters.bytes += length as u64;
                } else {
                    self.pool.put(offset);
                    counters.faults += 1;
                }
            } else {
                counters.starved += 1;
            }
            mux.give_back(frame);
        }
        mux.settle();
        client.settle();
        moved
    }

    fn is_ahead(&mut self) -> bool {
        self.client.as_mut().is_some_and(Source::is_ahead)
    }

    fn reattach(&mut self, mut change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        if change.port() == 0 {
            self.mux = change.sink(self.mux.take())?;
            return Ok(());
        }
        let former = self.client.take();
        counters[1].reclaimed += self.pool.reclaim(CLIENT);
        if let Some(own) = change.region(true)? {
            self.pool = Pool::new(own.count(), SIZE);
            self.own = own;
        }
        self.client = change.source(former)?;
        Ok(())
    }

    fn announce(&mut self) -> bool {
        // Does not wait for the client's buffers: without one, frames are dropped, and the card continues.

        match &mut self.mux {
            Some(mux) => mux.announce(),
            None => false,
        }
    }
}
