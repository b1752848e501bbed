//! Inquiry: the process that watches the job asks what the threads of this rank wait for; each waiting thread answers
//! itself.
//!
//! ```text
//!   driver   sleeps ─ rung ─ looks at everything, finds nothing ─ wakes parked threads ─ adds its Wait ─ sleeps
//!   parked                                                        looks, finds nothing ─ adds its Wait ─ parks
//!                                                                            the last one tells
//! ```
//!
//! # What an answer says
//! A rank answers only when each of its waiting threads has looked since it was asked and found nothing, and it answers
//! from within the sleep of its driver. So two answers with the same [`activity`](RankWaits::activity) prove that in
//! between none of these threads has left its call, and that nothing has come to this rank: anything that comes ends the
//! sleep, and the next sleep is another.
//!
//! # Fibers
//! Parked fibers do not look. A fiber that could go on is runnable at its worker, whose thread then runs, or was woken
//! to. A worker with nothing to run sleeps on a futex of its own, which only threads of this process ring: it is idle
//! like any other thread. The worker of the driver sleeps with it, and the driver does not answer while another of its
//! fibers is runnable. A fiber on its way from one worker to another is held by a thread that runs. So fibers need no
//! account of their own.
//!
//! If any thread may call, threads that do not wait in MPI count as well: [`OtherThreads`].
//!
//! All of this happens before a sleep: a call that need not sleep does not come here.

mod answers;
mod other_threads;

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use weft_fabric::Peer;
use weft_fiber::Waiter;
use weft_matching::{SourcePattern, TagPattern};
use weft_sys::call_site::{RustCall, entry_and_site};
use weft_sys::process;
use weft_sys::signal::spawn_without_signals;

use super::request::{Phase, Work};
use super::request_id::RequestId;
use super::{Engine, Guard, WaitFor};
use crate::wait_times::Awaits;
use crate::waits::{MOST, Operation, PARTITIONS, RankWaits, Unreceived, Wait};
use other_threads::OtherThreads;

pub(super) use answers::Answers;
pub(crate) use other_threads::ThreadsOfRank;

/// The listener to the waits of this rank.
pub(crate) type WaitsListener = Arc<dyn Fn(RankWaits) + Send + Sync>;

/// What an engine is told of inquiries.
#[derive(Clone, Default)]
pub(super) struct Settings {
    listener: Option<WaitsListener>,
    /// The program has said that one of its threads makes all calls.
    one_thread_calls: bool,
    /// All of the process, unless somebody knows better.
    threads: Option<ThreadsOfRank>,
}

/// The name of the thread that names places for a fiber.
const PLACES: &str = "weft-places";

/// The inquiry under way, and who hears the answer.
#[derive(Default)]
pub(super) struct Inquiry {
    settings: Settings,
    /// The last one that was answered, or is being answered.
    number: u32,
    /// Waits of those that have looked; `None` if that was told.
    found: Option<Vec<Wait>>,
    /// The threads that have looked.
    looked: Vec<u32>,
    /// How often something was moved on behalf of a rank that makes no call.
    helped: u64,
}

impl Inquiry {
    /// Has somebody hear what this rank waits for.
    pub(super) fn listen(&mut self, listener: WaitsListener) {
        self.settings.listener = Some(listener);
    }

    /// One thread of the program makes all calls: whatever others there are, they end nobody's wait.
    pub(super) fn one_thread_calls(&mut self, does: bool) {
        self.settings.one_thread_calls = does;
    }

    /// Not all threads of this process are this rank's.
    pub(super) fn set_threads(&mut self, threads: ThreadsOfRank) {
        self.settings.threads = Some(threads);
    }

    /// Whether somebody who does not wait here has moved something.
    pub(super) fn helped(&mut self, moved: bool) {
        self.helped += u64::from(moved);
    }

    /// What another engine of the rank is told as well.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// As that one has it.
    pub(super) fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Whether this inquiry is new.
    pub(super) fn is_new(&self, number: u32) -> bool {
        number != self.number && self.settings.listener.is_some()
    }

    /// Whether this inquiry waits for more of those that look.
    pub(super) fn is_under_way(&self, number: u32) -> bool {
        number == self.number && self.found.is_some()
    }

