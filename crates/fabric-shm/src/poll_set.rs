//! Poll set of a receiver: the few inbound lanes that are *hot* and polled directly, and the *pending* ones, whose
//! senders have announced messages by a bit in the receiver's control block.
//!
//! ```text
//!   sender                                 receiver
//!   publish the slot                       looks at the word of the next slot of each hot lane (≤ 4)
//!   fence                                  looks at the summary of its pending lanes
//!   lane hot?   nothing to do              something there: takes the bits, drains those lanes
//!   not hot:    add my bit to the pending
//!   doorbell announced? ring
//! ```
//!
//! So the cost of a poll grows neither with the number of ranks nor with that of idle peers. A message on a hot lane
//! costs its sender no atomic read-modify-write and, if the receiver can fence other cores, no fence: it writes one slot
//! and reads two lines that stay in its cache.
//!
//! # Why nothing is missed
//! *Hot.* While a lane is hot each poll of the receiver includes it. Becoming hot needs no care: an unnecessary bit is
//! harmless. Becoming cold does: the receiver stores `hot = 0`, fences heavily, and polls the lane once more; the sender
//! publishes, fences lightly and loads `hot`. By the argument in [`weft_atomic::fence`](mod@weft_atomic::fence) either
//! the poll finds the slot or the load finds 0
//! and the bit is added.
//!
//! *Cold.* The sender publishes, fences fully and loads its bit; only if that is not set does it add it. A bit that it
//! finds set is its own, which the receiver has not taken yet (each bit is added by one sender only). The receiver takes
//! bits by an atomic exchange, fully fenced, and then polls the lanes: so it finds what was published before the load
//! that found the bit set. SYNC pending.add: adding releases the slot, taking acquires it, by [`Bits`].
//!
//! *Killed.* If a sender is killed between setting the bit and its summary, the lanes of its word are not polled. The
//! reporter of a death marks the summary: [`mark_all`].
//!
//! *Asleep.* The doorbell is loaded after all of that; a sleeper announces, fences heavily, then polls hot and pending
//! lanes. The same argument applies.
//!
//! # Which fences
//! A sender may fence lightly towards a receiver that fences heavily through the kernel. That is agreed for each pair,
//! with no moment at which all must decide: a sender does so only if it has registered itself, and only after it has seen
//! `fences` set in the receiver's block, which the receiver sets before it first sleeps or demotes and never clears. In
//! all other cases the sender fences fully, which is enough towards a receiver of either kind, because the kernel's heavy
//! fence is also a full fence for its caller.
//!
//! That is so in a crowd as well. A receiver that sleeps often there has its [doorbell](mod@weft_atomic::doorbell) say that
//! whoever finds its lane hot has to fence and look again, and need not ask the kernel before each sleep: `who_fences.rs`. Becoming cold
//! is rare, and always asks the kernel.

use weft_atomic::bits::{Bits, summaries_for, words_for};
use weft_atomic::{AtomicU64, FenceMode, Ordering};

use crate::layout::Control;

/// The pending lanes of the receiver of `control`, of so many.
fn pending(control: &Control, lanes: usize) -> Option<Bits<'_>> {
    let words = control.pending_words.get(..words_for(lanes))?;
    let summaries = control.pending_summary.get(..summaries_for(lanes))?;
    Bits::over(summaries, words, lanes)
}

/// The sender: adds its lane, the one from `me`, to the pending ones of the receiver of `control`, for a packet just
/// published. Must follow a full fence. Afterwards the doorbell may be loaded.
#[cold]
pub(crate) fn announce(control: &Control, lanes: usize, me: usize) {
    let there = control
        .pending_words
        .get(me / 64)
        .is_some_and(|word: &AtomicU64| word.load(Ordering::Relaxed) >> (me % 64) & 1 != 0);
    if there {
        return;
    }
    if let Some(bits) = pending(control, lanes) {
        bits.set(me);
        FenceMode::Symmetric.light_after_exchange();
    }
}

