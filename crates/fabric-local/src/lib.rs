//! Local fabric: ranks that are threads of one process; the simplest real fabric.
//!
//! ```text
//!   Local (rank 1) ── try_send ──► Mailbox of rank 0:  lane of 1 │■■■ │   credits: free places
//!   Local (rank 2) ── signal ────►                     lane of 2 │■   │
//!                                  └─ ring the bell ─► Local (rank 0) ── poll ──► Sink
//!   Local (rank 1) ── get ───────► Grants of rank 0: check, then one copy
//! ```
//!
//! * `mailbox`: one for each rank, with a lane for each sender, behind a lock that is held for one small
//!   copy.
//! * `grants`: what each rank permits. Checked under a lock; the copy is made outside of it.
//! * `bell`: where each rank sleeps, and the count of those awake.
//! * `watch`: for a watcher of the group: asks all ranks what they wait for, and ends their waits.
//!
//! A further channel is a group of the same ranks, with mailboxes, grants and bells of its own.
//!
//! Nothing here spins. A rank that leaves (drops its endpoint) is closed: what it sent before still arrives,
//! messages to it are refused with [`FabricError::PeerLost`]. If it leaves by a panic, the others are told.
//!
//! ```
//! use weft_fabric::{Fabric, Peer, Posted};
//! use weft_fabric_local::Local;
//!
//! let mut group = Local::group(2);
//! let mut one = group.pop().unwrap();
//! let sender = std::thread::spawn(move || one.try_send(Peer(0), &[0; 32], b"hello"));
//! assert_eq!(sender.join().unwrap(), Ok(Posted::Done));
//! ```
//!
//! # Safety
//! Bytes move between [`Region`]s, whose makers promise that they are valid while the transfer or the grant
//! lives; `grants` ensures that nothing moves by a grant after its end.

#![deny(unsafe_code)]

mod bell;
#[allow(unsafe_code)]
mod grants;
mod mailbox;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weft_atomic::{AtomicBool, Ordering};
use weft_fabric::grants::{Access, Grant, TransferRequest};
use weft_fabric::shared::BlocksOfProcess;
use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, MOST_CHANNELS, Next, Operation, Peer, Posted, Region,
    Result, Rights, SharedBlock, SharedBytes, SharedKey, SharedMemory, SignalTable, Sink, SyncKey,
    Token, Traffic, Uses, no_such_channel,
};

use bell::{Awake, LocalBell, Presence};
use grants::Grants;
use mailbox::{Batch, Closed, LaneItem, Mailbox};

pub use watch::Watch;

/// Largest data part of a message.
const DATA: usize = 16 * 1024;

/// From this size on a portal is faster: it copies once instead of twice and allocates nothing.
const BULK: usize = 8 * 1024;

/// The state that the members of a group share.
struct Group {
    start: Instant,
    members: Vec<Member>,
    awake: Awake,
    blocks: Mutex<BlocksOfProcess>,
    /// The further channels, at the group that is channel 0.
    channels: Vec<Channel>,
}

/// A further channel.
struct Channel {
    group: Arc<Group>,
    /// For each rank: whether it has opened the channel.
    opened: Vec<AtomicBool>,
}

impl Group {
    fn blocks(&self) -> MutexGuard<'_, BlocksOfProcess> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One rank as the others see it.
struct Member {
    mailbox: Mailbox,
    grants: Grants,
    bell: Arc<LocalBell>,
}

/// The endpoint of one rank of a group of threads.
pub struct Local {
    me: Peer,
    group: Arc<Group>,
    /// Whether this is channel 0.
    is_first: bool,
    signals: SignalTable,
    /// The result of the last poll, kept to reuse its memory.
    taken: Batch,
}

impl Local {
    /// A group of `count` ranks, in order, one for each thread.
    #[must_use]
    pub fn group(count: usize) -> Vec<Self> {
        Self::group_with_channels(count, 1)
    }