    /// The last one that was answered, or is being answered.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// A new one begins.
    pub(super) fn begin(&mut self, number: u32) {
        self.number = number;
        self.found = Some(Vec::new());
        self.looked.clear();
    }

    /// One that waits has looked, and found nothing.
    pub(super) fn add(&mut self, wait: Wait) {
        if let Some(found) = &mut self.found {
            found.push(wait);
            self.looked.push(process::thread_id());
        }
    }

    /// How many have looked.
    pub(super) fn looked(&self) -> usize {
        self.found.as_ref().map_or(0, Vec::len)
    }

    /// Whether places in the program are asked for, too.
    pub(super) fn is_full(number: u32) -> bool {
        number & 1 == 1
    }
}

/// The call that the caller is in, and where it was called.
fn call_and_place(is_fiber: bool) -> (String, String) {
    let (entry, site) = entry_and_site();
    let rust = RustCall::of_caller();
    let named = move || {
        if let Some(call) = rust {
            return call.name_and_place();
        }
        let place = site.map_or_else(String::new, |site| site.describe());
        let call = entry.and_then(|entry| entry.name());
        (call.unwrap_or_default(), place)
    };
    if !is_fiber {
        return named();
    }
    // Reading debug information takes more stack than a fiber may have.
    let (tell, told) = channel();
    let thread = spawn_without_signals(PLACES, move || _ = tell.send(named()));
    let found = thread.is_ok().then(|| told.recv().ok()).flatten();
    found.unwrap_or_default()
}

/// By what a sender knows a message that it waits to be answered.
fn name_of(request: RequestId) -> u64 {
    match request {
        RequestId::NONE => 0,
        id => (u64::from(id.index()) << 32 | u64::from(id.generation())) + 1,
    }
}

impl Engine {
    /// All that wait have looked: what they wait for, and who hears it. `alone`: no other thread of the program has ever called.
    pub(super) fn rank_waits(&mut self, alone: bool) -> Option<(RankWaits, WaitsListener)> {
        let listener = Arc::clone(self.core.inquiry.settings.listener.as_ref()?);
        let waits = self.core.inquiry.found.take()?;
        let others = match self.core.inquiry.settings.one_thread_calls && alone {
            // The others may do what they like, but not call.
            true => OtherThreads::default(),
            false => OtherThreads::without(
                &self.core.inquiry.looked,
                self.core.inquiry.settings.threads.as_ref(),
            ),
        };
        Some((self.told(waits, &others), listener))
    }

    /// What is told of this engine, in which these wait.
    fn told(&self, mut waits: Vec<Wait>, others: &OtherThreads) -> RankWaits {
        let fibers = self.parked.len() - self.parked.threads();
        let more = (waits.len() + fibers).saturating_sub(MOST);
        waits.extend(self.waits_of_fibers(MOST.saturating_sub(waits.len())));
        waits.truncate(MOST);
        let is_outside = |operation: &Operation| matches!(operation, Operation::Outside(_));
        let awaits_outside = waits
            .iter()
            .any(|wait| wait.operations.iter().any(is_outside));
        let traffic = self.fabric.traffic();
        let queued = self.outbox.len()
            + self.core.pulls.len()
            + self.core.runs.unsent()
            + usize::from(!traffic.is_at_rest);
        let mut told = RankWaits {
            inquiry: self.core.inquiry.number,
            activity: self.activity().wrapping_add(others.activity),
            other_threads: others.awake,
            awaits_outside,
            under_way: u32::try_from(queued).unwrap_or(u32::MAX),
            links: traffic.links.into_iter().map(Into::into).collect(),
            waits,
            more_waits: u32::try_from(more).unwrap_or(u32::MAX),
            ..RankWaits::default()
        };
        self.tell_unreceived(&mut told);
        told
    }

    /// Grows whenever a thread begins to wait here, or to sleep, or somebody else moves something.
    fn activity(&self) -> u64 {
        let counters = &self.core.counters;
        let waits = counters.waits.get() + counters.sleeps.get() + counters.waits_parked.get();
        waits + self.core.inquiry.helped
    }

