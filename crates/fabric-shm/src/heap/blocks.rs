//! Blocks of shared memory of one process: its own, and those of peers that it attaches.
//!
//! Invariant: each live entry of the table has pages of its own in this process's arena, memory for all of them, a
//! mapping, and a record under its key. Kept pages have the same, but for the record.

use std::sync::Arc;

use weft_fabric::grants::GrantTable;
use weft_fabric::shared::{check_length, no_memory};
use weft_fabric::{FabricError, Peer, Result, SharedBlock, SharedKey, SharedMemory};
use weft_sys::available;
use weft_sys::memory::page_size;
use weft_sys::shared::whole_pages;

use super::kept::{Backed, Kept};
use super::pages::Pages;
use super::records::{self, Record};
use super::{HEAD, Heap, LARGE_PAGE};
use crate::segment::Segment;

/// From so many bytes on it is looked at first how much memory there is: what is smaller costs less than the look.
const LOOK_FIRST: usize = 16 << 20;

/// Zeros that memory is written over with.
const ZEROS: [u8; 4096] = [0; 4096];

#[derive(Debug)]
struct Block {
    pages: Backed,
    memory: SharedMemory,
}

/// Blocks of shared memory of one process. See the [module page](self).
#[derive(Debug)]
pub(crate) struct Blocks {
    segment: Arc<Segment>,
    me: u32,
    pages: Pages,
    kept: Kept,
    table: GrantTable<Block>,
}

impl Blocks {
    /// Of the process that has just taken process slot `me`: none. Whatever its arena held is gone.
    pub fn new(segment: Arc<Segment>, me: u32) -> Self {
        let arena = segment.heap().map_or(HEAD, Heap::arena);
        if let Some(heap) = segment.heap() {
            heap.empty(me);
        }
        Self {
            segment,
            me,
            pages: Pages::new(HEAD, arena - HEAD),
            kept: Kept::default(),
            table: GrantTable::default(),
        }
    }

    /// See [`Fabric::shares_memory`](weft_fabric::Fabric::shares_memory).
    pub fn are_shared_with(&self, peer: Peer) -> bool {
        self.segment.heap().is_some() && peer.0 < self.segment.shape().process_slots
    }

    /// See [`Fabric::allocate_shared`](weft_fabric::Fabric::allocate_shared).
    pub fn allocate(&mut self, length: usize) -> Result<SharedBlock> {
        match self.allocate_once(length) {
            // What is kept may be in the way, or the memory that is missing.
            Err(_) if self.give_back_kept() => self.allocate_once(length),
            answer => answer,
        }
    }

    fn allocate_once(&mut self, length: usize) -> Result<SharedBlock> {
        let segment = self.segment.clone();
        let heap = segment.heap().ok_or(FabricError::NotShared {
            peer: Peer(self.me),
        })?;
        let bytes = whole_pages(length).filter(|bytes| *bytes <= heap.arena());
        let bytes = bytes.ok_or_else(|| {
            let room = heap.arena() - HEAD;
            no_memory(
                length,
                &format_args!("a process has room for {room} bytes here (ulimit -f may limit it)"),
            )
        })?;
        let pages = match self.kept.take(bytes) {
            Some(pages) => cleared(pages),
            None => self.take(heap, bytes, length)?,
        };
        let (offset, mapping) = (pages.offset, pages.mapping.clone());
        let made = self.publish(heap, pages, length);
        if made.is_err() {
            self.give_back(Backed {
                offset,
                bytes,
                mapping,
            });
        }
        made
    }

    /// Pages that nobody uses, with memory and a mapping.
    fn take(&mut self, heap: &Heap, bytes: usize, length: usize) -> Result<Backed> {
        if bytes >= LOOK_FIRST
            && let Some(has) = available::memory()
            && has < bytes as u64
        {
            let reason = format_args!("the host or its control group has only {has} bytes left");
            return Err(no_memory(length, &reason));
        }
        let align = if bytes >= LARGE_PAGE {
            LARGE_PAGE
        } else {
            page_size()
        };
        let offset = self.pages.take(bytes, align);
        let offset = offset.ok_or_else(|| no_memory(length, &"other blocks are in the way"))?;
        let at = heap.arena_at(self.me) + offset;
        let committed = heap.commit(at, bytes);
        let mapped = committed.and_then(|()| heap.map(self.me, offset, bytes));
        match mapped {
            Ok(mapping) => Ok(Backed {
                offset,
                bytes,
                mapping: Arc::new(mapping),
            }),
            Err(error) => {
                heap.discard(at, bytes);
                self.pages.give_back(offset, bytes);
                Err(no_memory(length, &error))
            }
        }
    }

