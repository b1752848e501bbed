//! Collectives as values: a [`Schedule`] lists what one rank does; the engine runs it.
//!
//! ```text
//! builder (coll/…) ──► Schedule ──► run: start and wait     blocking
//!                               └─► start: a request        non-blocking
//!                               └─► keep, start again       persistent
//! ```
//!
//! Steps are taken in order. `Send`, `Receive` and `Await` only *begin* there; a `Fence` waits until
//! everything before it has ended. Local steps (`Copy`, `Pack`, `Unpack`, `Reduce`) happen at once, so
//! a local step on received data stands behind a fence. A schedule ends with an implied fence.
//!
//! Messages of collectives travel in a context of their own, with the sequence number of the
//! collective on its communicator as tag: collectives under way at the same time do not mix.

use std::sync::Arc;

use weft_fabric::{Peer, Posted, Region, SyncKey};

use super::deferred::{Combine, Operands};
use super::request::{Phase, RequestId, Work};
use super::{Engine, Todo};
use crate::buffer::{self, Buffer, TypedBuffer};
use crate::comm::{Comm, GROUP_TAG, told};
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::op::Op;

/// Contiguous bytes of a schedule: the caller's, or a part of the scratch memory that the run owns.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// The caller's memory.
    User(Region),
    /// Part of the scratch memory.
    Scratch {
        /// First byte.
        offset: usize,
        /// Bytes.
        length: usize,
    },
}

/// What a rank does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Begins to send to a rank of the communicator.
    Send {
        /// Rank in the communicator.
        to: u32,
        /// What.
        from: Span,
    },
    /// Begins to receive from a rank of the communicator: exactly as many bytes as the span holds.
    Receive {
        /// Rank in the communicator.
        from: u32,
        /// Where to.
        into: Span,
    },
    /// Copies bytes.
    Copy {
        /// What.
        from: Span,
        /// Where to; as many bytes as both hold.
        into: Span,
    },
    /// Gathers elements with gaps into contiguous bytes.
    Pack {
        /// The elements.
        buffer: TypedBuffer,
        /// Where to.
        into: Span,
    },
    /// Spreads contiguous bytes over elements with gaps.
    Unpack {
        /// What.
        from: Span,
        /// The elements.
        buffer: TypedBuffer,
    },
    /// Combines: `into = operand op into` if `operand_first`, else `into = into op operand`.
    Reduce {
        /// The operation.
        op: Arc<Op>,
        /// Type of the elements, contiguous at its extent.
        datatype: Arc<Datatype>,
        /// How many elements.
        count: usize,
        /// One side.
        operand: Span,
        /// The other side, and the result.
        into: Span,
        /// The order, for operations that do not commute.
        operand_first: bool,
    },
    /// Sends a signal without data.
    Signal {
        /// Rank in the communicator.
        to: u32,
    },
    /// Begins to wait for a signal.
    Await {
        /// Rank in the communicator.
        from: u32,
    },
    /// Gives a communicator the context that the bytes are.
    Name {
        /// Whose members have agreed.
        comm: Arc<Comm>,
        /// Four bytes.
        from: Span,
    },
    /// Waits until everything before has ended.
    Fence,
}

/// What one rank does in a collective.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Name of the MPI call, for messages to people.
    pub name: &'static str,
    /// In order.
    pub steps: Vec<Step>,
    /// Scratch memory that a run needs.
    pub scratch_bytes: usize,
}

impl Schedule {
    /// Steps that need no scratch memory.
    #[must_use]
    pub fn of(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            name,
            steps,
            scratch_bytes: 0,
        }
    }
}

/// Index of a run in the engine's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScheduleId(u32);

/// Where a collective runs.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The communicator's context for collectives.
    pub context: u32,
    /// Ranks of the communicator (both sides of an intercommunicator), where they differ from the peers.
    pub group: Option<Arc<Group>>,
    /// Number of this collective on the communicator.
    pub sequence: u32,
}

impl Place {
    fn has(&self, peer: Peer) -> bool {
        self.group
            .as_ref()
            .is_none_or(|group| group.rank_of(peer).is_some())
    }

    fn peer(&self, rank: u32) -> Peer {
        self.group
            .as_ref()
            .map_or(Peer(rank), |group| group.peer(rank))
    }

    fn key(&self) -> SyncKey {
        SyncKey(u64::from(self.context) << 32 | u64::from(self.sequence))
    }

    fn tag(&self) -> i32 {
        // Below the tags of creations, which travel in the same context.
        self.sequence.cast_signed() & (GROUP_TAG - 1)
    }
}

