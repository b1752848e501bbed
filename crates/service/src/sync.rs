//! Sync: counted signals without data, all to one or one to all.
//!
//! A sync is known by what it is: its kind, the one, and the many. Everybody who makes it from the same
//! list has the same key, so nothing is exchanged to make one, and a signal that comes before its
//! receiver has made the sync is kept by the fabric. Signals are counted per sender: a second one
//! before the first was taken counts for the next wait.

use weft_fabric::{Changes, Fabric, GUEST_KEY, Peer, Posted, SyncKey};

use crate::awaited::{Awaited, On};
use crate::common::Common;
use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result, busy, wrong_end};
use crate::table::Table;

/// Nodes that a text names.
const SHOWN: usize = 4;

/// Who signals whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncKind {
    /// The many signal, the one waits.
    AllToOne,
    /// The one signals, the many wait.
    OneToAll,
}

impl SyncKind {
    /// The kind of a number as C programs write it.
    ///
    /// # Errors
    /// [`Code::Invalid`].
    pub fn of(number: i32) -> Result<Self> {
        match number {
            0 => Ok(Self::AllToOne),
            1 => Ok(Self::OneToAll),
            _ => Err(Error::new(
                Code::Invalid,
                format!(
                    "{number} is no kind of sync: WEFT_SYNC_ALL_TO_ONE is 0, WEFT_SYNC_ONE_TO_ALL is 1"
                ),
            )),
        }
    }
}

/// What a sync is known by.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Identity {
    kind: SyncKind,
    one: u32,
    /// In order.
    many: Vec<u32>,
}

impl Identity {
    fn key(&self) -> SyncKey {
        // FNV-1a over what all nodes agree on, whatever they were built with.
        let words = [self.kind as u32, self.one];
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for word in words.iter().chain(&self.many) {
            for byte in word.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        SyncKey(GUEST_KEY | (hash ^ hash >> 62) & !GUEST_KEY)
    }
}

#[derive(Debug)]
struct End {
    identity: Identity,
    key: SyncKey,
    /// Made by `create`: waits. Otherwise by `open`: signals.
    waits: bool,
    /// How often it was made.
    users: u32,
    /// A thread is in a call on it.
    busy: bool,
    /// Whose signal the wait under way still needs.
    missing: Vec<u32>,
    /// Whom the signal under way has still to reach.
    unsent: Vec<u32>,
    error: Option<Error>,
    meter: Meter,
}

/// The syncs of a node.
#[derive(Debug)]
pub(crate) struct Syncs {
    ends: Table<End>,
    counts: Counts,
    /// Ends with signals that the fabric had no room for.
    stalled: Vec<i32>,
}

impl Syncs {
    pub(crate) fn new() -> Self {
        Self {
            ends: Table::new("sync"),
            counts: Counts::default(),
            stalled: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.stalled.is_empty()
    }

    fn end(&mut self, id: i32, waits: bool) -> Result<&mut End> {
        let end = self.ends.get(id)?;
        match (end.waits, waits) {
            (true, false) => Err(wrong_end(
                id,
                "end that waits",
                "create",
                "end that signals",
            )),
            (false, true) => Err(wrong_end(id, "end that signals", "open", "end that waits")),
            _ => Ok(end),
        }
    }
}

impl Syncs {
    /// Makes the end of a sync that waits (`waits`) or that signals. `nodes` begins with the one.
    pub(crate) fn make(
        &mut self,
        common: &Common,
        nodes: &[i32],
        kind: SyncKind,
        waits: bool,
    ) -> Result<i32> {
        let invalid = |what: String| Err(Error::new(Code::Invalid, what));
        if nodes.len() < 2 || nodes.len() > common.nodes.count() as usize {
            return invalid(format!(
                "a sync has 2 to {} nodes here, {} were given",
                common.nodes.count(),
                nodes.len()
            ));
        }
        let known: Vec<u32> = nodes
            .iter()
            .map(|node| common.nodes.node(*node))
            .collect::<Result<_>>()?;
        let one = known[0];
        let mut many = known[1..].to_vec();
        many.sort_unstable();
        if many.windows(2).any(|pair| pair[0] == pair[1]) || many.binary_search(&one).is_ok() {
            return invalid(format!(
                "a node stands twice in the list {nodes:?} of a sync"
            ));
        }
        let am_one = one == common.nodes.me();
        if !am_one && many.binary_search(&common.nodes.me()).is_err() {
            return invalid(format!(
                "node {} does not stand in the list {nodes:?} of the sync that it makes",
                common.nodes.me()
            ));
        }
        let one_waits = kind == SyncKind::AllToOne;
        if am_one != (one_waits == waits) {
            let (who, call) = if am_one {
                ("the one", "many")
            } else {
                ("one of the many", "one")
            };
            return invalid(format!(
                "node {} is {who} of this sync of kind {kind:?}: this call is for the {call}; {} instead",
                common.nodes.me(),
                if waits {
                    "open it and signal"
                } else {
                    "create it and wait"
                }
            ));
        }
        let identity = Identity { kind, one, many };
        let counts = &mut self.counts;
        *(if waits {
            &mut counts.creates
        } else {
            &mut counts.opens
        }) += 1;
        if let Some((id, end)) = self.ends.all().find(|(_, end)| end.identity == identity) {
            end.users += 1;
            return Ok(id);
        }
        let others = if am_one {
            identity.many.clone()
        } else {
            vec![one]
        };
        let made = self.ends.insert(End {
            key: identity.key(),
            identity,
            waits,
            users: 1,
            busy: false,
            missing: if waits { others } else { Vec::new() },
            unsent: Vec::new(),
            error: None,
            meter: Meter::default(),
        });
        if made.is_err() {
            *(if waits {
                &mut counts.creates
            } else {
                &mut counts.opens
            }) -= 1;
        }
        made
    }

