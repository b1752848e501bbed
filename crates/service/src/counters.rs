//! Counters of the services, for `ioctl`.

use weft_fabric::Fabric;
use weft_sys::clock::Stopwatch;

use crate::error::{Code, Error, Result};

/// Clock for latency: virtual time in a simulation, else a counter that is cheap to read, because it is read twice in
/// each call.
#[derive(Debug)]
pub(crate) struct Clock(Option<Stopwatch>);

impl Clock {
    pub(crate) fn of(fabric: &dyn Fabric) -> Self {
        let simulated = fabric.bell().load().awake == 0;
        Self((!simulated).then(Stopwatch::new))
    }

    /// Ticks since some fixed moment.
    #[inline]
    pub(crate) fn read(&self, fabric: &dyn Fabric) -> u64 {
        match &self.0 {
            Some(stopwatch) => stopwatch.read(),
            None => u64::try_from(fabric.now().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        match &self.0 {
            Some(stopwatch) => stopwatch.nanoseconds(ticks),
            None => ticks,
        }
    }
}

/// Counters of one id, since it was created or opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Meter {
    /// Bytes of completed operations.
    pub volume: u64,
    /// Ticks within the calls that moved these bytes: the `aread` or `awrite`, and the `wait`. The time between the two
    /// is not counted.
    pub latency: u64,
}

/// Counters of one service, for all ids of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
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

/// A counter that `ioctl` can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Bytes of completed operations of the id.
    Volume,
    /// Nanoseconds within the calls of the id that moved these bytes.
    Latency,
    /// One of the counts of the service, for all ids: creates, unlinks, opens, closes, reads (of sync:
    /// waits), writes (of sync: signals).
    Count(u8),
}

impl Request {
    /// The request for a number as C programs write it. `sync` has no volume, and waits and signals in place of reads and
    /// writes.
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
    pub(crate) fn answer(self, meter: &Meter, counts: &Counts, clock: &Clock) -> u64 {
        match self {
            Self::Volume => meter.volume,
            Self::Latency => clock.nanoseconds(meter.latency),
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
