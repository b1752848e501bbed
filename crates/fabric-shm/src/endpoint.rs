//! One rank's endpoint: sending, and the [`Fabric`] that the layers above see.
//!
//! A send is: room in the lane? — write the slot — fence — hot? — announced? Everything that is rare
//! stands in `#[cold]` functions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weft_atomic::{FenceMode, Ordering};
use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, Operation, Peer, Posted, Region, Result, Rights,
    SharedBytes, SignalTable, Sink, SyncKey, Token, Uses,
};
use weft_sys::{Availability, clock, membarrier};

use crate::assist::Help;
use crate::bell::ShmBell;
use crate::chunks::Chunks;
use crate::grants::{Access, GrantTable};
use crate::lane::{InLane, Kind, OutLane};
use crate::layout::{ProcessState, Segment};
use crate::news::{self, Attention};
use crate::options::Use;
use crate::portal::{Asked, Way};

/// One rank's endpoint of a job on one host.
#[derive(Debug)]
pub struct Shm {
    pub(crate) segment: Arc<Segment>,
    pub(crate) me: u32,
    pub(crate) out: Vec<OutLane>,
    pub(crate) lanes: Vec<InLane>,
    pub(crate) attention: Attention,
    pub(crate) signals: SignalTable,
    pub(crate) bell: Arc<ShmBell>,
    pub(crate) grants: GrantTable,
    pub(crate) ways: Vec<Way>,
    pub(crate) chunks: Chunks,
    /// Transfers of peers to help with, oldest first.
    pub(crate) helps: VecDeque<Help>,
    /// Names the latest transfer that we asked for help with.
    pub(crate) ticket: u32,
    pub(crate) assist: Use,
    /// How long a reader is waited for whose grant is revoked.
    pub(crate) patience: Duration,
    /// Why cross-memory attach must not be used, if so.
    pub(crate) options_refuse: Option<Arc<str>>,
    /// Peers that are gone, and why.
    pub(crate) gone: HashMap<u32, String>,
    /// A rank has aborted, and we have said so.
    pub(crate) abort_said: bool,
    /// How much of what the launcher says about the dead was heard.
    pub(crate) changes_seen: u32,
    /// The next poll begins with the lanes that are not hot.
    pub(crate) cold_first: bool,
    /// Where the next poll begins among the hot lanes.
    pub(crate) turn: usize,
    /// This process executes a full fence when another one asks the kernel for it.
    pub(crate) registered: bool,
    pub(crate) data: usize,
    pub(crate) bulk: usize,
    /// What peers read to prove that they reach us. Never changed.
    pub(crate) _secret: Box<[u8; 16]>,
}

impl Shm {
    /// Tells the launcher how far this rank has come.
    pub fn set_state(&self, state: ProcessState) {
        self.segment
            .control(self.me)
            .identity
            .state
            .store(state as u32, Ordering::Release);
    }

