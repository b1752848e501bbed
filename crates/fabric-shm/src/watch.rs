//! Watch: the launcher's view of a running job: how far each rank has come, and which aborted with what; and the
//! launcher's reports to the ranks: which have died, and which processes are started in their place. If another launcher
//! has started them, a rank uses it to search for deadlocks in place of Weft's launcher.
//!
//! The ranks write what it reads, so it is only their word: good enough for the last line of a launcher, not for a
//! decision about another process.
//!
//! # What a death leaves behind
//! The launcher ends what a dead process had begun towards others and not ended. The process may have added a pending
//! lane to those of a rank and not marked the summary, or have taken the announcement of a sleeper and not woken it. So
//! the launcher marks all summaries, and wakes all ranks whether announced or not. Everything else that a rank shares is
//! published by a single store. `deaths` ends ranks after each store that they make.

use std::sync::Arc;

use weft_atomic::Ordering;
use weft_fabric::{Bell, FabricError, Result};
use weft_sys::MemoryFile;

use crate::bell::ShmBell;
use crate::layout::ProcessState;
use crate::options::Use;
use crate::poll_set;
use crate::segment::Segment;

/// Launcher's view of the segment of a job, without being one of its ranks.
#[derive(Debug, Clone)]
pub struct Watch {
    segment: Arc<Segment>,
}

/// Abort of a job by one of its ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort {
    /// Who.
    pub rank: u32,
    /// With what code.
    pub code: i32,
}

impl Watch {
    /// Looks at the memory file of a job, whose segment [`initialise`](crate::initialise) has prepared.
    ///
    /// # Errors
    /// If it is none.
    pub fn open(file: &MemoryFile) -> Result<Self> {
        let file = file.share().map_err(|error| FabricError::System {
            what: error.to_string(),
        })?;
        Ok(Self {
            segment: Segment::of_file(file)?,
        })
    }

