//! Process slots and incarnations: which process slot a rank has, which processes have died, and which were started in
//! their place, as the launcher reports it.
//!
//! ```text
//!   slot   0 … ranks−1       one for each rank: its first incarnation
//!          ranks … members−1 room: for processes that are started later, one after the other
//!          members …         spare: each is used once, by an incarnation that is started in place of a dead one
//!
//!   launcher   marks all summaries ─► fate of the slot ─► changes + 1 ─► wakes all    its process is fetched by then
//!              member of a spare slot, successor of the old one ─► changes + 1 ─► wakes all
//!              starts the process
//! ```
//!
//! An *incarnation* is one of the processes that have the same rank one after the other. It has a process slot, hence a
//! control block, grants and lanes of its own, which have not been used before: nothing of a dead process has to be
//! cleaned up while others may be using it. Messages that it had written into its lanes are still handed out, then its
//! peers are told that it is lost.
//!
//! The launcher ends what the dead process had begun towards others and not ended, in `watch.rs`.
//!
//! # A process slot in the room is reused
//! ```text
//!   vacant ── a process is started ──► taken ── it was reaped: fate ──► retiring ── all have heard of it ──► vacant
//! ```
//! Each process that learns of the end closes its lanes to and from that slot, forgets what it knew of it, and then
//! publishes how many changes it has carried out (`heard`). When all have, no process uses that memory any more: the
//! launcher clears it, adds one to the slot's *generation*, and starts the next process. A process that sees another
//! generation opens the lanes again, from their beginning. So nothing of one process reaches the next one, and no lane
//! needs to know of generations.
//!
//! # Ordering
//! * SYNC job.changes: fate, member and successor are stored before `changes` is added to with Release; a process that
//!   sees another number by Acquire sees them.
//! * SYNC slot.fate, slot.member, slot.successor: for a process that has not looked at `changes`, each of the three is
//!   stored with Release and loaded with Acquire by itself. Everything that a dead process wrote comes before its fate.
//! * SYNC slot.heard: a process stores `heard` with Release after it has closed its lanes; the launcher loads it with
//!   Acquire before it clears.
//! * SYNC slot.generation: stored with Release after the slot was cleared; a process that loads it by Acquire finds it
//!   clear.
//!
//! All but `heard` are written only by the launcher, and like everything in the segment they are checked before use.

use weft_atomic::Ordering;
use weft_fabric::Absences;

use crate::layout::{Identity, ProcessState};
use crate::segment::Segment;

/// `fate`: its process has ended; the low bits are its wait status.
const ENDED: u32 = 1 << 31;
/// … in order: it had left the job before, so that its end is no loss.
const LEFT: u32 = 1 << 30;
/// … and no process of it has ever run: the system has refused to start one.
const UNSTARTED: u32 = 1 << 29;
/// … with its host, so that nobody knows how.
const WITH_HOST: u32 = 1 << 28;

/// End of the process of a slot, as the launcher has told it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It had left the job.
    Left,
    /// It is a loss, for this reason.
    Died(String),
}

impl End {
    /// What a fate says.
    pub(crate) fn of_fate(fate: u32) -> Option<Self> {
        (fate & ENDED != 0).then(|| match fate & LEFT {
            0 => Self::Died(describe(fate & !ENDED)),
            _ => Self::Left,
        })
    }
}

/// The fate of a process that has ended with this wait status, `in_order` if it had left before.
pub(crate) fn fate_of(status: i32, in_order: bool) -> u32 {
    let status = u32::from_ne_bytes(status.to_ne_bytes()) & 0xffff;
    let left = if in_order { LEFT } else { 0 };
    ENDED | left | status
}

/// The fate of a process whose host is lost.
pub(crate) fn fate_with_host() -> u32 {
    ENDED | WITH_HOST
}

