//! Segment: the job's shared memory file as mapped by one process, prepared by the launcher, checked by each rank.
//!
//! All accesses to the file go through [`Segment`]: it returns references to the structures of `layout.rs`, at addresses
//! that it computed itself from a [`Shape`] which it compared with the size of the mapping.

use std::sync::Arc;

use weft_atomic::Ordering;
use weft_fabric::{FabricError, Load, Result};
use weft_sys::{Mapping, MemoryFile, MemoryNode};

use crate::addresses::AddressRecord;
use crate::heap::Heap;
use crate::layout::{
    Control, GrantRecord, Header, Identity, JobSize, MAGIC, MAX_RANKS, PAGE, Shape, VERSION,
};

/// Prepares a fresh segment (all zeros) for a job of `ranks` ranks on `cores` cores. The launcher
/// calls this once, before it starts the first rank.
///
/// # Errors
/// If the mapping does not have the size that [`segment_size`](crate::segment_size) asks for.
pub fn initialise(mapping: &Mapping, ranks: u32, cores: u32) -> Result<()> {
    initialise_job(mapping, JobSize::of(ranks), cores)
}

/// As [`initialise`], for a job that may grow, or start processes in place of others that died. The segment has
/// the [size](JobSize::segment_size) for that.
///
/// # Errors
/// As [`initialise`].
pub fn initialise_job(mapping: &Mapping, size: JobSize, cores: u32) -> Result<()> {
    let process_slots = size.process_slots();
    let shape = size.shape().filter(|shape| shape.total == mapping.len());
    let Some(shape) = shape else {
        return Err(FabricError::System {
            what: format!(
                "a segment of {} bytes was offered for {process_slots} ranks; {} are needed (at most \
                 {MAX_RANKS} ranks): ask segment_size for the size",
                mapping.len(),
                size.segment_size().unwrap_or(0),
            ),
        });
    };
    let header = header_of(mapping)?;
    header.version.store(VERSION, Ordering::Relaxed);
    header.process_slots.store(process_slots, Ordering::Relaxed);
    header
        .members
        .store(size.ranks + size.room, Ordering::Relaxed);
    header.ranks.store(size.ranks, Ordering::Relaxed);
    header.addresses.store(size.addresses, Ordering::Relaxed);
    header.channels.store(size.channels, Ordering::Relaxed);
    header.total.store(shape.total as u64, Ordering::Relaxed);
    header.cores.store(cores.max(1), Ordering::Relaxed);
    // SYNC segment.ready.
    header.magic.store(MAGIC, Ordering::Release);
    Ok(())
}

fn header_of(mapping: &Mapping) -> Result<&Header> {
    let start = mapping
        .place(0, PAGE, align_of::<Header>())
        .ok_or_else(|| FabricError::System {
            what: format!(
                "the shared memory handed over has {} bytes, which is no segment of a job",
                mapping.len()
            ),
        })?;
    // SAFETY: within the mapping, which lives as long as the borrow; aligned; all atomics.
    Ok(unsafe { start.cast::<Header>().as_ref() })
}

/// The size of a job, as its header has it.
fn job_size(header: &Header) -> JobSize {
    let members = header.members.load(Ordering::Relaxed);
    let ranks = header.ranks.load(Ordering::Relaxed);
    JobSize {
        ranks,
        room: members.saturating_sub(ranks),
        spares: header
            .process_slots
            .load(Ordering::Relaxed)
            .saturating_sub(members),
        addresses: header.addresses.load(Ordering::Relaxed),
        channels: header.channels.load(Ordering::Relaxed),
    }
}

/// Segment as mapped by this process, as one channel sees it. Cheap to share: one per process and endpoint.
#[derive(Debug)]
pub(crate) struct Segment {
    mapping: Arc<Mapping>,
    shape: Shape,
    /// Offset of what belongs to the channel.
    base: usize,
    members: u32,
    ranks: u32,
    heap: Option<Arc<Heap>>,
}

impl Segment {
    /// Maps the segment of a job's memory file that somebody else prepared, and checks it.
    pub fn of_file(file: MemoryFile) -> Result<Arc<Self>> {
        let system = |error: std::io::Error| FabricError::System {
            what: error.to_string(),
        };
        let start = file.map_part(0, PAGE.min(file.len())).map_err(system)?;
        let size = job_size(header_of(&start)?);
        let process_slots = size.process_slots();
        // What the header says of itself is checked when it is opened; nonsense is mapped no further than that.
        let total = size.shape().map_or(PAGE, |shape| shape.total);
        let mapping = file.map_part(0, total.min(file.len())).map_err(system)?;
        Self::with_heap(mapping, Heap::behind(file, total, process_slots))
    }

