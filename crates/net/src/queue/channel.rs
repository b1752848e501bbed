//! Channel: a pair of rings with the events of both sides: everything that two neighbours share besides the
//! buffers.

use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_sys::event::EventFd;
use weft_sys::{Mapping, MemoryFile};

use super::ring::{RingMemory, Words};
use super::{Consumer, Descriptor, Full, Producer};

/// Fewest entries of a channel's ring: one line of them.
pub const LEAST: u32 = 16;

/// Full buffers that wait for a sink that is far behind: two bursts of a component.
pub const BEHIND: u32 = 128;

/// The memory of one channel, made once by the builder of the system and mapped by two components.
pub struct ChannelMemory {
    file: MemoryFile,
    capacity: u32,
}

impl ChannelMemory {
    /// Memory for two rings of `capacity` entries.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create(label: &str, capacity: u32) -> io::Result<Self> {
        let file = MemoryFile::create(label, 2 * ring_bytes(capacity))?;
        Ok(Self { file, capacity })
    }

    /// A channel that was handed over.
    ///
    /// # Errors
    /// If the capacity is not one of a ring, or the memory is not of the size that it needs.
    pub fn adopt(descriptor: OwnedFd, capacity: u32) -> io::Result<Self> {
        let file = MemoryFile::adopt(descriptor)?;
        let fits = capacity.is_power_of_two()
            && (LEAST..=super::MOST).contains(&capacity)
            && file.len() == 2 * ring_bytes(capacity);
        if !fits {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "a channel of {} bytes came, one of two rings of {capacity} was expected: both \
                     sides must be of the same version",
                    file.len()
                ),
            ));
        }
        Ok(Self { file, capacity })
    }

    /// Entries of each ring.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// A descriptor of the memory, for the other side.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.file.share()?.into_descriptor())
    }

    /// How many full buffers wait for the sink now.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn waiting(&self) -> io::Result<u32> {
        Ok(self.rings()?[0].waiting())
    }

    /// The used ring, then the free one.
    fn rings(&self) -> io::Result<[RingMemory; 2]> {
        let mapping = Arc::new(self.file.map()?);
        let memory: Arc<dyn Any + Send + Sync> = mapping.clone();
        let at = |start: usize| -> io::Result<RingMemory> {
            let bytes = ring_bytes(self.capacity);
            let place = Mapping::place(&mapping, start, bytes, align_of::<Words>())
                .ok_or_else(|| io::Error::other("a ring does not lie within its channel"))?;
            let words = place.as_ptr().cast::<Words>();
            // SAFETY: the slots follow the words within the `bytes` checked above.
            let slots = unsafe { words.add(1) }.cast();
            // SAFETY: aligned and within the mapping, which `memory` keeps; both sides reach it by
            // atomics only.
            Ok(unsafe { RingMemory::new(words, slots, self.capacity, memory.clone()) })
        };
        Ok([at(0)?, at(ring_bytes(self.capacity))?])
    }

    /// The end of the producer of data. `limit`: the largest number of full buffers that may wait.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn source(
        &self,
        generation: u32,
        limit: u32,
        event: Option<EventFd>,
    ) -> io::Result<Source> {
        let [used, free] = self.rings()?;
        Ok(Source {
            used: Producer::new(used, generation, limit),
            free: Consumer::new(free, generation),
            event,
        })
    }

    /// The end of the consumer of data.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn sink(&self, generation: u32, event: Option<EventFd>) -> io::Result<Sink> {
        let [used, free] = self.rings()?;
        Ok(Sink {
            used: Consumer::new(used, generation),
            free: Producer::new(free, generation, self.capacity),
            event,
        })
    }
}

fn ring_bytes(capacity: u32) -> usize {
    size_of::<Words>() + (capacity as usize * 8).next_multiple_of(align_of::<Words>())
}

/// The end of the producer of data.
pub struct Source {
    /// Full buffers towards the sink.
    used: Producer,
    /// Empty buffers back from it.
    free: Consumer,
    /// The sink's event; `None` where both sides run in turn in one thread.
    event: Option<EventFd>,
}

impl Source {
    /// How many full buffers can be pushed.
    #[inline]
    #[must_use]
    pub fn room(&mut self) -> u32 {
        self.used.room()
    }

    /// Appends a full buffer, which the sink sees after the next [`settle`](Self::settle).
    ///
    /// # Errors
    /// If there is no room.
    #[inline]
    pub fn push(&mut self, descriptor: Descriptor) -> Result<(), Full> {
        self.used.push(descriptor)
    }

    /// How many full buffers wait for the sink, as far as is known without a look.
    #[inline]
    #[must_use]
    pub fn backlog(&self) -> u32 {
        self.used.backlog()
    }

    /// How many full buffers wait for the sink now.
    #[inline]
    #[must_use]
    pub fn depth(&mut self) -> u32 {
        self.used.depth()
    }

    /// The next empty buffer that the sink has given back.
    #[inline]
    pub fn take_back(&mut self) -> Option<Descriptor> {
        self.free.pop()
    }

    /// Asks to be notified when a buffer is given back; true if one is there already.
    #[inline]
    #[must_use = "with something in the queue there is no event to wait for"]
    pub fn announce_returns(&mut self) -> bool {
        self.free.announce()
    }

    /// Publishes what was pushed, releases what was taken, notifies the sink if it waits.
    #[inline]
    pub fn settle(&mut self) {
        self.free.release();
        if self.used.publish()
            && let Some(event) = &self.event
        {
            event.notify();
        }
    }

    /// Whether the sink is far behind: this many full buffers, [`BEHIND`], wait for it. A queue that
    /// is limited to fewer drops instead.
    #[inline]
    #[must_use]
    pub fn is_ahead(&mut self) -> bool {
        // Without an event the sink runs next in the same thread.
        self.event.is_some() && self.used.backlog() >= BEHIND && self.used.depth() >= BEHIND
    }

