//! The one who calls: all addresses of a peer at once, again after pauses, until the set time is over.

use std::io;

use weft_secure::{Refusal, Source};
use weft_sys::socket::is_exhausted;

use super::{Candidate, Stage};
use crate::endpoint::Tcp;
use crate::network::{Network, Poller};
use crate::session::Dialing;

/// Pauses between attempts to reach a peer, in nanoseconds.
const PAUSES: (u64, u64) = (20_000_000, 400_000_000);

/// After which time a call that nobody answers is made anew, in nanoseconds.
const STALE: u64 = 1_000_000_000;

impl<N: Network> Tcp<N> {
    /// Begins to reach a peer: for the first time, or again since the connection broke.
    pub(crate) fn dial(&mut self, peer: u32, broken: Option<String>) {
        let now = self.network.now();
        let limit = if broken.is_some() {
            self.config.patience
        } else {
            self.config.connect
        };
        if let Some(session) = &mut self.sessions[peer as usize] {
            session.dialing = Some(Dialing {
                since: now,
                until: self.network.after(limit),
                looked: now,
                next: now,
                pause: PAUSES.0,
                failures: Vec::new(),
                broken,
            });
        }
        if !self.dialing.contains(&peer) {
            self.dialing.push(peer);
        }
        self.call(peer);
        self.set_due();
    }

    /// Calls all addresses of a peer, but those where a call is under way.
    pub(super) fn call(&mut self, peer: u32) {
        let busy: Vec<usize> = self
            .candidates
            .all
            .iter()
            .flatten()
            .filter(|one| one.peer == Some(peer))
            .filter_map(|one| one.offer)
            .collect();
        let offers = self.cards[peer as usize].offers.clone();
        for (index, offer) in offers.iter().enumerate() {
            if busy.contains(&index) {
                continue;
            }
            let place = format!("{} ({})", offer.address, offer.interface);
            let mut called = self.network.connect(&offer.address, self.config.patience);
            // No stranger has a descriptor that a member needs.
            if let Err(error) = &called
                && is_exhausted(weft_sys::error::errno(error).unwrap_or(0))
                && self.make_room()
            {
                called = self.network.connect(&offer.address, self.config.patience);
            }
            let socket = match called {
                Ok(socket) => socket,
                Err(error) => {
                    self.failed(peer, index, place, &error);
                    continue;
                }
            };
            let number = self.candidates.add(Candidate {
                peer: Some(peer),
                offer: Some(index),
                source: Source::LOCAL,
                generation: 0,
                stage: Stage::Connecting(socket),
                since: self.network.now(),
                until: u64::MAX,
                place,
            });
            self.watch_candidate(number, true);
        }
    }

    /// Keeps why an address of a peer did not work, for the case that none does.
    pub(super) fn note_failure(&mut self, peer: u32, offer: usize, text: String, refused: bool) {
        let session = self.sessions[peer as usize].as_mut();
        if let Some(dialing) = session.and_then(|session| session.dialing.as_mut()) {
            dialing.failures.retain(|(other, ..)| *other != offer);
            dialing.failures.push((offer, text, refused));
        }
    }

    /// An address of a peer did not work, this time.
    pub(super) fn failed(&mut self, peer: u32, offer: usize, place: String, error: &io::Error) {
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        let text = format!("{place}: {error}");
        self.note_failure(peer, offer, text, refused);
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        let Some(dialing) = &mut session.dialing else {
            return;
        };
        // Where it has listened nobody listens any more: its process is gone. Elsewhere a refusal means
        // that only if all refuse: the address may also be one of our own.
        let offers = self.cards[peer as usize].offers.len();
        let gone = match session.agreed {
            Some(agreed) => agreed == offer && refused,
            None => {
                dialing.failures.len() == offers
                    && dialing.failures.iter().all(|(.., refused)| *refused)
            }
        };
        if gone {
            let reason = match &dialing.broken {
                Some(broken) => format!(
                    "its process on host {} has ended ({broken}; then {place}: connection refused)",
                    self.cards[peer as usize].host
                ),
                None => self.unreachable(peer),
            };
            self.give_up(peer, &reason);
        }
    }

