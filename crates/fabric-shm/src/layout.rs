//! Layout of the segment: the structures of the one shared memory file, their places, and who may write them.
//!
//! ```text
//!   0        Header      one: magic, version, process slots, cores, aborted │ run states
//!   4096     Control     one per process slot: doorbell, core │ pending lanes │ identity
//!   …        Grant       a table per process slot: what it lets others read or write
//!   …        lane        one per ordered pair, grouped by receiver: LaneHead │ lane slots │ bulk
//!   …        Control, Grant, lane once more for each further channel
//!   …        addresses   a record for each process of the job, on whatever host (`addresses.rs`)
//! ```
//!
//! A *process slot* is what one process of the job has in the segment: a control block, a table of grants and
//! its lanes. Each rank has one from the start; then comes the *room* for processes that the job starts later; the
//! last ones are spare (`slots.rs`). A *lane slot* is one element of a lane's ring (`lane.rs`).
//!
//! Every part starts on a page or at least on cache lines of its own; pages that nobody touches take
//! no memory, so a lane costs something only when it is first used, and a channel when it is opened.
//!
//! A *channel* is a second endpoint of a process, with control blocks, grants and lanes of its own. Who a process is, and what became
//! of it, stands in the [`Identity`] of channel 0 alone; that of another channel says whether the process has opened it, and how many
//! changes it has heard of there.
//!
//! # Who may touch what
//! | part | written by | read by |
//! |---|---|---|
//! | Header | the launcher, before any rank starts; `run_states` by whoever joins, leaves, falls asleep, wakes, or wakes another, and by the launcher for the dead; `aborted` by the first rank that aborts; `inquiry` by the launcher, or the rank that searches for deadlocks in its place; `absences` by who is absent, and by the launcher for those of other hosts | all |
//! | Control: doorbell | its rank; peers that ring; the launcher, and who aborts | all |
//! | Control: core | its rank | all |
//! | Control: pending lanes | peers add, its rank takes; the launcher marks the summaries | its rank |
//! | Control: identity | its rank; the launcher may read, and so may the rank that searches for deadlocks in its place, which tells of ends in order | all |
//! | Control: presence | its rank | the owner of the grant that it is inside of |
//! | Control: shared transfer | its rank; the peer that helps it | both |
//! | Grant | its owner; a user counts itself in and out of `admission` | all |
//! | LaneHead | the receiver of the lane | its sender |
//! | lane slots, bulk | the sender of the lane | its receiver |
//! | addresses | the launcher | all |
//!
//! # Safety
//! All processes of the job map all of it, so anything in it may hold anything at any time. Nothing
//! here is therefore a `&` to plain data: shared structures consist of atomics, and the bytes of
//! messages are reached by pointers and copied once. Offsets come from [`Shape`], which is computed
//! from the numbers of process slots and compared with the size of the mapping, never read from the segment.

use weft_atomic::admission::{Admission, Presence};
use weft_atomic::{AtomicI32, AtomicU32, AtomicU64, CacheLine, Doorbell};
use weft_fabric::{HEAD, MOST_CHANNELS};

use crate::addresses::AddressRecord;
use crate::run_states::{self, RunStates};
use crate::shared_transfer::SharedTransfer;

/// "weft shm" in the first eight bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"weft shm");

/// Changes whenever anything in the segment moves or changes its meaning.
pub(crate) const VERSION: u32 = 12;

/// Most process slots of a job, and so most ranks: as many as the two-level set of pending lanes with one
/// summary word can name.
pub const MAX_RANKS: u32 = 4096;

/// Most records of addresses: as many processes as a job may have on all of its hosts.
pub const MOST_ADDRESSES: u32 = 1 << 16;

pub(crate) const PAGE: usize = 4096;

/// Words of the set of pending lanes.
const PENDING_WORDS: usize = MAX_RANKS as usize / 64;

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
    pub magic: AtomicU64,
    pub version: AtomicU32,
    /// Process slots: `members` and the spare ones.
    pub process_slots: AtomicU32,
    /// Bytes in all, as the maker computed them: two builds that disagree find out here.
    pub total: AtomicU64,
    /// Cores that the job may use.
    pub cores: AtomicU32,
    /// The process slot of the first rank that aborted, plus one. SYNC job.abort.
    pub aborted: AtomicU32,
    /// Grows whenever the launcher has changed the fate of a process slot. SYNC job.changes.
    pub changes: AtomicU32,
    /// Peers of the job: its ranks, and the room for those that are started later. Process slots below it are theirs,
    /// the others are spare.
    pub members: AtomicU32,
    /// Ranks that the job starts with.
    pub ranks: AtomicU32,
    /// Records of addresses, and how often some were announced. SYNC job.addresses.
    pub addresses: AtomicU32,
    pub addresses_told: AtomicU32,
    /// The launcher's last inquiry: who sleeps is to say what it waits for. SYNC job.inquiry.
    pub inquiry: AtomicU32,
    /// Channels.
    pub channels: AtomicU32,
    /// Worlds of which a member is absent, see [`weft_fabric::Absences`]. SYNC job.absences.
    pub absences: AtomicU64,
    /// Which process slots are taken, and who of them sleeps.
    pub run_states: CacheLine<RunStates<{ run_states::groups_for(MAX_RANKS) }>>,
}

