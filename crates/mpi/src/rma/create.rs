//! Making windows (MPI 5.0, section 12.2): what each member exposes, and what it tells the others about it.
//!
//! ```text
//!   a communicator of the window's own
//!   sizes, displacement units, who shares memory   ──► all
//!   blocks of shared memory, grants                ──► all
//! ```
//!
//! A member says whether it could do its part, so that all of them fail together. The engine knows the window before the
//! last exchange: a member that has heard from all may use it at once.

use std::sync::{Arc, OnceLock};

use weft_atomic::{AtomicBool, AtomicU32, AtomicU64, FenceMode};
use weft_fabric::{Region, SharedBlock};
use weft_sys::{SharedMemory, membarrier};

use super::epoch::Epoch;
use super::hints;
use super::shared_lock;
use super::target::{Description, SharedPlace, Target};
use super::{Flavor, Window};
use crate::buffer::{self, Buffer};
use crate::coll::{self, Blocks, Members};
use crate::comm::Comm;
use crate::engine::one_sided::{Attached, WindowMemory, WindowState};
use crate::error::{Error, ErrorClass, Result};
use crate::exposed::{ElementLock, Exposed};
use crate::extras::Extras;
use crate::info::Info;

/// The memory that a member exposes when the window is made.
#[derive(Clone, Copy, Debug)]
pub enum Allocation {
    /// Memory of the program, which stays valid until the window is freed.
    OfProgram(Region),
    /// So many bytes, which Weft allocates.
    OfWeft(usize),
    /// Nothing yet.
    Later,
}

/// What a member has allocated.
struct Own {
    exposed: Option<Exposed>,
    /// Its block, which begins with its lock words.
    block: Option<SharedBlock>,
    control: Option<SharedMemory>,
}

impl Window {
    /// Makes a window: collective over `comm`. `unit`: bytes of a displacement of this rank, at least 1.
    ///
    /// # Errors
    /// `Comm` for an intercommunicator, `Disp` for a unit below 1, `NoMem`, `RmaShared` for a window of shared memory whose members
    /// do not share any; `Other` if another member failed.
    pub fn new(
        comm: &Arc<Comm>,
        flavor: Flavor,
        allocation: Allocation,
        unit: i64,
        info: &Info,
    ) -> Result<Arc<Self>> {
        comm.check_intra("a window")?;
        if unit < 1 {
            return Err(Error::new(
                ErrorClass::Disp,
                format!("a displacement unit of {unit} bytes; it must be at least 1"),
            ));
        }
        let info = hints::of_new(flavor, info)?;
        let comm = comm.dup_in_first(flavor.call())?;
        let size = match allocation {
            Allocation::OfProgram(region) => region.len(),
            Allocation::OfWeft(size) => size,
            Allocation::Later => 0,
        };
        let mut own = Description {
            size: size as u64,
            unit,
            block: None,
            token: None,
            shares: shares_with_all(&comm),
            failed: false,
            fences: has_fences(),
            granularity: hints::granularity(&info),
        };
        let all = exchange(&comm, &own)?;
        let all_share = all.iter().all(|member| member.shares);
        let coarse = hints::is_coarse(&all);
        let fences = if all.iter().all(|member| member.fences) {
            FenceMode::Asymmetric
        } else {
            FenceMode::Symmetric
        };
        let alone = comm.size() == 1;
        let contiguous = flavor == Flavor::Shared && !alone && !hints::is_true(&info, hints::APART);
        let made = if flavor == Flavor::Shared && !all_share && !alone {
            Err(not_shared())
        } else {
            allocate(&comm, allocation, all_share, contiguous, &all)
        };
        let (made, failure) = match made {
            Ok(made) => (made, None),
            Err(error) => (
                Own {
                    exposed: None,
                    block: None,
                    control: None,
                },
                Some(error),
            ),
        };
        own.failed = failure.is_some();
        own.block = made.block.as_ref().map(|block| block.key);
        let exposed = made.exposed.clone();
        if let Some(exposed) = exposed.as_ref().filter(|_| !contiguous) {
            own.token = grant(&comm, exposed, flavor, all_share);
        }
        let memory = match (flavor, exposed) {
            (Flavor::Dynamic, _) => WindowMemory::Attached(Attached::default()),
            (_, Some(exposed)) => WindowMemory::Fixed(exposed),
            (_, None) => WindowMemory::Fixed(Exposed::new(Region::EMPTY, ElementLock::Engine)),
        };
        comm.process()
            .lock()
            .open_window(comm.context(), WindowState::new(memory, comm.group()));
        let all = exchange(&comm, &own);
        let targets = all.as_ref().map_or_else(
            |_| Box::default(),
            |all| targets(&comm, flavor, contiguous, all),
        );
        let whole = match &all {
            Ok(all) if contiguous && failed(all).is_none() => attach_whole(&comm, all),
            _ => Ok(None),
        };
        let (whole, failure) = match whole {
            Ok(whole) => (whole, failure),
            Err(error) => (None, failure.or(Some(error))),
        };
        let window = Self {
            whole,
            epoch: Epoch::new(targets.len() as u32),
            coarse,
            shared_locks: all_share && all.as_ref().is_ok_and(|all| has_blocks(all)),
            fences,
            flag_at: shared_lock::flag_at(comm.size(), comm.rank()),
            time: AtomicU64::new(0),
            flavor,
            own: made.exposed.as_ref().map_or(Region::EMPTY, Exposed::region),
            unit,
            targets,
            block: own.block,
            control: made.control,
            grant: own.token,
            needs_help: comm.size() > 1
                && (!all_share || matches!(flavor, Flavor::Create | Flavor::Dynamic)),
            calls: AtomicU32::new(0),
            used: AtomicBool::new(false),
            direct: AtomicU32::new(0),
            told: AtomicU32::new(0),
            stores: Arc::clone(&comm.process().stores),
            freed: AtomicBool::new(false),
            extras: Extras::default(),
            comm,
        };
        *window.extras.info() = info;
        if window.needs_help {
            window.comm.process().helper.begin(window.comm.process());
        }
        let failed = match (&all, failure) {
            (_, Some(error)) => Some(error),
            (Err(error), None) => Some(error.clone()),
            (Ok(all), None) => failed(all),
        };
        if let Some(error) = failed {
            window.release();
            return Err(error);
        }
        window.settle(made.exposed, contiguous)?;
        let address = window.memory().as_ptr().addr();
        hints::state_alignment(&mut window.extras.info(), address)?;
        let window = Arc::new(window);
        window.comm.process().kept_locks.add(&window);
        Ok(window)
    }

