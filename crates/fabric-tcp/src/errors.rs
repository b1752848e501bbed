//! Errors of the system, with what was wanted.

use weft_fabric::FabricError;

/// The system has refused: what that means here, and what it says.
pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> FabricError {
    FabricError::System {
        what: format!("{what}: {error}"),
    }
}
