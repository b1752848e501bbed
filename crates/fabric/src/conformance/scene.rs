//! Scene: all endpoints of a fabric driven by one thread, polled in turn. Deterministic for a deterministic fabric;
//! finds most mistakes.

use std::time::Instant;

use super::PATIENCE;
use super::inbox::{Inbox, message_data, numbered};
use crate::{
    Fabric, FabricError, HEAD, Operation, Peer, Posted, Region, Result, SharedBytes, Source,
    SyncKey, Token, Written,
};

/// How many items one look may find, unless a property is about that.
pub(super) const BUDGET: usize = 32;

/// Whether a transfer reads or writes the memory of the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferKind {
    /// [`Fabric::get`].
    Get,
    /// [`Fabric::put`].
    Put,
}

/// Starts a transfer of this endpoint.
pub(super) fn start(
    fabric: &mut dyn Fabric,
    kind: TransferKind,
    peer: Peer,
    (token, offset): (Token, u64),
    region: Region,
    operation: Operation,
) -> Result<Posted> {
    match kind {
        TransferKind::Get => fabric.get(peer, token, offset, region, operation),
        TransferKind::Put => fabric.put(peer, token, offset, region, operation),
    }
}

/// One try to write message `number` to its lane, where there are such, and to have it announced.
pub(super) fn write(fabric: &mut dyn Fabric, to: usize, number: u64, length: usize) -> bool {
    let from = fabric.me().index();
    let head = numbered(from, number);
    let mut words = [0; HEAD / 8];
    for (word, bytes) in words.iter_mut().zip(head.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    let data = message_data(from, number, length);
    let writers = fabric.writers();
    let Some(lane) = writers.get(to) else {
        return false;
    };
    match lane.write(words, SharedBytes::of(&data)) {
        Written::Done => {}
        Written::Unannounced => fabric.announce(peer(to)),
        Written::Refused => return false,
    }
    true
}

/// All endpoints of a fabric, driven by one thread.
pub struct Scene {
    /// The endpoints, by rank.
    pub endpoints: Vec<Box<dyn Fabric>>,
    /// What came to each.
    pub inboxes: Vec<Inbox>,
    next_operation: u64,
}

impl Scene {
    /// Takes the endpoints.
    ///
    /// # Panics
    /// If they are not `count` members of one fabric, in order.
    #[must_use]
    pub fn new(stage: &dyn super::Stage, count: usize) -> Self {
        let endpoints = stage.endpoints(count);
        assert_eq!(endpoints.len(), count, "the stage makes as many as asked");
        for (rank, endpoint) in endpoints.iter().enumerate() {
            assert_eq!(endpoint.me().index(), rank);
            assert_eq!(endpoint.peers() as usize, count);
        }
        Self {
            endpoints,
            inboxes: std::iter::repeat_with(Inbox::default).take(count).collect(),
            next_operation: 1,
        }
    }

    /// Looks once at everything; true if anything was found.
    pub fn drive(&mut self) -> bool {
        let mut found = false;
        for rank in 0..self.endpoints.len() {
            found |= self.poll(rank, BUDGET) > 0;
        }
        found
    }

    /// Looks once at what came to one.
    pub fn poll(&mut self, rank: usize, budget: usize) -> usize {
        self.endpoints[rank].poll(&mut self.inboxes[rank], budget)
    }

    /// Drives until `done`.
    ///
    /// # Panics
    /// If that does not come within [`PATIENCE`].
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        self.repeat(what, |scene| {
            scene.drive();
            done(scene)
        });
    }

    /// Repeats a step of one's own until it answers true.
    ///
    /// # Panics
    /// If that does not come within [`PATIENCE`].
    pub fn repeat(&mut self, what: &str, mut step: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        let mut steps = 0u64;
        while !step(self) {
            steps += 1;
            if steps.is_multiple_of(64) {
                // For fabrics with threads of their own.
                std::thread::yield_now();
            }
            assert!(
                start.elapsed() < PATIENCE,
                "waited in vain for: {what}; came so far: {:?}",
                self.inboxes.iter().map(Inbox::messages).collect::<Vec<_>>()
            );
        }
    }

    /// Drives until nothing has moved for some rounds. For checking that nothing more comes.
    pub fn settle(&mut self) {
        let mut quiet = 0;
        self.repeat("quiet", |scene| {
            quiet = if scene.drive() { 0 } else { quiet + 1 };
            quiet >= 64
        });
    }

    /// One try to send message `number`.
    ///
    /// # Panics
    /// On an error, and if the answer is `Pending`.
    pub fn try_send(&mut self, from: usize, to: usize, number: u64, length: usize) -> bool {
        post(&mut *self.endpoints[from], to, number, length)
    }

    /// One try to inject message `number`.
    pub fn inject(&mut self, from: usize, to: usize, number: u64, length: usize) -> bool {
        let head = numbered(from, number);
        self.endpoints[from].inject(peer(to), &head, &message_data(from, number, length))
    }

    /// One try to send message `number` so that it is packed as it leaves, as a part of data that have more bytes, or as any other
    /// where the fabric takes what is packed only.
    ///
    /// # Panics
    /// On an error, and unless all of the part is asked for in order if the message leaves, and nothing if it is refused.
    pub fn send_packed(&mut self, from: usize, to: usize, number: u64, length: usize) -> bool {
        let head = numbered(from, number);
        let mut source = Numbered::of(from, number, length);
        // Now and then of more data than any lane holds at a time.
        source.around = [0, 5, 1 << 20][number as usize % 3];
        let part = source.around..source.around + length;
        let endpoint = &mut self.endpoints[from];
        match endpoint.try_send_part(peer(to), &head, &mut source, part) {
            Some(answer) => {
                let has_left = sent(answer);
                assert_eq!(source.asked, if has_left { length } else { 0 });
                has_left
            }
            None => {
                assert_eq!(source.asked, 0, "it has no effect");
                sent(endpoint.try_send(peer(to), &head, &source.data))
            }
        }
    }

    /// One try to write message `number` to its lane.
    pub fn write(&mut self, from: usize, to: usize, number: u64, length: usize) -> bool {
        write(&mut *self.endpoints[from], to, number, length)
    }

    /// Sends message `number`, driving all while it is refused.
    pub fn send(&mut self, from: usize, to: usize, number: u64, length: usize) {
        self.repeat("room for a message", |scene| {
            let sent = scene.try_send(from, to, number, length);
            if !sent {
                scene.drive();
            }
            sent
        });
    }

    /// Sends a signal, driving all while it is refused.
    pub fn signal(&mut self, from: usize, to: usize, key: SyncKey) {
        self.repeat("room for a signal", |scene| {
            let sent = sent(scene.endpoints[from].signal(peer(to), key));
            if !sent {
                scene.drive();
            }
            sent
        });
    }

    /// Starts a transfer, driving all while it is refused. `None`: it is under way.
    pub fn start(
        &mut self,
        rank: usize,
        kind: TransferKind,
        of: usize,
        at: (Token, u64),
        region: Region,
    ) -> (Operation, Option<Result<()>>) {
        let operation = Operation(self.next_operation);
        self.next_operation += 1;
        let mut answer = None;
        self.repeat("room for a transfer", |scene| {
            let fabric = &mut *scene.endpoints[rank];
            answer = match start(fabric, kind, peer(of), at, region, operation) {
                Ok(Posted::Done) => Some(Ok(())),
                Ok(Posted::Pending) => None,
                Ok(Posted::Retry) => {
                    scene.drive();
                    return false;
                }
                Err(error) => Some(Err(error)),
            };
            true
        });
        (operation, answer)
    }

    /// Moves bytes and answers how it ended.
    ///
    /// # Errors
    /// What the fabric answered, at once or later.
    ///
    /// # Panics
    /// If it does not end, or ends twice.
    pub fn transfer(
        &mut self,
        rank: usize,
        kind: TransferKind,
        of: usize,
        at: (Token, u64),
        region: Region,
    ) -> Result<()> {
        let (operation, answer) = self.start(rank, kind, of, at, region);
        let Some(answer) = answer else {
            return self.ended(rank, operation);
        };
        let seen = self.inboxes[rank].transfer_completed(operation);
        assert_eq!(seen, None, "a transfer that ended at once ends once");
        answer
    }

    /// Drives until a transfer that is under way has ended.
    ///
    /// # Errors
    /// What the sink was told.
    ///
    /// # Panics
    /// If it does not end.
    pub fn ended(&mut self, rank: usize, operation: Operation) -> Result<()> {
        self.until("the end of a transfer", |scene| {
            scene.inboxes[rank].transfer_completed(operation).is_some()
        });
        self.inboxes[rank]
            .transfer_completed(operation)
            .expect("just seen")
    }
}

