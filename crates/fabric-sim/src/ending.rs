//! Who goes on, and how ranks and the world come to an end.

use std::time::Duration;

use weft_fabric::Peer;

use crate::cut::DIED;
use crate::network::{Network, nanoseconds};
use crate::rank::{News, Standing};
use crate::report::{Cause, Stuck, What};

impl Network {
    /// Whether this rank may still do something.
    pub(crate) fn takes_part(&self, rank: u32) -> bool {
        let standing = self.ranks[rank as usize].standing;
        !matches!(standing, Standing::Left | Standing::Dead)
    }

    /// Takes the baton for the earliest on the agenda. If there is none but some have not ended, they
    /// are in a deadlock: then the world is over, and all may run to unwind. `None`: all have ended.
    pub(crate) fn pick(&mut self) -> Option<u32> {
        let (time, rank) = match self.agenda.take() {
            Some(entry) => entry,
            None => {
                self.end_in_deadlock();
                self.agenda.take()?
            }
        };
        self.counts.turns += 1;
        let it = self.rank(rank);
        it.clock = it.clock.max(time);
        it.standing = Standing::Awake;
        Some(rank)
    }

    /// Nobody can go on: says so of all that take part, if any do.
    pub(crate) fn end_in_deadlock(&mut self) {
        let stuck: Vec<Stuck> = (0..self.peers())
            .filter(|rank| self.takes_part(*rank))
            .map(|rank| {
                let it = &self.ranks[rank as usize];
                Stuck {
                    peer: Peer(rank),
                    since: Duration::from_nanos(it.since),
                    asleep: matches!(it.standing, Standing::Asleep { .. }),
                    note: it.note.clone(),
                }
            })
            .collect();
        if !stuck.is_empty() {
            self.end(Cause::Deadlock(stuck));
        }
    }

    /// The world is over. Nothing moves any more; all that take part get the baton once, to unwind.
    pub(crate) fn end(&mut self, cause: Cause) {
        if self.over.is_some() {
            return;
        }
        self.over = Some((cause, self.time()));
        for rank in 0..self.peers() {
            let it = self.rank(rank);
            it.inbox.clear();
            it.grants.end_all();
            if self.takes_part(rank) {
                self.rank(rank).standing = Standing::Awake;
                self.enter(rank, 0);
            }
        }
    }

    /// The latest clock.
    pub(crate) fn time(&self) -> u64 {
        self.ranks.iter().map(|it| it.clock).max().unwrap_or(0)
    }

    /// Closes the endpoint of `me`: nothing reaches it, nothing moves by its grants.
    pub(crate) fn close(&mut self, me: u32) {
        let it = self.rank(me);
        if std::mem::replace(&mut it.closed, true) {
            return;
        }
        it.grants.end_all();
        it.inbox.clear();
        for sender in std::mem::take(&mut it.refused) {
            self.lanes.entry((sender, me)).or_default().refused = false;
            self.tell_room(me, sender);
        }
    }

    /// `me` dies now: the others are told, after all that it sent before.
    pub(crate) fn die(&mut self, me: u32) {
        self.note(me, What::Died);
        self.rank(me).standing = Standing::Dead;
        self.close(me);
        let at = self.rank(me).clock + nanoseconds(self.config.detection);
        for other in (0..self.peers()).filter(|other| *other != me) {
            let last = self.lanes.get(&(me, other)).map_or(0, |lane| lane.last);
            let (peer, reason) = (Peer(me), DIED);
            self.deliver(other, at.max(last + 1), News::Lost { peer, reason });
        }
    }
}