    /// Makes a block of pages: enters it in the table, and tells of it. On an error the pages are the caller's again.
    fn publish(&mut self, heap: &Heap, pages: Backed, length: usize) -> Result<SharedBlock> {
        let offset = pages.offset;
        let memory = SharedMemory::new(pages.mapping.clone(), 0, length);
        let memory = memory.ok_or_else(|| no_memory(length, &"the mapping is too short"))?;
        let block = Block {
            pages,
            memory: memory.clone(),
        };
        let too_many = || {
            no_memory(
                length,
                &format_args!("{} blocks are allocated already", records::RECORDS),
            )
        };
        let token = self.table.insert(block).ok_or_else(too_many)?;
        let key = records::key_of(self.me, token);
        let told = match records::index_of(token) {
            None => Err(too_many()),
            Some(_) => Record { offset, length }
                .write(heap, self.me, key)
                .map_err(|error| no_memory(length, &error)),
        };
        if let Err(error) = told {
            self.table.remove(token);
            return Err(error);
        }
        Ok(SharedBlock { key, memory })
    }

    /// See [`Fabric::release_shared`](weft_fabric::Fabric::release_shared).
    pub fn release(&mut self, key: SharedKey) -> bool {
        let token = records::token_of(self.me, key);
        let block = token.and_then(|token| self.table.remove(token));
        let (Some(block), Some(heap)) = (block, self.segment.heap()) else {
            return false;
        };
        Record::clear(heap, self.me, key);
        for pages in self.kept.keep(block.pages) {
            self.give_back(pages);
        }
        true
    }

    /// Gives the memory of pages back, and the pages.
    fn give_back(&mut self, pages: Backed) {
        if let Some(heap) = self.segment.heap() {
            heap.discard(heap.arena_at(self.me) + pages.offset, pages.bytes);
        }
        self.pages.give_back(pages.offset, pages.bytes);
    }

    /// Gives what is kept back. Whether there was anything.
    fn give_back_kept(&mut self) -> bool {
        let kept = self.kept.take_all();
        let any = !kept.is_empty();
        kept.into_iter().for_each(|pages| self.give_back(pages));
        any
    }

    /// See [`Fabric::attach_shared`](weft_fabric::Fabric::attach_shared). The caller has checked that the peer is known.
    pub fn attach(&self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        let heap = self.segment.heap().ok_or(FabricError::NotShared { peer })?;
        let none = FabricError::NotAllocated { peer };
        if peer.0 == self.me {
            let block = records::token_of(self.me, key).and_then(|token| self.table.get(token));
            let memory = &block.ok_or(none.clone())?.memory;
            check_length(peer, length, memory.len())?;
            return memory.part(0, length).ok_or(none);
        }
        let Record {
            offset,
            length: has,
        } = Record::read(heap, peer.0, key).ok_or(none.clone())?;
        check_length(peer, length, has)?;
        let bytes = whole_pages(length).ok_or(none.clone())?;
        let within = offset >= HEAD
            && offset.is_multiple_of(page_size())
            && offset
                .checked_add(bytes)
                .is_some_and(|end| end <= heap.arena());
        if !within {
            return Err(none);
        }
        let mapping = heap.map(peer.0, offset, bytes);
        let mapping = mapping.map_err(|error| no_memory(length, &error))?;
        SharedMemory::new(Arc::new(mapping), 0, length).ok_or(none)
    }

