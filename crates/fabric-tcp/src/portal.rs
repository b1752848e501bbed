//! Bulk data: gets and puts, asked and served, both in chunks that take turns.
//!
//! ```text
//!   get   asker ── Get ──►  owner looks at its grants:  Chunk … Chunk ──►  straight into the memory
//!                                                       or End: refused
//!   put   asker ── Put, Chunk … Chunk ──►  owner looks at its grants, each chunk lands or goes nowhere
//!               ◄── End: all there, or refused ──
//! ```
//!
//! # Whose memory is read or written when
//! The owner's while its grant is live: [`Tcp::withdraw`] ends all that touches it, and copies what may
//! have to be sent again. The asker's until `moved` is said: before that, what may have to be sent
//! again is copied, too ([`Outgoing::detach`](crate::outgoing::Outgoing::detach)).

use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Result, Sink, Token};

use crate::endpoint::Tcp;
use crate::link::{Link, Target};
use crate::network::{Network, Stream};
use crate::outgoing::Bulk;
use crate::session::{Asked, Landing, Session, TRANSFERS};
use crate::wire::{Ask, ChunkHead, End, FrameKind, Malformed, Outcome, TransferKind};

fn refusal(outcome: Outcome, peer: Peer, offset: u64, length: u64) -> FabricError {
    match outcome {
        Outcome::Outside => FabricError::OutsideGrant {
            peer,
            offset,
            length,
        },
        Outcome::NotGranted | Outcome::Done => FabricError::NotGranted { peer },
    }
}

impl<N: Network> Tcp<N> {
    /// Asks a peer for a transfer.
    pub(crate) fn ask(
        &mut self,
        peer: Peer,
        (token, offset): (Token, u64),
        region: Region,
        operation: Operation,
        put: bool,
    ) -> Result<Posted> {
        let length = region.len() as u64;
        if peer.0 == self.config.me {
            let window = self
                .grants
                .open(token, peer, put, (offset, length))
                .map_err(|outcome| refusal(outcome, peer, offset, length))?;
            if put {
                window.copy_from(&region);
            } else {
                region.copy_from(&window);
            }
            return Ok(Posted::Done);
        }
        let session = self.session(peer)?;
        let full = session.gets.len() + session.puts.len() >= TRANSFERS;
        if full || !session.out.has_room(32) {
            return Ok(Posted::Retry);
        }
        let transfer = session.transfer();
        let offer = match put {
            true => None,
            false => session.find_offer(token, (offset, length)),
        };
        let ask = Ask {
            transfer,
            offer: offer.unwrap_or(0),
            token: token.0,
            offset,
            length,
        };
        let kind = if put { FrameKind::Put } else { FrameKind::Get };
        // The bytes of a put are known before the request goes, so that both go at once.
        let asked = Asked {
            operation,
            region,
            offset,
            received: 0,
        };
        if put {
            session.puts.insert(transfer, asked);
            session.out.push_bulk(Bulk {
                transfer,
                kind: TransferKind::Put,
                token: None,
                region,
                at: 0,
            });
        } else {
            session.gets.insert(transfer, asked);
        }
        match self.request(peer, kind, &ask.emit()) {
            Ok(Posted::Done) => {
                if let (Some(number), Some(session)) = (offer, &mut self.sessions[peer.index()])
                    && session.take_offer(number, transfer)
                {
                    session.gets.remove(&transfer);
                    return Ok(Posted::Done);
                }
                Ok(Posted::Pending)
            }
            other => {
                if let Some(session) = &mut self.sessions[peer.index()] {
                    session.gets.remove(&transfer);
                    session.puts.remove(&transfer);
                    session
                        .out
                        .cancel(|bulk| bulk.kind == TransferKind::Put && bulk.transfer == transfer);
                }
                other
            }
        }
    }

    /// A grant ends: nothing is read or written by it after this.
    pub(crate) fn withdraw(&mut self, token: Token) {
        for peer in 0..self.sessions.len() {
            let Some(session) = &mut self.sessions[peer] else {
                continue;
            };
            let mut ends = session.out.cancel(|bulk| bulk.token == Some(token));
            for number in session.revoke_offers(token) {
                if !ends.contains(&(number, TransferKind::Offer)) {
                    ends.push((number, TransferKind::Offer));
                }
            }
            let incoming_puts: Vec<u32> = session
                .incoming_puts
                .iter()
                .filter(|(_, landing)| landing.token == token)
                .map(|(transfer, _)| *transfer)
                .collect();
            for transfer in incoming_puts {
                session.incoming_puts.remove(&transfer);
                if let Some(link) = &mut session.link {
                    link.divert(TransferKind::Put, transfer);
                }
                ends.push((transfer, TransferKind::Put));
            }
            // Also what was sent to its end, and perhaps is to be sent again.
            session.out.detach_token(token);
            for (transfer, kind) in &ends {
                let end = End {
                    transfer: *transfer,
                    kind: *kind,
                    outcome: Outcome::NotGranted,
                };
                session
                    .out
                    .push_control(FrameKind::End, session.processed, &end.emit());
            }
            if !ends.is_empty() {
                self.pump(peer as u32);
            }
        }
    }
}

