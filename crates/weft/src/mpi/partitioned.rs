//! Partitioned messages: their parts become ready one by one, each by the thread that produces it (MPI 5.0, chapter 4).
//!
//! | step of a send | effect |
//! |---|---|
//! | [`start`](PartitionedSend::start) | gives out the [partitions](Partition); one thread may write each |
//! | [`ready`](Partition::ready), or dropping a partition | its elements may leave; no thread can write them any more |
//! | [`wait`](PartitionedSend::wait) | the elements are available again for the next round |
//!
//! The borrows make this safe: partitions borrow the send, so that it can be waited for only when none is left.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_mpi::{Error, ErrorClass, Process, RequestId, Result};

use super::Element;
use super::communicator::PointToPoint;
use super::envelope::{Destination, check_tag};
use super::memory::Memory;
use super::persistent::Freed;
use super::state::Handle;

/// What both sides have: the request and its elements, in equal partitions.
struct Channel<T: Element> {
    handle: Arc<Handle>,
    id: RequestId,
    /// Until it is dropped.
    memory: Option<Memory<T>>,
    partitions: u32,
    /// Elements of a partition.
    length: usize,
    active: bool,
    /// Partitions of a send under way that are not ready.
    open: Mutex<u32>,
}

fn lock(open: &Mutex<u32>) -> MutexGuard<'_, u32> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Element> Channel<T> {
    fn process(&self) -> &Arc<Process> {
        self.handle.comm.process()
    }

    fn memory(&self) -> &Memory<T> {
        self.memory.as_ref().expect("it is there until the end")
    }

    fn start(&mut self) -> Result<()> {
        self.process().start(self.id)?;
        self.active = true;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let outcome = self.process().wait(self.id);
        self.active = false;
        outcome.map(drop)
    }

    fn has_ended(&mut self) -> Result<bool> {
        let outcome = self.process().test(self.id);
        self.active = matches!(outcome, Ok(None));
        Ok(outcome?.is_some())
    }

    fn elements(&mut self) -> Result<&mut [T]> {
        if self.active {
            return Err(Error::new(
                ErrorClass::Request,
                "the message is under way and uses the elements; wait for its end first",
            ));
        }
        let memory = self.memory.as_mut().expect("it is there until the end");
        memory.elements_mut()
    }

    fn check_partition(&self, partition: usize) -> Result<u32> {
        let number = u32::try_from(partition).ok();
        number
            .filter(|number| *number < self.partitions)
            .ok_or_else(|| {
                Error::new(
                    ErrorClass::Arg,
                    format!(
                        "there is no partition {partition}: the message has {} (0 to {})",
                        self.partitions,
                        i64::from(self.partitions) - 1
                    ),
                )
            })
    }
}

impl<T: Element> Drop for Channel<T> {
    fn drop(&mut self) {
        let process = Arc::clone(self.process());
        if self.active && *lock(&self.open) > 0 {
            // It never ends, and cannot be cancelled (MPI 5.0, section 4.2.1): it keeps its elements, which nobody else has.
            std::mem::forget(self.memory.take());
            return;
        }
        let ended = !self.active || !matches!(process.test(self.id), Ok(None));
        let freed = Freed(process, self.id);
        if !ended {
            let kept = Box::new((self.memory.take(), freed));
            let state = Arc::clone(&self.handle.state);
            state.adopt(Arc::clone(&self.handle), self.id, kept);
        }
    }
}

/// Number of elements of each partition.
fn share(name: &str, elements: usize, partitions: usize) -> Result<(u32, usize)> {
    match u32::try_from(partitions) {
        Ok(number) if number > 0 && elements.is_multiple_of(partitions) => {
            Ok((number, elements / partitions))
        }
        _ => Err(Error::new(
            ErrorClass::Count,
            format!(
                "{name}: {elements} elements are no {partitions} equal partitions; give at least one partition, and a multiple of their number"
            ),
        )),
    }
}

