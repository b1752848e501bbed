//! The segment: where everything stands in the one shared memory file, and who may write it.
//!
//! ```text
//!   0        Header      one: magic, version, ranks, cores, aborted │ who is here, who sleeps
//!   4096     Control     one per rank: doorbell │ news │ who it is
//!   …        Grant       a table per rank: what it lets others read or write
//!   …        lane        one per ordered pair, grouped by receiver: LaneHead │ slots │ bulk
//! ```
//!
//! Every part starts on a page or at least on cache lines of its own; pages that nobody touches take
//! no memory, so a lane costs something only when it is first used.
//!
//! # Who may touch what
//! | part | written by | read by |
//! |---|---|---|
//! | Header | the launcher, before any rank starts; `run_states` by whoever joins, leaves, falls asleep, wakes, or wakes another, and by the launcher for the dead; `aborted` by the first rank that aborts | all |
//! | Control: doorbell | its rank; peers that ring; the launcher, and who aborts | all |
//! | Control: news | peers add, its rank takes | its rank |
//! | Control: identity | its rank; the launcher may read | all |
//! | Control: presence | its rank | the owner of the grant that it is inside of |
//! | Control: pad | its rank; the peer that helps it | both |
//! | Grant | its owner; a user counts itself in and out of `admission` | all |
//! | LaneHead | the receiver of the lane | its sender |
//! | slots, bulk | the sender of the lane | its receiver |
//!
//! # Safety
//! All processes of the job map all of it, so anything in it may hold anything at any time. Nothing
//! here is therefore a `&` to plain data: shared structures consist of atomics, and the bytes of
//! messages are reached by pointers and copied once. Offsets come from [`Shape`], which is computed
//! from the number of ranks and compared with the size of the mapping, never read from the segment.

use std::sync::Arc;

use weft_atomic::admission::{Admission, Presence};
use weft_atomic::{AtomicI32, AtomicU32, AtomicU64, CacheLine, Doorbell, Ordering};
use weft_fabric::{FabricError, Result};
use weft_sys::Mapping;

use crate::assist::Pad;
use crate::lane::{LaneHead, Slot};
use crate::run_states::RunStates;

/// "weft shm" in the first eight bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"weft shm");

/// Changes whenever anything in the segment moves or changes its meaning.
const VERSION: u32 = 3;

/// So many ranks fit the two-level news set with one summary word.
pub const MAX_RANKS: u32 = 4096;

const PAGE: usize = 4096;

/// Words of the news set.
const NEWS_WORDS: usize = MAX_RANKS as usize / 64;

/// Process states, as the launcher reads them by [`Watch`](crate::Watch).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ProcessState {
    /// Has not attached.
    Absent = 0,
    /// Has attached: it knows its rank.
    Joined = 1,
    /// Has initialised MPI.
    Initialised = 2,
    /// Has finalised MPI, or left the job in order.
    Finalised = 3,
}

impl ProcessState {
    /// The state from its number; anything unknown counts as joined, which promises least.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Absent,
            2 => Self::Initialised,
            3 => Self::Finalised,
            _ => Self::Joined,
        }
    }
}

/// The start of the segment.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    /// [`MAGIC`], written last. SYNC segment.ready.
    magic: AtomicU64,
    version: AtomicU32,
    ranks: AtomicU32,
    /// Bytes in all, as the maker computed them: two builds that disagree find out here.
    total: AtomicU64,
    /// Cores that the job may use.
    pub cores: AtomicU32,
    /// The first rank that aborted, plus one. SYNC job.abort.
    pub aborted: AtomicU32,
    /// Grows whenever the launcher has changed the fate of a seat. SYNC job.changes.
    pub changes: AtomicU32,
    /// Ranks of the job: seats below it are theirs from the start, the others are spare.
    members: AtomicU32,
    /// Who is here, and who of them sleeps.
    pub run_states: CacheLine<RunStates>,
}

