//! Addresses: where the processes of a job that were started later can be reached over a network, which incarnation
//! of each number exists now, and which processes on other hosts have ended. The launcher records them; ranks look.
//!
//! ```text
//!   launcher   records: number ─► incarnation, address │ announces: one more change
//!              records: number ─► how its process has ended │ announces, and wakes all who sleep
//!   rank       another number of changes? ─► looks at the incarnations that it knows, and at ends
//! ```
//!
//! How processes of this host have ended is in their process slots: see `slots.rs`.
//!
//! A job whose processes all share memory does not use it: its table is never touched, and takes no memory. An
//! *incarnation* is a number that the launcher gives to processes that are started together, and never reuses.
//!
//! # Ordering
//! * SYNC job.addresses: records are written before the number of changes is added to with Release; a rank that sees
//!   another number by Acquire sees them.
//! * SYNC address.sequence: a record is written between an odd and an even number. A reader that finds the same even
//!   number before and after has read one record, not parts of two: the words are stored after a Release fence behind the
//!   odd number, and the second look comes after an Acquire fence.
//!
//! Written only by the launcher; like everything in the segment it is checked before use.

use std::sync::Arc;

use weft_atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::segment::Segment;
use crate::slots::{self, End};
use crate::watch::Watch;

/// Longest address in bytes.
pub const LONGEST_ADDRESS: usize = WORDS * 8;

const WORDS: usize = 126;

/// How often a record is read that is being written.
const TRIES: u32 = 1000;

/// What is recorded of one number.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct AddressRecord {
    /// Odd while it is written.
    sequence: AtomicU32,
    incarnation: AtomicU32,
    length: AtomicU32,
    /// How the process of this incarnation has ended, as in `slots.rs`; 0: it has not.
    fate: AtomicU32,
    words: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<AddressRecord>() == 1024);

impl AddressRecord {
    pub const BYTES: usize = size_of::<Self>();

    fn write(&self, incarnation: u32, address: &[u8]) {
        self.change(|| {
            for (word, bytes) in self.words.iter().zip(address.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
            }
            self.length.store(address.len() as u32, Ordering::Relaxed);
            self.fate.store(0, Ordering::Relaxed);
            self.incarnation.store(incarnation, Ordering::Relaxed);
        });
    }

    /// The process that is recorded now has ended so.
    fn end(&self, fate: u32) {
        self.change(|| self.fate.store(fate, Ordering::Relaxed));
    }

    fn change(&self, change: impl FnOnce()) {
        let before = self.sequence.load(Ordering::Relaxed) | 1;
        self.sequence.store(before, Ordering::Relaxed);
        // SYNC address.sequence.
        fence(Ordering::Release);
        change();
        // SYNC address.sequence.
        self.sequence
            .store(before.wrapping_add(1), Ordering::Release);
    }

    fn read(&self) -> Option<(u32, Vec<u8>)> {
        self.look(|| {
            let words = self.words.iter().map(|word| word.load(Ordering::Relaxed));
            let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
            bytes.truncate(self.length.load(Ordering::Relaxed) as usize);
            (self.incarnation.load(Ordering::Relaxed), bytes)
        })
    }

    /// The fate of a process, if it is the one that is recorded.
    fn fate_of(&self, incarnation: u32) -> Option<u32> {
        let (known, fate) = self.look(|| {
            let incarnation = self.incarnation.load(Ordering::Relaxed);
            (incarnation, self.fate.load(Ordering::Relaxed))
        })?;
        (known == incarnation).then_some(fate)
    }

    fn look<T>(&self, look: impl Fn() -> T) -> Option<T> {
        for _ in 0..TRIES {
            // SYNC address.sequence.
            let before = self.sequence.load(Ordering::Acquire);
            let seen = look();
            // SYNC address.sequence.
            fence(Ordering::Acquire);
            let after = self.sequence.load(Ordering::Relaxed);
            if before == after && before & 1 == 0 {
                return Some(seen);
            }
            weft_atomic::spin_loop();
        }
        None
    }
}

/// The addresses of a job, for whoever looks. See the [module page](self).
#[derive(Clone, Debug)]
pub struct Addresses {
    segment: Arc<Segment>,
}

impl Addresses {
    pub(crate) fn of(segment: Arc<Segment>) -> Self {
        Self { segment }
    }

    /// For how many numbers there is a record.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.segment.shape().addresses
    }

    /// How often something was announced.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> u32 {
        // SYNC job.addresses.
        self.segment.header().addresses_told.load(Ordering::Acquire)
    }

    /// Which process has a number; 0 for those that the job starts with, and where nobody was started.
    #[must_use]
    pub fn incarnation(&self, number: u32) -> u32 {
        let record = self.segment.address(number);
        record.map_or(0, |record| record.incarnation.load(Ordering::Relaxed))
    }

    /// Which process has a number, and where it can be reached; `None` where nobody was started.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<(u32, Vec<u8>)> {
        let found = self.segment.address(number)?.read();
        found.filter(|(incarnation, _)| *incarnation > 0)
    }

    /// How the process with this number and incarnation, on another host, was lost; `None` if it was not, or has left in order.
    #[must_use]
    pub fn loss(&self, number: u32, incarnation: u32) -> Option<String> {
        match self.end_of(number, incarnation)? {
            End::Died(how) => Some(how),
            End::Left => None,
        }
    }

    /// Whether the process with this number and incarnation, on another host, has ended in order.
    #[must_use]
    pub fn has_left(&self, number: u32, incarnation: u32) -> bool {
        self.end_of(number, incarnation) == Some(End::Left)
    }

    fn end_of(&self, number: u32, incarnation: u32) -> Option<End> {
        let record = self.segment.address(number)?;
        End::of_fate(record.fate_of(incarnation)?)
    }
}

