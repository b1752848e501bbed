//! Transfers: messages between the ranks of a collective access, which all end before the memory that they use does.

use weft_fabric::Region;

use crate::buffer::{Buffer, region_of};
use crate::comm::Comm;
use crate::engine::RequestId;
use crate::error::Result;
use crate::memory;
use crate::p2p::{SendMode, Source, TagPattern, Target};

/// What messages carry, by tag. Those of one kind come between two ranks in the order in which they were begun; a rank
/// that waits for the data of another may have a list of it on the way before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carried {
    /// Parts of the file.
    Data,
    /// Where those parts are.
    Lists,
}

/// Messages under way.
pub(super) struct Transfers<'a> {
    comm: &'a Comm,
    tag: i32,
    requests: Vec<RequestId>,
    /// Bytes of each message that has ended.
    lengths: Vec<u64>,
    /// Memory that goes with them.
    owned: Vec<Box<[u8]>>,
}

impl<'a> Transfers<'a> {
    pub fn new(comm: &'a Comm, carried: Carried) -> Self {
        Self {
            comm,
            tag: carried as i32,
            requests: Vec::new(),
            lengths: Vec::new(),
            owned: Vec::new(),
        }
    }

    /// Begins to send the caller's memory.
    pub fn send(&mut self, to: u32, region: Region) -> Result<()> {
        let buffer = Buffer::untyped(region);
        let request = self
            .comm
            .isend(SendMode::Standard, buffer, Target::Rank(to), self.tag)?;
        self.requests.push(request);
        Ok(())
    }

    /// Begins to send bytes that are kept here meanwhile.
    pub fn send_owned(&mut self, to: u32, mut bytes: Box<[u8]>) -> Result<()> {
        let region = region_of(&mut bytes);
        self.owned.push(bytes);
        self.send(to, region)
    }

    /// Begins to receive to the caller's memory.
    pub fn receive(&mut self, from: u32, region: Region) -> Result<()> {
        let buffer = Buffer::untyped(region);
        let tag = TagPattern::Exact(self.tag);
        let request = self.comm.irecv(buffer, Source::Rank(from), tag)?;
        self.requests.push(request);
        Ok(())
    }

    /// Begins to receive so many bytes; answers where [`Self::finish`] has them.
    pub fn receive_owned(&mut self, from: u32, bytes: usize) -> Result<usize> {
        let mut room = memory::zeroed(bytes)?;
        let region = region_of(&mut room);
        self.owned.push(room);
        self.receive(from, region)?;
        Ok(self.owned.len() - 1)
    }

    /// Waits for all; answers how many bytes each message has, in the order in which they were begun.
    pub fn lengths(&mut self) -> Result<Vec<u64>> {
        self.wait()?;
        Ok(std::mem::take(&mut self.lengths))
    }

    /// Waits for all; answers the memory that went with them, in the order in which it came.
    pub fn finish(mut self) -> Result<Vec<Box<[u8]>>> {
        self.wait()?;
        Ok(std::mem::take(&mut self.owned))
    }

    fn wait(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for request in self.requests.drain(..) {
            // All of them, whatever one says: their memory is in use.
            match self.comm.process().wait(request) {
                Ok(status) => self.lengths.push(status.bytes),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }
}

impl Drop for Transfers<'_> {
    fn drop(&mut self) {
        for request in &self.requests {
            // Receives end at once; sends when they are matched, or their peer is lost.
            let _ = self.comm.process().cancel(*request);
        }
        let _ = self.wait();
    }
}
