//! The load towards one client: how much, how long, in what pattern.

use crate::payload;

/// The load towards one client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Index of the client.
    pub client: usize,
    /// Bits of payload per second; 0: nothing is sent.
    pub bits: u64,
    /// Bytes of payload, 24 to 1472.
    pub payload: usize,
    /// When it begins and ends, in nanoseconds after the load began. Frames that arrive after its end count
    /// as replies and not as throughput.
    pub from: u64,
    /// See [`from`](Self::from).
    pub until: u64,
    /// In time or in bursts.
    pub pattern: Pattern,
}

/// How the frames of a flow are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// At equal distances.
    Steady,
    /// This many at once, then a pause.
    Bursts(u32),
}

impl Flow {
    /// Frames of the largest payload at equal distances, from the beginning and without an end.
    #[must_use]
    pub fn steady(client: usize, megabits: u64) -> Self {
        Self {
            client,
            bits: megabits * 1_000_000,
            payload: payload::LARGEST,
            from: 0,
            until: u64::MAX,
            pattern: Pattern::Steady,
        }
    }

    /// The same flow, ending `until` nanoseconds after the load began.
    #[must_use]
    pub fn ending_at(self, until: u64) -> Self {
        Self { until, ..self }
    }

    /// Bytes of payload of its datagrams, within what a datagram can have.
    pub(crate) fn payload(&self) -> usize {
        self.payload.clamp(payload::SMALLEST, payload::LARGEST)
    }

    /// When datagram `sequence` is due, in nanoseconds after the load began. Computed from the beginning, so
    /// that rounding errors do not accumulate.
    pub(crate) fn due(&self, sequence: u64) -> u64 {
        let group = match self.pattern {
            Pattern::Steady => 1,
            Pattern::Bursts(size) => u64::from(size.max(1)),
        };
        let interval = self.payload() as f64 * 8e9 / self.bits.max(1) as f64;
        self.from + ((sequence / group * group) as f64 * interval) as u64
    }

    /// When its first datagram is due: never, if nothing is sent.
    pub(crate) fn first(&self) -> u64 {
        if self.bits == 0 { u64::MAX } else { self.from }
    }
}
