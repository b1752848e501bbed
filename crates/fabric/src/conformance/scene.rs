//! The two ways in which the properties use endpoints.
//!
//! * [`Scene`]: all endpoints in one hand, looked at in turn. Deterministic for a deterministic
//!   fabric; finds most mistakes.
//! * [`Player`]: one endpoint in the hands of its own thread, which sleeps on its bell whenever there
//!   is nothing to do, as the layers above do.
//!
//! Both keep what arrives in an [`Inbox`].

use std::time::{Duration, Instant};

use super::PATIENCE;
use super::memory::pattern;
use crate::{
    Fabric, FabricError, HEAD, Head, Operation, Peer, Posted, Region, Result, SharedBytes, Sink,
    SyncKey, Token,
};

/// How many items one look may find, unless a property is about that.
const BUDGET: usize = 32;

/// What a sink was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A message.
    Message {
        /// Its sender.
        from: Peer,
        /// Its fixed part.
        head: Head,
        /// Its data.
        data: Vec<u8>,
    },
    /// The end of a transfer.
    Moved(Operation, Result<()>),
    /// A peer was lost.
    Lost(Peer),
    /// A signal.
    Signalled(Peer, SyncKey),
}

/// A sink that keeps everything, in order.
#[derive(Default, Debug)]
pub struct Inbox {
    /// What came, in order.
    pub events: Vec<Event>,
    messages: usize,
}

impl Sink for Inbox {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        self.messages += 1;
        self.events.push(Event::Message {
            from,
            head: *head,
            data: data.to_vec(),
        });
    }

    fn moved(&mut self, operation: Operation, result: Result<()>) {
        self.events.push(Event::Moved(operation, result));
    }

    fn lost(&mut self, peer: Peer, _reason: &str) {
        self.events.push(Event::Lost(peer));
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.events.push(Event::Signalled(from, key));
    }
}

impl Inbox {
    /// How many messages came.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// The messages of one sender, in the order in which they came.
    pub fn of(&self, sender: usize) -> impl Iterator<Item = (&Head, &[u8])> {
        self.events.iter().filter_map(move |event| match event {
            Event::Message { from, head, data } if from.index() == sender => {
                Some((head, data.as_slice()))
            }
            _ => None,
        })
    }

    /// How a transfer ended, if it did.
    ///
    /// # Panics
    /// If it ended twice.
    #[must_use]
    pub fn moved(&self, operation: Operation) -> Option<Result<()>> {
        let mut ends = self.events.iter().filter_map(|event| match event {
            Event::Moved(of, result) if *of == operation => Some(result.clone()),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "{operation:?} ended twice");
        end
    }

    /// Checks that the messages of `sender` are exactly `count`, numbered from 0 by [`numbered`], with
    /// the data that `length` says.
    ///
    /// # Panics
    /// If they are not.
    pub fn check(&self, sender: usize, count: u64, length: impl Fn(u64) -> usize) {
        let mut expected = 0;
        for (head, data) in self.of(sender) {
            assert_eq!(
                *head,
                numbered(sender, expected),
                "the head of message {expected} of sender {sender}: {} came instead",
                number_of(head)
            );
            let whole = message_data(sender, expected, length(expected));
            assert!(
                data == whole,
                "message {expected} of sender {sender}: {}",
                difference(data, &whole)
            );
            expected += 1;
        }
        assert_eq!(expected, count, "messages of sender {sender}");
    }
}

/// The head of message `number` of `sender`; all its bytes are used.
#[must_use]
pub fn numbered(sender: usize, number: u64) -> Head {
    let mut head = [0; HEAD];
    head.copy_from_slice(&pattern(
        HEAD,
        number ^ 0x5EED_0000 ^ ((sender as u64) << 40),
    ));
    head[..8].copy_from_slice(&number.to_le_bytes());
    head
}

/// The number that [`numbered`] put into a head.
#[must_use]
pub fn number_of(head: &Head) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&head[..8]);
    u64::from_le_bytes(number)
}

/// The data of message `number` of `sender`.
#[must_use]
pub fn message_data(sender: usize, number: u64, length: usize) -> Vec<u8> {
    pattern(length, number ^ ((sender as u64 + 1) << 32))
}

/// In words, where two spans differ: whole spans would fill the screen.
#[must_use]
pub fn difference(came: &[u8], expected: &[u8]) -> String {
    if came.len() != expected.len() {
        return format!("{} bytes came instead of {}", came.len(), expected.len());
    }
    match came.iter().zip(expected).position(|(a, b)| a != b) {
        Some(at) => format!(
            "byte {at} of {} is {:#04x} instead of {:#04x}",
            came.len(),
            came[at],
            expected[at]
        ),
        None => "no difference".into(),
    }
}

/// Which way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// [`Fabric::get`].
    Get,
    /// [`Fabric::put`].
    Put,
}

/// Starts a transfer of this endpoint.
pub(super) fn start(
    fabric: &mut dyn Fabric,
    way: Way,
    peer: Peer,
    (token, offset): (Token, u64),
    region: Region,
    operation: Operation,
) -> Result<Posted> {
    match way {
        Way::Get => fabric.get(peer, token, offset, region, operation),
        Way::Put => fabric.put(peer, token, offset, region, operation),
    }
}

