//! Report of a run: results, times and counts, or why it did not end normally.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use weft_fabric::{Peer, SyncKey};

/// Most ranks that a failure names; the rest are counted.
const NAMED: usize = 64;

/// One event of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEntry {
    /// When, by the clock of the rank.
    pub at: Duration,
    /// The rank.
    pub rank: Peer,
    /// The event.
    pub event: TraceEvent,
}

/// An event of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// It sent a message to this peer, and its bytes.
    Sent(Peer, usize),
    /// It signalled this peer.
    Signalled(Peer, SyncKey),
    /// Its post to this peer was refused.
    Refused(Peer),
    /// It received a message from this peer, and its bytes.
    Received(Peer, usize),
    /// It received a signal from this peer.
    SignalReceived(Peer, SyncKey),
    /// It was told that there is room.
    Room,
    /// Woken by a peer that has stored something.
    Woken(Peer),
    /// It moved bytes from or to this peer's memory.
    Transferred(Peer, usize),
    /// This peer did not permit a transfer.
    TransferRefused(Peer),
    /// It fell asleep.
    Slept,
    /// It was told that this peer is lost.
    Lost(Peer),
    /// It died.
    Died,
    /// It left.
    Left,
}

impl TraceEvent {
    /// As three numbers, for the hash: kind, peer, detail.
    fn numbers(&self) -> [u64; 3] {
        let (kind, peer, detail) = match *self {
            Self::Sent(peer, bytes) => (1, peer, bytes as u64),
            Self::Signalled(peer, key) => (2, peer, key.0),
            Self::Refused(peer) => (3, peer, 0),
            Self::Received(peer, bytes) => (4, peer, bytes as u64),
            Self::SignalReceived(peer, key) => (5, peer, key.0),
            Self::Room => (6, Peer(0), 0),
            Self::Transferred(peer, bytes) => (7, peer, bytes as u64),
            Self::TransferRefused(peer) => (8, peer, 0),
            Self::Slept => (9, Peer(0), 0),
            Self::Lost(peer) => (10, peer, 0),
            Self::Died => (11, Peer(0), 0),
            Self::Left => (12, Peer(0), 0),
            Self::Woken(peer) => (13, peer, 0),
        };
        [kind, u64::from(peer.0), detail]
    }
}

/// Totals of a run.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub messages: u64,
    pub bytes: u64,
    pub signals: u64,
    pub transfers: u64,
    pub refusals: u64,
    pub switches: u64,
}

/// The last events, and the hash of all.
#[derive(Debug)]
pub(crate) struct Trace {
    entries: VecDeque<TraceEntry>,
    bound: usize,
    hash: u64,
}

impl Trace {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            bound,
            // The offset of FNV-1a.
            hash: 0xCBF2_9CE4_8422_2325,
        }
    }

    pub(crate) fn note(&mut self, at: u64, rank: u32, event: TraceEvent) {
        let [kind, peer, detail] = event.numbers();
        for word in [at, u64::from(rank), kind, peer, detail] {
            // FNV-1a over words instead of bytes, with a rotation so that high bits take part.
            self.hash = (self.hash ^ word)
                .wrapping_mul(0x0000_0100_0000_01B3)
                .rotate_left(23);
        }
        if self.bound > 0 {
            if self.entries.len() == self.bound {
                self.entries.pop_front();
            }
            self.entries.push_back(TraceEntry {
                at: Duration::from_nanos(at),
                rank: Peer(rank),
                event,
            });
        }
    }

    /// The hash of all that was noted so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn take(&mut self) -> Vec<TraceEntry> {
        std::mem::take(&mut self.entries).into()
    }
}

/// The report of a run that ended normally.
#[derive(Clone, Debug)]
pub struct Report<R> {
    /// The result of each rank; `None` for one that died.
    pub results: Vec<Option<R>>,
    /// The virtual time at which the last rank ended.
    pub time: Duration,
    /// Messages that were sent.
    pub messages: u64,
    /// Bytes of data in them.
    pub bytes: u64,
    /// Signals that were sent.
    pub signals: u64,
    /// Transfers through portals that moved.
    pub transfers: u64,
    /// Posts that were refused.
    pub refusals: u64,
    /// How often the simulation switched from one rank to another.
    pub switches: u64,
    /// Hash of all events, in order. Equal for equal histories.
    pub hash: u64,
    /// The last events, as many as [`Config::trace`](crate::Config::trace) asks for.
    pub trace: Vec<TraceEntry>,
}

impl<R> Report<R> {
    /// The results of the ranks that did not die.
    #[must_use]
    pub fn values(self) -> Vec<R> {
        self.results.into_iter().flatten().collect()
    }
}

/// Why a run did not end normally.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The cause.
    pub cause: Cause,
    /// Its virtual time.
    pub time: Duration,
    /// The last events, as many as [`Config::trace`](crate::Config::trace) asks for.
    pub trace: Vec<TraceEntry>,
}

/// Why a run did not end normally.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// These ranks wait for something that cannot come any more.
    Deadlock(Vec<Stuck>),
    /// A rank panicked; the others were unwound.
    Panicked {
        /// The rank.
        peer: Peer,
        /// Its panic message.
        message: String,
    },
    /// The operating system gives no thread for a rank.
    NoThread {
        /// The rank.
        peer: Peer,
        /// The system's error.
        why: String,
    },
}

/// A rank in a deadlock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The rank.
    pub peer: Peer,
    /// Since when, by its clock.
    pub since: Duration,
    /// Asleep on its bell; otherwise it keeps polling.
    pub asleep: bool,
    /// Its [note](crate::Handle::set_note); empty if it left none.
    pub note: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.asleep { "asleep" } else { "looking" };
        let (peer, since) = (self.peer, self.since);
        write!(out, "rank {peer} ({state} since {since:?})")?;
        if !self.note.is_empty() {
            write!(out, " waits for {}", self.note)?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Deadlock(stuck) => {
                write!(
                    out,
                    "deadlock at {:?}: nothing is under way, and {} wait: ",
                    self.time,
                    stuck.len()
                )?;
                for (index, one) in stuck.iter().take(NAMED).enumerate() {
                    let comma = if index == 0 { "" } else { "; " };
                    write!(out, "{comma}{one}")?;
                }
                if stuck.len() > NAMED {
                    write!(out, "; and {} more", stuck.len() - NAMED)?;
                }
                Ok(())
            }
            Cause::Panicked { peer, message } => {
                write!(out, "rank {peer} panicked at {:?}: {message}", self.time)
            }
            Cause::NoThread { peer, why } => write!(
                out,
                "no thread for rank {peer}: {why}; raise the limit of processes or simulate fewer"
            ),
        }
    }
}

impl std::error::Error for Failure {}
