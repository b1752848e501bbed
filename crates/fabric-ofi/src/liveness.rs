//! Liveness of peers: an endpoint of TCP with the same members has a connection with each peer that
//! messages are exchanged with; its loss is theirs.
//!
//! An endpoint of libfabric has no connections: of a peer that dies nothing is heard unless something is sent to it that fails, and
//! a provider may try that forever. The kernel of its host tells at once, to who has a connection with it; and both have proved
//! the job's key there before.

use std::io;
use std::sync::Arc;

use weft_fabric::{
    Bell as _, Fabric, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey,
};
use weft_fabric_tcp::{NetworkBell, Remote, Tcp};

use crate::mail::Mail;

/// Looks between two at the connections, while nobody sleeps.
const LOOKS: u32 = 256;

/// The key of the one signal that has a connection made.
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
    /// By this endpoint; `outer` is rung by it, too.
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

    /// Has a connection made with each peer that has a link, and hears who is lost or succeeded.
    #[inline]
    pub fn look(&mut self, mail: &mut Mail, outer: &NetworkBell) -> Vec<News> {
        self.looks += 1;
        let begins = self.watched < mail.begun().len();
        if !begins && self.looks < LOOKS && !outer.is_prepared() {
            return Vec::new();
        }
        let news = self.look_now(mail);
        outer.hear_absences(self.bell.absences());
        news
    }

    /// As [`look`](Self::look), whatever there is to be done. Who was succeeded by what the directory said before is told.
    #[cold]
    pub fn look_now(&mut self, mail: &mut Mail) -> Vec<News> {
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
        // Whom something is held for that does not leave may have ended.
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

    /// The link that was begun as this one, counted from 0, ends: another process has the number.
    pub fn unwatch(&mut self, begun: usize) {
        if begun < self.watched {
            self.watched -= 1;
        }
    }

    /// When it has something to do by itself.
    pub fn due(&self) -> u64 {
        self.bell.due()
    }

    /// Whether all that it has said arrives.
    pub fn is_flushed(&mut self) -> bool {
        self.tcp.is_flushed()
    }

    /// An end after this is no loss to the peers.
    pub fn farewell(&mut self) {
        self.tcp.farewell();
    }

    /// Which process has the number of a peer.
    pub fn incarnation(&self, peer: Peer) -> u32 {
        self.tcp.incarnation(peer)
    }

    /// The same as the directory has it now.
    pub fn recorded_incarnation(&self, peer: Peer) -> u32 {
        self.tcp.recorded_incarnation(peer)
    }

    /// Tells a peer that this process is absent.
    pub fn announce_absence(&mut self, to: Peer) {
        self.tcp.announce_absence(to);
    }

    /// Reaches for nobody any more who was never reached.
    pub fn abandon_unreached(&mut self) {
        self.tcp.abandon_unreached();
    }
}

/// What is heard of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// It is lost, for this reason.
    Lost(u32, String),
    /// Another process has its number.
    Succeeded(u32),
}

/// Hears of peers alone, in the order in which it is said.
struct Heard(Vec<News>);

impl Sink for Heard {
    fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, peer: Peer, reason: &str) {
        self.0.push(News::Lost(peer.0, reason.to_owned()));
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
    fn succeeded(&mut self, peer: Peer) {
        self.0.push(News::Succeeded(peer.0));
    }
}