/// All endpoints of a fabric in one hand.
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
        way: Way,
        of: usize,
        at: (Token, u64),
        region: Region,
    ) -> (Operation, Option<Result<()>>) {
        let operation = Operation(self.next_operation);
        self.next_operation += 1;
        let mut answer = None;
        self.repeat("room for a transfer", |scene| {
            let fabric = &mut *scene.endpoints[rank];
            answer = match start(fabric, way, peer(of), at, region, operation) {
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
        way: Way,
        of: usize,
        at: (Token, u64),
        region: Region,
    ) -> Result<()> {
        let (operation, answer) = self.start(rank, way, of, at, region);
        let Some(answer) = answer else {
            return self.ended(rank, operation);
        };
        let seen = self.inboxes[rank].moved(operation);
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
            scene.inboxes[rank].moved(operation).is_some()
        });
        self.inboxes[rank].moved(operation).expect("just seen")
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

fn post(fabric: &mut dyn Fabric, to: usize, number: u64, length: usize) -> bool {
    let me = fabric.me().index();
    let head = numbered(me, number);
    sent(fabric.try_send(peer(to), &head, &message_data(me, number, length)))
}

/// One endpoint in the hands of its thread.
pub struct Player {
    /// The endpoint.
    pub fabric: Box<dyn Fabric>,
    /// What came to it.
    pub inbox: Inbox,
}

impl Player {
    /// Takes the endpoint.
    #[must_use]
    pub fn new(fabric: Box<dyn Fabric>) -> Self {
        let inbox = Inbox::default();
        Self { fabric, inbox }
    }

    /// The rank of this player.
    #[must_use]
    pub fn me(&self) -> usize {
        self.fabric.me().index()
    }

    /// How many players there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.fabric.peers() as usize
    }

    /// Looks once.
    pub fn look(&mut self) -> usize {
        self.fabric.poll(&mut self.inbox, BUDGET)
    }

    /// Sleeps until a step of one's own answers true; each step is preceded by a look.
    ///
    /// # Panics
    /// If a sleep lasts [`PATIENCE`]: then either a wake-up was lost, or what was waited for never
    /// came; the message says which.
    pub fn repeat(&mut self, what: &str, mut step: impl FnMut(&mut Self) -> bool) {
        let bell = self.fabric.bell();
        loop {
            self.look();
            if step(self) {
                return;
            }
            let ticket = bell.prepare();
            if self.look() > 0 {
                bell.cancel(ticket);
                continue;
            }
            let before = self.fabric.now();
            bell.wait(ticket, Some(PATIENCE));
            if self.fabric.now().saturating_sub(before) < PATIENCE {
                continue;
            }
            let found = self.look();
            let me = self.me();
            if found > 0 || step(self) {
                panic!("rank {me} slept on although there was news: a lost wake-up ({what})");
            }
            panic!("rank {me} waited in vain for: {what}");
        }
    }

    /// Sends message `number`, sleeping while it is refused.
    pub fn send(&mut self, to: usize, number: u64, length: usize) {
        if !post(&mut *self.fabric, to, number, length) {
            self.repeat("room for a message", |player| {
                post(&mut *player.fabric, to, number, length)
            });
        }
    }

    /// Sends a signal, sleeping while it is refused.
    pub fn signal(&mut self, to: usize, key: SyncKey) {
        if !sent(self.fabric.signal(peer(to), key)) {
            self.repeat("room for a signal", |player| {
                sent(player.fabric.signal(peer(to), key))
            });
        }
    }

    /// Sleeps until `count` messages have come in all.
    pub fn await_messages(&mut self, count: usize) {
        self.repeat("messages", |player| player.inbox.messages() >= count);
    }

    /// Sleeps until `count` signals of `from` are there, and takes them.
    pub fn await_signals(&mut self, from: usize, key: SyncKey, count: u64) {
        self.repeat("signals", |player| {
            player.fabric.take_signals(peer(from), key, count)
        });
    }

    /// Moves bytes, sleeping until that has ended.
    ///
    /// # Errors
    /// What the fabric answered, at once or later.
    pub fn transfer(
        &mut self,
        way: Way,
        of: usize,
        at: (Token, u64),
        region: Region,
        operation: Operation,
    ) -> Result<()> {
        let mut answer = None;
        self.repeat("room for a transfer", |player| {
            let posted = start(&mut *player.fabric, way, peer(of), at, region, operation);
            let refused = posted == Ok(Posted::Retry);
            answer = Some(posted);
            !refused
        });
        match answer {
            Some(Ok(Posted::Pending)) => {
                self.repeat("the end of a transfer", |player| {
                    player.inbox.moved(operation).is_some()
                });
                self.inbox.moved(operation).expect("just seen")
            }
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Checks that a transfer was refused in the right way.
///
/// # Panics
/// If it was not.
pub(super) fn refused(result: &Result<()>, expected: &FabricError, why: &str) {
    assert_eq!(result.as_ref().err(), Some(expected), "{why}");
}

/// A short sleep that no property depends on, to shift the ranks against each other. Nothing in
/// simulated time.
pub(super) fn dither(state: &mut u64) {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let turns = *state >> 55;
    for _ in 0..turns {
        std::hint::spin_loop();
    }
    if *state >> 60 == 0 {
        std::thread::sleep(Duration::from_micros(1));
    }
}
