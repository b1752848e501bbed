//! Element lock: held while elements are combined that the processor cannot change at once.

/// Who else may combine elements of the memory meanwhile.
#[derive(Clone, Debug)]
pub(crate) enum ElementLock {
    /// Nobody: only the engine of the rank touches it, and whoever combines holds the engine.
    Engine,
}

/// The lock is held.
#[must_use]
pub(super) struct Held;

impl ElementLock {
    pub(super) fn hold(&self) -> Held {
        match self {
            Self::Engine => Held,
        }
    }
}