    /// This end in another generation.
    #[must_use]
    pub fn reattach(self, generation: u32) -> Self {
        Self {
            used: self.used.reattach(generation),
            free: self.free.reattach(generation),
            event: self.event,
        }
    }

    /// How often the other side wrote an index out of its window.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.used.faults() + self.free.faults()
    }
}

/// The end of the consumer of data.
pub struct Sink {
    /// Full buffers from the source.
    used: Consumer,
    /// Empty buffers back to it.
    free: Producer,
    /// The source's event.
    event: Option<EventFd>,
}

impl Sink {
    /// Takes the next full buffer, which must be [given back](Self::give_back).
    #[inline]
    pub fn take(&mut self) -> Option<Descriptor> {
        self.used.pop()
    }

    /// Lets the source use the places of taken entries, before the next [`settle`](Self::settle).
    #[inline]
    pub fn release(&mut self) {
        self.used.release();
    }

    /// Asks to be notified when a full buffer comes; true if one is there already.
    #[inline]
    #[must_use = "with something in the queue there is no event to wait for"]
    pub fn announce(&mut self) -> bool {
        self.used.announce()
    }

    /// Publishes what was given back, releases what was taken, notifies the source if it waits.
    #[inline]
    pub fn settle(&mut self) {
        self.used.release();
        if self.free.publish()
            && let Some(event) = &self.event
        {
            event.notify();
        }
    }

    /// Gives a buffer back. There is room, as the ring has a place for each buffer of the source; a source
    /// that pretends otherwise loses the buffer until it is reattached.
    #[inline]
    pub fn give_back(&mut self, descriptor: Descriptor) -> bool {
        let empty = Descriptor {
            length: 0,
            ..descriptor
        };
        self.free.push(empty).is_ok()
    }

    /// This end in another generation.
    #[must_use]
    pub fn reattach(self, generation: u32) -> Self {
        Self {
            used: self.used.reattach(generation),
            free: self.free.reattach(generation),
            event: self.event,
        }
    }

    /// How often the other side wrote an index out of its window.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.used.faults() + self.free.faults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sys::event::EventWaiter;

    #[test]
    fn buffers_go_round_between_two_mappings_and_bells_wake() {
        let memory = ChannelMemory::create("weft-test", 16).expect("memory files exist here");
        let theirs = memory.share().expect("descriptors are left");
        let theirs = ChannelMemory::adopt(theirs, 16).expect("it is the same");
        let (to_sink, to_source) = (EventFd::new().expect("made"), EventFd::new().expect("made"));
        let (sink_waiter, source_waiter) = (
            EventWaiter::new().expect("made"),
            EventWaiter::new().expect("made"),
        );
        // The builder of the system keeps events open: closing one loses a notification that has not woken
        // anybody yet.
        let _kept = (
            to_sink.share().expect("shared"),
            to_source.share().expect("shared"),
        );
        sink_waiter.register(&to_sink).expect("registered");
        source_waiter.register(&to_source).expect("registered");
        let rounds = 2_000u32;
        let worker = std::thread::spawn(move || {
            let mut sink = theirs.sink(0, Some(to_source)).expect("maps");
            let mut seen = 0;
            while seen < rounds {
                while let Some(descriptor) = sink.take() {
                    assert_eq!(u32::from(descriptor.length), seen % 1000);
                    assert!(sink.give_back(descriptor));
                    seen += 1;
                }
                sink.settle();
                if seen < rounds && !sink.announce() {
                    sink_waiter.wait(None).expect("sleeps");
                }
            }
        });
        let mut source = memory.source(0, 16, Some(to_sink)).expect("maps");
        assert_eq!(memory.waiting().expect("maps"), 0);
        let mut spare: Vec<u32> = (0..4).map(|slot| slot * 2048).collect();
        let (mut sent, mut back) = (0, 0);
        while back < rounds {
            while let Some(descriptor) = source.take_back() {
                spare.push(descriptor.offset);
                back += 1;
            }
            while sent < rounds
                && let Some(offset) = spare.pop()
            {
                let descriptor = Descriptor {
                    offset,
                    length: (sent % 1000) as u16,
                    tag: 0,
                };
                source.push(descriptor).expect("there is room");
                sent += 1;
            }
            source.settle();
            if back < rounds && !source.announce_returns() {
                source_waiter.wait(None).expect("sleeps");
            }
        }
        worker.join().expect("the sink ends");
        assert_eq!(source.faults(), 0);
    }

    #[test]
    fn an_observer_sees_how_many_wait() {
        let memory = ChannelMemory::create("weft-test", 16).expect("memory files exist here");
        let (mut source, mut sink) = (
            memory.source(0, 16, None).expect("maps"),
            memory.sink(0, None).expect("maps"),
        );
        for slot in 0..3 {
            source.push(Descriptor::empty(slot)).expect("room");
        }
        assert_eq!(memory.waiting().expect("maps"), 0, "nothing is published");
        source.settle();
        assert_eq!(memory.waiting().expect("maps"), 3);
        assert!(sink.take().is_some());
        sink.settle();
        assert_eq!(memory.waiting().expect("maps"), 2);
        let _sink = sink.reattach(1);
        assert_eq!(memory.waiting().expect("maps"), 0, "of another generation");
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let memory = ChannelMemory::create("weft-test", 16).expect("memory files exist here");
        for capacity in [8, 17, 512, 1 << 20] {
            let shared = memory.share().expect("descriptors are left");
            assert!(
                ChannelMemory::adopt(shared, capacity).is_err(),
                "{capacity}"
            );
        }
    }
}