/// A send whose partitions become ready one by one (`MPI_Psend_init`). It can be started any number of times, and owns
/// its elements.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(2, |world| {
///     const PARTS: usize = 4;
///     if world.rank() == 0 {
///         let mut send = world.psend_init(vec![0_u64; 100 * PARTS], PARTS, 1, 0)?;
///         for round in 0..3 {
///             // Each partition by a thread of its own.
///             std::thread::scope(|threads| -> mpi::Result<()> {
///                 for mut part in send.start()? {
///                     threads.spawn(move || {
///                         let number = part.number() as u64;
///                         part.fill(10 * round + number);
///                         part.ready()
///                     });
///                 }
///                 Ok(())
///             })?;
///             send.wait()?;
///         }
///     } else {
///         let mut receive = world.preceive_init(vec![0_u64; 100 * PARTS], PARTS, 0, 0)?;
///         for round in 0..3 {
///             receive.start()?;
///             receive.wait()?;
///             assert_eq!(receive.elements()?[300], 10 * round + 3);
///         }
///     }
///     Ok(())
/// });
/// ```
///
/// The elements are not accessible while they are sent:
///
/// ```compile_fail
/// # use weft::mpi;
/// # mpi::test(1, |world| {
/// let mut send = world.psend_init(vec![0; 4], 2, 0, 0)?;
/// let mut parts = send.start()?;
/// let first = parts.remove(0);
/// send.wait()?; // a partition is somebody's still
/// first.ready()
/// # });
/// ```
pub struct PartitionedSend<T: Element> {
    channel: Channel<T>,
}

impl<T: Element> std::fmt::Debug for PartitionedSend<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "PartitionedSend({:?})", self.channel.id)
    }
}

impl<T: Element> PartitionedSend<T> {
    /// Starts it (`MPI_Start`), and gives out its partitions in order. Each has the elements of the last round.
    ///
    /// # Errors
    /// `Request` if it is under way.
    pub fn start(&mut self) -> Result<Vec<Partition<'_, T>>> {
        // Before the engine may read any of them.
        self.channel.elements()?;
        self.channel.start()?;
        let (process, id) = (Arc::clone(self.channel.process()), self.channel.id);
        let open = &self.channel.open;
        *lock(open) = self.channel.partitions;
        let length = self.channel.length;
        let memory = self.channel.memory.as_mut();
        let mut rest = memory.expect("it is there until the end").elements_mut()?;
        let mut partitions = Vec::with_capacity(self.channel.partitions as usize);
        for number in 0..self.channel.partitions {
            let (elements, behind) = rest.split_at_mut(length);
            rest = behind;
            partitions.push(Partition {
                elements,
                number,
                open,
                process: Arc::clone(&process),
                id,
                done: false,
            });
        }
        Ok(partitions)
    }

    /// Waits until all elements have left (`MPI_Wait`). Returns at once if it was not started.
    ///
    /// # Errors
    /// The error of the send; `Request` if a partition was leaked, so that it never becomes ready.
    pub fn wait(&mut self) -> Result<()> {
        self.check_ready()?;
        self.channel.wait()
    }

    /// Whether all elements have left (`MPI_Test`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(&mut self) -> Result<bool> {
        self.check_ready()?;
        self.channel.has_ended()
    }

    fn check_ready(&self) -> Result<()> {
        let open = *lock(&self.channel.open);
        if !self.channel.active || open == 0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Request,
            format!(
                "{open} of {} partitions were leaked and never become ready, so that the message never ends; let each be dropped, or call ready",
                self.channel.partitions
            ),
        ))
    }

    /// The elements, between its end and the next start.
    ///
    /// # Errors
    /// `Request` while it is under way.
    pub fn elements(&mut self) -> Result<&mut [T]> {
        self.channel.elements()
    }
}

/// A part of a message that only this thread may write until it is ready. Dropping it makes it ready, too.
pub struct Partition<'send, T: Element> {
    elements: &'send mut [T],
    number: u32,
    open: &'send Mutex<u32>,
    process: Arc<Process>,
    id: RequestId,
    done: bool,
}

impl<T: Element> std::fmt::Debug for Partition<'_, T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Partition({} of {:?})", self.number, self.id)
    }
}

impl<T: Element> Deref for Partition<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T: Element> DerefMut for Partition<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}

