//! Runs: schedules under way, how far each is, and what it waits for.
//!
//! ```text
//!   begin ──► steps up to a fence ──► transfers and signals outstanding ──► steps … ──► remove
//!                    │  ▲
//!                    └──┘ a step of the program's own code: nothing else is done meanwhile
//! ```
//!
//! [`collective`](super::collective) takes the steps. A run that has failed takes no more steps, and ends when its
//! transfers have ended.

use std::sync::Arc;

use weft_fabric::{Fabric, Peer, Posted, Region};

use super::collective_mismatch::is_mismatch;
use super::collective_note::CollectiveNote;
use super::request_id::RequestId;
use super::schedule::{CollectiveContext, RunId, Schedule, Span, Step};
use crate::buffer;
use crate::error::{Error, ErrorClass, Result};
use crate::memory;

/// Most bytes of scratch memory that are kept for the next run.
const SPARE_SCRATCH: usize = 1024;

/// A schedule under way.
#[derive(Debug)]
pub(super) struct Run {
    schedule: Arc<Schedule>,
    note: CollectiveNote,
    context: CollectiveContext,
    /// Lives as long as the run; looked at through `memory` only.
    scratch: Box<[u8]>,
    memory: Region,
    position: usize,
    /// Transfers begun and not ended.
    outstanding: u32,
    /// Signals awaited.
    awaited: Vec<Peer>,
    /// Signals that the fabric would not take yet.
    unsent: Vec<Peer>,
    request: RequestId,
    error: Option<Error>,
    /// A step is being taken right now, or by the program's own code meanwhile: completions only count down.
    stepping: bool,
    /// A transfer has got what does not belong to it.
    mismatched: bool,
    /// It has had a step for the program's own code.
    calls_program: bool,
}

/// Looking at it.
impl Run {
    /// The request that ends with it.
    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    /// The members, and what its messages are known by.
    pub(super) fn context(&self) -> &CollectiveContext {
        &self.context
    }

    /// What it is, for the other ranks.
    pub(super) fn note(&self) -> CollectiveNote {
        self.note
    }

    /// Whether it is what is left of a collective on a board.
    pub(super) fn continues(&self) -> bool {
        self.schedule.continues
    }

    /// The MPI call.
    pub(super) fn name(&self) -> &'static str {
        self.schedule.name
    }

    /// The senders that it will still receive from, once for each message.
    pub(super) fn expected(&self) -> impl Iterator<Item = Peer> {
        let rest = self.schedule.steps.get(self.position..).unwrap_or(&[]);
        rest.iter().filter_map(|step| match step {
            Step::Receive { from, .. } => Some(self.context.peer(*from)),
            _ => None,
        })
    }

    /// Whose signals it waits for.
    pub(super) fn awaited(&self) -> impl Iterator<Item = Peer> {
        self.awaited.iter().copied()
    }

    /// What it has failed with.
    pub(super) fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Whether it has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Whether a step is being taken.
    pub(super) fn is_stepping(&self) -> bool {
        self.stepping
    }

    /// Whether no step is left to take.
    pub(super) fn is_over(&self) -> bool {
        self.position >= self.schedule.steps.len() || self.error.is_some()
    }

    /// The bytes of a span.
    pub(super) fn region(&self, span: Span) -> Result<Region> {
        match span {
            Span::User(region) => Ok(region),
            Span::Scratch { offset, length } => {
                self.memory.part(offset, length).ok_or_else(|| {
                    Error::new(
                        ErrorClass::Intern,
                        format!(
                            "a schedule names scratch bytes {offset}..+{length} of {}; please report this",
                            self.memory.len()
                        ),
                    )
                })
            }
        }
    }
}

/// Going on.
impl Run {
    /// Steps are about to be taken, from the one that is answered on.
    pub(super) fn begin_steps(&mut self) -> (Arc<Schedule>, usize) {
        self.stepping = true;
        (Arc::clone(&self.schedule), self.position)
    }

    /// Steps before this position have been taken; the last one is under way still if it is the program's.
    pub(super) fn end_steps(&mut self, position: usize, is_program_called: bool) {
        self.position = position;
        self.stepping = is_program_called;
    }

    /// The program's own code takes a step.
    pub(super) fn call_program(&mut self) {
        self.calls_program = true;
    }

    /// The program's own code has taken its step.
    pub(super) fn end_call(&mut self) {
        self.stepping = false;
    }

    /// A transfer begins.
    pub(super) fn begin_transfer(&mut self) {
        self.outstanding += 1;
    }

    /// A step has failed: a transfer that has not begun does not end either.
    pub(super) fn fail_step(&mut self, step: &Step, error: &Error) {
        self.outstanding -= u32::from(matches!(step, Step::Send { .. } | Step::Receive { .. }));
        self.fail(error);
    }

