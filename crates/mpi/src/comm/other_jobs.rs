//! Other jobs: groups of two jobs connect (MPI 5.0, section 11.9). The agreement of a [`Meeting`] holds for all communicators
//! that are made of its intercommunicator.
//!
//! ```text
//!   connecting job                               accepting job
//!   members listen, tell their root where        members listen, tell their root where
//!   root ── hello, where its members are ──►     root
//!        ◄── hello, where its members are, key ──
//!   each root tells its members; each opens its end of the bridge; each root hears whether all have
//!        ◄── all have, or why not ──►
//! ```
//!
//! # Names
//! Each job has numbers of its own for processes, and each process has its own for those of other jobs. Numbers that two
//! jobs send each other count the members of the meeting: the accepting group, in the order of its communicator, then the
//! connecting group. A context of a meeting carries its number and a leader in that count:
//!
//! ```text
//!   31 30 29             15 14                   1 0
//!   1  0  number of meeting count · leader         which half
//! ```
//!
//! No member has two meetings of the same number, as both sides take one greater than any that a member has had. So no
//! context of a meeting is that of another one, or of a communicator of one job (bit 31), at any process.

mod connecting;
mod connector;
mod meeting;
mod plan;

use std::sync::Arc;

use super::Comm;
use crate::engine::WaitFor;
use crate::error::{Error, ErrorClass, Result};
use crate::process::Process;

pub use self::connector::{BridgeMembers, JobConnector, Line, ListeningEnd, Terms};
pub(crate) use self::meeting::{BridgeEnd, Meeting, Meetings};

/// Contexts from here on, up to those of guests, belong to meetings.
pub(super) const MEETING_CONTEXTS: u32 = 1 << 31;
/// How many numbers there are for meetings.
const NUMBERS: u32 = 1 << 15;
/// How many bits of a context are for count and leader.
const INNER: u32 = 14;
/// What a root tells its group in place of a size: the other group is one of another job.
pub(super) const OTHER_JOB: u32 = u32::MAX;
/// Both sides are of the same release, or do not meet.
const RELEASE: &str = concat!("weft ", env!("CARGO_PKG_VERSION"), " meeting 2");

/// A caller at a port.
pub(super) enum Caller {
    /// Of this job: what it says.
    ThisJob,
    /// Of another job.
    OtherJob(Box<dyn Line>),
}

impl Comm {
    /// Waits for whoever calls first at a port: a process of this job, whose call is received into `call`, or of another one.
    ///
    /// # Errors
    /// When a member is lost, or the communicator is revoked: the call of this name is collective.
    pub(super) fn next_caller(
        &self,
        name: &str,
        (ports, port): (u32, u32),
        call: &mut [u8],
    ) -> Result<Caller> {
        let process = self.process();
        let gate = process.meetings.connector();
        let gate = gate.filter(|gate| gate.listens_at(port));
        let mut engine = self.lock();
        let request = process.begin_at(&mut engine, ports, None, port, call)?;
        let requests = [request];
        let what = match gate {
            None => WaitFor::Requests(&requests),
            Some(_) => WaitFor::Outside("another group that connects to the port"),
        };
        let line = engine.wait_for(what, |engine| {
            if engine.is_over(request) {
                return Some(Ok(None));
            }
            if let Some(error) = self.refusal(engine, name) {
                return Some(Err(error));
            }
            gate?.take_caller(port).map(|line| Ok(Some(line)))
        });
        let other = match line {
            Ok(None) => return engine.finish(request).map(|_| Caller::ThisJob),
            Ok(Some(line)) => Ok(line),
            Err(error) => Err(error),
        };
        let withdrawn = engine.withdraw(request)?;
        drop(engine);
        match (other, gate) {
            (Ok(line), _) if withdrawn => Ok(Caller::OtherJob(line)),
            (Ok(line), Some(gate)) => {
                gate.give_back(port, line);
                Ok(Caller::ThisJob)
            }
            (Err(error), _) if withdrawn => Err(error),
            _ => Ok(Caller::ThisJob),
        }
    }
}

impl Comm {
    /// The next message of the other root.
    ///
    /// # Errors
    /// If it is gone; when a member is lost, or the communicator is revoked: the call of this name is collective, and the other
    /// root hears of it as the line ends.
    pub(super) fn hear_other_job(&self, name: &str, line: &mut dyn Line) -> Result<Vec<u8>> {
        let what = WaitFor::Outside("the root of another job");
        self.lock().wait_for(what, |engine| {
            let said = line.take();
            said.or_else(|| self.refusal(engine, name).map(Err))
        })
    }

    /// What both jobs need, of this root's hello and that of the other one; `None` if that is gone.
    pub(super) fn exchange_terms(&self, name: &str, line: &mut dyn Line) -> Result<Option<Terms>> {
        let process = self.process();
        let ours = Terms {
            wide: process.has_several_hosts() || line.is_between_hosts(),
            sealed: process.connector()?.is_sealed(),
        };
        let mut hello = vec![ours.to_bits()];
        hello.extend(RELEASE.as_bytes());
        let said = line.send(&hello);
        let theirs = match said.and_then(|()| self.hear_other_job(name, line)) {
            Err(error) if error.class() == ErrorClass::Port => return Ok(None),
            theirs => theirs?,
        };
        match theirs.split_first() {
            Some((theirs, release)) if release == RELEASE.as_bytes() => {
                Ok(Some(Terms::from_bits(ours.to_bits() | theirs)))
            }
            _ => Err(Error::new(
                ErrorClass::Port,
                format!(
                    "the other job is of another release of Weft ({} here); use one release for both",
                    env!("CARGO_PKG_VERSION")
                ),
            )),
        }
    }
}

impl Process {
    /// Says how other jobs are met. Once.
    pub fn set_connector(&self, connector: Arc<dyn JobConnector>) {
        self.meetings.set_connector(connector);
    }

    /// Whether the processes that this one has an intercommunicator or another communicator with may be of another job.
    fn connector(&self) -> Result<&Arc<dyn JobConnector>> {
        self.meetings.connector().ok_or_else(|| {
            Error::new(
                ErrorClass::Port,
                "this process cannot be connected to other jobs; it runs within one process with the others",
            )
        })
    }
}
