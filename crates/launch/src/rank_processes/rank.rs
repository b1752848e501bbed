//! Rank: the process that runs it now, its remaining descriptors here, and what was reported of it.
//!
//! ```text
//!   of_other_launcher ── adopt ─┐
//!                               ├─► runs ── end ─► ended ── note_end_told ─► others know of it
//!   new ────────────────────────┘                     └──── clear ─► its place is free whatever happens
//! ```
//!
//! *Invariant:* a rank that has ended never runs again: a successor with its number or its process slot is another rank.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use weft_mpi::waits::RankWaits;
use weft_sys::process::ProcessHandle;
use weft_sys::{descriptor, passing};

use super::pmi;
use super::spawn::RankNumbers;
use crate::adoption::AdoptedProcess;
use crate::control::{ANSWER, Answer, LONGEST, Message, Notice, WaitsInPieces};
use crate::hosts::message::decode;
use crate::job_request::{JobRequest, LONGEST_REQUEST};

/// Messages of one rank that are read before others get their turn.
pub const AT_ONCE: usize = 64;
/// … of one that has ended: more than its socket holds.
const LAST: usize = 4096;

/// A rank whose process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningRank {
    /// Its number in the job.
    pub rank: u32,
    /// Its process.
    pub process: u32,
    /// It has said that it has initialised MPI.
    pub is_initialised: bool,
    /// … and that it has finalised it.
    pub is_finalised: bool,
}

/// The starter of the process of a rank.
#[derive(Debug)]
enum Origin {
    /// We have.
    Started,
    /// Another launcher, and it has not come to us: its process is not known.
    OtherLauncher,
    /// Another launcher or nobody, and it has come to us.
    Adopted(ProcessHandle),
}

/// Whether the place of a rank can be taken by another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vacancy {
    /// It is free: what was left there is cleared.
    Free,
    /// Once the others have heard of its end, by this change.
    OnceHeard(u32),
    /// Soon: it has ended and the others are not told, or it is about to end.
    Soon,
    /// The rank runs.
    None,
}

/// A rank. See the [module page](self).
pub struct Rank {
    numbers: RankNumbers,
    /// 0 if it is not known.
    process: u32,
    /// `None` once it is closed.
    control: Option<File>,
    /// Kept open as long as the rank may live.
    _lifeline: Option<OwnedFd>,
    origin: Origin,
    /// What was told of it already.
    initialised: bool,
    finalised: bool,
    /// It has nothing to do with processes of other worlds, and was told so.
    independent: bool,
    ended: Option<ExitStatus>,
    /// The number of the change by which the others were told of its end.
    end_told: Option<u32>,
    /// What it has left is cleared: its place is free whatever happens.
    cleared: bool,
    /// Over which it speaks PMI, if its program may have to.
    pmi: Option<pmi::Connection>,
    /// A request of which the last piece has not come.
    request: Vec<u8>,
    /// … and what it waits for.
    waits: WaitsInPieces,
}

impl Rank {
    /// One whose process we have started.
    pub fn new(numbers: RankNumbers, process: u32, control: OwnedFd, lifeline: OwnedFd) -> Self {
        Self {
            process,
            control: Some(File::from(control)),
            _lifeline: Some(lifeline),
            origin: Origin::Started,
            ..Self::of_other_launcher(numbers)
        }
    }

    /// … which may speak PMI over this socket.
    pub fn with_pmi(mut self, socket: Option<OwnedFd>) -> Self {
        self.pmi = socket.map(pmi::Connection::new);
        self
    }

    /// One that another launcher has started.
    pub fn of_other_launcher(numbers: RankNumbers) -> Self {
        Self {
            numbers,
            process: 0,
            control: None,
            _lifeline: None,
            origin: Origin::OtherLauncher,
            initialised: false,
            finalised: false,
            independent: false,
            ended: None,
            end_told: None,
            cleared: false,
            pmi: None,
            request: Vec::new(),
            waits: WaitsInPieces::default(),
        }
    }