    /// Gives an end back. Signals not taken are kept for who makes the same sync again.
    pub(crate) fn remove(&mut self, id: i32, waits: bool) -> Result<()> {
        let end = self.end(id, waits)?;
        if end.busy {
            return Err(busy(id));
        }
        end.users -= 1;
        if end.users == 0 {
            self.ends.remove(id);
        }
        let counts = &mut self.counts;
        *(if waits {
            &mut counts.unlinks
        } else {
            &mut counts.closes
        }) += 1;
        Ok(())
    }

    /// Begins to signal.
    pub(crate) fn begin_signal(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        id: i32,
    ) -> Result<()> {
        let end = self.end(id, false)?;
        if end.busy {
            return Err(busy(id));
        }
        end.busy = true;
        let Identity { kind, one, many } = &end.identity;
        end.unsent = match kind {
            SyncKind::AllToOne => vec![*one],
            SyncKind::OneToAll => many.iter().rev().copied().collect(),
        };
        self.advance(common, fabric, id);
        Ok(())
    }

    /// Sends what goes of a signal. True if something went.
    fn advance(&mut self, common: &mut Common, fabric: &mut dyn Fabric, id: i32) -> bool {
        let Ok(end) = self.ends.get(id) else {
            return false;
        };
        let mut moved = false;
        let mut reached = Vec::new();
        let mut blocked = Vec::new();
        while let Some(node) = end.unsent.pop() {
            // Not before what was sent to it earlier.
            let posted = if common.outbox.is_clear(node) {
                fabric.signal(Peer(node), end.key)
            } else {
                Ok(Posted::Retry)
            };
            match posted {
                Ok(Posted::Retry) => blocked.push(node),
                Ok(_) => {
                    moved = true;
                    reached.push(node);
                }
                Err(error) => {
                    moved = true;
                    end.error = Some(error.into());
                }
            }
        }
        if !blocked.is_empty() {
            blocked.reverse();
            end.unsent = blocked;
            self.stalled.push(id);
        }
        for node in reached {
            common.nodes.is_back(node);
        }
        moved
    }

    /// A node has signalled by this key.
    pub(crate) fn signalled(&mut self, changes: &mut Changes, key: SyncKey) {
        for (id, end) in self.ends.all() {
            if end.waits && end.key == key {
                changes.note(On::Sync(id).subject());
            }
        }
    }

    /// Tries again to signal.
    pub(crate) fn settle(&mut self, common: &mut Common, fabric: &mut dyn Fabric) -> bool {
        let mut moved = false;
        for id in std::mem::take(&mut self.stalled) {
            if self.advance(common, fabric, id) {
                common.changes.note(On::Sync(id).subject());
                moved = true;
            }
        }
        moved
    }

