//! Looking at what has arrived.
//!
//! ```text
//!   receive ─┬─ own work: chunks to send, replies
//!            ├─ hot lanes, in turn, each a share at a time
//!            ├─ news → lanes that hold something, in turn, each a share at a time
//!            └─ has a rank aborted?
//! ```
//!
//! A look that finds nothing reads one word per hot lane, the summary of the news and the abort
//! word: all of them in the reader's cache until somebody writes.

use weft_atomic::Ordering;
use weft_fabric::{Peer, Sink, SyncKey};

use crate::endpoint::Shm;
use crate::lane::{Found, Kind};
use crate::news::{self, Promotion};

/// So many messages are taken from one lane before the next has its turn.
const SHARE: usize = 16;

impl Shm {
    /// Whether a look would find nothing. Most looks of a waiter end here.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        let hot = &self.attention.hot_lanes();
        hot.iter().all(|&lane| self.lanes[lane as usize].is_empty())
            && !news::may_be(self.segment.control(self.me))
            && self.attention.waiting() == 0
            && !self.cold_first
            && !self.chunks.has_work()
            && self.helps.is_empty()
            && (self.segment.header().aborted.load(Ordering::Relaxed) == 0 || self.abort_said)
            && self.segment.header().changes.load(Ordering::Relaxed) == self.changes_seen
    }

    /// One look at everything; at most about `budget` items.
    // Apart from the look that finds nothing, which so need not save registers.
    #[inline(never)]
    pub(crate) fn receive(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut done = 0;
        if self.chunks.has_work() {
            done += self.advance();
        }
        if !self.helps.is_empty() {
            done += self.help();
        }
        if self.cold_first {
            done += self.receive_cold(sink, budget);
            self.cold_first = false;
        }
        done += self.receive_hot(sink, budget.saturating_sub(done));
        if done >= budget {
            self.cold_first = true;
        } else if self.attention.waiting() > 0 || news::may_be(self.segment.control(self.me)) {
            done += self.receive_cold(sink, budget - done);
        }
        let header = self.segment.header();
        if header.aborted.load(Ordering::Relaxed) != 0 && !self.abort_said {
            done += self.say_abort(sink);
        }
        if self.segment.header().changes.load(Ordering::Relaxed) != self.changes_seen {
            done += self.hear_of_the_dead(sink);
        }
        done
    }

    /// The lanes that are polled directly.
    #[inline]
    fn receive_hot(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let places = self.attention.hot();
        let mut done = 0;
        let mut idle = 0;
        // Round and round, until all were empty once or the budget is used up.
        while idle < places && done < budget {
            if self.turn >= places {
                self.turn = 0;
            }
            let place = self.turn;
            self.turn += 1;
            let share = SHARE.min(budget - done);
            let found = self.drain(self.attention.hot_lane(place), sink, share);
            if found > 0 {
                self.attention.hit(place);
                done += found;
            }
            idle = if found == share { 0 } else { idle + 1 };
        }
        done
    }

    /// The lanes that are in the news.
    #[cold]
    fn receive_cold(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let control = self.segment.control(self.me);
        if news::may_be(control) {
            let attention = &mut self.attention;
            news::take(control, self.lanes.len(), |lane| attention.note(lane));
        }
        let mut done = 0;
        while done < budget {
            let Some(lane) = self.attention.next() else {
                break;
            };
            let share = SHARE.min(budget - done);
            let found = self.drain(lane, sink, share);
            done += found;
            if found < share {
                self.attention.done(lane);
            }
            if found > 0 && !self.lanes[lane].hot {
                self.consider(lane);
            }
        }
        done
    }

    /// A lane that is not hot was productive: should it be?
    fn consider(&mut self, lane: usize) {
        match self.attention.cold_hit(lane) {
            Promotion::None => {}
            Promotion::Hot => self.lanes[lane].set_hot(true),
            Promotion::InPlaceOf(other) => {
                self.lanes[lane].set_hot(true);
                self.lanes[other].set_hot(false);
                self.bell.heavy_fence();
                // Its sender may have published without adding to the news: look once more.
                self.attention.note(other);
            }
        }
    }

    /// Hands out at most `share` messages of one lane.
    #[inline]
    pub(crate) fn drain(&mut self, from: usize, sink: &mut dyn Sink, share: usize) -> usize {
        let peer = Peer(from as u32);
        let mut done = 0;
        while done < share {
            let lane = &self.lanes[from];
            if lane.closed {
                break;
            }
            // SAFETY: `self` holds the segment, and the item is not used after `consume` below.
            let item = match unsafe { lane.peek() } {
                Found::Nothing => break,
                Found::Item(item) => item,
                Found::Malformed => {
                    self.lose(
                        peer,
                        "it wrote something into its lane that is no message",
                        sink,
                    );
                    break;
                }
            };
            let mark = item.mark();
            match item.kind {
                Kind::Message => sink.message(peer, &item.head, item.data),
                Kind::Signal => {
                    let [key, ..] = words(&item.head);
                    self.signals.arrive(peer, SyncKey(key));
                    sink.signalled(peer, SyncKey(key));
                }
                Kind::Help => self.receive_help(peer, &item),
                Kind::Get | Kind::Put | Kind::Chunk | Kind::End => {
                    self.receive_portal(peer, item, sink);
                }
            }
            done += 1;
            if self.lanes[from].consume(mark) {
                self.tell_room(peer);
            }
        }
        done
    }

    /// A peer is gone: says so once, ends its transfers, and closes its lanes.
    #[cold]
    pub(crate) fn lose(&mut self, peer: Peer, reason: &str, sink: &mut dyn Sink) {
        if self.gone.insert(peer.0, reason.to_owned()).is_some() {
            return;
        }
        self.lanes[peer.index()].closed = true;
        self.out[peer.index()].closed = true;
        self.drop_transfers(peer, reason, sink);
        sink.lost(peer, reason);
    }

    /// Says which rank has aborted.
    #[cold]
    fn say_abort(&mut self, sink: &mut dyn Sink) -> usize {
        self.abort_said = true;
        // SYNC job.abort.
        let aborted = self.segment.header().aborted.load(Ordering::Acquire);
        let rank = aborted.wrapping_sub(1);
        if rank >= self.segment.shape().ranks || rank == self.me {
            return 0;
        }
        let code = self
            .segment
            .control(rank)
            .identity
            .abort_code
            .load(Ordering::Relaxed);
        let reason = format!("it has aborted the job with code {code}");
        self.lose(Peer(rank), &reason, sink);
        1
    }
}

