//! Report of a flow: datagrams sent and answered, bytes of throughput, round trips.

use hdrhistogram::Histogram;

use crate::payload;

/// The results of a flow.
#[derive(Clone)]
pub struct FlowReport {
    sent: u64,
    replies: u64,
    bytes: u64,
    unasked: u64,
    unasked_bytes: u64,
    corrupt: u64,
    reordered: u64,
    /// The highest number in replies so far.
    highest: u64,
    round_trips: Histogram<u64>,
}

impl std::fmt::Debug for FlowReport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} sent, {} replies, {} unasked, {} corrupt, {} reordered, {} ns at most",
            self.sent,
            self.replies,
            self.unasked,
            self.corrupt,
            self.reordered,
            self.round_trips.max()
        )
    }
}

impl FlowReport {
    /// An empty report.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sent: 0,
            replies: 0,
            bytes: 0,
            unasked: 0,
            unasked_bytes: 0,
            corrupt: 0,
            reordered: 0,
            highest: 0,
            // Three significant figures up to a minute: the bounds are constants that are valid.
            round_trips: Histogram::new_with_bounds(1, 60_000_000_000, 3)
                .unwrap_or_else(|_| unreachable!("the bounds are valid")),
        }
    }

    /// Notes that a datagram is sent.
    pub(crate) fn count_sent(&mut self) {
        self.sent += 1;
    }

    /// Counts what has come from the client, at this time of the sender's clock. Datagrams after the end of
    /// the load (`in_load` is false) count as replies, but not as throughput.
    pub(crate) fn count_arrival(&mut self, bytes: &[u8], now: u64, in_load: bool) {
        let length = if in_load { bytes.len() as u64 } else { 0 };
        let Some((sequence, sent)) = payload::read(bytes) else {
            self.unasked += 1;
            self.unasked_bytes += length;
            return;
        };
        self.replies += 1;
        self.bytes += length;
        if sequence < self.highest {
            self.reordered += 1;
        }
        self.highest = sequence.max(self.highest);
        if !payload::is_whole(bytes, sequence) {
            self.corrupt += 1;
        }
        self.round_trips
            .saturating_record(now.saturating_sub(sent).max(1));
    }

    /// Counts a datagram of `bytes` bytes that the client sent unasked.
    pub(crate) fn count_unasked(&mut self, bytes: usize) {
        self.unasked += 1;
        self.unasked_bytes += bytes as u64;
    }

    /// Datagrams sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Replies that carried a number that had been sent.
    #[must_use]
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Datagrams sent that were not answered.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.replies)
    }

    /// Datagrams that the client sent unasked.
    #[must_use]
    pub fn unasked(&self) -> u64 {
        self.unasked
    }

    /// Replies whose contents were not what was sent.
    #[must_use]
    pub fn corrupt(&self) -> u64 {
        self.corrupt
    }

    /// Replies that came after a later one.
    #[must_use]
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Bytes of payload in the replies that arrived during the load.
    #[must_use]
    pub fn reply_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of payload that arrived during the load: replies, and what the client sent unasked.
    #[must_use]
    pub fn throughput_bytes(&self) -> u64 {
        self.bytes + self.unasked_bytes
    }

    /// Round trips in nanoseconds.
    #[must_use]
    pub fn round_trips(&self) -> &Histogram<u64> {
        &self.round_trips
    }
}

impl Default for FlowReport {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::FILL;

    #[test]
    fn replies_are_recognised_and_damage_is_seen() {
        let mut bytes = vec![FILL; 200];
        payload::write(&mut bytes, 7, 1_000);
        let mut report = FlowReport::new();
        report.count_arrival(&bytes, 31_000, true);
        bytes[121] = 0;
        report.count_arrival(&bytes, 31_000, true);
        report.count_arrival(b"something else, long enough", 31_000, true);
        assert_eq!((report.replies, report.corrupt, report.unasked), (2, 1, 1));
        assert!((29_900..30_100).contains(&report.round_trips.max()));
        assert_eq!(report.throughput_bytes(), 2 * 200 + 27);
        report.count_arrival(&bytes, 31_000, false);
        assert_eq!((report.replies, report.reply_bytes()), (3, 400));
    }
}