/// The data of a message, with others before and behind them.
pub(super) struct Numbered {
    data: Vec<u8>,
    around: usize,
    /// Bytes that were asked for.
    pub asked: usize,
}

impl Numbered {
    /// Those of message `number`, with none around them.
    pub fn of(from: usize, number: u64, length: usize) -> Self {
        Self {
            data: message_data(from, number, length),
            around: 0,
            asked: 0,
        }
    }
}

impl Source for Numbered {
    fn read(&mut self, position: usize, into: &mut [u8]) {
        let first = position - self.around;
        assert_eq!(first, self.asked, "the pieces follow each other");
        self.asked += into.len();
        into.copy_from_slice(&self.data[first..self.asked]);
    }
}

/// The peer with this index.
#[must_use]
pub fn peer(index: usize) -> Peer {
    Peer(u32::try_from(index).expect("few"))
}

/// Whether a post that never is `Pending` was taken.
///
/// # Panics
/// On an error, and if the answer is `Pending`.
pub(super) fn sent(answer: Result<Posted>) -> bool {
    match answer {
        Ok(Posted::Done) => true,
        Ok(Posted::Retry) => false,
        other => panic!("a post answered {other:?}"),
    }
}

/// One try to post message `number`.
pub(super) fn post(fabric: &mut dyn Fabric, to: usize, number: u64, length: usize) -> bool {
    let me = fabric.me().index();
    let head = numbered(me, number);
    sent(fabric.try_send(peer(to), &head, &message_data(me, number, length)))
}

/// Checks that a transfer was refused in the right way.
///
/// # Panics
/// If it was not.
pub(super) fn refused(result: &Result<()>, expected: &FabricError, why: &str) {
    assert_eq!(result.as_ref().err(), Some(expected), "{why}");
}
