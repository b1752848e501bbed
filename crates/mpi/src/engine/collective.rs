//! Collectives: taking the steps of schedules under way.

use std::sync::Arc;

use weft_fabric::Token;

use super::Engine;
use super::callbacks::{Combine, Operands};
use super::collective_mismatch::is_mismatch;
use super::collective_note::CollectiveNote;
use super::deferred::Deferred;
use super::envelope::Envelope;
use super::events::EventKind;
use super::protocol::SendMode;
use super::request::Work;
use super::request_id::RequestId;
use super::runs::Run;
use super::schedule::{CollectiveContext, RunId, Schedule, Step};
use crate::buffer::{self, Buffer};
use crate::error::Result;

/// What became of a step.
#[must_use]
enum Taken {
    Done,
    /// The program's own code takes it: see [`callbacks`](super::callbacks).
    ByProgram,
}

impl Engine {
    /// Begins a collective of the communicator with this context; answers the request that ends with it.
    pub(crate) fn start_collective(
        &mut self,
        context: u32,
        schedule: impl Into<Arc<Schedule>>,
        collective: CollectiveContext,
    ) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let request = self.core.requests.insert(context, None, Work::Nothing);
        self.begin_schedule(schedule.into(), collective, request);
        Ok(request)
    }

    /// Begins a collective as request `request`, whose slot is there already.
    pub(super) fn begin_schedule(
        &mut self,
        schedule: Arc<Schedule>,
        context: CollectiveContext,
        request: RequestId,
    ) {
        let (name, continues) = (schedule.name, schedule.continues);
        let named = (-1, context.context());
        let id = self.core.runs.begin(schedule, context, request);
        let note = (self.core.runs.get(id)).map_or(CollectiveNote::NOTHING, Run::note);
        if !continues {
            match note.place() {
                Some(place) => self.core.counters.collective_at(place),
                None => self.core.counters.collective(name),
            }
            self.core.raise(EventKind::CollectiveBegun, None, named, 0);
        }
        self.note_agreement(id);
        if !self.core.lost.is_quiet() {
            self.refuse_with_lost(id);
        }
        if !self.core.mismatches.is_empty() {
            self.refuse_with_mismatch(id);
        }
        if let Some(slot) = self.core.requests.get_mut(request) {
            slot.set_work(Work::Schedule);
        }
        self.advance(id);
    }

    /// Counts a collective of this rank alone, whose name has this place in
    /// [`COLLECTIVES`](super::counters::COLLECTIVES), and in which the engine has nothing to do.
    ///
    /// # Errors
    /// `Revoked`.
    pub(crate) fn pass_alone(&mut self, place: usize, context: u32) -> Result<()> {
        if !self.core.lost.is_quiet()
            && let Some(error) = self.core.lost.refusal(context)
        {
            return Err(error);
        }
        self.core.counters.collective_at(place);
        self.passed(context);
        Ok(())
    }

    /// The same in few instructions. False, without effect, if anybody listens or a loss may concern it.
    #[inline]
    pub(crate) fn pass_alone_at_once(&mut self, place: usize) -> bool {
        let core = &mut self.core;
        if core.events.are_wanted() || !core.lost.is_quiet() {
            return false;
        }
        core.counters.collective_at(place);
        core.counters.collectives_ended.add(1);
        true
    }

    /// Counts a collective by its name, in which this rank communicates with no other. False if a loss or a mismatch may
    /// concern it: then it is begun like any other.
    pub(crate) fn pass_local(&mut self, name: &str, context: u32) -> bool {
        if !self.core.lost.is_quiet() || !self.core.mismatches.is_empty() {
            return false;
        }
        self.core.counters.collective(name);
        self.passed(context);
        true
    }

    fn passed(&mut self, context: u32) {
        self.core.counters.collectives_ended.add(1);
        let named = (-1, context);
        self.core.raise(EventKind::CollectiveBegun, None, named, 0);
        self.core.raise(EventKind::CollectiveEnded, None, named, 0);
    }

    /// A collective with a lost member, or of a revoked communicator, ends before it begins.
    #[cold]
    fn refuse_with_lost(&mut self, id: RunId) {
        let Some(run) = self.core.runs.get_mut(id) else {
            return;
        };
        let of = run.context();
        if let Some(error) = (self.core.lost).refusal_of(run.name(), of.context(), of.group()) {
            run.fail(&error);
        }
    }

    /// Takes all steps of a run that can be taken now.
    pub(super) fn advance(&mut self, id: RunId) {
        loop {
            let Some(run) = self.core.runs.get(id) else {
                return;
            };
            if run.is_stepping() || !self.core.runs.has_settled(id, &mut *self.fabric) {
                return;
            }
            let run = self.core.runs.get(id).expect("looked at just now");
            if run.is_over() {
                return self.finish_schedule(id);
            }
            if !self.take_steps(id) {
                return;
            }
        }
    }

    /// Takes the steps of a run up to the next fence. False if one is for the program's own code:
    /// [`Self::combined`] goes on behind it.
    fn take_steps(&mut self, id: RunId) -> bool {
        let Some(run) = self.core.runs.get_mut(id) else {
            return false;
        };
        let (schedule, mut position) = run.begin_steps();
        let mut failure = None;
        let mut by_program = false;
        while let Some(step) = schedule.steps.get(position) {
            position += 1;
            if matches!(step, Step::Fence) {
                break;
            }
            match self.take_step(id, step) {
                Ok(Taken::Done) => {}
                Ok(Taken::ByProgram) => {
                    by_program = true;
                    break;
                }
                Err(error) => {
                    if let Some(run) = self.core.runs.get_mut(id) {
                        run.fail_step(step, &error);
                    }
                    failure = Some(error);
                    break;
                }
            }
        }
        let run = self.core.runs.get_mut(id);
        run.expect("only finish_schedule removes a run")
            .end_steps(position, by_program);
        if let Some(error) = failure {
            // Operations that it has begun and that nobody may ever answer.
            self.end_transfers_of(id, &error);
        }
        !by_program
    }

    /// The program's own code has done a step of a run.
    #[cold]
    pub(super) fn combined(&mut self, id: RunId, outcome: Result<()>) {
        let Some(run) = self.core.runs.get_mut(id) else {
            return;
        };
        run.end_call();
        if let Err(error) = outcome {
            run.fail(&error);
            self.end_transfers_of(id, &error);
        } else if !run.has_failed() && !self.take_steps(id) {
            return;
        }
        self.advance(id);
        self.drain_deferred();
    }

    fn take_step(&mut self, id: RunId, step: &Step) -> Result<Taken> {
        let run = self.core.runs.get_mut(id).expect("the caller has it");
        let (context, tag) = (run.context().context(), run.context().tag());
        match step {
            Step::Send { to, from } => {
                run.begin_transfer();
                let (peer, region) = (run.context().peer(*to), run.region(*from)?);
                let note = run.note();
                let envelope = Envelope {
                    token: Token(note.bits()),
                    ..Envelope::eager(context, tag, region.len() as u64).of(note.digest())
                };
                let (mode, buffer) = (SendMode::Standard, Buffer::untyped(region));
                match self.start_send_of(mode, buffer, envelope, peer)? {
                    None => _ = self.core.runs.end_transfer(id, None, 0, None),
                    Some(request) => self.adopt(request, id),
                }
            }
            Step::Receive { from, into } => {
                let (peer, region) = (run.context().peer(*from), run.region(*into));
                let note = run.note();
                if let Ok(region) = &region {
                    let expected = Envelope {
                        token: Token(note.bits()),
                        ..Envelope::eager(context, tag, region.len() as u64).of(note.digest())
                    };
                    if self.receive_if_here(region, &expected, peer) {
                        return Ok(Taken::Done);
                    }
                }
                let run = self.core.runs.get_mut(id).expect("the caller has it");
                run.begin_transfer();
                let buffer = Buffer::Flat(region?, note.digest());
                let request = self.start_receive(buffer, context, Some(peer), Some(tag), None)?;
                self.adopt(request, id);
            }
            Step::Copy { from, into } => {
                let from = run.region(*from)?;
                run.region(*into)?.copy_from(&from);
            }
            Step::Pack { buffer, into } => {
                buffer.pack(&run.region(*into)?);
            }
            Step::Unpack { from, buffer } => {
                let from = run.region(*from)?;
                buffer.unpack(buffer::shared(&from));
            }
            Step::CopyElements { from, into } => from.copy_to(into),
            Step::Reduce {
                op,
                datatype,
                count,
                operand,
                into,
                operand_first,
            } => {
                let operands = Operands {
                    operand: run.region(*operand)?,
                    into: run.region(*into)?,
                    count: *count,
                    operand_first: *operand_first,
                };
                if op.as_predefined().is_none() {
                    run.call_program();
                    let combine = Combine {
                        op: Arc::clone(op),
                        datatype: Arc::clone(datatype),
                        operands,
                    };
                    self.core.callbacks.combine(id, combine);
                    return Ok(Taken::ByProgram);
                }
                operands.combine(op, datatype)?;
            }
            Step::Signal { to } => {
                let peer = run.context().peer(*to);
                run.signal(&mut *self.fabric, peer)?;
            }
            Step::Await { from } => {
                let peer = run.context().peer(*from);
                run.await_signal(peer);
            }
            Step::Tell { recipient, from } => recipient.tell(run.region(*from)?)?,
            Step::Fence => {}
        }
        Ok(Taken::Done)
    }

    /// Makes a transfer one of a run: its end is counted there.
    fn adopt(&mut self, request: RequestId, run: RunId) {
        let Some(slot) = self.core.requests.get_mut(request) else {
            return;
        };
        slot.on_complete_mut().run = Some(run);
        if !slot.is_active() {
            self.core.end_transfer_of(request, run);
        }
    }

    fn finish_schedule(&mut self, id: RunId) {
        let Some(removed) = self.core.runs.remove(id) else {
            return;
        };
        if let Some(schedule) = removed.schedule {
            self.core.callbacks.drop_schedule(schedule);
        }
        let counters = &*self.core.counters;
        counters.collectives_ended.add(1);
        counters
            .collectives_failed
            .add(u64::from(removed.error.is_some()));
        let named = (-1, removed.context.context());
        self.core.raise(EventKind::CollectiveEnded, None, named, 0);
        if let Some(error) = &removed.error {
            self.fabric.forget(removed.context.key(removed.note));
            // It may have ended before anybody could look at it.
            if removed.mismatched
                && is_mismatch(error)
                && !self.has_mismatch(removed.context.context())
            {
                let (peers, context) = (self.members_of(&removed.context), &removed.context);
                self.tell_of_mismatch(context.which(), &peers, error);
            }
        }
        if let Some(slot) = self.core.requests.get_mut(removed.request) {
            slot.fail(removed.error);
        }
        self.core.complete(removed.request);
    }

    /// Looks whether signals let some run go on.
    pub(super) fn advance_signalling(&mut self) {
        let waiting = self.core.runs.look().map(Deferred::Advance);
        self.core.deferred.extend(waiting);
    }
}
