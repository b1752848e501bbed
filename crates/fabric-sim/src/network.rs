//! The simulated network: lanes, arrivals, transfers, deaths. Knows nothing of threads.
//!
//! ```text
//!   post:  clock += o;  departs = max(clock, injection);  injection = departs + max(g, bytes·G)
//!          arrives = departs + bytes·G + L + jitter + faults, after all that the lane carries already
//!   look:  what has arrived by the clock of the rank, o each; each gives a credit back
//! ```
//!
//! What is under way to a rank lies in its `inbox`, by time of arrival; ties of different senders are
//! broken by lot. Completions of its transfers and tidings of room lie there too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use weft_fabric::{FabricError, Head, Operation, Peer, Posted, Region, Result, SyncKey};

use crate::agenda::Agenda;
use crate::config::{Config, Fault};
use crate::grants::{Asked, Grants};
use crate::random::Random;
use crate::report::{Cause, Stuck, Trace, What};

/// What arrives at a rank.
#[derive(Debug)]
pub(crate) enum News {
    Message {
        from: Peer,
        head: Head,
        data: Vec<u8>,
    },
    Signal {
        from: Peer,
        key: SyncKey,
    },
    /// There is room for what was refused.
    Room,
    /// A transfer of the rank ends, if it still may.
    Arrived {
        operation: Operation,
        asked: Asked,
        lent: Region,
    },
    /// A transfer of the rank has failed.
    Failed {
        operation: Operation,
        error: FabricError,
    },
    Lost {
        peer: Peer,
    },
}

/// What a look hands out.
#[derive(Debug)]
pub(crate) enum Found {
    Message {
        from: Peer,
        head: Head,
        data: Vec<u8>,
    },
    Signal {
        from: Peer,
        key: SyncKey,
    },
    Room,
    Moved(Operation, Result<()>),
    Lost(Peer),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Holds the baton or wants it.
    Awake,
    /// On its bell, at most until then.
    Asleep { deadline: Option<u64> },
    /// Its endpoint is closed or its part has ended.
    Left,
    /// Died by a fault.
    Dead,
}

/// One rank, as the network sees it.
pub(crate) struct Rank {
    pub clock: u64,
    pub standing: Standing,
    /// When its present sleep, or looking in vain, began.
    pub since: u64,
    pub rung: bool,
    /// Looks in vain since it last found something or slept.
    pub vain: u32,
    pub death: Option<u64>,
    pub note: String,
    pub grants: Grants,
    /// Its endpoint is gone: nothing reaches it any more.
    pub closed: bool,
    inbox: BTreeMap<(u64, u64, u64), News>,
    /// Whom it knows to be lost.
    lost: BTreeSet<Peer>,
    /// When its next message may leave.
    injection: u64,
    /// Senders that its full lanes refused.
    refused: Vec<u32>,
}