    /// This rank knows its own memory without asking.
    fn settle(&self, exposed: Option<Exposed>, contiguous: bool) -> Result<()> {
        let own = &self.targets[self.comm.rank() as usize];
        if let Some(control) = &self.control {
            own.attach_control(control.clone());
        }
        if contiguous {
            // In the block of the first rank.
            let exposed = self.reach(self.comm.rank())?.cloned();
            let mut engine = self.engine();
            if let (Some(exposed), WindowMemory::Fixed(memory)) =
                (exposed, engine.window(self.context()).memory_mut())
            {
                *memory = exposed;
            }
        } else if let Some(exposed) = exposed.filter(Exposed::is_shared) {
            own.attach(exposed);
        }
        Ok(())
    }
}

/// The memory of all members in one piece, which the first of them has allocated.
fn attach_whole(comm: &Comm, all: &[Description]) -> Result<Option<SharedMemory>> {
    let Some(key) = all[0].block else {
        return Ok(None);
    };
    let bytes = whole_bytes(all)?.saturating_add(shared_lock::bytes(comm.size()));
    let mut engine = comm.process().lock();
    let memory = engine.attach_shared(comm.group().peer(0), key, bytes);
    memory.map(Some)
}

/// Bytes of all members together.
fn whole_bytes(all: &[Description]) -> Result<usize> {
    let mut sizes = all.iter().map(|member| usize::try_from(member.size).ok());
    let sum = sizes.try_fold(0usize, |sum, size| sum.checked_add(size?));
    sum.ok_or_else(too_much)
}

fn not_shared() -> Error {
    Error::new(
        ErrorClass::RmaShared,
        "the members of the communicator do not share memory; take one of a single host (MPI_Comm_split_type with MPI_COMM_TYPE_SHARED)",
    )
}

/// What all say if one of them failed.
fn failed(all: &[Description]) -> Option<Error> {
    let rank = all.iter().position(|member| member.failed)?;
    Some(Error::new(
        ErrorClass::Other,
        format!(
            "rank {rank} of the communicator could not make its part of the window; see its own error"
        ),
    ))
}

/// Whether this process is registered for fences on other cores. The kernel is asked once: that takes a fence on all cores on which any
/// registered process runs.
fn has_fences() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier::register_all().is_available())
}

fn has_blocks(all: &[Description]) -> bool {
    all.iter().all(|member| member.block.is_some())
}

fn shares_with_all(comm: &Comm) -> bool {
    let engine = comm.process().lock();
    comm.group()
        .members()
        .all(|peer| engine.shares_memory(peer))
}

