//! Transfers of the endpoint: asking for one, and carrying out those that it is asked for.

use std::time::{Duration, Instant};

use weft_fabric::{FabricError, HEAD, Operation, Peer, Posted, Region, Result, Token};
use weft_fabric_tcp::portal::{Opened, Request};
use weft_fabric_tcp::wire as tcp_wire;

use super::Ofi;
use crate::asked::{MOST, Transfer};
use crate::libfabric::registration::{Access, RemoteMemory};
use crate::links::Answer;
use crate::serving::Way;
use crate::wire::{Ask, End, Kind, Outcome};

/// How long a grant that is taken back waits for bytes on their way to somebody who does not take them.
const REVOKING: Duration = Duration::from_secs(10);

impl Ofi {
    /// Transfers of so many bytes travel in the message that asks or answers.
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
                let way = match remote {
                    Some(remote) => Way::RemoteAccess(remote),
                    None => Way::Messages(self.small()),
                };
                return self
                    .serving
                    .begin(&mut self.mail, (peer, number), of, window, way);
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
            fetches: 0,
        };
        self.asked.keep(number, transfer);
        Ok(Posted::Pending)
    }

    /// Waits until no byte of a grant that was taken back is being sent.
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
