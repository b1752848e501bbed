//! Sender's side of a partitioned message: which partitions are ready, and which pieces have left.

use std::ops::Range;

use weft_fabric::Peer;

use super::division::Division;
use crate::buffer::Buffer;
use crate::engine::request_id::RequestId;
use crate::error::{Error, ErrorClass, Result};
use crate::memory;

/// A partitioned send.
#[derive(Debug)]
pub(super) struct Sending {
    request: RequestId,
    to: Peer,
    context: u32,
    buffer: Buffer,
    division: Division,
    /// Tag of the first piece.
    first_tag: u32,
    /// One for each partition.
    ready: Vec<bool>,
    /// Partitions of each piece that are not ready.
    missing: Vec<u32>,
    /// Pieces that are not ready, or that have not left.
    pending: u32,
    error: Option<Error>,
}

impl Sending {
    /// An inactive one.
    pub(super) fn new(
        (to, context): (Peer, u32),
        buffer: Buffer,
        division: Division,
        first_tag: u32,
    ) -> Result<Self> {
        memory::ensure_list(division.partitions() as usize, 1)?;
        Ok(Self {
            request: RequestId::NONE,
            to,
            context,
            buffer,
            division,
            first_tag,
            ready: vec![false; division.partitions() as usize],
            missing: vec![0; division.pieces() as usize],
            pending: 0,
            error: None,
        })
    }

    /// The persistent request.
    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    pub(super) fn set_request(&mut self, request: RequestId) {
        self.request = request;
    }

    /// The receiver, and the context of messages to it.
    pub(super) fn destination(&self) -> (Peer, u32) {
        (self.to, self.context)
    }

    pub(super) fn first_tag(&self) -> u32 {
        self.first_tag
    }

    /// It is started: no partition is ready. True if it has ended at once, as it has none.
    pub(super) fn start(&mut self) -> bool {
        self.ready.fill(false);
        for (piece, missing) in (0..).zip(&mut self.missing) {
            *missing = self.division.partitions_in(piece..piece + 1).len() as u32;
        }
        self.pending = self.division.pieces();
        self.error = None;
        self.pending == 0
    }

    /// Whether these partitions may be said to be ready.
    pub(super) fn check(&self, partitions: &Range<u32>) -> Result<()> {
        let count = self.division.partitions();
        if partitions.start > partitions.end || partitions.end > count {
            let last = partitions.end.saturating_sub(1).max(partitions.start);
            return Err(Error::new(
                ErrorClass::Arg,
                format!(
                    "partitions {} to {last} are not all among the {count} of the request (0 to {}); name partitions of the send, lowest first",
                    partitions.start,
                    i64::from(count) - 1
                ),
            ));
        }
        let mut both = partitions.clone();
        match both.find(|partition| self.ready[*partition as usize]) {
            None => Ok(()),
            Some(twice) => Err(ready_twice(twice)),
        }
    }

    /// These partitions, which were [checked](Self::check), are ready: answers the pieces that are to be sent, each run of
    /// them as one message. Pieces that follow each other share a message of at most `most` bytes.
    pub(super) fn ready(&mut self, partitions: Range<u32>, most: usize) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for partition in partitions {
            self.ready[partition as usize] = true;
            let piece = self.division.piece_of(partition);
            let missing = &mut self.missing[piece as usize];
            *missing -= 1;
            if *missing > 0 {
                continue;
            }
            if let Some(run) = runs.last_mut()
                && run.end == piece
                && self.may_share(run.start..piece + 1, most)
            {
                run.end += 1;
            } else {
                runs.push(piece..piece + 1);
            }
        }
        runs
    }

    /// Whether pieces may go as one message: their number must follow from its length.
    fn may_share(&self, pieces: Range<u32>, most: usize) -> bool {
        let bytes = self.division.bytes_in(pieces);
        let length = bytes.end - bytes.start;
        length > 0 && length <= most as u64
    }

    /// The data of a run of pieces, and the tag that they go by.
    pub(super) fn message(&self, pieces: Range<u32>) -> (Buffer, u32) {
        let tag = self.first_tag + pieces.start;
        let partitions = self.division.partitions_in(pieces);
        let buffer = self
            .buffer
            .partitions(partitions, self.division.partitions());
        (buffer, tag)
    }

    /// So many pieces have left, or never will. True if they were the last.
    pub(super) fn end(&mut self, pieces: u32, error: Option<Error>) -> bool {
        if self.error.is_none() {
            self.error = error;
        }
        self.pending -= pieces;
        self.pending == 0
    }

    /// What it failed with.
    pub(super) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

#[cold]
fn ready_twice(partition: u32) -> Error {
    Error::new(
        ErrorClass::Arg,
        format!(
            "partition {partition} is ready already; say it once for each partition after each start of the request"
        ),
    )
}