/// End of a process on another host, as its launcher there knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteEnd {
    /// With a wait status.
    Ended {
        /// As the kernel gives it.
        status: i32,
        /// It had left the job before, so that its end is no loss.
        in_order: bool,
    },
    /// With its host, so that nobody knows how.
    HostLost,
}

impl Watch {
    /// Records which process has a number from now on, and where it can be reached. False if there is no such number, or
    /// the address is too long. To be [announced](Self::announce_addresses).
    #[must_use]
    pub fn record_address(&self, number: u32, incarnation: u32, address: &[u8]) -> bool {
        match self.segment().address(number) {
            Some(record) if address.len() <= LONGEST_ADDRESS => {
                record.write(incarnation, address);
                true
            }
            _ => false,
        }
    }

    /// Whether a process has said where it is that was started later and has this number now, or had it last.
    #[must_use]
    pub fn has_address(&self, number: u32) -> bool {
        let record = self.segment().address(number);
        record.is_some_and(|record| record.incarnation.load(Ordering::Relaxed) > 0)
    }

    /// Tells all ranks here that the process that has a number now, on another host, has ended. Once it has, another end is that of a
    /// process that has never said where it is: nobody knows that one.
    pub fn tell_of_remote_end(&self, number: u32, end: RemoteEnd) {
        let record = self.segment().address(number);
        let Some(record) = record.filter(|record| record.fate.load(Ordering::Relaxed) == 0) else {
            return;
        };
        record.end(match end {
            RemoteEnd::Ended { status, in_order } => slots::fate_of(status, in_order),
            RemoteEnd::HostLost => slots::fate_with_host(),
        });
        self.announce_addresses();
        self.tell();
    }

    /// Says that addresses were recorded. Nobody is woken: who has nothing to send does not need them.
    pub fn announce_addresses(&self) {
        // SYNC job.addresses.
        let told = &self.segment().header().addresses_told;
        told.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobSize, initialise_job};
    use weft_sys::Mapping;

    #[test]
    fn an_address_is_found_by_number_until_another_process_has_it() {
        let size = JobSize {
            addresses: 3,
            ..JobSize::of(1)
        };
        let mapping = Mapping::private(size.segment_size().expect("fits")).expect("maps");
        initialise_job(&mapping, size, 1).expect("the right size");
        let segment = Segment::open(mapping).expect("initialised");
        let (watch, addresses) = (Watch::over(segment.clone()), Addresses::of(segment));
        assert_eq!((addresses.count(), addresses.changes()), (3, 0));
        assert_eq!((addresses.incarnation(2), addresses.get(2)), (0, None));
        let long = [b'x'; LONGEST_ADDRESS];
        for (incarnation, address) in [(4, &b"a;lo=127.0.0.1:7"[..]), (9, &long), (12, b"")] {
            let told = addresses.changes();
            assert!(watch.record_address(2, incarnation, address));
            watch.announce_addresses();
            assert_eq!(addresses.changes(), told + 1);
            assert_eq!(addresses.incarnation(2), incarnation);
            assert_eq!(addresses.get(2), Some((incarnation, address.to_vec())));
        }
        assert!(!watch.record_address(3, 1, b"a"), "no such number");
        let died = RemoteEnd::Ended {
            status: 9,
            in_order: false,
        };
        for (end, lost, left) in [
            (died, Some("its process was killed by signal 9"), false),
            (RemoteEnd::HostLost, Some("its host is lost"), false),
            (
                RemoteEnd::Ended {
                    status: 3 << 8,
                    in_order: true,
                },
                None,
                true,
            ),
        ] {
            assert!(watch.record_address(2, 20, b"b"), "the next process");
            assert_eq!(
                (addresses.loss(2, 20), addresses.has_left(2, 20)),
                (None, false)
            );
            let told = addresses.changes();
            watch.tell_of_remote_end(2, end);
            assert_ne!(addresses.changes(), told);
            assert_eq!(addresses.loss(2, 20).as_deref(), lost);
            assert_eq!(addresses.has_left(2, 20), left);
            watch.tell_of_remote_end(2, RemoteEnd::HostLost);
            assert_eq!(addresses.has_left(2, 20), left, "it has ended once");
            assert_eq!(addresses.loss(2, 12), None, "it is another one's");
            assert_eq!(addresses.get(2), Some((20, b"b".to_vec())));
        }
        assert!(watch.has_address(2) && !watch.has_address(0) && !watch.has_address(3));
        watch.tell_of_remote_end(0, died);
        assert!(addresses.loss(0, 0).is_some() && addresses.loss(1, 0).is_none());
        watch.tell_of_remote_end(3, died);
        assert!(!watch.record_address(0, 1, &[0; LONGEST_ADDRESS + 1]));
        assert_eq!((addresses.get(0), addresses.get(3)), (None, None));
    }
}
