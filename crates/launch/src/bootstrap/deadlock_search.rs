//! Deadlock search among ranks that another launcher has started: one of them asks all, as `mpiexec` does, and by the
//! same [watch](crate::job::deadlock).
//!
//! ```text
//!   lowest rank    Searcher, a thread ── looks at the memory, inquires ──► all that sleep
//!                     ▲ an abstract name                                   │
//!                     └── the key, a rank, what it waits for ──────────────┘   over a connection of each, kept
//!
//!   it ends with MPI: closes the name, inquires ──► whoever sleeps answers, finds nobody there, and searches from now on
//! ```
//!
//! The name, which is bound once, decides which rank searches. The answer to an inquiry triggers the next one: it comes
//! from each sleeping rank at once, and from others when they come to sleep. The facts about ranks that have ended are in
//! the memory, so that the next searcher has them too.
//!
//! On several hosts one rank of each searches, and one of these judges: the lowest rank of the first host, as long as
//! that can be called, which it can until it ends with MPI for the first time. The others call it, report when all ranks
//! of their host rest, and pass on questions and answers.
//!
//! A rank whose process belongs to a [launcher of Weft](super::adopted) meanwhile does not answer, so that no deadlock is
//! reported: it may be connected with processes that are not asked here.
//!
//! | file | what |
//! |---|---|
//! | `searcher` | the thread: its connections, their messages, and the final report |
//! | `head` | the rank that judges |
//! | `other_hosts` | other hosts, for the head |
//! | `agent` | the other searching ranks |
//! | `host_ranks` | the ranks as the memory shows them |

mod agent;
mod head;
mod host_ranks;
mod other_hosts;
mod searcher;

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, recv};
use weft_fabric_shm::Watch;
use weft_mpi::waits::RankWaits;
use weft_sys::process::{self, SIGSTOP};
use weft_sys::{passing, poll, signal};

use self::agent::{Agent, leave_early};
use self::head::Head;
use self::searcher::{ENDS, Role, Search};
use super::abstract_socket;
use super::adopted::AGAIN;
use super::calls::{CalledHosts, ListenAddressOf};
use super::key_listener::shown_by;
use super::{BootstrapError, runs_as_us};
use crate::control::Message;
use crate::hosts::link::Link;
use crate::options::{OnDeadlock, on_deadlock};
use crate::segment;

/// The variable that says what becomes of a job in a deadlock, as `mpiexec --on-deadlock` does.
pub const VARIABLE: &str = "WEFT_ON_DEADLOCK";
/// How often it is tried to find who searches while somebody is about to.
const TRIES: u32 = 200;
/// How long an answer may take to leave: who searches may be stopped.
const LEAVE: Duration = Duration::from_secs(1);

/// What the ranks of a host are told before they are ended.
const OUTCOME: &[u8] = b"v";
/// How long what is said to another host may take to leave.
const HOST_LEAVE: Duration = Duration::from_secs(1);
/// After so long a host that does not answer is gone: its kernel is asked every sixth of it, and nobody waits for the answer.
const SILENCE: Duration = Duration::from_secs(60);

/// Has the launcher end the job with this code, because of what the text says.
type EndJob = dyn Fn(u8, &str) + Send + Sync;

/// The part of a rank in the search: it answers, and it may be the rank that searches. See the [module page](self).
#[derive(Clone, Debug, Default)]
pub struct DeadlockSearch(Option<Arc<Member>>);

/// The ranks of a host, and which of them this is.
#[derive(Debug)]
pub struct HostRanks {
    /// The hosts of all ranks of the job, and how they are called.
    pub hosts: CalledHosts,
    /// This one.
    pub rank: u32,
    /// The abstract name at which the searching rank is found.
    pub name: String,
    /// Reaction to a deadlock.
    pub on_deadlock: OnDeadlock,
    /// Stops a process.
    pub stop: fn(u32),
}

impl HostRanks {
    /// The number of the host.
    fn number(&self) -> u32 {
        self.hosts.map.host(self.rank)
    }
}

/// Stops a process, for a debugger or before it is ended.
pub fn stop(process: u32) {
    let _ = process::signal(process, SIGSTOP);
}

