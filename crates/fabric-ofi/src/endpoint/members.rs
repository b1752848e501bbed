//! Members of the endpoint: which are lost, and which numbers have a new process.

use weft_fabric::{FabricError, Peer, Sink};

use super::Ofi;
use crate::liveness::PeerChange;

impl Ofi {
    /// Takes losses and changes of peers from the TCP endpoint beside this one. Not while peers' requests wait for the other
    /// fabric, whose answers are for the processes that have asked.
    #[inline]
    pub(super) fn look_at_liveness(&mut self, sink: &mut dyn Sink) -> usize {
        match &mut self.liveness {
            Some(liveness) if !self.portal.has_deferred() => {
                let news = liveness.look(&mut self.mail, &self.bell);
                if news.is_empty() {
                    0
                } else {
                    self.hear(news, sink)
                }
            }
            _ => 0,
        }
    }

    /// Reads the directory anew.
    #[cold]
    pub(super) fn renew(&mut self, sink: &mut dyn Sink) -> usize {
        if self.portal.has_deferred() {
            return 0;
        }
        // Before the look at the TCP endpoint, so that this one knows the version read here, or a later one.
        self.later.renew();
        match &mut self.liveness {
            None => 0,
            // A thread that wanted to send in between was told to retry: something has changed.
            Some(liveness) => {
                let news = liveness.look_now(&mut self.mail);
                1 + self.hear(news, sink)
            }
        }
    }

    #[cold]
    fn hear(&mut self, news: Vec<PeerChange>, sink: &mut dyn Sink) -> usize {
        let mut found = news.len();
        for one in news {
            match one {
                PeerChange::Lost(peer, reason) => self.mail.lose(peer, reason),
                PeerChange::Replaced(peer) => found += self.succeed(peer, sink),
            }
        }
        found
    }

    /// Another process has the number of a peer: what was under way with the process before ends.
    fn succeed(&mut self, peer: u32, sink: &mut dyn Sink) -> usize {
        let mut found = self.report(sink);
        let ended = "its process has ended, and another one has its number";
        found += self.end_transfers(peer, ended, sink);
        let begun = self.mail.begun().iter().position(|other| *other == peer);
        if let (Some(begun), Some(liveness)) = (begun, &mut self.liveness) {
            liveness.unwatch(begun);
        }
        self.mail.succeed(peer, self.later.card(peer));
        self.signals.forget_peer(Peer(peer));
        sink.replaced(Peer(peer));
        found
    }

    /// Ends the transfers of both sides with a peer that is gone. Returns how many of ours ended.
    fn end_transfers(&mut self, peer: u32, reason: &str, sink: &mut dyn Sink) -> usize {
        self.serving.forget(peer);
        let ended = self.asked.remove_of(peer);
        for operation in &ended {
            let error = FabricError::PeerLost {
                peer: Peer(peer),
                reason: reason.to_owned(),
            };
            sink.transfer_completed(*operation, Err(error));
        }
        ended.len()
    }

    /// Reports losses, and ends what waited for the lost peers.
    #[inline]
    pub(super) fn report(&mut self, sink: &mut dyn Sink) -> usize {
        match self.mail.has_losses() {
            true => self.report_losses(sink),
            false => 0,
        }
    }

    #[cold]
    fn report_losses(&mut self, sink: &mut dyn Sink) -> usize {
        let losses = self.mail.take_losses();
        let mut found = losses.len();
        for (peer, reason) in losses {
            found += self.end_transfers(peer, &reason, sink);
            sink.lost(Peer(peer), &reason);
        }
        found
    }
}
