//! Job of a play: the members, and beside them the model of the expected results. Each operation goes to an endpoint and,
//! if that has taken it, to the model; the caller decides what to do, nothing is drawn here.

use std::sync::{Arc, Mutex};

use weft_fabric::{Fabric, FabricError, Operation, Peer, Posted, Rights, SyncKey, Uses};

use super::access::Access;
use super::locked;
use super::members::{Members, PATIENCE};
use super::model::{Event, Grant, Item, Model, Transfer, Wrong, bytes};
use super::notices::{Notice, Notices};
use super::world::World;

/// The totals of a play that went right.
#[derive(Default, Debug)]
pub struct Tally {
    pub items: usize,
    pub transfers: usize,
    pub generations: u32,
    pub proofs: usize,
}

/// All members, what they were asked to do, and what is expected.
pub struct Job {
    world: Arc<Mutex<World>>,
    members: Members,
    model: Model,
    /// The number of the last message, signal, grant or transfer: its bytes are made from it.
    numbers: usize,
    notices: Notices,
    /// The ranks that have said goodbye and are about to end.
    leaving: Option<usize>,
}

impl Job {
    pub fn new(world: Arc<Mutex<World>>, members: Members) -> Self {
        Self {
            world,
            members,
            model: Model::default(),
            numbers: 0,
            notices: Notices::default(),
            leaving: None,
        }
    }

    fn note(&self, text: impl FnOnce() -> String) {
        locked(&self.world).note(text);
    }

    /// How many ranks there were at first.
    pub fn ranks(&self) -> usize {
        self.members.ranks()
    }

    /// The ranks that have not ended.
    pub fn living(&self) -> Vec<usize> {
        (0..self.ranks())
            .filter(|rank| self.members.lives(*rank))
            .collect()
    }

    /// All grants so far, by number.
    pub fn grants(&self) -> &[Grant] {
        &self.model.grants
    }

    /// How many items have arrived.
    pub fn items(&self) -> usize {
        self.model.items
    }

    /// An error of a post: fine if the peer is gone.
    fn refused(&self, from: usize, to: usize, error: FabricError) -> Wrong {
        let known = self.model.severed || self.model.ended.contains(&to);
        match error {
            FabricError::PeerLost { .. } if known => Ok(()),
            other => Err(format!("rank {from} cannot reach rank {to}: {other}")),
        }
    }