/// A head as four words.
pub(crate) fn words(head: &weft_fabric::Head) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(head.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// Four words as a head.
pub(crate) fn head(words: [u64; 4]) -> weft_fabric::Head {
    let mut head = [0; weft_fabric::HEAD];
    for (bytes, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_ne_bytes();
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Use};
    use weft_fabric::{
        Fabric, Head, Operation, Posted, Region, Result, Rights, SharedBytes, Token, Uses,
    };

    #[derive(Default)]
    struct Quiet {
        lost: usize,
    }

    impl Sink for Quiet {
        fn message(&mut self, _: Peer, _: &Head, data: SharedBytes<'_>) {
            let _ = data.to_vec();
        }
        fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
        fn lost(&mut self, _: Peer, _: &str) {
            self.lost += 1;
        }
        fn signalled(&mut self, _: Peer, _: SyncKey) {}
    }

    /// A peer that says anything at all about transfers can end its own connection and move bytes
    /// within what was granted to it, and nothing else.
    #[test]
    fn a_peer_may_say_what_it_wants() {
        const KINDS: [Kind; 7] = [
            Kind::Message,
            Kind::Signal,
            Kind::Get,
            Kind::Put,
            Kind::Chunk,
            Kind::End,
            Kind::Help,
        ];
        let options = Options {
            cross_memory: Use::Off,
            ..Options::default()
        };
        let mut state = 88_172_645_463_325_252u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut lost = 0;
        for _ in 0..300 {
            let mut group = Shm::group_with(2, &options).expect("two endpoints");
            let (mut victim, mut liar) = (group.remove(0), group.remove(0));
            let mut memory = vec![0u8; 3000];
            let edge = 1000..2000;
            // SAFETY: within `memory`, which outlives both endpoints and is read only at the end.
            let granted = unsafe { Region::new(memory.as_mut_ptr().add(edge.start), edge.len()) };
            let token = victim
                .grant(granted, None, Rights::ReadWrite, Uses::Many)
                .expect("a grant");
            // SAFETY: the part before it; the same holds.
            let own = unsafe { Region::new(memory.as_mut_ptr(), 500) };
            let asked = victim.get(Peer(1), Token(next()), 0, own, Operation(1));
            assert_eq!(asked, Ok(Posted::Pending));
            let mut sink = Quiet::default();
            for _ in 0..60 {
                let kind = KINDS[next() as usize % KINDS.len()];
                let mut word = |usual: u64| match next() % 4 {
                    0 => next(),
                    1 => next() % 2000,
                    _ => usual,
                };
                let words = match kind {
                    Kind::Get | Kind::Put | Kind::Help => {
                        [word(0), word(token.0), word(100), word(900)]
                    }
                    _ => [word(0), word(0), word(1), word(0)],
                };
                let data = vec![255; [0, 8, 88, 500, 900, 4000][next() as usize % 6]];
                liar.out[0].push(kind, &head(words), SharedBytes::of(&data));
                liar.tell(Peer(0));
                victim.poll(&mut sink, 4);
            }
            lost += sink.lost;
            assert!(sink.lost <= 1, "said once");
            drop(victim);
            assert!(memory[500..edge.start].iter().all(|&byte| byte == 0));
            assert!(memory[edge.end..].iter().all(|&byte| byte == 0));
        }
        assert!(lost > 0, "some of it is found out");
    }
}