impl<T: Element> Partition<'_, T> {
    /// Its index, from 0.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// Marks it ready: its elements may leave (`MPI_Pready`).
    ///
    /// # Errors
    /// `ProcFailed` if the receiver is lost.
    pub fn ready(mut self) -> Result<()> {
        self.make_ready()
    }

    fn make_ready(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        // From here on the engine reads them, and this reference is not used again.
        self.elements = &mut [];
        let outcome = self.process.ready(self.id, self.number..self.number + 1);
        *lock(self.open) -= 1;
        outcome
    }
}

impl<T: Element> Drop for Partition<'_, T> {
    fn drop(&mut self) {
        // A thread that panics may have written half of it: that leaves nobody's hands.
        if !std::thread::panicking() {
            // Whoever wants to know calls `ready`; the wait says it, too.
            _ = self.make_ready();
        }
    }
}

/// A receive whose partitions arrive one by one (`MPI_Precv_init`). It can be started any number of times, and owns its
/// elements.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(2, |world| {
///     if world.rank() == 0 {
///         let mut send = world.psend_init(vec![5_u8, 6, 7, 8], 2, 1, 0)?;
///         drop(send.start()?); // all ready as they are
///         return send.wait();
///     }
///     // The receiver may cut the message otherwise.
///     let mut receive = world.preceive_init(vec![0_u8; 4], 4, 0, 0)?;
///     receive.start()?;
///     let last = loop {
///         if let Some(last) = receive.arrived(3)? {
///             break last.to_vec(); // the others may be on their way still
///         }
///     };
///     assert_eq!(last, [8]);
///     receive.wait()?;
///     assert_eq!(receive.elements()?, [5, 6, 7, 8]);
///     Ok(())
/// });
/// ```
pub struct PartitionedReceive<T: Element> {
    channel: Channel<T>,
}

impl<T: Element> std::fmt::Debug for PartitionedReceive<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "PartitionedReceive({:?})", self.channel.id)
    }
}

impl<T: Element> PartitionedReceive<T> {
    /// Starts it (`MPI_Start`).
    ///
    /// # Errors
    /// `Request` if it is under way.
    pub fn start(&mut self) -> Result<()> {
        self.channel.start()
    }

    /// The elements of a partition, if they have arrived (`MPI_Parrived`).
    ///
    /// # Errors
    /// `Arg` for a partition that does not exist; `Type` if a received element is no valid value of the type.
    pub fn arrived(&self, partition: usize) -> Result<Option<&[T]>> {
        let number = self.channel.check_partition(partition)?;
        if !self
            .channel
            .process()
            .has_arrived(self.channel.id, number)?
        {
            return Ok(None);
        }
        // Nobody writes to it before the next start, which needs the receive for itself.
        let first = partition * self.channel.length;
        let elements = self
            .channel
            .memory()
            .part(first..first + self.channel.length)?;
        Ok(Some(elements))
    }

    /// Waits until all partitions have arrived (`MPI_Wait`). Returns at once if it was not started.
    ///
    /// # Errors
    /// The error of the receive.
    pub fn wait(&mut self) -> Result<()> {
        self.channel.wait()
    }

    /// Whether all partitions have arrived (`MPI_Test`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(&mut self) -> Result<bool> {
        self.channel.has_ended()
    }

    /// The elements, between its end and the next start.
    ///
    /// # Errors
    /// `Request` while it is under way; `Type` if a received element is no valid value of the type.
    pub fn elements(&mut self) -> Result<&mut [T]> {
        self.channel.elements()
    }
}

