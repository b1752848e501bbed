//! Outputs of the ranks of an agent's host: read here, and passed on to the head as they come.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::time::Duration;

use weft_sys::poll::{self, Interest, PollFd};

use crate::hosts::link::Link;
use crate::hosts::message::FromAgent;

/// Standard output or standard error of a rank.
#[derive(Debug)]
struct RankOutput {
    rank: u32,
    error: bool,
    pipe: File,
}

/// The outputs that have not ended, in a fixed order.
#[derive(Debug, Default)]
pub struct RankOutputs {
    open: Vec<RankOutput>,
}

impl RankOutputs {
    /// Takes over standard output and standard error of a rank; reading them must not wait.
    pub fn add(&mut self, rank: u32, pipes: [File; 2]) {
        let both = pipes.into_iter().zip([false, true]);
        self.open
            .extend(both.map(|(pipe, error)| RankOutput { rank, error, pipe }));
    }

    /// Stops reading one: its rank gets an error, as on any pipe, when it next writes.
    pub fn close(&mut self, rank: u32, error: bool) {
        let other = |output: &RankOutput| (output.rank, output.error) != (rank, error);
        self.open.retain(other);
    }

    /// To wait for something to read.
    pub fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        let open = self.open.iter();
        open.map(|output| PollFd::new(&output.pipe, Interest::Read))
    }

    /// Reads those that have something, in the order of [`entries`](Self::entries), and drops those that
    /// have ended.
    pub fn pass_on(&mut self, ready: &[bool], link: &mut Link) {
        let mut bytes = [0; 32 << 10];
        let mut ready = ready.iter();
        self.open.retain_mut(|output| {
            if ready.next() != Some(&true) {
                return true;
            }
            let (rank, error) = (output.rank, output.error);
            let count = match output.pipe.read(&mut bytes) {
                Ok(count) => count,
                Err(cause) => match cause.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock => return true,
                    _ => 0,
                },
            };
            let bytes = bytes[..count].to_vec();
            link.say(&FromAgent::Output { rank, error, bytes });
            count > 0
        });
    }

    /// Passes on the rest: all ranks have ended. Waits for the head, in steps of the limit.
    pub fn pass_on_rest(&mut self, link: &mut Link, limit: Duration) {
        // Nobody who could write is left, except somebody who fled.
        while !self.open.is_empty() {
            let before = self.open.len();
            let mut entries: Vec<_> = self.entries().collect();
            let found = poll::wait(&mut entries, Some(Duration::ZERO)).unwrap_or(0);
            let ready: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
            drop(entries);
            if found == 0 {
                break;
            }
            self.pass_on(&ready, link);
            if link.is_full() {
                link.drain(limit);
            }
            if link.is_full() && self.open.len() == before {
                break;
            }
        }
    }
}