#[derive(Default)]
struct Lane {
    under_way: u32,
    refused: bool,
    last: u64,
}

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
    lanes: HashMap<(u32, u32), Lane>,
    serial: u64,
    /// Looks in vain since anything happened to anybody, and the time that they took.
    pub vain: u64,
    pub idle: u64,
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn concerns(from: Option<Peer>, to: Option<Peer>, pair: (u32, u32)) -> bool {
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
        let ranks = (0..config.ranks)
            .map(|rank| Rank {
                clock: 0,
                standing: Standing::Awake,
                since: 0,
                rung: false,
                vain: 0,
                death: death_of(rank),
                note: String::new(),
                grants: Grants::default(),
                closed: false,
                inbox: BTreeMap::new(),
                lost: BTreeSet::new(),
                injection: 0,
                refused: Vec::new(),
            })
            .collect();
        Self {
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
        }
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
    fn deliver(&mut self, rank: u32, at: u64, news: News) {
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

    fn known(&self, peer: Peer) -> Result<u32> {
        if peer.0 < self.peers() {
            return Ok(peer.0);
        }
        Err(FabricError::NoSuchPeer {
            peer,
            peers: self.peers(),
        })
    }

    /// Whether `to` can be reached, as far as `me` knows: `Ok(false)` if it is dead and `me` does not
    /// know that yet.
    fn reach(&self, me: u32, to: Peer) -> Result<bool> {
        let lost = |reason: &str| FabricError::PeerLost {
            peer: to,
            reason: reason.into(),
        };
        let it = &self.ranks[self.known(to)? as usize];
        if self.over.is_some() {
            return Err(lost("the simulation is over"));
        }
        if self.ranks[me as usize].standing == Standing::Dead {
            return Err(lost("the caller itself has died (a simulated fault)"));
        }
        if it.standing == Standing::Dead {
            return if self.ranks[me as usize].lost.contains(&to) {
                Err(lost("it died (a simulated fault)"))
            } else {
                Ok(false)
            };
        }
        if it.closed {
            return Err(lost("it has left (its endpoint is closed)"));
        }
        Ok(true)
    }

    /// Refuses a post of `me`; if by lot, with the promise of room soon.
    fn refuse(&mut self, me: u32, to: Peer, by_lot: bool) -> Posted {
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
        if reaches {
            let lane = self.lanes.entry((me, to.0)).or_default();
            lane.under_way += 1;
            self.deliver(to.0, arrival, news);
        }
        Ok(Posted::Done)
    }

    /// What `length` bytes between these cost: time on the wire, and time until they are there.
    fn crossing(&mut self, pair: (u32, u32), length: usize) -> (u64, u64) {
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
        (length as u64 * cost.byte * factor / 1000, latency + jitter)
    }

    /// Puts a message on the wire now; answers when it arrives.
    fn carry(&mut self, from: u32, to: u32, length: usize) -> u64 {
        let (wire, latency) = self.crossing((from, to), length);
        let gap = nanoseconds(self.config.cost.gap);
        let it = self.rank(from);
        let departure = it.injection.max(it.clock);
        it.injection = departure + wire.max(gap);
        let lane = self.lanes.entry((from, to)).or_default();
        // First in, first out.
        lane.last = (departure + wire + latency).max(lane.last + 1);
        lane.last
    }

    /// When a transfer that its caller asks for now has ended: the bytes wait for the wire of whoever
    /// sends them; the request or the answer crosses the other way.
    fn bulk(&mut self, asked: &Asked) -> u64 {
        let (caller, owner) = (asked.caller.0, asked.owner.0);
        let now = self.rank(caller).clock;
        let (_, short) = self.crossing((caller, owner), 0);
        let (_, back) = self.crossing((owner, caller), 0);
        let from = if asked.writes { caller } else { owner };
        let to = caller + owner - from;
        let (wire, _) = self.crossing((from, to), asked.length);
        let ready = if asked.writes { now } else { now + short };
        let it = self.rank(from);
        let departure = it.injection.max(ready);
        it.injection = departure + wire;
        departure + wire + if asked.writes { short + back } else { back }
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
        self.known(to)?;
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

    /// A transfer of `asked.caller` between its `lent` memory and a grant.
    pub(crate) fn transfer(
        &mut self,
        asked: Asked,
        lent: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let (me, owner) = (asked.caller.0, asked.owner);
        let reaches = self.reach(me, owner)?;
        if self.random.happens(self.config.refuse) {
            return Ok(self.refuse(me, owner, true));
        }
        let cost = self.config.cost;
        self.rank(me).clock += nanoseconds(cost.overhead);
        if !reaches {
            // What became of it shows when the death does.
            let at = self.rank(me).clock + nanoseconds(self.config.detection);
            let error = dead(owner);
            self.deliver(me, at, News::Failed { operation, error });
            return Ok(Posted::Pending);
        }
        let begun = self.ranks[owner.index()].grants.begin(&asked);
        if begun.is_err() {
            self.note(me, What::Denied(owner));
        }
        let end = self.bulk(&asked);
        if self.random.happens(self.config.late) {
            let news = match begun {
                Ok(()) => News::Arrived {
                    operation,
                    asked,
                    lent,
                },
                Err(error) => News::Failed { operation, error },
            };
            self.deliver(me, end, news);
            return Ok(Posted::Pending);
        }
        begun?;
        self.rank(me).clock = end;
        self.copy(&asked, lent)?;
        Ok(Posted::Done)
    }

    /// Moves the bytes of a transfer that has begun.
    fn copy(&mut self, asked: &Asked, lent: Region) -> Result<()> {
        let owner = &mut self.ranks[asked.owner.index()];
        if owner.standing == Standing::Dead {
            return Err(dead(asked.owner));
        }
        let Some(window) = owner.grants.finish(asked) else {
            self.note(asked.caller.0, What::Denied(asked.owner));
            return Err(FabricError::NotGranted { peer: asked.owner });
        };
        if asked.writes {
            window.copy_from(&lent);
        } else {
            lent.copy_from(&window);
        }
        self.counts.transfers += 1;
        self.note(asked.caller.0, What::Moved(asked.owner, asked.length));
        Ok(())
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
            News::Arrived {
                operation,
                asked,
                lent,
            } => Found::Moved(operation, self.copy(&asked, lent)),
            News::Failed { operation, error } => Found::Moved(operation, Err(error)),
            News::Lost { peer } => {
                self.rank(me).lost.insert(peer);
                self.note(me, What::Lost(peer));
                Found::Lost(peer)
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
    fn tell_room(&mut self, me: u32, sender: u32) {
        let at = self.rank(me).clock + nanoseconds(self.config.cost.latency);
        self.deliver(sender, at, News::Room);
    }

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
            self.deliver(other, at.max(last + 1), News::Lost { peer: Peer(me) });
        }
    }
}

fn dead(peer: Peer) -> FabricError {
    FabricError::PeerLost {
        peer,
        reason: "it died (a simulated fault)".into(),
    }
}