    /// Checks a mapping that somebody else prepared. The job has no heap.
    #[cfg(test)]
    pub fn open(mapping: Mapping) -> Result<Arc<Self>> {
        Self::with_heap(mapping, None)
    }

    fn with_heap(mapping: Mapping, heap: Option<Heap>) -> Result<Arc<Self>> {
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
        let process_slots = header.process_slots.load(Ordering::Relaxed);
        let total = header.total.load(Ordering::Relaxed);
        let members = header.members.load(Ordering::Relaxed);
        let ranks = header.ranks.load(Ordering::Relaxed);
        if version != VERSION {
            return refuse(format!(
                "the launcher made a segment of layout {version}, this library knows layout \
                 {VERSION}: use the launcher and the library of one release"
            ));
        }
        match job_size(header).shape() {
            Some(shape)
                if shape.total == mapping.len()
                    && shape.total as u64 == total
                    && (1..=members).contains(&ranks)
                    && members <= process_slots =>
            {
                Ok(Arc::new(Self {
                    mapping: Arc::new(mapping),
                    shape,
                    base: 0,
                    members,
                    ranks,
                    heap: heap.map(Arc::new),
                }))
            }
            _ => refuse(format!(
                "the segment says that it holds {process_slots} ranks in {total} bytes, but has {} bytes: \
                 use the launcher and the library of one release",
                mapping.len()
            )),
        }
    }

    /// Memory that processes share by blocks, if the file has room for it.
    pub fn heap(&self) -> Option<&Heap> {
        self.heap.as_deref()
    }

