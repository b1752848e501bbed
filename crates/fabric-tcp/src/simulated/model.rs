//! Model: the expected results of everything that was taken. Every message and signal arrives once and in order; every
//! transfer ends once, with the right bytes; nothing touches memory that is no longer lent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

use weft_fabric::conformance::Memory;
use weft_fabric::{
    FabricError, HEAD, Head, Operation, Peer, Result as FabricResult, Rights, SharedBytes, Sink,
    SyncKey, Token, Uses,
};

/// The result of a check, with a description of what is wrong.
pub type Wrong = Result<(), String>;

/// Fills memory that is no longer lent: it must not travel, and must stay.
pub const POISON: u8 = 0xEE;
/// The contents of memory before anything is written to it.
const BLANK: u8 = 0x11;

fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut state = 1u64;
        let byte = |_| loop {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let byte = (state >> 33) as u8;
            if byte != POISON && byte != BLANK {
                return byte;
            }
        };
        (0..1 << 20).map(byte).collect()
    })
}

/// Longest data of a message or transfer.
pub const LONGEST: usize = 700_000;

/// `length` bytes made from a number.
pub fn bytes(number: usize, length: usize) -> &'static [u8] {
    let start = number * 7919 % (pattern().len() - LONGEST);
    &pattern()[start..start + length]
}

/// The traffic in the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    Message { number: usize, length: usize },
    Signal(SyncKey),
}

impl Item {
    pub fn head(number: usize, length: usize) -> Head {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&number.to_le_bytes());
        head[8..16].copy_from_slice(&length.to_le_bytes());
        head[16..].copy_from_slice(bytes(number, HEAD - 16));
        head
    }
}

/// The reports to a rank in a look.
#[derive(Debug)]
pub enum Event {
    Item(Peer, Item),
    Spoilt(Peer, String),
    TransferCompleted(Operation, FabricResult<()>),
    Lost(Peer, String),
    Departed(Peer),
}

/// A sink that records what is reported, and checks the bytes.
#[derive(Default, Debug)]
pub struct Recorder {
    pub events: Vec<Event>,
}

impl Sink for Recorder {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        let number = crate::wire::u64_at(head, 0) as usize;
        let length = crate::wire::u64_at(head, 8) as usize;
        let event = match length <= LONGEST && *head == Item::head(number, length) {
            true if data.to_vec() == bytes(number, length) => {
                Event::Item(from, Item::Message { number, length })
            }
            _ => Event::Spoilt(
                from,
                format!("message {number} of {length} bytes, {} came", data.len()),
            ),
        };
        self.events.push(event);
    }

    fn transfer_completed(&mut self, operation: Operation, result: FabricResult<()>) {
        self.events
            .push(Event::TransferCompleted(operation, result));
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.events.push(Event::Lost(peer, reason.into()));
    }

    fn departed(&mut self, peer: Peer, _: &str) {
        self.events.push(Event::Departed(peer));
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.events.push(Event::Item(from, Item::Signal(key)));
    }
}

pub struct Grant {
    pub owner: usize,
    pub token: Token,
    pub to: Option<Peer>,
    pub rights: Rights,
    pub uses: Uses,
    pub memory: Memory,
    pub number: usize,
    pub revoked: bool,
    pub offered: bool,
    /// Where the next put may write.
    pub next: usize,
    /// The contents when it was revoked.
    kept: Option<Vec<u8>>,
    /// Transfers that have ended well.
    pub served: usize,
}

#[derive(Debug)]
pub struct Transfer {
    pub asker: usize,
    pub owner: usize,
    pub grant: Option<usize>,
    pub offset: usize,
    pub memory: Memory,
    pub number: usize,
    pub put: bool,
    /// Whether the grant permits it, as long as it lives.
    pub permitted: bool,
    pub outcome: Option<FabricResult<()>>,
}

/// The messages taken for sending, the grants, the requests, and the results so far.
#[derive(Default)]
pub struct Model {
    /// By sender and receiver: what is still to arrive.
    pub expected: BTreeMap<(usize, usize), VecDeque<Item>>,
    pub grants: Vec<Grant>,
    pub transfers: Vec<Transfer>,
    /// Ranks that have ended, and pairs that are lost: which was told of which.
    pub ended: Vec<usize>,
    pub severed: bool,
    pub lost: Vec<(usize, usize, String)>,
    /// How many items have arrived, for the tests of the test.
    pub items: usize,
}

