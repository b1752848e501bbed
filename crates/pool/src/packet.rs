//! A packet: bytes of a fixed size on cache lines of their own, with one owner.
//!
//! A packet is two words: where its bytes are, and the home that made it. To give a packet back touches
//! neither its bytes nor its home, so nothing is fetched from another core for it.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use weft_atomic::{Arc, AtomicUsize, Ordering};

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// The common state of the packets of a pool, and how many more packets may be made.
pub(crate) struct Home {
    /// Of the bytes of one packet.
    layout: Layout,
    /// Packets that may still be made.
    unmade: AtomicUsize,
}

impl Home {
    /// A home of at most `count` packets of at least `size` bytes. A size that no memory could hold makes a
    /// home without packets.
    pub(crate) fn new(size: usize, count: usize) -> Self {
        let lines = size.div_ceil(LINE).max(1);
        let layout = lines
            .checked_mul(LINE)
            .and_then(|bytes| Layout::from_size_align(bytes, LINE).ok());
        Self {
            layout: layout.unwrap_or(Layout::new::<u8>()),
            unmade: AtomicUsize::new(if layout.is_some() { count } else { 0 }),
        }
    }

    /// Bytes of a packet.
    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }

    /// Packets that may still be made.
    pub(crate) fn unmade(&self) -> usize {
        self.unmade.load(Ordering::Relaxed)
    }

    /// Takes one place; false if there is none.
    fn take_place(&self) -> bool {
        // Relaxed: only the number counts, nothing is published through it.
        self.unmade
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok()
    }

    fn free_place(&self) {
        self.unmade.fetch_add(1, Ordering::Relaxed);
    }
}

/// A packet of a [`Pool`](crate::Pool): dereferences to its bytes.
///
/// Give it back with [`Local::give_back`](crate::Local::give_back). Dropping it frees its memory,
/// which is correct but costs an allocation later.
#[must_use = "a packet that is dropped is freed instead of used again"]
pub struct Packet {
    /// `home.layout` bytes from the allocator, initialised, owned.
    start: NonNull<u8>,
    home: Arc<Home>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Option<Packet>>() == 16);

// SAFETY: a packet owns its bytes as a box does, and its home may be shared between threads.
unsafe impl Send for Packet {}
// SAFETY: a shared packet only gives out shared references to its bytes.
unsafe impl Sync for Packet {}

impl Packet {
    /// A new packet of zeros; `None` if the maximum exists already.
    pub(crate) fn make(home: &Arc<Home>) -> Option<Self> {
        if !home.take_place() {
            return None;
        }
        // SAFETY: the layout is not of size zero: at least one line, or one byte.
        let start = unsafe { alloc_zeroed(home.layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(home.layout)
        };
        Some(Self {
            start,
            home: home.clone(),
        })
    }

    /// Whether `home` made it.
    #[inline]
    pub(crate) fn is_of(&self, home: &Arc<Home>) -> bool {
        Arc::ptr_eq(&self.home, home)
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: allocated by `make` with this layout, which never changes, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.home.layout) };
        self.home.free_place();
    }
}

impl Deref for Packet {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: allocated with this size, initialised, and owned by `self`, which is borrowed.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.home.size()) }
    }
}

impl DerefMut for Packet {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `self` is borrowed mutably, so nobody else sees the bytes.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.home.size()) }
    }
}

impl core::fmt::Debug for Packet {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "Packet({} bytes)", self.len())
    }
}
