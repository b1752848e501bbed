//! Idle workers of a runtime: a bit for each worker that has nothing to do.
//!
//! It is a hint, hence Relaxed throughout: claiming a worker that is busy by then gives it one fiber more, and an idle
//! worker that is overlooked is given none.

use weft_atomic::{AtomicU64, Ordering};

/// The set of idle workers, at most 64.
pub(crate) struct IdleWorkers(AtomicU64);

impl IdleWorkers {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn set(&self, index: usize, idle: bool) {
        if idle {
            self.0.fetch_or(1 << index, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!(1 << index), Ordering::Relaxed);
        }
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Takes one other than `mine` out of the set.
    pub(crate) fn claim(&self, mine: usize) -> Option<usize> {
        let idle = self.0.load(Ordering::Relaxed) & !(1 << mine);
        if idle == 0 {
            return None;
        }
        let bit = idle & idle.wrapping_neg();
        let before = self.0.fetch_and(!bit, Ordering::Relaxed);
        (before & bit != 0).then(|| bit.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_claimed_once_and_never_by_itself() {
        let idle = IdleWorkers::new();
        idle.set(3, true);
        idle.set(63, true);
        assert!(idle.has_any());
        assert_eq!(idle.claim(3), Some(63));
        assert_eq!(idle.claim(3), None);
        assert_eq!(idle.claim(0), Some(3));
        assert!(!idle.has_any());
        idle.set(5, true);
        idle.set(5, false);
        assert_eq!(idle.claim(0), None);
    }
}