/// A schedule under way.
#[derive(Debug)]
pub(super) struct Run {
    schedule: Arc<Schedule>,
    place: Place,
    /// Lives as long as the run; looked at through `memory` only.
    _scratch: Vec<u8>,
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
    /// It has had a step for the program's own code.
    calls_program: bool,
}

impl Run {
    /// The request that ends with it.
    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    /// Context and tag of its messages.
    pub(super) fn matches(&self) -> (u32, i32) {
        (self.place.context, self.place.tag())
    }

    /// The MPI call.
    pub(super) fn name(&self) -> &'static str {
        self.schedule.name
    }

    /// Whom it will still receive from, once for each message.
    pub(super) fn expected(&self) -> impl Iterator<Item = Peer> {
        let rest = self.schedule.steps.get(self.position..).unwrap_or(&[]);
        rest.iter().filter_map(|step| match step {
            Step::Receive { from, .. } => Some(self.place.peer(*from)),
            _ => None,
        })
    }
}

/// What became of a step.
#[must_use]
enum Taken {
    Done,
    /// The program's own code takes it: see [`deferred`](super::deferred).
    Deferred,
}

/// All schedules under way.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    slots: Vec<Option<Run>>,
    /// Runs that wait for signals or for room to signal.
    signalling: Vec<ScheduleId>,
    /// Signals have arrived since those runs were looked at.
    pub signalled: bool,
    /// One of them could not signal for want of room.
    pub stuck: bool,
    /// Emptied lists of peers, kept so that a collective need not allocate them.
    spare: Vec<Vec<Peer>>,
}

impl Runs {
    fn get(&mut self, id: ScheduleId) -> Option<&mut Run> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    fn insert(&mut self, run: Run) -> ScheduleId {
        let index = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
        self.slots[index] = Some(run);
        ScheduleId(index as u32)
    }

    /// Whether there are none.
    pub(super) fn are_idle(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// All of them.
    pub(super) fn under_way(&self) -> Vec<ScheduleId> {
        let found = (0..).zip(&self.slots).filter(|(_, run)| run.is_some());
        found.map(|(index, _)| ScheduleId(index)).collect()
    }

    /// A run, to be looked at.
    pub(super) fn look(&self, id: ScheduleId) -> Option<&Run> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// The runs of communicators that a peer belongs to.
    pub(super) fn with_member(&self, peer: Peer) -> Vec<ScheduleId> {
        let of = |run: &Option<Run>| run.as_ref().is_some_and(|run| run.place.has(peer));
        let found = (0..).zip(&self.slots).filter(|(_, run)| of(run));
        found.map(|(index, _)| ScheduleId(index)).collect()
    }

    /// A run cannot come to its end; false if it has.
    pub(super) fn fail(&mut self, id: ScheduleId, error: &Error) -> bool {
        let Some(run) = self.get(id) else {
            return false;
        };
        let name = run.schedule.name;
        run.error
            .get_or_insert_with(|| Error::new(error.class(), format!("{name}: {error}")));
        true
    }

    /// A transfer of a run has ended. True if the run may go on.
    pub(crate) fn ended(
        &mut self,
        id: ScheduleId,
        expected: Option<usize>,
        came: u64,
        error: Option<&Error>,
    ) -> bool {
        let Some(run) = self.get(id) else {
            return false;
        };
        run.outstanding -= 1;
        if run.error.is_none() {
            let name = run.schedule.name;
            run.error = match (error, expected) {
                (Some(error), _) => Some(Error::new(error.class(), format!("{name}: {error}"))),
                (None, Some(expected)) if expected as u64 != came => {
                    Some(mismatch(name, expected, came))
                }
                _ => None,
            };
        }
        run.outstanding == 0 && !run.stepping
    }
}

#[cold]
fn mismatch(name: &str, expected: usize, came: u64) -> Error {
    Error::new(
        ErrorClass::Truncate,
        format!(
            "{name}: a peer sent {came} bytes where this rank expects {expected}; count and datatype must agree on all ranks of the call"
        ),
    )
}

impl Engine {
    /// Begins a collective as request `request`, whose slot is there already.
    pub(crate) fn begin_schedule(
        &mut self,
        schedule: Arc<Schedule>,
        place: Place,
        request: RequestId,
    ) {
        let mut scratch = vec![0; schedule.scratch_bytes];
        // Made once: transfers under way keep regions of it, which a new borrow would end.
        let memory = buffer::region_of(&mut scratch);
        let run = Run {
            _scratch: scratch,
            memory,
            schedule,
            place,
            position: 0,
            outstanding: 0,
            awaited: self.core.runs.spare.pop().unwrap_or_default(),
            unsent: self.core.runs.spare.pop().unwrap_or_default(),
            request,
            error: None,
            stepping: false,
            calls_program: false,
        };
        let id = self.core.runs.insert(run);
        if !self.core.lost.is_empty() {
            self.refuse_with_lost(id);
        }
        if let Some(slot) = self.core.requests.get_mut(request) {
            slot.work = Work::Schedule;
        }
        self.advance(id);
    }

