//! Passes: by which messages of the job are told from others; of the job's key, both ranks, and what each has drawn.

use weft_secure::{Key, pass};

use crate::card::Card;

/// For what the passes of this fabric are.
const PURPOSE: &str = "weft message over libfabric";

/// What passes are made of.
pub struct Passes {
    me: u32,
    key: Key,
    cards: Vec<Option<Card>>,
}

impl Passes {
    /// Those of rank `me`, where the ranks have these cards.
    pub fn new(me: u32, key: Key, cards: Vec<Option<Card>>) -> Self {
        Self { me, key, cards }
    }

    /// Where a peer is reached, if it has said so.
    pub fn card(&self, peer: u32) -> Option<&Card> {
        self.cards.get(peer as usize)?.as_ref()
    }

    /// The pass of messages to the peer with this card.
    pub fn to(&self, peer: u32, card: &Card) -> u64 {
        pass(&self.key, PURPOSE, (self.me, peer), card.number)
    }

    /// The pass of messages of a peer to this endpoint.
    pub fn of(&self, from: u32) -> u64 {
        let number = self.card(self.me).map_or(0, |card| card.number);
        pass(&self.key, PURPOSE, (from, self.me), number)
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
        let written = both[0].to(1, both[0].card(1).expect("known"));
        assert_eq!(written, both[1].of(0));
        assert_ne!(written, both[0].of(1), "each direction has its own");
        assert!(both[0].card(2).is_none());
    }
}
