//! Endpoint of one simulated rank, its bell and its handle.

use std::sync::Arc;
use std::time::Duration;

use weft_fabric::grants::{Access, Grant, TransferRequest};
use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, Load, Next, Operation, Peer, Posted, Region, Result,
    Rights, SharedBlock, SharedBytes, SharedKey, SharedMemory, SignalTable, Sink, SyncKey, Ticket,
    Token, Traffic, Uses,
};

use crate::grants::Transfer;
use crate::inbox::Delivery;
use crate::scheduler::Scheduler;

/// The peer with this index. Ranks are numbered by u32 everywhere.
pub(crate) fn peer(index: usize) -> Peer {
    Peer(u32::try_from(index).unwrap_or(u32::MAX))
}

/// The endpoint of one simulated rank.
pub struct SimEndpoint {
    scheduler: Arc<Scheduler>,
    me: Peer,
    peers: u32,
    limits: Limits,
    shares_memory: bool,
    signals: SignalTable,
    /// The result of the last poll, kept to reuse its memory.
    found: Vec<Delivery>,
}

impl SimEndpoint {
    pub(crate) fn new(scheduler: Arc<Scheduler>, rank: usize) -> Self {
        let machine = scheduler.machine();
        let (peers, limits) = (machine.peers(), machine.limits());
        let shares_memory = machine.shares_memory();
        drop(machine);
        Self {
            scheduler,
            me: peer(rank),
            peers,
            limits,
            shares_memory,
            signals: SignalTable::default(),
            found: Vec::new(),
        }
    }

    /// The functions of a rank besides communication. It can be kept when the endpoint is given away.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            scheduler: self.scheduler.clone(),
            me: self.me,
        }
    }

    /// Counts a post that was taken.
    fn posted(&self, posted: Result<Posted>) -> Result<Posted> {
        if matches!(posted, Ok(Posted::Done | Posted::Pending)) {
            self.scheduler.acted(self.me.0);
        }
        posted
    }

    /// Asks `owner` for a transfer between its grant and the caller's memory.
    fn transfer(
        &self,
        owner: Peer,
        (token, offset): (Token, u64),
        access: Access,
        lent: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let request = TransferRequest {
            caller: self.me,
            token,
            offset,
            length: lent.len() as u64,
            access,
        };
        let transfer = Transfer {
            owner,
            request,
            lent,
            operation,
        };
        let posted = self.scheduler.machine().transfer(transfer);
        self.posted(posted)
    }

    /// See [`Handle::set_note`].
    pub fn set_note(&self, note: impl Into<String>) {
        self.handle().set_note(note);
    }
}

/// The simulated processor of a rank.
#[derive(Clone)]
pub struct Handle {
    scheduler: Arc<Scheduler>,
    me: Peer,
}

impl Handle {
    /// Sets what this rank waits for, in words that complete "rank 3 waits for …". They are shown if it waits
    /// for ever. Any thread may call this; an empty note shows nothing.
    pub fn set_note(&self, note: impl Into<String>) {
        self.scheduler.machine().set_note(self.me.0, note.into());
    }

    /// Computes for `time`, in virtual time. To be called by the thread of the rank.
    pub fn spend(&self, time: Duration) {
        self.scheduler.compute(self.me.0, time);
    }

    /// The clock of this rank.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.scheduler.machine().clock(self.me.0))
    }
}

impl Bell for Handle {
    fn prepare(&self) -> Ticket {
        self.scheduler.machine().prepare_sleep(self.me.0);
        Ticket(0)
    }

    fn cancel(&self, _ticket: Ticket) {}

    fn wait(&self, _ticket: Ticket, limit: Option<Duration>) {
        self.scheduler.sleep(self.me.0, limit);
    }

    fn ring(&self) {
        self.scheduler.machine().ring(self.me.0);
    }

    fn load(&self) -> Load {
        Load { awake: 0, cores: 1 }
    }

    fn yield_core(&self) -> bool {
        // Others get to run only when this rank sleeps.
        false
    }

    fn polls_per_clock_read(&self) -> u32 {
        weft_fabric::waiting::POLLS_PER_CLOCK_READ
    }
}

impl Fabric for SimEndpoint {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> u32 {
        self.peers
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(self.handle())
    }

    fn now(&self) -> Duration {
        self.handle().now()
    }

    fn route(&self, _peer: Peer) -> &'static str {
        "sim"
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        let posted = self.scheduler.machine().message(self.me.0, to, head, data);
        self.posted(posted)
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    /// Its messages are found by looking at all peers.
    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        self.scheduler.poll(self.me.0, budget, &mut self.found);
        let count = self.found.len();
        for found in self.found.drain(..) {
            match found {
                Delivery::Message { from, head, data } => {
                    sink.message(from, &head, SharedBytes::of(&data));
                }
                Delivery::Signal { from, key } => {
                    self.signals.arrive(from, key);
                    sink.signalled(from, key);
                }
                Delivery::Room | Delivery::Wake => {}
                Delivery::TransferCompleted(operation, result) => {
                    sink.transfer_completed(operation, result)
                }
                Delivery::Lost(peer, reason) => sink.lost(peer, reason),
            }
        }
        count
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let grant = Grant::new(region, to, rights, uses);
        let token = self.scheduler.machine().grant(self.me.0, grant);
        self.scheduler.acted(self.me.0);
        token.ok_or_else(|| FabricError::System {
            what: format!(
                "rank {} has made as many grants as fit; revoke some",
                self.me
            ),
        })
    }

    /// Asking costs nothing here.
    fn offer(&mut self, _to: Peer, _token: Token) {}

    fn revoke(&mut self, token: Token) -> bool {
        let live = self.scheduler.machine().revoke(self.me.0, token);
        self.scheduler.acted(self.me.0);
        live
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.transfer(from, (token, offset), Access::Read, into, operation)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.transfer(to, (token, offset), Access::Write, source, operation)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let posted = self.scheduler.machine().signal(self.me.0, to, key);
        self.posted(posted)
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
        peer.0 < self.peers && self.shares_memory
    }

    fn allocate_shared(&mut self, length: usize) -> Result<SharedBlock> {
        let block = self.scheduler.machine().allocate_shared(self.me, length);
        self.scheduler.acted(self.me.0);
        block
    }

    fn release_shared(&mut self, key: SharedKey) -> bool {
        let live = self.scheduler.machine().release_shared(self.me, key);
        self.scheduler.acted(self.me.0);
        live
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        let machine = self.scheduler.machine();
        machine.attach_shared((self.me, peer), key, length)
    }

    /// A waiting rank always sleeps.
    fn is_asleep(&mut self, peer: Peer) -> bool {
        self.shares_memory(peer) && peer != self.me
    }

    fn wake(&mut self, peer: Peer) {
        if self.is_asleep(peer) {
            self.scheduler.machine().wake(self.me.0, peer.0);
            self.scheduler.acted(self.me.0);
        }
    }

    fn is_any_beside(&mut self, _: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        None
    }

    /// What was taken for sending belongs to the network: it arrives whether or not its sender has ended.
    fn is_flushed(&mut self) -> bool {
        true
    }

    /// Tests that need the messages under way ask the machine, or count themselves.
    fn traffic(&self) -> Traffic {
        Traffic::none()
    }

    fn say_goodbye(&mut self) {}
}

impl Drop for SimEndpoint {
    fn drop(&mut self) {
        self.scheduler.machine().close(self.me.0);
    }
}
