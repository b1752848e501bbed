//! Ends: of a rank by its return, its death or its panic, and of the run.

use std::time::Duration;

use weft_fabric::Peer;

use super::{DIED, Machine};
use crate::config::nanoseconds;
use crate::inbox::Arrival;
use crate::report::{Cause, Failure, Report, Stuck, TraceEvent};

impl Machine {
    /// Whether the run is over before its end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// No rank can continue: reports a deadlock of all that take part, if any do.
    pub(super) fn end_in_deadlock(&mut self) {
        let taking_part = (0..self.peers()).zip(&self.ranks);
        let stuck: Vec<Stuck> = taking_part
            .filter(|(_, it)| it.takes_part())
            .map(|(rank, it)| it.stuck(rank))
            .collect();
        if !stuck.is_empty() {
            self.end(Cause::Deadlock(stuck));
        }
    }

    /// Ends the run. Nothing moves any more; all that take part run once more, to unwind.
    fn end(&mut self, cause: Cause) {
        if self.is_over() {
            return;
        }
        self.over = Some((cause, self.time()));
        for rank in 0..self.peers() {
            let it = self.rank(rank);
            it.stop();
            if it.takes_part() {
                it.resume(0);
                self.schedule(rank, 0);
            }
        }
    }

    /// The latest clock.
    fn time(&self) -> u64 {
        self.ranks.iter().map(|it| it.clock()).max().unwrap_or(0)
    }

    /// There is no thread for `rank` or the ranks after it.
    pub(crate) fn cannot_start(&mut self, rank: usize, error: &std::io::Error) {
        for it in &mut self.ranks[rank..] {
            it.leave();
            let _ = it.close();
        }
        self.end(Cause::NoThread {
            peer: Peer(u32::try_from(rank).unwrap_or(u32::MAX)),
            why: error.to_string(),
        });
    }

    /// Closes the endpoint of `me`: nothing reaches it, nothing moves by its grants.
    pub(crate) fn close(&mut self, me: u32) {
        if !self.rank(me).close() {
            return;
        }
        self.blocks.release_all_of(Peer(me));
        for sender in self.lanes.close(me) {
            self.tell_room(me, sender);
        }
    }

    /// `me` dies now: the others learn of it after everything that it sent before.
    fn die(&mut self, me: u32) {
        self.note(me, TraceEvent::Died);
        self.rank(me).die();
        self.close(me);
        let at = self.clock(me) + nanoseconds(self.config.detection);
        for other in (0..self.peers()).filter(|other| *other != me) {
            let last = self.lanes.last_arrival((me, other));
            let (peer, reason) = (Peer(me), DIED);
            self.deliver(other, at.max(last + 1), Arrival::Loss { peer, reason });
        }
    }

    /// Whether `me` has to end now: the run is over, or it is dead. It dies if its death is due.
    #[must_use]
    pub(crate) fn must_end(&mut self, me: u32) -> bool {
        if !self.is_over() && self.rank(me).dies() {
            self.die(me);
        }
        self.is_over() || self.rank(me).is_dead()
    }

    /// The part of `me` has ended; a panic ends the run.
    pub(crate) fn leave(&mut self, me: u32, panicked: Option<String>) {
        if !self.rank(me).is_dead() {
            self.note(me, TraceEvent::Left);
            self.rank(me).leave();
        }
        self.close(me);
        self.queue.cancel(me);
        if let Some(message) = panicked {
            let peer = Peer(me);
            self.end(Cause::Panicked { peer, message });
        }
    }

    /// The report, once all have ended.
    pub(crate) fn report<R>(&mut self, results: Vec<Option<R>>) -> Result<Report<R>, Failure> {
        let trace = self.trace.take();
        if let Some((cause, time)) = self.over.take() {
            return Err(Failure {
                cause,
                time: Duration::from_nanos(time),
                trace,
            });
        }
        Ok(Report {
            results,
            time: Duration::from_nanos(self.time()),
            messages: self.counts.messages,
            bytes: self.counts.bytes,
            signals: self.counts.signals,
            transfers: self.counts.transfers,
            refusals: self.counts.refusals,
            switches: self.counts.switches,
            hash: self.trace.hash(),
            trace,
        })
    }
}
