//! What services count about themselves, for `ioctl`.

use std::time::Duration;

use crate::error::{Code, Error, Result};

/// Of one id, since it was created or opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// Bytes of completed operations.
    pub volume: u64,
    /// Time within calls that moved them: the `aread` or `awrite`, and the `wait`. The time between the
    /// two is not counted.
    pub latency: Duration,
}

/// Of one service, for all ids of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Inputs created.
    pub creates: u64,
    /// Inputs ended.
    pub unlinks: u64,
    /// Outputs opened.
    pub opens: u64,
    /// Outputs ended.
    pub closes: u64,
    /// Reads completed; of sync, waits.
    pub reads: u64,
    /// Writes completed; of sync, signals.
    pub writes: u64,
}

/// What `ioctl` can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// [`Meter::volume`].
    Volume,
    /// [`Meter::latency`] in nanoseconds.
    Latency,
    /// One of [`Counts`], in its order.
    Count(u8),
}

impl Request {
    /// The request of a number as C programs write it. `sync` has no volume, and waits and signals in
    /// place of reads and writes.
    ///
    /// # Errors
    /// [`Code::NotSupported`].
    pub fn of(number: u32, sync: bool) -> Result<Self> {
        Ok(match (number, sync) {
            (1, false) => Self::Volume,
            (2, _) => Self::Latency,
            (3..=6, _) => Self::Count(number as u8 - 3),
            (7..=8, false) => Self::Count(number as u8 - 3),
            (9..=10, true) => Self::Count(number as u8 - 5),
            _ => {
                return Err(Error::new(
                    Code::NotSupported,
                    format!(
                        "there is no request {number} of ioctl here; weft.h lists those there are"
                    ),
                ));
            }
        })
    }

    /// The answer.
    #[must_use]
    pub(crate) fn answer(self, meter: &Meter, counts: &Counts) -> u64 {
        match self {
            Self::Volume => meter.volume,
            Self::Latency => u64::try_from(meter.latency.as_nanos()).unwrap_or(u64::MAX),
            Self::Count(which) => [
                counts.creates,
                counts.unlinks,
                counts.opens,
                counts.closes,
                counts.reads,
                counts.writes,
            ][usize::from(which.min(5))],
        }
    }
}
