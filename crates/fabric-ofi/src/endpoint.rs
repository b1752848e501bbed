//! Endpoint of one rank: composes the parts of this crate, and is the [`Fabric`] that the layers above see.
//!
//! ```text
//!   Ofi ── Mail      messages: device and links
//!       ── Portal    what this rank lends
//!       ── Serving   transfers that others have asked for
//!       ── Asked     transfers that others were asked for
//!       ── Loopback  what it sends to itself
//!       ── Liveness     who has died: libfabric does not tell
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_fabric::{
    Bell, Fabric, FabricError, HEAD, Head, Limits, LinkTraffic, Operation, Peer, Posted, Region,
    Result, Rights, SharedBlock, SharedBytes, SharedKey, SharedMemory, SignalTable, Sink, SyncKey,
    Token, Traffic, Uses,
};
use weft_fabric_tcp::loopback::Loopback;
use weft_fabric_tcp::portal::{Opened, Portal, Request};
use weft_fabric_tcp::{NetworkBell, Remote, Tcp, wire as tcp_wire};
use weft_sys::clock;

use crate::asked::{Asked, MOST, Transfer};
use crate::libfabric::device::{Access, Event, RemoteMemory};
use crate::links::Answer;
use crate::liveness::Liveness;
use crate::mail::Mail;
use crate::opening::DATA;
use crate::serving::Serving;
use crate::wire::{Ask, End, HEADER, Kind, Outcome};

/// Transfers of so many bytes travel in the message that asks or answers.
const SMALL: usize = DATA + HEAD - Ask::BYTES;

/// Buffers that were looked at, of which so many are posted again whatever there is to be done: less than half of the fewest that
/// there are.
const MOST_UNPOSTED: usize = 12;

/// How long a grant that is taken back waits for bytes on their way to somebody who does not take them.
const REVOKING: Duration = Duration::from_secs(10);

/// How long a rank that leaves tries to hand over what it has promised to send.
const FAREWELL: Duration = Duration::from_secs(5);

/// One rank's endpoint of a job over libfabric.
pub struct Ofi {
    mail: Mail,
    portal: Portal,
    /// What belongs to the requests that wait for the other fabric, in their order.
    deferred: VecDeque<(RemoteMemory, Vec<u8>)>,
    serving: Serving,
    asked: Asked,
    signals: SignalTable,
    loopback: Loopback,
    /// What has arrived while a grant was taken back.
    arrived: VecDeque<(usize, usize)>,
    /// Buffers that were looked at, and are posted again while nothing is there to be done, or when they are many.
    unposted: Vec<usize>,
    bell: Arc<NetworkBell>,
    /// Nothing has come since the provider said that one may sleep.
    may_sleep: bool,
    liveness: Option<Liveness>,
    route: &'static str,
    /// For small transfers.
    scratch: Vec<u8>,
}

