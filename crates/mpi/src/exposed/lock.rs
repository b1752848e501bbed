//! Element lock: held while elements are combined that the processor cannot change at once.
//!
//! ```text
//!   0 free ──► 1 held ──► 0          2: held, and somebody may sleep on the word
//! ```

use std::time::Duration;

use weft_atomic::Ordering::{Acquire, Relaxed, Release};
use weft_sys::{SharedMemory, clock};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// It is held for microseconds. Who has held it for so long has died with it, and it is taken from them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who else may combine elements of the memory meanwhile.
#[derive(Clone, Debug)]
pub(crate) enum ElementLock {
    /// Nobody: only the engine of the rank touches it, and whoever combines holds the engine.
    Engine,
    /// Whoever shares the memory.
    Shared {
        /// Its first word is the lock.
        word: SharedMemory,
        /// Whether it is held for all elements, those too that the processor can change at once.
        for_all: bool,
    },
}

/// The lock is held.
#[must_use]
pub(super) struct Held<'a>(Option<&'a SharedMemory>);

impl ElementLock {
    /// Takes it.
    pub(super) fn hold(&self) -> Held<'_> {
        match self {
            Self::Engine => Held(None),
            Self::Shared { word, .. } => {
                take(word);
                Held(Some(word))
            }
        }
    }

    /// Whether it is held whatever is combined, so that nobody needs to change an element at once.
    #[inline]
    pub(super) fn is_for_all(&self) -> bool {
        match self {
            Self::Engine => true,
            Self::Shared { for_all, .. } => *for_all,
        }
    }
}

fn take(memory: &SharedMemory) {
    let Some(word) = memory.atomic_u32(0) else {
        return;
    };
    if word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() {
        return;
    }
    let deadline = clock::monotonic() + PATIENCE.as_nanos() as u64;
    // SYNC element_lock
    while word.swap(AWAITED, Acquire) != FREE {
        let _ = memory.wait(0, AWAITED, Some(deadline));
        if clock::monotonic() >= deadline {
            return;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(memory) = self.0 else { return };
        // SYNC element_lock
        let was = memory.atomic_u32(0).map(|word| word.swap(FREE, Release));
        if was == Some(AWAITED) {
            memory.wake(0, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let memory = SharedMemory::of_this_process(64).expect("maps");
        let lock = ElementLock::Shared {
            word: memory.clone(),
            for_all: false,
        };
        let count = memory.part(8, 8).expect("within");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let _held = lock.hold();
                        let mut bytes = [0; 8];
                        assert!(count.read(0, &mut bytes));
                        let next = u64::from_ne_bytes(bytes) + 1;
                        assert!(count.write(0, &next.to_ne_bytes()));
                    }
                });
            }
        });
        let mut bytes = [0; 8];
        assert!(count.read(0, &mut bytes));
        assert_eq!(u64::from_ne_bytes(bytes), 4000);
    }
}
