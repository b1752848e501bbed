//! AF_PACKET: a wire through packet sockets. It works for any interface without a special driver; the kernel
//! makes one copy each way.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::Region;
use weft_sys::packet::{BATCH, PacketSocket};

use super::{ASK, RETRY, RxWire, TxWire, put_region};
use crate::buffers::{Buffers, ROOM};
use crate::queue::Descriptor;

/// The receiving half.
pub struct PacketRx {
    socket: PacketSocket,
    card: Buffers,
    empty: Vec<u32>,
    full: VecDeque<(u32, u16)>,
    most: usize,
    missed: u64,
    /// When the kernel was last asked for lost frames.
    asked: u64,
}

impl PacketRx {
    /// Receives into the buffers of this region.
    #[must_use]
    pub fn new(socket: PacketSocket, card: Buffers) -> Self {
        Self {
            most: card.count() as usize,
            socket,
            card,
            empty: Vec::new(),
            full: VecDeque::new(),
            missed: 0,
            asked: 0,
        }
    }
}

impl RxWire for PacketRx {
    fn supply(&mut self, offset: u32) -> bool {
        if self.empty.len() >= self.most {
            return false;
        }
        self.empty.push(offset);
        true
    }

    fn receive(&mut self, now: u64) -> Option<(u32, u16)> {
        if now >= self.asked + ASK {
            self.asked = now;
            self.missed += self.socket.take_lost();
        }
        if self.full.is_empty() {
            let mut regions = [Region::EMPTY; BATCH];
            let mut lengths = [0; BATCH];
            let mut count = 0;
            for (region, &offset) in regions.iter_mut().zip(self.empty.iter().rev()) {
                let Some(lent) = self.card.lend(offset, ROOM as usize) else {
                    break;
                };
                *region = lent;
                count += 1;
            }
            // An interface that is gone receives nothing: the broker handles that.
            let received = self
                .socket
                .receive(&regions[..count], &mut lengths)
                .unwrap_or(0);
            for &length in &lengths[..received] {
                if let Some(offset) = self.empty.pop() {
                    self.full
                        .push_back((offset, length.min(ROOM as usize) as u16));
                }
            }
        }
        self.full.pop_front()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn missed(&self) -> u64 {
        self.missed
    }
}

/// The transmitting half.
pub struct PacketTx {
    socket: PacketSocket,
    regions: Vec<Buffers>,
    waiting: VecDeque<Descriptor>,
    done: VecDeque<Descriptor>,
    retry: Option<u64>,
}

impl PacketTx {
    /// Sends from these regions, named by the tags of descriptors.
    #[must_use]
    pub fn new(socket: PacketSocket, regions: Vec<Buffers>) -> Self {
        Self {
            socket,
            regions,
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            retry: None,
        }
    }
}

impl TxWire for PacketTx {
    fn submit(&mut self, frame: Descriptor, now: u64) -> bool {
        if self.waiting.len() >= 4 * BATCH {
            return false;
        }
        self.waiting.push_back(frame);
        if self.waiting.len() >= BATCH {
            self.flush(now);
        }
        true
    }

    fn completed(&mut self, _now: u64) -> Option<Descriptor> {
        self.done.pop_front()
    }

    fn flush(&mut self, now: u64) {
        self.retry = None;
        while !self.waiting.is_empty() {
            // Frames that were made empty are done.
            if self.waiting.front().is_some_and(|frame| frame.length == 0) {
                self.done.extend(self.waiting.pop_front());
                continue;
            }
            let mut regions = [Region::EMPTY; BATCH];
            let mut count = 0;
            for (region, frame) in regions.iter_mut().zip(&self.waiting) {
                let lent = self
                    .regions
                    .get(frame.client())
                    .and_then(|buffers| buffers.lend_readable(frame.offset, frame.length.into()));
                *region = lent.unwrap_or(Region::EMPTY);
                count += 1;
            }
            let sent = match self.socket.send(&regions[..count]) {
                // The kernel refuses this frame for good: it counts as sent.
                Err(_) => 1,
                Ok(0) => {
                    self.retry = Some(now + RETRY);
                    return;
                }
                Ok(sent) => sent,
            };
            self.done.extend(self.waiting.drain(..sent.min(count)));
        }
    }

    fn replace(&mut self, client: usize, region: Buffers) {
        put_region(&mut self.regions, self.waiting.iter_mut(), client, region);
    }

    fn deadline(&self) -> Option<u64> {
        self.retry
    }
}
