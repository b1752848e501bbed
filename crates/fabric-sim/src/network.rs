//! The simulated network: messages, from the sender's post to the receiver's look. Knows nothing of
//! threads.
//!
//! ```text
//!   post:  clock += o;  departs = max(clock, injection);  injection = departs + max(g, bytes·G)
//!          arrives = departs + bytes·G + L + jitter + faults, after all that the lane carries already
//!   look:  what has arrived by the clock of the rank, o each; each gives a credit back
//! ```
//!
//! What is under way to a rank lies in its `inbox`, by time of arrival; ties of different senders are
//! broken by lot. Completions of its transfers and tidings of room lie there too.

use std::collections::HashMap;
use std::time::Duration;

use weft_fabric::{FabricError, Head, Membership, Peer, Posted, Result, SyncKey};

use crate::agenda::Agenda;
use crate::config::{Config, Fault};
use crate::random::Random;
use crate::rank::{Found, Lane, News, Rank, Standing};
use crate::report::{Cause, Trace, What};

/// How much happened.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub messages: u64,
    pub bytes: u64,
    pub signals: u64,
    pub transfers: u64,
    pub refusals: u64,
    pub turns: u64,
}

/// All of the world but its threads.
pub(crate) struct Network {
    pub config: Config,
    pub ranks: Vec<Rank>,
    pub agenda: Agenda,
    pub random: Random,
    pub trace: Trace,
    pub counts: Counts,
    /// Why the world is over before its end: nothing moves any more, everybody unwinds.
    pub over: Option<(Cause, u64)>,
    /// By sender and receiver. Never iterated over: that would have no order.
    pub lanes: HashMap<(u32, u32), Lane>,
    serial: u64,
    /// Looks in vain since anything happened to anybody, and the time that they took.
    pub vain: u64,
    pub idle: u64,
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn concerns(from: Option<Peer>, to: Option<Peer>, pair: (u32, u32)) -> bool {
    from.is_none_or(|peer| peer.0 == pair.0) && to.is_none_or(|peer| peer.0 == pair.1)
}

impl Network {
    pub(crate) fn new(config: Config) -> Self {
        let death_of = |rank: usize| {
            let deaths = config.faults.iter().filter_map(|fault| match fault {
                Fault::Death { peer, at } if peer.index() == rank => Some(nanoseconds(*at)),
                _ => None,
            });
            deaths.min()
        };
        let last_deed_of = |rank: usize| {
            let deaths = config.faults.iter().filter_map(|fault| match fault {
                Fault::DeathAfter { peer, deeds } if peer.index() == rank => Some(*deeds),
                _ => None,
            });
            deaths.min()
        };
        let members = Membership::new(u32::try_from(config.ranks).unwrap_or(u32::MAX));
        let ranks = (0..config.ranks)
            .map(|rank| Rank::new(members.clone(), death_of(rank), last_deed_of(rank)))
            .collect();
        let mut network = Self {
            ranks,
            agenda: Agenda::new(config.ranks),
            random: Random::new(config.seed),
            trace: Trace::new(config.trace),
            counts: Counts::default(),
            over: None,
            lanes: HashMap::new(),
            serial: 0,
            vain: 0,
            idle: 0,
            config,
        };
        network.foretell();
        network
    }

