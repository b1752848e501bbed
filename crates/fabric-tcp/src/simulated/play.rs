//! Play: one thread drives all endpoints, in an order that a seed decides.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use weft_fabric::{Fabric, FabricError, Operation, Peer, Posted, Rights, SyncKey, Token, Uses};
use weft_secure::Key;

use super::conditions::Route;
use super::counts::Counts;
use super::explore::Tally;
use super::model::{Event, Item, LONGEST, Model, Recorder, Wrong, bytes};
use super::notices::{Notice, Notices};
use super::world::{Id, World};
use super::{Simulated, locked};
use crate::card::{Card, Offer};
use crate::config::Config;
use crate::endpoint::Tcp;
use crate::outgoing::ACKNOWLEDGE;
use crate::session::Inspection;
use crate::wire::DATA;

/// Longer than all cuts and stalls together, but for those that are for good.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a play ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// All comes to rest.
    Quiet,
    /// One leaves in order, when what it has said is handed over.
    Leave,
    /// One ends without a word.
    Die,
    /// All links are down for good.
    Sever,
}

/// What a step does.
#[derive(Clone, Copy, Debug)]
enum Action {
    Send,
    Signal,
    Grant,
    Offer,
    Transfer,
    Revoke,
    Farewell,
    Flood,
    Cut,
    Stall,
    Jump,
    Pass,
    Look,
}

/// How often each happens, of what kind a play is: of all services, of portals.
const KINDS: [[(Action, u32); 13]; 2] = {
    use Action::{
        Cut, Farewell, Flood, Grant, Jump, Look, Offer, Pass, Revoke, Send, Signal, Stall, Transfer,
    };
    [
        [
            (Send, 260),
            (Signal, 60),
            (Grant, 50),
            (Offer, 20),
            (Transfer, 70),
            (Revoke, 20),
            (Farewell, 10),
            (Flood, 10),
            (Cut, 20),
            (Stall, 10),
            (Jump, 60),
            (Pass, 90),
            (Look, 340),
        ],
        [
            (Send, 20),
            (Signal, 10),
            (Grant, 80),
            (Offer, 60),
            (Transfer, 180),
            (Revoke, 60),
            (Farewell, 2),
            (Flood, 0),
            (Cut, 30),
            (Stall, 5),
            (Jump, 150),
            (Pass, 60),
            (Look, 400),
        ],
    ]
};

pub(super) struct Play {
    weights: [(Action, u32); 13],
    pub(super) world: Arc<Mutex<World>>,
    random: StdRng,
    fabrics: Vec<Option<Tcp<Simulated>>>,
    pub(super) model: Model,
    numbers: usize,
    notices: Notices,
    counts: Counts,
    /// Who has said goodbye and is about to end.
    leaving: Option<usize>,
}

fn address(node: usize, offer: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, node as u8, offer as u8], 1000 + node as u16))
}