impl Segment {
    /// The process slot that a rank has now.
    pub fn slot_of(&self, rank: u32) -> u32 {
        let mut slot = rank;
        // As many steps as there are slots at most: whatever stands there.
        for _ in 0..self.shape().process_slots {
            // SYNC slot.successor.
            let successor = self.identity(slot).successor.load(Ordering::Acquire);
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
        let member = self.identity(slot).member.load(Ordering::Acquire);
        member.checked_sub(1).filter(|rank| *rank < self.members())
    }

    /// Whether the launcher has said that the process of a slot is gone: fetched, so that nothing of it runs.
    pub fn is_dead(&self, slot: u32) -> bool {
        // SYNC slot.fate: what it left behind comes before.
        self.identity(slot).fate.load(Ordering::Acquire) & ENDED != 0
    }

    /// How the process of a slot ended; `None` if the launcher has not said that it has. To be asked after
    /// [`changes`](Self::changes).
    pub fn end_of(&self, slot: u32) -> Option<End> {
        End::of_fate(self.identity(slot).fate.load(Ordering::Relaxed))
    }

    /// How many processes had a slot of the room before the one that has it now.
    pub fn generation(&self, slot: u32) -> u32 {
        // SYNC slot.generation.
        let generation = &self.identity(slot).generation;
        generation.load(Ordering::Acquire)
    }

    /// The process of `slot` has carried out so many changes, in this channel.
    pub fn note_heard(&self, slot: u32, changes: u32) {
        // SYNC slot.heard.
        let heard = &self.control(slot).identity.heard;
        heard.store(changes, Ordering::Release);
    }

    /// The launcher: the members that may still be at what the process of a slot has left behind: they are there, and
    /// have not said that they have carried out so many changes in each channel that they have opened.
    pub fn behind(&self, slot: u32, changes: u32) -> impl Iterator<Item = u32> {
        (0..self.shape().process_slots).filter(move |&other| {
            let identity = self.identity(other);
            let state = ProcessState::from_number(identity.state.load(Ordering::Acquire));
            let there = !matches!(state, ProcessState::Absent | ProcessState::Finalised);
            let mut channels = self.controls(other).map(|control| &control.identity);
            let is_behind = |channel: &Identity| {
                // SYNC slot.heard.
                let heard = channel.heard.load(Ordering::Acquire);
                channel.state.load(Ordering::Acquire) != ProcessState::Absent as u32
                    && changes.wrapping_sub(heard).cast_signed() > 0
            };
            other != slot
                && there
                && identity.state_only.load(Ordering::Acquire) == 0
                && !self.is_dead(other)
                && channels.any(|channel| is_behind(channel))
        })
    }

    /// The launcher: makes a slot ready for the next process. Nobody may be [behind](Self::behind).
    pub fn vacate(&self, slot: u32) {
        self.clear(slot);
        let identity = self.identity(slot);
        identity.heard.store(0, Ordering::Relaxed);
        // SYNC slot.generation.
        identity.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of changes that the launcher has told. What it told before may be looked at afterwards.
    pub fn changes(&self) -> u32 {
        // SYNC job.changes.
        self.header().changes.load(Ordering::Acquire)
    }

    /// The launcher: the process of a slot has ended with this wait status, `in_order` if it had left before.
    pub fn record_end(&self, slot: u32, status: i32, in_order: bool) {
        let fate = &self.identity(slot).fate;
        // SYNC slot.fate.
        fate.store(fate_of(status, in_order), Ordering::Release);
    }

    /// The launcher: no process could be started in this slot, and none is tried to.
    pub fn record_no_start(&self, slot: u32) {
        let fate = &self.identity(slot).fate;
        // SYNC slot.fate.
        fate.store(ENDED | UNSTARTED, Ordering::Release);
    }

    /// Whether a process of this rank is there, is being started, or may be: the launcher replaces one that has failed while it has
    /// spares.
    pub fn may_return(&self, rank: u32) -> bool {
        // SYNC slot.fate.
        let fate = self
            .identity(self.slot_of(rank))
            .fate
            .load(Ordering::Acquire);
        let failed = fate & (LEFT | UNSTARTED) == 0 && fate & !ENDED != 0;
        fate & ENDED == 0 || (failed && self.free_spare().is_some())
    }

    /// A process slot that nobody has used.
    fn free_spare(&self) -> Option<u32> {
        let mut spares = self.members()..self.shape().process_slots;
        spares.find(|slot| self.rank_of(*slot).is_none())
    }

    /// The launcher: gives a rank a spare process slot that nobody has used. False if none is left.
    pub fn assign_spare(&self, rank: u32) -> bool {
        let (Some(slot), true) = (self.free_spare(), rank < self.members()) else {
            return false;
        };
        let old = self.slot_of(rank);
        let member = &self.identity(slot).member;
        // SYNC slot.member.
        member.store(rank + 1, Ordering::Release);
        let successor = &self.identity(old).successor;
        // SYNC slot.successor.
        successor.store(slot + 1, Ordering::Release);
        true
    }

    /// Worlds of which a member is absent.
    pub fn absences(&self) -> Absences {
        // SYNC job.absences: paired with the look of who is about to sleep.
        Absences::from_word(self.header().absences.load(Ordering::Acquire))
    }

    /// A member of this world is absent. True: that is new, and whoever sleeps is to be woken.
    pub fn note_absence(&self, world: u32) -> bool {
        let absences = &self.header().absences;
        // SYNC job.absences.
        let before = absences.fetch_or(Absences::of(world).to_word(), Ordering::AcqRel);
        !Absences::from_word(before).include(world)
    }

    /// The launcher: what it has recorded and assigned can be seen by who sees this.
    pub fn publish_changes(&self) {
        // SYNC job.changes.
        self.header().changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// How a process ended, for people.
fn describe(status: u32) -> String {
    if status & UNSTARTED != 0 {
        return "the system has refused to start its process anew".into();
    }
    if status & WITH_HOST != 0 {
        return "its host is lost".into();
    }
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("its process exited with code {code}"),
        (signal, _) => format!("its process was killed by signal {signal}"),
    }
}