impl Ofi {
    pub(crate) fn over(mail: Mail, bell: Arc<NetworkBell>, provider: &str) -> Self {
        // Before the first look nobody sleeps.
        bell.is_due_at(0);
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
            liveness: None,
            route: route(provider),
            scratch: Vec::new(),
        }
    }

    /// Has an endpoint of TCP with the same members tell who has died. Without one a peer is lost when something that is sent
    /// to it fails.
    ///
    /// # Errors
    /// [`FabricError::System`] if the system refuses to watch it.
    pub fn watched_by(mut self, tcp: Tcp) -> Result<Self> {
        let liveness = Liveness::new(tcp, &self.bell);
        self.liveness = Some(liveness.map_err(|error| FabricError::System {
            what: format!("nothing to watch connections with: {error}"),
        })?);
        Ok(self)
    }

    /// Messages of who has no pass, or that made no sense, so far.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.mail.turned_away()
    }

    fn look(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        self.bell.note_look();
        let me = Peer(self.mail.me());
        let mut found = self.loopback.deliver(me, &mut self.signals, sink, budget);
        found += self.report(sink);
        // Once for each look: what came with a message is handed on before anybody asks for more.
        self.mail.device.ask();
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
        found += self.mail.advance();
        if let Some(liveness) = &mut self.liveness {
            found += liveness.look(&mut self.mail, &self.bell);
        }
        found += self.report(sink);
        // What has come is answered first.
        if self.unposted.len() >= MOST_UNPOSTED || found == 0 && !self.unposted.is_empty() {
            self.post_again();
        }
        self.prepare_sleep(found);
        found
    }

    /// Says how long one may sleep after this look.
    #[inline]
    fn prepare_sleep(&mut self, found: usize) {
        if self.mail.take_full() {
            self.bell.sleep_shortly();
        }
        if found == 0 && self.bell.take_prepared() {
            let may = self.arrived.is_empty()
                && match self.mail.device.descriptor() {
                    Some(_) => self.mail.device.may_sleep(),
                    // Nothing tells of news: a moment, then another look.
                    None => {
                        self.bell.sleep_shortly();
                        true
                    }
                };
            let rest = self.liveness.as_ref().map_or(u64::MAX, Liveness::due);
            self.bell.is_due_at(if may { rest } else { 0 });
            self.may_sleep = may;
        } else if self.may_sleep && found > 0 {
            self.bell.is_due_at(0);
            self.may_sleep = false;
        }
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

    /// A completion that nobody above hears of at once.
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

    /// Tells of losses, and ends what waited for them.
    #[inline]
    fn report(&mut self, sink: &mut dyn Sink) -> usize {
        match self.mail.has_losses() {
            true => self.report_losses(sink),
            false => 0,
        }
    }

    #[cold]
    fn report_losses(&mut self, sink: &mut dyn Sink) -> usize {
        let losses = self.mail.take_losses();
        let mut found = losses.len();
        for (peer, reason) in losses {
            self.serving.forget(peer);
            for operation in self.asked.remove_of(peer) {
                let error = FabricError::PeerLost {
                    peer: Peer(peer),
                    reason: reason.clone(),
                };
                sink.transfer_completed(operation, Err(error));
                found += 1;
            }
            sink.lost(Peer(peer), &reason);
        }
        found
    }

    /// Handles a message, and gives its buffer back.
    #[inline]
    fn receive(&mut self, slot: usize, length: usize, sink: &mut dyn Sink) {
        if let Some(header) = self.mail.admit(slot, length) {
            let understood = self.understand(header.from, header.kind, (slot, length), sink);
            if understood.is_none() {
                self.mail.lose(
                    header.from,
                    "it sent a message that makes no sense; all ranks must run the same release"
                        .into(),
                );
            }
        }
        self.unposted.push(slot);
    }

    #[inline]
    fn understand(
        &mut self,
        from: u32,
        kind: Kind,
        (slot, length): (usize, usize),
        sink: &mut dyn Sink,
    ) -> Option<()> {
        let body = &self.mail.device.received(slot, length)[HEADER..];
        let peer = Peer(from);
        match kind {
            Kind::Message => {
                let (head, data) = body.split_first_chunk::<HEAD>()?;
                sink.message(peer, head, SharedBytes::of(data));
            }
            Kind::Signal => {
                let key = SyncKey(u64::from_le_bytes(body.try_into().ok()?));
                self.signals.arrive(peer, key);
                sink.signalled(peer, key);
            }
            Kind::Data => {
                let (number, bytes) = body.split_first_chunk::<4>()?;
                let number = u32::from_le_bytes(*number);
                let transfer = self.asked.get(number, from)?;
                if transfer.put || bytes.len() != transfer.region.len() {
                    return None;
                }
                transfer.region.copy_from_slice(bytes);
                self.end(from, number, Outcome::Done, sink);
            }
            Kind::End => {
                let end = End::parse(body)?;
                self.asked.get(end.number, from)?;
                self.end(from, end.number, end.outcome, sink);
            }
            Kind::Ask => {
                let (ask, data) = Ask::parse(body)?;
                let small = ask.length <= SMALL as u64;
                let carried = if ask.put && small { ask.length } else { 0 };
                if data.len() as u64 != carried {
                    return None;
                }
                let data = data.to_vec();
                self.open(peer, &ask, data);
            }
            Kind::Goodbye | Kind::Ack => return body.is_empty().then_some(()),
        }
        Some(())
    }

    /// A transfer of ours has ended.
    fn end(&mut self, from: u32, number: u32, outcome: Outcome, sink: &mut dyn Sink) {
        if let Some(mut transfer) = self.asked.remove(number) {
            // Nobody reaches the memory from here on.
            transfer.registration = None;
            if let Some(link) = self.mail.link(from) {
                link.asks = link.asks.saturating_sub(1);
            }
            sink.transfer_completed(transfer.operation, transfer.result(outcome));
        }
    }

    /// Looks for the grant that a peer asks for.
    fn open(&mut self, from: Peer, ask: &Ask, data: Vec<u8>) {
        let request = Request {
            from,
            ask: tcp_wire::Ask {
                transfer: ask.number,
                offer: 0,
                token: ask.token,
                offset: ask.offset,
                length: ask.length,
            },
            writes: ask.put,
        };
        let remote = RemoteMemory {
            address: ask.address,
            key: ask.key,
        };
        match self.portal.open(request) {
            None => self.deferred.push_back((remote, data)),
            Some(opened) => self.serve(&request, opened, remote, &data),
        }
    }

    fn serve(&mut self, request: &Request, opened: Opened, remote: RemoteMemory, data: &[u8]) {
        let (peer, number) = (request.from.0, request.ask.transfer);
        let ended = |outcome| Answer::End(End { number, outcome });
        let answer = match opened {
            Err(tcp_wire::Outcome::Outside) => ended(Outcome::Outside),
            Err(_) => ended(Outcome::NotGranted),
            Ok(window) if window.len() > SMALL => {
                let of = (Token(request.ask.token), request.writes);
                return self
                    .serving
                    .begin(&mut self.mail, (peer, number), of, window, remote);
            }
            Ok(window) if request.writes => {
                window.copy_from_slice(data);
                ended(Outcome::Done)
            }
            Ok(window) => {
                let mut bytes = vec![0; window.len()];
                window.copy_to_slice(&mut bytes);
                Answer::Data(number, bytes)
            }
        };
        self.mail.answer(peer, answer);
    }

    /// Asks a peer for a transfer.
    fn ask(
        &mut self,
        peer: Peer,
        (token, offset): (Token, u64),
        region: Region,
        operation: Operation,
        put: bool,
    ) -> Result<Posted> {
        if peer.0 == self.mail.me() {
            self.portal.copy_own(peer, (token, offset), region, put)?;
            return Ok(Posted::Done);
        }
        if self.mail.open(peer)?.asks >= MOST {
            return Ok(Posted::Retry);
        }
        let small = region.len() <= SMALL;
        self.scratch.clear();
        let mut registration = None;
        if !small {
            let access = match put {
                true => Access::RemoteRead,
                false => Access::RemoteWrite,
            };
            let registered = self.mail.device.register(&region, access);
            registration = Some(registered.map_err(|what| FabricError::System { what })?);
        } else if put {
            self.scratch.resize(region.len(), 0);
            region.copy_to_slice(&mut self.scratch);
        }
        let remote = registration
            .as_ref()
            .map_or(RemoteMemory::default(), |registration| {
                registration.remote()
            });
        let number = self.asked.number();
        let ask = Ask {
            number,
            put,
            token: token.0,
            offset,
            length: region.len() as u64,
            address: remote.address,
            key: remote.key,
        };
        let posted = self
            .mail
            .post(peer, Kind::Ask, &[&ask.emit(), &self.scratch])?;
        if posted != Posted::Done {
            self.retry_soon();
            return Ok(posted);
        }
        if let Some(link) = self.mail.link(peer.0) {
            link.asks += 1;
        }
        let transfer = Transfer {
            peer: peer.0,
            region,
            operation,
            offset,
            put,
            registration,
        };
        self.asked.keep(number, transfer);
        Ok(Posted::Pending)
    }

    /// Who was refused may sleep without another look.
    #[inline]
    fn retry_soon(&mut self) {
        if self.mail.take_full() {
            self.bell.sleep_shortly();
        }
    }

    /// Sends a message of the mailbox or the sync.
    #[inline]
    fn post(&mut self, to: Peer, kind: Kind, parts: &[&[u8]]) -> Result<Posted> {
        let posted = self.mail.post(to, kind, parts);
        if posted == Ok(Posted::Retry) {
            self.retry_soon();
        }
        posted
    }

    /// Waits until no byte of a grant that was taken back is being sent.
    #[cold]
    fn wait_for_receivers(&mut self, token: Token) {
        let start = Instant::now();
        while self.serving.withdraw(token) {
            self.mail.device.ask();
            match self.mail.completion() {
                Some(event) => self.settle(event),
                None => std::thread::yield_now(),
            }
            if start.elapsed() >= REVOKING {
                for peer in self.serving.receivers(token) {
                    self.mail.lose(
                        peer,
                        format!(
                            "it has not taken bytes that it asked for within {REVOKING:?}, and their memory is needed"
                        ),
                    );
                }
                return;
            }
        }
    }

    /// Another thread of this rank may sleep for what the rank sends to itself.
    fn ring_for_oneself(&self, posted: Posted) -> Posted {
        if posted == Posted::Done {
            self.bell.ring();
        }
        posted
    }

    /// Ends without a word, as a process does that is killed. For tests.
    pub fn die(mut self) {
        for peer in self.mail.begun().to_vec() {
            self.mail.lose(peer, String::new());
        }
    }
}