/// Allocates what this rank exposes, and its lock words.
fn allocate(
    comm: &Comm,
    allocation: Allocation,
    all_share: bool,
    contiguous: bool,
    all: &[Description],
) -> Result<Own> {
    let words = shared_lock::bytes(comm.size());
    let bytes = match allocation {
        Allocation::OfWeft(_) if contiguous && comm.rank() == 0 => whole_bytes(all)?,
        Allocation::OfWeft(_) if contiguous => 0,
        Allocation::OfWeft(size) => size,
        Allocation::OfProgram(_) | Allocation::Later => 0,
    };
    let whole = words.checked_add(bytes).ok_or_else(too_much)?;
    let mut engine = comm.process().lock();
    let own = matches!(allocation, Allocation::OfWeft(_));
    let some_share = comm
        .group()
        .members()
        .any(|peer| peer != comm.process().me() && engine.shares_memory(peer));
    let (memory, block) = if all_share || own && some_share {
        let block = engine.allocate_shared(whole)?;
        (block.memory.clone(), Some(block))
    } else if own {
        (private(whole)?, None)
    } else {
        let exposed = match allocation {
            Allocation::OfProgram(region) => Some(Exposed::new(region, ElementLock::Engine)),
            Allocation::OfWeft(_) | Allocation::Later => None,
        };
        return Ok(Own {
            exposed,
            block: None,
            control: None,
        });
    };
    let control = memory.part(0, words);
    let lock = control.as_ref().map_or(ElementLock::Engine, |control| {
        shared_lock::element_lock(control, comm.rank(), hints::is_coarse(all))
    });
    let exposed = match allocation {
        Allocation::OfProgram(region) => Some(Exposed::new(region, ElementLock::Engine)),
        Allocation::OfWeft(size) if !contiguous => Exposed::shared(&memory, words, size, lock),
        Allocation::OfWeft(_) | Allocation::Later => None,
    };
    Ok(Own {
        exposed,
        block,
        control,
    })
}

#[cold]
fn too_much() -> Error {
    Error::new(
        ErrorClass::NoMem,
        "the members of the window together ask for more memory than there are addresses; ask for less",
    )
}

/// Memory that nobody shares.
fn private(bytes: usize) -> Result<SharedMemory> {
    SharedMemory::of_this_process(bytes).map_err(|error| {
        Error::new(
            ErrorClass::NoMem,
            format!("{bytes} bytes for a window cannot be had: {error}; ask for less"),
        )
    })
}

/// The grant by which those reach the memory who do not share it. Without one, messages do.
fn grant(
    comm: &Comm,
    exposed: &Exposed,
    flavor: Flavor,
    all_share: bool,
) -> Option<weft_fabric::Token> {
    let needed = flavor == Flavor::Create || !all_share;
    if !needed || exposed.region().is_empty() || comm.size() == 1 {
        return None;
    }
    comm.process().lock().grant_window(exposed.region()).ok()
}

/// What all have told.
fn exchange(comm: &Comm, own: &Description) -> Result<Vec<Description>> {
    let members = Members::of(comm);
    let mut mine = own.to_bytes();
    let mut all = vec![0; members.size * Description::BYTES];
    let region = buffer::region_of(&mut all);
    let part = |rank: usize| region.part(rank * Description::BYTES, Description::BYTES);
    let block = |rank| Buffer::untyped(part(rank).unwrap_or(Region::EMPTY));
    let blocks = Blocks::of((0..members.size).map(block).collect());
    let mine = Buffer::untyped(buffer::region_of(&mut mine));
    comm.run(coll::allgather(&members, Some(&mine), &blocks)?)?;
    let described = all.chunks_exact(Description::BYTES);
    Ok(described.map(Description::from_bytes).collect())
}

/// The members as this rank reaches them.
fn targets(comm: &Comm, flavor: Flavor, contiguous: bool, all: &[Description]) -> Box<[Target]> {
    let engine = comm.process().lock();
    let words = shared_lock::bytes(comm.size());
    let has_memory = matches!(flavor, Flavor::Allocate | Flavor::Shared);
    let mut before = words;
    let mut targets = Vec::with_capacity(all.len());
    for (rank, member) in (0..).zip(all) {
        let shares = engine.shares_memory(comm.group().peer(rank));
        let block = member.block.filter(|_| shares);
        let place = if contiguous {
            let place = all[0].block.map(|key| SharedPlace {
                owner: 0,
                key,
                offset: before,
            });
            before = before.saturating_add(usize::try_from(member.size).unwrap_or(usize::MAX));
            place
        } else {
            block.map(|key| SharedPlace {
                owner: rank,
                key,
                offset: words,
            })
        };
        targets.push(Target::new(
            member,
            place.filter(|_| has_memory && shares),
            block,
        ));
    }
    targets.into()
}
