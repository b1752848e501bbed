//! Waits of calls, as reported by the engine: the cause, the peer, and how long of it the thread has slept.

use weft_launch::profile::layout::{Cause, EventKind, NOBODY};
use weft_mpi::wait_times::{Awaits, BegunWait, WaitListener};
use weft_sys::call_site::{CallSite, EntryPoint};

use super::CALLS;
use super::area::{self, Event};
use super::recorder::Recorder;
use super::thread_state;
use super::token::Token;

/// The cause and the peer of a wait.
fn cause_of(awaited: Awaits) -> (Cause, u32) {
    match awaited {
        Awaits::Message(from) => (Cause::LateSender, from),
        Awaits::Anybody(_) => (Cause::LateSender, NOBODY),
        Awaits::Receiver(by) => (Cause::LateReceiver, by),
        Awaits::Data(from) => (Cause::Transfer, from.unwrap_or(NOBODY)),
        Awaits::Collective => (Cause::Collective, NOBODY),
        Awaits::Window => (Cause::Window, NOBODY),
        Awaits::Other => (Cause::Other, NOBODY),
    }
}

/// A call that was left out has slept long: this is recorded all the same, once its place is found.
#[cold]
fn note_sleep(recorder: &Recorder, (slept, since): (u64, u64), awaited: Awaits) {
    // The sleep belongs to all fibers of the thread.
    if weft_fiber::is_fiber() {
        return;
    }
    let (Some(area), Some(back)) = (
        recorder.here(),
        CallSite::of_return().and_then(|site| site.address()),
    ) else {
        return;
    };
    let found = area.site_at(back).or_else(|| {
        let name = EntryPoint::of_caller()?.name()?;
        let call = CALLS.iter().position(|call| call.name == name)?;
        recorder.site(back as u64, call).map(|(_, site)| site)
    });
    let Some(site) = found else {
        return;
    };
    area.wait_left_out(site, slept);
    area.add_wait(site, cause_of(awaited), (slept, slept));
    if !recorder.timeline {
        return;
    }
    let (cause, peer) = cause_of(awaited);
    let ended = recorder.now();
    let wait = Event {
        kind: EventKind::Waited,
        site,
        track: area::track(area),
        begun: since,
        ended,
        peer,
        tag: cause as i32,
        context: 0,
        bytes: 0,
        mark: 0,
    };
    area.tell(&wait);
    area.tell(&Event {
        kind: EventKind::Call,
        tag: -1,
        ..wait
    });
}

impl WaitListener for Recorder {
    fn begun(&self) -> BegunWait {
        let (token, message) = thread_state::begin_wait(&self.slices);
        BegunWait {
            call: token.0 as usize,
            time: match token {
                // Only long sleeps of a call that is left out are recorded.
                Token::NONE => 0,
                _ => self.now(),
            },
            message,
        }
    }

    fn ended(&self, wait: BegunWait, awaited: Awaits) {
        let token = Token(wait.call as u64);
        let (slept, since) = thread_state::end_wait(token, wait.message);
        let Some(site) = token.site() else {
            if slept != 0 {
                note_sleep(self, (slept, since), awaited);
            }
            return;
        };
        let now = self.now();
        let ticks = now.saturating_sub(wait.time);
        let slept = slept.min(ticks);
        let area = self.area(token.area());
        let (cause, peer) = cause_of(awaited);
        area.wait(site, token.is_timed(), (ticks, slept));
        match awaited {
            // The call finds the sender when it ends.
            Awaits::Anybody(context) if !token.is_plain() => {
                thread_state::add_unknown(ticks, slept, context);
            }
            _ => area.add_wait(site, (cause, peer), (ticks, slept)),
        }
        if self.timeline
            && let Some(area) = self.here()
        {
            area.tell(&Event {
                kind: EventKind::Waited,
                site,
                track: area::track(area),
                begun: wait.time,
                ended: now,
                peer,
                tag: cause as i32,
                context: 0,
                bytes: 0,
                mark: 0,
            });
        }
    }

    fn now(&self) -> u64 {
        Recorder::now(self)
    }

    fn slept(&self, since: u64) {
        let is_told = thread_state::add_slept(since, self.now());
        if self.timeline
            && is_told
            && let Some(area) = self.here()
        {
            area.tell(&Event {
                kind: EventKind::Slept,
                site: 0,
                track: area::track(area),
                begun: since,
                ended: self.now(),
                peer: NOBODY,
                tag: -1,
                context: 0,
                bytes: 0,
                mark: 0,
            });
        }
    }
}
