//! Passes: they distinguish messages of the job from others. A pass is made of the job's key, both ranks, and the numbers that
//! both endpoints have drawn. So a process is not mistaken, on either side, for another one that had its rank.

use weft_secure::{Key, pass};

use crate::card::Card;

/// The purpose of the passes of this fabric.
const PURPOSE: &str = "weft message over libfabric";

/// The data from which passes are made.
pub struct Passes {
    me: u32,
    key: Key,
    cards: Vec<Option<Card>>,
}

impl Passes {
    /// The passes of rank `me`, for ranks with these cards.
    pub fn new(me: u32, key: Key, cards: Vec<Option<Card>>) -> Self {
        Self { me, key, cards }
    }

    /// The card of a peer, if it has published one.
    pub fn card(&self, peer: u32) -> Option<&Card> {
        self.cards.get(peer as usize)?.as_ref()
    }

    /// Sets the card of a peer.
    pub fn set(&mut self, peer: u32, card: Option<Card>) {
        if let Some(known) = self.cards.get_mut(peer as usize) {
            *known = card;
        }
    }

    /// The pass of messages to a peer, if it has published its card.
    pub fn to(&self, peer: u32) -> Option<u64> {
        let numbers = self.numbers(peer)?;
        Some(pass(&self.key, PURPOSE, (self.me, peer), numbers))
    }

    /// The pass of messages from a peer to this endpoint, if it has published its card.
    pub fn of(&self, from: u32) -> Option<u64> {
        let numbers = self.numbers(from)?;
        Some(pass(&self.key, PURPOSE, (from, self.me), numbers))
    }

    /// Both drawn numbers in one value: it changes if either of them does.
    fn numbers(&self, peer: u32) -> Option<u64> {
        let both = (self.card(self.me)?, self.card(peer)?);
        Some(both.0.number ^ both.1.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let card = |number| {
            Some(Card {
                provider: "tcp".into(),
                address: vec![1],
                number,
            })
        };
        let key = Key::random().expect("random bytes");
        let both = [0, 1].map(|me| Passes::new(me, key.clone(), vec![card(5), card(6)]));
        let written = both[0].to(1);
        assert!(written.is_some());
        assert_eq!(written, both[1].of(0));
        assert_ne!(written, both[0].of(1), "each direction has its own");
        assert_eq!((both[0].to(2), both[0].of(2)), (None, None));
    }

    #[test]
    fn a_process_is_told_from_the_one_before_that_had_its_rank() {
        let card = |number| {
            Some(Card {
                provider: "tcp".into(),
                address: vec![1],
                number,
            })
        };
        let mut passes = Passes::new(
            0,
            Key::random().expect("random bytes"),
            vec![card(5), card(6)],
        );
        let before = (passes.to(1), passes.of(1));
        passes.set(1, card(7));
        assert_ne!(passes.to(1), before.0);
        assert_ne!(passes.of(1), before.1);
        passes.set(1, None);
        assert_eq!((passes.to(1), passes.of(1)), (None, None));
    }
}