/// What each rank shows to the others.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Control {
    /// Where its threads sleep. The one line here that a sender reads for each message.
    pub doorbell: Doorbell,
    /// 1 once it has shown that it can fence other cores: peers may then fence lightly towards it.
    pub fences: AtomicU32,
    /// Summary of `words`.
    pub summary: CacheLine<[AtomicU64; 1]>,
    /// Bit p: the lane from p may hold something, and is not polled directly.
    pub words: CacheLine<[AtomicU64; NEWS_WORDS]>,
    /// Who it is: written once when it attaches.
    pub identity: CacheLine<Identity>,
    /// What it shows while it moves bytes by a grant of another rank.
    pub mover: CacheLine<Mover>,
}

/// What a rank shows while it moves bytes by a grant of another rank.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Mover {
    /// Inside of which grant it is: see `grants.rs`.
    pub presence: Presence,
    /// Where it shares out the blocks of a large transfer.
    pub pad: Pad,
}

/// Who a rank is. `state` is written last. SYNC rank.joined.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Identity {
    pub state: AtomicU32,
    /// Its process id, as it sees it itself: in another PID namespace this may be somebody else.
    pub process: AtomicU32,
    /// Nanoseconds of the monotonic clock when it attached.
    pub since: AtomicU64,
    /// Where in its own memory it keeps `secret`, for proving that `process` is the right one.
    pub secret_address: AtomicU64,
    pub secret: [AtomicU64; 2],
    /// What it aborted with, once [`Header::aborted`] or `abort_set` says so.
    pub abort_code: AtomicI32,
    pub abort_set: AtomicU32,
    /// How its process ended, by the launcher: 0 while it has not, see `seats.rs`.
    pub fate: AtomicU32,
    /// The seat of the process that was started in its place, plus one.
    pub successor: AtomicU32,
    /// Of a spare seat: the rank that has it, plus one.
    pub member: AtomicU32,
}

/// One grant of a rank, see `grants.rs`.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct GrantRecord {
    pub admission: Admission,
    pub start: AtomicU64,
    pub length: AtomicU64,
    /// Who may use it, plus one; 0 for anybody.
    pub peer: AtomicU32,
}

const _: () = {
    // Each rank is inside of one grant at a time.
    assert!(MAX_RANKS as u64 <= weft_atomic::admission::MOST_USERS);
    assert!(size_of::<Header>() <= PAGE);
    assert!(size_of::<Control>() == 1024);
    assert!(std::mem::offset_of!(Control, doorbell) == 0);
    assert!(std::mem::offset_of!(Control, fences) == 64);
    assert!(size_of::<GrantRecord>() == 64);
    assert!(size_of::<Slot>() == 128);
    assert!(size_of::<LaneHead>() == 128);
};

/// The sizes of a segment: a function of the number of ranks and of nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub ranks: u32,
    /// Slots of a lane; a power of two.
    pub slots: u32,
    /// Bytes of a lane's bulk area; a multiple of 64.
    pub bulk: u32,
    /// Longest data part of one message; at most ⅜ of `bulk`, see `lane.rs` for why.
    pub data: u32,
    /// Records of a rank's grants. What is granted beyond goes through chunks.
    pub grants: u32,
    grants_at: usize,
    lanes_at: usize,
    lane: usize,
    pub total: usize,
}

impl Shape {
    /// The shape for so many ranks; `None` if there are none or too many.
    pub fn of(ranks: u32) -> Option<Self> {
        let (slots, bulk, data, grants) = match ranks {
            // Short histories come to the end of a lane.
            1..=8 if cfg!(fault_points) => (8, 12 << 10, 4 << 10, 64),
            1..=8 => (256, 128 << 10, 16 << 10, 16 << 10),
            9..=16 => (128, 128 << 10, 16 << 10, 8 << 10),
            17..=64 => (64, 44 << 10, 16 << 10, 2 << 10),
            65..=256 => (32, 24 << 10, 8 << 10, 1 << 10),
            257..=MAX_RANKS => (16, 12 << 10, 4 << 10, 1 << 10),
            _ => return None,
        };
        let count = ranks as usize;
        let page = |bytes: usize| bytes.next_multiple_of(PAGE);
        let grants_at = PAGE + page(count * size_of::<Control>());
        let lanes_at = grants_at + count * page(grants as usize * size_of::<GrantRecord>());
        let lane = page(size_of::<LaneHead>() + slots as usize * size_of::<Slot>() + bulk as usize);
        Some(Self {
            ranks,
            slots,
            bulk,
            data,
            grants,
            grants_at,
            lanes_at,
            lane,
            total: lanes_at + count * count * lane,
        })
    }