    /// Gives all blocks back.
    pub fn release_all(&mut self) {
        let ended = self.table.remove_all().into_iter();
        let ended: Vec<Backed> = ended.map(|block| block.pages).collect();
        let kept = self.kept.take_all();
        if let Some(heap) = self.segment.heap()
            && !(ended.is_empty() && kept.is_empty())
        {
            heap.empty(self.me);
        }
        for pages in ended.into_iter().chain(kept) {
            self.pages.give_back(pages.offset, pages.bytes);
        }
    }
}

/// Pages with zeros in place of what their last user left.
fn cleared(pages: Backed) -> Backed {
    let whole = SharedMemory::new(pages.mapping.clone(), 0, pages.bytes);
    for at in (0..pages.bytes).step_by(ZEROS.len()) {
        let all = whole.as_ref().is_some_and(|whole| {
            let bytes = ZEROS.len().min(pages.bytes - at);
            whole.write(at, &ZEROS[..bytes])
        });
        assert!(all, "pages are mapped as long as they are kept");
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shm;
    use crate::heap::kept::MOST;
    use std::os::linux::fs::MetadataExt;
    use weft_fabric::Fabric;

    fn group(count: u32) -> (Vec<Shm>, Arc<Segment>) {
        let group = Shm::group(count).expect("endpoints");
        let segment = group[0].members().segment().clone();
        (group, segment)
    }

    fn taken(heap: &Heap) -> u64 {
        let file = heap.share().expect("a descriptor").into_descriptor();
        let data = std::fs::File::from(file).metadata().expect("readable");
        data.st_blocks() * 512
    }

    #[test]
    fn memory_comes_back_when_a_block_does_and_when_its_owner_leaves() {
        let (mut group, segment) = group(2);
        let heap = segment.heap().expect("there is one");
        let before = taken(heap);
        let block = group[0].allocate_shared(MOST + 1).expect("fits");
        assert!(taken(heap) > before + MOST as u64, "taken at once");
        assert!(group[0].release_shared(block.key));
        // The page of the records stays.
        let idle = taken(heap);
        assert!(idle <= before + 4096, "{before} {idle}");
        let [kept, freed] = [1 << 20, 1 << 16].map(|length| {
            let block = group[0].allocate_shared(length);
            block.expect("fits")
        });
        assert!(group[0].release_shared(freed.key));
        assert!(
            taken(heap) > idle + (1 << 20) + (1 << 16) - 4096,
            "kept for the next"
        );
        drop(group.remove(0));
        assert!(taken(heap) < idle);
        // Held on, it is there, and empty.
        assert!(kept.memory.write((1 << 20) - 1, &[1]));
    }

    /// Windows that come and go take no memory of the system each time.
    #[test]
    fn the_next_block_of_a_size_has_the_memory_of_the_last_one() {
        let (mut group, segment) = group(2);
        let heap = segment.heap().expect("there is one");
        let first = group[0].allocate_shared(10_000).expect("fits");
        assert!(first.memory.write(0, &[7; 10_000]));
        assert!(group[0].release_shared(first.key));
        let taken_once = taken(heap);
        let attached = group[1].attach_shared(Peer(0), first.key, 1);
        assert_eq!(
            attached.map(drop),
            Err(FabricError::NotAllocated { peer: Peer(0) }),
            "kept is not allocated"
        );
        let next = group[0].allocate_shared(9_000).expect("fits");
        assert!(next.memory.starts_with(&first.memory), "the same pages");
        assert_eq!(taken(heap), taken_once);
        assert_ne!(next.key, first.key);
        let attached = group[1].attach_shared(Peer(0), next.key, 9_000);
        let seen = attached.expect("it is there");
        let bytes = seen.bytes(0, 9_000).expect("mapped").to_vec();
        assert!(bytes.iter().all(|byte| *byte == 0), "zeros again");
        for peer in [0, 1] {
            let stale = group[peer].attach_shared(Peer(0), first.key, 1);
            assert!(stale.is_err(), "the old key does not lead to the new block");
        }
        let other = group[0].allocate_shared(10_000).expect("fits");
        assert!(!other.memory.starts_with(&next.memory), "pages of its own");
    }

    /// What is kept is no reason to refuse a block.
    #[test]
    fn kept_pages_make_room() {
        let segment = crate::segment_size(1).expect("fits");
        let whole = segment.next_multiple_of(LARGE_PAGE) + HEAD + LARGE_PAGE;
        let file = weft_sys::MemoryFile::create("weft-test", whole).expect("fits");
        let mapping = file.map_part(0, segment).expect("maps");
        crate::initialise(&mapping, 1, 1).expect("the right size");
        let mut one = Shm::attach(file.into_descriptor(), 0).expect("joins");
        let small = one.allocate_shared(100).expect("fits");
        assert!(one.allocate_shared(LARGE_PAGE).is_err(), "it is in the way");
        assert!(one.release_shared(small.key));
        let large = one.allocate_shared(LARGE_PAGE).expect("fits now");
        assert!(one.allocate_shared(100).is_err());
        assert!(one.release_shared(large.key));
        assert!(one.allocate_shared(100).is_ok());
    }

    #[test]
    fn the_next_user_of_a_process_slot_finds_its_arena_empty() {
        let (mut group, segment) = group(1);
        let heap = segment.heap().expect("there is one");
        let block = group[0].allocate_shared(100).expect("fits");
        // As if it had died: nothing is given back.
        std::mem::forget(group);
        let next = Blocks::new(segment.clone(), 0);
        assert_eq!(Record::read(heap, 0, block.key), None);
        assert!(
            block
                .memory
                .bytes(0, 100)
                .expect("mapped")
                .to_vec()
                .iter()
                .all(|&byte| byte == 0)
        );
        assert!(next.attach(Peer(0), block.key, 1).is_err());
    }

    #[test]
    fn a_record_that_lies_leads_nowhere() {
        let (mut group, segment) = group(2);
        let heap = segment.heap().expect("there is one");
        let block = group[1].allocate_shared(8192).expect("fits");
        let end = heap.arena();
        let mut attach = |offset, length, asked| {
            let record = Record { offset, length };
            record.write(heap, 1, block.key).expect("there is memory");
            group[0]
                .attach_shared(Peer(1), block.key, asked)
                .map(|memory| memory.len())
        };
        for offset in [
            0,
            HEAD - 4096,
            HEAD + 1,
            end,
            end - 4096,
            usize::MAX,
            usize::MAX - 4095,
        ] {
            let refused = attach(offset, 8192, 8192);
            assert_eq!(
                refused,
                Err(FabricError::NotAllocated { peer: Peer(1) }),
                "{offset}"
            );
        }
        for asked in [end, usize::MAX] {
            assert!(attach(HEAD, usize::MAX, asked).is_err());
        }
        // A lie within one's own arena shows what is there, or zeros.
        assert_eq!(attach(HEAD + 4096, 4096, 4096), Ok(4096));
        assert_eq!(attach(end - 8192, 8192, 8192), Ok(8192));
    }

    #[test]
    fn a_file_without_room_shares_nothing() {
        let (ranks, segment) = (2, crate::segment_size(2).expect("fits"));
        let file = weft_sys::MemoryFile::create("weft-test", segment + HEAD).expect("fits");
        let mapping = file.map_part(0, segment).expect("maps");
        crate::initialise(&mapping, ranks, 2).expect("the right size");
        let mut one = Shm::attach(file.into_descriptor(), 0).expect("joins");
        assert!(!one.shares_memory(Peer(0)) && !one.shares_memory(Peer(1)));
        let refused = one.allocate_shared(1).map(drop);
        assert_eq!(refused, Err(FabricError::NotShared { peer: Peer(0) }));
        assert!(one.attach_shared(Peer(1), SharedKey(1), 1).is_err());
    }

    #[test]
    fn more_than_the_host_has_is_refused_before_it_is_taken() {
        let (mut group, segment) = group(1);
        let Some(has) = available::memory() else {
            return;
        };
        let heap = segment.heap().expect("there is one");
        let before = taken(heap);
        let wanted = usize::try_from(has).expect("fits") + (1 << 30);
        let refused = group[0]
            .allocate_shared(wanted)
            .expect_err("there is not as much");
        assert!(refused.to_string().contains("left"), "{refused}");
        assert_eq!(taken(heap), before);
        assert!(group[0].allocate_shared(1).is_ok());
    }
}
