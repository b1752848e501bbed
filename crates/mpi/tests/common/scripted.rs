//! A fabric that a test writes: what each look finds, what room there is, and what became of the memory that the
//! engine lends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, Load, Next, Operation, Peer, Posted, Region, Result,
    Rights, SharedBlock, SharedBytes, SharedKey, SharedMemory, Sink, SyncKey, Ticket, Token,
    Traffic, Uses,
};
use weft_mpi::Process;

/// From so many bytes on a message is pulled.
pub const BULK: usize = 4096;

/// Something that a look finds.
#[derive(Clone, Debug)]
pub enum Found {
    Message(Peer, Head, Vec<u8>),
    TransferCompleted(Operation, Result<()>),
    Lost(Peer),
    Signalled(Peer, SyncKey),
}

/// A get of the engine that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Get {
    pub from: Peer,
    pub token: Token,
    pub into: Region,
    pub operation: Operation,
}

#[derive(Default)]
pub struct State {
    /// What the next looks find.
    pub looks: VecDeque<Vec<Found>>,
    /// What was sent.
    pub sent: Vec<(Peer, Head, Vec<u8>)>,
    /// Whether nothing can be sent.
    pub full: bool,
    /// So many gets are refused for want of room.
    pub refused_gets: usize,
    /// Answered to a grant, if set.
    pub no_grant: bool,
    /// Gets under way.
    pub gets: Vec<Get>,
    /// Each look ends all gets, with bytes of this value.
    pub moves: Option<u8>,
    /// Grants that are live.
    pub grants: BTreeMap<u64, Region>,
    pub lost: Vec<Peer>,
    /// A get from a lost peer is begun, and fails later.
    pub says_loss_late: bool,
    next_token: u64,
}

/// The test's side of the fabric.
#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<State>>);

struct Endpoint(Script);

struct NoBell;

/// Rank 0 of so many over a script.
pub fn rank_zero(peers: u32) -> (Arc<Process>, Script) {
    let script = Script::default();
    let endpoint = Scripted {
        endpoint: Endpoint(script.clone()),
        peers,
    };
    (Process::new(Box::new(endpoint)), script)
}

struct Scripted {
    endpoint: Endpoint,
    peers: u32,
}

impl Script {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next look finds this.
    pub fn look(&self, found: Vec<Found>) {
        self.state().looks.push_back(found);
    }

    /// The only get under way.
    pub fn get(&self) -> Get {
        let state = self.state();
        assert_eq!(state.gets.len(), 1, "one get is under way");
        state.gets[0]
    }

    /// Moves the bytes of a get; the answer is what a look finds then.
    pub fn finish(&self, get: Get, bytes: &[u8]) -> Found {
        get.into.copy_from_slice(&bytes[..get.into.len()]);
        self.drop_get(get);
        Found::TransferCompleted(get.operation, Ok(()))
    }

    /// The sender of a get is lost: nothing moves any more.
    pub fn fail(&self, get: Get) -> Found {
        self.drop_get(get);
        Found::TransferCompleted(get.operation, Err(lost(get.from)))
    }

    fn drop_get(&self, get: Get) {
        let gets = &mut self.state().gets;
        let place = gets.iter().position(|one| one.operation == get.operation);
        gets.remove(place.expect("it was under way"));
    }

    fn move_all(&self) -> Vec<Found> {
        let mut state = self.state();
        let Some(value) = state.moves else {
            return Vec::new();
        };
        let moved = state.gets.drain(..).map(|get| {
            get.into.copy_from_slice(&vec![value; get.into.len()]);
            Found::TransferCompleted(get.operation, Ok(()))
        });
        moved.collect()
    }

    /// Whether the fabric may still touch this memory.
    pub fn uses(&self, memory: &[u8]) -> bool {
        let range = memory.as_ptr_range();
        let overlaps = |region: &Region| range.contains(&region.as_ptr().cast_const());
        let state = self.state();
        state.gets.iter().any(|get| overlaps(&get.into)) || state.grants.values().any(overlaps)
    }
}

fn lost(peer: Peer) -> FabricError {
    FabricError::PeerLost {
        peer,
        reason: "the script says so".into(),
    }
}

impl Fabric for Scripted {
    fn me(&self) -> Peer {
        Peer(0)
    }

    fn peers(&self) -> u32 {
        self.peers
    }