impl Model {
    pub fn sent(&mut self, from: usize, to: usize, item: Item) {
        self.expected.entry((from, to)).or_default().push_back(item);
    }

    pub fn granted(
        &mut self,
        owner: usize,
        token: Token,
        (to, rights, uses): (Option<Peer>, Rights, Uses),
        memory: Memory,
        number: usize,
    ) {
        self.grants.push(Grant {
            owner,
            token,
            to,
            rights,
            uses,
            memory,
            number,
            revoked: false,
            offered: false,
            next: 0,
            kept: None,
            served: 0,
        });
    }

    /// Memory of a grant before anything happens to it.
    pub fn lendable(rights: Rights, number: usize, length: usize) -> Memory {
        match rights {
            Rights::Write => Memory::filled(length, BLANK),
            _ => Memory::of(bytes(number, length).to_vec()),
        }
    }

    /// Memory of an asker.
    pub fn own(put: bool, number: usize, length: usize) -> Memory {
        match put {
            true => Memory::of(bytes(number, length).to_vec()),
            false => Memory::filled(length, BLANK),
        }
    }

    /// The owner may now do with the memory what it wants.
    pub fn revoked(&mut self, grant: usize) {
        let grant = &mut self.grants[grant];
        grant.revoked = true;
        if !grant.rights.writes() {
            poison(&grant.memory);
        }
        grant.kept = Some(grant.memory.bytes());
    }

    /// Checks what was reported to a rank.
    pub fn take(&mut self, me: usize, event: Event) -> Wrong {
        let told = |lost: &Vec<(usize, usize, String)>, peer: usize| {
            lost.iter()
                .any(|(who, whom, _)| (*who, *whom) == (me, peer))
        };
        match event {
            Event::Item(from, item) => {
                let from = from.index();
                self.items += 1;
                if told(&self.lost, from) {
                    return Err(format!("rank {me}: {item:?} of {from}, which is lost"));
                }
                let expected = self.expected.entry((from, me)).or_default();
                let next = expected.pop_front();
                if next != Some(item) {
                    return Err(format!(
                        "rank {me} got {item:?} of rank {from}, and not {next:?}"
                    ));
                }
            }
            Event::Spoilt(from, what) => return Err(format!("rank {me} got of {from:?}: {what}")),
            Event::TransferCompleted(operation, result) => {
                self.transfer_completed(me, operation.0 as usize, result)?
            }
            Event::Departed(_) => {}
            Event::Lost(peer, reason) => {
                let peer = peer.index();
                if told(&self.lost, peer) {
                    return Err(format!("rank {me} is told twice that {peer} is lost"));
                }
                if !self.severed && !self.ended.contains(&peer) {
                    return Err(format!("rank {me} has lost rank {peer}: {reason}"));
                }
                self.lost.push((me, peer, reason));
            }
        }
        Ok(())
    }

