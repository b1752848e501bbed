//! Windows: memory that the members of a communicator let each other read and write (MPI 5.0, chapter 12).
//!
//! ```text
//!   put, get, accumulate …  ──► epoch: may it?  ──► target: where, and by which path
//!        (access)                 (epoch)              │           (one piece, at once: direct)
//!                                                      ├─ Direct     loads, stores, atomics: own memory, shared memory
//!                                                      ├─ Portal     the fabric moves the bytes
//!                                                      └─ Messages   the target's engine does it
//!   fence │ start, complete, post, wait │ lock, flush, unlock        (fence, active, passive)
//! ```
//!
//! Memory that Weft allocates is shared memory: ranks of one host access it without the target's help, whatever the
//! target does. A window of a program's own memory is accessed by portal if the data lie in one piece at the target, else
//! by messages, as is memory on other hosts. [`engine::one_sided`](crate::engine::one_sided) handles the messages.
//!
//! The path of an element does not matter for atomicity: see [`exposed`](crate::exposed).

mod access;
mod active;
mod at_once;
mod create;
mod direct;
mod dynamic;
mod epoch;
mod exchange;
mod fence;
mod hints;
mod kept_locks;
mod lock_waits;
mod passive;
mod shared_lock;
mod target;

use std::sync::Arc;

use weft_atomic::{AtomicBool, AtomicU32, AtomicU64, FenceMode, Ordering, StoresInFlight};
use weft_fabric::{Region, SharedKey, Token};
use weft_sys::SharedMemory;

use crate::comm::Comm;
use crate::engine::one_sided::{AtWindow, WindowState};
use crate::engine::{Engine, Guard, WaitFor};
use crate::error::{Error, ErrorClass, Result};
use crate::exposed::Exposed;
use crate::extras::Extras;
use crate::group::Group;

pub use crate::engine::one_sided::LockKind;
pub use access::{Ends, TargetBuffer};
pub use create::Allocation;
pub use direct::TargetElement;
pub use epoch::Assertion;
use epoch::Epoch;
pub(crate) use kept_locks::KeptLocks;
use target::Target;

/// Such calls take some tens of nanoseconds, a look a little longer.
const CALLS_BETWEEN_LOOKS: u32 = 64;

/// Origin of a window's memory (MPI 5.0, section 12.2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    /// The program brought it.
    Create,
    /// Weft allocated it.
    Allocate,
    /// It is attached and detached later.
    Dynamic,
    /// Weft allocated it, and all members load and store it.
    Shared,
}

impl Flavor {
    /// The call that makes a window of it.
    fn call(self) -> &'static str {
        match self {
            Self::Create => "MPI_Win_create",
            Self::Allocate => "MPI_Win_allocate",
            Self::Dynamic => "MPI_Win_create_dynamic",
            Self::Shared => "MPI_Win_allocate_shared",
        }
    }
}

/// A window. Collective calls are made by all its members in the same order.
#[derive(Debug)]
pub struct Window {
    /// The members, with a context of their own.
    comm: Arc<Comm>,
    flavor: Flavor,
    /// What this rank exposes.
    own: Region,
    unit: i64,
    targets: Box<[Target]>,
    epoch: Epoch,
    /// The lock words of all members, where all share memory.
    shared_locks: bool,
    /// How all members fence between the flags and the words of those locks.
    fences: FenceMode,
    /// Where the flag of this rank is among them.
    flag_at: usize,
    /// The time of this rank: that of the latest writer which it went past to share a lock that it has given back since.
    time: AtomicU64,
    /// Elements are combined under their lock, many at a time, and not one by one.
    coarse: bool,
    /// The block of shared memory that belongs to this rank, and those of other ranks that it uses.
    block: Option<SharedKey>,
    /// What the blocks of all members begin with: see [`shared_lock`].
    control: Option<SharedMemory>,
    /// The memory of all members, where it is one piece.
    whole: Option<SharedMemory>,
    /// The grant by which others reach the memory of the program.
    grant: Option<Token>,
    /// Whether others need the engine of this rank.
    needs_help: bool,
    /// Calls that needed no engine, modulo 2^32: see [`Window::look_at_times`].
    calls: AtomicU32,
    /// Whether any operation went by messages or by portal.
    used: AtomicBool,
    /// Operations carried out by loads and stores, modulo 2^32, and how many of them the engine has counted.
    direct: AtomicU32,
    told: AtomicU32,
    /// What this process has stored directly: see [`direct`].
    stores: Arc<StoresInFlight>,
    freed: AtomicBool,
    extras: Extras,
}

impl Window {
    /// Name, info, error handler and attributes.
    #[must_use]
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// Its members.
    #[must_use]
    pub fn group(&self) -> &Arc<Group> {
        self.comm.group()
    }