    pub(crate) fn peers(&self) -> u32 {
        u32::try_from(self.ranks.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn rank(&mut self, rank: u32) -> &mut Rank {
        &mut self.ranks[rank as usize]
    }

    pub(crate) fn note(&mut self, rank: u32, what: What) {
        let clock = self.ranks[rank as usize].clock;
        self.trace.note(clock, rank, what);
        (self.vain, self.idle) = (0, 0);
    }

    /// Puts news under way to `rank`, and moves its entry in the agenda if it sleeps for longer.
    pub(crate) fn deliver(&mut self, rank: u32, at: u64, news: News) {
        if self.ranks[rank as usize].closed {
            return;
        }
        self.serial += 1;
        let key = (at, self.random.next(), self.serial);
        self.rank(rank).inbox.insert(key, news);
        self.reconsider(rank);
    }

    /// When the next news arrive at `rank`.
    pub(crate) fn next_arrival(&self, rank: u32) -> Option<u64> {
        let inbox = &self.ranks[rank as usize].inbox;
        inbox.first_key_value().map(|((at, ..), _)| *at)
    }

    /// Enters a sleeper in the agenda for when it wakes up, or strikes it out if nothing wakes it.
    pub(crate) fn reconsider(&mut self, rank: u32) {
        let arrival = self.next_arrival(rank);
        let it = &self.ranks[rank as usize];
        let Standing::Asleep { deadline } = it.standing else {
            return;
        };
        let ring = it.rung.then_some(it.clock);
        let wake = [arrival, deadline, it.death, ring];
        match wake.into_iter().flatten().min() {
            Some(time) => self.enter(rank, time),
            None => self.agenda.strike(rank),
        }
    }

    /// Enters `rank` in the agenda, not before its own clock.
    pub(crate) fn enter(&mut self, rank: u32, time: u64) {
        let time = time.max(self.ranks[rank as usize].clock);
        // An entry that stays where it is keeps its lot.
        if self.agenda.time_of(rank) != Some(time) {
            let lot = self.random.next();
            self.agenda.enter(rank, time, lot);
        }
    }

    /// Whether `to` can be reached, as far as `me` knows: `Ok(false)` if it is dead and `me` does not
    /// know that yet.
    pub(crate) fn reach(&self, me: u32, to: Peer) -> Result<bool> {
        let lost = |reason: &str| FabricError::PeerLost {
            peer: to,
            reason: reason.into(),
        };
        let caller = &self.ranks[me as usize];
        caller.members.exists(to)?;
        let it = &self.ranks[to.index()];
        if self.over.is_some() {
            return Err(lost("the simulation is over"));
        }
        if caller.standing == Standing::Dead {
            return Err(lost("the caller itself has died (a simulated fault)"));
        }
        caller.members.check(to)?;
        if it.standing == Standing::Dead {
            return Ok(false);
        }
        if it.closed {
            return Err(lost("it has left (its endpoint is closed)"));
        }
        Ok(true)
    }

    /// Refuses a post of `me`; if by lot, with the promise of room soon.
    pub(crate) fn refuse(&mut self, me: u32, to: Peer, by_lot: bool) -> Posted {
        self.counts.refusals += 1;
        self.note(me, What::Refused(to));
        if by_lot {
            let at = self.rank(me).clock + nanoseconds(self.config.cost.latency);
            self.deliver(me, at, News::Room);
        }
        Posted::Retry
    }

    /// A message, or a signal, of `length` bytes.
    fn post(&mut self, me: u32, to: Peer, length: usize, news: News) -> Result<Posted> {
        let reaches = self.reach(me, to)?;
        let lane = self.lanes.entry((me, to.0)).or_default();
        if lane.under_way >= self.config.credits.max(1) {
            if !std::mem::replace(&mut lane.refused, true) {
                self.rank(to.0).refused.push(me);
            }
            return Ok(self.refuse(me, to, false));
        }
        if self.random.happens(self.config.refuse) {
            return Ok(self.refuse(me, to, true));
        }
        let cost = self.config.cost;
        self.rank(me).clock += nanoseconds(cost.overhead);
        let arrival = self.carry(me, to.0, length);
        if reaches && let Some(arrival) = arrival {
            let lane = self.lanes.entry((me, to.0)).or_default();
            lane.under_way += 1;
            self.deliver(to.0, arrival, news);
        }
        Ok(Posted::Done)
    }

    /// What `length` bytes between these cost: time on the wire, and time until they are there.
    pub(crate) fn crossing(&mut self, pair: (u32, u32), length: u64) -> (u64, u64) {
        let cost = self.config.cost;
        if pair.0 == pair.1 {
            return (0, 0);
        }
        let (mut latency, mut factor) = (nanoseconds(cost.latency), 1);
        for fault in &self.config.faults {
            match *fault {
                Fault::Delay { from, to, extra } if concerns(from, to, pair) => {
                    latency += nanoseconds(extra);
                }
                Fault::Throttle {
                    from,
                    to,
                    factor: more,
                } if concerns(from, to, pair) => {
                    factor *= u64::from(more).max(1);
                }
                _ => {}
            }
        }
        let jitter = match latency * u64::from(self.config.jitter) / 100 {
            0 => 0,
            most => self.random.up_to(most),
        };
        (length * cost.byte * factor / 1000, latency + jitter)
    }

    /// Puts a message on the wire now; answers when it arrives, if it does.
    fn carry(&mut self, from: u32, to: u32, length: usize) -> Option<u64> {
        let (wire, latency) = self.crossing((from, to), length as u64);
        let gap = nanoseconds(self.config.cost.gap);
        let it = self.rank(from);
        let departure = it.injection.max(it.clock);
        it.injection = departure + wire.max(gap);
        let arrival = self.arrival((from, to), departure, wire + latency)?;
        let lane = self.lanes.entry((from, to)).or_default();
        // First in, first out.
        lane.last = arrival.max(lane.last + 1);
        Some(lane.last)
    }

    pub(crate) fn message(
        &mut self,
        me: u32,
        to: Peer,
        head: &Head,
        data: &[u8],
    ) -> Result<Posted> {
        let limit = self.config.limits.data;
        let length = data.len();
        self.rank(me).members.exists(to)?;
        if length > limit {
            return Err(FabricError::TooLong { length, limit });
        }
        let news = News::Message {
            from: Peer(me),
            head: *head,
            data: data.to_vec(),
        };
        let posted = self.post(me, to, length, news)?;
        if posted == Posted::Done {
            self.counts.messages += 1;
            self.counts.bytes += length as u64;
            self.note(me, What::Sent(to, length));
        }
        Ok(posted)
    }

    pub(crate) fn signal(&mut self, me: u32, to: Peer, key: SyncKey) -> Result<Posted> {
        let from = Peer(me);
        let posted = self.post(me, to, 0, News::Signal { from, key })?;
        if posted == Posted::Done {
            self.counts.signals += 1;
            self.note(me, What::Signalled(to, key));
        }
        Ok(posted)
    }

    /// Takes the next news of `me` that have arrived by its clock.
    pub(crate) fn take(&mut self, me: u32) -> Option<Found> {
        let clock = self.ranks[me as usize].clock;
        if self.over.is_some() || self.next_arrival(me)? > clock {
            return None;
        }
        let (_, news) = self.rank(me).inbox.pop_first()?;
        Some(match news {
            News::Message { from, head, data } => {
                self.received(me, from, What::Received(from, data.len()));
                Found::Message { from, head, data }
            }
            News::Signal { from, key } => {
                self.received(me, from, What::Heard(from, key));
                Found::Signal { from, key }
            }
            News::Room => {
                self.note(me, What::Room);
                Found::Room
            }
            News::Arrived(transfer) => {
                Found::TransferCompleted(transfer.operation, self.copy(&transfer))
            }
            News::Failed { operation, error } => Found::TransferCompleted(operation, Err(error)),
            News::Lost { peer, reason } => {
                if !self.rank(me).members.lose(peer, reason) {
                    // Out of reach, and dead as well.
                    return self.take(me);
                }
                self.note(me, What::Lost(peer));
                Found::Lost(peer, reason)
            }
        })
    }

    /// Pays for a message that was taken and gives its credit back.
    fn received(&mut self, me: u32, from: Peer, what: What) {
        let overhead = nanoseconds(self.config.cost.overhead);
        self.rank(me).clock += overhead;
        self.note(me, what);
        let lane = self.lanes.entry((from.0, me)).or_default();
        lane.under_way = lane.under_way.saturating_sub(1);
        if std::mem::take(&mut lane.refused) {
            self.rank(me).refused.retain(|sender| *sender != from.0);
            self.tell_room(me, from.0);
        }
    }

    /// Tells `sender` that `me` has room, by a message of the network.
    pub(crate) fn tell_room(&mut self, me: u32, sender: u32) {
        let (now, latency) = (self.rank(me).clock, nanoseconds(self.config.cost.latency));
        if let Some(at) = self.arrival((me, sender), now, latency) {
            self.deliver(sender, at, News::Room);
        }
    }
}
