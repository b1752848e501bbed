//! Virtual wire, within the process: shaped to a rate in both directions, with somebody at its far end.
//!
//! All of its times come from the `now` of its callers. With a real clock it behaves like a card with a slow
//! wire; with a simulated clock the whole system runs in virtual time and repeats exactly.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{RxWire, TxWire, put_region};
use crate::buffers::{Buffers, SIZE};
use crate::queue::Descriptor;

/// The far end of a virtual wire.
pub trait Far: Send {
    /// A frame has arrived there.
    fn arrived(&mut self, frame: &[u8], now: u64);

    /// When it wants to send its next frame.
    fn next(&mut self) -> Option<u64>;

    /// Writes that frame; returns its length (0: none after all).
    fn emit(&mut self, into: &mut [u8]) -> usize;
}

/// How a wire behaves.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bits per second, each way.
    pub bits: u64,
    /// A sleeping driver is woken at most once in this many nanoseconds, as by cards.
    pub moderation: u64,
    /// Frames that the card can hold in each direction.
    pub ring: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            bits: 1_000_000_000,
            moderation: 20_000,
            ring: 256,
        }
    }
}

/// Extra bytes of a frame on a wire: preamble, check sequence, gap.
const OVERHEAD: u64 = 24;

/// State of the wire, which both halves share.
struct SharedWire {
    shape: Shape,
    far: Box<dyn Far>,
    card: Option<Buffers>,
    regions: Vec<Buffers>,
    /// When the direction towards the card is free again.
    down_free: u64,
    up_free: u64,
    empty: VecDeque<u32>,
    leaving: VecDeque<(u64, Descriptor)>,
    missed: u64,
    last_wake: u64,
    scratch: Box<[u8; SIZE as usize]>,
}

impl SharedWire {
    fn time_of(&self, length: usize) -> u64 {
        (length.max(60) as u64 + OVERHEAD) * 8 * 1_000_000_000 / self.shape.bits.max(1)
    }

    /// Hands the far end everything that has left by now.
    fn deliver(&mut self, now: u64) -> Option<Descriptor> {
        let &(moment, frame) = self.leaving.front()?;
        if moment > now {
            return None;
        }
        self.leaving.pop_front();
        let region = self.regions.get(frame.client());
        let length = region.map_or(0, |region| {
            region.read(
                frame.offset,
                usize::from(frame.length),
                &mut self.scratch[..],
            )
        });
        if length > 0 {
            self.far.arrived(&self.scratch[..length], moment);
        }
        Some(frame)
    }
}

/// Makes a wire, not yet attached to any buffers.
#[must_use]
pub fn virtual_wire(shape: Shape, far: Box<dyn Far>) -> (VirtualRx, VirtualTx) {
    let wire = Arc::new(Mutex::new(SharedWire {
        shape,
        far,
        card: None,
        regions: Vec::new(),
        down_free: 0,
        up_free: 0,
        empty: VecDeque::new(),
        leaving: VecDeque::new(),
        missed: 0,
        last_wake: 0,
        scratch: Box::new([0; SIZE as usize]),
    }));
    (VirtualRx(wire.clone()), VirtualTx(wire))
}

fn lock(wire: &Mutex<SharedWire>) -> MutexGuard<'_, SharedWire> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receiving half.
pub struct VirtualRx(Arc<Mutex<SharedWire>>);

/// The transmitting half.
pub struct VirtualTx(Arc<Mutex<SharedWire>>);

impl VirtualRx {
    /// The wire with the buffers to receive into.
    #[must_use]
    pub fn attached(self, card: Buffers) -> Self {
        lock(&self.0).card = Some(card);
        self
    }
}

impl VirtualTx {
    /// The wire with the regions that frames are sent from, by tag.
    #[must_use]
    pub fn attached(self, regions: Vec<Buffers>) -> Self {
        lock(&self.0).regions = regions;
        self
    }
}

impl RxWire for VirtualRx {
    fn supply(&mut self, offset: u32) -> bool {
        let mut wire = lock(&self.0);
        if wire.empty.len() >= wire.shape.ring {
            return false;
        }
        wire.empty.push_back(offset);
        true
    }

