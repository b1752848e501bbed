//! Aggregation: some ranks, the aggregators, write and read for all of a collective call, so that the file sees large
//! pieces where each rank has many small ones (two-phase access: del Rosario, Bordawekar, Choudhary 1993).
//!
//! ```text
//!   file      │ window 0 │ window 1 │ window 2 │ …            windows of equal size
//!   round 0     aggr. 0     aggr. 1                          one window for each aggregator,
//!   round 1                            aggr. 0      …        from the first byte that any rank still has
//! ```
//!
//! In a round each rank tells each aggregator which pieces of its window it has (as [runs](super::run)), with the data,
//! or the request for them. The next position in the file of each rank travels along, so that all know where the next
//! round begins, and parts of the file that no rank accesses cost nothing. Each rank goes through its pieces once and
//! keeps no list of them.

use std::sync::Arc;

use weft_fabric::Region;

use super::agreement::exchange_each;
use super::coverage::Coverage;
use super::cursor::Cursor;
use super::run::{ENCODED, Run, RunList};
use super::storage::{Storage, read_fully, write_fully};
use super::stream::Stream;
use super::transfers::{Carried, Transfers};
use crate::buffer::region_of;
use crate::comm::Comm;
use crate::error::Result;
use crate::memory;

/// Runs that travel with the sizes.
const INLINE: usize = 3;
/// Words of what a rank tells an aggregator in a round: bytes, number of runs, its next place, whether it has failed; runs.
const WORDS: usize = 4 + INLINE * 4;
/// Nothing comes any more.
pub(super) const NOWHERE: u64 = u64::MAX;

/// The aggregators, and how much they handle at a time.
#[derive(Clone, Debug)]
pub(super) struct Aggregators {
    /// Ranks.
    pub ranks: Arc<[u32]>,
    /// Bytes of a window.
    pub window: u64,
}

/// Has a range of bytes, by its first and their number, written by a function.
pub(super) type Guard<'a> = dyn Fn(u64, u64, &mut dyn FnMut() -> Result<()>) -> Result<()> + 'a;

/// A collective access of this rank.
pub(super) struct Collective<'a> {
    pub comm: &'a Comm,
    pub aggregators: &'a Aggregators,
    pub storage: &'a dyn Storage,
    /// Keeps others from rewriting gaps while this rank writes there.
    pub guard: &'a Guard<'a>,
    pub cursor: Cursor<'a>,
    pub stream: &'a Stream<'a>,
}

/// What a rank has in the windows of a round.
struct Share {
    /// By aggregator.
    lists: Vec<RunList>,
    /// Where the data of each begin in the stream.
    from: Vec<u64>,
}

/// What this rank, an aggregator, has got from each rank.
struct Wanted {
    lists: Vec<RunList>,
    /// First byte, and the one after the last.
    low: u64,
    high: u64,
}

