//! A packet: bytes of a fixed size on cache lines of their own, with one owner.

use core::ops::{Deref, DerefMut};

use weft_atomic::{Arc, AtomicUsize, Ordering};

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// How many more packets a pool may make.
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    pub(crate) fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    /// Takes one place; false if there is none.
    fn take(&self) -> bool {
        // Relaxed: only the number counts, nothing is published through it.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok()
    }

    fn put_back(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Places left.
    pub(crate) fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A packet of a [`Pool`](crate::Pool): dereferences to its bytes.
///
/// Give it back with [`Local::give_back`](crate::Local::give_back). Dropping it frees its memory,
/// which is correct but costs an allocation later.
#[must_use = "a packet that is dropped is freed instead of used again"]
pub struct Packet {
    lines: Box<[Line]>,
    budget: Arc<Budget>,
}

impl Packet {
    /// A new packet of `lines` lines of zeros; `None` if the budget is used up.
    pub(crate) fn make(lines: usize, budget: &Arc<Budget>) -> Option<Self> {
        budget.take().then(|| Self {
            lines: vec![Line([0; LINE]); lines].into_boxed_slice(),
            budget: budget.clone(),
        })
    }

    /// Whether it was made on this budget.
    #[inline]
    pub(crate) fn is_of(&self, budget: &Arc<Budget>) -> bool {
        Arc::ptr_eq(&self.budget, budget)
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        self.budget.put_back();
    }
}

impl Deref for Packet {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: lines are arrays of bytes without padding, initialised when the packet was made,
        // and borrowed from `self`.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * LINE) }
    }
}

impl DerefMut for Packet {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `self` is borrowed mutably, so nobody else sees them.
        unsafe {
            core::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * LINE)
        }
    }
}

impl core::fmt::Debug for Packet {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "Packet({} bytes)", self.lines.len() * LINE)
    }
}