impl PointToPoint {
    /// Prepares a send of this many equal partitions (`MPI_Psend_init`). Sends and receives of one peer and tag are
    /// matched in the order in which they are prepared.
    ///
    /// # Errors
    /// `Count` unless the elements can be divided into equal partitions, `Rank` for a rank that does not exist, `Tag` for
    /// an invalid tag.
    pub fn psend_init<T: Element>(
        &self,
        elements: Vec<T>,
        partitions: usize,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<PartitionedSend<T>> {
        let (number, length) = share("MPI_Psend_init", elements.len(), partitions)?;
        let memory = Memory::of(elements);
        let buffer = memory.view().buffer();
        let id = self
            .comm()
            .psend_init(buffer, number, to.into().0, check_tag(tag)?)?;
        Ok(PartitionedSend {
            channel: self.channel(id, memory, number, length),
        })
    }

    /// Prepares a receive into a vector, in this many equal partitions (`MPI_Precv_init`): the number of elements must be
    /// that of the send, the number of partitions may differ.
    ///
    /// # Errors
    /// As for [`psend_init`](Self::psend_init).
    pub fn preceive_init<T: Element>(
        &self,
        room: Vec<T>,
        partitions: usize,
        from: impl Into<Destination>,
        tag: i32,
    ) -> Result<PartitionedReceive<T>> {
        let (number, length) = share("MPI_Precv_init", room.len(), partitions)?;
        let memory = Memory::of(room);
        let buffer = memory.view().buffer();
        let id = self
            .comm()
            .precv_init(buffer, number, from.into().0, check_tag(tag)?)?;
        Ok(PartitionedReceive {
            channel: self.channel(id, memory, number, length),
        })
    }

    fn channel<T: Element>(
        &self,
        id: RequestId,
        memory: Memory<T>,
        partitions: u32,
        length: usize,
    ) -> Channel<T> {
        Channel {
            handle: Arc::clone(self.handle()),
            id,
            memory: Some(memory),
            partitions,
            length,
            active: false,
            open: Mutex::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass};

    #[test]
    fn partitions_are_ready_in_any_order_and_when_dropped() {
        mpi::test(2, |world| {
            let other = 1 - world.rank();
            let mut send = world.psend_init(vec![0_u32; 6], 3, other, 0)?;
            let mut receive = world.preceive_init(vec![0_u32; 6], 2, other, 0)?;
            for round in 0..5 {
                receive.start()?;
                let mut parts = send.start()?;
                parts.reverse();
                for part in &mut parts {
                    let number = part.number() as u32;
                    part.fill(100 * round + 10 * other as u32 + number);
                }
                parts.pop().expect("three").ready()?;
                drop(parts);
                send.wait()?;
                receive.wait()?;
                let mine = 100 * round + 10 * world.rank() as u32;
                let expected = [mine, mine, mine + 1, mine + 1, mine + 2, mine + 2];
                assert_eq!(receive.elements()?, expected);
                assert_eq!(receive.arrived(1)?, Some(&expected[3..]));
            }
            Ok(())
        });
    }

    #[test]
    fn what_never_ends_and_what_is_wrong_is_named() {
        mpi::test(1, |world| {
            let class = |outcome: mpi::Result<()>| outcome.unwrap_err().class();
            let uneven = world.psend_init(vec![0; 4], 3, 0, 0);
            assert_eq!(class(uneven.map(drop)), ErrorClass::Count);
            let none = world.preceive_init(vec![0; 4], 0, 0, 0);
            assert_eq!(class(none.map(drop)), ErrorClass::Count);
            let far = world.psend_init(vec![0; 4], 2, 7, 0);
            assert_eq!(class(far.map(drop)), ErrorClass::Rank);
            let receive = world.preceive_init(vec![0; 4], 2, 0, 3)?;
            assert_eq!(class(receive.arrived(2).map(drop)), ErrorClass::Arg);
            let mut send = world.psend_init(vec![0; 4], 2, 0, 3)?;
            let mut parts = send.start()?;
            std::mem::forget(parts.pop());
            drop(parts);
            assert_eq!(class(send.wait()), ErrorClass::Request);
            assert_eq!(class(send.elements().map(drop)), ErrorClass::Request);
            Ok(())
        });
    }

    /// Values are checked partition by partition.
    #[test]
    fn bytes_that_are_no_value_are_refused_where_they_are() {
        mpi::test(2, |world| {
            if world.rank() == 0 {
                let mut send = world.psend_init(vec![1_u8, 2], 2, 1, 0)?;
                drop(send.start()?);
                return send.wait();
            }
            let mut receive = world.preceive_init(vec![false; 2], 2, 0, 0)?;
            receive.start()?;
            receive.wait()?;
            assert_eq!(receive.arrived(0)?, Some(&[true][..]));
            let second = receive.arrived(1).map(drop).unwrap_err();
            assert_eq!(second.class(), ErrorClass::Type);
            Ok(())
        });
    }
}
