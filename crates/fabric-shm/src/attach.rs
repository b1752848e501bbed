//! Joining a job: by the descriptor that the launcher handed over, alone, or as a group within one
//! process. Joining waits for nobody.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_atomic::{FenceMode, Ordering};
use weft_fabric::{FabricError, Result, SignalTable};
use weft_sys::{Mapping, MemoryFile, clock, membarrier, random};

use crate::bell::ShmBell;
use crate::chunks::Chunks;
use crate::endpoint::Shm;
use crate::grants::GrantTable;
use crate::lane::{InLane, OutLane};
use crate::layout::{self, ProcessState, Segment};
use crate::news::Attention;
use crate::options::Options;
use crate::portal::Way;

/// From this size on one copy by the kernel beats two through the lane, the message that carries the
/// token included. Measured one way: 4 KiB 0.86 against 0.15 + 0.56 µs, 8 KiB about 1.5 against
/// 0.15 + 0.66 µs; at 4 KiB the sender's wait for the end decides for the lane.
const BULK: usize = 8 << 10;

fn system(error: std::io::Error) -> FabricError {
    FabricError::System {
        what: error.to_string(),
    }
}

/// A fresh segment for so many ranks.
fn fresh(ranks: u32) -> Result<Mapping> {
    let Some(length) = layout::segment_size(ranks) else {
        return Err(FabricError::System {
            what: format!(
                "a job of {ranks} ranks on one host was asked for; between 1 and {} are possible",
                layout::MAX_RANKS
            ),
        });
    };
    let file = MemoryFile::create("weft", length).map_err(system)?;
    let mapping = file.map().map_err(system)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    layout::initialise(&mapping, ranks, u32::try_from(cores).unwrap_or(u32::MAX))?;
    Ok(mapping)
}

impl Shm {
    /// Joins the job whose segment the launcher has handed over as a descriptor.
    ///
    /// # Errors
    /// [`FabricError::System`] if it is no segment of this release, or the rank is taken.
    pub fn attach(segment: OwnedFd, rank: u32) -> Result<Self> {
        Self::attach_with(segment, rank, &Options::default())
    }

    /// As [`attach`](Self::attach), with options.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_with(segment: OwnedFd, rank: u32, options: &Options) -> Result<Self> {
        let mapping = MemoryFile::adopt(segment)
            .and_then(|file| file.map())
            .map_err(system)?;
        let segment = Segment::open(mapping)?;
        if rank >= segment.members() {
            return Err(FabricError::System {
                what: format!(
                    "rank {rank} was to join a job of {} ranks: the launcher and the environment \
                     of this process disagree",
                    segment.members()
                ),
            });
        }
        let seat = segment.seat_of(rank);
        Self::join(segment, seat, options)
    }

    /// A job of one rank, with a segment of its own.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn solo() -> Result<Self> {
        Self::join(Segment::open(fresh(1)?)?, 0, &Options::default())
    }

    /// All endpoints of a job of `ranks` in this process, for threads and tests.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn group(ranks: u32) -> Result<Vec<Self>> {
        Self::group_with(ranks, &Options::default())
    }

    /// As [`group`](Self::group), with options.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn group_with(ranks: u32, options: &Options) -> Result<Vec<Self>> {
        let segment = Segment::open(fresh(ranks)?)?;
        let mut group = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks {
            let mut member = Self::join(segment.clone(), rank, options)?;
            if member.options_refuse.is_none() {
                // The segment has no other mapping: see the safety argument of `portal.rs`.
                member.ways.fill(Way::Copy);
            }
            group.push(member);
        }
        Ok(group)
    }

    pub(crate) fn join(segment: Arc<Segment>, rank: u32, options: &Options) -> Result<Self> {
        let shape = *segment.shape();
        if rank >= shape.ranks {
            return Err(FabricError::System {
                what: format!(
                    "rank {rank} was to join a job of {} ranks: the launcher and the environment \
                     of this process disagree",
                    shape.ranks
                ),
            });
        }
        let identity = &segment.control(rank).identity;
        let process = std::process::id();
        if let Err(other) =
            identity
                .process
                .compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire)
        {
            return Err(FabricError::System {
                what: format!(
                    "rank {rank} has joined already, as process {other}: one process of each rank \
                     may initialise MPI, and only once"
                ),
            });
        }
        let secret = Box::new(random::bytes::<16>().map_err(system)?);
        for (word, bytes) in identity.secret.iter().zip(secret.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let address = secret.as_ptr().addr() as u64;
        identity.secret_address.store(address, Ordering::Relaxed);
        identity.since.store(clock::monotonic(), Ordering::Relaxed);
        // Asking the kernel to fence other cores costs a sleeper 0.2 µs if they are idle and 1.5 µs if
        // they run; it saves each sender the wait until its slot has reached the cache. It pays as long
        // as ranks rarely sleep: while each can have a core.
        let cores = segment.header().cores.load(Ordering::Relaxed);
        let registered = options.fences_on_others(segment.members() <= cores)
            && membarrier::register_all().is_available();
        if registered {
            // Before we first sleep or demote a lane: see `news.rs`. SYNC rank.fences.
            segment.control(rank).fences.store(1, Ordering::Release);
        }
        let mode = if registered {
            FenceMode::Asymmetric
        } else {
            FenceMode::Symmetric
        };
        segment.header().run_states.join(rank);
        // SYNC rank.joined.
        identity
            .state
            .store(ProcessState::Joined as u32, Ordering::Release);
        let peers = 0..shape.ranks;
        Ok(Self {
            me: rank,
            out: peers
                .clone()
                .map(|peer| OutLane::new(&segment, rank, peer))
                .collect(),
            lanes: peers
                .clone()
                .map(|peer| InLane::new(&segment, peer, rank))
                .collect(),
            attention: Attention::new(shape.ranks as usize),
            signals: SignalTable::default(),
            bell: Arc::new(ShmBell::new(segment.clone(), rank, mode)),
            grants: GrantTable::new(rank, options.direct_grants.min(shape.grants)),
            ways: vec![Way::Unknown; shape.ranks as usize],
            chunks: Chunks::new(shape.data.min(shape.bulk / 4)),
            helps: VecDeque::new(),
            ticket: 0,
            assist: options.assist,
            patience: options.patience,
            options_refuse: options.refuses_attach(),
            gone: HashMap::new(),
            abort_said: false,
            changes_seen: 0,
            cold_first: false,
            turn: 0,
            registered,
            data: shape.data as usize,
            bulk: BULK.min(shape.data as usize),
            segment,
            _secret: secret,
        })
    }
}
