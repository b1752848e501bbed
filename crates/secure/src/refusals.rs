//! Refused connections, counted by reason: a job says at its end that somebody tried.

use std::fmt;

use weft_atomic::{AtomicU64, Ordering};

/// Why a connection was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its bytes were not sealed with this job's key for this purpose.
    WrongKey,
    /// It began with bytes of an earlier handshake and could not go on.
    Recording,
    /// It knows the key, but its message is not one of a member.
    Malformed,
    /// It did not finish its handshake in time.
    Slow,
    /// It closed the connection before it had proved anything.
    Gone,
    /// Too many handshakes were under way, and it was chosen to go: see
    /// [`EvictionPolicy`](crate::EvictionPolicy).
    Crowded,
    /// Bytes were fed to a handshake that had ended.
    Over,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::WrongKey,
        Self::Recording,
        Self::Malformed,
        Self::Slow,
        Self::Gone,
        Self::Crowded,
        Self::Over,
    ];
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::WrongKey => "it does not know the key of this job",
            Self::Recording => "it repeated the beginning of an earlier connection",
            Self::Malformed => "it knows the key, but what it said is not understood",
            Self::Slow => "it did not prove the key in time",
            Self::Gone => "it left before it had proved the key",
            Self::Crowded => "too many tried to connect at the same time",
            Self::Over => "it went on after it was refused",
        })
    }
}

impl std::error::Error for Refusal {}

/// How many connections were refused, by reason. Shared by all that accept for one process.
#[derive(Debug, Default)]
pub struct Refusals {
    counts: [AtomicU64; Refusal::ALL.len()],
}

impl Refusals {
    /// Counts one more.
    pub fn count(&self, refusal: Refusal) {
        self.counts[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many were refused for this reason.
    #[must_use]
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize].load(Ordering::Relaxed)
    }

    /// How many were refused in all.
    #[must_use]
    pub fn all(&self) -> u64 {
        Refusal::ALL.iter().map(|refusal| self.of(*refusal)).sum()
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} connections were turned away", self.all())?;
        let mut separator = ": ";
        for refusal in Refusal::ALL {
            let count = self.of(refusal);
            if count > 0 {
                write!(out, "{separator}{count} because {refusal}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_and_said() {
        let refusals = Refusals::default();
        refusals.count(Refusal::WrongKey);
        refusals.count(Refusal::WrongKey);
        refusals.count(Refusal::Slow);
        assert_eq!(refusals.all(), 3);
        assert_eq!(refusals.of(Refusal::WrongKey), 2);
        let said = refusals.to_string();
        assert!(
            said.contains("2 because it does not know the key"),
            "{said}"
        );
    }
}