impl<S: Stream> Session<S> {
    /// The peer asks for bytes.
    pub(crate) fn serve_get(
        &mut self,
        ask: Ask,
        opened: std::result::Result<Region, Outcome>,
    ) -> std::result::Result<(), Malformed> {
        if self.out.served() >= TRANSFERS {
            return Err(Malformed);
        }
        match opened {
            Ok(_) if self.close_offer(&ask) => {}
            Ok(region) => self.out.push_bulk(Bulk {
                transfer: ask.transfer,
                kind: TransferKind::Get,
                token: Some(Token(ask.token)),
                region,
                at: 0,
            }),
            Err(outcome) => self.end(ask.transfer, TransferKind::Get, outcome),
        }
        Ok(())
    }

    /// The peer announces bytes.
    pub(crate) fn serve_put(
        &mut self,
        ask: Ask,
        opened: std::result::Result<Region, Outcome>,
    ) -> std::result::Result<(), Malformed> {
        if self.incoming_puts.len() >= TRANSFERS || self.incoming_puts.contains_key(&ask.transfer) {
            return Err(Malformed);
        }
        match opened {
            Ok(region) => {
                self.incoming_puts.insert(
                    ask.transfer,
                    Landing {
                        token: Token(ask.token),
                        region,
                        received: 0,
                    },
                );
            }
            Err(outcome) => self.end(ask.transfer, TransferKind::Put, outcome),
        }
        Ok(())
    }

    fn end(&mut self, transfer: u32, kind: TransferKind, outcome: Outcome) {
        let end = End {
            transfer,
            kind,
            outcome,
        };
        self.out
            .push_control(FrameKind::End, self.processed, &end.emit());
    }

    /// Where the bytes of a chunk go. Nowhere, if the transfer has ended here.
    pub(crate) fn target(
        &mut self,
        head: ChunkHead,
        length: usize,
    ) -> std::result::Result<Target, Malformed> {
        let region = match head.kind {
            TransferKind::Offer => return self.offered_target(head, length),
            TransferKind::Get => self.gets.get(&head.transfer).map(|asked| asked.region),
            TransferKind::Put => self.incoming_puts.get(&head.transfer).map(|one| one.region),
        };
        let Some(region) = region else {
            return Ok(Target::Nowhere);
        };
        let offset = usize::try_from(head.offset).map_err(|_| Malformed)?;
        let part = region.part(offset, length);
        part.map(Target::Lent).ok_or(Malformed)
    }

    /// A chunk has arrived whole.
    pub(crate) fn landed(
        &mut self,
        head: ChunkHead,
        length: usize,
        link: &mut Link<S>,
        sink: &mut dyn Sink,
    ) {
        let kept = link.take_kept();
        match head.kind {
            TransferKind::Offer => self.offered_landed(head, length, kept, sink),
            TransferKind::Get => {
                if let Some(asked) = self.gets.get_mut(&head.transfer) {
                    asked.received += length;
                }
                self.finish_get(head.transfer, sink);
            }
            TransferKind::Put => {
                let Some(landing) = self.incoming_puts.get_mut(&head.transfer) else {
                    return;
                };
                landing.received += length;
                if landing.received >= landing.region.len() {
                    self.incoming_puts.remove(&head.transfer);
                    self.end(head.transfer, TransferKind::Put, Outcome::Done);
                }
            }
        }
    }

    /// The owner says how a transfer of ours has ended.
    pub(crate) fn ended(
        &mut self,
        from: Peer,
        end: End,
        link: &mut Link<S>,
        sink: &mut dyn Sink,
    ) -> std::result::Result<(), Malformed> {
        let asked = match end.kind {
            TransferKind::Offer => {
                self.offer_withdrawn(from, end.transfer, link, sink);
                return Ok(());
            }
            TransferKind::Get if end.outcome == Outcome::Done => return Err(Malformed),
            TransferKind::Get => self.gets.remove(&end.transfer),
            TransferKind::Put => self.puts.remove(&end.transfer),
        };
        let Some(asked) = asked else {
            return Ok(());
        };
        match end.kind {
            TransferKind::Offer => {}
            TransferKind::Get => {
                link.divert(TransferKind::Get, end.transfer);
                self.drop_taken(end.transfer, link);
            }
            TransferKind::Put => {
                self.out
                    .cancel(|bulk| bulk.kind == TransferKind::Put && bulk.transfer == end.transfer);
                self.out.detach(TransferKind::Put, end.transfer);
            }
        }
        let length = asked.region.len() as u64;
        let result = match end.outcome {
            Outcome::Done => Ok(()),
            outcome => Err(refusal(outcome, from, asked.offset, length)),
        };
        sink.transfer_completed(asked.operation, result);
        Ok(())
    }
}