    /// The communicator of its members, which belongs to it.
    #[must_use]
    pub fn comm(&self) -> &Arc<Comm> {
        &self.comm
    }

    /// The origin of its memory.
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The memory that this rank exposes; in a dynamic window, a region without an address.
    #[must_use]
    pub fn memory(&self) -> Region {
        let own = &self.targets[self.comm.rank() as usize];
        own.attached().map_or(self.own, Exposed::region)
    }

    /// Bytes of a displacement of this rank.
    #[must_use]
    pub fn displacement_unit(&self) -> i64 {
        self.unit
    }

    /// Number of members.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        self.targets.len() as u32
    }

    fn context(&self) -> u32 {
        self.comm.context()
    }

    fn engine(&self) -> Guard<'_> {
        self.comm.process().lock()
    }

    /// Makes progress now and then: a rank that looks again and again what another has stored, by calls that need no engine,
    /// must not hold up what that other one waits for (MPI 5.0, section 2.9).
    #[inline(always)]
    fn look_at_times(&self) {
        // What threads count at the same time may be counted once: that costs no atomic instruction, and is often enough.
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
        if calls.is_multiple_of(CALLS_BETWEEN_LOOKS) {
            self.look();
        }
    }

    /// Makes progress.
    #[cold]
    fn look(&self) {
        let mut engine = self.engine();
        self.tell_counts(&mut engine);
        engine.look();
    }

    /// Tells the engine what was done without it.
    fn tell_counts(&self, engine: &mut Engine) {
        let direct = self.direct.load(Ordering::Relaxed);
        // The engine is the caller's, so that nobody else tells.
        let told = self.told.load(Ordering::Relaxed);
        self.told.store(direct, Ordering::Relaxed);
        engine.count_direct_operations(direct.wrapping_sub(told));
    }

    fn target(&self, rank: u32) -> Result<&Target> {
        self.targets
            .get(rank as usize)
            .ok_or_else(|| self.no_such_rank(rank))
    }

    #[cold]
    fn no_such_rank(&self, rank: u32) -> Error {
        Error::new(
            ErrorClass::Rank,
            format!(
                "there is no rank {rank}: the window has {} (0 to {}); check the rank against the group of the window",
                self.size(),
                self.size() - 1
            ),
        )
    }

    /// Makes progress until the window's state says that this has come.
    fn wait_until(
        &self,
        what: AtWindow<'_>,
        mut ready: impl FnMut(&mut WindowState) -> Option<Result<()>>,
    ) -> Result<()> {
        let context = self.context();
        let awaited = WaitFor::Window(context, what);
        self.engine()
            .wait_for(awaited, |engine| ready(engine.window(context)))
    }

    /// `MPI_Win_shared_query`: the memory of a rank as this process has it, with its displacement unit; for `None`, that of the
    /// lowest rank that has any. `None` if it is not shared with this process.
    ///
    /// # Errors
    /// `RmaFlavor` for a dynamic window, `Rank` for a rank that is none; `NoMem` if there is no address space for it.
    pub fn shared_query(&self, rank: Option<u32>) -> Result<Option<(Region, i64)>> {
        if self.flavor == Flavor::Dynamic {
            return Err(Error::new(
                ErrorClass::RmaFlavor,
                "a dynamic window has no shared memory; query one that MPI_Win_allocate_shared or MPI_Win_allocate has made",
            ));
        }
        let rank = match rank {
            Some(rank) => rank,
            None => {
                let first = self.targets.iter().position(|target| target.size() > 0);
                first.unwrap_or(0) as u32
            }
        };
        let target = self.target(rank)?;
        if rank == self.comm.rank() {
            return Ok(Some((self.memory(), target.unit())));
        }
        let exposed = self.reach(rank)?;
        Ok(exposed.map(|exposed| (exposed.region(), target.unit())))
    }

    /// Whether it may be freed now.
    ///
    /// # Errors
    /// `RmaSync` if an epoch is open.
    pub fn check_free(&self) -> Result<()> {
        self.epoch.check_free()
    }

    /// `MPI_Win_free`: collective. All accesses to the window have been made when it returns.
    ///
    /// # Errors
    /// `RmaSync` if an epoch is open; what the barrier failed with: the window is freed all the same.
    pub fn free(&self) -> Result<()> {
        self.epoch.check_free()?;
        let flushed = self.flush_members(None);
        let met = self.barrier();
        self.release();
        flushed.and(met)
    }

    /// Gives back what it has of the engine and the fabric.
    fn release(&self) {
        if self.freed.swap(true, Ordering::Relaxed) {
            return;
        }
        self.comm.leave_board();
        let mut engine = self.engine();
        self.tell_counts(&mut engine);
        engine.close_window(self.context());
        engine.release_window_memory(self.grant, self.block);
        drop(engine);
        if self.needs_help {
            self.comm.process().helper.end();
        }
    }
}
