//! Target: what one member has told the others about its memory, and the path by which this rank accesses it.

use std::sync::OnceLock;

use weft_atomic::ticket_lock::{Overtaken, Time};
use weft_atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weft_fabric::{SharedKey, Token};
use weft_sys::SharedMemory;

use super::{Window, shared_lock};
use crate::error::{Error, ErrorClass, Result};
use crate::exposed::Exposed;

/// What a member says of itself when a window is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Description {
    /// Bytes that it exposes.
    pub size: u64,
    /// Bytes of a displacement.
    pub unit: i64,
    /// Its block of shared memory.
    pub block: Option<SharedKey>,
    /// The grant of its memory.
    pub token: Option<Token>,
    /// Whether it shares memory with all members.
    pub shares: bool,
    /// Whether it could not do its part.
    pub failed: bool,
    /// Whether it executes a fence when another member asks the kernel for one.
    pub fences: bool,
    /// How many elements it was told to combine at a time.
    pub granularity: Granularity,
}

/// How many elements the members of a window combine at a time, as far as one of them knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Granularity {
    /// Nobody has said it.
    #[default]
    Unknown,
    /// One or a few.
    Fine,
    /// Many.
    Coarse,
}

impl Description {
    pub(super) const BYTES: usize = 40;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let flags = [
            self.shares,
            self.failed,
            self.block.is_some(),
            self.token.is_some(),
            self.granularity == Granularity::Coarse,
            self.granularity == Granularity::Fine,
            self.fences,
        ];
        let flags = flags
            .iter()
            .rev()
            .fold(0, |sum, flag| sum << 1 | u64::from(*flag));
        let words = [
            self.size,
            self.unit.cast_unsigned(),
            self.block.map_or(0, |key| key.0),
            self.token.map_or(0, |token| token.0),
            flags,
        ];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let words = bytes.as_chunks::<8>().0.iter();
        let mut words = words.map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (size, unit, block, token) = (next(), next().cast_signed(), next(), next());
        let flags = next();
        let flag = |place: u32| flags >> place & 1 != 0;
        Self {
            size,
            unit,
            block: flag(2).then_some(SharedKey(block)),
            token: flag(3).then_some(Token(token)),
            shares: flag(0),
            failed: flag(1),
            fences: flag(6),
            granularity: match (flag(4), flag(5)) {
                (true, _) => Granularity::Coarse,
                (false, true) => Granularity::Fine,
                (false, false) => Granularity::Unknown,
            },
        }
    }
}

/// Where a member's memory lies in shared memory: whose block it is in, and where in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedPlace {
    pub owner: u32,
    pub key: SharedKey,
    pub offset: usize,
}

/// One member, as the others see it.
#[derive(Debug)]
pub(super) struct Target {
    size: u64,
    unit: i64,
    /// The largest displacement within its memory.
    last: u64,
    /// Where its memory is, if this rank shares it.
    shared: Option<SharedPlace>,
    /// Its own block, which begins with its lock words, if this rank shares it.
    block: Option<SharedKey>,
    portal: Option<Token>,
    /// Its memory, once this rank has attached it.
    attached: OnceLock<Exposed>,
    /// Its lock words, likewise.
    control: OnceLock<SharedMemory>,
    /// How often in a row this rank has shared its lock by a ticket. What threads count at the same time may be counted once.
    readers_in_a_row: AtomicU32,
    /// The time of the writer past which this rank has gone to share its lock; 0 if it has gone past none.
    overtaken: AtomicU64,
    /// Whether a thread of this rank waits for its lock.
    lock_awaited: AtomicBool,
    /// Whether any operation went there by messages or by portal.
    used: AtomicBool,
}