    fn tell_unreceived(&self, told: &mut RankWaits) {
        let all = || {
            let unexpected = self.core.matching.unexpected();
            unexpected.filter_map(|(key, id)| Some((key, self.core.unexpected.get(id)?)))
        };
        // Those that somebody waits for come first: there may be many others.
        let awaited = all().filter(|(_, message)| message.envelope.request != RequestId::NONE);
        let others = all().filter(|(_, message)| message.envelope.request == RequestId::NONE);
        for (key, message) in awaited.chain(others) {
            if told.unreceived.len() >= MOST {
                told.more_unreceived += 1;
                continue;
            }
            told.unreceived.push(Unreceived {
                from: message.from.0,
                tag: key.tag.0,
                context: key.context.0,
                bytes: message.envelope.size,
                request: name_of(message.envelope.request),
            });
        }
    }

    /// What fibers wait for that are parked, at most so many.
    fn waits_of_fibers(&self, most: usize) -> impl Iterator<Item = Wait> {
        let is_full = Inquiry::is_full(self.core.inquiry.number);
        let mut awaited: HashMap<(u32, u32), Vec<RequestId>> = HashMap::new();
        let live = self.core.requests.live();
        for (id, slot) in live.filter(|(_, slot)| is_full && slot.has_on_complete()) {
            if let Some(Waiter::Fiber(fiber)) = slot.on_complete().waiter {
                let name = (fiber.number(), fiber.incarnation());
                awaited.entry(name).or_default().push(id);
            }
        }
        self.parked.fibers(most).map(move |fiber| {
            let ids = awaited.remove(&(fiber.number(), fiber.incarnation()));
            let ids = ids.unwrap_or_default();
            let mut wait = Wait {
                is_fiber: true,
                any: ids.len() > 1,
                ..Wait::default()
            };
            for id in ids {
                self.operations_of(id, &mut wait.operations);
            }
            wait
        })
    }

    /// What tasks of an executor await.
    fn awaited_by_tasks(&self) -> Vec<Operation> {
        let mut awaited = Vec::new();
        let live = self.core.requests.live();
        let by_tasks = live.filter(|(_, slot)| {
            slot.has_on_complete() && matches!(slot.on_complete().waiter, Some(Waiter::Task(_)))
        });
        for (id, _) in by_tasks.take(MOST) {
            self.operations_of(id, &mut awaited);
        }
        if awaited.is_empty() {
            // Requests of another engine of this rank.
            awaited.push(Operation::Other("futures".to_owned()));
        }
        awaited
    }

    /// What must happen for a request to end.
    fn operations_of(&self, id: RequestId, into: &mut Vec<Operation>) {
        let Some(slot) = self.core.requests.get(id) else {
            return;
        };
        if slot.phase() != Phase::Active || into.len() >= MOST {
            return;
        }
        let context = slot.context();
        match slot.work() {
            Work::Send(sending) => into.push(Operation::Receive {
                by: sending.to().0,
                context,
                request: name_of(id),
                is_queued: sending.is_queued(),
            }),
            Work::Receive(_) => into.push(match slot.posted() {
                Some(_) => self.posted_receive(id, slot.room()),
                None => Operation::Data {
                    from: slot.pieces_from().or(slot.expected_source()).map(number),
                    context,
                },
            }),
            Work::Schedule => into.push(self.collective_of(id, context)),
            Work::Nothing => self.parts_of((id, context), into),
        }
    }

    fn posted_receive(&self, id: RequestId, room: Option<usize>) -> Operation {
        let mut posted = self.core.matching.posted();
        let pattern = posted.find(|(_, request)| *request == id);
        let room = room.map(|room| room as u64);
        match pattern {
            Some((pattern, _)) => Operation::Message {
                from: match pattern.source {
                    SourcePattern::Any => None,
                    SourcePattern::Exact(source) => Some(source.0),
                },
                tag: match pattern.tag {
                    TagPattern::Any => None,
                    TagPattern::Exact(tag) => Some(tag.0),
                },
                context: pattern.context.0,
                room,
            },
            None => Operation::Other("a message".to_owned()),
        }
    }

