//! Window: memory that the members of a communicator let each other read and write (MPI 5.0, chapter 12).

use crate::extras::Extras;

/// A window.
#[derive(Debug, Default)]
pub struct Window {
    extras: Extras,
}

impl Window {
    /// Name, info, error handler and attributes.
    #[must_use]
    pub fn extras(&self) -> &Extras {
        &self.extras
    }
}