    /// Records that this rank aborts the job, for the launcher and for all others, and wakes them.
    pub fn abort(&self, code: i32) {
        let identity = &self.segment.control(self.me).identity;
        identity.abort_code.store(code, Ordering::Relaxed);
        // Release: SYNC job.abort.
        identity.abort_set.store(1, Ordering::Release);
        let _ = self.segment.header().aborted.compare_exchange(
            0,
            self.me + 1,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        for rank in 0..self.segment.shape().ranks {
            self.bell.wake_regardless(rank);
        }
    }

    /// Refuses peers that do not exist or are gone.
    pub(crate) fn known(&self, peer: Peer) -> Result<()> {
        if peer.0 >= self.segment.shape().ranks {
            return Err(FabricError::NoSuchPeer {
                peer,
                peers: self.segment.shape().ranks,
            });
        }
        match self.gone.get(&peer.0) {
            None => Ok(()),
            Some(reason) => Err(FabricError::PeerLost {
                peer,
                reason: reason.clone(),
            }),
        }
    }

    /// Sends one slot's worth of anything.
    #[inline]
    pub(crate) fn post(
        &mut self,
        to: Peer,
        kind: Kind,
        head: &Head,
        data: SharedBytes<'_>,
    ) -> Result<Posted> {
        match self.out.get_mut(to.index()) {
            Some(lane) if !lane.closed => {
                if !lane.push(kind, head, data) {
                    return self.refused(to);
                }
            }
            _ => {
                self.known(to)?;
                return Ok(Posted::Retry);
            }
        }
        self.tell(to);
        Ok(Posted::Done)
    }

    /// Tells a peer of what was just put into its lane. See `news.rs`.
    #[inline]
    pub(crate) fn tell(&mut self, to: Peer) {
        let mode = self.mode_towards(to);
        mode.light();
        let control = self.segment.control(to.0);
        if !self.out[to.index()].is_hot() {
            if mode == FenceMode::Asymmetric {
                FenceMode::Symmetric.light();
            }
            news::announce(control, self.out.len(), self.me as usize);
        }
        if control.doorbell.somebody_sleeps() {
            self.bell.wake(to.0);
        }
    }

    /// Tells a peer that its lane to us has room again, in case it waits for that.
    #[cold]
    pub(crate) fn tell_room(&mut self, to: Peer) {
        self.mode_towards(to).light();
        if self.segment.control(to.0).doorbell.somebody_sleeps() {
            self.bell.wake(to.0);
        }
    }

    /// How to fence between publishing to a peer and looking whether it sleeps.
    #[inline]
    fn mode_towards(&mut self, to: Peer) -> FenceMode {
        let lane = &mut self.out[to.index()];
        if lane.light {
            return FenceMode::Asymmetric;
        }
        // SYNC rank.fences.
        let fences = self.segment.control(to.0).fences.load(Ordering::Acquire);
        lane.light = self.registered && fences == 1;
        if lane.light {
            FenceMode::Asymmetric
        } else {
            FenceMode::Symmetric
        }
    }

    #[cold]
    fn refused(&self, to: Peer) -> Result<Posted> {
        let state = &self.segment.control(to.0).identity.state;
        if ProcessState::from_number(state.load(Ordering::Acquire)) == ProcessState::Finalised {
            return Err(FabricError::PeerLost {
                peer: to,
                reason: "it has left the job and takes no more messages".into(),
            });
        }
        Ok(Posted::Retry)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // Whose memory it was may use it as it likes from now on.
        for token in self.grants.outstanding() {
            self.end_grant(token);
        }
        self.set_state(ProcessState::Finalised);
        self.segment.header().run_states.leave(self.me);
    }
}

impl Fabric for Shm {
    fn me(&self) -> Peer {
        Peer(self.me)
    }

    fn peers(&self) -> u32 {
        self.segment.shape().ranks
    }

    fn limits(&self) -> Limits {
        Limits {
            data: self.data,
            bulk: self.bulk,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::monotonic())
    }

    fn route(&self, peer: Peer) -> &'static str {
        let way = match self.ways.get(peer.index()) {
            _ if peer.0 == self.me => &Way::Copy,
            Some(Way::Unknown) => &self.prove(peer),
            Some(way) => way,
            None => return "nowhere",
        };
        match way {
            Way::Copy => "shm within one process",
            Way::Attach(_) => "shm",
            Way::Chunks(_) => "shm without cross-memory attach",
            Way::Unknown => "shm, peer not there yet",
        }
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if data.len() > self.data {
            return Err(FabricError::TooLong {
                length: data.len(),
                limit: self.data,
            });
        }
        self.post(to, Kind::Message, head, SharedBytes::of(data))
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        if self.is_quiet() {
            return 0;
        }
        self.receive(sink, budget)
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        if let Some(peer) = to {
            self.known(peer)?;
        }
        self.grants.publish(&self.segment, region, to, rights, uses)
    }

    /// Asking costs nothing here.
    fn offer(&mut self, _to: Peer, _token: Token) {}

    fn revoke(&mut self, token: Token) -> bool {
        self.end_grant(token)
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.transfer(Asked {
            peer: from,
            token,
            offset,
            region: into,
            access: Access::Read,
            operation,
        })
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.transfer(Asked {
            peer: to,
            token,
            offset,
            region: source,
            access: Access::Write,
            operation,
        })
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let mut head = [0; weft_fabric::HEAD];
        head[..8].copy_from_slice(&key.0.to_ne_bytes());
        self.post(to, Kind::Signal, &head, SharedBytes::of(&[]))
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

    /// What was taken for sending lies in the memory of the receiver already.
    fn is_flushed(&mut self) -> bool {
        true
    }

    fn farewell(&mut self) {}
}

/// Whether ranks of this host can be fenced lightly, for `weft info`.
pub fn fences_probe() -> Availability {
    membarrier::register_all()
}