/// A rank that takes part.
struct Member {
    host: HostRanks,
    memory: OwnedFd,
    /// A view of the memory, once it is needed; `None` if it cannot be had.
    watch: OnceLock<Option<Watch>>,
    /// Where the lowest rank of another host can be called.
    place: OnceLock<Box<ListenAddressOf>>,
    end_job: OnceLock<Box<EndJob>>,
    /// It was found that no rank can go on, and the job is about to end.
    outcome: OnceLock<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// It has begun with MPI before.
    has_begun: bool,
    /// It has ended with MPI since.
    has_finished: bool,
    /// … and has begun anew. Nobody can call it any more.
    has_returned: bool,
    /// The way to who searches, if it has answered.
    way: Option<OwnedFd>,
    /// It searches itself.
    search: Option<Search>,
    /// It ends, or has ended, with MPI without having met the others.
    ends_early: bool,
    /// Ranks of other hosts that have called before it does, which search there.
    called: Vec<(u32, Link)>,
    /// Links that end with this process, by which another host learns of that.
    kept: Vec<Link>,
}

/// The setting of the environment.
///
/// # Errors
/// If the value is unknown.
pub fn wish(variable: &dyn Fn(&str) -> Option<String>) -> Result<OnDeadlock, BootstrapError> {
    match variable(VARIABLE).filter(|text| !text.is_empty()) {
        None => Ok(OnDeadlock::End),
        Some(text) => on_deadlock(VARIABLE, text.as_ref()).map_err(BootstrapError::new),
    }
}

impl DeadlockSearch {
    /// Among these ranks, which are all ranks of the job, in this memory; unless deadlocks are to be ignored.
    pub fn among(host: HostRanks, memory: OwnedFd) -> Self {
        if host.on_deadlock == OnDeadlock::Ignore {
            return Self::default();
        }
        Self(Some(Arc::new(Member {
            host,
            memory,
            watch: OnceLock::new(),
            place: OnceLock::new(),
            end_job: OnceLock::new(),
            outcome: OnceLock::new(),
            state: Mutex::default(),
        })))
    }

    /// Whether this rank takes part.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// This rank begins with MPI. `place` answers where the lowest rank of a host can be called; `end_job` has the launcher end the
    /// job with a code, because of what a text says.
    pub fn begin(
        &self,
        place: impl Fn(u32) -> Option<Vec<u8>> + Send + Sync + 'static,
        end_job: impl Fn(u8, &str) + Send + Sync + 'static,
    ) {
        let Some(member) = &self.0 else {
            return;
        };
        let _ = member.place.set(Box::new(place));
        let _ = member.end_job.set(Box::new(end_job));
        let mut state = member.state();
        let returns = std::mem::take(&mut state.has_finished);
        if returns {
            state.has_returned = true;
            member.note_finished(false);
        }
        let is_first = !std::mem::replace(&mut state.has_begun, true);
        // One that returns may be alone on its host.
        if is_first && member.local() == 0 || returns && state.search.is_none() {
            // Without a thread nobody searches.
            let _ = Member::search(member, &mut state);
        }
    }

    /// A rank of another host has called, which searches there.
    pub fn take_in(&self, rank: u32, link: Link) {
        let Some(member) = &self.0 else {
            return;
        };
        let mut state = member.state();
        match &state.search {
            Some(search) => search.take_in(rank, link),
            None => state.called.push((rank, link)),
        }
    }

    /// This rank is about to [end](Self::end), and has not met the others before.
    pub fn note_early_end(&self) {
        if let Some(member) = &self.0 {
            member.state().ends_early = true;
        }
    }

    /// Answers an inquiry with what this rank waits for. This rank itself searches from now on if no other does.
    pub fn answer(&self, waits: &RankWaits) {
        let Some(member) = &self.0 else {
            return;
        };
        let mut state = member.state();
        for _ in 0..TRIES {
            match state.way.as_ref().map(|way| tell(way, waits)) {
                Some(Ok(())) => return,
                // A rank that searches does not read, and is told again when it asks again.
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                    state.way = None;
                    return;
                }
                Some(Err(_)) | None => state.way = None,
            }
            match member.find() {
                Ok(Some(way)) => state.way = Some(way),
                Ok(None) => match Member::search(member, &mut state) {
                    Ok(()) => {}
                    Err(error) if error.raw_os_error() == Some(Errno::ADDRINUSE.raw_os_error()) => {
                        // Another one is about to.
                        let _ = poll::wait(&mut [], Some(AGAIN));
                    }
                    Err(_) => return,
                },
                Err(_) => return,
            }
        }
    }

    /// Another rank is lost. Does not return if that follows from a reported deadlock, for which this process is about to
    /// be ended.
    pub fn ends_by_loss(&self) {
        if let Some(member) = &self.0
            && member.has_outcome()
        {
            let _ = poll::wait(&mut [], Some(ENDS));
        }
    }

    /// This rank ends with MPI. Another one goes on with the search.
    pub fn end(&self) {
        let Some(member) = &self.0 else {
            return;
        };
        let mut state = member.state();
        if std::mem::replace(&mut state.has_finished, true) {
            return;
        }
        member.note_finished(true);
        state.way = None;
        let searched = state.search.take();
        let has_searched = searched.is_some();
        // The head ends its links first: the hosts at the other ends look for another head.
        let mut kept = searched.and_then(Search::end);
        if kept.is_none() && state.ends_early && member.host.hosts.map.count() > 1 {
            kept = Member::leave_early(member);
        }
        state.kept.extend(kept);
        if has_searched && let Some(watch) = member.watch() {
            watch.inquire(false);
        }
    }
}

