//! Sender: the half of an AF_XDP socket that copies frames into its own chunks and sends them.

use std::sync::Arc;

use rustix::net::SendFlags;

use super::Shared;
use super::ring::{Frame, Ring};
use crate::span::Region;

/// The sending half.
#[derive(Debug)]
pub struct XdpSender {
    transmit: Ring<Frame>,
    completion: Ring<u64>,
    /// Chunks of its own that are empty.
    spare: Vec<u64>,
    chunk: u32,
    shared: Arc<Shared>,
}

impl XdpSender {
    /// The sending half, with its rings; the chunks of the area from `first` on are its own.
    pub(super) fn new(
        (transmit, completion): (Ring<Frame>, Ring<u64>),
        first: usize,
        chunk: u32,
        shared: Arc<Shared>,
    ) -> Self {
        let spare = (first..shared.area.len())
            .step_by(chunk as usize)
            .rev()
            .map(|start| start as u64)
            .collect();
        Self {
            transmit,
            completion,
            spare,
            chunk,
            shared,
        }
    }

    /// Copies a frame into a chunk and appends it; false if there is no room now. A frame that is longer
    /// than a chunk is cut.
    #[inline]
    pub fn push(&mut self, frame: &Region) -> bool {
        if self.spare.is_empty() {
            self.collect();
        }
        if self.transmit.room(1) == 0 {
            return false;
        }
        let Some(start) = self.spare.pop() else {
            return false;
        };
        let length = frame.len().min(self.chunk as usize);
        if let Some(place) = self.shared.area.place(start as usize, length, 1) {
            // SAFETY: the chunk is ours, within the area; the frame is valid for reads, as promised
            // to `Region::new`, and lies elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), place.as_ptr(), length) };
        }
        self.transmit.push(Frame {
            address: start,
            length: length as u32,
            options: 0,
        });
        true
    }

    fn collect(&mut self) {
        while let Some(chunk) = self.completion.pop() {
            self.spare.push(chunk & !(u64::from(self.chunk) - 1));
        }
        self.completion.release();
    }

    /// Makes the kernel send what was pushed; returns how many frames it has not taken yet. Those wait for
    /// the next call, which must be made some time later, as nothing announces it.
    pub fn settle(&mut self) -> u32 {
        self.transmit.publish();
        let mut before = self.transmit.pending();
        while before > 0 && self.transmit.wants_call() {
            // Sends no bytes: this makes the kernel look at its ring.
            let _ = rustix::net::send(&self.shared.socket, &[], SendFlags::DONTWAIT);
            let now = self.transmit.pending();
            // It takes a bounded number at a time; if it takes none, it has no room.
            if now == before {
                return now;
            }
            before = now;
        }
        before
    }
}
