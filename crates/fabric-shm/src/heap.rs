//! Heap: memory that the processes of a host share by blocks. It is the part of the job's memory file after the segment.
//!
//! ```text
//!   file    segment │ arena of slot 0                  │ arena of slot 1 │ …
//!                     records │ pages: blocks and holes
//!
//!   owner   Blocks ── Pages: which are free ── commit ── map ── record
//!   peer    record ── check ── map
//! ```
//!
//! Each process slot has an arena: a range of a sparse file, so large that no process runs out of it; it takes memory
//! only for what is allocated in it. Only the owner of an arena allocates there, so allocating takes no lock and shares
//! no state. Every process maps the blocks that it uses, and nothing else of the heap.
//!
//! | file | what |
//! |---|---|
//! | `pages` | the free pages of the own arena |
//! | `records` | what an owner publishes about its blocks; keys |
//! | `kept` | pages of released blocks, for the next block of as many bytes |
//! | `blocks` | the blocks of this process, and those of peers that it attaches |
//!
//! # Memory
//! A block's memory is taken when it is allocated (`fallocate`), after a check of what the host and the control groups
//! still have: so there is an error then instead of a signal at the first touch. Up to 4 MiB of what its owner has released are kept,
//! mapped, for its next blocks of the same sizes, which are written over with zeros; they are given back if a block cannot be had
//! otherwise. All other memory is released by punching a hole when the block is released, and all of it when its owner leaves, and when
//! the launcher gives a dead owner's rank to another process. A process that takes a process slot empties the arena first.
//!
//! # Trust
//! Records may hold anything. A block is mapped only if it lies within the arena of its process slot. The size of the
//! file is sealed, so a mapping within it stays valid.

mod blocks;
mod kept;
mod pages;
mod records;

use std::io;
use std::ops::Deref;

use weft_sys::{Mapping, MemoryFile};

pub(crate) use blocks::Blocks;

/// Room for the blocks of one process: more than machines have memory. A job of 4096 ranks has 2⁵² bytes of it; files may
/// have 2⁶³.
const ARENA: usize = 1 << 40;

/// Blocks of at least this size start at a multiple of it, so that the kernel can map them by large pages. Arenas do.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// The part of an arena that records take.
const HEAD: usize =
    (records::RECORDS as usize * records::Record::BYTES).next_multiple_of(LARGE_PAGE);

/// The size of the memory file of a job whose segment has so many bytes: with the heap, as far as the limit of this
/// process for the size of a file lets.
pub(crate) fn file_size(segment: usize, process_slots: u32) -> usize {
    let heap = ARENA.saturating_mul(process_slots as usize);
    let whole = segment.next_multiple_of(LARGE_PAGE).saturating_add(heap);
    whole.min(MemoryFile::largest()).max(segment)
}

/// Heap of a job as one process sees it: the file, and where arenas are. Nothing of it is mapped by this.
#[derive(Debug)]
pub(crate) struct Heap {
    file: MemoryFile,
    at: usize,
    arena: usize,
}

impl Heap {
    /// The heap behind a segment of so many bytes. `None` if the file is too short to have one.
    pub fn behind(file: MemoryFile, segment: usize, process_slots: u32) -> Option<Self> {
        let at = segment.checked_next_multiple_of(LARGE_PAGE)?;
        let arena = file.len().checked_sub(at)? / process_slots.max(1) as usize;
        let arena = arena - arena % LARGE_PAGE;
        (arena > HEAD).then_some(Self { file, at, arena })
    }

    /// Bytes of an arena, records included.
    pub fn arena(&self) -> usize {
        self.arena
    }

    /// Where the arena of a process slot starts in the file.
    pub fn arena_at(&self, slot: u32) -> usize {
        self.at + slot as usize * self.arena
    }

    /// Gives all memory of an arena back: no block is there any more.
    pub fn empty(&self, slot: u32) {
        self.file.discard(self.arena_at(slot), self.arena);
    }

    /// Maps a span of an arena. The caller has checked that it lies within.
    pub fn map(&self, slot: u32, offset: usize, length: usize) -> io::Result<Mapping> {
        self.file.map_part(self.arena_at(slot) + offset, length)
    }
}

impl Deref for Heap {
    type Target = MemoryFile;
    fn deref(&self) -> &MemoryFile {
        &self.file
    }
}
