//! Input of rank 0, if it runs below an agent: input from the head is kept until rank 0 takes it. Other messages of the
//! head must never wait behind it, so the head is told what was taken, and sends no more than is agreed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::process::Stdio;

use weft_sys::descriptor;
use weft_sys::poll::{Interest, PollFd};

/// Bytes that the head may send before they are taken, and as many again.
const MOST: usize = 512 << 10;

/// The input of rank 0.
#[derive(Debug, Default)]
pub struct RankInput {
    /// `None` before it was opened, and once rank 0 has closed it.
    pipe: Option<File>,
    held: VecDeque<u8>,
    /// Nothing more will come.
    ended: bool,
    /// Nothing more is told to the head.
    over: bool,
}

/// The head sends more than it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMuch;

impl RankInput {
    /// Opens it; answers what rank 0 is to read from.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn open(&mut self) -> io::Result<Stdio> {
        let (its, ours) = descriptor::pipe()?;
        descriptor::set_nonblocking(&ours, true)?;
        self.pipe = Some(File::from(ours));
        Ok(Stdio::from(its))
    }

    /// Takes what the head has sent; no bytes: the end.
    ///
    /// # Errors
    /// If that is more than it may send.
    pub fn push(&mut self, bytes: Vec<u8>) -> Result<(), TooMuch> {
        if self.over {
            return Ok(());
        }
        self.ended |= bytes.is_empty();
        self.held.extend(bytes);
        match self.held.len() > MOST {
            true => Err(TooMuch),
            false => Ok(()),
        }
    }

    /// Rank 0 has ended: held input, and input on its way here, is dropped and not counted. The head has received the
    /// last message about ranks.
    pub fn close(&mut self) {
        self.pipe = None;
        self.held.clear();
        self.over = true;
    }

    /// To wait for rank 0 to take something, if something is held.
    pub fn entry(&self) -> Option<PollFd<'_>> {
        let pipe = self.pipe.as_ref().filter(|_| !self.held.is_empty())?;
        Some(PollFd::new(pipe, Interest::Write))
    }

    /// Passes on what goes without waiting; answers how many bytes are not held any more.
    pub fn feed(&mut self) -> u64 {
        let mut taken = 0;
        while !self.held.is_empty() {
            let first = self.held.as_slices().0;
            let count = match self.pipe.as_mut().map(|pipe| pipe.write(first)) {
                Some(Ok(count)) => count,
                Some(Err(error)) if error.kind() == ErrorKind::Interrupted => 0,
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => break,
                // It has closed its input: nobody wants it.
                Some(Err(_)) | None => {
                    self.pipe = None;
                    self.held.len()
                }
            };
            self.held.drain(..count);
            taken += count as u64;
        }
        if self.ended && self.held.is_empty() {
            self.pipe = None;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_end_of_rank_0_is_told_to_nobody() {
        let mut input = RankInput::default();
        drop(input.open().expect("descriptors"));
        input.push(vec![7; 100]).expect("little");
        assert_eq!(input.feed(), 100, "nobody reads it: it is dropped");
        input.push(vec![7; 100]).expect("little");
        input.close();
        input.push(vec![7; 100]).expect("little");
        assert_eq!(input.feed(), 0);
        assert!(input.entry().is_none());
    }
}