fn route(provider: &str) -> &'static str {
    match provider.split(';').next().unwrap_or(provider) {
        "tcp" => "ofi, provider tcp",
        "net" => "ofi, provider net",
        "sockets" => "ofi, provider sockets",
        "udp" => "ofi, provider udp",
        "verbs" => "ofi, provider verbs",
        "efa" => "ofi, provider efa",
        "cxi" => "ofi, provider cxi",
        "psm3" => "ofi, provider psm3",
        "psm2" => "ofi, provider psm2",
        "opx" => "ofi, provider opx",
        _ => "ofi",
    }
}

impl Fabric for Ofi {
    fn me(&self) -> Peer {
        Peer(self.mail.me())
    }

    fn peers(&self) -> u32 {
        self.mail.members.peers()
    }

    fn limits(&self) -> Limits {
        Limits {
            data: DATA,
            bulk: DATA,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::monotonic())
    }

    fn route(&self, peer: Peer) -> &'static str {
        match peer {
            _ if peer == self.me() => "within one rank",
            _ if peer.0 >= self.peers() => "nowhere",
            _ => self.route,
        }
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if data.len() > DATA {
            return Err(FabricError::TooLong {
                length: data.len(),
                limit: DATA,
            });
        }
        if to.0 == self.mail.me() {
            let posted = self.loopback.send(head, data);
            return Ok(self.ring_for_oneself(posted));
        }
        self.post(to, Kind::Message, &[head, data])
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        self.look(sink, budget)
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        if let Some(peer) = to {
            self.mail.members.check(peer)?;
        }
        self.portal.grant(region, to, rights, uses)
    }

    /// Bytes move when they are asked for: straight into the memory that they are for.
    fn offer(&mut self, _to: Peer, _token: Token) {}

    fn revoke(&mut self, token: Token) -> bool {
        let live = self.portal.remove(token);
        if self.serving.withdraw(token) {
            self.wait_for_receivers(token);
        }
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
        self.ask(from, (token, offset), into, operation, false)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.ask(to, (token, offset), source, operation, true)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        if to.0 == self.mail.me() {
            let posted = self.loopback.signal(key);
            return Ok(self.ring_for_oneself(posted));
        }
        self.post(to, Kind::Signal, &[&key.0.to_le_bytes()])
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        self.signals.count(from, key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        self.signals.take(from, key, count)
    }

    fn forget(&mut self, key: SyncKey) {
        self.signals.forget(key);
    }

    /// Hosts have no memory in common, and ranks of one host a fabric of their own.
    fn shares_memory(&self, _peer: Peer) -> bool {
        false
    }

    fn allocate_shared(&mut self, _length: usize) -> Result<SharedBlock> {
        Err(FabricError::NotShared { peer: self.me() })
    }

    fn release_shared(&mut self, _key: SharedKey) -> bool {
        false
    }

    fn attach_shared(
        &mut self,
        peer: Peer,
        _key: SharedKey,
        _length: usize,
    ) -> Result<SharedMemory> {
        self.mail.members.check(peer)?;
        Err(FabricError::NotShared { peer })
    }

    /// No peer waits for what is stored here.
    fn is_asleep(&mut self, _peer: Peer) -> bool {
        false
    }

    fn wake(&mut self, _peer: Peer) {}

    /// What was acknowledged has been processed. Who has said goodbye needs nothing more.
    fn is_flushed(&mut self) -> bool {
        let mut flushed = self.mail.has_left() && self.serving.is_idle();
        for index in 0..self.mail.begun().len() {
            let peer = self.mail.begun()[index];
            if self.mail.members.is_lost(Peer(peer)) {
                continue;
            }
            let Some(link) = self.mail.link_ref(peer) else {
                continue;
            };
            flushed &= link.is_flushed();
            if link.should_ask() {
                self.mail.ask_for_acks(peer);
            }
        }
        if !flushed {
            self.retry_soon();
        }
        let watched = self.liveness.as_mut().is_none_or(Liveness::is_flushed);
        flushed && watched
    }

    fn traffic(&self) -> Traffic {
        let mut traffic = Traffic {
            is_at_rest: self.mail.has_left() && self.serving.is_idle() && self.arrived.is_empty(),
            links: Vec::new(),
        };
        for peer in self.mail.begun() {
            if let Some(link) = self.mail.link_ref(*peer) {
                let (sent, received) = link.counts();
                traffic.links.push(LinkTraffic {
                    peer: Peer(*peer),
                    sent,
                    received,
                    is_over: link.is_over,
                });
            }
        }
        traffic
    }

    fn farewell(&mut self) {
        for index in 0..self.mail.begun().len() {
            let peer = self.mail.begun()[index];
            if let Some(link) = self.mail.link(peer)
                && !link.goodbye_said
            {
                link.goodbye_wanted = true;
                self.mail.list(peer);
            }
        }
        self.mail.advance();
        if let Some(liveness) = &mut self.liveness {
            liveness.farewell();
        }
    }
}

