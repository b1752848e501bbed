//! Ending: how the ranks of a world meet before they end, and who does not come.
//!
//! `MPI_Finalize` is collective over the processes that are connected (MPI 5.0, section 11.2.2): nobody leaves while another one still needs an
//! answer of it. A process that has used sessions only is in `MPI_COMM_WORLD` of the others, and never calls it. When it has ended its last session it
//! tells the others of its host that it is *absent*. From then on they wait for nobody in `MPI_Finalize`: what each has begun to send has left it, and the one that
//! is absent would never come. Should it initialise MPI later, it waits for nobody either.
//!
//! ```text
//!   rank 0   MPI_Init ─────────────────── MPI_Finalize: drained ── meeting … given up ──► left over, farewell
//!   rank 1   MPI_Session_init ── MPI_Session_finalize ── absent ──────────┘
//! ```
//!
//! Ranks of other hosts are not told: a connection would have to be made for it, to somebody who may be gone.

use std::sync::Arc;

use weft_atomic::Ordering;

use crate::coll;
use crate::comm::ABSENCE;
use crate::engine::Engine;
use crate::engine::collective_note::CollectiveNote;
use crate::engine::schedule::Schedule;
use crate::error::Result;
use crate::process::Process;

impl Process {
    /// The communication part of `MPI_Finalize`: everything begun has left, and all ranks have come
    /// this far, so that nobody leaves while another still needs an answer of it.
    ///
    /// # Errors
    /// When a rank is lost that was there so far, and the program is not [`prepared`](Self::prepare_for_losses) for that.
    pub fn finish(self: &Arc<Self>) -> Result<()> {
        self.meet()?;
        self.announce_exit();
        Ok(())
    }

    /// The first half of [`finish`](Self::finish): what is left over can be looked at after it, and the other half is
    /// [`announce_exit`](Self::announce_exit). Whether all ranks come: else none can be asked for anything.
    ///
    /// # Errors
    /// When a rank is lost.
    pub fn meet(self: &Arc<Self>) -> Result<bool> {
        self.drain();
        if self.is_incomplete.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let world = self.world();
        // Members that have gone through different collectives do not meet any more, and have been told so.
        if self.lock().has_mismatch(world.context()) {
            return Ok(true);
        }
        // Those that have heard of it before may have left, and ended: nothing can be sent to them.
        if self.hears_of_absence() {
            return Ok(false);
        }
        // A barrier of its own: a rank that is still in one of the program, or in any other collective, is told where this
        // one is.
        let meeting = Schedule {
            name: "MPI_Finalize",
            note: CollectiveNote::FINALIZE,
            ..coll::barrier(&coll::Members::of(&world))?
        };
        match world.run_unless(meeting, Engine::hears_of_absence) {
            Ok(true) => Ok(true),
            Ok(false) => {
                self.is_incomplete.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(_) if self.hears_of_absence() => Ok(false),
            Err(error) if !self.is_prepared_for_losses() => Err(error),
            // Those that are left, or that have revoked the world, end without each other.
            Err(_) => Ok(true),
        }
    }

    /// Looks whether somebody has said that it is absent.
    fn hears_of_absence(&self) -> bool {
        let mut engine = self.lock();
        engine.settle();
        let hears = engine.hears_of_absence();
        if hears {
            self.is_incomplete.store(true, Ordering::Relaxed);
        }
        hears
    }

    /// This process has ended all that it has used of MPI, and was never initialised: the others of its host need not wait for it.
    pub fn tell_absence(&self) {
        if self.is_incomplete.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut engine = self.lock();
        for peer in self.members.members().filter(|peer| *peer != self.me()) {
            engine.tell_absence(peer);
        }
    }
}

impl Engine {
    /// Whether somebody has said that it is absent.
    fn hears_of_absence(&mut self) -> bool {
        self.take_small(ABSENCE, 0).is_some()
    }
}
