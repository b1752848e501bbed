//! Blocks of shared memory of one process: its own, and those of peers that it attaches.
//!
//! Invariant: each live entry of the table has pages of its own in this process's arena, memory for all of them, a
//! mapping, and a record under its key.

use std::sync::Arc;

use weft_fabric::grants::GrantTable;
use weft_fabric::shared::{check_length, no_memory};
use weft_fabric::{FabricError, Peer, Result, SharedBlock, SharedKey, SharedMemory};
use weft_sys::available;
use weft_sys::memory::page_size;
use weft_sys::shared::whole_pages;

use super::pages::Pages;
use super::records::{self, Record};
use super::{HEAD, Heap, LARGE_PAGE};
use crate::segment::Segment;

/// From so many bytes on it is looked at first how much memory there is: what is smaller costs less than the look.
const LOOK_FIRST: usize = 16 << 20;

#[derive(Debug)]
struct Block {
    /// From the start of the arena; whole pages.
    offset: usize,
    bytes: usize,
    memory: SharedMemory,
}

/// Blocks of shared memory of one process. See the [module page](self).
#[derive(Debug)]
pub(crate) struct Blocks {
    segment: Arc<Segment>,
    me: u32,
    pages: Pages,
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
            table: GrantTable::default(),
        }
    }

    /// See [`Fabric::shares_memory`](weft_fabric::Fabric::shares_memory).
    pub fn are_shared_with(&self, peer: Peer) -> bool {
        self.segment.heap().is_some() && peer.0 < self.segment.shape().process_slots
    }

    /// See [`Fabric::allocate_shared`](weft_fabric::Fabric::allocate_shared).
    pub fn allocate(&mut self, length: usize) -> Result<SharedBlock> {
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
        let made = self.make(heap, offset, bytes, length);
        if made.is_err() {
            heap.discard(heap.arena_at(self.me) + offset, bytes);
            self.pages.give_back(offset, bytes);
        }
        made
    }

    /// Makes a block of pages that were taken. On an error, what it did to them is undone by the caller.
    fn make(
        &mut self,
        heap: &Heap,
        offset: usize,
        bytes: usize,
        length: usize,
    ) -> Result<SharedBlock> {
        let refused = |error: std::io::Error| no_memory(length, &error);
        heap.commit(heap.arena_at(self.me) + offset, bytes)
            .map_err(refused)?;
        let mapping = Arc::new(heap.map(self.me, offset, bytes).map_err(refused)?);
        let memory = SharedMemory::new(mapping, 0, length);
        let memory = memory.ok_or_else(|| no_memory(length, &"the mapping is too short"))?;
        let block = Block {
            offset,
            bytes,
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
                .map_err(refused),
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
        heap.discard(heap.arena_at(self.me) + block.offset, block.bytes);
        self.pages.give_back(block.offset, block.bytes);
        true
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
        let ended = self.table.remove_all();
        if let Some(heap) = self.segment.heap()
            && !ended.is_empty()
        {
            heap.empty(self.me);
        }
        for block in ended {
            self.pages.give_back(block.offset, block.bytes);
        }
    }
}