    /// It fails, if it has not failed before.
    pub(super) fn fail(&mut self, error: &Error) {
        self.error.get_or_insert_with(|| error.clone());
    }

    /// It fails with an error that does not say in which call.
    fn fail_in_call(&mut self, error: &Error) {
        let (name, note) = (self.schedule.name, self.note);
        self.error.get_or_insert_with(|| {
            // Of other collectives with other arguments, those of this rank are of interest.
            let name = match note {
                note if is_mismatch(error) && note != CollectiveNote::NOTHING => note.describe(),
                _ => name.to_owned(),
            };
            error.clone().in_words(format!("{name}: {error}"))
        });
    }

    /// Sends a signal, now or when there is room.
    pub(super) fn signal(&mut self, fabric: &mut dyn Fabric, to: Peer) -> Result<()> {
        if fabric.signal(to, self.context.key(self.note()))? == Posted::Retry {
            self.unsent.push(to);
        }
        Ok(())
    }

    /// Waits for a signal from now on.
    pub(super) fn await_signal(&mut self, from: Peer) {
        self.awaited.push(from);
    }

    /// Takes the signals that have come and sends those that there is room for.
    fn exchange_signals(&mut self, fabric: &mut dyn Fabric) {
        let key = self.context.key(self.note());
        self.awaited
            .retain(|&from| !fabric.take_signals(from, key, 1));
        let mut error = None;
        self.unsent.retain(|&to| match fabric.signal(to, key) {
            Ok(Posted::Retry) => true,
            Ok(_) => false,
            Err(cause) => {
                error = Some(Error::from(cause));
                false
            }
        });
        if let Some(error) = error {
            self.error.get_or_insert(error);
        }
    }

    /// A transfer has ended, for which so many bytes were `expected` if it is a receive. True if the run may go on.
    fn end_transfer(
        &mut self,
        expected: Option<Expected>,
        came: u64,
        error: Option<&Error>,
    ) -> bool {
        self.outstanding -= 1;
        match (error, expected) {
            (Some(error), _) => {
                self.mismatched |= is_mismatch(error);
                self.fail_in_call(error);
            }
            (None, Some(expected)) if expected.bytes as u64 != came => {
                let name = self.schedule.name;
                self.mismatched = true;
                self.error
                    .get_or_insert_with(|| mismatch(name, expected, came));
            }
            _ => {}
        }
        self.outstanding == 0 && !self.stepping
    }
}

#[cold]
fn mismatch(name: &str, Expected { bytes, from }: Expected, came: u64) -> Error {
    let text = format!(
        "{name}: a peer sent {came} bytes where this rank expects {bytes}; count and datatype must agree on all ranks of the call"
    );
    match from {
        None => Error::new(ErrorClass::Truncate, text),
        Some(peer) => Error::new(
            ErrorClass::Truncate,
            format!("{text} (the peer is rank {peer} of MPI_COMM_WORLD)"),
        )
        .about(peer),
    }
}

/// What a receive of a collective is to get.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub bytes: usize,
    pub from: Option<Peer>,
}

/// A run that has been removed.
pub(super) struct Removed {
    pub request: RequestId,
    pub error: Option<Error>,
    pub context: CollectiveContext,
    pub note: CollectiveNote,
    /// A transfer has got what does not belong to it.
    pub mismatched: bool,
    /// The schedule, if its drop may be the program's own code.
    pub schedule: Option<Arc<Schedule>>,
}

/// All schedules under way.
#[derive(Debug, Default)]
pub(super) struct Runs {
    slots: Vec<Option<Run>>,
    /// Runs that wait for signals or for room to signal.
    signalling: Vec<RunId>,
    /// Signals have arrived since those runs were looked at.
    signalled: bool,
    /// One of them could not signal for want of room.
    stuck: bool,
    /// Emptied lists of peers, kept so that a collective need not allocate them.
    spare: Vec<Vec<Peer>>,
    /// The scratch memory of the last run, if it had little: likewise.
    spare_scratch: Box<[u8]>,
}

impl Runs {
    /// A run from its first step on, which ends with `request`.
    pub(super) fn begin(
        &mut self,
        schedule: Arc<Schedule>,
        context: CollectiveContext,
        request: RequestId,
    ) -> RunId {
        let mut scratch = self.scratch(schedule.scratch_bytes);
        // Made once: transfers under way keep regions of it, which a new borrow would end.
        let memory = buffer::region_of(&mut scratch);
        let note = match schedule.note {
            CollectiveNote::NOTHING => CollectiveNote::of_name(schedule.name),
            note => note,
        };
        let run = Run {
            note,
            scratch,
            memory,
            schedule,
            context,
            position: 0,
            outstanding: 0,
            awaited: self.spare.pop().unwrap_or_default(),
            unsent: self.spare.pop().unwrap_or_default(),
            request,
            error: None,
            stepping: false,
            mismatched: false,
            calls_program: false,
        };
        let free = self.slots.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(run);
        RunId(index as u32)
    }

