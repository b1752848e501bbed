//! Endpoint of one rank: composes the parts of this crate, and is the [`Fabric`](weft_fabric::Fabric) that the layers above see.
//!
//! ```text
//!   Ofi ── Mail      messages: device and links
//!       ── Portal    what this rank lends
//!       ── Serving   transfers that others have asked for
//!       ── Asked     transfers that others were asked for
//!       ── Loopback  what it sends to itself
//!       ── Liveness  who has died: libfabric does not tell
//!       ── Later     where those are that were started later
//!
//!   face        what the layers above call
//!   messages    what has come, and who hears of it
//!   transfers   bytes that are moved by portal, on both sides
//!   members     who is lost, and whose number another process has
//!   leaving     how a rank leaves
//!   sleeping    when one may sleep, and what wakes it
//! ```

mod face;
mod leaving;
mod members;
mod messages;
mod sleeping;
mod transfers;

use std::collections::VecDeque;
use std::sync::Arc;

use weft_fabric::{FabricError, Peer, Result, SignalTable, Sink};
use weft_fabric_tcp::loopback::Loopback;
use weft_fabric_tcp::portal::Portal;
use weft_fabric_tcp::{NetworkBell, Tcp, Watching};

use crate::asked::Asked;
use crate::choice::largest_data;
use crate::later::{Directory, Later};
use crate::libfabric::device::Event;
use crate::libfabric::registration::RemoteMemory;
use crate::liveness::Liveness;
use crate::mail::Mail;
use crate::serving::Serving;

/// When this many received buffers wait to be posted again, they are posted whatever else there is to do. Less than half of the
/// smallest number of buffers.
const MOST_UNPOSTED: usize = 12;

/// One rank's endpoint of a job over libfabric.
pub struct Ofi {
    mail: Mail,
    portal: Portal,
    /// Memory and data of the requests that wait for the other fabric, in their order.
    deferred: VecDeque<(Option<RemoteMemory>, Vec<u8>)>,
    serving: Serving,
    asked: Asked,
    signals: SignalTable,
    loopback: Loopback,
    /// Messages that arrived while a grant was being revoked: slot and length.
    arrived: VecDeque<(usize, usize)>,
    /// Received buffers to be posted again, when nothing else is to be done or when they are many.
    unposted: Vec<usize>,
    bell: Arc<NetworkBell>,
    /// Nothing has arrived since the provider allowed a sleep.
    may_sleep: bool,
    /// Whether the provider's descriptors are in the bell's set.
    watching: Watching,
    liveness: Option<Liveness>,
    later: Later,
    route: &'static str,
    /// Largest data part of a message.
    data: usize,
    /// Buffer for small transfers.
    scratch: Vec<u8>,
}

impl Ofi {
    pub(crate) fn over(mail: Mail, bell: Arc<NetworkBell>, provider: &str) -> Self {
        // Nobody sleeps before the first look.
        bell.is_due_at(0);
        let is_own = mail.device.has_own_descriptors();
        Self {
            mail,
            portal: Portal::default(),
            deferred: VecDeque::new(),
            serving: Serving::default(),
            asked: Asked::default(),
            signals: SignalTable::default(),
            loopback: Loopback::default(),
            arrived: VecDeque::new(),
            unposted: Vec::new(),
            bell,
            may_sleep: false,
            watching: Watching::new(is_own),
            liveness: None,
            later: Later::default(),
            route: face::route(provider),
            data: largest_data(provider),
            scratch: Vec::new(),
        }
    }

    /// Makes a TCP endpoint with the same members report who has died, and which numbers have a new process. Without it, a peer
    /// is lost only when a message to it fails. In a job that grows, the directory, which the TCP endpoint uses too, tells
    /// where members are that are started later.
    ///
    /// # Errors
    /// [`FabricError::System`] if the system refuses to watch it.
    pub fn watched_by(mut self, tcp: Tcp, directory: Option<Box<dyn Directory>>) -> Result<Self> {
        self.later = Later::new(directory);
        for peer in 0..self.mail.members.peers() {
            if let Some(card) = self.later.card(peer) {
                self.mail.introduce(peer, card);
            }
        }
        let liveness = Liveness::new(tcp, &self.bell);
        self.liveness = Some(liveness.map_err(|error| FabricError::System {
            what: format!("nothing to watch connections with: {error}"),
        })?);
        Ok(self)
    }

    /// Number of messages so far that had no valid pass, or were malformed.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.mail.turned_away()
    }

    fn look(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        self.bell.note_look();
        let me = Peer(self.mail.me());
        let mut found = self.loopback.deliver(me, &mut self.signals, sink, budget);
        found += self.report(sink);
        // Once for each look: everything that has arrived is handed on before more is asked for.
        self.mail.device.ask();
        // Changes of a member are reported before its messages: a member whose message has arrived was
        // recorded before.
        if self.later.is_stale() {
            found += self.renew(sink);
        }
        while found < budget {
            if self.portal.has_deferred() {
                break;
            }
            if let Some((slot, length)) = self.arrived.pop_front() {
                self.receive(slot, length, sink);
                found += 1;
                continue;
            }
            let Some(event) = self.mail.completion() else {
                break;
            };
            self.handle(event, sink);
            found += 1;
        }
        found += self.serving.advance(&mut self.mail);
        found += self.asked.advance(&mut self.mail);
        found += self.mail.advance();
        found += self.look_at_liveness(sink);
        found += self.report(sink);
        // Answers to what has arrived come first.
        if self.unposted.len() >= MOST_UNPOSTED || found == 0 && !self.unposted.is_empty() {
            self.post_again();
        }
        self.prepare_sleep(found);
        found
    }

    /// Gives buffers back to the provider, as far as it has room for them.
    fn post_again(&mut self) {
        let mut unposted = std::mem::take(&mut self.unposted);
        let refused = unposted
            .iter()
            .position(|slot| !self.mail.post_receive(*slot));
        unposted.drain(..refused.unwrap_or(unposted.len()));
        if !unposted.is_empty() {
            self.mail.note_full();
        }
        self.unposted = unposted;
    }

    #[inline]
    fn handle(&mut self, event: Event, sink: &mut dyn Sink) {
        match event {
            Event::Received(slot, length) => self.receive(slot, length, sink),
            other => self.settle(other),
        }
    }

    /// Handles a completion that is not reported upwards at once.
    fn settle(&mut self, event: Event) {
        match event {
            Event::Received(slot, length) => self.arrived.push_back((slot, length)),
            Event::Sent(slot) => self.mail.sent(slot),
            Event::Transferred(slot) => self.serving.completed(slot, None, &mut self.mail),
            Event::ReceiveFailed(slot) => self.unposted.push(slot),
            Event::SendFailed(slot, reason) => self.mail.send_failed(slot, &reason),
            Event::TransferFailed(slot, reason) => {
                self.serving.completed(slot, Some(&reason), &mut self.mail);
            }
        }
    }

    /// Ends without a goodbye, like a process that is killed. For tests.
    pub fn die(mut self) {
        for peer in self.mail.begun().to_vec() {
            self.mail.lose(peer, String::new());
        }
    }
}
