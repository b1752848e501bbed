//! Terminal of the user, read for rank 0: ranks are not in the foreground process group of the terminal, and only that
//! may read it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use weft_sys::descriptor;
use weft_sys::poll::{Interest, PollFd};

/// How often a job in the background looks whether it has come to the foreground.
const LOOK: Duration = Duration::from_millis(500);

/// Our terminal, and the pipe to rank 0.
pub struct Terminal {
    standard_input: File,
    to: File,
    /// Read and not yet written.
    held: Vec<u8>,
}

impl Terminal {
    /// Reads our standard input for the reader of `to`.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(to: OwnedFd) -> io::Result<Self> {
        descriptor::set_nonblocking(&to, true)?;
        Ok(Self {
            standard_input: File::from(io::stdin().as_fd().try_clone_to_owned()?),
            to: File::from(to),
            held: Vec::new(),
        })
    }

    /// Adds the descriptor to wait for; returns when to look again at the latest. A process that reads a terminal from
    /// the background is stopped, so nothing is read then.
    pub fn entry<'a>(&'a self, entries: &mut Vec<PollFd<'a>>) -> Option<Duration> {
        if !self.held.is_empty() {
            entries.push(PollFd::new(&self.to, Interest::Write));
            return None;
        }
        let foreground = rustix::termios::tcgetpgrp(&self.standard_input);
        if foreground.is_ok_and(|group| group != rustix::process::getpgrp()) {
            return Some(LOOK);
        }
        entries.push(PollFd::new(&self.standard_input, Interest::Read));
        None
    }

    /// Moves available input. False at the end.
    pub fn pump(&mut self) -> bool {
        if self.held.is_empty() {
            let mut bytes = [0; 4096];
            match self.standard_input.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.held.extend_from_slice(&bytes[..count]),
                Err(error) => return retry(&error),
            }
        }
        match self.to.write(&self.held) {
            Ok(count) => {
                self.held.drain(..count);
                true
            }
            // Rank 0 has closed its input: nobody wants it.
            Err(error) => retry(&error),
        }
    }
}

fn retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}
