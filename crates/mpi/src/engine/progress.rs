//! Progress among threads: who drives, and waiting.
//!
//! Of the waiting threads and fibers of a rank, one *drives*: it holds the [engine](Guard), polls, and sleeps on the
//! fabric's bell when nothing comes. The others are *parked*. Completing a request wakes the waiter that waits for it; a
//! driver that has what it came for [calls](super::parked::Parked::call) others to take over.
//!
//! A waiter is a value, a [`Waiter`]: a thread, which parks, or a fiber, whose worker runs others meanwhile, or the task
//! of an asynchronous executor. A fiber that drives lets the others of its worker run after each poll. It is unknown when
//! they let it go on, so it *rests* meanwhile and does not drive: it calls waiters elsewhere, any of which may take over,
//! as may any newcomer; and it goes on when it is back, unless another drives. Waiters of its own worker need not take
//! over, as it runs whenever none of them does. Only when none of them can run does it spin, and then its worker sleeps
//! on the fabric's bell, which also ends when a fiber of the worker becomes runnable. A thread that drives releases the
//! engine and lets others run when it has woken a thread: there may be more threads than cores.
//!
//! A parked thread lets others run before it sleeps. The kernel lets them run in turn, so each time that it is back may
//! be the last one for a while: it polls then, as the driver does, which releases the engine and yields after each poll
//! while there are such threads. When all of them looked only at what the driver had brought, a message waited for the
//! turn of the driver and then for that of its receiver.
//!
//! The driver releases the lock whenever another thread asks for it, and while it sleeps.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use weft_fabric::among_threads::{self, Among, PollsAmongThreads};
use weft_fabric::waiting::{self, Step, Turn, Waiting};
use weft_fabric::{Guest, Peer, Subject};
use weft_fiber::{self as fiber, Waiter};
use weft_sys::error::keep_errno;

use super::Engine;
use super::boards::BoardId;
use super::events::EventKind;
use super::one_sided::AtWindow;
use super::probe::Probe;
use super::request::{Phase, Work};
use super::request_id::RequestId;
use super::shared::{Guard, Shared};
use super::waiters::Queue;
use crate::wait_times::{Awaits, BegunWait, WaitListener};
use crate::waits::Operation;

/// So often a driver looks before it looks once at engines that nobody drives. Before it sleeps it does so anyway.
const LOOKS_ALONE: u32 = 1024;

/// A wait that somebody times.
struct TimedWait {
    listener: &'static dyn WaitListener,
    awaited: Awaits,
    begun: BegunWait,
}

impl TimedWait {
    #[cold]
    fn end(self) {
        self.listener.ended(self.begun, self.awaited);
    }
}

