//! Seats: who died, and who was started in their place, as the launcher tells it.
//!
//! ```text
//!   seat   0 … members−1     one for each rank, from the start
//!          members …         spare: each is used once, by a process that is started in place of a dead one
//!
//!   launcher   marks all news ─► fate of the seat ─► changes + 1 ─► wakes all    its process is fetched by then
//!              member of a spare seat, successor of the old one ─► changes + 1 ─► wakes all
//!              starts the process
//! ```
//!
//! What the dead had begun towards others and not ended is ended for them. It may have added itself to the
//! news of a rank and not marked the summary, or have taken the announcement of a sleeper and not woken
//! it. So the launcher marks all summaries, and wakes all whether announced or not. Everything else that a
//! rank shares is published by a single store. `deaths` ends ranks after each store that they make.
//!
//! A seat has a control block, grants and lanes of its own, which nobody has used before: nothing of a
//! dead process has to be cleaned up while others may be at it. What it had written into its lanes is
//! still handed out, then its peers are told that it is lost.
//!
//! # Ordering
//! SYNC job.changes: fate, member and successor are stored before `changes` is added to with Release;
//! who sees another number by Acquire sees them. They are written by the launcher alone, and like all
//! that stands in the segment they are checked before use.

use weft_atomic::{FenceMode, Ordering};
use weft_fabric::{Peer, Sink};

use crate::bell::ShmBell;
use crate::endpoint::Shm;
use crate::layout::Segment;
use crate::news;
use crate::watch::Watch;

/// `fate`: its process has ended; the low bits are its wait status.
const ENDED: u32 = 1 << 31;

impl Segment {
    /// The seat that a rank has now.
    pub fn seat_of(&self, rank: u32) -> u32 {
        let mut seat = rank;
        // As many steps as there are seats at most: whatever stands there.
        for _ in 0..self.shape().ranks {
            // SYNC job.changes.
            let successor = self
                .control(seat)
                .identity
                .successor
                .load(Ordering::Acquire);
            match successor.checked_sub(1) {
                Some(next) if next < self.shape().ranks => seat = next,
                _ => break,
            }
        }
        seat
    }

    /// Whether the launcher has said that the process of a seat is gone: fetched, so that nothing of it runs.
    pub fn is_dead(&self, seat: u32) -> bool {
        // Acquire: what it left behind comes before.
        self.control(seat).identity.fate.load(Ordering::Acquire) & ENDED != 0
    }

    /// The rank that has or had a seat.
    pub fn rank_of(&self, seat: u32) -> Option<u32> {
        if seat < self.members() {
            return Some(seat);
        }
        if seat >= self.shape().ranks {
            return None;
        }
        let member = self.control(seat).identity.member.load(Ordering::Acquire);
        member.checked_sub(1).filter(|rank| *rank < self.members())
    }
}

/// How a process ended, for people.
fn told(status: u32) -> String {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("its process exited with code {code}"),
        (signal, _) => format!("its process was killed by signal {signal}"),
    }
}

impl Shm {
    /// The launcher has told of changes: those who died are lost, after what they had sent.
    #[cold]
    pub(crate) fn hear_of_the_dead(&mut self, sink: &mut dyn Sink) -> usize {
        // SYNC job.changes.
        self.changes_seen = self.segment.header().changes.load(Ordering::Acquire);
        let mut done = 1;
        let me = self.me;
        for seat in (0..self.segment.shape().ranks).filter(|seat| *seat != me) {
            let fate = self
                .segment
                .control(seat)
                .identity
                .fate
                .load(Ordering::Relaxed);
            if fate & ENDED == 0 || self.gone.contains_key(&seat) {
                continue;
            }
            loop {
                let found = self.drain(seat as usize, sink, 64);
                done += found;
                if found == 0 {
                    break;
                }
            }
            self.lose(Peer(seat), &told(fate & !ENDED), sink);
            done += 1;
        }
        done
    }
}

impl Watch {
    /// Tells all ranks that the process of `rank` has ended with this wait status. It must have been
    /// fetched: nothing of it may run any more.
    pub fn tell_of_death(&self, rank: u32, status: i32) {
        if rank >= self.ranks() {
            return;
        }
        let seat = self.segment.seat_of(rank);
        let identity = &self.segment.control(seat).identity;
        self.segment.header().run_states.leave(seat);
        self.end_what_the_dead_began();
        let status = u32::from_ne_bytes(status.to_ne_bytes()) & 0xffff;
        identity.fate.store(ENDED | status, Ordering::Release);
        self.tell();
    }

    /// Gives `rank` a seat that nobody has used, for the process that is started next. False if none
    /// is left.
    pub fn seat_anew(&self, rank: u32) -> bool {
        let seats = self.segment.members()..self.segment.shape().ranks;
        let free = seats
            .into_iter()
            .find(|seat| self.segment.rank_of(*seat).is_none());
        let (Some(seat), true) = (free, rank < self.ranks()) else {
            return false;
        };
        let old = self.segment.seat_of(rank);
        let member = &self.segment.control(seat).identity.member;
        member.store(rank + 1, Ordering::Release);
        let successor = &self.segment.control(old).identity.successor;
        successor.store(seat + 1, Ordering::Release);
        self.tell();
        true
    }

    /// Marks all news: the dead may have added itself somewhere and not marked that. Whom it has not woken
    /// is woken by `tell`.
    fn end_what_the_dead_began(&self) {
        let seats = self.segment.shape().ranks;
        for seat in 0..seats {
            news::recover(self.segment.control(seat), seats as usize);
        }
    }

    /// Says that something has changed, and wakes everybody to hear it, also those whose announcement
    /// somebody has taken along.
    fn tell(&self) {
        // SYNC job.changes.
        self.segment.header().changes.fetch_add(1, Ordering::AcqRel);
        let bell = ShmBell::new(self.segment.clone(), 0, FenceMode::Symmetric);
        for seat in 0..self.segment.shape().ranks {
            bell.wake_regardless(seat);
        }
    }
}

#[cfg(test)]
mod tests;
