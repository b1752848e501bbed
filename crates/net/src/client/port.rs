//! Client port: both channels of a client, with the buffers that it owns at the moment.

use std::io;

use crate::buffers::{Buffers, SIZE};
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::queue::{Descriptor, Ledger, Sink, Source};
use crate::stage::Pool;

/// Receives from its Rx copier (port 0), sends to the Tx multiplexer or its Tx copier (port 1).
pub struct ClientPort {
    rx: RxQueue,
    tx: TxQueue,
}

/// Frames that were received: each is the client's from [`take`](Self::take) to
/// [`give_back`](Self::give_back).
pub(super) struct RxQueue {
    buffers: Buffers,
    sink: Option<Sink>,
    ledger: Ledger,
    /// Frames taken, and their bytes, since they were last counted.
    frames: u64,
    bytes: u64,
}

/// Frames to be sent, and the buffers that they are written into.
pub(super) struct TxQueue {
    buffers: Buffers,
    source: Option<Source>,
    pool: Pool,
    /// Whether a sender found no buffer.
    hungry: bool,
}

const MUX: u32 = 1;

impl ClientPort {
    /// `received` is shared with the copier, `sent` with its reader.
    #[must_use]
    pub fn new(received: Buffers, sent: Buffers, rx: Sink, tx: Source) -> Self {
        Self {
            rx: RxQueue {
                ledger: Ledger::new(received.count(), SIZE),
                buffers: received,
                sink: Some(rx),
                frames: 0,
                bytes: 0,
            },
            tx: TxQueue {
                pool: Pool::new(sent.count(), SIZE),
                buffers: sent,
                source: Some(tx),
                hungry: false,
            },
        }
    }

    /// Takes sent buffers back. To be called before each round of work.
    pub(super) fn collect(&mut self) {
        self.tx.collect();
    }

    /// Both directions, for a stack that answers a frame while it reads it.
    pub(super) fn split(&mut self) -> (&mut RxQueue, &mut TxQueue) {
        (&mut self.rx, &mut self.tx)
    }

    /// A channel enters another generation: buffers that the other side had return to their owner.
    ///
    /// # Errors
    /// If the channel is another one and cannot be mapped.
    pub(super) fn reattach(
        &mut self,
        change: Reattachment,
        counters: &mut [Counters],
    ) -> io::Result<()> {
        if change.port() == 0 {
            self.rx.sink = change.sink(self.rx.sink.take())?;
            self.rx.ledger = Ledger::new(self.rx.buffers.count(), SIZE);
        } else {
            self.tx.source = change.source(self.tx.source.take())?;
            counters[1].reclaimed += self.tx.pool.reclaim(MUX);
        }
        Ok(())
    }

    /// Whether a sender found no buffer.
    pub(super) fn is_hungry(&self) -> bool {
        self.tx.hungry
    }

    /// Whether the components that send for it are far behind.
    pub(super) fn is_ahead(&mut self) -> bool {
        self.tx.source.as_mut().is_some_and(Source::is_ahead)
    }

    /// Publishes and notifies, after a round of work, and counts what was received.
    pub(super) fn settle(&mut self, counters: &mut [Counters]) {
        counters[0].frames += std::mem::take(&mut self.rx.frames);
        counters[0].bytes += std::mem::take(&mut self.rx.bytes);
        if let Some(sink) = &mut self.rx.sink {
            sink.settle();
        }
        if let Some(source) = &mut self.tx.source {
            source.settle();
        }
    }

    /// Asks to be notified; true if something has arrived already.
    #[must_use = "with something to do there is no event to wait for"]
    pub(super) fn announce(&mut self) -> bool {
        let found = self.tx.hungry && !self.tx.pool.is_empty();
        if let Some(source) = &mut self.tx.source
            && self.tx.hungry
        {
            // Until a buffer comes back, received frames cannot be answered either.
            return source.announce_returns() || found;
        }
        match &mut self.rx.sink {
            Some(sink) => sink.announce() || found,
            None => found,
        }
    }
}

impl RxQueue {
    /// The next frame, which is the client's until [`give_back`](Self::give_back).
    pub(super) fn take(&mut self) -> Option<Descriptor> {
        let sink = self.sink.as_mut()?;
        loop {
            let frame = sink.take()?;
            if self.ledger.accept(frame).is_ok() {
                self.frames += 1;
                self.bytes += u64::from(frame.length);
                return Some(frame);
            }
        }
    }

    /// The bytes of a frame that was taken.
    pub(super) fn bytes(&mut self, frame: Descriptor) -> &mut [u8] {
        // The ledger has accepted the descriptor, so it lies within.
        self.buffers
            .own(frame.offset, usize::from(frame.length))
            .unwrap_or(&mut [])
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

impl TxQueue {
    fn collect(&mut self) {
        if let Some(source) = &mut self.source {
            while let Some(back) = source.take_back() {
                // A buffer that the multiplexer returns wrongly is not used again.
                let _ = self.pool.take_back(back, MUX);
            }
        }
    }

    /// Whether a frame could be sent now; remembers that one was wanted.
    pub(super) fn is_ready(&mut self) -> bool {
        if self.pool.is_empty() {
            self.collect();
        }
        let room = self.source.as_mut().is_some_and(|source| source.room() > 0);
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
            let _ = source.push(frame);
        }
        Some(result)
    }
}