    /// A collective that is done by messages: whom it waits for at this step.
    fn collective_of(&self, id: RequestId, context: u32) -> Operation {
        let runs = &self.core.runs;
        let Some((run, found)) = runs.of_request(id) else {
            return self.outstanding_of(id, context);
        };
        let mut missing: Vec<u32> = found.awaited().map(number).collect();
        for (_, slot) in self.core.requests.live() {
            if slot.is_active() && slot.has_on_complete() && slot.on_complete().run == Some(run) {
                let peer = slot.sending().map(|sending| sending.to());
                missing.extend(peer.or(slot.expected_source()).map(number));
            }
        }
        missing.sort_unstable();
        missing.dedup();
        missing.truncate(MOST);
        Operation::Collective {
            name: found.name().to_owned(),
            context,
            missing,
        }
    }

    /// A collective that is outstanding on a board, or waits for that.
    fn outstanding_of(&self, id: RequestId, context: u32) -> Operation {
        let Some((name, missing, making)) = self.core.boards.outstanding.awaited_of(id) else {
            return Operation::Other("a collective".to_owned());
        };
        let missing = match making.map(|making| self.collective_of(making, context)) {
            Some(Operation::Collective { missing, .. }) => missing,
            _ => missing.into_iter().map(number).take(MOST).collect(),
        };
        Operation::Collective {
            name: name.to_owned(),
            context,
            missing,
        }
    }

    /// What a request waits for that others carry out: both halves of an exchange, a persistent operation, an agreement.
    fn parts_of(&self, (id, context): (RequestId, u32), into: &mut Vec<Operation>) {
        let before = into.len();
        for (part, slot) in self.core.requests.live() {
            if slot.has_on_complete() && slot.on_complete().follower == Some(id) {
                self.operations_of(part, into);
            }
        }
        // Every persistent operation has parts but a partitioned one, whose partitions only a thread of this rank or its peer makes
        // ready.
        let slot = self.core.requests.get(id);
        if into.len() == before && slot.is_some_and(super::request::Request::is_persistent) {
            into.push(Operation::Other(PARTITIONS.to_owned()));
        } else if into.len() == before
            && let Some(agreement) = self.awaited_of_agreement(id)
        {
            let mut missing: Vec<u32> = agreement.missing.into_iter().map(number).collect();
            missing.truncate(MOST);
            into.push(Operation::Collective {
                name: agreement.name.to_owned(),
                context,
                missing,
            });
        } else if into.len() == before {
            into.push(Operation::Outside(
                "what the program completes itself".to_owned(),
            ));
        }
    }
}