    /// The memory itself.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Its sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many peers the job can have. More process slots than that are spare.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// How many of them it starts with.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        // SAFETY: `open` found a page here, aligned; the mapping lives as long as `self`; all atomics.
        unsafe { &*self.mapping.as_ptr().cast::<Header>() }
    }

    /// How many processes of the job are awake, as far as it knows, and of how many cores. The caller is
    /// awake, and no more are than there are process slots: whatever stands there.
    pub fn load(&self) -> Load {
        let header = self.header();
        let slots = self.shape.process_slots;
        Load {
            awake: header.run_states.awake(slots).clamp(1, slots),
            cores: header.cores.load(Ordering::Relaxed).max(1),
        }
    }

    /// Whether it is as channel 0 sees it.
    pub fn is_first_channel(&self) -> bool {
        self.base == 0
    }

    /// The same as another channel sees it; `None` if there is no such channel.
    pub fn channel(&self, channel: u32) -> Option<Arc<Self>> {
        (channel < self.shape.channels).then(|| {
            Arc::new(Self {
                mapping: Arc::clone(&self.mapping),
                shape: self.shape,
                base: self.shape.channel_at(channel),
                members: self.members,
                ranks: self.ranks,
                heap: self.heap.clone(),
            })
        })
    }

    /// Who has a process slot, and what became of it.
    #[inline]
    pub fn identity(&self, slot: u32) -> &Identity {
        &self.control_in(0, slot).identity
    }

    /// The control blocks of a process slot, in the order of channels.
    pub fn controls(&self, slot: u32) -> impl Iterator<Item = &Control> {
        (0..self.shape.channels)
            .map(move |channel| self.control_at(self.shape.channel_at(channel), slot))
    }

    /// The control block of a process slot in a channel.
    #[inline]
    pub fn control_in(&self, channel: u32, slot: u32) -> &Control {
        assert!(channel < self.shape.channels);
        self.control_at(self.shape.channel_at(channel), slot)
    }

    /// The control block of a process slot. Panics if there is no such slot: callers check what they get
    /// from outside.
    #[inline]
    pub fn control(&self, slot: u32) -> &Control {
        self.control_at(self.base, slot)
    }

    #[inline]
    fn control_at(&self, base: usize, slot: u32) -> &Control {
        assert!(slot < self.shape.process_slots);
        // SAFETY: `Shape` places the block within `total`, which `open` compared with the mapping;
        // aligned to 128 bytes from the page; all atomics; lives as long as `self`.
        unsafe {
            &*self
                .mapping
                .as_ptr()
                .add(base + self.shape.control_at(slot))
                .cast::<Control>()
        }
    }

    /// Clears what a process has left in its slot: its control block but for `heard` and `generation`, its grants and
    /// all of its lanes. Nobody may be at any of that.
    pub fn clear(&self, slot: u32) {
        let kept = self.shape.control_at(slot) + std::mem::offset_of!(Control, identity);
        let kept = kept + std::mem::offset_of!(Identity, heard);
        for channel in 0..self.shape.channels {
            let base = self.shape.channel_at(channel);
            let at = base + self.shape.control_at(slot);
            let words = self.mapping.atomic_u64s(at, size_of::<Control>() / 8);
            for (index, word) in words.into_iter().flatten().enumerate() {
                if at + 8 * index != kept {
                    word.store(0, Ordering::Relaxed);
                }
            }
            for (start, length) in [self.shape.grants_of(slot), self.shape.lanes_to(slot)] {
                self.mapping.discard_shared(base + start, length);
            }
            for other in 0..self.shape.process_slots {
                let start = base + self.shape.lane_at(slot, other);
                self.mapping.discard_shared(start, self.shape.lane_bytes());
            }
        }
    }

    /// Has the lanes to a process slot lie in a memory node, that of their receiver, though it is senders who touch them first. Where the
    /// kernel refuses they lie where it likes.
    pub fn keep_lanes_near(&self, slot: u32, node: MemoryNode) {
        let (start, length) = self.shape.lanes_to(slot);
        let _ = self.mapping.prefer_node(self.base + start, length, node);
    }

    /// A grant record of a process slot; `None` if there is no such record.
    pub fn grant(&self, slot: u32, index: u32) -> Option<&GrantRecord> {
        if slot >= self.shape.process_slots || index >= self.shape.grants {
            return None;
        }
        // SAFETY: in bounds by the check and by `Shape`, aligned to 64; all atomics.
        Some(unsafe {
            &*self
                .mapping
                .as_ptr()
                .add(self.base + self.shape.grant_at(slot, index))
                .cast::<GrantRecord>()
        })
    }

    /// The record of the address of a process of the job; `None` if there is none for this number.
    pub fn address(&self, number: u32) -> Option<&AddressRecord> {
        if number >= self.shape.addresses {
            return None;
        }
        // SAFETY: in bounds by the check and by `Shape`, aligned to a page and so many records; all atomics.
        Some(unsafe {
            &*self
                .mapping
                .as_ptr()
                .add(self.shape.address_at(number))
                .cast::<AddressRecord>()
        })
    }

    /// Start of the lane from one process slot to another: a [`LaneHead`](crate::layout::LaneHead), the lane
    /// slots, the bulk area.
    pub fn lane(&self, from: u32, to: u32) -> *mut u8 {
        assert!(from < self.shape.process_slots && to < self.shape.process_slots);
        // SAFETY: `Shape` places the whole lane within the mapping.
        unsafe {
            self.mapping
                .as_ptr()
                .add(self.base + self.shape.lane_at(from, to))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::segment_size;

    #[test]
    fn lanes_lie_near_their_receiver() {
        let size = JobSize {
            channels: 2,
            ..JobSize::of(3)
        };
        let length = size.segment_size().expect("possible");
        let file = MemoryFile::create("weft-test", length).expect("memory files exist here");
        let map = || file.map_part(0, length).expect("it can be mapped");
        initialise_job(&map(), size, 1).expect("fits");
        let segment = Segment::open(map()).expect("a segment");
        let second = segment.channel(1).expect("there are two");
        let Some(node) = MemoryNode::here() else {
            return;
        };
        if let Err(refused) = segment.mapping.prefer_node(0, PAGE, node) {
            println!("skipped: {refused}");
            return;
        }
        second.keep_lanes_near(1, node);
        let others = map();
        let preferred = |segment: &Segment, from, to| {
            let at = segment.base + segment.shape.lane_at(from, to);
            [at, at + segment.shape.lane_bytes() - 1]
                .map(|at| others.preferred_node(at).expect("asked") == Some(node))
        };
        for (from, to) in [(0, 1), (1, 0), (2, 1), (1, 2), (0, 2), (2, 0)] {
            assert_eq!(preferred(&second, from, to), [to == 1; 2], "{from} to {to}");
            assert_eq!(preferred(&segment, from, to), [false; 2], "{from} to {to}");
        }
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
            .process_slots
            .store(3, Ordering::Relaxed);
        assert!(Segment::open(other).is_err(), "size and ranks disagree");
    }
}
