//! Trace: a wrapper that records the calls of a fabric and their answers.
//!
//! ```text
//!   let log = Log::new(1000);                       keeps the last 1000 records, of all ranks
//!   let fabric = Traced::new(fabric, log.clone());
//!   …                                               println!("{log}") or log.records()
//!
//!   0.000012300  rank 1  send to 0, 40 bytes: Done
//!   0.000012900  rank 0  message from 1, 40 bytes
//! ```
//!
//! For tests and for finding mistakes: each record takes a lock. Polls that find nothing and queries
//! ([`Fabric::signals`]) are not recorded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{
    Fabric, Head, Next, Operation, Peer, Posted, Region, Result, Rights, SharedBytes, Sink,
    SyncKey, Token, Uses, forward_fabric,
};

/// An event at an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// [`Fabric::try_send`].
    Send {
        /// The receiver.
        to: Peer,
        /// Bytes of data.
        bytes: usize,
        /// The answer.
        answer: Result<Posted>,
    },
    /// [`Fabric::signal`].
    Signal {
        /// The receiver.
        to: Peer,
        /// The key.
        key: SyncKey,
        /// The answer.
        answer: Result<Posted>,
    },
    /// [`Fabric::grant`].
    Grant {
        /// Bytes granted.
        bytes: usize,
        /// The peer; `None`: any peer.
        to: Option<Peer>,
        /// The answer.
        answer: Result<Token>,
    },
    /// [`Fabric::revoke`].
    Revoke {
        /// The grant.
        token: Token,
        /// Whether it was live.
        live: bool,
    },
    /// [`Fabric::get`].
    Get {
        /// The owner.
        from: Peer,
        /// Bytes asked for.
        bytes: usize,
        /// The operation.
        operation: Operation,
        /// The answer.
        answer: Result<Posted>,
    },
    /// [`Fabric::put`].
    Put {
        /// The owner.
        to: Peer,
        /// Bytes to write.
        bytes: usize,
        /// The operation.
        operation: Operation,
        /// The answer.
        answer: Result<Posted>,
    },
    /// Signals were taken.
    SignalsTaken {
        /// The sender.
        from: Peer,
        /// The key.
        key: SyncKey,
        /// How many.
        count: u64,
    },
    /// [`Sink::message`].
    MessageReceived {
        /// The sender.
        from: Peer,
        /// Bytes of data.
        bytes: usize,
    },
    /// [`Sink::transfer_completed`].
    TransferCompleted {
        /// Which transfer.
        operation: Operation,
        /// How it ended.
        result: Result<()>,
    },
    /// [`Sink::lost`].
    PeerLost {
        /// The lost peer.
        peer: Peer,
    },
    /// [`Sink::signalled`].
    SignalReceived {
        /// The sender.
        from: Peer,
        /// The key.
        key: SyncKey,
    },
}

/// One line of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Time, by [`Fabric::now`].
    pub at: Duration,
    /// The member whose endpoint it is.
    pub rank: Peer,
    /// The event.
    pub event: Event,
}

/// A result as people say it.
struct Answer<'a, T>(&'a Result<T>);

impl<T: fmt::Debug> fmt::Display for Answer<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(value) => write!(out, "{value:?}"),
            Err(error) => write!(out, "{error}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, bytes, answer } => {
                write!(out, "send to {to}, {bytes} bytes: {}", Answer(answer))
            }
            Self::Signal { to, key, answer } => {
                write!(out, "signal to {to}, key {:#x}: {}", key.0, Answer(answer))
            }
            Self::Grant { bytes, to, answer } => {
                match to {
                    Some(to) => write!(out, "grant of {bytes} bytes to {to}: ")?,
                    None => write!(out, "grant of {bytes} bytes to anybody: ")?,
                }
                write!(out, "{}", Answer(answer))
            }
            Self::Revoke { token, live } => {
                let was = if *live { "live" } else { "not live" };
                write!(out, "revoke {token:?}: it was {was}")
            }
            Self::Get {
                from,
                bytes,
                operation,
                answer,
            } => write!(
                out,
                "get from {from}, {bytes} bytes, operation {}: {}",
                operation.0,
                Answer(answer)
            ),
            Self::Put {
                to,
                bytes,
                operation,
                answer,
            } => write!(
                out,
                "put to {to}, {bytes} bytes, operation {}: {}",
                operation.0,
                Answer(answer)
            ),
            Self::SignalsTaken { from, key, count } => {
                write!(out, "took {count} signals of {from}, key {:#x}", key.0)
            }
            Self::MessageReceived { from, bytes } => {
                write!(out, "message from {from}, {bytes} bytes")
            }
            Self::TransferCompleted { operation, result } => {
                write!(out, "operation {} ended: {}", operation.0, Answer(result))
            }
            Self::PeerLost { peer } => write!(out, "peer {peer} is lost"),
            Self::SignalReceived { from, key } => {
                write!(out, "signal from {from}, key {:#x}", key.0)
            }
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, rank) = (self.at.as_secs_f64(), self.rank);
        write!(out, "{at:.9}  rank {rank}  {}", self.event)
    }
}