    /// Posts a message of this many bytes, or a signal. False: there was no room for it.
    pub fn post(&mut self, from: usize, to: usize, message: Option<usize>) -> Result<bool, String> {
        let Some(endpoint) = self.members.acting(from) else {
            return Ok(false);
        };
        self.numbers += 1;
        let number = self.numbers;
        let (item, posted) = match message {
            Some(length) => {
                let (head, peer) = (Item::head(number, length), Peer(to as u32));
                let posted = endpoint.try_send(peer, &head, bytes(number, length));
                (Item::Message { number, length }, posted)
            }
            None => {
                let key = SyncKey(number as u64 % 3);
                (Item::Signal(key), endpoint.signal(Peer(to as u32), key))
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

    /// A rank grants `length` bytes of memory.
    pub fn grant(
        &mut self,
        owner: usize,
        length: usize,
        (to, rights, uses): (Option<Peer>, Rights, Uses),
    ) {
        self.numbers += 1;
        let memory = Model::lendable(rights, self.numbers, length);
        let Some(endpoint) = self.members.acting(owner) else {
            return;
        };
        let Ok(token) = endpoint.grant(memory.region(), to, rights, uses) else {
            return;
        };
        let number = self.model.grants.len();
        self.note(|| {
            format!("rank {owner} grants {number} to {to:?}, {rights:?}, {uses:?}, {length} bytes")
        });
        self.model
            .granted(owner, token, (to, rights, uses), memory, self.numbers);
    }

    /// A message that announces a grant, as large messages of MPI do.
    pub fn offer(&mut self, owner: usize, to: usize, length: usize) -> Wrong {
        self.numbers += 1;
        let (rights, uses) = (Rights::Read, Uses::Once);
        let memory = Model::lendable(rights, self.numbers, length);
        let Some(endpoint) = self.members.acting(owner) else {
            return Ok(());
        };
        let peer = Peer(to as u32);
        let Ok(token) = endpoint.grant(memory.region(), Some(peer), rights, uses) else {
            return Ok(());
        };
        endpoint.offer(peer, token);
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

    /// Sends the queued notices, as far as there is room.
    pub fn say(&mut self) -> Wrong {
        for (notice, from, to) in self.notices.take_queued() {
            let gone = |rank: usize| self.model.ended.contains(&rank);
            // A rank that has said goodbye sends nothing after that.
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

    /// A rank receives a message, which may be a notice about a grant.
    fn hear(&mut self, number: usize) {
        match self.notices.came(number) {
            Some(Notice::Done(grant)) if !self.model.grants[grant].revoked => {
                self.note(|| format!("grant {grant} is over"));
                self.model.revoked(grant);
            }
            _ => {}
        }
    }

    /// A transfer has ended well: the owner of the offer is told.
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

    /// How many grants were announced and not taken.
    pub fn announced(&self) -> usize {
        self.notices.announced()
    }

    /// Takes one of these: the grant, and the rank it was announced to, unless that rank has ended.
    pub fn take_announced(&mut self, index: usize) -> Option<(usize, usize)> {
        let taken = self.notices.take_announced(index);
        self.members.lives(taken.1).then_some(taken)
    }

    /// A rank gets or puts.
    pub fn transfer(&mut self, access: &Access) -> Wrong {
        let &Access {
            asker,
            owner,
            token,
            put,
            offset,
            length,
            ..
        } = access;
        if let Some(number) = access.grant
            && put
            && access.permitted
        {
            self.model.grants[number].next = offset + length;
        }
        self.numbers += 1;
        let memory = Model::own(put, self.numbers, length);
        let operation = Operation(self.model.transfers.len() as u64);
        let Some(endpoint) = self.members.acting(asker) else {
            return Ok(());
        };
        let (peer, region) = (Peer(owner as u32), memory.region());
        let posted = match put {
            true => endpoint.put(peer, token, offset as u64, region, operation),
            false => endpoint.get(peer, token, offset as u64, region, operation),
        };
        self.note(|| {
            format!("rank {asker}, transfer {operation:?}: put {put}, grant {:?} of {owner}, {length} bytes at {offset}: {posted:?}", access.grant)
        });
        let outcome = match posted {
            Ok(Posted::Retry) => {
                return Ok(());
            }
            Ok(Posted::Pending) => None,
            Ok(Posted::Done) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        self.model.transfers.push(Transfer {
            asker,
            owner,
            grant: access.grant,
            offset,
            memory,
            number: self.numbers,
            put,
            permitted: access.permitted,
            outcome: None,
        });
        let Some(outcome) = outcome else {
            return Ok(());
        };
        let (operation, well) = (operation.0 as usize, outcome.is_ok());
        self.model.transfer_completed(asker, operation, outcome)?;
        match well {
            true => self.thank(operation),
            false => Ok(()),
        }
    }

    /// The owner of a grant revokes it.
    pub fn revoke(&mut self, number: usize) {
        let grant = &self.model.grants[number];
        if let Some(endpoint) = self.members.acting(grant.owner) {
            let live = endpoint.revoke(grant.token);
            self.note(|| format!("grant {number} is revoked: {live}"));
            self.model.revoked(number);
        }
    }

    /// A rank looks; returns how much it has found.
    pub fn look(&mut self, rank: usize, budget: usize) -> Result<usize, String> {
        let (found, events) = self.members.look(rank, budget)?;
        for event in events {
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

    /// Nothing was sent from memory that is no longer lent.
    pub fn unpoisoned(&self) -> Wrong {
        match locked(&self.world).poisoned {
            true => Err("memory was sent that is not lent any more".into()),
            false => Ok(()),
        }
    }

    /// Whether the counts of those that live prove that nothing more will arrive.
    pub fn prove(&mut self) -> bool {
        let proven = self.members.prove();
        if proven {
            self.note(|| "the counts prove that nothing comes".into());
        }
        proven
    }

    /// A rank says goodbye, and stays.
    pub fn bid_farewell(&mut self, rank: usize) {
        if let Some(endpoint) = self.members.acting(rank) {
            endpoint.say_goodbye();
            self.note(|| format!("rank {rank} says goodbye"));
        }
    }

    /// A rank says goodbye and is about to end: returns the peers it has sent to, unless it has ended
    /// already.
    pub fn begin_leaving(&mut self, rank: usize) -> Option<Vec<usize>> {
        let endpoint = self.members.acting(rank)?;
        let reached = |peer: &usize| endpoint.inspect(*peer).is_some_and(|it| it.generation > 0);
        let spoken = (0..endpoint.peers() as usize).filter(reached).collect();
        endpoint.say_goodbye();
        self.note(|| format!("rank {rank} says goodbye and leaves"));
        self.leaving = Some(rank);
        Some(spoken)
    }

    /// Whether a rank that is about to end has handed over what it has sent. Peers' transfers from its memory
    /// end with it.
    pub fn hand_over(&mut self, rank: usize) -> bool {
        self.members.hand_over(rank)
    }

    /// Whether a peer of a rank has said goodbye to it.
    pub fn is_left(&self, rank: usize, by: usize) -> bool {
        let shared = self.members.shared(rank, by);
        shared.is_some_and(|it| it.goodbye_received)
    }

    /// A rank ends.
    pub fn end(&mut self, rank: usize) {
        self.note(|| format!("rank {rank} ends"));
        // Its memory is gone: nothing is transferred there.
        self.model.ended.push(rank);
        self.members.end(rank);
    }

    /// All that a rank sent before it left has reached this peer, without the report of a loss.
    pub fn left_in_order(&self, rank: usize, peer: usize) -> Wrong {
        if let Some(expected) = self.model.expected.get(&(rank, peer))
            && let Some(first) = expected.front()
        {
            return Err(format!(
                "rank {rank} has left, and {first:?} has not reached rank {peer}"
            ));
        }
        let mut lost = self.model.lost.iter();
        match lost.find(|(who, whom, _)| (*who, *whom) == (peer, rank)) {
            Some((_, _, reason)) => Err(format!(
                "rank {rank} has said goodbye, and rank {peer} has lost it: {reason}"
            )),
            None => Ok(()),
        }
    }

    /// All links are down for good.
    pub fn sever(&mut self) {
        self.model.severed = true;
        self.members.all_act();
        locked(&self.world).sever(PATIENCE);
    }

    /// At rest: everything has ended, and the counts say so.
    pub fn at_rest(&mut self) -> Wrong {
        self.model.at_rest()?;
        match self.prove() {
            true => Ok(()),
            false => Err(format!(
                "all is at rest, and the counts do not say so: {:?}",
                self.members.counts()
            )),
        }
    }

    /// Both sides of each pair agree.
    pub fn agreed(&self) -> Wrong {
        self.members.agreed()
    }

    /// Whether all that live have handed over what they sent.
    pub fn are_flushed(&mut self) -> bool {
        self.members.are_flushed()
    }

    /// Adds its totals.
    pub fn add_to(&self, tally: &mut Tally) {
        let well = |one: &&Transfer| one.outcome == Some(Ok(()));
        tally.proofs += self.members.counts().proofs;
        tally.items += self.model.items;
        tally.transfers += self.model.transfers.iter().filter(well).count();
        tally.generations += self.members.generations();
    }

    /// Prints the state of both sides.
    pub fn show(&self) {
        for (rank, peer) in self.members.pairs() {
            if let Some(it) = self.members.shared(rank, peer) {
                self.note(|| format!("rank {rank} with {peer}: {it:?}"));
            }
        }
    }
}
