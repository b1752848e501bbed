//! Errors of the system, with the purpose of the call.

use weft_fabric::FabricError;

/// The system has refused: what that means here, and what it says.
pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> FabricError {
    FabricError::System {
        what: format!("{what}: {error}"),
    }
}