impl Guard<'_> {
    /// What the caller waits for.
    pub(super) fn wait_of(
        &mut self,
        what: WaitFor<'_>,
        number: u32,
        since: Instant,
        is_fiber: bool,
    ) -> Wait {
        let is_full = Inquiry::is_full(number);
        let site = is_full.then(|| match what {
            // The thread is none of the program's.
            WaitFor::Futures => ("await".to_owned(), String::new()),
            _ => call_and_place(is_fiber),
        });
        let (call, place) = site.unwrap_or_default();
        let (any, mut operations) = match what {
            WaitFor::Requests(ids) => {
                let mut operations = Vec::new();
                for id in ids {
                    self.operations_of(*id, &mut operations);
                }
                (ids.len() > 1, operations)
            }
            WaitFor::Apart(ids) => (true, self.operations_apart(ids)),
            WaitFor::Probe(probe) => (false, vec![probe.awaited()]),
            WaitFor::Board(id) => (false, self.core.boards.awaited_of(id).into_iter().collect()),
            WaitFor::Window(context, awaited) => {
                (false, vec![self.core.one_sided.awaited(context, awaited)])
            }
            WaitFor::Active(context) => {
                let mut operations = Vec::new();
                for (id, slot) in self.core.requests.live() {
                    if slot.is_active() && slot.context() & !1 == context & !1 {
                        self.operations_of(id, &mut operations);
                    }
                }
                (false, operations)
            }
            WaitFor::Leaving => (false, vec![Operation::Leaving]),
            WaitFor::Buffered => (
                false,
                vec![Operation::Other(
                    "receives of the messages that it has buffered".to_owned(),
                )],
            ),
            WaitFor::Guest(_, awaited) => (false, vec![awaited(self.guest_and_fabric().0)]),
            WaitFor::Futures => (true, self.awaited_by_tasks()),
            WaitFor::Outside(what) => (false, vec![Operation::Outside(what.to_owned())]),
        };
        operations.truncate(MOST);
        Wait {
            call,
            place,
            since: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
            is_fiber,
            any,
            operations,
        }
    }

    /// What must happen for any of these requests to end, each asked for in its engine, while this one is let go of.
    ///
    /// Who ends one of them calls the one that waits here. Whoever that is has done so, or is awake, or has
    /// [helped](Inquiry::helped): none of it goes unseen.
    fn operations_apart(&mut self, ids: &[Option<RequestId>]) -> Vec<Operation> {
        let mut found = Vec::new();
        let Some(engines) = self.shared().engines().upgrade() else {
            return found;
        };
        self.released(|| {
            for id in ids.iter().flatten().take(MOST) {
                let mut engine = engines.of(*id).lock();
                engine.operations_of(*id, &mut found);
                engine.let_go_unheard();
            }
        });
        found
    }

    /// All that wait in this engine have looked. Tells what the rank waits for if all that wait in others have, too.
    ///
    /// An engine in which no thread waits is asked now: a thread that comes to wait there later counts among the threads that do not.
    pub(super) fn tell_waits_of_all(&mut self) {
        let number = self.core.inquiry.number;
        let (Some(engines), Some(listener), Some(waits)) = (
            self.shared().engines().upgrade(),
            self.core.inquiry.settings.listener.clone(),
            self.core.inquiry.found.take(),
        ) else {
            return;
        };
        let threads = self.core.inquiry.settings.threads.clone();
        let me = self.shared().channel() as usize;
        let looked = std::mem::take(&mut self.core.inquiry.looked);
        // The threads that wait nowhere are asked for when all have answered.
        let nobody = OtherThreads::default();
        let own = (self.told(waits, &nobody), looked);
        let open = || {
            engines
                .answers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        self.released(|| {
            open().give(number, me, own);
            let mut activity = 0;
            for engine in engines.all() {
                let channel = engine.channel() as usize;
                let mut engine = engine.lock();
                let is_waited_in = engine.is_driven() || engine.parked.len() > 0;
                activity += engine.activity();
                let quiet = (!is_waited_in).then(|| (engine.told(Vec::new(), &nobody), Vec::new()));
                engine.let_go_unheard();
                // Where somebody waits who has not answered, the last of those comes here.
                if !open().complete(number, channel, quiet) {
                    return;
                }
            }
            let given = open().take(number);
            if let Some(all) = given.and_then(|given| given.merged(activity, threads.as_ref())) {
                listener(all);
            }
        });
    }
}

impl Engine {
    /// What a call waits for that begins to, in short.
    #[cold]
    pub(super) fn awaits(&self, what: WaitFor<'_>) -> Awaits {
        match what {
            WaitFor::Requests(ids) => {
                let mut active = ids.iter().filter_map(|id| self.awaited_of(*id));
                active.next().unwrap_or(Awaits::Other)
            }
            WaitFor::Probe(probe) => match probe.awaited() {
                Operation::Message {
                    from: Some(from), ..
                } => Awaits::Message(from),
                Operation::Message { context, .. } => Awaits::Anybody(context),
                _ => Awaits::Other,
            },
            WaitFor::Board(_) => Awaits::Collective,
            WaitFor::Window(..) => Awaits::Window,
            _ => Awaits::Other,
        }
    }

    /// What a request waits for; `None` if it has ended.
    fn awaited_of(&self, id: RequestId) -> Option<Awaits> {
        let slot = self.core.requests.get(id)?;
        if slot.phase() != Phase::Active {
            return None;
        }
        match slot.work() {
            Work::Send(sending) => Some(Awaits::Receiver(sending.to().0)),
            Work::Receive(_) => Some(match slot.posted() {
                Some(_) => match slot.expected_source() {
                    Some(from) => Awaits::Message(from.0),
                    None => Awaits::Anybody(slot.context()),
                },
                None => Awaits::Data(slot.expected_source().map(number)),
            }),
            Work::Schedule => Some(Awaits::Collective),
            // Others carry it out: the halves of an exchange.
            Work::Nothing => self
                .core
                .requests
                .live()
                .filter(|(_, part)| {
                    part.has_on_complete() && part.on_complete().follower == Some(id)
                })
                .find_map(|(part, _)| self.awaited_of(part)),
        }
    }
}

fn number(peer: Peer) -> u32 {
    peer.0
}
