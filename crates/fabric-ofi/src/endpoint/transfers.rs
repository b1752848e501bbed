//! Transfers of the endpoint: asking for them, and carrying out those that peers ask for.

use std::time::{Duration, Instant};

use weft_fabric::{FabricError, HEAD, Operation, Peer, Posted, Region, Result, Token};
use weft_fabric_tcp::portal::{Opened, Request};
use weft_fabric_tcp::wire as tcp_wire;

use super::Ofi;
use crate::asked::{MOST, Transfer};
use crate::libfabric::registration::{Access, RemoteMemory};
use crate::links::Answer;
use crate::serving::TransferMethod;
use crate::wire::{Ask, End, FrameKind, Outcome};

/// How long revoking a grant waits for bytes on their way to a peer that does not take them.
const REVOKING: Duration = Duration::from_secs(10);

impl Ofi {
    /// Transfers of up to this many bytes travel in the message that asks or answers.
    #[inline]
    pub(super) fn small(&self) -> usize {
        self.data + HEAD - Ask::BYTES
    }

    /// Looks for the grant that a peer asks for.
    pub(super) fn open(&mut self, from: Peer, ask: &Ask, data: Vec<u8>) {
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
        let remote = (!ask.by_messages).then_some(RemoteMemory {
            address: ask.address,
            key: ask.key,
        });
        match self.portal.open(request) {
            None => self.deferred.push_back((remote, data)),
            Some(opened) => self.serve(&request, opened, remote, &data),
        }
    }

    pub(super) fn serve(
        &mut self,
        request: &Request,
        opened: Opened,
        remote: Option<RemoteMemory>,
        data: &[u8],
    ) {
        let (peer, number) = (request.from.0, request.ask.transfer);
        let ended = |outcome| Answer::End(End { number, outcome });
        let answer = match opened {
            Err(tcp_wire::Outcome::Outside) => ended(Outcome::Outside),
            Err(_) => ended(Outcome::NotGranted),
            Ok(window) if window.len() > self.small() => {
                let of = (Token(request.ask.token), request.writes);
                let remote = remote.filter(|_| self.mail.device.has_remote_access());
                let method = match remote {
                    Some(remote) => TransferMethod::RemoteAccess(remote),
                    None => TransferMethod::Messages(self.small()),
                };
                return self
                    .serving
                    .begin(&mut self.mail, (peer, number), of, window, method);
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
    pub(super) fn ask(
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
        if self.later.is_stale() || self.mail.open(peer)?.asks >= MOST {
            return Ok(Posted::Retry);
        }
        let small = region.len() <= self.small();
        let by_messages = !small && !self.mail.device.has_remote_access();
        self.scratch.clear();
        let mut registration = None;
        if !small && !by_messages {
            let access = match put {
                true => Access::RemoteRead,
                false => Access::RemoteWrite,
            };
            let registered = self.mail.device.register(&region, access);
            registration = Some(registered.map_err(|what| FabricError::System { what })?);
        } else if put && small {
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
            by_messages,
            token: token.0,
            offset,
            length: region.len() as u64,
            address: remote.address,
            key: remote.key,
        };
        let posted = self
            .mail
            .post(peer, FrameKind::Ask, &[&ask.emit(), &self.scratch])?;
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
            fetches: 0,
        };
        self.asked.keep(number, transfer);
        Ok(Posted::Pending)
    }

    /// Waits until no byte of a revoked grant is being sent.
    #[cold]
    pub(super) fn wait_for_receivers(&mut self, token: Token) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libfabric::mask::Mask;
    use weft_fabric::conformance::{Event, Inbox, Memory, PATIENCE};
    use weft_fabric::{Fabric, Rights, Uses};

    const LENGTH: usize = 5 << 20;

    /// A put by messages from rank 1 to rank 0, half done: pieces were asked for, and none has arrived.
    fn in_the_middle() -> Option<([Ofi; 2], [Memory; 2])> {
        let mask = Mask {
            remote_access: true,
            ..Mask::default()
        };
        crate::found().ok()?;
        let group = Ofi::group_under(2, "tcp", mask).expect("endpoints on loopback");
        let [mut owner, mut asker] = <[Ofi; 2]>::try_from(group).ok()?;
        let memories = [Memory::filled(LENGTH, 1), Memory::filled(LENGTH, 2)];
        let token = owner
            .grant(memories[0].region(), None, Rights::Write, Uses::Many)
            .expect("fits");
        let posted = asker.put(Peer(0), token, 0, memories[1].region(), Operation(7));
        assert_eq!(posted, Ok(Posted::Pending));
        let start = Instant::now();
        while owner.serving.is_idle() {
            // The request leaves when there is a connection; nothing that arrives is looked at.
            asker.mail.device.ask();
            asker.mail.advance();
            owner.poll(&mut Inbox::default(), 32);
            assert!(start.elapsed() < PATIENCE, "nothing was asked for");
        }
        Some(([owner, asker], memories))
    }

    #[test]
    fn a_peer_lost_in_the_middle_of_pieces_is_not_waited_for() {
        let Some(([mut owner, asker], [window, _source])) = in_the_middle() else {
            return;
        };
        owner.mail.lose(1, "it has died".into());
        let mut inbox = Inbox::default();
        owner.poll(&mut inbox, 32);
        assert_eq!(inbox.events, [Event::Lost(Peer(1))]);
        owner.poll(&mut inbox, 32);
        assert!(owner.serving.is_idle());
        assert!(window.bytes().iter().all(|byte| *byte == 1));
        asker.die();
        owner.die();
    }

    #[test]
    fn pieces_for_an_owner_that_is_lost_are_not_sent() {
        let Some(([owner, mut asker], [_window, _source])) = in_the_middle() else {
            return;
        };
        let mut inbox = Inbox::default();
        asker.mail.lose(0, "it has died".into());
        asker.poll(&mut inbox, 32);
        let ended = |event: &Event| matches!(event, Event::TransferCompleted(Operation(7), Err(_)));
        assert!(inbox.events.iter().any(ended), "{:?}", inbox.events);
        asker.poll(&mut inbox, 32);
        assert_eq!(asker.asked.advance(&mut asker.mail), 0);
        owner.die();
        asker.die();
    }

    /// A request of an owner for more than it may ask is malformed.
    #[test]
    fn pieces_are_asked_for_within_bounds() {
        use crate::asked::{Asked, FETCHES};
        use crate::wire::Piece;

        let memory = Memory::filled(100, 0);
        let mut asked = Asked::default();
        let number = asked.number();
        let transfer = Transfer {
            peer: 3,
            region: memory.region(),
            operation: Operation(1),
            offset: 0,
            put: true,
            registration: None,
            fetches: 0,
        };
        asked.keep(number, transfer);
        let piece = |offset, length| Piece {
            number,
            length,
            offset,
        };
        assert_eq!(asked.fetch(4, piece(0, 10), 50), None, "another's");
        assert_eq!(asked.fetch(3, piece(91, 10), 50), None, "beyond the memory");
        assert_eq!(asked.fetch(3, piece(u64::MAX, 10), 50), None, "beyond all");
        assert_eq!(asked.fetch(3, piece(0, 51), 50), None, "too long");
        for _ in 0..FETCHES {
            assert_eq!(asked.fetch(3, piece(0, 50), 50), Some(()));
        }
        assert_eq!(asked.fetch(3, piece(0, 50), 50), None, "too many");
    }
}