    /// Whether a signal under way has reached everybody. A node that is lost does not keep the others
    /// from being signalled; it is the error.
    pub(crate) fn poll_signal(
        &mut self,
        common: &Common,
        fabric: &dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<()>> {
        let end = match self.end(id, false) {
            Ok(end) => end,
            Err(error) => return Some(Err(error)),
        };
        if !end.unsent.is_empty() {
            return None;
        }
        end.busy = false;
        end.meter.latency += common.clock.read(fabric).saturating_sub(start);
        let result = end.error.take().map_or(Ok(()), Err);
        self.counts.writes += 1;
        Some(result)
    }

    /// Begins to wait.
    pub(crate) fn begin_wait(&mut self, id: i32) -> Result<()> {
        let end = self.end(id, true)?;
        if end.busy {
            return Err(busy(id));
        }
        end.busy = true;
        Ok(())
    }

    /// Whether each of the others has signalled. What has been taken when a node is lost is kept for
    /// the next wait.
    pub(crate) fn poll_wait(
        &mut self,
        common: &Common,
        fabric: &mut dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<()>> {
        let end = match self.end(id, true) {
            Ok(end) => end,
            Err(error) => return Some(Err(error)),
        };
        let key = end.key;
        end.missing
            .retain(|node| !fabric.take_signals(Peer(*node), key, 1));
        let result = if end.missing.is_empty() {
            let Identity { kind, one, many } = &end.identity;
            match kind {
                SyncKind::AllToOne => end.missing.extend(many),
                SyncKind::OneToAll => end.missing.push(*one),
            }
            Ok(())
        } else if !common.nodes.any_gone() {
            return None;
        } else {
            let missing = end.missing.clone();
            let lost = missing
                .into_iter()
                .find_map(|node| common.nodes.check_there(node).err())?;
            Err(lost)
        };
        let now = common.clock.read(fabric);
        let end = self.end(id, true).ok()?;
        end.busy = false;
        end.meter.latency += now.saturating_sub(start);
        self.counts.reads += u64::from(result.is_ok());
        Some(result)
    }

    /// What was counted of an id and of all.
    pub(crate) fn counters(&mut self, id: i32) -> Result<(Meter, Counts)> {
        let end = self.ends.get(id)?;
        if end.busy {
            return Err(busy(id));
        }
        let meter = end.meter;
        Ok((meter, self.counts))
    }

    /// What the call on an end waits for.
    pub(crate) fn awaited(&mut self, id: i32) -> Awaited {
        let Ok(end) = self.ends.get(id) else {
            return Awaited::of_any("a sync");
        };
        let (nodes, verb) = match end.waits {
            true => (end.missing.clone(), "to signal"),
            false => (end.unsent.clone(), "to take a signal"),
        };
        let (shown, more) = nodes.split_at(nodes.len().min(SHOWN));
        let listed: Vec<String> = shown.iter().map(u32::to_string).collect();
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let noun = if nodes.len() == 1 { "node" } else { "nodes" };
        Awaited {
            what: format!("{noun} {}{more} {verb}", listed.join(", ")),
            nodes,
        }
    }

    /// The call on an end is being unwound.
    pub(crate) fn abandon(&mut self, id: i32) {
        if let Ok(end) = self.ends.get(id) {
            end.busy = false;
            end.unsent.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_the_sync_is() {
        let identity = |kind, one, many: &[u32]| Identity {
            kind,
            one,
            many: many.to_vec(),
        };
        let keys = [
            identity(SyncKind::AllToOne, 0, &[1, 2]),
            identity(SyncKind::OneToAll, 0, &[1, 2]),
            identity(SyncKind::AllToOne, 1, &[0, 2]),
            identity(SyncKind::AllToOne, 0, &[1, 2, 3]),
            identity(SyncKind::AllToOne, 0, &[1, 258]),
        ]
        .map(|identity| identity.key().0);
        for (place, key) in keys.iter().enumerate() {
            assert_eq!(key & GUEST_KEY, GUEST_KEY);
            assert!(!keys[..place].contains(key));
        }
    }
}
