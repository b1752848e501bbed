//! Transfers with one peer: our gets and puts under way, and its puts into our memory.
//!
//! ```text
//!   get               asked ─► chunks, or taken from an offer ─► completed
//!   put               asked, its chunks queued ─► End of the owner ─► completed
//!   put of the peer   announced ─► chunks ─► End to the peer
//! ```
//!
//! What is under way survives a broken connection. It ends with the peer ([`Transfers::abandon`]), with the grant
//! ([`Transfers::withdraw`]), or when the owner of the memory says so ([`Transfers::ended`]). Gets of the peer
//! are [bulk](crate::outgoing::Bulk) of the outgoing queue and nothing else.

use std::collections::HashMap;

use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Sink, Token};

use super::Opened;
use super::offers::{Destination, Offers};
use crate::link::{Link, Target};
use crate::network::Stream;
use crate::outgoing::{Bulk, Outgoing};
use crate::wire::{Ask, ChunkHead, End, FrameKind, Malformed, Offer, Outcome, TransferKind};

/// Most transfers that one peer may have under way with us, and we with it.
const TRANSFERS: usize = 1024;

/// A get or put of ours.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The grant of the peer.
    pub token: Token,
    /// From its start, in bytes.
    pub offset: u64,
    /// The whole memory to write to, or to read.
    pub region: Region,
    /// The report when it has ended.
    pub operation: Operation,
    /// Whether it is a put.
    pub put: bool,
}

/// Our own get or put that is under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    operation: Operation,
    region: Region,
    offset: u64,
    received: usize,
}

/// A put of the peer into our memory.
#[derive(Clone, Copy, Debug)]
struct IncomingPut {
    token: Token,
    region: Region,
    received: usize,
}

/// Transfers under way with one peer.
#[derive(Default)]
pub struct Transfers {
    gets: HashMap<u32, Asked>,
    puts: HashMap<u32, Asked>,
    incoming_puts: HashMap<u32, IncomingPut>,
    /// The number of our last get or put.
    last: u32,
    offers: Offers,
}

impl Transfers {
    /// Whether a transfer of ours waits for the peer.
    pub fn is_waiting(&self) -> bool {
        !self.gets.is_empty() || !self.puts.is_empty()
    }

    /// How many gets, puts and puts of the peer are under way.
    #[cfg(test)]
    pub fn counts(&self) -> [usize; 3] {
        [self.gets.len(), self.puts.len(), self.incoming_puts.len()]
    }

    /// Whether there is room for one more of ours.
    pub fn has_room(&self, out: &Outgoing) -> bool {
        self.gets.len() + self.puts.len() < TRANSFERS && out.has_room(Ask::BYTES)
    }

    /// Asks the peer; the caller has checked for [room](Self::has_room). [`Posted::Done`] if an offer has
    /// already brought everything that is wanted.
    pub fn ask(&mut self, out: &mut Outgoing, asking: Asking) -> Posted {
        let (transfer, length) = (self.number(), asking.region.len() as u64);
        let offer = match asking.put {
            true => None,
            false => self.offers.find(asking.token, (asking.offset, length)),
        };
        let ask = Ask {
            transfer,
            offer: offer.unwrap_or(0),
            token: asking.token.0,
            offset: asking.offset,
            length,
        };
        let asked = Asked {
            operation: asking.operation,
            region: asking.region,
            offset: asking.offset,
            received: 0,
        };
        if asking.put {
            self.puts.insert(transfer, asked);
            out.post(FrameKind::Put, &[&ask.emit()]);
            // Both are sent at once: the request is in the ring, which goes before bulk.
            out.push_bulk(Bulk {
                transfer,
                kind: TransferKind::Put,
                token: None,
                region: asking.region,
                at: 0,
            });
            return Posted::Pending;
        }
        self.gets.insert(transfer, asked);
        out.post(FrameKind::Get, &[&ask.emit()]);
        match offer {
            Some(number) if self.take_offer(number, transfer) => {
                self.gets.remove(&transfer);
                Posted::Done
            }
            _ => Posted::Pending,
        }
    }