impl Member {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of this rank on its host.
    fn local(&self) -> u32 {
        self.host.hosts.map.local_rank(self.host.rank)
    }

    /// What this rank does when it searches: it `may_judge` if others can call it.
    fn role(&self, watch: &Watch, may_judge: bool) -> Role {
        let map = &self.host.hosts.map;
        match map.count() == 1 || self.host.rank == 0 && may_judge {
            true => self.head(watch),
            false => Role::Agent(Box::new(self.agent(watch, may_judge))),
        }
    }

    fn head(&self, watch: &Watch) -> Role {
        Role::Head(Box::new(Head::new(watch.clone(), &self.host)))
    }

    fn agent(&self, watch: &Watch, may_judge: bool) -> Agent {
        Agent::new(watch.clone(), &self.host, may_judge)
    }

    fn watch(&self) -> Option<&Watch> {
        let open = || {
            let memory = self.memory.try_clone().ok()?;
            segment::adopt(memory).ok().map(|segment| segment.watch)
        };
        self.watch.get_or_init(open).as_ref()
    }

    fn note_finished(&self, finished: bool) {
        if let Some(watch) = self.watch() {
            watch.note_finished(self.local(), finished);
        }
    }

    /// This rank searches from now on.
    fn search(member: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let watch = member.watch().ok_or(ErrorKind::Unsupported)?;
        let listener = abstract_socket::listen(&member.host.name)?;
        let called = std::mem::take(&mut state.called);
        let called = (member.local() == 0 && !state.has_returned, called);
        let search = Search::begin(Arc::clone(member), watch.clone(), listener, called)?;
        state.search = Some(search);
        Ok(())
    }

    /// As [`leave_early`]. In a thread of its own: one of the program's would die of a pipe that the other side has closed.
    fn leave_early(member: &Arc<Self>) -> Option<Link> {
        let (leave, left) = mpsc::channel();
        let member = Arc::clone(member);
        let call = move || {
            let place = member.place.get();
            if let Some(link) = place.and_then(|place| leave_early(&member.host, &**place)) {
                let _ = leave.send(link);
            }
        };
        let thread = signal::spawn_without_signals("weft-watch", call).ok()?;
        let _ = thread.join();
        left.try_recv().ok()
    }

    /// The way to who searches. `None`: nobody does.
    fn find(&self) -> io::Result<Option<OwnedFd>> {
        let way = match abstract_socket::connect(&self.host.name) {
            Ok(way) => way,
            Err(Errno::CONNREFUSED) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !runs_as_us(&way) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        set_socket_timeout(&way, Timeout::Send, Some(LEAVE))?;
        passing::send(&way, &shown_by(self.host.rank, &self.host.hosts.key), &[])?;
        Ok(Some(way))
    }

    /// Whether the job is about to end because no rank can go on.
    fn has_outcome(&self) -> bool {
        if self.outcome.get().is_some() {
            return true;
        }
        let state = self.state();
        let told = |way: &OwnedFd| recv(way, &mut [0; 4][..], RecvFlags::DONTWAIT);
        let told = state.way.as_ref().map(told);
        matches!(told, Some(Ok((1.., _))))
    }

    fn end_job(&self, code: u8, text: &str) {
        if let Some(end) = self.end_job.get() {
            end(code, text);
        }
    }
}

/// Tells who searches what this rank waits for.
fn tell(way: &impl AsFd, waits: &RankWaits) -> io::Result<()> {
    let mut pieces = Message::waits(waits).into_iter();
    pieces.try_for_each(|piece| piece.send(way))
}

impl fmt::Debug for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Member").field(&self.host).finish()
    }
}

#[cfg(test)]
mod tests;