    /// So many zero bytes.
    fn scratch(&mut self, bytes: usize) -> Box<[u8]> {
        if bytes == 0 || bytes != self.spare_scratch.len() {
            return memory::scratch(bytes);
        }
        let mut scratch = std::mem::take(&mut self.spare_scratch);
        scratch.fill(0);
        scratch
    }

    /// Takes out a run that has come to its end.
    pub(super) fn remove(&mut self, id: RunId) -> Option<Removed> {
        let run = self.slots[id.0 as usize].take()?;
        for mut list in [run.awaited, run.unsent] {
            list.clear();
            self.spare.push(list);
        }
        if (1..=SPARE_SCRATCH).contains(&run.scratch.len()) {
            self.spare_scratch = run.scratch;
        }
        self.signalling.retain(|other| *other != id);
        // One that ends early may not have come to its first step of the program's.
        let calls_program = run.calls_program || run.error.is_some();
        Some(Removed {
            request: run.request,
            error: run.error,
            context: run.context,
            note: run.note,
            mismatched: run.mismatched,
            schedule: calls_program.then_some(run.schedule),
        })
    }

    pub(super) fn get(&self, id: RunId) -> Option<&Run> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: RunId) -> Option<&mut Run> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// The one that ends with this request.
    pub(super) fn of_request(&self, request: RequestId) -> Option<(RunId, &Run)> {
        let mut live = (0..).zip(&self.slots);
        live.find_map(|(index, run)| {
            let run = run.as_ref().filter(|run| run.request == request)?;
            Some((RunId(index), run))
        })
    }

    /// How many signals wait for room.
    pub(super) fn unsent(&self) -> usize {
        let live = self.slots.iter().flatten();
        live.map(|run| run.unsent.len()).sum()
    }

    /// Whether there are none.
    pub(super) fn are_idle(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Those that `which` names.
    pub(super) fn that(&self, which: impl Fn(&Run) -> bool) -> Vec<RunId> {
        let of = |run: &Option<Run>| run.as_ref().is_some_and(&which);
        let found = (0..).zip(&self.slots).filter(|(_, run)| of(run));
        found.map(|(index, _)| RunId(index)).collect()
    }

    /// A run cannot come to its end; false if it has.
    pub(super) fn fail(&mut self, id: RunId, error: &Error) -> bool {
        let run = self.get_mut(id);
        run.map(|run| run.fail_in_call(error)).is_some()
    }

    /// A transfer of a run has ended. True if the run may go on.
    pub(super) fn end_transfer(
        &mut self,
        id: RunId,
        expected: Option<Expected>,
        came: u64,
        error: Option<&Error>,
    ) -> bool {
        let run = self.get_mut(id);
        run.is_some_and(|run| run.end_transfer(expected, came, error))
    }

    /// Whether everything that the run has begun has ended. Tries what can be tried.
    pub(super) fn has_settled(&mut self, id: RunId, fabric: &mut dyn Fabric) -> bool {
        let is_any_signalling = !self.signalling.is_empty();
        let Some(run) = self.get_mut(id) else {
            return false;
        };
        // Most have none.
        if run.awaited.is_empty() && run.unsent.is_empty() && !is_any_signalling {
            return run.outstanding == 0;
        }
        run.exchange_signals(fabric);
        let quiet = run.awaited.is_empty() && run.unsent.is_empty();
        let stuck = !run.unsent.is_empty();
        let settled = run.outstanding == 0 && (quiet || run.error.is_some());
        self.stuck |= stuck;
        if quiet {
            self.signalling.retain(|other| *other != id);
        } else if !self.signalling.contains(&id) {
            self.signalling.push(id);
        }
        settled
    }

    /// A signal has arrived.
    pub(super) fn note_signal(&mut self) {
        self.signalled = true;
    }

    /// Whether runs that wait for signals, or for room to signal, are to be looked at.
    #[inline]
    pub(super) fn want_look(&self) -> bool {
        self.signalled | self.stuck
    }

    /// Those runs, which are looked at now.
    pub(super) fn look(&mut self) -> impl Iterator<Item = RunId> {
        (self.signalled, self.stuck) = (false, false);
        self.signalling.iter().copied()
    }
}