    /// As [`group`](Self::group), with this many channels: at least 1, at most [`MOST_CHANNELS`].
    #[must_use]
    pub fn group_with_channels(count: usize, channels: u32) -> Vec<Self> {
        let channels = channels.clamp(1, MOST_CHANNELS);
        let awake = Awake::new(count);
        // For each rank, by channel.
        let bells: Vec<Vec<Arc<LocalBell>>> = (0..count)
            .map(|_| {
                let presence = Arc::new(Presence::new(awake.clone()));
                let bell = |_| Arc::new(LocalBell::new(presence.clone()));
                let bells: Vec<_> = (0..channels).map(bell).collect();
                LocalBell::join(&bells);
                bells
            })
            .collect();
        let start = Instant::now();
        let group = |channel: u32, channels| Group {
            start,
            members: bells
                .iter()
                .map(|bells| Member {
                    mailbox: Mailbox::new(count),
                    grants: Grants::default(),
                    bell: bells[channel as usize].clone(),
                })
                .collect(),
            awake: awake.clone(),
            blocks: Mutex::default(),
            channels,
        };
        let others = (1..channels).map(|channel| Channel {
            group: Arc::new(group(channel, Vec::new())),
            opened: (0..count).map(|_| AtomicBool::new(false)).collect(),
        });
        let group = Arc::new(group(0, others.collect()));
        // Ranks are numbered by u32 everywhere; nobody has four thousand million threads.
        (0..u32::try_from(count).unwrap_or(u32::MAX))
            .map(|rank| Self {
                me: Peer(rank),
                group: group.clone(),
                is_first: true,
                signals: SignalTable::default(),
                taken: Batch::default(),
            })
            .collect()
    }

    /// The watcher of the group.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::over(Arc::clone(&self.group))
    }

    fn member(&self, peer: Peer) -> Result<&Member> {
        let known = self.group.members.get(peer.index());
        known.ok_or(FabricError::NoSuchPeer {
            peer,
            peers: self.peers(),
        })
    }

    /// Puts an item into the lane to `to`.
    fn post(&self, to: Peer, head: Option<(&Head, &[u8])>, key: SyncKey) -> Result<Posted> {
        let member = self.member(to)?;
        let posted = match head {
            Some((head, data)) => member.mailbox.message(self.me, head, data),
            None => member.mailbox.signal(self.me, key),
        };
        match posted {
            Ok(posted) => {
                if posted == Posted::Done {
                    member.bell.ring();
                }
                Ok(posted)
            }
            Err(Closed) => Err(lost(to)),
        }
    }

    /// Makes `copy` move bytes between the caller's memory and the window of a grant of `owner`.
    fn transfer(
        &self,
        owner: Peer,
        request: &TransferRequest,
        copy: impl FnOnce(&Region),
    ) -> Result<Posted> {
        match self.member(owner)?.grants.transfer(request, copy) {
            Ok(()) => Ok(Posted::Done),
            Err(refusal) => Err(refusal.error(owner, request)),
        }
    }
}

fn lost(peer: Peer) -> FabricError {
    FabricError::PeerLost {
        peer,
        reason: "it has left the group (its endpoint is closed)".into(),
    }
}

impl Fabric for Local {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> u32 {
        u32::try_from(self.group.members.len()).unwrap_or(u32::MAX)
    }

    fn limits(&self) -> Limits {
        Limits {
            data: DATA,
            bulk: BULK,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.group.members[self.me.index()].bell.clone()
    }

    fn now(&self) -> Duration {
        self.group.start.elapsed()
    }

    fn route(&self, _peer: Peer) -> &'static str {
        "local"
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if data.len() > DATA {
            return Err(FabricError::TooLong {
                length: data.len(),
                limit: DATA,
            });
        }
        self.post(to, Some((head, data)), SyncKey(0))
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    /// Its messages are found by looking at all peers.
    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let member = &self.group.members[self.me.index()];
        member.mailbox.take(budget, &mut self.taken);
        let mut found = self.taken.items.len();
        // There is room again: refused senders may retry.
        for refused in self.taken.refused.drain(..) {
            let sender = &self.group.members[refused as usize];
            sender.mailbox.tell_room();
            sender.bell.ring();
        }
        if std::mem::take(&mut self.taken.room) {
            found += 1;
        }
        for (from, item) in &self.taken.items {
            match item {
                LaneItem::Message { head, data } => {
                    sink.message(*from, head, SharedBytes::of(data));
                }
                LaneItem::Signal(key) => {
                    self.signals.arrive(*from, *key);
                    sink.signalled(*from, *key);
                }
            }
        }
        for (peer, reason) in self.taken.lost.drain(..) {
            found += 1;
            sink.lost(peer, &reason);
        }
        member.mailbox.give_back(&mut self.taken);
        found
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let grants = &self.group.members[self.me.index()].grants;
        grants
            .add(Grant::new(region, to, rights, uses))
            .ok_or_else(|| FabricError::System {
                what: format!(
                    "rank {} has made as many grants as fit; revoke some",
                    self.me
                ),
            })
    }