    fn control_at(&self, rank: u32) -> usize {
        PAGE + rank as usize * size_of::<Control>()
    }

    fn grant_at(&self, rank: u32, index: u32) -> usize {
        let table = (self.grants as usize * size_of::<GrantRecord>()).next_multiple_of(PAGE);
        self.grants_at + rank as usize * table + index as usize * size_of::<GrantRecord>()
    }

    fn lane_at(&self, from: u32, to: u32) -> usize {
        self.lanes_at + (to as usize * self.ranks as usize + from as usize) * self.lane
    }
}

/// Bytes of the segment of a job of so many ranks; `None` if there are none, or more than
/// [`MAX_RANKS`]. This is address space: memory is taken by what is touched.
#[must_use]
pub fn segment_size(ranks: u32) -> Option<usize> {
    Shape::of(ranks).map(|shape| shape.total)
}

/// Prepares a fresh segment (all zeros) for a job of `ranks` ranks on `cores` cores. The launcher
/// calls this once, before it starts the first rank.
///
/// # Errors
/// If the mapping does not have the size that [`segment_size`] asks for.
pub fn initialise(mapping: &Mapping, ranks: u32, cores: u32) -> Result<()> {
    initialise_with_spares(mapping, ranks, 0, cores)
}

/// As [`initialise`], for a job of `members` ranks with `spares` seats more, so that as many processes
/// can be started in place of others that died. The segment has the size for `members + spares`.
///
/// # Errors
/// As [`initialise`].
pub fn initialise_with_spares(
    mapping: &Mapping,
    members: u32,
    spares: u32,
    cores: u32,
) -> Result<()> {
    let ranks = members.saturating_add(spares);
    let shape = Shape::of(ranks).filter(|shape| shape.total == mapping.len());
    let Some(shape) = shape else {
        return Err(FabricError::System {
            what: format!(
                "a segment of {} bytes was offered for {ranks} ranks; {} are needed (at most \
                 {MAX_RANKS} ranks): ask segment_size for the size",
                mapping.len(),
                segment_size(ranks).unwrap_or(0),
            ),
        });
    };
    let header = header_of(mapping)?;
    header.version.store(VERSION, Ordering::Relaxed);
    header.ranks.store(ranks, Ordering::Relaxed);
    header.members.store(members, Ordering::Relaxed);
    header.total.store(shape.total as u64, Ordering::Relaxed);
    header.cores.store(cores.max(1), Ordering::Relaxed);
    // SYNC segment.ready.
    header.magic.store(MAGIC, Ordering::Release);
    Ok(())
}

fn header_of(mapping: &Mapping) -> Result<&Header> {
    let place = mapping
        .place(0, PAGE, align_of::<Header>())
        .ok_or_else(|| FabricError::System {
            what: format!(
                "the shared memory handed over has {} bytes, which is no segment of a job",
                mapping.len()
            ),
        })?;
    // SAFETY: within the mapping, which lives as long as the borrow; aligned; all atomics.
    Ok(unsafe { place.cast::<Header>().as_ref() })
}

/// The segment as mapped by this process. Cheap to share: one per process and endpoint.
#[derive(Debug)]
pub(crate) struct Segment {
    mapping: Mapping,
    shape: Shape,
    members: u32,
}

