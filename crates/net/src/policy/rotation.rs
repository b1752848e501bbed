//! Round robin: one frame each, or shares of bytes by weight.

use super::{Backlog, CLIENTS, Policy, Turn};

/// One frame of each backlogged client in turn. A client waits for at most one frame of each other.
#[derive(Default)]
pub struct RoundRobin {
    next: usize,
}

impl Policy for RoundRobin {
    fn next(&mut self, backlog: &Backlog, _now: u64) -> Turn {
        match backlog.first_from(self.next) {
            Some(client) => {
                self.next = (client + 1) % CLIENTS;
                Turn::Send(client)
            }
            None => Turn::Idle,
        }
    }
}

/// Deficit round robin (Shreedhar and Varghese, 1996): in each round a client may send `weight` quanta of
/// bytes; the part that it could not use because its first frame was longer is carried over, the part that it
/// did not need is lost. A quantum is one largest frame, so that every visit sends at least one frame.
pub struct DeficitRoundRobin {
    weights: [u32; CLIENTS],
    /// Bytes that may still be sent in this visit, or are carried to the next.
    deficit: [u32; CLIENTS],
    current: usize,
    /// Whether the current client has got its quanta for this visit.
    visiting: bool,
}

impl DeficitRoundRobin {
    /// Bytes of a quantum.
    pub const QUANTUM: u32 = 1536;

    /// With these weights, client by client; missing ones, and 0, are 1, more than 1000 is 1000.
    #[must_use]
    pub fn new(weights: &[u32]) -> Self {
        let mut all = [1; CLIENTS];
        for (place, &weight) in all.iter_mut().zip(weights) {
            *place = weight.clamp(1, 1000);
        }
        Self {
            weights: all,
            deficit: [0; CLIENTS],
            current: 0,
            visiting: false,
        }
    }
}

impl Policy for DeficitRoundRobin {
    fn next(&mut self, backlog: &Backlog, _now: u64) -> Turn {
        loop {
            if !self.visiting {
                let Some(client) = backlog.first_from(self.current) else {
                    return Turn::Idle;
                };
                self.current = client;
                self.visiting = true;
                self.deficit[client] += self.weights[client] * Self::QUANTUM;
            }
            let client = self.current;
            let length = u32::from(backlog.length(client));
            if backlog.has(client) && length <= self.deficit[client] {
                self.deficit[client] -= length;
                return Turn::Send(client);
            }
            // A frame longer than the quanta of one visit still goes in the end, since the deficit is carried
            // over while there is a backlog.
            if !backlog.has(client) {
                self.deficit[client] = 0;
            }
            self.visiting = false;
            self.current = (client + 1) % CLIENTS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::saturated;
    use super::*;

    #[test]
    fn one_frame_each() {
        let (frames, _) = saturated(&mut RoundRobin::default(), &[1500, 60, 700], 300);
        assert_eq!(frames, [100, 100, 100]);
    }

    #[test]
    fn shares_of_bytes_follow_the_weights_with_frames_of_any_size() {
        let weights = [4, 2, 1, 1];
        for lengths in [[1514; 4], [60, 1514, 700, 64], [1514, 60, 60, 1000]] {
            let mut policy = DeficitRoundRobin::new(&weights);
            let (_, bytes) = saturated(&mut policy, &lengths, 400_000);
            let all: u64 = bytes.iter().sum();
            for (client, &weight) in weights.iter().enumerate() {
                let share = bytes[client] as f64 / all as f64;
                let due = f64::from(weight) / 8.0;
                assert!(
                    (share / due - 1.0).abs() < 0.001,
                    "{share} for {due}: {lengths:?}"
                );
            }
        }
    }

    #[test]
    fn a_client_that_pauses_collects_nothing() {
        let mut policy = DeficitRoundRobin::new(&[1, 1]);
        let mut backlog = Backlog::default();
        backlog.set(0, 1000);
        for _ in 0..100 {
            assert_eq!(policy.next(&backlog, 0), Turn::Send(0));
        }
        backlog.set(1, 1000);
        let mut sent = [0; 2];
        for _ in 0..100 {
            match policy.next(&backlog, 0) {
                Turn::Send(client) => sent[client] += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(sent[0] >= 49 && sent[1] >= 49, "{sent:?}");
    }
}