    /// What was tried, as a sentence.
    pub(super) fn unreachable(&self, peer: u32) -> String {
        let card = &self.cards[peer as usize];
        let mut text = format!(
            "rank {peer} on host {} cannot be reached from rank {} on host {}",
            card.host, self.config.me, self.host
        );
        let dialing = self.sessions[peer as usize]
            .as_ref()
            .and_then(|session| session.dialing.as_ref());
        if let Some(dialing) = dialing {
            if let Some(broken) = &dialing.broken {
                text += &format!(" any more ({broken})");
            }
            let waited = (self.network.now() - dialing.since) as f64 / 1e9;
            text += &format!(", tried for {waited:.1} s");
            for (index, offer) in card.offers.iter().enumerate() {
                let failure = dialing.failures.iter().find(|(other, ..)| *other == index);
                match failure {
                    Some((_, failure, _)) => text += &format!("; {failure}"),
                    None => {
                        text += &format!("; {} ({}): no answer", offer.address, offer.interface);
                    }
                }
            }
        }
        if card.offers.is_empty() {
            text += "; it has no address that others could use";
        }
        text + "; check that the hosts reach each other there (ping, firewall)"
    }

    /// Attempts to reach the peer have come to their end.
    pub(super) fn give_up(&mut self, peer: u32, reason: &str) {
        for number in self.candidates.numbers(|one| one.peer == Some(peer)) {
            self.candidates.remove(number);
        }
        match &self.sessions[peer as usize] {
            Some(session) if session.goodbye_received => self.leave(peer),
            _ => self.mark_lost(peer, reason.to_owned()),
        }
    }

    /// Attends to what happens by time: attempts that are due, patience that ends.
    pub(crate) fn tick(&mut self) {
        let now = self.network.now();
        if now < self.candidates.due {
            return;
        }
        self.listen_again(now);
        for number in self.candidates.numbers(|one| one.until <= now) {
            if let Some(candidate) = self.candidates.remove(number)
                && candidate.offer.is_none()
            {
                self.refusals.count(Refusal::Slow);
            }
        }
        for peer in self.dialing.clone() {
            let Some(session) = &mut self.sessions[peer as usize] else {
                continue;
            };
            let Some(dialing) = &mut session.dialing else {
                continue;
            };
            let away = now - dialing.looked;
            dialing.looked = now;
            if away > 2 * PAUSES.1 {
                dialing.until = dialing.until.saturating_add(away);
            }
            // Somebody is there and has not proved the key: a peer that computes answers later. While its
            // kernel answers for it, patience has no end; as somebody else may answer at one address, the
            // others are called again.
            if now >= dialing.until {
                let answers = |one: &Candidate<N::Stream>| {
                    one.peer == Some(peer) && !matches!(one.stage, Stage::Connecting(_))
                };
                if session.link.is_none() && self.candidates.numbers(answers).is_empty() {
                    let reason = self.unreachable(peer);
                    self.give_up(peer, &reason);
                    self.progressed += 1;
                    continue;
                }
            }
            if now >= dialing.next {
                dialing.next = now + dialing.pause;
                dialing.pause = (dialing.pause * 2).min(PAUSES.1);
                let taken = session.link.is_some();
                // A call into nowhere is made anew after a while: the kernel's own repetitions become
                // rare.
                for number in self.candidates.numbers(|one| {
                    one.peer == Some(peer)
                        && matches!(one.stage, Stage::Connecting(_))
                        && now > one.since + STALE
                }) {
                    self.candidates.remove(number);
                }
                let waits = |one: &Candidate<N::Stream>| {
                    one.peer == Some(peer) && matches!(one.stage, Stage::Waiting(_))
                };
                if taken || !self.candidates.numbers(waits).is_empty() {
                    continue;
                }
                self.call(peer);
            }
        }
        self.set_due();
    }

    /// Tells the bell when the next [`Self::tick`] is due.
    pub(crate) fn set_due(&mut self) {
        let sessions = &self.sessions;
        self.dialing.retain(
            |peer| matches!(&sessions[*peer as usize], Some(session) if session.dialing.is_some()),
        );
        let now = self.network.now();
        let dialing = self.dialing.iter().filter_map(|peer| {
            let dialing = self.sessions[*peer as usize].as_ref()?.dialing.as_ref()?;
            // Once patience has ended it has no end while the peer's kernel answers.
            let end = if dialing.until > now {
                dialing.until
            } else {
                now + PAUSES.1
            };
            Some(dialing.next.min(end))
        });
        let candidates = self.candidates.all.iter().flatten().map(|one| one.until);
        let rest = self.candidates.rests_until;
        let due = dialing.chain(candidates).chain(rest).min();
        let due = due.unwrap_or(u64::MAX);
        self.candidates.due = due;
        self.bell.set_due(due);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What cannot work is an error within five seconds: the last look comes a pause after the set time.
    #[test]
    fn patience_with_a_first_call_ends_in_time() {
        let config = crate::Config::new(0, 2, weft_secure::Key::from_bytes([0; 32]));
        let last = config.connect + Duration::from_nanos(PAUSES.1);
        assert!(last < Duration::from_secs(5), "{last:?}");
    }
}
