//! Connector: the system's means to connect to processes of other jobs, and the messages over them.

use std::ops::Range;

use weft_fabric::{Fabric, Peer};

use crate::error::Result;

/// The system's means to connect to processes of other jobs.
pub trait JobConnector: Send + Sync {
    /// Whether other jobs can call at a port of this process.
    fn listens_at(&self, port: u32) -> bool;
    /// A caller at a port that was not taken yet. It [notifies](crate::process::Process::notify) when there is one.
    fn take_caller(&self, port: u32) -> Option<Box<dyn Line>>;
    /// The next one to be taken.
    fn give_back(&self, port: u32, line: Box<dyn Line>);
    /// A key that cannot be guessed.
    ///
    /// # Errors
    /// If the system has none.
    fn draw_key(&self) -> Result<[u8; 32]>;
    /// Whether this job encrypts what goes from host to host.
    fn is_sealed(&self) -> bool;
    /// Begins to be reachable by processes of another job.
    ///
    /// # Errors
    /// If the system refuses.
    fn listen(&self, terms: Terms) -> Result<Box<dyn ListeningEnd>>;
    /// Makes room for processes of other jobs in the fabric. Once, before any of them is joined.
    ///
    /// # Errors
    /// If the system refuses.
    fn widen(&self, fabric: &mut Box<dyn Fabric>) -> Result<()>;
    /// Ends a bridge.
    fn close(&self, bridge: usize);
}

/// A way to the root of another job, over which the roots agree.
pub trait Line: Send {
    /// Sends a message.
    ///
    /// # Errors
    /// If the other side is gone.
    fn send(&mut self, message: &[u8]) -> Result<()>;
    /// The next message, if one has come; an error if the other side is gone. The line
    /// [notifies](crate::process::Process::notify) when either happens.
    fn take(&mut self) -> Option<Result<Vec<u8>>>;
    /// Whether the other root is on another host.
    fn is_between_hosts(&self) -> bool;
}

/// Requirements for the connections of two jobs: the union of what either job needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Processes of several hosts take part.
    pub wide: bool,
    /// Data between hosts are encrypted.
    pub sealed: bool,
}

impl Terms {
    pub(in crate::comm) fn to_bits(self) -> u8 {
        u8::from(self.wide) | u8::from(self.sealed) << 1
    }

    pub(in crate::comm) fn from_bits(bits: u8) -> Self {
        Self {
            wide: bits & 1 != 0,
            sealed: bits & 2 != 0,
        }
    }
}

/// A process that listens for those of another job.
pub trait ListeningEnd: Send {
    /// Its address, to be sent to them.
    fn address(&self) -> String;
    /// Opens this process's end.
    ///
    /// # Errors
    /// If the system refuses.
    fn join(self: Box<Self>, members: BridgeMembers) -> Result<(usize, Vec<Peer>)>;
}

/// The participants of a bridge.
#[derive(Debug)]
pub struct BridgeMembers {
    /// This process's number among them.
    pub me: u32,
    /// The secret that only they know.
    pub key: [u8; 32],
    /// The address at which each of them listens.
    pub addresses: Vec<String>,
    /// The numbers of the other side.
    pub others: Range<u32>,
}
