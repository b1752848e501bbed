//! Selection: which of the connections of a pair its decider (the lower rank) takes.
//!
//! In its hello each side says which connection of the pair it last used, by its *generation*: 1 for the first.
//! If a peer calls a decider that has a live connection, and says that it has used this very one, the peer has
//! lost it, and the decider takes the new one. A peer that has not used it yet is about to, and its other calls
//! are spares.

use super::candidates::Candidates;

/// The connection that the decider has already.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    /// The connection that it last used; 0: none yet.
    pub generation: u32,
    /// There is one, agreed or not.
    pub connected: bool,
    /// Both sides have agreed on it.
    pub live: bool,
}

impl Present {
    /// Whether to take a connection on which the peer said that it last used connection `said`.
    fn takes(self, said: u32) -> bool {
        // The peer has used the connection that we believe in, and calls again: that connection is lost.
        !self.connected || self.live && said >= self.generation
    }
}

/// The number of the connection to a peer that its decider takes: if it needs one, and one waits whose other
/// side has said which it last used.
pub fn choose<S>(candidates: &Candidates<S>, peer: u32, present: Present) -> Option<u32> {
    let takes = |said: Option<u32>| said.is_some_and(|said| present.takes(said));
    let ready = candidates.numbers(|one| one.waits_for(peer) && takes(one.call.generation));
    ready.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_connection_is_taken_only_by_who_has_none_or_has_lost_it() {
        let present = |connected, live| Present {
            generation: 3,
            connected,
            live,
        };
        assert!(present(false, false).takes(0), "there is none");
        assert!(present(true, true).takes(3), "the peer has lost it");
        assert!(!present(true, true).takes(2), "a spare");
        assert!(
            !present(true, false).takes(3),
            "the peer is about to answer"
        );
    }
}
