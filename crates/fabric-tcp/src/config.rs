//! Configuration of an endpoint: plain data.

use std::time::Duration;

use weft_secure::Key;

use crate::card::Listen;

/// How long a first connection may take.
const CONNECT: Duration = Duration::from_millis(4500);

/// How long a broken connection is retried, unless the job says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// The data that a rank needs to be reached and to reach others.
#[derive(Clone, Debug)]
pub struct Config {
    /// The identity of this process.
    pub me: u32,
    /// How many members there can be.
    pub peers: u32,
    /// Which incarnation of this number the process is: see [`Directory`](crate::Directory).
    pub incarnation: u32,
    /// The secret that all members share, and nobody else knows.
    pub key: Key,
    /// Whether the data is protected too.
    pub seal: bool,
    /// Which addresses to listen at.
    pub listen: Listen,
    /// How long a peer may be out of reach before it counts as lost: shorter breaks are survived.
    pub patience: Duration,
    /// How long the first connection to a peer may take before it is an error.
    pub connect: Duration,
    /// Ranks on this host, for deciding whether to spin.
    pub neighbours: u32,
    /// Sleepers on the bell or its descriptor announce it before a look, by [`Bell::prepare`](weft_fabric::Bell::prepare). Then
    /// connections are watched only as long as somebody sleeps now and then.
    pub sleeps_announced: bool,
}

impl Config {
    /// The usual values for this member of a job of `peers` members.
    #[must_use]
    pub fn new(me: u32, peers: u32, key: Key) -> Self {
        Self {
            me,
            peers,
            incarnation: 0,
            key,
            seal: false,
            listen: Listen::default(),
            patience: PATIENCE,
            connect: CONNECT,
            neighbours: 1,
            sleeps_announced: false,
        }
    }
}
