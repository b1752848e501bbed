//! Offers: a portal, sent before it is asked for.
//!
//! ```text
//!   owner                                        asker
//!   Offer{number, token, length}  ──────────►    remembered
//!   Message that names the token  ──────────►    handed out; the look ends before the first chunk
//!   Chunk … Chunk                 ──────────►    asked for meanwhile: straight into the asker's memory
//!                                                otherwise kept, until it is
//!        ◄── Get{token, number}                  takes the offer
//!        ◄── Get{token}                          wants something else: the offer is void
//!   End{number}                   ──────────►    the grant was revoked: the offer is void
//! ```
//!
//! A request costs a round trip, in which the connection would carry nothing. At most [`AHEAD`] bytes of one
//! peer are on offer at a time, so that what is kept for it is bounded; a `Get` ends an offer on both sides.

use weft_fabric::{FabricError, Operation, Peer, Region, Sink, Token};

use crate::link::{Link, Target};
use crate::network::Stream;
use crate::outgoing::Bulk;
use crate::session::{Presence, Session};
use crate::wire::{Ask, ChunkHead, FrameKind, Malformed, Offer, TransferKind};

/// Most bytes on offer to one peer: what is sent in one go on a short path, where the send buffer holds no more.
/// A longer portal is not offered in part: pulling the rest costs more than it saves.
pub const AHEAD: usize = 512 << 10;

/// Bytes of ours that a peer has not answered with a get.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    token: u64,
    number: u32,
    length: usize,
}

/// Bytes that a peer sends, or has sent, of its own accord.
#[derive(Debug)]
pub struct Theirs {
    offer: Offer,
    /// The get that has taken it.
    taker: Option<u32>,
    /// The look has ended once so that it could be taken.
    seen: bool,
    received: usize,
    /// What came before it was taken, and from where on.
    kept: Vec<(usize, Box<[u8]>)>,
}

impl<S: Stream> Session<S> {
    /// Puts a grant on offer, if it is not too long and the connection has time for it.
    pub(crate) fn offer(&mut self, token: Token, region: Region) {
        let open: usize = self.ours.iter().map(|one| one.length).sum();
        let length = region.len();
        let fits = length > 0 && length <= AHEAD - open && self.out.has_room(Offer::BYTES);
        let idle = self.is_live() && self.presence == Presence::Here && self.out.is_flushed();
        if !fits || !idle {
            return;
        }
        self.next_offer = self.next_offer.wrapping_add(1).max(1);
        let offer = Offer {
            number: self.next_offer,
            token: token.0,
            length: length as u64,
        };
        self.out
            .push(FrameKind::Offer, self.processed, &[&offer.emit()]);
        // As any post, it takes a goodbye back.
        (self.unacked_bytes, self.goodbye_sent) = (0, false);
        self.out.push_bulk(Bulk {
            transfer: offer.number,
            kind: TransferKind::Offer,
            token: Some(token),
            region,
            at: 0,
        });
        self.ours.push(Ours {
            token: token.0,
            number: offer.number,
            length,
        });
    }

    /// The peer asks for bytes of a grant. True: it has taken our offer, whose bytes
    /// are on their way.
    pub(crate) fn close_offer(&mut self, ask: &Ask) -> bool {
        let Some(place) = self.ours.iter().position(|one| one.token == ask.token) else {
            return false;
        };
        let ours = self.ours.swap_remove(place);
        if ask.offer == ours.number {
            return true;
        }
        // It wants something else, and our memory back when it has that.
        let is_it = |bulk: &Bulk| (bulk.kind, bulk.transfer) == (TransferKind::Offer, ours.number);
        self.out.cancel(is_it);
        self.out.detach(TransferKind::Offer, ours.number);
        false
    }

