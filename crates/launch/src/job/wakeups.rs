//! Wake-ups of the supervisor: signals, the end of its frontend, and what the hosts of ranks, their output and the inspection of the
//! job wait for.
//!
//! *Invariant:* each wait ends when the frontend is gone, as the job then has to end.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::signal::Signals;

use super::inspection::Inspection;
use super::output::Output;
use super::rank_hosts::{RankHosts, Token};
use crate::signals::HANDLED;

/// What wakes the supervisor up whatever it waits for.
pub struct Wakeups {
    signals: Signals,
    /// The liveness pipe of the frontend.
    frontend: OwnedFd,
}

/// What a wait has found.
pub struct Found {
    /// Signals have come.
    pub signals: bool,
    /// The frontend is gone.
    pub orphaned: bool,
    /// The outputs of ranks that can be read, by the number that [`Output`] gives them.
    pub streams: Vec<usize>,
    /// The entries of the hosts, with whether they are ready.
    pub hosts: Vec<(Token, bool)>,
    /// Somebody looks at the job.
    pub inspection: bool,
}

impl Wakeups {
    /// Takes the signals of this process. `frontend` is the liveness pipe of the frontend.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(frontend: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            signals: Signals::new(&HANDLED)?,
            frontend,
        })
    }

    /// The next signal that has come.
    pub fn next_signal(&self) -> Option<i32> {
        self.signals.next().ok().flatten()
    }

    /// Waits for something to happen.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn wait(
        &self,
        hosts: &dyn RankHosts,
        output: &Output,
        inspection: &Inspection,
        until: Option<Instant>,
    ) -> io::Result<Found> {
        let mut entries = self.entries(output);
        let streams_at = entries.len();
        let mut streams = Vec::new();
        for (index, pipe) in output.readable() {
            streams.push(index);
            entries.push(PollFd::new(pipe, Interest::Read));
        }
        let hosts_at = entries.len();
        let mut tokens = Vec::new();
        for (token, entry) in hosts.entries(output.is_held_up()) {
            tokens.push(token);
            entries.push(entry);
        }
        let inspection_at = entries.len();
        entries.extend(inspection.entries());
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        poll::wait(&mut entries, limit)?;
        let ready = tokens.into_iter().zip(&entries[hosts_at..inspection_at]);
        let readable = entries[streams_at..hosts_at].iter().zip(streams);
        Ok(Found {
            signals: entries[0].readable(),
            orphaned: entries[1].ended(),
            streams: readable
                .filter(|(entry, _)| entry.readable())
                .map(|(_, index)| index)
                .collect(),
            hosts: ready
                .map(|(token, entry)| (token, entry.is_ready()))
                .collect(),
            inspection: entries[inspection_at..].iter().any(PollFd::is_ready),
        })
    }

    /// Waits until output can be written, or a signal comes. False if the frontend is gone, or nothing can be waited for.
    pub fn wait_for_room(&self, output: &Output) -> bool {
        let mut entries = self.entries(output);
        poll::wait(&mut entries, None).is_ok() && !entries[1].ended()
    }

    /// Entries for signals, for the frontend, and for the streams that output is to be written to.
    fn entries<'e>(&'e self, output: &'e Output) -> Vec<PollFd<'e>> {
        let mut entries = vec![
            PollFd::new(&self.signals, Interest::Read),
            PollFd::new(&self.frontend, Interest::Nothing),
        ];
        let streams = output.writable();
        entries.extend(streams.map(|stream| PollFd::new(stream, Interest::Write)));
        entries
    }
}