/// The launcher, after a death: the dead may have added its lane to the pending ones without having marked the
/// summary, and so have kept all of its word from being looked at. The next look takes whatever is there.
#[cold]
pub(crate) fn mark_all(control: &Control, lanes: usize) {
    if let Some(bits) = pending(control, lanes) {
        bits.mark_all();
    }
}

/// Most lanes that are polled directly.
const HOT: usize = if cfg!(fault_points) { 1 } else { 4 };

/// After so many visits of cold lanes that found something, the hot lanes must have earned their
/// place. A change costs a heavy fence (microseconds), so it must be rare.
const PERIOD: u32 = if cfg!(fault_points) { 3 } else { 256 };

/// A hot lane keeps its place if it was productive at least so often in a period.
const EARNED: u32 = if cfg!(fault_points) { 2 } else { 16 };

/// Poll set of a receiver: its hot lanes, and the lanes known to hold something. The first `length` of `hot` are the
/// hot ones; `waiting` is the number of bits of `pending`.
#[derive(Debug)]
pub(crate) struct PollSet {
    hot: [u32; HOT],
    hits: [u32; HOT],
    length: usize,
    cold_hits: u32,
    /// Lanes that were announced and are not drained yet.
    pending: Vec<u64>,
    waiting: usize,
    cursor: usize,
}

/// Change of a cold lane that was productive.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promotion {
    /// It stays cold.
    None,
    /// It becomes hot.
    Hot,
    /// It becomes hot in place of this one.
    InPlaceOf(usize),
}

impl PollSet {
    /// For so many lanes, none of which is hot.
    pub fn new(lanes: usize) -> Self {
        Self {
            hot: [0; HOT],
            hits: [0; HOT],
            length: 0,
            cold_hits: 0,
            pending: vec![0; lanes.div_ceil(64)],
            waiting: 0,
            cursor: 0,
        }
    }

    /// Whether there may be announced lanes in the control block of this receiver.
    #[inline]
    pub fn may_be_announced(control: &Control) -> bool {
        control.pending_summary[0].load(Ordering::Relaxed) != 0
    }

    /// Takes all announced lanes, of so many, from the control block of this receiver. Lanes may be looked at after it.
    pub fn take_announced(&mut self, control: &Control, lanes: usize) {
        if let Some(bits) = pending(control, lanes) {
            bits.take_all(|lane| self.note(lane));
            FenceMode::Symmetric.light_after_exchange();
        }
    }

    /// How many lanes are hot.
    #[inline]
    pub fn hot(&self) -> usize {
        self.length
    }

    /// The lanes that are hot.
    #[inline]
    pub fn hot_lanes(&self) -> &[u32] {
        &self.hot[..self.length]
    }

    /// The hot lane of this index.
    #[inline]
    pub fn hot_lane(&self, index: usize) -> usize {
        self.hot[index] as usize
    }

    /// A hot lane was productive often enough to keep its place.
    pub fn earned(&mut self, lane: u32) {
        let index = self.hot_lanes().iter().position(|hot| *hot == lane);
        if let Some(index) = index {
            self.hits[index] = self.hits[index].saturating_add(EARNED);
        }
    }

    /// The hot lane of this index was productive.
    #[inline]
    pub fn hit(&mut self, index: usize) {
        self.hits[index] = self.hits[index].saturating_add(1);
    }

    /// A cold lane was productive. The answer is carried out already.
    pub fn cold_hit(&mut self, lane: usize) -> Promotion {
        if self.length < HOT {
            self.hot[self.length] = lane as u32;
            self.hits[self.length] = EARNED;
            self.length += 1;
            return Promotion::Hot;
        }
        self.cold_hits += 1;
        if self.cold_hits < PERIOD {
            return Promotion::None;
        }
        self.cold_hits = 0;
        let coldest = (0..HOT).min_by_key(|&index| self.hits[index]).unwrap_or(0);
        let idle = self.hits[coldest] < EARNED;
        self.hits = [0; HOT];
        if !idle {
            return Promotion::None;
        }
        let before = std::mem::replace(&mut self.hot[coldest], lane as u32);
        self.hits[coldest] = EARNED;
        Promotion::InPlaceOf(before as usize)
    }