    /// A grant is revoked: its offers, which the peer is to be told of.
    pub(crate) fn revoke_offers(&mut self, token: Token) -> impl Iterator<Item = u32> + '_ {
        let gone = self.ours.extract_if(.., move |one| one.token == token.0);
        gone.map(|one| one.number)
    }

    /// The peer offers.
    pub(crate) fn offered(&mut self, offer: Offer) -> Result<(), Malformed> {
        let open: u64 = self
            .theirs
            .iter()
            .filter(|one| one.taker.is_none())
            .map(|one| one.offer.length)
            .sum();
        let known = self
            .theirs
            .iter()
            .any(|one| one.offer.number == offer.number);
        // Nothing is never offered: there could be any number of such offers.
        if known || offer.length == 0 || offer.length > AHEAD as u64 - open {
            return Err(Malformed);
        }
        self.theirs.push(Theirs {
            offer,
            taker: None,
            seen: false,
            received: 0,
            kept: Vec::new(),
        });
        Ok(())
    }

    fn theirs(&mut self, number: u32) -> Option<&mut Theirs> {
        self.theirs
            .iter_mut()
            .find(|one| one.offer.number == number)
    }

    /// Whether the look is to end before this chunk, so that whoever was told of the offer can take it.
    pub(crate) fn waits_for_taker(&mut self, head: ChunkHead) -> bool {
        head.kind == TransferKind::Offer
            && self
                .theirs(head.transfer)
                .is_some_and(|one| one.taker.is_none() && !std::mem::replace(&mut one.seen, true))
    }

    /// Where the bytes of an offered chunk go.
    pub(crate) fn offered_target(
        &mut self,
        head: ChunkHead,
        length: usize,
    ) -> Result<Target, Malformed> {
        let Some(one) = self.theirs(head.transfer) else {
            return Ok(Target::Nowhere);
        };
        let offset = usize::try_from(head.offset).map_err(|_| Malformed)?;
        let kept: usize = one.kept.iter().map(|(_, bytes)| bytes.len()).sum();
        let end = offset.checked_add(length).ok_or(Malformed)?;
        let outside = end as u64 > one.offer.length || (kept + length) as u64 > one.offer.length;
        if length == 0 || outside {
            return Err(Malformed);
        }
        let Some(taker) = one.taker else {
            return Ok(Target::Kept);
        };
        let region = self.gets.get(&taker).map(|asked| asked.region);
        Ok(region
            .and_then(|region| region.part(offset, length))
            .map_or(Target::Nowhere, Target::Lent))
    }

    /// An offered chunk has arrived whole; `kept`: what of it went to no memory of an asker.
    pub(crate) fn offered_landed(
        &mut self,
        head: ChunkHead,
        length: usize,
        kept: Vec<u8>,
        sink: &mut dyn Sink,
    ) {
        let Some(one) = self.theirs(head.transfer) else {
            return;
        };
        one.received += length;
        let offset = head.offset as usize;
        let Some(taker) = one.taker else {
            one.kept.push((offset, kept.into()));
            return;
        };
        let all = one.received as u64 >= one.offer.length;
        if let Some(asked) = self.gets.get_mut(&taker) {
            if let Some(part) = asked.region.part(offset, kept.len()) {
                part.copy_from_slice(&kept);
            }
            asked.received += length;
        }
        if all {
            self.theirs.retain(|one| one.offer.number != head.transfer);
        }
        self.finish_get(taker, sink);
    }

    /// The number under which a grant that is to be read as a whole is on offer. An offer of which something
    /// else is wanted is void.
    pub(crate) fn find_offer(&mut self, token: Token, (offset, length): (u64, u64)) -> Option<u32> {
        let place = self
            .theirs
            .iter()
            .position(|one| one.offer.token == token.0 && one.taker.is_none())?;
        let offer = self.theirs[place].offer;
        if offset == 0 && offer.length == length {
            return Some(offer.number);
        }
        self.theirs.swap_remove(place);
        None
    }

    /// A get has taken an offer: what came already goes to its memory. True: that was all it wants.
    pub(crate) fn take_offer(&mut self, number: u32, taker: u32) -> bool {
        let Some(place) = self
            .theirs
            .iter()
            .position(|one| one.offer.number == number)
        else {
            return false;
        };
        let one = &mut self.theirs[place];
        one.taker = Some(taker);
        let Some(asked) = self.gets.get_mut(&taker) else {
            return false;
        };
        for (offset, bytes) in one.kept.drain(..) {
            if let Some(part) = asked.region.part(offset, bytes.len()) {
                part.copy_from_slice(&bytes);
            }
        }
        asked.received += one.received;
        let all = asked.received >= asked.region.len();
        if one.received as u64 >= one.offer.length {
            self.theirs.swap_remove(place);
        }
        all
    }

    /// A get has ended: an offer that it had taken goes nowhere any more.
    pub(crate) fn drop_taken(&mut self, taker: u32, link: &mut Link<S>) {
        self.theirs.retain(|one| {
            let goes = one.taker == Some(taker);
            if goes {
                link.divert(TransferKind::Offer, one.offer.number);
            }
            !goes
        });
    }

    /// The peer takes an offer back. Answers the get that had taken it, which ends with it.
    pub(crate) fn offer_withdrawn(
        &mut self,
        from: Peer,
        number: u32,
        link: &mut Link<S>,
        sink: &mut dyn Sink,
    ) {
        let Some(place) = self
            .theirs
            .iter()
            .position(|one| one.offer.number == number)
        else {
            return;
        };
        let gone = self.theirs.swap_remove(place);
        let asked = gone.taker.and_then(|taker| self.gets.remove(&taker));
        if let Some(asked) = asked {
            link.divert(TransferKind::Offer, number);
            link.divert(TransferKind::Get, gone.taker.unwrap_or_default());
            let refused = FabricError::NotGranted { peer: from };
            sink.transfer_completed(asked.operation, Err(refused));
        }
    }

    /// Says that a get has ended, if it has.
    pub(crate) fn finish_get(&mut self, transfer: u32, sink: &mut dyn Sink) {
        if let Some(asked) = self.gets.get(&transfer)
            && asked.received >= asked.region.len()
        {
            let operation: Operation = asked.operation;
            self.gets.remove(&transfer);
            sink.transfer_completed(operation, Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    fn offer(number: u32, length: usize) -> Offer {
        Offer {
            number,
            token: u64::from(number),
            length: length as u64,
        }
    }

    #[test]
    fn what_a_peer_has_on_offer_is_bounded() {
        let mut session = Session::<OwnedFd>::new();
        assert_eq!(session.offered(offer(1, 0)), Err(Malformed), "nothing");
        assert_eq!(session.offered(offer(1, AHEAD / 2)), Ok(()));
        assert_eq!(session.offered(offer(1, 1)), Err(Malformed), "known");
        let rest = AHEAD - AHEAD / 2;
        assert_eq!(session.offered(offer(2, rest + 1)), Err(Malformed), "more");
        assert_eq!(session.offered(offer(2, rest)), Ok(()));
        // A get ends an offer: what it takes, and what it does not.
        let (half, rest) = (AHEAD as u64 / 2, rest as u64);
        assert_eq!(session.find_offer(Token(1), (0, half)), Some(1));
        assert_eq!(session.find_offer(Token(2), (1, 5)), None);
        assert_eq!(session.find_offer(Token(2), (0, rest)), None, "void");
        let rest = rest as usize;
        assert_eq!(session.offered(offer(3, rest)), Ok(()));
    }

    #[test]
    fn chunks_beyond_an_offer_are_refused() {
        let mut session = Session::<OwnedFd>::new();
        assert_eq!(session.offered(offer(1, 100)), Ok(()));
        let head = |transfer, offset| ChunkHead {
            transfer,
            kind: TransferKind::Offer,
            offset,
        };
        assert!(session.waits_for_taker(head(1, 0)), "once");
        assert!(!session.waits_for_taker(head(1, 0)));
        for (offset, length) in [(0, 0), (0, 101), (100, 1), (u64::MAX, 2)] {
            let target = session.offered_target(head(1, offset), length);
            assert!(target.is_err(), "{length} bytes at {offset}");
        }
        assert!(matches!(
            session.offered_target(head(1, 40), 60),
            Ok(Target::Kept)
        ));
        let unknown = session.offered_target(head(2, 0), 1000);
        assert!(matches!(unknown, Ok(Target::Nowhere)));
    }
}
