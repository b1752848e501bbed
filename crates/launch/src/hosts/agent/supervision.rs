//! Supervision of an agent: the link to the head, and other reasons for it to end.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::SIGCHLD;
use weft_sys::signal::Signals;

use super::{AgentExit, not_taken_over};
use crate::adoption::AdoptedHost;
use crate::exchange::portions;
use crate::hosts::link::{Link, LinkError};
use crate::hosts::message::{Assignment, FromAgent, ToAgent};
use crate::signals::{HANDLED, ends_programs};

/// How long it may take to say that we leave.
const LEAVE: Duration = Duration::from_millis(200);

/// The way to the head, and what else tells an agent to end.
pub(super) struct Supervision {
    pub link: Link,
    signals: Signals,
    /// The liveness pipe of our guard.
    liveness: OwnedFd,
}

impl Supervision {
    /// Handles signals from now on. `liveness` closes when our guard is gone.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn new(link: Link, liveness: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            link,
            signals: Signals::new(&HANDLED)?,
            liveness,
        })
    }

    /// Waits until the head says which ranks we get; or answers why it never will.
    pub(super) fn await_assignment(&mut self) -> io::Result<Result<Assignment, AgentExit>> {
        loop {
            match self.link.next() {
                Ok(Some(ToAgent::Start(assignment))) if !assignment.ranks.is_empty() => {
                    return Ok(Ok(*assignment));
                }
                Ok(Some(ToAgent::Over { code })) => return Ok(Err(AgentExit::Over(code))),
                Ok(Some(ToAgent::End)) => {
                    self.link.say(&FromAgent::Ended { clean: true });
                    continue;
                }
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(error) => return Ok(Err(AgentExit::HeadLost(error))),
            }
            if let Err(exit) = self.idle()? {
                return Ok(Err(exit));
            }
        }
    }

    /// Exchanges what ranks have published that are there already with the agents of all hosts. No process is started before all
    /// of them know all of it. Answers the host with what the ranks of all hosts have published; or how we end.
    pub(super) fn exchange_values(
        &mut self,
        mut host: AdoptedHost,
    ) -> io::Result<Result<AdoptedHost, AgentExit>> {
        for values in portions(std::mem::take(&mut host.values)) {
            self.link.say(&FromAgent::Put { values });
        }
        self.link.say(&FromAgent::Fence);
        loop {
            let exit = match self.link.next() {
                Ok(Some(ToAgent::Put { values })) => {
                    host.values.extend(values);
                    continue;
                }
                Ok(Some(ToAgent::Fenced)) => return Ok(Ok(host)),
                Ok(Some(ToAgent::Over { code })) => AgentExit::Over(code),
                Ok(Some(ToAgent::End)) => {
                    self.link.say(&FromAgent::Ended { clean: true });
                    continue;
                }
                Ok(Some(_)) => continue,
                Ok(None) => match self.idle()? {
                    Ok(()) => continue,
                    Err(exit) => exit,
                },
                Err(error) => AgentExit::HeadLost(error),
            };
            return Ok(Err(not_taken_over(host, exit)));
        }
    }

    /// Says that we live, if it is time to, and sends what waits.
    pub(super) fn keep_up(&mut self, now: Instant) -> Result<(), LinkError> {
        self.link.check(now)?;
        if self.link.is_due(now) {
            self.link.say(&FromAgent::Alive);
        }
        self.link.flush()
    }

    /// Waits for the head to say something.
    fn idle(&mut self) -> io::Result<Result<(), AgentExit>> {
        if let Err(error) = self.keep_up(Instant::now()) {
            return Ok(Err(AgentExit::HeadLost(error)));
        }
        let mut entries = self.entries();
        if self.link.is_waiting() {
            entries.push(self.link.writing());
        }
        let limit = self
            .link
            .next_look()
            .saturating_duration_since(Instant::now());
        poll::wait(&mut entries, Some(limit))?;
        let (orphaned, reading) = (entries[1].ended(), entries[2].is_ready());
        drop(entries);
        if orphaned {
            return Ok(Err(AgentExit::Ended(None)));
        }
        if let (Some(signal), _) = self.take_signals() {
            self.take_leave(signal);
            return Ok(Err(AgentExit::Ended(Some(signal))));
        }
        if reading && let Err(error) = self.link.fill() {
            return Ok(Err(AgentExit::HeadLost(error)));
        }
        Ok(Ok(()))
    }

    /// What to wait for: signals, the end of the guard, the head.
    pub(super) fn entries(&self) -> Vec<PollFd<'_>> {
        vec![
            PollFd::new(&self.signals, Interest::Read),
            PollFd::new(&self.liveness, Interest::Nothing),
            self.link.reading(),
        ]
    }

    /// The signal by which we are to end, if one has come; and whether children have ended.
    pub(super) fn take_signals(&self) -> (Option<i32>, bool) {
        let mut children = false;
        let mut end = None;
        while let Ok(Some(signal)) = self.signals.next() {
            children |= signal == SIGCHLD;
            if ends_programs(signal) {
                end = end.or(Some(signal));
            }
        }
        (end, children)
    }

    /// Tells the head why nothing more will be heard: at once, before the ends of the ranks could be.
    pub(super) fn take_leave(&mut self, signal: i32) {
        self.link.say(&FromAgent::Leaving { signal });
        self.link.drain(LEAVE);
    }
}