    /// A new number for a transfer of ours.
    fn number(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            let number = self.last;
            if !self.gets.contains_key(&number) && !self.puts.contains_key(&number) {
                return number;
            }
        }
    }

    /// A get has taken an offer: what has arrived goes to its memory. True: that was everything.
    fn take_offer(&mut self, number: u32, taker: u32) -> bool {
        let Some(taken) = self.offers.take(number, taker) else {
            return false;
        };
        let Some(asked) = self.gets.get_mut(&taker) else {
            return false;
        };
        for (offset, bytes) in taken.kept {
            asked.write(offset, &bytes);
        }
        asked.received += taken.received;
        asked.received >= asked.region.len()
    }

    /// The peer asks for bytes, or announces them; `opened` is the memory that its request names.
    ///
    /// # Errors
    /// It has too many transfers under way.
    pub fn serve(
        &mut self,
        out: &mut Outgoing,
        ask: Ask,
        writes: bool,
        opened: Opened,
    ) -> std::result::Result<(), Malformed> {
        match writes {
            true => self.serve_put(out, ask, opened),
            false => self.serve_get(out, ask, opened),
        }
    }

    fn serve_get(
        &mut self,
        out: &mut Outgoing,
        ask: Ask,
        opened: Opened,
    ) -> std::result::Result<(), Malformed> {
        if out.served() >= TRANSFERS {
            return Err(Malformed);
        }
        match opened {
            Ok(_) if self.offers.close(&ask, out) => {}
            Ok(region) => out.push_bulk(Bulk {
                transfer: ask.transfer,
                kind: TransferKind::Get,
                token: Some(Token(ask.token)),
                region,
                at: 0,
            }),
            Err(outcome) => end(out, ask.transfer, TransferKind::Get, outcome),
        }
        Ok(())
    }

    fn serve_put(
        &mut self,
        out: &mut Outgoing,
        ask: Ask,
        opened: Opened,
    ) -> std::result::Result<(), Malformed> {
        let puts = &mut self.incoming_puts;
        if puts.len() >= TRANSFERS || puts.contains_key(&ask.transfer) {
            return Err(Malformed);
        }
        match opened {
            Ok(region) => {
                let put = IncomingPut {
                    token: Token(ask.token),
                    region,
                    received: 0,
                };
                puts.insert(ask.transfer, put);
            }
            Err(outcome) => end(out, ask.transfer, TransferKind::Put, outcome),
        }
        Ok(())
    }

    /// Puts a grant on offer, if it is not too long.
    pub fn offer(&mut self, out: &mut Outgoing, token: Token, region: Region) -> bool {
        self.offers.make(out, token, region)
    }

    /// Takes an offer of the peer.
    ///
    /// # Errors
    /// The offer is not permitted.
    pub fn offered(&mut self, offer: Offer) -> std::result::Result<(), Malformed> {
        self.offers.offered(offer)
    }

    /// Whether the look is to end before this chunk, so that the layer above, which was told of the offer,
    /// can take it.
    pub fn waits_for_taker(&mut self, head: ChunkHead) -> bool {
        head.kind == TransferKind::Offer && self.offers.waits_for_taker(head.transfer)
    }

    /// Where the bytes of a chunk go: nowhere, if the transfer has ended here.
    ///
    /// # Errors
    /// The bytes are not within what was asked, announced or offered.
    pub fn target(
        &mut self,
        head: ChunkHead,
        length: usize,
    ) -> std::result::Result<Target, Malformed> {
        let region = match head.kind {
            TransferKind::Offer => return self.offered_target(head, length),
            TransferKind::Get => self.gets.get(&head.transfer).map(|asked| asked.region),
            TransferKind::Put => self.incoming_puts.get(&head.transfer).map(|put| put.region),
        };
        let Some(region) = region else {
            return Ok(Target::Nowhere);
        };
        let offset = usize::try_from(head.offset).map_err(|_| Malformed)?;
        let part = region.part(offset, length);
        part.map(Target::Lent).ok_or(Malformed)
    }

    fn offered_target(
        &self,
        head: ChunkHead,
        length: usize,
    ) -> std::result::Result<Target, Malformed> {
        Ok(match self.offers.destination(head, length)? {
            Destination::Nowhere => Target::Nowhere,
            Destination::Kept => Target::Kept,
            Destination::Of(taker, offset) => {
                let region = self.gets.get(&taker).map(|asked| asked.region);
                region
                    .and_then(|region| region.part(offset, length))
                    .map_or(Target::Nowhere, Target::Lent)
            }
        })
    }

    /// A chunk has arrived whole.
    pub fn landed<S: Stream>(
        &mut self,
        head: ChunkHead,
        length: usize,
        (link, out): (&mut Link<S>, &mut Outgoing),
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
                let Some(put) = self.incoming_puts.get_mut(&head.transfer) else {
                    return;
                };
                put.received += length;
                if put.received >= put.region.len() {
                    self.incoming_puts.remove(&head.transfer);
                    end(out, head.transfer, TransferKind::Put, Outcome::Done);
                }
            }
        }
    }

    /// An offered chunk has arrived whole; `kept` are its bytes that went to no memory of an asker.
    fn offered_landed(
        &mut self,
        head: ChunkHead,
        length: usize,
        kept: Vec<u8>,
        sink: &mut dyn Sink,
    ) {
        let Some((taker, kept)) = self.offers.landed(head, length, kept) else {
            return;
        };
        if let Some(asked) = self.gets.get_mut(&taker) {
            asked.write(head.offset as usize, &kept);
            asked.received += length;
        }
        self.finish_get(taker, sink);
    }

    /// Says that a get has ended, if it has.
    fn finish_get(&mut self, transfer: u32, sink: &mut dyn Sink) {
        if let Some(asked) = self.gets.get(&transfer)
            && asked.received >= asked.region.len()
        {
            let operation = asked.operation;
            self.gets.remove(&transfer);
            sink.transfer_completed(operation, Ok(()));
        }
    }

    /// Handles the owner's word on how a transfer of ours has ended, or that it takes an offer back.
    ///
    /// # Errors
    /// A get cannot end like that.
    pub fn ended<S: Stream>(
        &mut self,
        from: Peer,
        end: End,
        (link, out): (&mut Link<S>, &mut Outgoing),
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
        if end.kind == TransferKind::Get {
            link.divert(TransferKind::Get, end.transfer);
            for number in self.offers.drop_taken(end.transfer) {
                link.divert(TransferKind::Offer, number);
            }
        } else {
            out.cancel(|bulk| bulk.kind == TransferKind::Put && bulk.transfer == end.transfer);
            out.detach(TransferKind::Put, end.transfer);
        }
        let result = match end.outcome {
            Outcome::Done => Ok(()),
            outcome => Err(outcome.error(from, asked.offset, asked.region.len() as u64)),
        };
        sink.transfer_completed(asked.operation, result);
        Ok(())
    }

    /// The peer takes an offer back: the get that had taken it ends with it.
    fn offer_withdrawn<S: Stream>(
        &mut self,
        from: Peer,
        number: u32,
        link: &mut Link<S>,
        sink: &mut dyn Sink,
    ) {
        let taker = self.offers.withdrawn(number);
        let taken = taker.and_then(|taker| Some((taker, self.gets.remove(&taker)?)));
        if let Some((taker, asked)) = taken {
            link.divert(TransferKind::Offer, number);
            link.divert(TransferKind::Get, taker);
            let refused = FabricError::NotGranted { peer: from };
            sink.transfer_completed(asked.operation, Err(refused));
        }
    }

    /// Ends a grant: nothing is read or written by it after this, and the peer is told which transfers end.
    /// True if there is something to tell.
    pub fn withdraw<S: Stream>(
        &mut self,
        token: Token,
        link: Option<&mut Link<S>>,
        out: &mut Outgoing,
    ) -> bool {
        let mut ends = out.cancel(|bulk| bulk.token == Some(token));
        for number in self.offers.revoke(token) {
            if !ends.contains(&(number, TransferKind::Offer)) {
                ends.push((number, TransferKind::Offer));
            }
        }
        let puts: Vec<u32> = self
            .incoming_puts
            .extract_if(|_, put| put.token == token)
            .map(|(transfer, _)| transfer)
            .collect();
        if let Some(link) = link {
            for transfer in &puts {
                link.divert(TransferKind::Put, *transfer);
            }
        }
        ends.extend(puts.iter().map(|transfer| (*transfer, TransferKind::Put)));
        // This includes what was sent completely and may have to be resent.
        out.detach_token(token);
        for (transfer, kind) in &ends {
            end(out, *transfer, *kind, Outcome::NotGranted);
        }
        !ends.is_empty()
    }

    /// The peer is gone: everything ends. Returns our operations that had not ended.
    pub fn abandon(&mut self) -> impl Iterator<Item = Operation> + use<> {
        let gone = std::mem::take(self);
        let asked = gone.gets.into_values().chain(gone.puts.into_values());
        asked.map(|asked| asked.operation)
    }
}

impl Asked {
    /// Writes bytes that arrived into its memory, at `offset`.
    fn write(&self, offset: usize, bytes: &[u8]) {
        if let Some(part) = self.region.part(offset, bytes.len()) {
            part.copy_from_slice(bytes);
        }
    }
}

/// Tells the peer how a transfer that concerns our memory has ended.
fn end(out: &mut Outgoing, transfer: u32, kind: TransferKind, outcome: Outcome) {
    let end = End {
        transfer,
        kind,
        outcome,
    };
    out.push_control(FrameKind::End, &end.emit());
}