    /// A collective with a lost member ends before it begins.
    #[cold]
    fn refuse_with_lost(&mut self, id: ScheduleId) {
        let Some(run) = self.core.runs.get(id) else {
            return;
        };
        let lost = self.core.lost.iter().find(|(peer, _)| run.place.has(*peer));
        run.error = lost.map(|(peer, reason)| {
            let name = run.schedule.name;
            Error::new(
                ErrorClass::ProcFailed,
                format!("{name}: rank {peer} of MPI_COMM_WORLD is lost: {reason}; go on with a communicator without it"),
            )
        });
    }

    /// Takes all steps of a run that can be taken now.
    pub(crate) fn advance(&mut self, id: ScheduleId) {
        loop {
            let Some(run) = self.core.runs.get(id) else {
                return;
            };
            if run.stepping || !self.settled(id) {
                return;
            }
            let run = self.core.runs.get(id).expect("looked at just now");
            if run.position >= run.schedule.steps.len() || run.error.is_some() {
                return self.finish_schedule(id);
            }
            if !self.take_steps(id) {
                return;
            }
        }
    }

    /// Takes the steps of a run up to the next fence. False if one is for the program's own code:
    /// [`Self::combined`] goes on behind it.
    fn take_steps(&mut self, id: ScheduleId) -> bool {
        let Some(run) = self.core.runs.get(id) else {
            return false;
        };
        run.stepping = true;
        let schedule = Arc::clone(&run.schedule);
        let mut position = run.position;
        let mut failure = None;
        let mut deferred = false;
        while let Some(step) = schedule.steps.get(position) {
            position += 1;
            if matches!(step, Step::Fence) {
                break;
            }
            match self.take_step(id, step) {
                Ok(Taken::Done) => {}
                Ok(Taken::Deferred) => {
                    deferred = true;
                    break;
                }
                Err(error) => {
                    if let Some(run) = self.core.runs.get(id) {
                        // A transfer that has not begun does not end either.
                        run.outstanding -=
                            u32::from(matches!(step, Step::Send { .. } | Step::Receive { .. }));
                        run.error.get_or_insert_with(|| error.clone());
                    }
                    failure = Some(error);
                    break;
                }
            }
        }
        let run = self
            .core
            .runs
            .get(id)
            .expect("only finish_schedule removes a run");
        run.position = position;
        run.stepping = deferred;
        if let Some(error) = failure {
            // What it has begun and nobody may ever answer.
            self.end_parts(id, &error);
        }
        !deferred
    }

    /// The program's own code has done a step of a run.
    #[cold]
    pub(super) fn combined(&mut self, id: ScheduleId, outcome: Result<()>) {
        let Some(run) = self.core.runs.get(id) else {
            return;
        };
        run.stepping = false;
        if let Err(error) = outcome {
            run.error.get_or_insert_with(|| error.clone());
            self.end_parts(id, &error);
        } else if run.error.is_none() && !self.take_steps(id) {
            return;
        }
        self.advance(id);
        self.settle();
    }

    /// Whether everything that the run has begun has ended. Tries what can be tried.
    fn settled(&mut self, id: ScheduleId) -> bool {
        let Some(run) = self.core.runs.get(id) else {
            return false;
        };
        let key = run.place.key();
        let fabric = &mut self.fabric;
        run.awaited
            .retain(|&from| !fabric.take_signals(from, key, 1));
        let mut error = None;
        run.unsent.retain(|&to| match fabric.signal(to, key) {
            Ok(Posted::Retry) => true,
            Ok(_) => false,
            Err(cause) => {
                error = Some(Error::from(cause));
                false
            }
        });
        if let Some(error) = error {
            run.error.get_or_insert(error);
        }
        let quiet = run.awaited.is_empty() && run.unsent.is_empty();
        let stuck = !run.unsent.is_empty();
        let done = run.outstanding == 0 && (quiet || run.error.is_some());
        self.core.runs.stuck |= stuck;
        let signalling = &mut self.core.runs.signalling;
        if quiet {
            signalling.retain(|other| *other != id);
        } else if !signalling.contains(&id) {
            signalling.push(id);
        }
        done
    }

