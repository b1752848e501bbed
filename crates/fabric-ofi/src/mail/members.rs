//! Members as the mail knows them: which are out of reach, and the cards of those that were started later.

use weft_fabric::Peer;

use super::Mail;
use crate::card::Card;

impl Mail {
    /// A peer is out of reach. One that has said goodbye is no loss.
    #[cold]
    pub fn lose(&mut self, peer: u32, reason: String) {
        if let Some(link) = self.link(peer) {
            link.answers.clear();
            link.goodbye_wanted = false;
            let is_over = link.is_over;
            for (slot, _) in std::mem::take(&mut link.waiting) {
                self.held.release(slot);
            }
            if is_over {
                let left = "it has left the job and takes no more messages";
                let _ = self.members.lose(Peer(peer), left);
                return;
            }
        }
        if self.members.lose(Peer(peer), reason.clone()) {
            self.losses.push((peer, reason));
        }
    }

    /// Sets the card of a peer that was started later.
    pub fn introduce(&mut self, peer: u32, card: Card) {
        if peer != self.me {
            self.passes.set(peer, Some(card));
        }
    }

    /// Another process has the number of a peer, and this card: nothing is shared with it yet.
    #[cold]
    pub fn succeed(&mut self, peer: u32, card: Option<Card>) {
        if let Some(link) = self.links.get_mut(peer as usize).and_then(Option::take) {
            for (slot, _) in link.waiting {
                self.held.release(slot);
            }
        }
        // What the provider still has for the old process remains in their buffers.
        self.held.give_up(peer);
        self.begun.retain(|other| *other != peer);
        self.listed.retain(|other| *other != peer);
        self.members.find_again(Peer(peer));
        self.passes.set(peer, card);
    }

    /// Whether there are losses that were not reported yet.
    #[inline]
    pub fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Losses that were not reported yet.
    pub fn take_losses(&mut self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.losses)
    }
}
