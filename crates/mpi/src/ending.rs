//! Ending: how the ranks of a world meet before they end, and which ranks are absent.
//!
//! `MPI_Finalize` is collective over the processes that are connected (MPI 5.0, section 11.2.2): no process leaves while
//! another one still needs an answer from it. A process that has used sessions only is in `MPI_COMM_WORLD` of the others,
//! and never calls `MPI_Finalize`. When it has ended its last session it tells the others that it is *absent*: those of
//! its host by a word in the memory that they share; those of other hosts by its launcher, which has the same written
//! there, or, under another launcher, by a message that needs no answer ([`weft_fabric::Fabric::announce_absence`]). From
//! then on the others do not wait for each other in `MPI_Finalize`: what each has begun to send has left it, and the
//! absent process would never come. If it initialises MPI later, it waits for no other process either.
//!
//! ```text
//!   rank 0   MPI_Init ─────────────────── MPI_Finalize: drained ── meeting … given up ──► left over, say_goodbye
//!   rank 1   MPI_Session_init ── MPI_Session_finalize ── absent ──────────┘
//! ```
//!
//! A process that gives up the meeting may have begun to connect to the absent one, which does not answer any more: that
//! is given up too, and so are messages of the meeting itself for others. They learn of the absence as well.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_atomic::Ordering;

use crate::coll;
use crate::engine::collective_note::CollectiveNote;
use crate::engine::schedule::Schedule;
use crate::error::Result;
use crate::process::Process;

/// For how long a loss may turn out to be an absence: of the end of a process on another host its connections may tell sooner than
/// the launchers of both hosts tell that it was absent before.
const NOTICE: Duration = Duration::from_secs(3);

impl Process {
    /// The communication part of `MPI_Finalize`: everything begun has left, and all ranks have come this far, so that no
    /// rank leaves while another still needs an answer from it.
    ///
    /// # Errors
    /// When a rank is lost that was there so far, and the program is not [`prepared`](Self::prepare_for_losses) for that.
    pub fn finish(self: &Arc<Self>) -> Result<()> {
        self.meet()?;
        self.announce_exit();
        Ok(())
    }

    /// The first half of [`finish`](Self::finish); what is left over can be examined after it. The second half is
    /// [`announce_exit`](Self::announce_exit). Returns whether all ranks come; if not, none can be asked for anything.
    ///
    /// # Errors
    /// When a rank is lost.
    pub fn meet(self: &Arc<Self>) -> Result<bool> {
        self.drain();
        if self.ends_early() {
            return Ok(false);
        }
        let world = self.world();
        // Members that have gone through different collectives do not meet any more, and have been told so.
        if self.lock().has_mismatch(world.context()) {
            return Ok(true);
        }
        // Those that have heard of it before may have left, and ended: nothing can be sent to them.
        if self.hears_of_absence() {
            return Ok(self.meet_nobody());
        }
        // A barrier of its own: a rank that is still in one of the program, or in any other collective, is told where this
        // one is.
        let meeting = Schedule {
            name: "MPI_Finalize",
            note: CollectiveNote::FINALIZE,
            ..coll::barrier(&coll::Members::of(&world))?
        };
        match world.run_unless(meeting, || self.hears_of_absence()) {
            Ok(true) => Ok(true),
            Ok(false) => Ok(self.meet_nobody()),
            Err(_) if self.hears_of_absence() => Ok(self.meet_nobody()),
            // Those that are left, or that have revoked the world, end without each other.
            Err(_) if self.is_prepared_for_losses() => Ok(true),
            Err(_) if self.hears_of_absence_late() => Ok(self.meet_nobody()),
            Err(error) => Err(error),
        }
    }

    /// Whether this process ends without having met the others of its world, which may go on and wait for it.
    pub fn ends_early(&self) -> bool {
        self.is_incomplete.load(Ordering::Relaxed)
    }

    /// Whether a rank of this world has said that it is absent.
    fn hears_of_absence(&self) -> bool {
        self.bell.absences().include(self.world_number)
    }

    /// As [`hears_of_absence`](Self::hears_of_absence), after a loss: waits for that a while, where there are other hosts.
    fn hears_of_absence_late(&self) -> bool {
        if !self.has_several_hosts() {
            return false;
        }
        self.look_until(NOTICE, || self.hears_of_absence())
    }

    /// Looks until `is_there` answers true, for so long at most; answers whether it has.
    pub(crate) fn look_until(&self, limit: Duration, is_there: impl Fn() -> bool) -> bool {
        let until = Instant::now() + limit;
        loop {
            let ticket = self.bell.prepare();
            // What else comes is taken, or it would end each sleep at once.
            self.lock().look();
            let found = is_there();
            let left = until.saturating_duration_since(Instant::now());
            if found || left.is_zero() {
                self.bell.cancel(ticket);
                return found;
            }
            self.bell.wait(ticket, Some(left));
        }
    }

    /// Gives the meeting up, and what it had for ranks that were never reached: nobody waits for that. Not all come.
    fn meet_nobody(&self) -> bool {
        self.is_incomplete.store(true, Ordering::Relaxed);
        self.lock().abandon_unreached();
        false
    }

    /// This process has ended its use of MPI, and was never initialised: the others need not wait for it. Those of its
    /// host are told by shared memory; those of other hosts `by_launcher`, if that returns true, or else by this process,
    /// before [`announce_exit`](Self::announce_exit) returns.
    pub fn tell_absence(self: &Arc<Self>, by_launcher: impl FnOnce() -> bool) {
        if self.is_incomplete.swap(true, Ordering::Relaxed) {
            return;
        }
        // A rank that has told before tells all, and one of a world is as good as any other.
        let is_known = self.hears_of_absence();
        self.bell.tell_absence(self.world_number);
        if !by_launcher() && !is_known {
            self.announce_absence();
        }
    }

    /// Tells the members of this world on other hosts.
    fn announce_absence(self: &Arc<Self>) {
        if !self.has_several_hosts() {
            return;
        }
        let world = self.world();
        let here = self.host_of(world.group().peer(world.rank()));
        let mut engine = self.lock();
        for rank in 0..world.size() {
            let peer = world.group().peer(rank);
            if self.host_of(peer) != here {
                engine.announce_absence(peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric_shm::Shm;

    /// Rank 0 of two that are said to be on two hosts, and rank 1.
    fn on_two_hosts() -> [Arc<Process>; 2] {
        let group = Shm::group(2).expect("a memory file");
        let ranks: Vec<_> = group
            .into_iter()
            .map(|endpoint| Process::new(Box::new(endpoint)))
            .collect();
        ranks[0].set_hosts([0, 1]);
        ranks.try_into().expect("two of them")
    }

    #[test]
    fn a_notice_that_comes_after_the_loss_is_waited_for() {
        let [here, there] = on_two_hosts();
        assert!(!here.hears_of_absence());
        let (begun, begins) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            begins.recv().expect("it begins");
            // Most times the other one sleeps by then.
            std::thread::sleep(Duration::from_millis(20));
            there.tell_absence(|| true);
        });
        begun.send(()).expect("there is a thread");
        assert!(here.hears_of_absence_late());
        other.join().expect("it has told");
    }

    #[test]
    fn without_a_notice_the_loss_is_one_after_a_while() {
        let [here, there] = on_two_hosts();
        assert!(!here.hears_of_absence_late());
        assert!(!there.hears_of_absence_late(), "it knows of no other host");
    }
}