impl Remote for Ofi {
    fn grant_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses) {
        self.portal.grant_as(token, region, rights, uses);
    }

    fn has_deferred(&self) -> bool {
        self.portal.has_deferred()
    }

    fn serve_deferred(&mut self, live: &mut dyn FnMut(Token) -> bool) {
        for request in self.portal.take_deferred() {
            let is_live = live(Token(request.ask.token));
            let opened = self.portal.open_deferred(&request, is_live);
            if let Some((remote, data)) = self.deferred.pop_front() {
                self.serve(&request, opened, remote, &data);
            }
        }
    }

    fn is_busy(&self) -> bool {
        !self.mail.begun().is_empty()
    }

    fn network_bell(&self) -> Arc<NetworkBell> {
        self.bell.clone()
    }
}

impl Drop for Ofi {
    /// Hands over what was taken for sending, and says goodbye.
    fn drop(&mut self) {
        struct Nobody;
        impl Sink for Nobody {
            fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
            fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
            fn lost(&mut self, _: Peer, _: &str) {}
            fn signalled(&mut self, _: Peer, _: SyncKey) {}
        }
        let start = Instant::now();
        self.farewell();
        // What was taken has to leave; nobody asks who has read it, for that may be nobody any more.
        while !self.mail.has_left() && start.elapsed() < FAREWELL {
            if self.look(&mut Nobody, 64) == 0 {
                let bell = self.bell.clone();
                let ticket = bell.prepare();
                bell.wait(ticket, Some(Duration::from_millis(1)));
            }
        }
        // The endpoint before registrations of what it uses, and those before the rest.
        self.mail.device.stop();
        self.asked = Asked::default();
        self.serving = Serving::default();
    }
}
