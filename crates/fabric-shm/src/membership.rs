//! Membership in the job: this process as a member, and its view of the others: which are lost and why, and which deaths
//! and aborts were reported. What all fabrics have in common is [`weft_fabric::Membership`]; this file has the part in
//! the segment.
//!
//! ```text
//!   join ──► joined ── leave ──► left        of this process, by its identity and run state in the segment
//!   peer     there ── lose ──► lost          for ever: a rank that is started anew has another process slot
//!            there, lost ── another generation ──► there     in the room of the job: see `slots.rs`
//! ```
//!
//! Here and in everything below the endpoint, peers are named by process slot; ranks are handled in `respawnable.rs`.
//!
//! *Lost* is not *dead*. A peer is lost once this rank no longer talks to its endpoint: it died, aborted, or wrote
//! something that no honest peer writes. It is dead when the launcher has reaped its process, which [`Segment::is_dead`]
//! says: only then does nothing of it run.
//!
//! # Ordering
//! * SYNC rank.joined: the rest of the identity is stored before `state` with Release; a peer that loads `state` by
//!   Acquire and finds it joined sees the rest.
//! * SYNC job.abort: the code is stored before `abort_set` and `aborted`, with Release; both are loaded by Acquire.
//! * SYNC job.changes: see `slots.rs`.
//! * SYNC rank.fences: see `poll_set.rs`.

use std::sync::Arc;

use weft_atomic::Ordering;
use weft_fabric::{FabricError, Membership, Peer, Posted, Result};
use weft_sys::{clock, random};

use crate::layout::ProcessState;
use crate::placement;
use crate::segment::Segment;
use crate::slots::End;

/// This process as a member of the job. See the [module page](self).
#[derive(Debug)]
pub(crate) struct JobMembership {
    segment: Arc<Segment>,
    /// The process slot of this process.
    me: u32,
    /// The peers, and which of them are lost.
    peers: Membership,
    /// It was told that a rank has aborted.
    abort_told: bool,
    /// How many of the launcher's changes were told.
    changes_told: u32,
    /// Of each process slot: which of the processes that have it one after the other is known here.
    generations: Vec<u32>,
    /// What peers read to prove that they reach us. Never changed.
    _secret: Box<[u8; 16]>,
}

