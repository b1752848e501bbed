//! Liveness of peers: a TCP endpoint with the same members has a connection with each peer that messages are
//! exchanged with; the loss of that connection is the loss of the peer.
//!
//! An endpoint of libfabric has no connections: it learns of a peer's death only if a message to the peer fails, and a provider may
//! retry that forever. The kernel of the peer's host reports the death at once on a TCP connection, on which both sides have proved
//! the job's key.

use std::io;
use std::sync::Arc;

use weft_fabric::{
    Bell as _, Fabric, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey,
};
use weft_fabric_tcp::{NetworkBell, Remote, Tcp};

use crate::mail::Mail;

/// Looks between two looks at the connections, while nobody sleeps.
const LOOKS: u32 = 256;

/// The key of the one signal that makes a connection.
const HERE: SyncKey = SyncKey(0);

/// The connections.
pub struct Liveness {
    tcp: Tcp,
    bell: Arc<NetworkBell>,
    /// How many of the begun links have a connection, or are getting one.
    watched: usize,
    looks: u32,
}

impl Liveness {
    /// Uses this endpoint, which also rings `outer`.
    pub fn new(tcp: Tcp, outer: &NetworkBell) -> io::Result<Self> {
        let bell = tcp.network_bell();
        outer.watch_descriptor(&bell.descriptor())?;
        Ok(Self {
            tcp,
            bell,
            watched: 0,
            looks: 0,
        })
    }

    /// Makes a connection with each peer that has a link, and returns which peers are lost or replaced.
    #[inline]
    pub fn look(&mut self, mail: &mut Mail, outer: &NetworkBell) -> Vec<PeerChange> {
        self.looks += 1;
        let begins = self.watched < mail.begun().len();
        if !begins && self.looks < LOOKS && !outer.is_prepared() {
            return Vec::new();
        }
        let news = self.look_now(mail);
        outer.hear_absences(self.bell.absences());
        news
    }

    /// As [`look`](Self::look), but always. Reports every peer whose successor was in the directory before
    /// the call.
    #[cold]
    pub fn look_now(&mut self, mail: &mut Mail) -> Vec<PeerChange> {
        self.looks = 0;
        while let Some(peer) = mail.begun().get(self.watched).copied() {
            match self.tcp.signal(Peer(peer), HERE) {
                Ok(Posted::Retry) => break,
                Ok(_) => {}
                Err(error) => mail.lose(peer, error.to_string()),
            }
            self.watched += 1;
        }
        let mut heard = Heard(Vec::new());
        self.tcp.poll(&mut heard, 64);
        self.tcp.forget(HERE);
        // A peer whose held messages do not leave may have ended.
        if !mail.has_left() {
            let traffic = self.tcp.traffic();
            for over in traffic.links.iter().filter(|link| link.is_over) {
                if let Some(link) = mail.link(over.peer.0) {
                    link.has_left = true;
                }
            }
        }
        heard.0
    }

    /// The link with index `begun`, in the order of beginning, ends: another process has the number.
    pub fn unwatch(&mut self, begun: usize) {
        if begun < self.watched {
            self.watched -= 1;
        }
    }

    /// When it has something to do by itself.
    pub fn due(&self) -> u64 {
        self.bell.due()
    }

    /// Whether everything that it has sent will arrive.
    pub fn is_flushed(&mut self) -> bool {
        self.tcp.is_flushed()
    }

    /// Says goodbye: an end after this is no loss to the peers.
    pub fn say_goodbye(&mut self) {
        self.tcp.say_goodbye();
    }

    /// Which process has the number of a peer.
    pub fn incarnation(&self, peer: Peer) -> u32 {
        self.tcp.incarnation(peer)
    }

    /// How the process of a peer was lost, if that is recorded.
    pub fn cause_of_loss(&self, peer: Peer) -> Option<String> {
        self.tcp.cause_of_loss(peer)
    }

    /// The process that has the number in the directory now.
    pub fn recorded_incarnation(&self, peer: Peer) -> u32 {
        self.tcp.recorded_incarnation(peer)
    }

    /// Tells a peer that this process is absent.
    pub fn announce_absence(&mut self, to: Peer) {
        self.tcp.announce_absence(to);
    }

    /// Stops reaching for peers that were never reached.
    pub fn abandon_unreached(&mut self) {
        self.tcp.abandon_unreached();
    }
}

/// PeerChange about a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerChange {
    /// It is lost, for this reason.
    Lost(u32, String),
    /// Another process has its number.
    Replaced(u32),
}

/// A sink that collects only news about peers, in the order of the reports.
struct Heard(Vec<PeerChange>);

impl Sink for Heard {
    fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, peer: Peer, reason: &str) {
        self.0.push(PeerChange::Lost(peer.0, reason.to_owned()));
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
    fn replaced(&mut self, peer: Peer) {
        self.0.push(PeerChange::Replaced(peer.0));
    }
}