/// Control block of a process slot: what its process shows to the others.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Control {
    /// Where its threads sleep. The one line here that a sender reads for each message.
    pub doorbell: Doorbell,
    /// 1 once it has shown that it can fence other cores: peers may then fence lightly towards it.
    pub fences: AtomicU32,
    /// The core on which it was last seen awake, plus one; 0 if that is not known. See `placement.rs`.
    pub core: AtomicU32,
    /// The channel whose doorbell is rung whenever this one is, plus one; 0 if none. See `bell.rs`.
    pub rung_as_well: AtomicU32,
    /// Summary of `pending_words`.
    pub pending_summary: CacheLine<[AtomicU64; 1]>,
    /// Bit p: the lane from p may hold something, and is not polled directly. See `poll_set.rs`.
    pub pending_words: CacheLine<[AtomicU64; PENDING_WORDS]>,
    /// Who it is: written once when it attaches.
    pub identity: CacheLine<Identity>,
    /// What it shows while it moves bytes by a grant of another rank.
    pub origin: CacheLine<Origin>,
}

/// Origin of a transfer: what a process shows while it moves bytes by a grant of another rank.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Origin {
    /// Inside of which grant it is: see `portal/grants.rs`.
    pub presence: Presence,
    /// The blocks of a large transfer, when the owner of the grant helps with it: see `portal/assist.rs`.
    pub shared_transfer: SharedTransfer,
}

/// Identity of the process in a process slot. `state` is written last. SYNC rank.joined.
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
    /// How many of the launcher's changes its process has carried out. SYNC slot.heard.
    pub heard: AtomicU32,
    /// Of a process slot in the room: how many processes had it before. Written by the launcher alone.
    pub generation: AtomicU32,
    /// How its process ended, by the launcher: 0 while it has not, see `slots.rs`.
    pub fate: AtomicU32,
    /// The process slot of the process that was started in its place, plus one.
    pub successor: AtomicU32,
    /// Of a spare process slot: the rank that has it, plus one.
    pub member: AtomicU32,
    /// Not 0: its process is never at what others have in the segment, and is not waited for.
    pub state_only: AtomicU32,
    /// How often its process has slept [elsewhere](crate::SleepElsewhere).
    pub sleeps: AtomicU32,
    /// Not 0: its process has ended with MPI, where only the others of the host can see that. SYNC rank.finished.
    pub finished: AtomicU32,
}

/// One grant of a rank, see `portal/grants.rs`.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct GrantRecord {
    pub admission: Admission,
    pub start: AtomicU64,
    pub length: AtomicU64,
    /// Who may use it, plus one; 0 for anybody.
    pub peer: AtomicU32,
}

/// Head of a lane: the part that its receiver writes. See `lane.rs`.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct LaneHead {
    /// Lane slots consumed (low half) and bulk bytes consumed (high half), both modulo 2³².
    pub progress: AtomicU64,
    /// Not 0: the receiver polls this lane directly, so its sender need not add it to the pending lanes.
    pub hot: AtomicU32,
}

/// Lane slot: one element of a lane's ring, and the data bytes that fit into it.
pub(crate) use weft_sys::slots::{INLINE, Slot as LaneSlot};

const _: () = {
    // Each rank is inside of one grant at a time.
    assert!(MAX_RANKS as u64 <= weft_atomic::admission::MOST_USERS);
    assert!(size_of::<Header>() <= PAGE);
    assert!(size_of::<Control>() == 1024);
    assert!(PAGE.is_multiple_of(align_of::<AddressRecord>()));
    assert!(std::mem::offset_of!(Control, doorbell) == 0);
    assert!(std::mem::offset_of!(Control, fences) == 64);
    assert!(size_of::<GrantRecord>() == 64);
    assert!(size_of::<LaneSlot>() == 128 && HEAD == 8 * weft_sys::slots::HEAD_WORDS);
    assert!(std::mem::offset_of!(LaneSlot, data) + INLINE == size_of::<LaneSlot>());
    assert!(size_of::<LaneHead>() == 128);
    // Kept together when a slot is cleared.
    assert!(std::mem::offset_of!(Identity, heard).is_multiple_of(8));
    assert!(
        std::mem::offset_of!(Identity, generation) == std::mem::offset_of!(Identity, heard) + 4
    );
};