    pub fn transfer_completed(
        &mut self,
        me: usize,
        operation: usize,
        result: FabricResult<()>,
    ) -> Wrong {
        let Some(transfer) = self
            .transfers
            .get_mut(operation)
            .filter(|one| one.asker == me)
        else {
            return Err(format!(
                "rank {me} is told of the end of {operation}, which it never began"
            ));
        };
        if let Some(before) = &transfer.outcome {
            return Err(format!(
                "transfer {operation} ends twice: {before:?}, {result:?}"
            ));
        }
        let what = format!(
            "transfer {operation} of rank {me} with rank {} ({} of {} bytes)",
            transfer.owner,
            if transfer.put { "put" } else { "get" },
            transfer.memory.region().len()
        );
        let gone = self.severed || self.ended.contains(&transfer.owner);
        let grant = transfer.grant.map(|grant| &mut self.grants[grant]);
        match (&result, grant) {
            (Ok(()), Some(grant)) if transfer.permitted => {
                grant.served += 1;
                if grant.uses == Uses::Once && grant.served > 1 {
                    return Err(format!("{what}: the grant was for once"));
                }
                let length = transfer.memory.region().len();
                let (there, right) = match transfer.put {
                    true => (
                        grant.memory.part(transfer.offset, length),
                        bytes(transfer.number, length),
                    ),
                    false => (
                        transfer.memory.region(),
                        &bytes(grant.number, grant.memory.region().len())[transfer.offset..]
                            [..length],
                    ),
                };
                let mut came = vec![0; length];
                there.copy_to_slice(&mut came);
                if let Some(place) = (0..length).find(|place| came[*place] != right[*place]) {
                    return Err(format!(
                        "{what}: byte {place} is {:#x} instead of {:#x}",
                        came[place], right[place]
                    ));
                }
            }
            (Err(FabricError::NotGranted { .. }), Some(grant)) => {
                let taken = grant.uses == Uses::Once;
                if transfer.permitted && !grant.revoked && !taken {
                    return Err(format!("{what}: refused, and the grant is live"));
                }
            }
            (Err(FabricError::NotGranted { .. }), None) => {}
            (Err(FabricError::OutsideGrant { .. }), Some(_)) if !transfer.permitted => {}
            (Err(FabricError::PeerLost { .. }), _) if gone => {}
            (other, _) => return Err(format!("{what} ended with {other:?}")),
        }
        transfer.outcome = Some(result);
        poison(&transfer.memory);
        Ok(())
    }

    /// At rest: everything has ended, and memory was not touched.
    pub fn at_rest(&self) -> Wrong {
        for ((from, to), expected) in &self.expected {
            let gone = [from, to].iter().any(|rank| self.ended.contains(rank));
            if !gone && !self.severed && !expected.is_empty() {
                return Err(format!(
                    "rank {from} has sent {} to rank {to} that never came, first {:?}",
                    expected.len(),
                    expected[0]
                ));
            }
        }
        for (number, transfer) in self.transfers.iter().enumerate() {
            if self.ended.contains(&transfer.asker) {
                continue;
            }
            let Some(outcome) = &transfer.outcome else {
                return Err(format!("transfer {number} never ended: {transfer:?}"));
            };
            if transfer.memory.bytes().iter().any(|byte| *byte != POISON) {
                return Err(format!(
                    "transfer {number} wrote after its end ({outcome:?})"
                ));
            }
        }
        for (number, grant) in self.grants.iter().enumerate() {
            self.untouched(number, grant)?;
        }
        Ok(())
    }

    fn untouched(&self, number: usize, grant: &Grant) -> Wrong {
        let now = grant.memory.bytes();
        if grant.kept.as_ref().is_some_and(|kept| *kept != now) {
            return Err(format!(
                "grant {number} was written to after it was revoked"
            ));
        }
        let mine = |one: &&Transfer| one.grant == Some(number) && one.permitted;
        let asked = self.transfers.iter().filter(mine);
        let all = asked.clone().count();
        let gone = self.severed
            || self.ended.contains(&grant.owner)
            || asked.clone().any(|one| self.ended.contains(&one.asker));
        if grant.uses == Uses::Once && !grant.revoked && all > 0 && grant.served != 1 && !gone {
            return Err(format!(
                "grant {number} for once was asked for {all} times and served {} times",
                grant.served
            ));
        }
        if !grant.rights.writes() {
            return Ok(());
        }
        // Each byte is what a put wrote there, or was never written.
        let mut right: Vec<Option<u8>> = vec![None; now.len()];
        for put in self.transfers.iter().filter(|one| mine(one) && one.put) {
            let length = put.memory.region().len();
            for (place, byte) in right[put.offset..]
                .iter_mut()
                .zip(bytes(put.number, length))
            {
                *place = Some(*byte);
            }
        }
        let wrong =
            (0..now.len()).find(|place| now[*place] != BLANK && Some(now[*place]) != right[*place]);
        match wrong {
            Some(place) => Err(format!(
                "grant {number} holds {:#x} at {place}, which nobody put there",
                now[place]
            )),
            None => Ok(()),
        }
    }
}

fn poison(memory: &Memory) {
    let poison = vec![POISON; memory.region().len()];
    memory.region().copy_from_slice(&poison);
}