impl Collective<'_> {
    fn me(&self) -> usize {
        self.comm.rank() as usize
    }

    /// Which aggregator this rank is.
    fn index(&self) -> Option<usize> {
        let ranks = &self.aggregators.ranks;
        ranks.iter().position(|rank| *rank == self.comm.rank())
    }

    fn share(&self) -> Share {
        let count = self.aggregators.ranks.len();
        Share {
            lists: vec![RunList::default(); count],
            from: vec![0; count],
        }
    }

    /// Memory for a window, if this rank is an aggregator. That it is not there must be told before anybody sends.
    fn window(&self) -> (Box<[u8]>, Result<()>) {
        if self.index().is_none() {
            return (Box::default(), Ok(()));
        }
        match memory::zeroed(self.aggregators.window as usize) {
            Ok(window) => (window, Ok(())),
            Err(error) => (Box::default(), Err(error)),
        }
    }

    /// Takes part in a collective access only to say that this rank cannot.
    ///
    /// # Errors
    /// When a rank is lost.
    pub fn give_up(comm: &Comm) -> Result<()> {
        let mut block = [0; WORDS];
        (block[2], block[3]) = (NOWHERE, 1);
        exchange_each(comm, &vec![block; comm.size() as usize]).map(drop)
    }

    /// Takes what lies in the windows of the round that begins at `base`; answers where the stream goes on.
    fn take(&mut self, base: u64, share: &mut Share, mut position: u64) -> u64 {
        let window = self.aggregators.window;
        let mut limit = base / window * window;
        for (list, from) in share.lists.iter_mut().zip(&mut share.from) {
            limit = limit.saturating_add(window);
            list.clear();
            self.cursor.take_before(limit, list);
            *from = position;
            position += list.bytes();
        }
        position
    }

    /// Tells the aggregators how much there is; answers what this rank has been told, the next base, and whether
    /// somebody has failed.
    fn tell(&mut self, share: &Share, failed: bool) -> Result<(Vec<[u64; WORDS]>, u64, bool)> {
        let next = self.cursor.place().unwrap_or(NOWHERE);
        let mut blocks = vec![[0; WORDS]; self.comm.size() as usize];
        for block in &mut blocks {
            (block[2], block[3]) = (next, u64::from(failed));
        }
        for (list, rank) in share.lists.iter().zip(&*self.aggregators.ranks) {
            let block = &mut blocks[*rank as usize];
            (block[0], block[1]) = (list.bytes(), list.runs().len() as u64);
            if list.runs().len() <= INLINE {
                let words = list
                    .runs()
                    .iter()
                    .flat_map(|run| [run.offset, run.length, run.stride, run.count]);
                for (place, word) in block[4..].iter_mut().zip(words) {
                    *place = word;
                }
            }
        }
        let told = exchange_each(self.comm, &blocks)?;
        let base = told.iter().map(|block| block[2]).min().unwrap_or(NOWHERE);
        let failed = told.iter().any(|block| block[3] != 0);
        Ok((told, base, failed))
    }

    /// Sends the lists that did not travel along.
    fn send_lists(&self, share: &Share, transfers: &mut Transfers) -> Result<()> {
        for (list, rank) in share.lists.iter().zip(&*self.aggregators.ranks) {
            if *rank as usize != self.me() && list.runs().len() > INLINE {
                transfers.send_owned(*rank, list.to_bytes().into())?;
            }
        }
        Ok(())
    }

    /// What each rank has in this rank's window.
    fn wanted(&self, told: &[[u64; WORDS]], own: &RunList) -> Result<Wanted> {
        let mut transfers = Transfers::new(self.comm, Carried::Lists);
        let mut received: Vec<(usize, usize)> = Vec::new();
        let mut lists = vec![RunList::default(); told.len()];
        for (rank, block) in told.iter().enumerate() {
            let number = block[1] as usize;
            if rank == self.me() {
                lists[rank].clone_from(own);
            } else if number > INLINE {
                memory::ensure_list(number, ENCODED)?;
                received.push((
                    rank,
                    transfers.receive_owned(rank as u32, number * ENCODED)?,
                ));
            } else {
                for run in block[4..].chunks_exact(4).take(number) {
                    lists[rank].push(Run {
                        offset: run[0],
                        length: run[1],
                        stride: run[2],
                        count: run[3],
                    });
                }
            }
        }
        let bytes = transfers.finish()?;
        for (rank, place) in received {
            lists[rank] = RunList::from_bytes(&bytes[place]);
        }
        let runs = || lists.iter().flat_map(|list| list.runs());
        let low = runs().map(|run| run.offset).min().unwrap_or(0);
        let high = runs().map(Run::end).max().unwrap_or(0);
        Ok(Wanted { lists, low, high })
    }

    /// Writes. `base` is the first byte that any rank has. The error of an aggregator is this rank's alone; the caller
    /// tells the others.
    ///
    /// # Errors
    /// What the system refuses with; when a rank is lost.
    pub fn write(&mut self, mut base: u64) -> Result<()> {
        let mut share = self.share();
        let mut position = 0;
        let (mut window, mut outcome) = self.window();
        while base != NOWHERE {
            let start = base / self.aggregators.window * self.aggregators.window;
            position = self.take(base, &mut share, position);
            let (told, next, failed) = self.tell(&share, outcome.is_err())?;
            if failed {
                break;
            }
            base = next;
            let mut lists = Transfers::new(self.comm, Carried::Lists);
            self.send_lists(&share, &mut lists)?;
            let mut sends = Transfers::new(self.comm, Carried::Data);
            for (place, rank) in self.aggregators.ranks.iter().enumerate() {
                let (from, bytes) = (share.from[place], share.lists[place].bytes());
                if bytes == 0 || *rank as usize == self.me() {
                    continue;
                }
                if let Some(region) = self.stream.region(from, bytes) {
                    sends.send(*rank, region)?;
                } else {
                    let mut packed = memory::zeroed(bytes as usize)?;
                    self.stream.copy_out(from, &mut packed);
                    sends.send_owned(*rank, packed)?;
                }
            }
            if let Some(index) = self.index() {
                let start = start + index as u64 * self.aggregators.window;
                outcome = self.gather(&told, &share, index, start, &mut window);
            }
            sends.finish()?;
            lists.finish()?;
        }
        outcome
    }

    /// Gets the data of this rank's window and writes them.
    fn gather(
        &self,
        told: &[[u64; WORDS]],
        share: &Share,
        index: usize,
        start: u64,
        window: &mut Box<[u8]>,
    ) -> Result<()> {
        let wanted = self.wanted(told, &share.lists[index])?;
        if wanted.high == wanted.low {
            return Ok(());
        }
        let whole = region_of(window);
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        let mut transfers = Transfers::new(self.comm, Carried::Data);
        let mut under_way = 0;
        for (rank, list) in wanted.lists.iter().enumerate() {
            if rank == self.me() || list.is_empty() {
                continue;
            }
            let bytes = list.bytes() as usize;
            if under_way > 0 && under_way + bytes > 2 * window.len() {
                // Many ranks with the same bytes: not all of them at once.
                spread(&wanted, start, &waiting, &transfers.finish()?, window);
                waiting.clear();
                transfers = Transfers::new(self.comm, Carried::Data);
                under_way = 0;
            }
            under_way += bytes;
            match list.runs() {
                [
                    Run {
                        offset,
                        length,
                        count: 1,
                        ..
                    },
                ] => {
                    let part = whole.part((offset - start) as usize, *length as usize);
                    transfers.receive(rank as u32, part.unwrap_or(Region::EMPTY))?;
                }
                _ => waiting.push((rank, transfers.receive_owned(rank as u32, bytes)?)),
            }
        }
        let mut from = share.from[index];
        for run in wanted.lists[self.me()].runs() {
            for (place, length) in run.pieces() {
                let offset = (place - start) as usize;
                self.stream
                    .copy_out(from, &mut window[offset..offset + length as usize]);
                from += length;
            }
        }
        spread(&wanted, start, &waiting, &transfers.finish()?, window);
        let runs = wanted.lists.iter().flat_map(|list| list.runs());
        let coverage = Coverage::of(start, runs);
        (self.guard)(wanted.low, wanted.high - wanted.low, &mut || {
            coverage.segments(|offset, length| {
                let part = whole.part(offset as usize, length as usize);
                write_fully(self.storage, part.unwrap_or(Region::EMPTY), start + offset)
            })
        })
    }

    /// Reads. As for [`Self::write`]; answers how many bytes of the stream there were before the end of the file.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn read(&mut self, mut base: u64) -> Result<u64> {
        let mut share = self.share();
        let mut position = 0;
        let (mut window, mut outcome) = self.window();
        let (mut done, mut ended) = (0, false);
        while base != NOWHERE {
            let start = base / self.aggregators.window * self.aggregators.window;
            position = self.take(base, &mut share, position);
            let (told, next, failed) = self.tell(&share, outcome.is_err())?;
            if failed {
                break;
            }
            base = next;
            let mut lists = Transfers::new(self.comm, Carried::Lists);
            self.send_lists(&share, &mut lists)?;
            let mut receives = Transfers::new(self.comm, Carried::Data);
            // (Bytes that are expected, whether they are received to memory of ours), by aggregator.
            for (place, rank) in self.aggregators.ranks.iter().enumerate() {
                let (from, bytes) = (share.from[place], share.lists[place].bytes());
                if bytes == 0 || *rank as usize == self.me() {
                    continue;
                }
                match self.stream.region(from, bytes) {
                    Some(region) => receives.receive(*rank, region)?,
                    None => _ = receives.receive_owned(*rank, bytes as usize)?,
                }
            }
            let mut own = 0;
            let mut sends = Transfers::new(self.comm, Carried::Data);
            if let Some(index) = self.index() {
                let start = start + index as u64 * self.aggregators.window;
                let dealt = self.deal(&told, &share, index, start, &mut window, &mut sends);
                outcome = dealt.map(|bytes| own = bytes);
            }
            let received = receives.lengths()?;
            let owned = receives.finish()?;
            let (mut received, mut owned) = (received.into_iter(), owned.into_iter());
            for (place, rank) in self.aggregators.ranks.iter().enumerate() {
                let (from, bytes) = (share.from[place], share.lists[place].bytes());
                if bytes == 0 {
                    continue;
                }
                let got = if *rank as usize == self.me() {
                    own
                } else {
                    let got = received.next().unwrap_or(0);
                    if self.stream.region(from, bytes).is_none() {
                        let data = owned.next().unwrap_or_default();
                        self.stream.copy_in(from, &data[..got as usize]);
                    }
                    got
                };
                if !ended {
                    done += got;
                    ended = got < bytes;
                }
            }
            sends.finish()?;
            lists.finish()?;
        }
        outcome.map(|()| done)
    }

    /// Reads this rank's window and sends each rank its part; answers how many bytes were its own.
    fn deal(
        &self,
        told: &[[u64; WORDS]],
        share: &Share,
        index: usize,
        start: u64,
        window: &mut Box<[u8]>,
        sends: &mut Transfers,
    ) -> Result<u64> {
        let wanted = self.wanted(told, &share.lists[index])?;
        if wanted.high == wanted.low {
            return Ok(0);
        }
        let (low, span) = ((wanted.low - start) as usize, wanted.high - wanted.low);
        let part = region_of(window).part(low, span as usize);
        let read = read_fully(self.storage, part.unwrap_or(Region::EMPTY), wanted.low);
        // Whatever has happened, each rank waits for an answer.
        let (got, outcome) = match read {
            Ok(got) => (got, Ok(())),
            Err(error) => (0, Err(error)),
        };
        let end = wanted.low + got as u64;
        let there = |place: u64, length: u64| end.saturating_sub(place).min(length);
        let mut own = 0;
        for (rank, list) in wanted.lists.iter().enumerate() {
            if list.is_empty() {
                continue;
            }
            if rank == self.me() {
                let mut from = share.from[index];
                for (place, length) in list.runs().iter().flat_map(|run| run.pieces()) {
                    let length = there(place, length);
                    if length > 0 {
                        let offset = (place - start) as usize;
                        self.stream
                            .copy_in(from, &window[offset..offset + length as usize]);
                    }
                    (from, own) = (from + length, own + length);
                }
                continue;
            }
            if let [
                Run {
                    offset,
                    length,
                    count: 1,
                    ..
                },
            ] = list.runs()
            {
                let length = there(*offset, *length) as usize;
                let part = region_of(window).part((offset - start) as usize, length);
                sends.send(rank as u32, part.unwrap_or(Region::EMPTY))?;
                continue;
            }
            let mut part = Vec::with_capacity(list.bytes() as usize);
            for (place, length) in list.runs().iter().flat_map(|run| run.pieces()) {
                let length = there(place, length) as usize;
                let offset = (place - start) as usize;
                if length > 0 {
                    part.extend_from_slice(&window[offset..offset + length]);
                }
            }
            sends.send_owned(rank as u32, part.into())?;
        }
        outcome.map(|()| own)
    }
}

/// Copies data that have come to their places in the window.
fn spread(
    wanted: &Wanted,
    start: u64,
    waiting: &[(usize, usize)],
    data: &[Box<[u8]>],
    window: &mut [u8],
) {
    for (rank, place) in waiting {
        let mut rest = &data[*place][..];
        for run in wanted.lists[*rank].runs() {
            let length = run.length as usize;
            for (place, _) in run.pieces() {
                let (now, later) = rest.split_at(length);
                let offset = (place - start) as usize;
                window[offset..offset + length].copy_from_slice(now);
                rest = later;
            }
        }
    }
}