/// What is waited for.
#[derive(Clone, Copy)]
pub(crate) enum WaitFor<'a> {
    /// These requests; any of them, if they are several.
    Requests(&'a [RequestId]),
    /// A message that this probe finds.
    Probe(&'a Probe),
    /// Members of a collective on this board.
    Board(BoardId),
    /// This at the window with this context.
    Window(u32, AtWindow<'a>),
    /// The end of all that is under way on the communicator with this context.
    Active(u32),
    /// That what was sent leaves, which it does by itself.
    Leaving,
    /// That receivers have taken what was buffered.
    Buffered,
    /// That this has changed at the guest, which says what it is.
    Guest(Subject, &'a dyn Fn(&mut dyn Guest) -> Operation),
    /// The end of all futures.
    Futures,
    /// Any of these requests, of several engines.
    Apart(&'a [Option<RequestId>]),
    /// What something else than other ranks brings.
    Outside(&'static str),
}

impl WaitFor<'_> {
    /// Where who waits for this is woken, unless it is requests.
    fn queue(self) -> Queue {
        match self {
            Self::Probe(probe) => probe.queue(),
            Self::Board(board) => Queue::Board(board),
            Self::Window(context, _) => Queue::Window(context),
            Self::Guest(subject, _) => Queue::Guest(subject),
            _ => Queue::Other,
        }
    }

    /// Whether it is something that a message of another rank brings.
    fn is_for_messages(self) -> bool {
        matches!(self, Self::Requests(_) | Self::Probe(_) | Self::Window(..))
    }
}

/// A look of a thread that waits while another one drives, and is awake: what it waits for may be there. A driver that sleeps hears of
/// it by its bell. False if it may not look: another one does.
fn look_in_passing(shared: &Shared) -> bool {
    let Some(mut guard) = shared.try_lock() else {
        return false;
    };
    if guard.driver_sleeps {
        return false;
    }
    let moved = guard.progress();
    guard.core.inquiry.helped(moved);
    true
}

impl<'a> Guard<'a> {
    /// One look for calls that do not wait, unless another thread looks all the time.
    pub(crate) fn look(&mut self) {
        if !self.driven {
            self.progress();
        }
    }

    /// Other members have told of processes that were started later: what is known of those that had their numbers before is forgotten
    /// first, whoever else looks meanwhile.
    pub(crate) fn hear_of_members(&mut self) {
        self.progress();
        while self.fabric.has_unreported_members() {
            self.progress();
        }
        if self.driven {
            // What the driver sleeps for may have come with that.
            self.shared().bell().ring();
        }
    }

    /// One look for a call that asks whether something has come, and may be called until it has: what it asks for
    /// may come from a process that needs this core.
    ///
    /// It may also come by another thread of this rank, which waits, or polls as well, and needs this core. So a call that finds one
    /// driving counts as one that found nothing.
    pub(crate) fn ask(&mut self) {
        if !self.driven && self.progress() {
            self.asking.found();
            return;
        }
        let bell = &**self.shared().bell();
        let has_threads = !self.is_used_by_owner_alone();
        self.asking.set_threads(has_threads);
        if self.asking.found_nothing(bell) {
            if self.neighbours.any {
                self.help_others();
            }
            self.released(|| waiting::give_way(bell, has_threads));
            self.look();
        }
    }

    /// One look on behalf of a rank that makes no call; true if anything moved.
    pub(crate) fn help(&mut self) -> bool {
        let moved = !self.driven && self.progress();
        self.core.inquiry.helped(moved);
        moved
    }

    /// Makes progress until `ready` has an answer. Looks first, so what is there already costs no wait.
    #[inline]
    pub(crate) fn wait_for<T>(
        &mut self,
        what: WaitFor<'_>,
        mut ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> T {
        if let Some(answer) = ready(self) {
            return answer;
        }
        let is_fiber = fiber::is_fiber();
        if self.core.boards.outstanding.are_busy()
            && let WaitFor::Requests(_) = what
            && !self.driven
            && self.end_outstanding_soon(!is_fiber)
            && let Some(answer) = ready(self)
        {
            return answer;
        }
        let timed = self.begin_timed_wait(what);
        let mut wait = || {
            loop {
                if self.core.callbacks.is_pending() {
                    self.run_callbacks();
                    if let Some(answer) = ready(self) {
                        return answer;
                    }
                }
                // Each of the two gives up to the other.
                let answer = if self.may_drive(is_fiber) {
                    self.drive(what, is_fiber, &mut ready)
                } else {
                    self.wait_parked(what, &mut ready)
                };
                if let Some(answer) = answer {
                    return answer;
                }
            }
        };
        let answer = if is_fiber {
            // Other fibers run on this thread meanwhile.
            let answer = keep_errno(wait);
            if self.neighbours.any {
                self.call_in_others();
            }
            answer
        } else {
            wait()
        };
        if let Some(timed) = timed {
            timed.end();
        }
        answer
    }

    /// Tells whoever times waits that one begins.
    #[inline]
    fn begin_timed_wait(&self, what: WaitFor<'_>) -> Option<TimedWait> {
        let listener = self.core.wait_listener?;
        Some(TimedWait {
            listener,
            awaited: self.awaits(what),
            begun: listener.begun(),
        })
    }

    /// Whether it is for the caller to drive.
    #[inline]
    fn may_drive(&self, is_fiber: bool) -> bool {
        if self.driven {
            return false;
        }
        let one_rests_here =
            is_fiber && self.parked.any_rests() && self.parked.rests_at(Waiter::current().worker());
        !one_rests_here
    }

    /// Drives progress until `ready` has an answer; `None` if another has taken over, or if the program's own
    /// code has something to do, which may itself wait for what another one drives.
    #[inline]
    fn drive<T>(
        &mut self,
        what: WaitFor<'_>,
        is_fiber: bool,
        ready: &mut impl FnMut(&mut Engine) -> Option<T>,
    ) -> Option<T> {
        self.begin_to_drive();
        self.core.counters.waits.add(1);
        let mut waiting = Waiting::new();
        let mut looks: u32 = 0;
        let mut among = PollsAmongThreads::default();
        let has_threads = !is_fiber && !self.is_used_by_owner_alone();
        if what.is_for_messages() && !is_fiber && !has_threads {
            self.take_turn();
        }
        loop {
            looks = looks.wrapping_add(1);
            if self.neighbours.any && (is_fiber || looks.is_multiple_of(LOOKS_ALONE)) {
                self.help_others();
                // Others had this one meanwhile.
                if let Some(answer) = ready(self) {
                    self.hand_over_progress();
                    return Some(answer);
                }
            }
            let moved = self.progress();
            if self.core.callbacks.is_pending() {
                let answer = ready(self);
                self.hand_over_progress();
                return answer;
            }
            if moved {
                waiting.found();
                if let Some(answer) = ready(self) {
                    self.hand_over_progress();
                    return Some(answer);
                }
            }
            let woken = self.core.waiters.take_thread_woken() && !is_fiber;
            if woken {
                waiting.found();
            } else if moved {
                among.found();
            }
            // Other threads of this rank are awake and look as well: they may need this core, and the engine.
            if woken || !moved && !is_fiber && self.shared().does_anybody_give_way() {
                // Unless its own peer answers just now.
                if among.keeps_core(|| self.among_threads(what).most_looks()) {
                    continue;
                }
                self.released(thread::yield_now);
                if let Some(answer) = ready(self) {
                    self.hand_over_progress();
                    return Some(answer);
                }
                continue;
            }
            if has_threads && !moved && among.lets_others_begin() {
                let bell = Arc::clone(self.shared().bell());
                self.released(|| among_threads::let_others_begin(&*bell));
                if let Some(answer) = ready(self) {
                    self.hand_over_progress();
                    return Some(answer);
                }
                continue;
            }
            if is_fiber && fiber::others_runnable() {
                waiting.found();
                self.rest();
                if let Some(answer) = ready(self) {
                    self.hand_over_unless_driven();
                    return Some(answer);
                }
                if self.driven {
                    return None;
                }
                self.begin_to_drive();
                continue;
            }
            if !moved && waiting.step(&**self.shared().bell()) == Step::Sleep {
                if let Some(answer) = self.sleep(what, is_fiber, ready) {
                    self.hand_over_progress();
                    return Some(answer);
                }
                waiting.found();
            }
            if self.is_contended() {
                self.hand_over_lock();
                if let Some(answer) = ready(self) {
                    self.hand_over_progress();
                    return Some(answer);
                }
            }
        }
    }

    /// In a crowd, who waits has looked already, in vain: others have the core before the next look, and what is waited for is mostly
    /// there then.
    #[inline]
    fn take_turn(&mut self) {
        if !waiting::is_core_wanted() {
            return self.turns.left_to_waiting();
        }
        let bell = &**self.shared().bell();
        if self.turns.take(bell, true) == Turn::Wait {
            self.turns.left_to_waiting();
        }
    }

    #[inline]
    fn begin_to_drive(&mut self) {
        self.set_drives(true);
        if self.neighbours.is_kept() {
            self.dismiss_keeper();
        }
    }

    /// Lets the other fibers of the worker run. The driver, a fiber, is none after this.
    fn rest(&mut self) {
        self.set_drives(false);
        let worker = Waiter::current().worker();
        self.parked.call(worker);
        let Some(worker) = worker else {
            return;
        };
        self.parked.rest(worker);
        let others = self.neighbours.any;
        if others {
            self.rest_in_others(worker, true);
        }
        self.released(fiber::yield_in_place);
        if others {
            self.rest_in_others(worker, false);
        }
        self.parked.end_rest(worker);
    }

    /// Sleeps on the bell, unless something has come after all. An inquiry is answered without leaving this.
    #[cold]
    fn sleep<T>(
        &mut self,
        what: WaitFor<'_>,
        is_fiber: bool,
        ready: &mut impl FnMut(&mut Engine) -> Option<T>,
    ) -> Option<T> {
        self.core.counters.sleeps.add(1);
        let since = Instant::now();
        let shared = self.shared();
        let bell = Arc::clone(shared.bell());
        loop {
            self.stand_aside_of_boards();
            self.core.boards.fall_asleep();
            let ticket = bell.prepare();
            // Before the look: what had been sent when this was asked is found, or is not there. Behind the announcement: who asks from
            // now on ends the sleep.
            let inquiry = bell.inquiry();
            let limit = self.end_mismatched_collectives();
            let care = self.look_after_others();
            let limit = care.limit.into_iter().chain(limit).min();
            if care.moved {
                bell.cancel(ticket);
                self.released(|| Self::keep_no_more(shared, care.kept));
                return ready(self);
            }
            let keep_no_more = |guard: &mut Self| {
                if care.kept != 0 {
                    guard.released(|| Self::keep_no_more(shared, care.kept));
                }
            };
            if self.progress() || self.core.callbacks.is_pending() {
                bell.cancel(ticket);
                keep_no_more(self);
                return ready(self);
            }
            if self.is_contended() {
                // One that was woken to answer an inquiry, too, and it is the same sleep before and after that: or no two answers
                // would be alike.
                bell.cancel(ticket);
                keep_no_more(self);
                self.hand_over_lock();
                if let Some(answer) = ready(self) {
                    return Some(answer);
                }
                continue;
            }
            if let Some(answer) = ready(self) {
                bell.cancel(ticket);
                keep_no_more(self);
                return Some(answer);
            }
            // The looks may have made a fiber of this worker runnable, which goes on when this one sleeps.
            if is_fiber && fiber::others_runnable() {
                bell.cancel(ticket);
                keep_no_more(self);
                return ready(self);
            }
            if self.core.inquiry.is_new(inquiry) {
                bell.cancel(ticket);
                keep_errno(|| {
                    let wait = self.wait_of(what, inquiry, since, is_fiber);
                    self.core.inquiry.begin(inquiry);
                    self.core.inquiry.add(wait);
                    self.parked.wake_threads();
                    self.tell_waits_if_all_looked();
                });
                keep_no_more(self);
                continue;
            }
            let ring = Arc::clone(shared.ring());
            let listener = self.core.wait_listener;
            let fell_asleep = listener.map(WaitListener::now);
            let slept = Instant::now();
            self.driver_sleeps = true;
            self.released(|| {
                if !fiber::sleep_elsewhere(&ring, || bell.wait(ticket, limit)) {
                    bell.cancel(ticket);
                }
                Self::keep_no_more(shared, care.kept);
            });
            self.driver_sleeps = false;
            let slept = slept.elapsed().as_nanos() as u64;
            self.core.counters.slept.add(slept);
            if let (Some(listener), Some(since)) = (listener, fell_asleep) {
                listener.slept(since);
            }
            self.core.raise(EventKind::Slept, None, (-1, 0), slept);
            if !self.core.inquiry.is_new(bell.inquiry()) {
                let moved = self.progress();
                let answer = ready(self);
                // It has looked at the others again, and goes on to sleep.
                if answer.is_some() || moved || care.limit.is_none() {
                    return answer;
                }
            }
        }
    }

    /// Tells what this rank waits for, if all its threads that wait have looked since that was asked.
    fn tell_waits_if_all_looked(&mut self) {
        // The driver, and the parked ones.
        let alone = self.is_used_by_owner_alone();
        if self.core.inquiry.looked() != 1 + self.parked.threads() {
            return;
        }
        if self.neighbours.any {
            self.tell_waits_of_all();
        } else if let Some((waits, listener)) = self.rank_waits(alone) {
            self.released(|| listener(waits));
        }
    }

    /// A thread that does not drive has its result; it may be the one that was called.
    fn hand_over_unless_driven(&mut self) {
        if !self.driven {
            self.hand_over_progress();
        }
    }

    /// Waits while another drives; `None` when nobody does.
    #[cold]
    fn wait_parked<T>(
        &mut self,
        what: WaitFor<'_>,
        ready: &mut impl FnMut(&mut Engine) -> Option<T>,
    ) -> Option<T> {
        let me = Waiter::current();
        let is_fiber = !me.is_thread();
        let begun = Instant::now();
        let mut answered = self.core.inquiry.number();
        loop {
            if let Some(answer) = ready(self) {
                self.hand_over_unless_driven();
                return Some(answer);
            }
            if self.may_drive(is_fiber) {
                return None;
            }
            self.register(what, &me);
            let index = self.parked.push(me.clone());
            // One that looks because it is asked goes on with the same wait.
            let inquiry = self.core.inquiry.number();
            if !is_fiber && inquiry != answered && self.core.inquiry.is_under_way(inquiry) {
                keep_errno(|| {
                    let wait = self.wait_of(what, inquiry, begun, false);
                    // Another one has begun meanwhile, if others had the engine.
                    if self.core.inquiry.is_under_way(inquiry) {
                        self.core.inquiry.add(wait);
                        self.tell_waits_if_all_looked();
                    }
                });
            } else {
                self.core.counters.waits_parked.add(1);
            }
            answered = inquiry;
            let listener = self.core.wait_listener.filter(|_| !is_fiber);
            let fell_asleep = listener.map(WaitListener::now);
            let since = Instant::now();
            let shared = self.shared();
            let among = self.among_threads(what);
            self.released(|| {
                if !is_fiber {
                    let looks = among.most_looks();
                    shared.give_way(|| {
                        fiber::give_way_before_park(looks, || look_in_passing(shared));
                    });
                }
                fiber::park_at_once();
            });
            let parked = since.elapsed().as_nanos() as u64;
            self.core.counters.parked.add(parked);
            if let (Some(listener), Some(since)) = (listener, fell_asleep) {
                listener.slept(since);
            }
            self.parked.remove(index);
            if !matches!(what, WaitFor::Requests(_)) {
                self.core.waiters.end_wait(what.queue(), &me);
            }
        }
    }

    /// What decides how long the caller, a thread that waits for this, keeps its core.
    fn among_threads(&self, what: WaitFor<'_>) -> Among<'a> {
        Among {
            bell: &**self.shared().bell(),
            me: self.fabric.me(),
            awaited: self.awaited_peer(what),
            threads: self.parked.len(),
        }
    }

    /// The one member that has to do something first, if that is known.
    fn awaited_peer(&self, what: WaitFor<'_>) -> Option<Peer> {
        let WaitFor::Requests(ids) = what else {
            return None;
        };
        let mut slots = ids.iter().filter_map(|id| self.core.requests.get(*id));
        let slot = slots.find(|slot| slot.phase() == Phase::Active)?;
        match slot.work() {
            Work::Send(sending) => Some(sending.to()),
            Work::Receive(_) => slot.expected_source(),
            _ => None,
        }
    }

    fn register(&mut self, what: WaitFor<'_>, me: &Waiter) {
        match what {
            WaitFor::Requests(ids) => {
                for &id in ids {
                    self.await_end(id, me.clone());
                }
            }
            _ => self.core.waiters.begin_wait(what.queue(), me.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::{Fabric, Peer, Sink, forward_fabric};
    use weft_fabric_local::Local;

    use crate::p2p::{SendMode, Target};
    use crate::{Buffer, Process, buffer};

    #[test]
    fn an_awake_waiter_looks_unless_the_driver_sleeps() {
        let ranks: Vec<_> = Local::group(2)
            .into_iter()
            .map(|endpoint| Process::new(Box::new(endpoint)))
            .collect();
        let (here, there) = (ranks[0].world(), ranks[1].world());
        let mut sent = [7; 8];
        there
            .send(
                SendMode::Standard,
                Buffer::untyped(buffer::region_of(&mut sent)),
                Target::Rank(0),
                0,
            )
            .expect("there is room");
        let shared = here.shared();
        for (sleeps, come) in [(true, 0), (false, 1)] {
            let mut guard = shared.lock();
            (guard.driven, guard.driver_sleeps) = (true, sleeps);
            drop(guard);
            assert_eq!(super::look_in_passing(shared), !sleeps);
            let guard = shared.lock();
            assert_eq!(
                guard.core.matching.unexpected_len(),
                come,
                "sleeps: {sleeps}"
            );
        }
        shared.lock().driven = false;
    }

    /// Member 1 is lost, and another one has its number, of which a look tells only after it was asked for.
    struct Later {
        inner: Local,
        asked: bool,
        told: bool,
    }

    impl Fabric for Later {
        forward_fabric!(self => self.inner; me, peers, incarnation, limits, bell, now, route, try_send, inject, take_next, grant, offer,
            revoke, get, put, signal, signals, take_signals, forget, shares_memory, allocate_shared, release_shared,
            attach_shared, is_asleep, wake, is_any_beside, is_flushed, say_goodbye, traffic);

        fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
            if self.asked && !self.told {
                self.told = true;
                sink.replaced(Peer(1));
            }
            self.inner.poll(sink, budget)
        }

        fn has_unreported_members(&mut self) -> bool {
            self.asked = true;
            !self.told
        }
    }

    #[test]
    fn the_loss_of_one_before_is_none_of_a_member_that_others_tell_of() {
        for driven in [false, true] {
            let mut group = Local::group(2);
            let process = Process::new(Box::new(Later {
                inner: group.swap_remove(0),
                asked: false,
                told: false,
            }));
            let mut guard = process.lock();
            guard.lose(Peer(1), "killed");
            (guard.driven, guard.driver_sleeps) = (driven, driven);
            guard.progress();
            assert!(guard.core.lost.has(Peer(1)));
            drop(guard);
            process.hear_of_members();
            let mut guard = process.lock();
            assert!(!guard.core.lost.has(Peer(1)), "driven: {driven}");
            (guard.driven, guard.driver_sleeps) = (false, false);
        }
    }
}