    /// Asking costs nothing here.
    fn offer(&mut self, _to: Peer, _token: Token) {}

    fn revoke(&mut self, token: Token) -> bool {
        self.group.members[self.me.index()].grants.revoke(token)
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        _operation: Operation,
    ) -> Result<Posted> {
        let request = TransferRequest {
            caller: self.me,
            token,
            offset,
            length: into.len() as u64,
            access: Access::Read,
        };
        self.transfer(from, &request, |window| {
            into.copy_from(window);
        })
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        _operation: Operation,
    ) -> Result<Posted> {
        let request = TransferRequest {
            caller: self.me,
            token,
            offset,
            length: source.len() as u64,
            access: Access::Write,
        };
        self.transfer(to, &request, |window| {
            window.copy_from(&source);
        })
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        self.post(to, None, key)
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        self.signals.count(from, key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        self.signals.take(from, key, count)
    }

    fn forget(&mut self, key: SyncKey) {
        self.signals.forget(key);
    }

    fn shares_memory(&self, peer: Peer) -> bool {
        self.member(peer).is_ok()
    }

    fn allocate_shared(&mut self, length: usize) -> Result<SharedBlock> {
        self.group.blocks().allocate(self.me, length)
    }

    fn release_shared(&mut self, key: SharedKey) -> bool {
        self.group.blocks().release(self.me, key)
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        self.member(peer)?;
        self.group.blocks().attach(peer, key, length)
    }

    fn is_asleep(&mut self, peer: Peer) -> bool {
        let member = self.member(peer);
        member.is_ok_and(|member| member.bell.is_asleep())
    }

    fn wake(&mut self, peer: Peer) {
        if let Ok(member) = self.member(peer) {
            member.bell.ring();
        }
    }

    /// Members are threads or fibers: where they run is not recorded.
    fn is_any_beside(&mut self, _: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        None
    }

    /// What was taken for sending is already in the receiver's memory.
    fn is_flushed(&mut self) -> bool {
        true
    }

    fn traffic(&self) -> Traffic {
        Traffic::none()
    }

    fn say_goodbye(&mut self) {}

    fn channels(&self) -> u32 {
        u32::try_from(1 + self.group.channels.len()).unwrap_or(1)
    }

    fn open_channel(&mut self, number: u32) -> Result<Box<dyn Fabric>> {
        let index = (number as usize).checked_sub(1);
        let channel = index.and_then(|index| self.group.channels.get(index));
        // Relaxed: all that matters is that one of two openers is refused.
        let free =
            |channel: &&Channel| !channel.opened[self.me.index()].swap(true, Ordering::Relaxed);
        let channel = channel
            .filter(free)
            .ok_or_else(|| no_such_channel(number, self.channels()))?;
        Ok(Box::new(Self {
            me: self.me,
            group: channel.group.clone(),
            is_first: false,
            signals: SignalTable::default(),
            taken: Batch::default(),
        }))
    }
}

impl Group {
    /// A rank leaves: it takes nothing more, and its grants end.
    fn leave(&self, me: Peer) {
        let mine = &self.members[me.index()];
        mine.grants.close();
        self.blocks().release_all_of(me);
        let refused = mine.mailbox.close();
        mine.bell.leave();
        if std::thread::panicking() {
            for other in &self.members {
                other.mailbox.tell_lost(me, "its thread panicked");
                other.bell.ring();
            }
        } else {
            for rank in refused {
                let sender = &self.members[rank as usize];
                sender.mailbox.tell_room();
                sender.bell.ring();
            }
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.is_first {
            // Also channels that it has not opened: others may have sent there.
            for channel in &self.group.channels {
                channel.group.leave(self.me);
            }
            self.group.leave(self.me);
        } else {
            let mine = &self.group.members[self.me.index()];
            mine.grants.close();
            self.group.blocks().release_all_of(self.me);
        }
    }
}

#[cfg(test)]
mod tests;