impl Segment {
    /// Checks a mapping that somebody else prepared.
    pub fn open(mapping: Mapping) -> Result<Arc<Self>> {
        let refuse = |what: String| Err(FabricError::System { what });
        let header = header_of(&mapping)?;
        // SYNC segment.ready.
        let magic = header.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return refuse(format!(
                "the shared memory handed over starts with {magic:#018x}, not with the mark of a \
                 weft segment: was the program started by this launcher?"
            ));
        }
        let version = header.version.load(Ordering::Relaxed);
        let ranks = header.ranks.load(Ordering::Relaxed);
        let total = header.total.load(Ordering::Relaxed);
        let members = header.members.load(Ordering::Relaxed);
        if version != VERSION {
            return refuse(format!(
                "the launcher made a segment of layout {version}, this library knows layout \
                 {VERSION}: use the launcher and the library of one release"
            ));
        }
        match Shape::of(ranks) {
            Some(shape)
                if shape.total == mapping.len()
                    && shape.total as u64 == total
                    && (1..=ranks).contains(&members) =>
            {
                Ok(Arc::new(Self {
                    mapping,
                    shape,
                    members,
                }))
            }
            _ => refuse(format!(
                "the segment says that it holds {ranks} ranks in {total} bytes, but has {} bytes: \
                 use the launcher and the library of one release",
                mapping.len()
            )),
        }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many ranks the job has. More seats than that are spare.
    pub fn members(&self) -> u32 {
        self.members
    }

    pub fn header(&self) -> &Header {
        // SAFETY: `open` found a page here, aligned; the mapping lives as long as `self`; all atomics.
        unsafe { &*self.mapping.as_ptr().cast::<Header>() }
    }

    /// The control block of a rank. Panics if there is no such rank: callers check what they get
    /// from outside.
    #[inline]
    pub fn control(&self, rank: u32) -> &Control {
        assert!(rank < self.shape.ranks);
        // SAFETY: `Shape` places the block within `total`, which `open` compared with the mapping;
        // aligned to 128 bytes from the page; all atomics; lives as long as `self`.
        unsafe {
            &*self
                .mapping
                .as_ptr()
                .add(self.shape.control_at(rank))
                .cast::<Control>()
        }
    }

    /// A grant record of a rank; `None` if there is no such record.
    pub fn grant(&self, rank: u32, index: u32) -> Option<&GrantRecord> {
        if rank >= self.shape.ranks || index >= self.shape.grants {
            return None;
        }
        // SAFETY: in bounds by the check and by `Shape`, aligned to 64; all atomics.
        Some(unsafe {
            &*self
                .mapping
                .as_ptr()
                .add(self.shape.grant_at(rank, index))
                .cast::<GrantRecord>()
        })
    }

    /// Where the lane from one rank to another starts: a [`LaneHead`], the slots, the bulk area.
    pub fn lane(&self, from: u32, to: u32) -> *mut u8 {
        assert!(from < self.shape.ranks && to < self.shape.ranks);
        // SAFETY: `Shape` places the whole lane within the mapping.
        unsafe { self.mapping.as_ptr().add(self.shape.lane_at(from, to)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_keep_their_promises() {
        for ranks in [1, 2, 8, 9, 16, 17, 64, 65, 256, 257, 1024, MAX_RANKS] {
            let shape = Shape::of(ranks).expect("a shape");
            assert!(shape.slots.is_power_of_two() && shape.slots >= 8);
            assert!(shape.bulk.is_multiple_of(64));
            assert!(shape.data >= 4096, "the contract");
            assert!(shape.data * 8 <= shape.bulk * 3, "see lane.rs");
            let last = shape.lane_at(ranks - 1, ranks - 1) + shape.lane;
            assert_eq!(last, shape.total);
            assert!(shape.grant_at(ranks - 1, shape.grants - 1) + 64 <= shape.lanes_at);
            assert!(shape.control_at(ranks - 1) + 1024 <= shape.grants_at);
        }
        assert!(segment_size(64).expect("fits") <= 256 << 20);
        assert!(segment_size(0).is_none() && segment_size(MAX_RANKS + 1).is_none());
    }

    #[test]
    fn a_wrong_segment_is_refused_with_a_reason() {
        let small = Mapping::private(100).expect("maps");
        assert!(initialise(&small, 2, 2).is_err());
        assert!(Segment::open(small).is_err());
        let zeros = Mapping::private(segment_size(2).expect("fits")).expect("maps");
        let error = Segment::open(zeros).expect_err("not initialised");
        assert!(error.to_string().contains("launcher"), "{error}");
        let other = Mapping::private(segment_size(2).expect("fits")).expect("maps");
        initialise(&other, 2, 2).expect("the right size");
        header_of(&other)
            .expect("a page")
            .ranks
            .store(3, Ordering::Relaxed);
        assert!(Segment::open(other).is_err(), "size and ranks disagree");
    }
}