/// Processes of a job on one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSize {
    /// Ranks that it starts with.
    pub ranks: u32,
    /// Processes that may be there beside them, started later: address space, which costs nothing until it is used.
    pub room: u32,
    /// Processes that may be started in place of dead ones.
    pub spares: u32,
    /// Numbers of processes, on whatever host, of which the address can be recorded; 0 if all share this memory.
    pub addresses: u32,
    /// Endpoints that each process can have, at least 1: address space as well.
    pub channels: u32,
}

impl JobSize {
    /// So many ranks and nobody else.
    #[must_use]
    pub fn of(ranks: u32) -> Self {
        Self {
            ranks,
            room: 0,
            spares: 0,
            addresses: 0,
            channels: 1,
        }
    }

    /// The same with a channel for each of so many cores that a rank can have for itself, as far as there are channels.
    #[must_use]
    pub fn with_channels_on(self, cores: u32) -> Self {
        // Short histories come to an end with one.
        let channels = if cfg!(fault_points) {
            1
        } else {
            (cores / self.ranks.max(1)).clamp(1, MOST_CHANNELS)
        };
        Self { channels, ..self }
    }

    /// Bytes of its segment; `None` if there are no ranks, or more than [`MAX_RANKS`] process slots. This is address
    /// space: memory is taken by what is touched.
    #[must_use]
    pub fn segment_size(self) -> Option<usize> {
        self.shape().map(|shape| shape.total)
    }

    /// Bytes of its memory file: its segment, and behind it room for the memory that ranks share (see `heap.rs`), which
    /// is sparse and costs nothing. `None` as for [`segment_size`](Self::segment_size).
    #[must_use]
    pub fn memory_size(self) -> Option<usize> {
        let slots = self.process_slots();
        self.segment_size()
            .map(|segment| crate::heap::file_size(segment, slots))
    }

    /// Process slots that it needs.
    pub(crate) fn process_slots(self) -> u32 {
        let later = self.room.saturating_add(self.spares);
        self.ranks.saturating_add(later)
    }

    pub(crate) fn shape(self) -> Option<Shape> {
        let basis = self.ranks.saturating_add(self.spares);
        let shape = Shape::with_room(basis, self.process_slots()).filter(|_| self.ranks > 0)?;
        shape
            .with_channels(self.channels)?
            .with_addresses(self.addresses)
    }
}

/// Sizes of a segment: a function of the numbers of process slots and of nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub process_slots: u32,
    /// Slots of a lane; a power of two.
    pub lane_slots: u32,
    /// Bytes of a lane's bulk area; a multiple of 64.
    pub bulk: u32,
    /// Longest data part of one message; at most ⅜ of `bulk`, see `lane.rs` for why.
    pub data: u32,
    /// Records of a rank's grants. What is granted beyond goes through chunks.
    pub grants: u32,
    /// Records of addresses.
    pub addresses: u32,
    pub channels: u32,
    /// Bytes of each channel.
    pub channel: usize,
    grants_at: usize,
    lanes_at: usize,
    lane: usize,
    addresses_at: usize,
    pub total: usize,
}

impl Shape {
    /// The shape for so many process slots; `None` if there are none or too many.
    #[cfg(test)]
    pub fn of(process_slots: u32) -> Option<Self> {
        Self::with_room(process_slots, process_slots)
    }

    /// The shape for so many process slots, with lanes as large as a job of `basis` has them.
    fn with_room(basis: u32, process_slots: u32) -> Option<Self> {
        if process_slots > MAX_RANKS {
            return None;
        }
        let (lane_slots, bulk, data, grants) = match basis {
            // Short histories come to the end of a lane.
            1..=8 if cfg!(fault_points) => (8, 12 << 10, 4 << 10, 64),
            1..=8 => (256, 192 << 10, 64 << 10, 16 << 10),
            9..=16 => (128, 192 << 10, 64 << 10, 8 << 10),
            17..=64 => (64, 44 << 10, 16 << 10, 2 << 10),
            65..=256 => (32, 24 << 10, 8 << 10, 1 << 10),
            257..=MAX_RANKS => (16, 12 << 10, 4 << 10, 1 << 10),
            _ => return None,
        };
        let count = process_slots as usize;
        let page = |bytes: usize| bytes.next_multiple_of(PAGE);
        let grants_at = PAGE + page(count * size_of::<Control>());
        let lanes_at = grants_at + count * page(grants as usize * size_of::<GrantRecord>());
        let lane_ring = lane_slots as usize * size_of::<LaneSlot>();
        let lane = page(size_of::<LaneHead>() + lane_ring + bulk as usize);
        Some(Self {
            process_slots,
            lane_slots,
            bulk,
            data,
            grants,
            addresses: 0,
            channels: 1,
            channel: lanes_at + count * count * lane - PAGE,
            grants_at,
            lanes_at,
            lane,
            addresses_at: lanes_at + count * count * lane,
            total: lanes_at + count * count * lane,
        })
    }

