//! Addresses of all ranks, and sentences about a rank that cannot be reached there.

use weft_sys::descriptor;

use super::dial::Dial;
use crate::card::{Card, Offer};

/// Where ranks can be reached.
pub struct Addresses {
    me: u32,
    /// The host of this rank, for people.
    host: String,
    /// By rank.
    cards: Vec<Card>,
}

impl Addresses {
    /// The addresses that the launcher has told this rank, which is on this host.
    pub fn new(me: u32, host: String, cards: Vec<Card>) -> Self {
        Self { me, host, cards }
    }

    /// Another process has this rank.
    pub fn set(&mut self, rank: u32, card: Card) {
        if let Some(place) = self.cards.get_mut(rank as usize) {
            *place = card;
        }
    }

    /// Where a rank can be reached.
    pub fn of(&self, rank: u32) -> &[Offer] {
        &self.cards[rank as usize].offers
    }

    /// Where this rank can be reached.
    pub fn own(&self) -> &[Offer] {
        self.of(self.me)
    }

    /// The attempts that were made, and the reason why the rank is given up.
    pub fn unreachable(&self, rank: u32, dial: Option<&Dial>, now: u64) -> String {
        let card = &self.cards[rank as usize];
        let mut text = format!(
            "rank {rank} on host {} cannot be reached from rank {} on host {}",
            card.host, self.me, self.host
        );
        if let Some(dial) = dial {
            if let Some(broken) = dial.broken() {
                text += &format!(" any more ({broken})");
            }
            let waited = dial.lasts(now) as f64 / 1e9;
            text += &format!(", tried for {waited:.1} s");
            for (index, offer) in card.offers.iter().enumerate() {
                match dial.failure(index) {
                    Some(failure) => text += &format!("; {failure}"),
                    None => {
                        text += &format!("; {} ({}): no answer", offer.address, offer.interface);
                    }
                }
            }
        }
        if card.offers.is_empty() {
            text += "; it has no address that others could use";
        }
        if dial.is_some_and(Dial::lacks_descriptors) {
            return format!("{text}; {}", no_descriptors(self.me));
        }
        text + "; check that the hosts reach each other there (ping, firewall), and that both processes have descriptors left (ulimit -n)"
    }

    /// Nobody listens any more where the rank was reached, after its connection broke.
    pub fn ended(&self, rank: u32, broken: &str, address: &str) -> String {
        format!(
            "its process on host {} has ended ({broken}; then {address}: connection refused)",
            self.cards[rank as usize].host
        )
    }

    /// The peer's host has answered nothing for `seconds`, which the system reported as `what`.
    pub fn silent(&self, rank: u32, seconds: u64, what: &str) -> String {
        let host = &self.cards[rank as usize].host;
        format!("host {host} has not answered for {seconds} s ({what})")
    }
}

/// A sentence: a rank can make no connection, and what to do.
fn no_descriptors(rank: u32) -> String {
    let limit = descriptor::limit().map_or_else(String::new, |limit| format!(" of {limit}"));
    format!(
        "rank {rank} has no descriptor left for that connection: a process may have no more than its limit{limit}, and takes one for \
         each rank that it talks to by TCP; raise the limit (ulimit -n)"
    )
}