    /// It has come to us.
    ///
    /// # Errors
    /// If the kernel refuses its socket.
    pub fn adopt(&mut self, process: AdoptedProcess) -> io::Result<()> {
        descriptor::set_nonblocking(&process.control, true)?;
        self.process = process.process.id();
        self.control = Some(File::from(process.control));
        self._lifeline = Some(process.lifeline);
        self.origin = Origin::Adopted(process.process);
        self.answer(&Answer::Taken);
        Ok(())
    }

    /// Its number in the job.
    pub fn number(&self) -> u32 {
        self.numbers.number()
    }

    /// All its numbers.
    pub fn numbers(&self) -> RankNumbers {
        self.numbers
    }

    /// Its process; 0 if it is not known.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Whether it was started while the job ran.
    pub fn was_started_later(&self) -> bool {
        self.numbers.place.is_some()
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Its process, if it runs and is a child of ours.
    pub fn child(&self) -> Option<u32> {
        let is_ours = matches!(self.origin, Origin::Started);
        (self.is_running() && is_ours).then_some(self.process)
    }

    /// Whether another launcher has started it and it has not come to us.
    pub fn is_unadopted(&self) -> bool {
        matches!(self.origin, Origin::OtherLauncher)
    }

    /// Its process, if it runs and has come to us.
    pub fn adopted(&self) -> Option<&ProcessHandle> {
        match &self.origin {
            Origin::Adopted(handle) if self.is_running() => Some(handle),
            _ => None,
        }
    }

    /// How far it is, if it runs here.
    pub fn running(&self) -> Option<RunningRank> {
        (self.is_running() && !self.is_unadopted()).then_some(RunningRank {
            rank: self.number(),
            process: self.process,
            is_initialised: self.initialised,
            is_finalised: self.finalised,
        })
    }

    /// Whether it runs, might load a library of MPI which is not ours, and has not begun with any.
    pub fn is_silent(&self) -> bool {
        self.is_running() && self.pmi.is_some() && !self.initialised
    }

    /// Whether it was told that MPI is initialised.
    pub fn is_initialised(&self) -> bool {
        self.initialised
    }

    /// Whether it was told that MPI is finalised.
    pub fn is_finalised(&self) -> bool {
        self.finalised
    }

    /// Keeps what was told of it.
    pub fn note(&mut self, told: &Notice) {
        match told {
            Notice::Initialised => self.initialised = true,
            Notice::Finalised => self.finalised = true,
            Notice::Connected => self.independent = false,
            Notice::Independent => self.independent = true,
            Notice::Abort { .. }
            | Notice::EndsByLoss
            | Notice::Counters(_)
            | Notice::HandlesLosses
            | Notice::Absent => {}
        }
    }

    /// It has ended.
    pub fn end(&mut self, status: ExitStatus) {
        self.ended = Some(status);
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.ended
    }

    /// The others were told of its end by this change.
    pub fn note_end_told(&mut self, change: u32) {
        self.end_told = Some(change);
    }

    /// Its place is free from now on. False: it was before.
    pub fn clear(&mut self) -> bool {
        !std::mem::replace(&mut self.cleared, true)
    }

    /// Whether its place can be taken.
    pub fn vacancy(&self) -> Vacancy {
        match (self.ended, self.end_told) {
            _ if self.cleared => Vacancy::Free,
            (Some(_), Some(change)) => Vacancy::OnceHeard(change),
            (Some(_), None) => Vacancy::Soon,
            (None, _) if self.finalised || self.independent => Vacancy::Soon,
            (None, _) => Vacancy::None,
        }
    }

    /// The sockets over which something may come.
    pub fn sockets(&self) -> impl Iterator<Item = &File> {
        let pmi = self.pmi.as_ref().and_then(pmi::Connection::stream);
        self.control.iter().chain(pmi)
    }

    /// Over which it speaks PMI, if its program may have to.
    pub fn pmi_mut(&mut self) -> Option<&mut pmi::Connection> {
        self.pmi.as_mut()
    }

    /// Answers it. A rank that is gone, or asks without listening, gets nothing.
    pub fn answer(&self, answer: &Answer) {
        if let Some(control) = &self.control {
            let mut bytes = answer.encode();
            if bytes.len() > ANSWER {
                // The asker waits for some answer.
                let reason = format!(
                    "the launcher's answer has {} bytes, and at most {ANSWER} are possible; ask for less",
                    bytes.len()
                );
                bytes = Answer::Refused { reason }.encode();
            }
            let _ = passing::send(control, &bytes, &[]);
        }
    }

    /// Reads what it has to say: some of it, if it goes on without end; all if it has ended.
    pub fn read(&mut self) -> Vec<Message> {
        let most = match self.ended {
            None => AT_ONCE,
            Some(_) => LAST,
        };
        let mut messages = Vec::new();
        let mut bytes = [0; LONGEST];
        for _ in 0..most {
            let Some(control) = &mut self.control else {
                break;
            };
            match control.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.control = None;
                    break;
                }
                Ok(count) => messages.extend(Message::decode(&bytes[..count])),
            }
        }
        messages
    }

    /// A piece of what it waits for.
    pub fn take_waits(&mut self, last: bool, piece: &[u8]) -> Option<RankWaits> {
        self.waits.take(last, piece)
    }

    /// A piece of what it asks of the job. `None`: more pieces are to come.
    ///
    /// # Errors
    /// The answer, if all of them are no request.
    pub fn take_request(&mut self, last: bool, piece: &[u8]) -> Option<Result<JobRequest, Answer>> {
        self.request.extend_from_slice(piece);
        let length = self.request.len();
        if !last && length <= LONGEST_REQUEST {
            return None;
        }
        let request = std::mem::take(&mut self.request);
        let request = Some(request).filter(|request| request.len() <= LONGEST_REQUEST);
        match request.and_then(|request| decode(&request)) {
            Some(request) => Some(Ok(request)),
            None if !last => None,
            None => Some(Err(Answer::Refused {
                reason: format!(
                    "a request of {length} bytes cannot be understood; at most {LONGEST_REQUEST} are \
                     possible (shorten the arguments), and mpiexec and the library must be of the same \
                     release of Weft"
                ),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn rank() -> Rank {
        Rank::of_other_launcher(RankNumbers {
            rank: 3,
            size: 4,
            local_rank: 1,
            local_size: 2,
            appnum: 0,
            place: None,
        })
    }

    /// What a rank has said of MPI and of other worlds, its end, and what others know of it decide about its place.
    #[test]
    fn a_place_becomes_free_step_by_step() {
        let mut rank = rank();
        assert_eq!(rank.vacancy(), Vacancy::None);
        rank.note(&Notice::Independent);
        assert_eq!(rank.vacancy(), Vacancy::Soon);
        rank.note(&Notice::Connected);
        assert_eq!(rank.vacancy(), Vacancy::None);
        rank.note(&Notice::Finalised);
        assert_eq!(rank.vacancy(), Vacancy::Soon);
        rank.end(ExitStatus::from_raw(0));
        assert!(!rank.is_running());
        assert_eq!(rank.vacancy(), Vacancy::Soon, "the others are not told");
        rank.note_end_told(7);
        assert_eq!(rank.vacancy(), Vacancy::OnceHeard(7));
        assert!(rank.clear());
        assert!(!rank.clear(), "it was cleared before");
        assert_eq!(rank.vacancy(), Vacancy::Free);
    }

    #[test]
    fn a_request_that_is_too_long_is_refused_with_its_last_piece() {
        let mut rank = rank();
        let long = vec![0; LONGEST_REQUEST + 1];
        assert!(rank.take_request(false, &long).is_none());
        let refused = rank.take_request(true, b"\xff");
        assert!(matches!(refused, Some(Err(Answer::Refused { .. }))));
        let good = crate::hosts::message::encode(&JobRequest::World);
        assert!(rank.take_request(false, &good[..0]).is_none());
        let understood = rank.take_request(true, &good);
        assert!(matches!(understood, Some(Ok(JobRequest::World))));
    }
}
