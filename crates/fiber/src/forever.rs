//! Values that live for ever.

#[cfg(miri)]
use std::sync::{Mutex, PoisonError};

/// A value that lives for ever.
pub(crate) fn forever<T: Sync>(value: T) -> &'static T {
    let kept: &'static T = Box::leak(Box::new(value));
    #[cfg(miri)]
    {
        /// What no static reaches is a leak for Miri.
        struct Kept(#[expect(dead_code, reason = "to be reached")] *const ());
        // SAFETY: never used.
        unsafe impl Send for Kept {}
        static ALL: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
        ALL.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Kept(std::ptr::from_ref(kept).cast()));
    }
    kept
}
