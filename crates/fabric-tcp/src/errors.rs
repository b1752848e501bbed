//! Errors of the system, with what was attempted.

use weft_fabric::FabricError;

/// An error of the system: what it means here, and the system's text.
pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> FabricError {
    FabricError::System {
        what: format!("{what}: {error}"),
    }
}
