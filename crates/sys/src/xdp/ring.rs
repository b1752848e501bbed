//! Ring shared with the kernel, seen from one side.
//!
//! # Ordering
//! The kernel is the other side of each ring, and is trusted.
//! * SYNC xdp.publish: our Release of a producer index, the kernel's Acquire: entries and contents are
//!   written before they are seen. And the other way round for what the kernel produces.
//! * SYNC xdp.release: our Release of a consumer index, the kernel's Acquire: entries have been read
//!   before they are written again. And the other way round.

use std::io;
use std::ptr::NonNull;

use rustix::net::xdp::XdpRingOffset;
use weft_atomic::{AtomicU32, Ordering};

use super::XdpSocket;
use crate::error::with_errno;
use crate::memory::Mapping;

/// An entry of a ring for frames; a ring for chunks has only the address.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Frame {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) options: u32,
}

/// One ring, seen from one side; its user knows which.
#[derive(Debug)]
pub(super) struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our own index, and its value published to the kernel.
    own: u32,
    shown: u32,
    /// The kernel's index as last seen.
    other: u32,
    _memory: Mapping,
}

// SAFETY: the pointers lead into the mapping that is kept along, which belongs to the process.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    pub(super) fn map(
        socket: &XdpSocket,
        place: &XdpRingOffset,
        at: u64,
        entries: u32,
    ) -> io::Result<Self> {
        let flags = place.flags.ok_or_else(|| {
            with_errno(
                "getsockopt",
                libc::EPROTO,
                "read the layout of AF_XDP rings: the kernel is older than 5.4",
            )
        })?;
        let length = entries as usize * size_of::<T>();
        let memory = Mapping::of_device(socket, place.desc as usize + length, at)?;
        let strange = || with_errno("mmap", libc::EPROTO, "lay out a ring");
        let word = |offset: u64| -> io::Result<NonNull<AtomicU32>> {
            let place = memory.place(offset as usize, 4, 4).ok_or_else(strange)?;
            Ok(place.cast())
        };
        let first = memory
            .place(place.desc as usize, length, align_of::<T>())
            .ok_or_else(strange)?;
        Ok(Self {
            producer: word(place.producer)?,
            consumer: word(place.consumer)?,
            flags: word(flags)?,
            entries: first.cast(),
            size: entries,
            own: 0,
            shown: 0,
            other: 0,
            _memory: memory,
        })
    }

    #[inline]
    fn word(&self, place: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: within the mapping and aligned, checked in `map`; the kernel writes it as an atomic.
        unsafe { place.as_ref() }
    }

    /// Whether the kernel wants to be called.
    #[inline]
    pub(super) fn wants_call(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// As producer: how many entries can be pushed. Looks at the kernel's index only if fewer than
    /// `wanted` are known.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let room = self.size - self.own.wrapping_sub(self.other);
        if room >= wanted {
            return room;
        }
        // Acquire: SYNC xdp.release.
        self.other = self.word(self.consumer).load(Ordering::Acquire);
        self.size - self.own.wrapping_sub(self.other).min(self.size)
    }

    /// As producer: appends an entry; there is room.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        debug_assert!(self.own.wrapping_sub(self.other) < self.size);
        let place = (self.own & (self.size - 1)) as usize;
        // SAFETY: the mask keeps the place below the size, as mapped; the kernel does not look at it
        // before it is published.
        unsafe { self.entries.add(place).write_volatile(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// As producer: lets the kernel see what was pushed; true if anything was.
    #[inline]
    pub(super) fn publish(&mut self) -> bool {
        if self.shown == self.own {
            return false;
        }
        self.shown = self.own;
        // Release: SYNC xdp.publish.
        self.word(self.producer).store(self.own, Ordering::Release);
        true
    }

    /// As producer: how many entries the kernel has not taken yet.
    pub(super) fn pending(&mut self) -> u32 {
        // Acquire: SYNC xdp.release.
        self.other = self.word(self.consumer).load(Ordering::Acquire);
        self.shown.wrapping_sub(self.other)
    }

    /// As consumer: the oldest entry.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.own == self.other {
            // Acquire: SYNC xdp.publish.
            self.other = self.word(self.producer).load(Ordering::Acquire);
            if self.own == self.other {
                return None;
            }
        }
        let place = (self.own & (self.size - 1)) as usize;
        // SAFETY: the mask keeps the place below the size, as mapped; the kernel has published the
        // entry and does not write it before it is released. Any bytes are a T: plain numbers.
        let entry = unsafe { self.entries.add(place).read_volatile() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// As consumer: gives back the places of entries that were taken.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.shown != self.own {
            self.shown = self.own;
            // Release: SYNC xdp.release.
            self.word(self.consumer).store(self.own, Ordering::Release);
        }
    }
}
