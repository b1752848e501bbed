//! Process slots and incarnations: which process slot a rank has, which processes have died, and who was started in
//! their place, as the launcher tells it.
//!
//! ```text
//!   slot   0 … members−1     one for each rank: its first incarnation
//!          members …         spare: each is used once, by an incarnation that is started in place of a dead one
//!
//!   launcher   marks all summaries ─► fate of the slot ─► changes + 1 ─► wakes all    its process is fetched by then
//!              member of a spare slot, successor of the old one ─► changes + 1 ─► wakes all
//!              starts the process
//! ```
//!
//! An *incarnation* is one process of those that have a rank one after the other. It has a process slot, hence a
//! control block, grants and lanes of its own, which nobody has used before: nothing of a dead process has to be
//! cleaned up while others may be at it. What it had written into its lanes is still handed out, then its peers are
//! told that it is lost.
//!
//! What the dead had begun towards others and not ended is ended for them by the launcher, in `watch.rs`.
//!
//! # Ordering
//! * SYNC job.changes: fate, member and successor are stored before `changes` is added to with Release;
//!   who sees another number by Acquire sees them.
//! * SYNC slot.fate, slot.member, slot.successor: for whoever has not looked at `changes`, each of the three is stored
//!   with Release and loaded with Acquire by itself. What a dead process had written comes before its fate.
//!
//! They are written by the launcher alone, and like all that stands in the segment they are checked before use.

use weft_atomic::Ordering;

use crate::segment::Segment;

/// `fate`: its process has ended; the low bits are its wait status.
const ENDED: u32 = 1 << 31;

impl Segment {
    /// The process slot that a rank has now.
    pub fn slot_of(&self, rank: u32) -> u32 {
        let mut slot = rank;
        // As many steps as there are slots at most: whatever stands there.
        for _ in 0..self.shape().process_slots {
            // SYNC slot.successor.
            let successor = self
                .control(slot)
                .identity
                .successor
                .load(Ordering::Acquire);
            match successor.checked_sub(1) {
                Some(next) if next < self.shape().process_slots => slot = next,
                _ => break,
            }
        }
        slot
    }

    /// The rank that has or had a process slot.
    pub fn rank_of(&self, slot: u32) -> Option<u32> {
        if slot < self.members() {
            return Some(slot);
        }
        if slot >= self.shape().process_slots {
            return None;
        }
        // SYNC slot.member.
        let member = self.control(slot).identity.member.load(Ordering::Acquire);
        member.checked_sub(1).filter(|rank| *rank < self.members())
    }

    /// Whether the launcher has said that the process of a slot is gone: fetched, so that nothing of it runs.
    pub fn is_dead(&self, slot: u32) -> bool {
        // SYNC slot.fate: what it left behind comes before.
        self.control(slot).identity.fate.load(Ordering::Acquire) & ENDED != 0
    }

    /// How the process of a slot ended, for people; `None` if the launcher has not said that it has. To be asked after
    /// [`changes`](Self::changes).
    pub fn death_of(&self, slot: u32) -> Option<String> {
        let fate = self.control(slot).identity.fate.load(Ordering::Relaxed);
        (fate & ENDED != 0).then(|| describe(fate & !ENDED))
    }

    /// The number of changes that the launcher has told. What it told before may be looked at afterwards.
    pub fn changes(&self) -> u32 {
        // SYNC job.changes.
        self.header().changes.load(Ordering::Acquire)
    }

    /// The launcher: the process of a slot has ended with this wait status.
    pub fn record_death(&self, slot: u32, status: i32) {
        let status = u32::from_ne_bytes(status.to_ne_bytes()) & 0xffff;
        let fate = &self.control(slot).identity.fate;
        // SYNC slot.fate.
        fate.store(ENDED | status, Ordering::Release);
    }

    /// The launcher: gives a rank a spare process slot that nobody has used. False if none is left.
    pub fn assign_spare(&self, rank: u32) -> bool {
        let mut spares = self.members()..self.shape().process_slots;
        let free = spares.find(|slot| self.rank_of(*slot).is_none());
        let (Some(slot), true) = (free, rank < self.members()) else {
            return false;
        };
        let old = self.slot_of(rank);
        let member = &self.control(slot).identity.member;
        // SYNC slot.member.
        member.store(rank + 1, Ordering::Release);
        let successor = &self.control(old).identity.successor;
        // SYNC slot.successor.
        successor.store(slot + 1, Ordering::Release);
        true
    }

    /// The launcher: what it has recorded and assigned can be seen by who sees this.
    pub fn publish_changes(&self) {
        // SYNC job.changes.
        self.header().changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// How a process ended, for people.
fn describe(status: u32) -> String {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("its process exited with code {code}"),
        (signal, _) => format!("its process was killed by signal {signal}"),
    }
}