    fn take_step(&mut self, id: ScheduleId, step: &Step) -> Result<Taken> {
        let run = self.core.runs.get(id).expect("the caller has it");
        let place = &run.place;
        let (context, tag) = (place.context, place.tag());
        match step {
            Step::Send { to, from } => {
                let (peer, region) = (place.peer(*to), region(run.memory, *from)?);
                run.outstanding += 1;
                match self.start_send(
                    crate::p2p::SendMode::Standard,
                    Buffer::Flat(region),
                    context,
                    peer,
                    tag,
                )? {
                    None => _ = self.core.runs.ended(id, None, 0, None),
                    Some(request) => self.adopt(request, id),
                }
            }
            Step::Receive { from, into } => {
                let (peer, region) = (place.peer(*from), region(run.memory, *into)?);
                run.outstanding += 1;
                let request =
                    self.start_receive(Buffer::Flat(region), context, Some(peer), Some(tag), None)?;
                self.adopt(request, id);
            }
            Step::Copy { from, into } => {
                let from = region(run.memory, *from)?;
                region(run.memory, *into)?.copy_from(&from);
            }
            Step::Pack { buffer, into } => {
                let bytes = buffer.packed()?;
                region(run.memory, *into)?.copy_from_slice(&bytes);
            }
            Step::Unpack { from, buffer } => {
                let from = region(run.memory, *from)?;
                buffer.unpack(buffer::bytes_of(&from));
            }
            Step::Reduce {
                op,
                datatype,
                count,
                operand,
                into,
                operand_first,
            } => {
                let operands = Operands {
                    operand: region(run.memory, *operand)?,
                    into: region(run.memory, *into)?,
                    count: *count,
                    operand_first: *operand_first,
                };
                if op.as_predefined().is_none() {
                    run.calls_program = true;
                    let combine = Combine {
                        op: Arc::clone(op),
                        datatype: Arc::clone(datatype),
                        operands,
                    };
                    self.core.deferred.combine(id, combine);
                    return Ok(Taken::Deferred);
                }
                operands.combine(op, datatype)?;
            }
            Step::Signal { to } => {
                let (peer, key) = (place.peer(*to), place.key());
                if self.fabric.signal(peer, key)? == Posted::Retry {
                    run.unsent.push(peer);
                }
            }
            Step::Await { from } => {
                let peer = place.peer(*from);
                run.awaited.push(peer);
            }
            Step::Name { comm, from } => {
                let mut word = [0; 4];
                region(run.memory, *from)?.copy_to_slice(&mut word);
                comm.name(told(u32::from_le_bytes(word))?);
            }
            Step::Fence => {}
        }
        Ok(Taken::Done)
    }

    /// Makes a transfer a part of a run: its end is counted there.
    fn adopt(&mut self, request: RequestId, run: ScheduleId) {
        let Some(slot) = self.core.requests.get_mut(request) else {
            return;
        };
        slot.duties_mut().parent = Some(run);
        if slot.phase == Phase::Complete {
            self.core.end_part(request, run);
        }
    }

    fn finish_schedule(&mut self, id: ScheduleId) {
        let Some(run) = self.core.runs.slots[id.0 as usize].take() else {
            return;
        };
        // One that ends early may not have come to its first step of that kind.
        if run.calls_program || run.error.is_some() {
            self.core.deferred.drop_schedule(run.schedule);
        }
        for mut list in [run.awaited, run.unsent] {
            list.clear();
            self.core.runs.spare.push(list);
        }
        self.core.runs.signalling.retain(|other| *other != id);
        if run.error.is_some() {
            self.fabric.forget(run.place.key());
        }
        if let Some(slot) = self.core.requests.get_mut(run.request) {
            slot.outcome.error = run.error;
        }
        self.core.complete(run.request);
    }

    /// Looks whether signals let some run go on.
    pub(crate) fn advance_signalling(&mut self) {
        let runs = &mut self.core.runs;
        (runs.signalled, runs.stuck) = (false, false);
        let waiting = runs.signalling.iter().map(|id| Todo::Advance(*id));
        self.core.todo.extend(waiting);
    }
}

fn region(scratch: Region, span: Span) -> Result<Region> {
    match span {
        Span::User(region) => Ok(region),
        Span::Scratch { offset, length } => scratch.part(offset, length).ok_or_else(|| {
            Error::new(
                ErrorClass::Intern,
                format!(
                    "a schedule names scratch bytes {offset}..+{length} of {}; please report this",
                    scratch.len()
                ),
            )
        }),
    }
}
