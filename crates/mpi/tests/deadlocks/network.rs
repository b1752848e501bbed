//! Network between the hosts of a simulated job: what goes over it takes its time, and is counted as a fabric of a network
//! counts it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use weft_fabric::{
    Bell, Fabric, Head, LinkTraffic, Next, Operation, Peer, Posted, Region, Result, SharedBytes,
    Sink, SyncKey, Token, Traffic, forward_fabric,
};
use weft_fabric_sim::{Config, Fault, SimEndpoint};

/// Which host each rank is on.
#[derive(Clone)]
pub struct Hosts(Arc<Vec<u32>>);

impl Hosts {
    /// All of them on one.
    pub fn one(ranks: u32) -> Self {
        Self(Arc::new(vec![0; ranks as usize]))
    }

    /// On up to three, between which what is sent takes its time.
    pub fn several(ranks: u32, random: &mut StdRng, config: &mut Config) -> Self {
        let hosts: Vec<u32> = (0..ranks).map(|_| random.random_range(0..3)).collect();
        // Boards are for those who share memory.
        config.shares_memory = false;
        config.jitter = 100;
        for from in 0..ranks {
            for to in 0..ranks {
                if hosts[from as usize] == hosts[to as usize] {
                    continue;
                }
                let (from, to) = (Some(Peer(from)), Some(Peer(to)));
                let extra = Duration::from_nanos(random.random_range(0..40_000));
                config.faults.push(Fault::Delay { from, to, extra });
                if random.random_bool(0.2) {
                    config.faults.push(Fault::Partition {
                        from,
                        to,
                        at: Duration::from_nanos(random.random_range(0..100_000)),
                        length: Duration::from_nanos(random.random_range(0..1_000_000)),
                    });
                }
            }
        }
        Self(Arc::new(hosts))
    }

    fn are_apart(&self, one: Peer, other: Peer) -> bool {
        self.0.get(one.index()) != self.0.get(other.index())
    }
}

/// An endpoint that counts what goes between hosts.
pub struct Counted {
    inner: SimEndpoint,
    bell: Arc<dyn Bell>,
    hosts: Hosts,
    links: Links,
    /// Transfers under way.
    transfers: usize,
}

/// What an endpoint has counted: also when it has ended, as its last word.
#[derive(Clone)]
pub struct Links(Arc<Mutex<Vec<LinkTraffic>>>);

impl Links {
    fn get(&self) -> MutexGuard<'_, Vec<LinkTraffic>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that something went over.
    pub fn spoken(&self) -> Vec<LinkTraffic> {
        let links = self.get();
        let spoken = links.iter().filter(|link| link.sent + link.received > 0);
        spoken.copied().collect()
    }
}

impl Counted {
    pub fn new(inner: SimEndpoint, bell: Arc<dyn Bell>, hosts: &Hosts) -> Self {
        let link = |peer| LinkTraffic {
            peer: Peer(peer),
            sent: 0,
            received: 0,
            is_over: false,
        };
        Self {
            links: Links(Arc::new(Mutex::new((0..inner.peers()).map(link).collect()))),
            inner,
            bell,
            hosts: hosts.clone(),
            transfers: 0,
        }
    }

    pub fn links(&self) -> Links {
        self.links.clone()
    }

    fn note_sent(&mut self, to: Peer) {
        if self.hosts.are_apart(self.me(), to) {
            self.links.get()[to.index()].sent += 1;
        }
    }

    fn note_transfer(&mut self, posted: &Result<Posted>) {
        self.transfers += usize::from(*posted == Ok(Posted::Pending));
    }
}

/// Counts what comes.
struct Counting<'a> {
    sink: &'a mut dyn Sink,
    links: &'a Links,
    transfers: &'a mut usize,
    is_apart: &'a dyn Fn(Peer) -> bool,
}

impl Counting<'_> {
    fn note_received(&mut self, from: Peer) {
        if (self.is_apart)(from) {
            self.links.get()[from.index()].received += 1;
        }
    }
}

impl Sink for Counting<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        self.note_received(from);
        self.sink.message(from, head, data);
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        *self.transfers -= 1;
        self.sink.transfer_completed(operation, result);
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.sink.lost(peer, reason);
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.note_received(from);
        self.sink.signalled(from, key);
    }
}

impl Fabric for Counted {
    forward_fabric!(self => self.inner; me, peers, limits, now, route, grant, offer, revoke, signals, take_signals, forget,
        shares_memory, allocate_shared, release_shared, attach_shared, is_asleep, wake, is_any_beside, is_flushed, say_goodbye);

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.bell)
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        let posted = self.inner.try_send(to, head, data);
        if posted == Ok(Posted::Done) {
            self.note_sent(to);
        }
        posted
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        let has_left = self.inner.inject(to, head, data);
        if has_left {
            self.note_sent(to);
        }
        has_left
    }

    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let posted = self.inner.signal(to, key);
        if posted == Ok(Posted::Done) {
            self.note_sent(to);
        }
        posted
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let (me, hosts) = (self.me(), self.hosts.clone());
        let mut counting = Counting {
            sink,
            links: &self.links,
            transfers: &mut self.transfers,
            is_apart: &|from| hosts.are_apart(me, from),
        };
        self.inner.poll(&mut counting, budget)
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let posted = self.inner.get(from, token, offset, into, operation);
        self.note_transfer(&posted);
        posted
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let posted = self.inner.put(to, token, offset, source, operation);
        self.note_transfer(&posted);
        posted
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            is_at_rest: self.transfers == 0,
            links: self.links.spoken(),
        }
    }
}
