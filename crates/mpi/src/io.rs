//! File: data outside of the program that the members of a communicator read and write together
//! (MPI 5.0, chapter 14).

use crate::extras::Extras;

/// An open file.
#[derive(Debug, Default)]
pub struct File {
    extras: Extras,
}

impl File {
    /// Name, info and error handler.
    #[must_use]
    pub fn extras(&self) -> &Extras {
        &self.extras
    }
}
