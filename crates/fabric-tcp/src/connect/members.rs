//! Members of the job, as this rank knows them: which process each is, where it can be reached, and whether it is lost.
//!
//! *Invariant:* the addresses of a member are those of the process that this rank has last seen as it.

use super::addresses::Addresses;
use crate::card::Card;
use crate::directory::{Directory, Incarnations, News};

/// The members of the job.
pub struct Members {
    me: u32,
    count: u32,
    addresses: Addresses,
    incarnations: Incarnations,
}

impl Members {
    /// The members, of which this rank is `me`, on this host. `cards` are by rank, for members that are not in the directory.
    pub fn new(
        (me, count): (u32, u32),
        host: String,
        cards: Vec<Card>,
        directory: Option<Box<dyn Directory>>,
    ) -> Self {
        let mut members = Self {
            me,
            count,
            addresses: Addresses::new(me, host, cards),
            incarnations: Incarnations::new(count, directory),
        };
        for peer in members.others() {
            members.read_card(peer);
        }
        members
    }

    /// All members but this rank.
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.me;
        (0..self.count).filter(move |peer| *peer != me)
    }

    /// Where members can be reached.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The incarnation of a member that this rank has last seen.
    pub fn incarnation(&self, peer: u32) -> u32 {
        self.incarnations.of(peer)
    }

    /// The incarnation of a member that the directory has now.
    pub fn recorded_incarnation(&self, peer: u32) -> u32 {
        self.incarnations.recorded(peer)
    }

    /// Whether the directory has news of members.
    #[inline]
    pub fn are_stale(&self) -> bool {
        self.incarnations.are_stale()
    }

    /// What the directory has now and is not known here.
    pub fn news(&self) -> News {
        self.incarnations.news()
    }

    /// This is known from now on; returns the others whose number another process has.
    pub fn learn(&mut self, news: &News) -> Vec<u32> {
        self.incarnations.learn(news);
        let me = self.me;
        let changed: Vec<u32> = news.succeeded().filter(|peer| *peer != me).collect();
        for &peer in &changed {
            self.read_card(peer);
        }
        changed
    }

    /// How the process of a member was lost, as the directory knows it.
    pub fn loss(&self, peer: u32) -> Option<String> {
        self.incarnations.loss(peer)
    }

    /// Whether a member has ended in order, as the directory knows it.
    pub fn has_left(&self, peer: u32) -> bool {
        self.incarnations.has_left(peer)
    }

    /// Whether the directory tells how each process has ended that is lost.
    pub fn are_ends_told(&self) -> bool {
        self.incarnations.are_ends_told()
    }

    /// Whether a member is on this host, as the directory knows it.
    pub fn is_here(&self, peer: u32) -> bool {
        self.incarnations.is_here(peer)
    }

    fn read_card(&mut self, peer: u32) {
        if let Some(card) = self.incarnations.card(peer) {
            self.addresses.set(peer, card);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::Offer;
    use std::sync::{Arc, Mutex};

    fn card(port: u16) -> Card {
        Card {
            host: "a".into(),
            offers: vec![Offer {
                address: ([127, 0, 0, 1], port).into(),
                interface: "lo".into(),
            }],
        }
    }

    /// Tells of member 1: its incarnation, which is the version, too.
    struct Scripted(Arc<Mutex<u32>>);

    impl Directory for Scripted {
        fn version(&self) -> u32 {
            *self.0.lock().expect("no panic")
        }

        fn incarnation(&self, peer: u32) -> u32 {
            if peer == 1 { self.version() } else { 0 }
        }

        fn card(&self, peer: u32) -> Option<Card> {
            (peer == 1).then(|| card(100 + self.version() as u16))
        }

        fn loss(&self, _: u32, _: u32) -> Option<String> {
            None
        }

        fn has_left(&self, _: u32, _: u32) -> bool {
            false
        }

        fn tells_ends(&self) -> bool {
            false
        }

        fn is_here(&self, _: u32) -> bool {
            false
        }
    }

    #[test]
    fn addresses_are_those_of_the_process_that_was_seen() {
        let version = Arc::new(Mutex::new(0));
        let directory = Box::new(Scripted(version.clone()));
        let cards = (0..3).map(card).collect();
        let mut members = Members::new((0, 3), "a".into(), cards, Some(directory));
        assert_eq!(members.others().collect::<Vec<_>>(), [1, 2]);
        let port = |members: &Members, peer| members.addresses().of(peer)[0].address.port();
        assert_eq!(port(&members, 1), 1, "it was there from the start");
        *version.lock().expect("no panic") = 2;
        assert!(members.are_stale());
        assert_eq!(
            (members.incarnation(1), members.recorded_incarnation(1)),
            (0, 2)
        );
        assert_eq!(port(&members, 1), 1, "its successor was not seen");
        let news = members.news();
        assert_eq!(members.learn(&news), [1]);
        assert_eq!((port(&members, 1), port(&members, 2)), (102, 2));
        assert!(!members.are_stale() && members.news().succeeded().next().is_none());
    }
}