/// A thread waits for the lock of a member, until this is dropped.
#[derive(Debug)]
pub(super) struct LockWait<'a>(&'a AtomicBool);

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Target {
    pub(super) fn new(
        of: &Description,
        shared: Option<SharedPlace>,
        block: Option<SharedKey>,
    ) -> Self {
        Self {
            size: of.size,
            unit: of.unit,
            last: of.size.checked_div(of.unit.cast_unsigned()).unwrap_or(0),
            shared,
            block,
            portal: of.token,
            attached: OnceLock::new(),
            control: OnceLock::new(),
            readers_in_a_row: AtomicU32::new(0),
            overtaken: AtomicU64::new(0),
            lock_awaited: AtomicBool::new(false),
            used: AtomicBool::new(false),
        }
    }

    /// An operation goes there by messages or by portal.
    pub(super) fn note_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether any has. It stays so: another thread may begin one at any time.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that it exposes.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of a displacement.
    #[inline]
    pub(super) fn unit(&self) -> i64 {
        self.unit
    }

    /// The byte of its memory that a displacement names, if it lies within or at the end of it. In a dynamic window, whose memory comes
    /// later, only 0 does.
    #[inline(always)]
    pub(super) fn byte_at(&self, displacement: i64) -> Option<usize> {
        let displacement = displacement.cast_unsigned();
        // What is no more than the last one is no more than the size in bytes.
        let within = displacement <= self.last;
        within.then(|| displacement.wrapping_mul(self.unit.cast_unsigned()) as usize)
    }

    /// The grant of its memory.
    #[inline]
    pub(super) fn portal(&self) -> Option<Token> {
        self.portal
    }

    /// Its memory, if this rank has attached it.
    #[inline(always)]
    pub(super) fn attached(&self) -> Option<&Exposed> {
        self.attached.get()
    }

    /// Its lock words, if this rank has attached them.
    #[inline(always)]
    pub(super) fn attached_control(&self) -> Option<&SharedMemory> {
        self.control.get()
    }

    /// This rank shares its lock by a ticket. Whether it has done so often enough for flags to be worth it.
    pub(super) fn count_reader(&self) -> bool {
        let count = self.readers_in_a_row.load(Ordering::Relaxed) + 1;
        let enough = count >= shared_lock::READERS_IN_A_ROW;
        self.readers_in_a_row
            .store(if enough { 0 } else { count }, Ordering::Relaxed);
        enough
    }

    /// This rank shares its lock, having gone past a writer or nobody.
    pub(super) fn note_overtaken(&self, overtaken: Overtaken) {
        if let Overtaken::Writer(since) = overtaken {
            self.overtaken.store(since, Ordering::Relaxed);
        }
    }

    /// The time of the writer past which this rank had gone to share its lock, which it has given back.
    #[inline]
    pub(super) fn take_overtaken(&self) -> Option<Time> {
        let since = self.overtaken.load(Ordering::Relaxed);
        if since != 0 {
            self.overtaken.store(0, Ordering::Relaxed);
        }
        (since != 0).then_some(since)
    }

    /// A thread of this rank begins to wait for its lock; `None`: another one does.
    pub(super) fn begin_lock_wait(&self) -> Option<LockWait<'_>> {
        let is_first = !self.lock_awaited.swap(true, Ordering::Relaxed);
        is_first.then_some(LockWait(&self.lock_awaited))
    }

    /// Its memory, which this rank has.
    pub(super) fn attach(&self, exposed: Exposed) {
        let _ = self.attached.set(exposed);
    }

    /// Its lock words, which this rank has.
    pub(super) fn attach_control(&self, control: SharedMemory) {
        let _ = self.control.set(control);
    }
}

impl Window {
    /// The memory of a rank, if this one shares it. Attached at the first use.
    #[inline]
    pub(super) fn reach(&self, rank: u32) -> Result<Option<&Exposed>> {
        let target = &self.targets[rank as usize];
        match target.attached.get() {
            Some(exposed) => Ok(Some(exposed)),
            None if target.shared.is_none() => Ok(None),
            None => self.attach(rank),
        }
    }

    #[cold]
    fn attach(&self, rank: u32) -> Result<Option<&Exposed>> {
        let target = &self.targets[rank as usize];
        let Some(place) = target.shared else {
            return Ok(None);
        };
        let control = self.control(rank)?;
        let size = usize::try_from(target.size).unwrap_or(usize::MAX);
        let whole = place.offset.saturating_add(size);
        let memory = match &self.whole {
            Some(memory) => memory.clone(),
            None => {
                let owner = self.group().peer(place.owner);
                self.engine().attach_shared(owner, place.key, whole)?
            }
        };
        let lock = shared_lock::element_lock(control, self.comm.rank(), self.coarse);
        let exposed = Exposed::shared(&memory, place.offset, size, lock);
        target.attach(exposed.ok_or_else(|| missing(rank))?);
        Ok(target.attached.get())
    }

    /// The lock words of a rank that this one shares memory with.
    pub(super) fn control(&self, rank: u32) -> Result<&SharedMemory> {
        let target = &self.targets[rank as usize];
        if let Some(control) = target.control.get() {
            return Ok(control);
        }
        let key = target.block.ok_or_else(|| missing(rank))?;
        let bytes = shared_lock::bytes(self.size());
        let peer = self.group().peer(rank);
        let control = self.engine().attach_shared(peer, key, bytes)?;
        Ok(target.control.get_or_init(|| control))
    }
}

#[cold]
fn missing(rank: u32) -> Error {
    Error::new(
        ErrorClass::Intern,
        format!(
            "the shared memory of rank {rank} of the window is not what it said; please report this"
        ),
    )
}