impl JobMembership {
    /// Takes a process slot and shows who has it. `fences`: this process executes a full fence when another one asks
    /// the kernel for it.
    ///
    /// # Errors
    /// If there is no such slot or somebody has it.
    pub fn join(segment: Arc<Segment>, slot: u32, fences: bool) -> Result<Self> {
        let slots = segment.shape().process_slots;
        if slot >= slots {
            return Err(FabricError::System {
                what: format!(
                    "rank {slot} was to join a job of {slots} ranks: the launcher and the environment \
                     of this process disagree"
                ),
            });
        }
        let control = segment.control(slot);
        let identity = &control.identity;
        if let Err(other) = identity.process.compare_exchange(
            0,
            std::process::id(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            return Err(FabricError::System {
                what: format!(
                    "rank {slot} has joined already, as process {other}: one process of each rank \
                     may initialise MPI, and only once"
                ),
            });
        }
        let generations = (0..slots).map(|slot| segment.generation(slot)).collect();
        let secret = random::bytes::<16>().map_err(|error| FabricError::System {
            what: error.to_string(),
        })?;
        let secret = Box::new(secret);
        for (word, bytes) in identity.secret.iter().zip(secret.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let address = secret.as_ptr().addr() as u64;
        identity.secret_address.store(address, Ordering::Relaxed);
        identity.since.store(clock::monotonic(), Ordering::Relaxed);
        if fences {
            // Before we first sleep or demote a lane: see `poll_set.rs`. SYNC rank.fences.
            control.fences.store(1, Ordering::Release);
        }
        placement::show(&segment, slot);
        segment.header().run_states.join(slot);
        let members = Self {
            segment,
            me: slot,
            peers: Membership::new(slots),
            abort_told: false,
            changes_told: 0,
            generations,
            _secret: secret,
        };
        members.set_state(ProcessState::Joined);
        Ok(members)
    }

    /// The same process in another channel of its job. `segment`: as that channel sees it. `fences`: as for [`Self::join`].
    ///
    /// # Errors
    /// If it has opened the channel before.
    pub fn open_channel(&self, segment: Arc<Segment>, fences: bool) -> Result<Self> {
        let control = segment.control(self.me);
        if fences {
            // SYNC rank.fences.
            control.fences.store(1, Ordering::Release);
        }
        // From now on the launcher waits for what is heard in this channel, too.
        let opened = control.identity.state.compare_exchange(
            ProcessState::Absent as u32,
            ProcessState::Joined as u32,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if opened.is_err() {
            return Err(FabricError::System {
                what: format!("rank {} has opened this channel before", self.me),
            });
        }
        let slots = segment.shape().process_slots;
        Ok(Self {
            peers: Membership::new(slots),
            me: self.me,
            abort_told: false,
            changes_told: 0,
            generations: (0..slots).map(|slot| segment.generation(slot)).collect(),
            segment,
            _secret: Box::default(),
        })
    }

    /// The process slot of this process.
    #[inline]
    pub fn me(&self) -> Peer {
        Peer(self.me)
    }

    /// The job's segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// How many process slots there are.
    #[inline]
    pub fn process_slots(&self) -> u32 {
        self.peers.peers()
    }

    /// Shows how far this process has come.
    pub fn set_state(&self, state: ProcessState) {
        let shown = &self.segment.identity(self.me).state;
        // SYNC rank.joined.
        shown.store(state as u32, Ordering::Release);
    }

    /// This process is never at what others have in the segment: its place there is all that it has.
    pub fn mark_state_only(&self) {
        let state_only = &self.segment.identity(self.me).state_only;
        state_only.store(1, Ordering::Release);
    }

    /// Leaves the job in order: this process takes no more messages.
    pub fn leave(&self) {
        self.set_state(ProcessState::Finalised);
        self.segment.header().run_states.leave(self.me);
    }

    /// Shows that this process aborts the job. The others must be woken to see it.
    pub fn abort(&self, code: i32) {
        let identity = self.segment.identity(self.me);
        identity.abort_code.store(code, Ordering::Relaxed);
        // Release: SYNC job.abort.
        identity.abort_set.store(1, Ordering::Release);
        let _ = self.segment.header().aborted.compare_exchange(
            0,
            self.me + 1,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Refuses peers that do not exist or are lost.
    pub fn check(&self, peer: Peer) -> Result<()> {
        self.peers.check(peer)
    }

    /// What to answer when the lane to a peer is full: the peer may have left.
    #[cold]
    pub fn lane_is_full(&self, peer: Peer) -> Result<Posted> {
        let state = &self.segment.identity(peer.0).state;
        // SYNC rank.joined.
        if ProcessState::from_number(state.load(Ordering::Acquire)) == ProcessState::Finalised {
            return Err(FabricError::PeerLost {
                peer,
                reason: "it has left the job and takes no more messages".into(),
            });
        }
        Ok(Posted::Retry)
    }

    /// Whether somebody sleeps at the doorbell of a peer, or is about to.
    #[inline]
    pub fn is_asleep(&self, peer: Peer) -> bool {
        let known = peer.0 < self.process_slots();
        known && self.segment.control(peer.0).doorbell.somebody_sleeps()
    }

    /// Whether a peer is lost.
    pub fn is_lost(&self, peer: Peer) -> bool {
        self.peers.is_lost(peer)
    }

    /// A peer is lost. False if it was before.
    #[must_use = "the first loss of a peer is said to the sink, once"]
    pub fn lose(&mut self, peer: Peer, reason: &str) -> bool {
        self.peers.lose(peer, reason)
    }

    /// Whether there is an abort or a change that was not told.
    #[inline]
    pub fn has_untold(&self) -> bool {
        let header = self.segment.header();
        (header.aborted.load(Ordering::Relaxed) != 0 && !self.abort_told)
            || header.changes.load(Ordering::Relaxed) != self.changes_told
    }

    /// The peer that was the first to abort, and what to tell of it: once, and nothing if it is this process.
    pub fn tell_abort(&mut self) -> Option<(Peer, String)> {
        if self.abort_told {
            return None;
        }
        // SYNC job.abort.
        let aborted = self.segment.header().aborted.load(Ordering::Acquire);
        if aborted == 0 {
            return None;
        }
        self.abort_told = true;
        let slot = aborted.wrapping_sub(1);
        if slot >= self.process_slots() || slot == self.me {
            return None;
        }
        let identity = self.segment.identity(slot);
        let code = identity.abort_code.load(Ordering::Relaxed);
        Some((
            Peer(slot),
            format!("it has aborted the job with code {code}"),
        ))
    }

    /// Whether the launcher has told of changes since this was last asked.
    pub fn tell_changes(&mut self) -> bool {
        let before = self.changes_told;
        self.changes_told = self.segment.changes();
        self.changes_told != before
    }

    /// How many of the launcher's changes were told.
    pub fn changes_told(&self) -> u32 {
        self.changes_told
    }

    /// How the process of a peer that is not lost yet ended. To be asked after [`tell_changes`](Self::tell_changes).
    pub fn untold_end_of(&self, peer: Peer) -> Option<End> {
        if peer == self.me() || self.is_lost(peer) {
            return None;
        }
        self.segment.end_of(peer.0)
    }

    /// Whether another process has the slot of a peer than the one known here; from now on that one is.
    pub fn is_replaced(&mut self, peer: Peer) -> bool {
        let generation = self.segment.generation(peer.0);
        let known = std::mem::replace(&mut self.generations[peer.index()], generation);
        if known == generation || peer == self.me() {
            return false;
        }
        self.peers.find_again(peer);
        true
    }

    /// All changes that were told are carried out: nothing here is at what they have ended.
    pub fn carried_out_changes(&self) {
        self.segment.note_heard(self.me, self.changes_told);
    }
}