    fn receive(&mut self, now: u64) -> Option<(u32, u16)> {
        let mut wire = lock(&self.0);
        let wire = &mut *wire;
        wire.last_wake = now;
        loop {
            let start = wire.far.next()?.max(wire.down_free);
            if start > now {
                return None;
            }
            let length = wire.far.emit(&mut wire.scratch[..]);
            if length == 0 {
                continue;
            }
            wire.down_free = start + wire.time_of(length);
            // Frames that arrived while the card had no buffer are lost. For a late driver, frames still use
            // the buffers that it supplied before.
            let Some(offset) = wire.empty.pop_front() else {
                wire.missed += 1;
                continue;
            };
            if let Some(card) = &wire.card {
                card.write(offset, &wire.scratch[..length]);
            }
            return Some((offset, length as u16));
        }
    }

    fn deadline(&self) -> Option<u64> {
        let mut wire = lock(&self.0);
        let next = wire.far.next()?.max(wire.down_free);
        Some(next.max(wire.last_wake + wire.shape.moderation))
    }

    fn missed(&self) -> u64 {
        lock(&self.0).missed
    }
}

impl TxWire for VirtualTx {
    fn submit(&mut self, frame: Descriptor, now: u64) -> bool {
        let mut wire = lock(&self.0);
        if wire.leaving.len() >= wire.shape.ring {
            return false;
        }
        let moment = wire.up_free.max(now) + wire.time_of(usize::from(frame.length));
        wire.up_free = moment;
        wire.leaving.push_back((moment, frame));
        true
    }

    fn completed(&mut self, now: u64) -> Option<Descriptor> {
        lock(&self.0).deliver(now)
    }

    fn flush(&mut self, _now: u64) {}

    fn replace(&mut self, client: usize, region: Buffers) {
        let mut wire = lock(&self.0);
        let wire = &mut *wire;
        let leaving = wire.leaving.iter_mut().map(|(_, frame)| frame);
        put_region(&mut wire.regions, leaving, client, region);
    }

    fn deadline(&self) -> Option<u64> {
        let wire = lock(&self.0);
        let first = wire.leaving.front()?.0;
        // Enough that the wire does not run dry: half a ring at once, or all of it.
        let half = wire
            .leaving
            .get(wire.shape.ring / 2)
            .map_or(first, |frame| frame.0);
        Some(
            half.min(first.max(wire.last_wake + wire.shape.moderation))
                .max(first),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::BufferMemory;

    struct Source {
        left: u32,
        arrived: Arc<Mutex<Vec<(u64, usize)>>>,
    }

    impl Far for Source {
        fn arrived(&mut self, frame: &[u8], now: u64) {
            self.arrived.lock().expect("ours").push((now, frame.len()));
        }
        fn next(&mut self) -> Option<u64> {
            (self.left > 0).then_some(1_000)
        }
        fn emit(&mut self, into: &mut [u8]) -> usize {
            self.left -= 1;
            into[..1226].fill(self.left as u8);
            1226
        }
    }

    #[test]
    fn frames_come_and_go_at_the_rate_of_the_wire() {
        let memory = BufferMemory::create("weft-test", 8).expect("memory files exist here");
        let map = || Buffers::adopt(memory.share(true).expect("shared"), true).expect("maps");
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let far = Source {
            left: 5,
            arrived: arrived.clone(),
        };
        let shape = Shape {
            moderation: 0,
            ..Shape::default()
        };
        let (rx, tx) = virtual_wire(shape, Box::new(far));
        let (mut rx, mut tx) = (rx.attached(map()), tx.attached(vec![map()]));
        (0..4).for_each(|slot| assert!(rx.supply(slot * SIZE)));
        assert_eq!(rx.receive(999), None);
        // 1250 bytes on the wire are 10 µs at 1 Gbit/s.
        assert_eq!(rx.receive(1_000), Some((0, 1226)));
        assert_eq!(rx.receive(1_001), None);
        assert_eq!(rx.deadline(), Some(11_000));
        assert_eq!(rx.receive(50_000), Some((SIZE, 1226)));
        assert_eq!(map().head(SIZE), Some([3; 8]));
        assert!(rx.receive(50_000).is_some() && rx.receive(50_000).is_some());
        assert_eq!(rx.receive(50_000), None);
        assert_eq!(rx.missed(), 1, "four buffers, five frames");
        let frame = Descriptor {
            offset: SIZE,
            length: 1226,
            tag: 0,
        };
        assert!(tx.submit(frame, 100_000) && tx.submit(frame, 100_000));
        assert_eq!(tx.completed(109_999), None);
        assert_eq!(tx.completed(110_000), Some(frame));
        assert_eq!(tx.completed(200_000), Some(frame));
        let arrived = arrived.lock().expect("ours");
        assert_eq!(arrived[..], [(110_000, 1226), (120_000, 1226)]);
    }
}
