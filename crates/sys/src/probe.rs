//! Availability: whether something can be used here, and if not, why. It serves `weft info` and the choice of
//! an alternative.

use std::fmt;
use std::io;

/// The answer of a probe.
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Availability {
    /// It works, as a trial has shown.
    Available,
    /// It does not work here.
    NotAvailable {
        /// Why, as a sentence.
        reason: String,
    },
}

impl Availability {
    /// Whether it works.
    #[must_use]
    pub fn is_available(&self) -> bool {
        matches!(self, Self::Available)
    }

    /// Why it does not.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Available => None,
            Self::NotAvailable { reason } => Some(reason),
        }
    }

    /// Not available, for this reason.
    pub fn not(reason: impl Into<String>) -> Self {
        Self::NotAvailable {
            reason: reason.into(),
        }
    }
}

impl From<io::Result<()>> for Availability {
    fn from(result: io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Available,
            Err(error) => Self::not(error.to_string()),
        }
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Available => out.write_str("available"),
            Self::NotAvailable { reason } => write!(out, "not available: {reason}"),
        }
    }
}