    /// The same with so many channels, before it has records of addresses; `None` if there are none or too many.
    fn with_channels(self, channels: u32) -> Option<Self> {
        let end = PAGE.checked_add(self.channel.checked_mul(channels as usize)?)?;
        (1..=MOST_CHANNELS).contains(&channels).then_some(Self {
            channels,
            addresses_at: end,
            total: end,
            ..self
        })
    }

    /// The same with so many records of addresses; `None` if they are too many.
    fn with_addresses(self, addresses: u32) -> Option<Self> {
        let bytes = (addresses as usize * AddressRecord::BYTES).next_multiple_of(PAGE);
        (addresses <= MOST_ADDRESSES).then_some(Self {
            addresses,
            total: self.addresses_at + bytes,
            ..self
        })
    }

    /// Offset of a record of an address.
    pub fn address_at(&self, number: u32) -> usize {
        self.addresses_at + number as usize * AddressRecord::BYTES
    }

    /// How far what belongs to a channel lies behind what belongs to channel 0.
    pub fn channel_at(&self, channel: u32) -> usize {
        channel as usize * self.channel
    }

    /// Offset of the control block of a process slot, in channel 0 as all that follows.
    pub fn control_at(&self, slot: u32) -> usize {
        PAGE + slot as usize * size_of::<Control>()
    }

    /// Offset of a grant record of a process slot.
    pub fn grant_at(&self, slot: u32, index: u32) -> usize {
        let table = (self.grants as usize * size_of::<GrantRecord>()).next_multiple_of(PAGE);
        self.grants_at + slot as usize * table + index as usize * size_of::<GrantRecord>()
    }

    /// Where the grants of a process slot are, and their bytes: whole pages.
    pub fn grants_of(&self, slot: u32) -> (usize, usize) {
        let first = self.grant_at(slot, 0);
        (first, self.grant_at(slot + 1, 0) - first)
    }

    /// Where the lanes to a process slot are, and their bytes: whole pages.
    pub fn lanes_to(&self, slot: u32) -> (usize, usize) {
        let length = self.process_slots as usize * self.lane;
        (self.lanes_at + slot as usize * length, length)
    }

    /// Bytes of a lane: whole pages.
    pub fn lane_bytes(&self) -> usize {
        self.lane
    }

    /// Offset of the lane from one process slot to another.
    pub fn lane_at(&self, from: u32, to: u32) -> usize {
        self.lanes_at + (to as usize * self.process_slots as usize + from as usize) * self.lane
    }
}

/// Bytes of the segment of a job of so many ranks; `None` if there are none, or more than
/// [`MAX_RANKS`]. This is address space: memory is taken by what is touched.
#[must_use]
pub fn segment_size(ranks: u32) -> Option<usize> {
    JobSize::of(ranks).segment_size()
}

/// Bytes of the memory file of a job of so many ranks; see [`JobSize::memory_size`].
#[must_use]
pub fn job_memory_size(ranks: u32) -> Option<usize> {
    JobSize::of(ranks).memory_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_keep_their_promises() {
        for ranks in [1, 2, 8, 9, 16, 17, 64, 65, 256, 257, 1024, MAX_RANKS] {
            let shape = Shape::of(ranks).expect("a shape");
            assert!(shape.lane_slots.is_power_of_two() && shape.lane_slots >= 8);
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
        let size = JobSize {
            ranks: 2,
            room: 100,
            ..JobSize::of(2)
        };
        let (roomy, plain) = (size.shape().expect("fits"), Shape::of(2).expect("fits"));
        let several = JobSize {
            channels: 3,
            ..size
        };
        let several = several.shape().expect("fits");
        assert_eq!(several.total - PAGE, 3 * (roomy.total - PAGE));
        assert!(several.channel_at(2).is_multiple_of(PAGE));
        let none = JobSize {
            channels: 0,
            ..size
        };
        assert!(none.shape().is_none());
        assert_eq!((roomy.process_slots, roomy.lane), (102, plain.lane));
        let (start, length) = roomy.lanes_to(3);
        assert_eq!((start, length), (roomy.lane_at(0, 3), 102 * roomy.lane));
        assert!(start.is_multiple_of(PAGE) && roomy.lane_bytes().is_multiple_of(PAGE));
    }
}