#[derive(Debug, Default)]
struct Records {
    records: VecDeque<Record>,
    dropped: u64,
}

/// A log of bounded length: the oldest records are dropped first. Clones are the same log.
#[derive(Clone, Debug)]
pub struct Log {
    records: Arc<Mutex<Records>>,
    bound: usize,
}

impl Log {
    /// A log of at most `bound` records.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self {
            records: Arc::default(),
            bound,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, record: Record) {
        let mut records = self.lock();
        if records.records.len() >= self.bound {
            records.dropped += 1;
            if records.records.pop_front().is_none() {
                return;
            }
        }
        records.records.push_back(record);
    }

    /// A copy of the kept records, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.iter().cloned().collect()
    }

    /// Number of records that were dropped because newer ones needed their room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}

impl fmt::Display for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped = self.dropped();
        if dropped > 0 {
            writeln!(out, "({dropped} earlier entries were dropped)")?;
        }
        for record in self.records() {
            writeln!(out, "{record}")?;
        }
        Ok(())
    }
}

/// A fabric that records in a [`Log`].
pub struct Traced<F> {
    inner: F,
    log: Log,
}

impl<F: Fabric> Traced<F> {
    /// Wraps `inner`. Several endpoints may share a log.
    #[must_use]
    pub fn new(inner: F, log: Log) -> Self {
        Self { inner, log }
    }

    fn note(&self, event: Event) {
        self.log.note(Record {
            at: self.inner.now(),
            rank: self.inner.me(),
            event,
        });
    }
}

/// The sink of the caller, with what it is told collected beside it.
struct RecordingSink<'a> {
    sink: &'a mut dyn Sink,
    events: Vec<Event>,
}

impl Sink for RecordingSink<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        let bytes = data.len();
        self.events.push(Event::MessageReceived { from, bytes });
        self.sink.message(from, head, data);
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        let copy = result.clone();
        self.events.push(Event::TransferCompleted {
            operation,
            result: copy,
        });
        self.sink.transfer_completed(operation, result);
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.events.push(Event::PeerLost { peer });
        self.sink.lost(peer, reason);
    }

    fn departed(&mut self, peer: Peer, reason: &str) {
        self.sink.departed(peer, reason);
    }

    fn replaced(&mut self, peer: Peer) {
        self.sink.replaced(peer);
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.events.push(Event::SignalReceived { from, key });
        self.sink.signalled(from, key);
    }
}

impl<F: Fabric> Fabric for Traced<F> {
    forward_fabric!(self => self.inner; me, peers, incarnation, cause_of_loss, has_unreported_members, may_return, limits, bell, now, route, offer, signals, forget,
        shares_memory, allocate_shared, release_shared, attach_shared, is_asleep, wake, is_any_beside, is_flushed, traffic,
        say_goodbye, abandon_unreached, announce_absence);

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        let answer = self.inner.try_send(to, head, data);
        self.note(Event::Send {
            to,
            bytes: data.len(),
            answer: answer.clone(),
        });
        answer
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    /// What comes is noted by `poll`.
    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut recording = RecordingSink {
            sink,
            events: Vec::new(),
        };
        let found = self.inner.poll(&mut recording, budget);
        for event in recording.events {
            self.note(event);
        }
        found
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let answer = self.inner.grant(region, to, rights, uses);
        self.note(Event::Grant {
            bytes: region.len(),
            to,
            answer: answer.clone(),
        });
        answer
    }

    fn revoke(&mut self, token: Token) -> bool {
        let live = self.inner.revoke(token);
        self.note(Event::Revoke { token, live });
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
        let answer = self.inner.get(from, token, offset, into, operation);
        self.note(Event::Get {
            from,
            bytes: into.len(),
            operation,
            answer: answer.clone(),
        });
        answer
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let answer = self.inner.put(to, token, offset, source, operation);
        self.note(Event::Put {
            to,
            bytes: source.len(),
            operation,
            answer: answer.clone(),
        });
        answer
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let answer = self.inner.signal(to, key);
        self.note(Event::Signal {
            to,
            key,
            answer: answer.clone(),
        });
        answer
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        let took = self.inner.take_signals(from, key, count);
        if took {
            self.note(Event::SignalsTaken { from, key, count });
        }
        took
    }
}
