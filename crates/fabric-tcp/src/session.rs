//! What this rank shares with one peer, whichever connection carries it.
//!
//! ```text
//!   Idle ──first use──► dialing ──chosen──► live ──broken──► dialing … ──set time over──► lost
//!                                             └──Goodbye──► goodbye_received ──broken──► away
//!                                                                                 │ called, or needed
//!                                                                  live … ◄─ dialing ──refused──► left
//! ```
//!
//! A goodbye says that the peer may end from now on. It goes on all the same, and what it sends of its own
//! accord takes the goodbye back. A connection that breaks after it says nothing yet: the peer may have ended,
//! or may call again. Whoever has something for it calls and finds out.

use std::collections::HashMap;

use weft_fabric::{Operation, Region, Token};

use crate::link::Link;
use crate::network::Stream;
use crate::offer::{Ours, Theirs};
use crate::outgoing::Outgoing;

/// Bytes of counted frames after which an acknowledgement is due, if nothing carries it before.
pub const ACKNOWLEDGE: usize = crate::outgoing::RING / 4;

/// What a chunk counts for that: its bytes take no room in the sender's ring, but it remembers the chunk.
pub const CHUNK_UNACKED: usize = ACKNOWLEDGE / 16;

/// Most transfers that one peer may have under way with us.
pub const TRANSFERS: usize = 1024;

/// Our own get or put that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub operation: Operation,
    pub region: Region,
    pub offset: u64,
    pub received: usize,
}

/// A put of the peer into our memory.
#[derive(Clone, Copy, Debug)]
pub struct Landing {
    pub token: Token,
    pub region: Region,
    pub received: usize,
}

/// Attempts to reach the peer.
#[derive(Debug)]
pub struct Dialing {
    /// When they began, in nanoseconds of the monotonic clock.
    pub since: u64,
    /// When they end. Time in which this rank did not look is added: nobody has tried anything then.
    pub until: u64,
    /// When this rank last looked.
    pub looked: u64,
    /// When the next ones are made.
    pub next: u64,
    /// Pause before the ones after.
    pub pause: u64,
    /// What came of each address, last time.
    pub failures: Vec<(usize, String, bool)>,
    /// What broke, if there was a connection.
    pub broken: Option<String>,
}

/// Whether a peer is there, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It is, or is being called.
    Here,
    /// Its connection has ended after its goodbye, when nothing was under way.
    Away,
    /// It has ended after its goodbye. What was taken for it is given up, and it is not let in again.
    Left,
}

/// See the page.
pub struct Session<S> {
    pub out: Outgoing,
    pub link: Option<Box<Link<S>>>,
    pub dialing: Option<Dialing>,
    /// Number of the connection that was last used; 0: none yet.
    pub generation: u32,
    /// Counted frames of the peer that were processed.
    pub processed: u64,
    /// Bytes of these that no frame of ours has acknowledged.
    pub unacked_bytes: usize,
    /// The address at which the peer was reached, as a place in its card.
    pub agreed: Option<usize>,
    /// The peer has said goodbye, and nothing since.
    pub goodbye_received: bool,
    /// We have, and nothing since.
    pub goodbye_sent: bool,
    /// What is known of it since.
    pub presence: Presence,
    pub gets: HashMap<u32, Asked>,
    pub puts: HashMap<u32, Asked>,
    pub incoming_puts: HashMap<u32, Landing>,
    pub next_transfer: u32,
    /// What we have on offer, and what the peer has: see `offer`.
    pub ours: Vec<Ours>,
    pub theirs: Vec<Theirs>,
    pub next_offer: u32,
}

impl<S: Stream> Session<S> {
    /// Whether all that was taken for this peer is with its kernel, or need not be any more.
    pub fn is_handed_over(&self) -> bool {
        match &self.link {
            _ if self.presence != Presence::Here => true,
            Some(link) if link.confirmed => self.out.is_flushed() && link.is_delivered(),
            // What the last connection carried may be lost; who has said goodbye may have ended.
            _ => self.goodbye_received || self.out.is_flushed() && self.out.is_acknowledged(),
        }
    }
}

impl<S> Session<S> {
    pub fn new() -> Self {
        Self {
            out: Outgoing::new(),
            link: None,
            dialing: None,
            generation: 0,
            processed: 0,
            unacked_bytes: 0,
            agreed: None,
            goodbye_received: false,
            goodbye_sent: false,
            presence: Presence::Here,
            gets: HashMap::new(),
            puts: HashMap::new(),
            incoming_puts: HashMap::new(),
            next_transfer: 0,
            ours: Vec::new(),
            theirs: Vec::new(),
            next_offer: 0,
        }
    }

    /// Whether a connection is there that both sides have agreed on.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.confirmed)
    }

    /// A number for a transfer of ours.
    pub fn transfer(&mut self) -> u32 {
        loop {
            self.next_transfer = self.next_transfer.wrapping_add(1);
            let number = self.next_transfer;
            if !self.gets.contains_key(&number) && !self.puts.contains_key(&number) {
                return number;
            }
        }
    }

    /// Whether nothing is under way to this peer, as far as it has said.
    pub fn is_at_rest(&self) -> bool {
        !self.is_needed() && self.out.is_acknowledged()
    }

    /// Whether anything waits for this peer.
    pub fn is_needed(&self) -> bool {
        !self.out.is_flushed() || !self.gets.is_empty() || !self.puts.is_empty()
    }
}