    /// A lane is not hot any more. The caller has told its sender, or there is none.
    pub fn cool(&mut self, lane: usize) {
        let found = self
            .hot_lanes()
            .iter()
            .position(|&hot| hot as usize == lane);
        if let Some(index) = found {
            self.length -= 1;
            self.hot.swap(index, self.length);
            self.hits.swap(index, self.length);
        }
    }

    /// This lane holds something.
    pub fn note(&mut self, lane: usize) {
        let Some(word) = self.pending.get_mut(lane / 64) else {
            return;
        };
        let bit = 1 << (lane % 64);
        self.waiting += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// This lane was found empty.
    pub fn done(&mut self, lane: usize) {
        let Some(word) = self.pending.get_mut(lane / 64) else {
            return;
        };
        let bit = 1 << (lane % 64);
        self.waiting -= usize::from(*word & bit != 0);
        *word &= !bit;
    }

    /// How many lanes are known to hold something.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The next lane known to hold something, going round.
    pub fn next(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let words = self.pending.len();
        let (word, bit) = (self.cursor / 64 % words, self.cursor % 64);
        // The rest of the word at the cursor, the other words, then that word as a whole.
        let rest = self.pending[word] & (u64::MAX << bit);
        let found = if rest != 0 {
            word * 64 + rest.trailing_zeros() as usize
        } else {
            (1..=words)
                .map(|step| (word + step) % words)
                .find(|&other| self.pending[other] != 0)
                .map(|other| other * 64 + self.pending[other].trailing_zeros() as usize)?
        };
        self.cursor = (found + 1) % (words * 64);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_lanes_are_served_in_turn() {
        let mut poll_set = PollSet::new(130);
        for lane in [1, 64, 129] {
            poll_set.note(lane);
            poll_set.note(lane);
        }
        assert_eq!(poll_set.waiting(), 3);
        let turns: Vec<_> = (0..6).filter_map(|_| poll_set.next()).collect();
        assert_eq!(turns, [1, 64, 129, 1, 64, 129]);
        poll_set.done(64);
        poll_set.done(64);
        assert_eq!(poll_set.waiting(), 2);
        assert_eq!((poll_set.next(), poll_set.next()), (Some(1), Some(129)));
        poll_set.done(1);
        poll_set.done(129);
        assert_eq!(poll_set.next(), None);
    }

    #[test]
    fn a_lane_that_is_cooled_leaves_the_others_hot() {
        let mut poll_set = PollSet::new(8);
        for lane in 0..HOT {
            assert_eq!(poll_set.cold_hit(lane + 1), Promotion::Hot);
        }
        poll_set.cool(1);
        poll_set.cool(7);
        assert_eq!(poll_set.hot(), HOT - 1);
        assert!(!poll_set.hot_lanes().contains(&1));
        assert_eq!(poll_set.cold_hit(7), Promotion::Hot);
    }

    #[test]
    fn a_busy_lane_keeps_its_place_and_an_idle_one_loses_it() {
        let mut poll_set = PollSet::new(8);
        for lane in 0..HOT {
            assert_eq!(poll_set.cold_hit(lane), Promotion::Hot);
        }
        let mut changes = Vec::new();
        for _ in 0..4 * PERIOD {
            for place in 0..HOT {
                if poll_set.hot_lane(place) != 2 {
                    poll_set.hit(place);
                }
            }
            match poll_set.cold_hit(7) {
                Promotion::None => {}
                other => changes.push(other),
            }
        }
        // Its first hits were a present; in the period after it earns nothing.
        assert_eq!(changes, [Promotion::InPlaceOf(2)]);
    }
}