    /// The view of a segment that is mapped already.
    #[cfg(test)]
    pub(crate) fn over(segment: Arc<Segment>) -> Self {
        Self { segment }
    }

    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// How many processes the job can have: its ranks, and the room for those that are started later.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.segment.members()
    }

    /// How far a rank has come; absent if there is no such rank.
    #[must_use]
    pub fn state(&self, rank: u32) -> ProcessState {
        if rank >= self.ranks() {
            return ProcessState::Absent;
        }
        let state = &self.segment.identity(self.segment.slot_of(rank)).state;
        // SYNC rank.joined.
        ProcessState::from_number(state.load(Ordering::Acquire))
    }

    /// Says whether a rank has ended with MPI, as it knows itself: for a job whose launcher tells nobody. It may begin anew.
    pub fn note_finished(&self, rank: u32, finished: bool) {
        if rank < self.ranks() {
            let word = &self.segment.identity(self.segment.slot_of(rank)).finished;
            // SYNC rank.finished: what it has sent comes before.
            word.store(u32::from(finished), Ordering::Release);
        }
    }

    /// Whether a rank has [said](Self::note_finished) that it has ended with MPI.
    #[must_use]
    pub fn has_finished(&self, rank: u32) -> bool {
        let word = |slot| &self.segment.identity(slot).finished;
        // SYNC rank.finished.
        rank < self.ranks() && word(self.segment.slot_of(rank)).load(Ordering::Acquire) != 0
    }

    /// Whether the end of a rank's process was [told](Self::tell_of_end).
    #[must_use]
    pub fn has_ended(&self, rank: u32) -> bool {
        rank < self.ranks() && self.segment.is_dead(self.segment.slot_of(rank))
    }

    /// Whether any process is there that the job did not start with.
    #[must_use]
    pub fn has_grown(&self) -> bool {
        self.present().any(|slot| slot >= self.segment.ranks())
    }

    /// The process id of a rank as it sees it itself, once it has attached.
    #[must_use]
    pub fn process(&self, rank: u32) -> Option<u32> {
        if self.state(rank) == ProcessState::Absent {
            return None;
        }
        let process = &self.segment.identity(self.segment.slot_of(rank)).process;
        Some(process.load(Ordering::Relaxed))
    }

    /// The first rank that aborted.
    #[must_use]
    pub fn first_abort(&self) -> Option<Abort> {
        // SYNC job.abort.
        let slot = self
            .segment
            .header()
            .aborted
            .load(Ordering::Acquire)
            .checked_sub(1)?;
        self.abort_of(self.segment.rank_of(slot)?)
    }

    /// What a rank aborted with, if it did.
    #[must_use]
    pub fn abort_of(&self, rank: u32) -> Option<Abort> {
        if rank >= self.ranks() {
            return None;
        }
        let identity = self.segment.identity(self.segment.slot_of(rank));
        // SYNC job.abort.
        (identity.abort_set.load(Ordering::Acquire) != 0).then(|| Abort {
            rank,
            code: identity.abort_code.load(Ordering::Relaxed),
        })
    }

    /// How many ranks are awake.
    #[must_use]
    pub fn awake(&self) -> u32 {
        let slots = self.segment.shape().process_slots;
        self.segment.header().run_states.awake(slots)
    }

    /// Asks all ranks that sleep what they wait for; those that do not sleep are asked when they are about to. Answers the
    /// number of this inquiry, which is never 0 and of which the lowest bit says whether it is `full`.
    pub fn inquire(&self, full: bool) -> u32 {
        let inquiry = &self.segment.header().inquiry;
        let next = (inquiry.load(Ordering::Relaxed) | 1).wrapping_add(1).max(2) | u32::from(full);
        // SYNC job.inquiry: paired with the look of who is about to sleep.
        inquiry.store(next, Ordering::Release);
        let bell = self.bell();
        self.present().for_each(|slot| bell.wake_regardless(slot));
        next
    }

    /// Whether all processes that are there sleep as far as they show, with a number that changes whenever one of them was
    /// woken. Advice: one may sleep in one of its threads and compute in another.
    #[must_use]
    pub fn rest(&self) -> Option<u64> {
        let slots = self.segment.shape().process_slots;
        let states = &self.segment.header().run_states;
        if states.awake(slots) > 0 || states.present(slots) == 0 {
            return None;
        }
        let woken = |slot| {
            let elsewhere = self.segment.identity(slot).sleeps.load(Ordering::Relaxed);
            let controls = self.segment.controls(slot);
            let rings: u64 = controls.map(|one| u64::from(one.doorbell.rings())).sum();
            rings + u64::from(elsewhere)
        };
        Some(self.present().map(woken).sum())
    }

    /// Process slots that processes are in.
    fn present(&self) -> impl Iterator<Item = u32> {
        let states = &self.segment.header().run_states;
        let slots = 0..self.segment.shape().process_slots;
        slots.filter(|slot| states.is_present(*slot))
    }

    /// Tells all ranks that the process of `rank` has died with this wait status. It must have been
    /// fetched: nothing of it may run any more.
    pub fn tell_of_death(&self, rank: u32, status: i32) {
        self.tell_of_end(rank, status, false);
    }

    /// As [`tell_of_death`](Self::tell_of_death); `in_order` if it had left the job before, so that it is no loss.
    /// Answers the number of this change.
    pub fn tell_of_end(&self, rank: u32, status: i32, in_order: bool) -> u32 {
        if rank >= self.ranks() {
            return 0;
        }
        let slot = self.segment.slot_of(rank);
        self.segment.header().run_states.leave(slot);
        self.mark_all_summaries();
        self.segment.record_end(slot, status, in_order);
        self.tell();
        self.segment.changes()
    }

    /// Tells all ranks here that a member of this world, on another host, will not meet the others at the end.
    pub fn tell_of_absence(&self, world: u32) {
        self.bell().tell_absence(world);
    }

    /// Whether a place of the room whose process has ended, as was told by this change, can have another one: all
    /// others that are `running` have put away what they had to do with the old one.
    ///
    /// # Errors
    /// One that has not called MPI since.
    pub fn may_be_reused(
        &self,
        rank: u32,
        change: u32,
        running: impl Fn(u32) -> bool,
    ) -> std::result::Result<(), u32> {
        let mut behind = self.segment.behind(rank, change);
        behind.find(|other| running(*other)).map_or(Ok(()), Err)
    }

    /// Clears a place of the room for the process that is started next. It [may be reused](Self::may_be_reused).
    pub fn reuse(&self, rank: u32) {
        self.segment.vacate(rank);
        self.tell();
    }

    /// Gives `rank` a process slot that nobody has used, for the process that is started next. False if none
    /// is left.
    pub fn assign_spare(&self, rank: u32) -> bool {
        let old = self.segment.slot_of(rank);
        let assigned = self.segment.assign_spare(rank);
        if assigned {
            // Nobody can attach what the dead has left in its arena any more.
            if let Some(heap) = self.segment.heap() {
                heap.empty(old);
            }
            self.tell();
        }
        assigned
    }

    /// Tells all ranks here that the system has refused to start the process for which `rank` was given [its process
    /// slot](Self::assign_spare): it does not return.
    pub fn tell_of_no_start(&self, rank: u32) {
        self.segment.record_no_start(self.segment.slot_of(rank));
        self.tell();
    }

    /// The dead may have added its lane to the pending ones of somebody and not marked that. Whom it has not woken is
    /// woken by [`tell`](Self::tell).
    fn mark_all_summaries(&self) {
        let slots = self.segment.shape().process_slots;
        for slot in 0..slots {
            for control in self.segment.controls(slot) {
                poll_set::mark_all(control, slots as usize);
            }
        }
    }

    /// Says that something has changed, and wakes everybody to hear it, also those whose announcement
    /// somebody has taken along.
    pub(crate) fn tell(&self) {
        self.segment.publish_changes();
        self.bell().wake_all_regardless();
    }

    fn bell(&self) -> ShmBell {
        ShmBell::new(self.segment.clone(), 0, Use::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Shm, initialise, segment_size};
    use std::os::fd::AsFd;
    use weft_fabric::Fabric;
    use weft_sys::MemoryFile;

    /// Also who sleeps: it looks again after it has said that it will, and is woken by what comes then.
    #[test]
    fn an_absence_is_told_by_a_rank_and_by_the_launcher() {
        let size = segment_size(2).expect("fits");
        let file = MemoryFile::create("weft-test", size).expect("memory files exist here");
        let mapping = file.map().expect("maps");
        initialise(&mapping, 2, 2).expect("the right size");
        let watch = Watch::open(&file).expect("initialised");
        let attach = |rank| {
            let descriptor = file.as_fd().try_clone_to_owned().expect("duplicates");
            Shm::attach_with(descriptor, rank, &Options::default()).expect("joins")
        };
        let (one, other) = (attach(0), attach(1));
        let (bell, elsewhere) = (one.bell(), other.sleep_elsewhere());
        let include = |world| {
            let all = [bell.absences(), elsewhere.absences()];
            all.map(|absences| absences.include(world))
        };
        assert_eq!((include(0), include(1)), ([false; 2], [false; 2]));
        let tell: [&dyn Fn(u32); 3] = [
            &|world| other.bell().tell_absence(world),
            &|world| elsewhere.tell_absence(world),
            &|world| watch.tell_of_absence(world),
        ];
        for (world, tell) in (0..).zip(tell) {
            let ticket = bell.prepare();
            assert_eq!(include(world), [false; 2]);
            tell(world);
            // Ends only if it is rung.
            bell.wait(ticket, None);
            assert_eq!(include(world), [true; 2]);
        }
    }

    #[test]
    fn the_launcher_sees_states_and_the_first_abort() {
        let size = segment_size(3).expect("fits");
        let file = MemoryFile::create("weft-test", size).expect("memory files exist here");
        let mapping = file.map().expect("maps");
        initialise(&mapping, 3, 2).expect("the right size");
        let watch = Watch::open(&file).expect("initialised");
        let attach = |rank| {
            let descriptor = file.as_fd().try_clone_to_owned().expect("duplicates");
            Shm::attach_with(descriptor, rank, &Options::default())
        };
        assert_eq!((watch.ranks(), watch.awake()), (3, 0));
        assert_eq!(watch.process(1), None);
        let one = attach(1).expect("joins");
        assert_eq!(watch.state(1), ProcessState::Joined);
        assert_eq!(watch.process(1), Some(std::process::id()));
        assert!(attach(1).is_err(), "the rank is taken");
        assert!(attach(3).is_err(), "no such rank");
        one.set_state(ProcessState::Initialised);
        assert_eq!(watch.state(1), ProcessState::Initialised);
        assert_eq!(watch.first_abort(), None);
        let two = attach(2).expect("joins");
        assert_eq!(watch.awake(), 2);
        assert!(!watch.has_grown() && !watch.has_finished(2));
        watch.note_finished(2, true);
        assert!(watch.has_finished(2) && !watch.has_ended(2));
        watch.note_finished(2, false);
        assert!(!watch.has_finished(2) && !watch.has_finished(9));
        two.abort(-3);
        one.abort(4);
        assert_eq!(watch.first_abort(), Some(Abort { rank: 2, code: -3 }));
        assert_eq!(watch.abort_of(1), Some(Abort { rank: 1, code: 4 }));
        drop((one, two));
        assert_eq!(watch.state(2), ProcessState::Finalised);
        assert_eq!((watch.state(9), watch.awake()), (ProcessState::Absent, 0));
    }
}

#[cfg(test)]
mod deaths_by_hand;

#[cfg(test)]
mod reuse;