impl Play {
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ 0x706C_6179);
        let ranks = [2, 2, 2, 2, 2, 3, 4][random.random_range(0..7)];
        let listeners: Vec<usize> = (0..ranks).map(|_| random.random_range(1..3)).collect();
        let mut world = World::new(seed, &listeners);
        world.trace = trace.then(Vec::new);
        world.note(|| format!("seed {seed}, {ranks} ranks"));
        let conditions = world.conditions.clone();
        world.note(|| format!("{conditions:?}"));
        let mut cards = Vec::new();
        for (node, listeners) in listeners.iter().enumerate() {
            let mut routes: Vec<Route> = (0..*listeners).map(|one| Route::To(node, one)).collect();
            for _ in 0..[0, 0, 1, 2][random.random_range(0..4)] {
                let other = random.random_range(0..ranks);
                let decoys = [
                    Route::Refused,
                    Route::Hole,
                    Route::Nowhere,
                    Route::To(other, 0),
                ];
                routes.push(decoys[random.random_range(0..4)]);
            }
            routes.shuffle(&mut random);
            let offer = |(index, route)| {
                let address = address(node, index);
                world.routes.insert(address, route);
                let interface = format!("sim{index}");
                Offer { interface, address }
            };
            let offers = routes.into_iter().enumerate().map(offer).collect();
            let host = format!("host{node}");
            cards.push(Card { host, offers });
        }
        let world = Arc::new(Mutex::new(world));
        let (key, seal) = (
            Key::from_bytes([7; Key::BYTES]),
            random.random_range(0..4) == 0,
        );
        let fabrics = (0..ranks)
            .map(|node| {
                let system = Simulated {
                    world: world.clone(),
                    node,
                };
                let mut config = Config::new(node as u32, ranks as u32, key.clone());
                (config.seal, config.patience, config.connect) = (seal, PATIENCE, PATIENCE);
                let listeners = (0..listeners[node])
                    .map(|one| system.stream(Id::Listener(node, one)))
                    .collect();
                let host = cards[node].host.clone();
                Tcp::over(
                    system.clone(),
                    system,
                    (config, host),
                    listeners,
                    cards.clone(),
                    None,
                )
                .ok()
            })
            .collect();
        let weights = KINDS[random.random_range(0..KINDS.len())];
        Self {
            weights,
            world,
            random,
            fabrics,
            model: Model::default(),
            numbers: 0,
            notices: Notices::default(),
            counts: Counts::new(ranks),
            leaving: None,
        }
    }

    fn note(&self, text: impl FnOnce() -> String) {
        locked(&self.world).note(text);
    }

    fn ranks(&self) -> usize {
        self.fabrics.len()
    }

    /// Two ranks that live: mostly different ones.
    fn pair(&mut self) -> Option<(usize, usize)> {
        let living: Vec<usize> = (0..self.ranks())
            .filter(|rank| self.fabrics[*rank].is_some())
            .collect();
        let from = living[self.random.random_range(0..living.len())];
        let to = self.random.random_range(0..self.ranks());
        (from != to || self.random.random_range(0..8) == 0).then_some((from, to))
    }

    /// An error of a post: fine if the peer is gone.
    fn refused(&self, from: usize, to: usize, error: FabricError) -> Wrong {
        let known = self.model.severed || self.model.ended.contains(&to);
        match error {
            FabricError::PeerLost { .. } if known => Ok(()),
            other => Err(format!("rank {from} cannot reach rank {to}: {other}")),
        }
    }

    pub(super) fn post(
        &mut self,
        from: usize,
        to: usize,
        message: Option<usize>,
    ) -> Result<bool, String> {
        let Some(fabric) = &mut self.fabrics[from] else {
            return Ok(false);
        };
        self.numbers += 1;
        self.counts.act(from);
        let number = self.numbers;
        let (item, posted) = match message {
            Some(length) => {
                let (head, peer) = (Item::head(number, length), Peer(to as u32));
                let posted = fabric.try_send(peer, &head, bytes(number, length));
                (Item::Message { number, length }, posted)
            }
            None => {
                let key = SyncKey(number as u64 % 3);
                (Item::Signal(key), fabric.signal(Peer(to as u32), key))
            }
        };
        self.note(|| format!("rank {from} to {to}: {item:?}: {posted:?}"));
        match posted {
            Ok(Posted::Retry) => Ok(false),
            Ok(_) => {
                self.model.sent(from, to, item);
                Ok(true)
            }
            Err(error) => self.refused(from, to, error).map(|()| false),
        }
    }

    fn length(&mut self, most: usize) -> usize {
        let power = self.random.random_range(0..21);
        self.random.random_range(0..1usize << power).min(most)
    }

    fn grant(&mut self) -> Wrong {
        let Some((owner, to)) = self.pair() else {
            return Ok(());
        };
        let length = self.length(LONGEST);
        let to = (self.random.random_range(0..3) == 0).then_some(Peer(to as u32));
        let rights = [Rights::Read, Rights::Write][self.random.random_range(0..2)];
        let uses = [Uses::Once, Uses::Many, Uses::Many][self.random.random_range(0..3)];
        self.numbers += 1;
        let memory = Model::lendable(rights, self.numbers, length);
        let Some(fabric) = &mut self.fabrics[owner] else {
            return Ok(());
        };
        self.counts.act(owner);
        let Ok(token) = fabric.grant(memory.region(), to, rights, uses) else {
            return Ok(());
        };
        let number = self.model.grants.len();
        self.note(|| {
            format!("rank {owner} grants {number} to {to:?}, {rights:?}, {uses:?}, {length} bytes")
        });
        self.model
            .granted(owner, token, (to, rights, uses), memory, self.numbers);
        Ok(())
    }

    /// A message that announces a grant, as large messages of MPI do.
    fn offer(&mut self) -> Wrong {
        let Some((owner, to)) = self.pair().filter(|(owner, to)| owner != to) else {
            return Ok(());
        };
        // Now and then of more than one chunk, which take turns with those of other transfers.
        let length = match self.random.random_range(0..8) {
            0 => self
                .random
                .random_range(crate::wire::CHUNK..=crate::portal::offers::AHEAD),
            _ => self.length(LONGEST),
        };
        self.numbers += 1;
        let (rights, uses) = (Rights::Read, Uses::Once);
        let memory = Model::lendable(rights, self.numbers, length);
        let Some(fabric) = &mut self.fabrics[owner] else {
            return Ok(());
        };
        self.counts.act(owner);
        let peer = Peer(to as u32);
        let Ok(token) = fabric.grant(memory.region(), Some(peer), rights, uses) else {
            return Ok(());
        };
        fabric.offer(peer, token);
        let number = self.model.grants.len();
        self.note(|| format!("rank {owner} offers {number} to {to}, {length} bytes"));
        self.model.granted(
            owner,
            token,
            (Some(peer), rights, uses),
            memory,
            self.numbers,
        );
        self.model.grants[number].offered = true;
        self.notices.queue(Notice::Announced(number), owner, to);
        self.say()
    }

    /// Sends the notices that are to be sent, as far as there is room.
    fn say(&mut self) -> Wrong {
        for (notice, from, to) in self.notices.take_queued() {
            let gone = |rank: usize| self.model.ended.contains(&rank);
            // Who has said goodbye says nothing after that.
            if gone(from) || gone(to) || self.leaving == Some(from) || self.model.severed {
                continue;
            }
            match self.post(from, to, Some(0))? {
                true => self.notices.sent(self.numbers, notice, to),
                false => self.notices.queue(notice, from, to),
            }
        }
        Ok(())
    }

    /// A rank hears a message; perhaps it says something of a grant.
    fn hear(&mut self, number: usize) {
        match self.notices.came(number) {
            Some(Notice::Done(grant)) if !self.model.grants[grant].revoked => {
                self.note(|| format!("grant {grant} is over"));
                self.model.revoked(grant);
            }
            _ => {}
        }
    }

    /// A transfer has ended well: the owner of what was on offer is told.
    fn thank(&mut self, operation: usize) -> Wrong {
        let transfer = &self.model.transfers[operation];
        if let Some(grant) = transfer.grant
            && self.model.grants[grant].offered
        {
            let (from, to) = (transfer.asker, transfer.owner);
            self.notices.queue(Notice::Done(grant), from, to);
            return self.say();
        }
        Ok(())
    }

    /// An announced grant that is taken now, mostly as a whole.
    fn announced(&mut self) -> Option<(usize, usize)> {
        let count = self.notices.announced();
        if count == 0 || self.random.random_range(0..3) == 0 {
            return None;
        }
        let index = self.random.random_range(0..count);
        let taken = self.notices.take_announced(index);
        self.fabrics[taken.1].is_some().then_some(taken)
    }

    fn transfer(&mut self, bogus: bool) -> Wrong {
        let announced = if bogus { None } else { self.announced() };
        let asker = match (announced, self.pair()) {
            (Some((_, asker)), _) | (None, Some((asker, _))) => asker,
            (None, None) => return Ok(()),
        };
        let (count, random) = (self.model.grants.len(), &mut self.random);
        let known = (!bogus && count > 0 && random.random_range(0..12) > 0).then(|| {
            // Rather a late one.
            let back = random
                .random_range(0..count)
                .min(random.random_range(0..count));
            count - 1 - back
        });
        // Of a grant on offer nobody knows before it is announced, nor twice.
        let known = match announced {
            Some((number, _)) => Some(number),
            None if known.is_some_and(|number| self.model.grants[number].offered) => return Ok(()),
            None => known,
        };
        let (mut owner, mut put, mut offset) = (
            random.random_range(0..self.fabrics.len()),
            random.random(),
            0,
        );
        let (mut length, mut permitted, mut token) = (
            random.random_range(0..100),
            false,
            Token(1 << 63 | 77 << 32 | 5),
        );
        if let Some(number) = known {
            let grant = &mut self.model.grants[number];
            owner = grant.owner;
            token = grant.token;
            put = grant.rights.writes() != (random.random_range(0..20) == 0);
            let size = grant.memory.region().len();
            let left = match put {
                true => size - grant.next.min(size),
                false => size,
            };
            length = match random.random_range(0..if announced.is_some() { 6 } else { 3 }) {
                0 | 3.. => left,
                _ => random.random_range(0..=left),
            };
            offset = match put {
                true => grant.next.min(size),
                false => random.random_range(0..=size - length),
            };
            if random.random_range(0..20) == 0 {
                length += size + 1 - offset;
                length = length.min(LONGEST);
            }
            let named = grant.to.is_none_or(|to| to.index() == asker);
            let fits = offset + length <= size;
            permitted = named && fits && put == grant.rights.writes();
            if put && permitted {
                grant.next = offset + length;
            }
        }
        self.numbers += 1;
        let memory = Model::own(put, self.numbers, length);
        let operation = Operation(self.model.transfers.len() as u64);
        let Some(fabric) = &mut self.fabrics[asker] else {
            return Ok(());
        };
        self.counts.act(asker);
        let (peer, region) = (Peer(owner as u32), memory.region());
        let posted = match put {
            true => fabric.put(peer, token, offset as u64, region, operation),
            false => fabric.get(peer, token, offset as u64, region, operation),
        };
        self.note(|| {
            format!("rank {asker}, transfer {operation:?}: put {put}, grant {known:?} of {owner}, {length} bytes at {offset}: {posted:?}")
        });
        let outcome = match posted {
            Ok(Posted::Retry) => {
                return Ok(());
            }
            Ok(Posted::Pending) => None,
            Ok(Posted::Done) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        self.model.transfers.push(super::model::Transfer {
            asker,
            owner,
            grant: known,
            offset,
            memory,
            number: self.numbers,
            put,
            permitted,
            outcome: None,
        });
        match outcome {
            None => Ok(()),
            Some(outcome) => {
                let well = outcome.is_ok();
                self.model
                    .transfer_completed(asker, operation.0 as usize, outcome)?;
                match well {
                    true => self.thank(operation.0 as usize),
                    false => Ok(()),
                }
            }
        }
    }

    fn revoke(&mut self) {
        let open: Vec<usize> = (0..self.model.grants.len())
            .filter(|number| !self.model.grants[*number].revoked)
            .collect();
        if open.is_empty() {
            return;
        }
        let number = open[self.random.random_range(0..open.len())];
        let grant = &self.model.grants[number];
        if let Some(fabric) = &mut self.fabrics[grant.owner] {
            self.counts.act(grant.owner);
            let live = fabric.revoke(grant.token);
            self.note(|| format!("grant {number} is revoked: {live}"));
            self.model.revoked(number);
        }
    }

    fn look(&mut self, rank: usize, budget: usize) -> Result<usize, String> {
        let Some(fabric) = &mut self.fabrics[rank] else {
            return Ok(0);
        };
        let mut recorder = Recorder::default();
        let found = fabric.poll(&mut recorder, budget);
        let traffic = fabric.traffic();
        let heard = recorder.events.len();
        if !self.counts.look(rank, found, heard, traffic) {
            return Err(format!(
                "the counts of all have proven that nothing comes, and rank {rank} hears {:?}",
                recorder.events
            ));
        }
        for event in recorder.events {
            self.note(|| format!("rank {rank} hears {event:?}"));
            if let Event::Item(_, Item::Message { number, .. }) = event {
                self.hear(number);
            }
            let over = match event {
                Event::TransferCompleted(operation, Ok(())) => Some(operation.0 as usize),
                _ => None,
            };
            self.model.take(rank, event)?;
            if let Some(operation) = over {
                self.thank(operation)?;
            }
        }
        Ok(found)
    }

    /// One thing that happens.
    fn step(&mut self) -> Wrong {
        let weights = &self.weights;
        let mut draw = self
            .random
            .random_range(0..weights.iter().map(|(_, weight)| weight).sum());
        let mut action = Action::Look;
        for (one, weight) in weights {
            if draw < *weight {
                action = *one;
                break;
            }
            draw -= weight;
        }
        match action {
            Action::Send => {
                if let Some((from, to)) = self.pair() {
                    let length = self.length(DATA);
                    self.post(from, to, Some(length))?;
                }
            }
            Action::Signal => {
                if let Some((from, to)) = self.pair() {
                    self.post(from, to, None)?;
                }
            }
            Action::Grant => self.grant()?,
            Action::Offer => self.offer()?,
            Action::Transfer => self.transfer(false)?,
            Action::Revoke => self.revoke(),
            Action::Farewell => self.bid_farewell(),
            // More than there is credit for.
            Action::Flood => match self.random.random() {
                true => {
                    let length = self.random.random_range(0..=DATA);
                    if let Some((from, to)) = self.pair().filter(|(from, to)| from != to) {
                        for _ in 0..100 {
                            if !self.post(from, to, Some(length))? {
                                break;
                            }
                        }
                    }
                }
                false => {
                    for _ in 0..300 {
                        self.transfer(true)?;
                    }
                }
            },
            Action::Cut => locked(&self.world).cut_one(),
            Action::Stall => {
                let time = self.random.random_range(0..50_000_000);
                locked(&self.world).stall(time);
            }
            Action::Jump => {
                locked(&self.world).jump();
            }
            Action::Pass => {
                let longest = 1u64 << self.random.random_range(8..24);
                let time = Duration::from_nanos(self.random.random_range(0..longest));
                locked(&self.world).pass(time);
            }
            Action::Look => {
                let rank = self.random.random_range(0..self.ranks());
                let budget = [1, 2, 16, 64][self.random.random_range(0..4)];
                self.look(rank, budget)?;
            }
        }
        if locked(&self.world).poisoned {
            return Err("memory was sent that is not lent any more".into());
        }
        self.prove();
        Ok(())
    }

    /// Whether the counts of those that live prove that nothing comes any more.
    fn prove(&mut self) -> bool {
        let proven = self.counts.prove(|rank| self.fabrics[rank].is_some());
        if proven {
            self.note(|| "the counts prove that nothing comes".into());
        }
        proven
    }

    fn bid_farewell(&mut self) {
        let rank = self.random.random_range(0..self.ranks());
        if let Some(fabric) = &mut self.fabrics[rank] {
            self.counts.act(rank);
            fabric.farewell();
            self.note(|| format!("rank {rank} says goodbye"));
        }
    }

    /// Looks and lets time pass until nothing more happens, or until that.
    pub(super) fn settle(&mut self, mut until: impl FnMut(&mut Self) -> bool) -> Wrong {
        let end = locked(&self.world).now() + 10 * PATIENCE.as_nanos() as u64;
        let mut looks = 0;
        loop {
            let mut idle = 0;
            while idle < 4 {
                let mut ranks: Vec<usize> = (0..self.ranks()).collect();
                ranks.shuffle(&mut self.random);
                let mut found = 0;
                for rank in ranks {
                    found += self.look(rank, 64)?;
                }
                if locked(&self.world).poisoned {
                    return Err("memory was sent that is not lent any more".into());
                }
                idle = if found == 0 { idle + 1 } else { 0 };
                if until(self) {
                    return Ok(());
                }
            }
            self.say()?;
            let mut world = locked(&self.world);
            // Of what was there, a look may have read a part.
            let unread = (0..self.fabrics.len()).any(|rank| !world.ready(rank).is_empty());
            if !unread && !world.jump() {
                return Ok(());
            }
            looks += 1;
            if looks > 1_000_000 {
                return Err("something stays readable for ever".into());
            }
            if world.now() > end {
                return Err("it does not come to rest".into());
            }
        }
    }

    /// What a rank shares with a peer, if it does.
    fn shared(&self, rank: usize, peer: usize) -> Option<Inspection> {
        self.fabrics[rank].as_ref()?.inspect(peer)
    }

    /// All pairs of ranks, each both ways.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let ranks = self.ranks();
        (0..ranks).flat_map(move |rank| (0..ranks).map(move |peer| (rank, peer)))
    }

    /// Sides that are at rest agree, and hold nothing that they need not hold.
    fn agreed(&self) -> Wrong {
        let present = |rank, peer| self.shared(rank, peer).filter(|it| it.present);
        for (rank, peer) in self.pairs() {
            let Some(it) = present(rank, peer) else {
                continue;
            };
            let said = |what: &str| Err(format!("rank {rank} at rest: {what} rank {peer}"));
            if !it.flushed {
                return said("something is to be sent to");
            }
            if it.transfers != [0; 3] {
                return said("transfers are under way with");
            }
            let Some(other) = present(peer, rank) else {
                continue;
            };
            let (sent, kept) = it.held;
            if sent != other.processed {
                return Err(format!(
                    "rank {rank} has sent {sent} frames, rank {peer} has processed {}",
                    other.processed
                ));
            }
            let unacked = other.unacked_bytes;
            if kept > unacked {
                return Err(format!(
                    "rank {rank} keeps {kept} bytes, rank {peer} has not acknowledged {unacked}"
                ));
            }
            if unacked >= ACKNOWLEDGE {
                return Err(format!("rank {peer} has not acknowledged {unacked} bytes"));
            }
            if it.generation != other.generation || it.generation > 0 && it.live != other.live {
                return Err(format!("ranks {rank} and {peer} do not share a connection"));
            }
        }
        Ok(())
    }

    /// What the sides have come to, for the eye.
    pub(super) fn show(&self) {
        for (rank, peer) in self.pairs() {
            if let Some(it) = self.shared(rank, peer) {
                self.note(|| format!("rank {rank} with {peer}: {it:?}"));
            }
        }
    }

    /// The rank is no more: with `whole`, after everything that it has said.
    fn end(&mut self, rank: usize) {
        self.note(|| format!("rank {rank} ends"));
        // Its memory is gone: nothing moves there.
        self.model.ended.push(rank);
        self.counts.act(rank);
        if let Some(fabric) = self.fabrics[rank].take() {
            fabric.die();
        }
    }

    fn leave(&mut self, rank: usize) -> Wrong {
        let Some(fabric) = &mut self.fabrics[rank] else {
            return Ok(());
        };
        let reached = |peer: &usize| fabric.inspect(*peer).is_some_and(|it| it.generation > 0);
        let spoken: Vec<usize> = (0..fabric.peers() as usize).filter(reached).collect();
        self.counts.act(rank);
        fabric.farewell();
        self.note(|| format!("rank {rank} says goodbye and leaves"));
        self.leaving = Some(rank);
        let mut handed = false;
        self.settle(|play| {
            handed = match &mut play.fabrics[rank] {
                Some(fabric) => {
                    // What the peers want from its memory ends with it.
                    fabric.stop_serving();
                    fabric.is_flushed()
                }
                None => true,
            };
            handed
        })?;
        if !handed {
            return Err(format!(
                "rank {rank} leaves and cannot hand over what it has said"
            ));
        }
        // Who has said goodbye itself is not waited for.
        let mut spoken = spoken;
        let shared = |peer: usize| self.shared(rank, peer);
        spoken.retain(|peer| !shared(*peer).is_some_and(|it| it.goodbye_received));
        self.end(rank);
        self.settle(|_| false)?;
        for peer in spoken {
            if let Some(expected) = self.model.expected.get(&(rank, peer))
                && let Some(first) = expected.front()
            {
                return Err(format!(
                    "rank {rank} has left, and {first:?} has not reached rank {peer}"
                ));
            }
            let lost = self
                .model
                .lost
                .iter()
                .find(|(who, whom, _)| (*who, *whom) == (peer, rank));
            if let Some((_, _, reason)) = lost {
                return Err(format!(
                    "rank {rank} has said goodbye, and rank {peer} has lost it: {reason}"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn play(&mut self, steps: usize, tally: &mut Tally) -> Wrong {
        let last = self.random.random_range(0..self.ranks());
        let ending = [
            Ending::Quiet,
            Ending::Quiet,
            Ending::Quiet,
            Ending::Leave,
            Ending::Leave,
            Ending::Die,
            Ending::Sever,
        ][self.random.random_range(0..7)];
        for _ in 0..steps {
            self.step()?;
        }
        self.note(|| format!("the end: {ending:?}"));
        match ending {
            Ending::Quiet => {}
            Ending::Leave => self.leave(last)?,
            Ending::Die => self.end(last),
            Ending::Sever => {
                self.model.severed = true;
                (0..self.ranks()).for_each(|rank| self.counts.act(rank));
                locked(&self.world).sever(PATIENCE);
            }
        }
        self.settle(|_| false)?;
        self.model.at_rest()?;
        if !self.prove() {
            return Err(format!(
                "all is at rest, and the counts do not say so: {:?}",
                self.counts
            ));
        }
        tally.proofs += self.counts.proofs;
        if ending == Ending::Quiet {
            self.agreed()?;
        }
        let flushed = |fabric: &mut Tcp<Simulated>| fabric.is_flushed();
        if ending != Ending::Sever && !self.fabrics.iter_mut().flatten().all(flushed) {
            return Err("at rest, and something is not handed over".into());
        }
        tally.items += self.model.items;
        tally.transfers += self
            .model
            .transfers
            .iter()
            .filter(|one| one.outcome == Some(Ok(())))
            .count();
        let shared = self
            .pairs()
            .filter_map(|(rank, peer)| self.shared(rank, peer));
        tally.generations += shared
            .map(|it| it.generation.saturating_sub(1))
            .sum::<u32>();
        Ok(())
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        for fabric in self.fabrics.iter_mut().filter_map(Option::take) {
            fabric.die();
        }
    }
}
