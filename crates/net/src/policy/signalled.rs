//! Signalled order: first come, first served, queue by queue.

use super::{Backlog, CLIENTS, Policy, Turn};

/// Clients in the order in which they became backlogged; each keeps its turn until its queue is empty.
///
/// Cheapest, and fair only among clients that pause.
#[derive(Default)]
pub struct Signalled {
    /// The waiting clients, oldest first; never twice, so never more than [`CLIENTS`].
    waiting: std::collections::VecDeque<usize>,
    /// Bit `i`: `i` is in `waiting`.
    known: u64,
}

impl Policy for Signalled {
    fn next(&mut self, backlog: &Backlog, _now: u64) -> Turn {
        let mut fresh = backlog.mask() & !self.known;
        while fresh != 0 {
            let client = fresh.trailing_zeros() as usize;
            fresh &= fresh - 1;
            self.known |= 1 << client;
            self.waiting.push_back(client);
            debug_assert!(self.waiting.len() <= CLIENTS);
        }
        while let Some(&client) = self.waiting.front() {
            if backlog.has(client) {
                return Turn::Send(client);
            }
            self.waiting.pop_front();
            self.known &= !(1 << client);
        }
        Turn::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_until_empty() {
        let mut policy = Signalled::default();
        let mut backlog = Backlog::default();
        backlog.set(2, 60);
        assert_eq!(policy.next(&backlog, 0), Turn::Send(2));
        backlog.set(0, 60);
        for _ in 0..10 {
            assert_eq!(policy.next(&backlog, 0), Turn::Send(2));
        }
        backlog.clear(2);
        assert_eq!(policy.next(&backlog, 0), Turn::Send(0));
        backlog.set(2, 60);
        assert_eq!(policy.next(&backlog, 0), Turn::Send(0));
        backlog.clear(0);
        assert_eq!(policy.next(&backlog, 0), Turn::Send(2));
    }
}
