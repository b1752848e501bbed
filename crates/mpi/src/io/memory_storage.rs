//! Memory storage: a file in memory, for tests: shared by the ranks of a test, with faults that are planned or random.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weft_fabric::Region;

use super::storage::Storage;

/// A fault of the next call that moves bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It moves at most this many bytes.
    Short(usize),
    /// It is interrupted before it moves any.
    Interrupted,
    /// It fails with this error number.
    Fails(i32),
}

/// (Who, exclusive, first byte, byte after the last).
type Lock = (usize, bool, u64, u64);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    plan: VecDeque<Fault>,
    /// Draws short and interrupted calls from a seed, if it is not 0.
    seed: u64,
    locks: Vec<Lock>,
    /// Calls that read, and calls that write.
    calls: (usize, usize),
}

struct Shared {
    state: Mutex<State>,
    unlocked: Condvar,
    /// Bytes that there is room for.
    room: usize,
    /// What happens when a call has read, before it returns.
    after_read: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Shared({:?})", self.state)
    }
}

/// One opening of the storage; a clone is another opening of the same.
#[derive(Debug)]
pub struct MemoryStorage {
    shared: Arc<Shared>,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::with_room(usize::MAX)
    }
}

impl Clone for MemoryStorage {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// What an opening had locked is free when it is closed.
impl Drop for MemoryStorage {
    fn drop(&mut self) {
        let me = self.opening();
        self.state().locks.retain(|(who, ..)| *who != me);
        self.shared.unlocked.notify_all();
    }
}

impl MemoryStorage {
    /// An empty file on a disk with so much room.
    pub fn with_room(room: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                unlocked: Condvar::new(),
                room,
                after_read: Mutex::default(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the faults of the next calls.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().plan.extend(faults);
    }

    /// From now on calls are short or interrupted as this seed says.
    pub fn seed(&self, seed: u64) {
        self.state().seed = seed;
    }

    /// Sets a function to be called whenever a call has read, before it returns; one call of it at a time.
    pub fn after_read(&self, what: impl Fn() + Send + Sync + 'static) {
        let after_read = self.shared.after_read.lock();
        *after_read.unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(what));
    }

    /// Number of reads and writes since this was last called.
    pub fn calls(&self) -> (usize, usize) {
        std::mem::take(&mut self.state().calls)
    }

    /// Its contents.
    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    fn opening(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn wanted(&self, exclusive: bool, offset: u64, length: u64) -> Lock {
        let end = if length == 0 {
            u64::MAX
        } else {
            offset + length
        };
        (self.opening(), exclusive, offset, end)
    }
}

impl State {
    fn is_in_the_way(&self, (me, exclusive, offset, end): Lock) -> bool {
        self.locks.iter().any(|(who, other, first, last)| {
            *who != me && (exclusive || *other) && *first < end && offset < *last
        })
    }

    /// How many of `length` bytes the next call moves.
    fn allowed(&mut self, length: usize) -> io::Result<usize> {
        let fault = self.plan.pop_front().or_else(|| {
            if self.seed == 0 {
                return None;
            }
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            match self.seed >> 20 & 7 {
                0 => Some(Fault::Interrupted),
                1 | 2 => Some(Fault::Short(1 + (self.seed >> 30) as usize % 50)),
                _ => None,
            }
        });
        match fault {
            None => Ok(length),
            Some(Fault::Short(most)) => Ok(length.min(most)),
            Some(Fault::Interrupted) => Err(ErrorKind::Interrupted.into()),
            Some(Fault::Fails(number)) => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

impl Storage for MemoryStorage {
    fn read_at(&self, into: Region, offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        let length = state.allowed(into.len())?;
        let rest = state.bytes.get(offset as usize..).unwrap_or(&[]);
        let length = length.min(rest.len());
        let read = into.copy_from_slice(&rest[..length]);
        state.calls.0 += 1;
        drop(state);
        let after_read = self.shared.after_read.lock();
        let after_read = after_read.unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(after_read) = after_read {
            after_read();
        }
        Ok(read)
    }

    fn write_at(&self, from: Region, offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        let length = state.allowed(from.len())?;
        let offset = offset as usize;
        let length = length.min(self.shared.room.saturating_sub(offset));
        if length == 0 {
            return Err(io::Error::from_raw_os_error(28));
        }
        state.calls.1 += 1;
        let end = offset + length;
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
        }
        Ok(from.copy_to_slice(&mut state.bytes[offset..end]))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.state().bytes.resize(size as usize, 0);
        Ok(())
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        let mut state = self.state();
        if size as usize > self.shared.room {
            return Err(io::Error::from_raw_os_error(28));
        }
        let size = state.bytes.len().max(size as usize);
        state.bytes.resize(size, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<()> {
        let lock = self.wanted(exclusive, offset, length);
        let mut state = self.state();
        while state.is_in_the_way(lock) {
            let waited = self.shared.unlocked.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.locks.push(lock);
        Ok(())
    }

    fn try_lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<bool> {
        let lock = self.wanted(exclusive, offset, length);
        let mut state = self.state();
        if state.is_in_the_way(lock) {
            return Ok(false);
        }
        state.locks.push(lock);
        Ok(true)
    }

    fn unlock(&self, offset: u64, _length: u64) -> io::Result<()> {
        let me = self.opening();
        let mut state = self.state();
        state
            .locks
            .retain(|(who, _, first, _)| (*who, *first) != (me, offset));
        self.shared.unlocked.notify_all();
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
