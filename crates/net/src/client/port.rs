//! A client's side of the system: where frames come from and go to.

use std::io;

use crate::board::Station;
use crate::buffers::{Buffers, SIZE};
use crate::component::Pool;
use crate::queue::{Descriptor, Ledger, Sink, Source};

/// Receives from its Rx copier (port 0), sends to the Tx multiplexer or its Tx copier (port 1).
pub struct Port {
    pub(super) station: Station,
    pub(super) rx: RxPart,
    pub(super) tx: TxPart,
}

/// The receiving part.
pub(super) struct RxPart {
    pub(super) buffers: Buffers,
    pub(super) sink: Option<Sink>,
    ledger: Ledger,
}

/// The sending part.
pub(super) struct TxPart {
    pub(super) buffers: Buffers,
    pub(super) source: Option<Source>,
    pool: Pool,
    /// Somebody wanted to send and there was no buffer.
    hungry: bool,
}

const MUX: u32 = 1;

impl Port {
    /// `received` is shared with the copier, `sent` with whoever reads it.
    #[must_use]
    pub fn new(station: Station, received: Buffers, sent: Buffers, rx: Sink, tx: Source) -> Self {
        Self {
            station,
            rx: RxPart {
                ledger: Ledger::new(received.count(), SIZE),
                buffers: received,
                sink: Some(rx),
            },
            tx: TxPart {
                pool: Pool::new(sent.count(), SIZE),
                buffers: sent,
                source: Some(tx),
                hungry: false,
            },
        }
    }

    /// Follows orders of the broker, takes sent buffers back. To be called before each round of work.
    pub fn refresh(&mut self) {
        if self.station.is_changed() {
            self.follow();
        }
        self.tx.collect();
    }

    #[cold]
    fn follow(&mut self) {
        let changes = self.station.board().changes();
        let renewed = self.renew();
        self.station.followed(changes, renewed);
    }

    fn renew(&mut self) -> io::Result<()> {
        for renewal in self.station.renewals()? {
            if renewal.port == 0 {
                self.rx.sink = renewal.sink(self.rx.sink.take())?;
                self.rx.ledger = Ledger::new(self.rx.buffers.count(), SIZE);
            } else {
                self.tx.source = renewal.source(self.tx.source.take())?;
                self.station.counters[1].reclaimed += self.tx.pool.reclaim(MUX);
            }
        }
        Ok(())
    }

    /// Whether somebody wanted to send and there was no buffer.
    #[must_use]
    pub fn is_hungry(&self) -> bool {
        self.tx.hungry
    }

    /// Whether those who send for it are far behind.
    pub(super) fn is_ahead(&mut self) -> bool {
        self.tx.source.as_mut().is_some_and(Source::is_ahead)
    }

    /// Publishes and rings, after a round of work.
    pub fn settle(&mut self) {
        if let Some(sink) = &mut self.rx.sink {
            sink.settle();
        }
        if let Some(source) = &mut self.tx.source {
            source.settle();
        }
        self.station.show();
    }

    /// Asks to be rung; true if there is something already.
    #[must_use = "with something to do there is no bell to wait for"]
    pub fn announce(&mut self) -> bool {
        let mut found = self.station.is_changed();
        if self.tx.hungry && !self.tx.pool.is_empty() {
            found = true;
        }
        if let Some(source) = &mut self.tx.source
            && self.tx.hungry
        {
            // Until a buffer comes back nothing that is received can be answered either.
            return source.free.announce() || found;
        }
        if let Some(sink) = &mut self.rx.sink {
            found |= sink.used.announce();
        }
        found
    }
}

impl RxPart {
    /// The next frame, which is the client's until [`give_back`](Self::give_back).
    pub(super) fn take(&mut self) -> Option<Descriptor> {
        let sink = self.sink.as_mut()?;
        loop {
            let frame = sink.used.pop()?;
            if self.ledger.accept(frame).is_ok() {
                return Some(frame);
            }
        }
    }

    /// Returns a frame's buffer.
    pub(super) fn give_back(&mut self, frame: Descriptor) {
        if self.ledger.hand_back(frame).is_ok()
            && let Some(sink) = &mut self.sink
        {
            sink.give_back(frame);
        }
    }
}

impl TxPart {
    fn collect(&mut self) {
        if let Some(source) = &mut self.source {
            while let Some(back) = source.free.pop() {
                // What the multiplexer returns wrongly is not used again.
                let _ = self.pool.take_back(back, MUX);
            }
        }
    }

    /// Whether a frame could be sent now; remembers that one was wanted.
    pub(super) fn is_ready(&mut self) -> bool {
        if self.pool.is_empty() {
            self.collect();
        }
        let room = self
            .source
            .as_mut()
            .is_some_and(|source| source.used.room() > 0);
        let ready = room && !self.pool.is_empty();
        self.hungry = !ready;
        ready
    }

    /// Sends a frame that `fill` writes; `None` if there is no buffer.
    pub(super) fn send<R>(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        if length > SIZE as usize || !self.is_ready() {
            return None;
        }
        let offset = self.pool.take()?;
        let Some(bytes) = self.buffers.own(offset, length) else {
            self.pool.put(offset);
            return None;
        };
        let result = fill(bytes);
        let frame = Descriptor {
            offset,
            length: length as u16,
            tag: 0,
        };
        let source = self.source.as_mut()?;
        if self.pool.give(frame, MUX).is_ok() {
            // There is room, as seen above.
            let _ = source.used.push(frame);
        }
        Some(result)
    }
}
