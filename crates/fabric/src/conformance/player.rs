//! Player: one endpoint driven by a thread of its own, which sleeps on its bell whenever there is nothing to
//! do, as the layers above do.

use std::time::Duration;

use super::PATIENCE;
use super::inbox::{Inbox, number_of};
use super::scene::{BUDGET, TransferKind, peer, post, sent, start, write};
use crate::{Fabric, HEAD, Operation, Posted, Region, Result, SyncKey, Token};

/// One endpoint in the hands of its thread.
pub struct Player {
    /// The endpoint.
    pub fabric: Box<dyn Fabric>,
    /// What came to it.
    pub inbox: Inbox,
    lots: u64,
}

impl Player {
    /// Takes the endpoint.
    #[must_use]
    pub fn new(fabric: Box<dyn Fabric>) -> Self {
        Self {
            lots: u64::from(fabric.me().0),
            inbox: Inbox::default(),
            fabric,
        }
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
            // What becomes true in this moment rings nobody: the looks behind the announcement find it.
            dither(&mut self.lots);
            let ticket = bell.prepare();
            if self.look() > 0 {
                bell.cancel(ticket);
                continue;
            }
            // Room for a message is seen by sending it only.
            if step(self) {
                bell.cancel(ticket);
                return;
            }
            // Whoever forgets what is published from here on has a moment to be caught.
            dither(&mut self.lots);
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

    /// Sleeps until a look at memory that members share answers true.
    ///
    /// # Panics
    /// As for [`repeat`](Self::repeat).
    pub fn await_store(&mut self, what: &str, mut stored: impl FnMut() -> bool) {
        let bell = self.fabric.bell();
        loop {
            self.look();
            if stored() {
                return;
            }
            let ticket = bell.prepare();
            if self.look() > 0 || stored() {
                bell.cancel(ticket);
                continue;
            }
            dither(&mut self.lots);
            let before = self.fabric.now();
            bell.wait(ticket, Some(PATIENCE));
            let me = self.me();
            assert!(
                self.fabric.now().saturating_sub(before) < PATIENCE,
                "rank {me} slept on: a lost wake-up, or it never came ({what})"
            );
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

    /// Writes message `number` to its lane, or sends it where that is refused.
    pub fn write(&mut self, to: usize, number: u64, length: usize) {
        if !write(&mut *self.fabric, to, number, length) {
            self.send(to, number, length);
        }
    }

    /// Sends the name of a grant, sleeping while it is refused.
    pub fn send_token(&mut self, to: usize, token: Token) {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&token.0.to_le_bytes());
        self.repeat("room for a token", |player| {
            sent(player.fabric.try_send(peer(to), &head, &[]))
        });
    }

    /// The token that the last message of `from` carried.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn last_token(&self, from: usize) -> Token {
        Token(number_of(self.inbox.of(from).last().expect("it came").0))
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
        kind: TransferKind,
        of: usize,
        at: (Token, u64),
        region: Region,
        operation: Operation,
    ) -> Result<()> {
        let mut answer = None;
        self.repeat("room for a transfer", |player| {
            let posted = start(&mut *player.fabric, kind, peer(of), at, region, operation);
            let refused = posted == Ok(Posted::Retry);
            answer = Some(posted);
            !refused
        });
        match answer {
            Some(Ok(Posted::Pending)) => {
                self.repeat("the end of a transfer", |player| {
                    player.inbox.transfer_completed(operation).is_some()
                });
                self.inbox.transfer_completed(operation).expect("just seen")
            }
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
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