    fn limits(&self) -> Limits {
        Limits {
            data: BULK,
            bulk: BULK,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(NoBell)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn route(&self, _: Peer) -> &'static str {
        "a script"
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        let mut state = self.endpoint.0.state();
        if state.lost.contains(&to) {
            return Err(lost(to));
        }
        if state.full {
            return Ok(Posted::Retry);
        }
        state.sent.push((to, *head, data.to_vec()));
        Ok(Posted::Done)
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, _: usize) -> usize {
        let found = self.endpoint.0.state().looks.pop_front();
        let mut found = found.unwrap_or_default();
        found.extend(self.endpoint.0.move_all());
        let count = found.len();
        for one in found {
            match one {
                Found::Message(from, head, data) => {
                    sink.message(from, &head, SharedBytes::of(&data));
                }
                Found::TransferCompleted(operation, result) => {
                    sink.transfer_completed(operation, result)
                }
                Found::Lost(peer) => {
                    self.endpoint.0.state().lost.push(peer);
                    sink.lost(peer, "the script says so");
                }
                Found::Signalled(from, key) => sink.signalled(from, key),
            }
        }
        count
    }

    fn grant(&mut self, region: Region, _: Option<Peer>, _: Rights, _: Uses) -> Result<Token> {
        let mut state = self.endpoint.0.state();
        if state.no_grant {
            return Err(FabricError::System {
                what: "no more grants fit".into(),
            });
        }
        state.next_token += 1;
        let token = state.next_token;
        state.grants.insert(token, region);
        Ok(Token(token))
    }

    fn offer(&mut self, _: Peer, _: Token) {}

    fn revoke(&mut self, token: Token) -> bool {
        self.endpoint.0.state().grants.remove(&token.0).is_some()
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        _: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let mut state = self.endpoint.0.state();
        if state.lost.contains(&from) && !state.says_loss_late {
            return Err(lost(from));
        }
        if state.refused_gets > 0 {
            state.refused_gets -= 1;
            return Ok(Posted::Retry);
        }
        state.gets.push(Get {
            from,
            token,
            into,
            operation,
        });
        Ok(Posted::Pending)
    }

    fn put(&mut self, _: Peer, _: Token, _: u64, _: Region, _: Operation) -> Result<Posted> {
        unreachable!("the engine gets, and never puts")
    }

    fn signal(&mut self, to: Peer, _: SyncKey) -> Result<Posted> {
        let state = self.endpoint.0.state();
        if state.lost.contains(&to) {
            return Err(lost(to));
        }
        Ok(Posted::Done)
    }

    fn signals(&self, _: Peer, _: SyncKey) -> u64 {
        0
    }

    fn take_signals(&mut self, _: Peer, _: SyncKey, _: u64) -> bool {
        false
    }

    fn forget(&mut self, _: SyncKey) {}

    fn shares_memory(&self, _: Peer) -> bool {
        false
    }

    fn allocate_shared(&mut self, _: usize) -> Result<SharedBlock> {
        Err(FabricError::NotShared { peer: Peer(0) })
    }

    fn release_shared(&mut self, _: SharedKey) -> bool {
        false
    }

    fn attach_shared(&mut self, peer: Peer, _: SharedKey, _: usize) -> Result<SharedMemory> {
        Err(FabricError::NotShared { peer })
    }

    fn is_asleep(&mut self, _: Peer) -> bool {
        false
    }

    fn wake(&mut self, _: Peer) {}

    fn is_any_beside(&mut self, _: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        None
    }

    fn is_flushed(&mut self) -> bool {
        true
    }

    fn traffic(&self) -> Traffic {
        Traffic::none()
    }

    fn say_goodbye(&mut self) {}
}

impl Bell for NoBell {
    fn prepare(&self) -> Ticket {
        Ticket(0)
    }

    fn cancel(&self, _: Ticket) {}

    fn wait(&self, _: Ticket, _: Option<Duration>) {
        std::thread::yield_now();
    }

    fn ring(&self) {}

    fn load(&self) -> Load {
        Load { awake: 0, cores: 1 }
    }

    fn yield_core(&self) -> bool {
        false
    }

    fn polls_per_clock_read(&self) -> u32 {
        weft_fabric::waiting::POLLS_PER_CLOCK_READ
    }
}

/// A head of the engine's wire format: see `engine::envelope`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    pub kind: u8,
    pub context: u32,
    pub tag: i32,
    pub index: u32,
    pub generation: u32,
    pub size: u64,
    pub token: u64,
}

pub const EAGER: u8 = 1;
pub const EAGER_SYNCHRONOUS: u8 = 2;
pub const READY: u8 = 3;
pub const FINISHED: u8 = 4;
pub const READY_IN_PIECES: u8 = 5;
pub const CLEAR: u8 = 6;
pub const PIECE: u8 = 7;

impl Wire {
    pub fn of(head: &Head) -> Self {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long =
            |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        Self {
            kind: head[0],
            generation: word(0) >> 8,
            context: word(4),
            tag: word(8).cast_signed(),
            index: word(12),
            size: long(16),
            token: long(24),
        }
    }

    pub fn head(&self) -> Head {
        let mut head = [0; 32];
        let first = u32::from(self.kind) | self.generation << 8;
        head[..4].copy_from_slice(&first.to_le_bytes());
        head[4..8].copy_from_slice(&self.context.to_le_bytes());
        head[8..12].copy_from_slice(&self.tag.to_le_bytes());
        head[12..16].copy_from_slice(&self.index.to_le_bytes());
        head[16..24].copy_from_slice(&self.size.to_le_bytes());
        head[24..].copy_from_slice(&self.token.to_le_bytes());
        head
    }

    /// A message of so many bytes that wait at the sender.
    pub fn ready(tag: i32, size: usize) -> Self {
        Self {
            kind: READY,
            tag,
            index: 5,
            generation: 3,
            size: size as u64,
            token: 77,
            ..Self::default()
        }
    }

    /// The answer to this message.
    pub fn finished(&self) -> Self {
        Self {
            kind: FINISHED,
            context: 0,
            tag: 0,
            size: 0,
            ..*self
        }
    }

    /// The answer to this message that asks for its data in pieces, for a receive.
    pub fn clear(&self, index: u32, generation: u32) -> Self {
        Self {
            kind: CLEAR,
            size: u64::from(index) | u64::from(generation) << 32,
            ..self.finished()
        }
    }

    pub fn from(&self, peer: u32) -> Found {
        self.with(peer, &[])
    }

    pub fn with(&self, peer: u32, data: &[u8]) -> Found {
        Found::Message(Peer(peer), self.head(), data.to_vec())
    }
}
