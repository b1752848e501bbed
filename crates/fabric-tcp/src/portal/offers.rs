//! Offers between two peers: a portal's bytes, sent before they are asked for.
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
//! A request costs a round trip in which the connection would be idle. At most [`AHEAD`] bytes of one peer
//! are on offer at a time, which bounds what is kept for it; a `Get` ends an offer on both sides.

use weft_fabric::{Region, Token};

use crate::outgoing::{Bulk, Outgoing};
use crate::wire::{Ask, ChunkHead, FrameKind, Malformed, Offer, TransferKind};

/// Most bytes on offer to one peer: as many as are sent in one go on a short path, where the send buffer holds
/// no more. A longer portal is not offered in part: pulling the rest costs more than it saves.
pub const AHEAD: usize = 512 << 10;

/// An offer of ours that a peer has not answered with a get.
#[derive(Clone, Copy, Debug)]
struct Ours {
    token: u64,
    number: u32,
    length: usize,
}

/// An offer of a peer, whose bytes it sends, or has sent, unasked.
#[derive(Debug)]
struct Theirs {
    offer: Offer,
    /// The get that has taken it.
    taker: Option<u32>,
    /// Whether the look has ended once so that the offer could be taken.
    seen: bool,
    received: usize,
    /// Bytes that came before it was taken, each with its offset.
    kept: Vec<(usize, Box<[u8]>)>,
}

/// The grants on offer between this rank and one peer.
#[derive(Default)]
pub struct Offers {
    ours: Vec<Ours>,
    theirs: Vec<Theirs>,
    /// The number of our last offer; 0 is not used.
    last: u32,
}

/// Where the bytes of an offered chunk go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The offer is void.
    Nowhere,
    /// They are kept until the offer is taken.
    Kept,
    /// To the memory of the get with this number, from this offset.
    Of(u32, usize),
}

/// The part of an offer that had arrived when it was taken.
pub struct Taken {
    /// Bytes, each with its offset.
    pub kept: Vec<(usize, Box<[u8]>)>,
    /// The number of bytes that had arrived.
    pub received: usize,
}

impl Offers {
    /// Puts a grant of ours on offer. False: it is too long, given what is on offer already.
    pub fn make(&mut self, out: &mut Outgoing, token: Token, region: Region) -> bool {
        let open: usize = self.ours.iter().map(|one| one.length).sum();
        let length = region.len();
        if length == 0 || length > AHEAD - open || !out.has_room(Offer::BYTES) {
            return false;
        }
        self.last = self.last.wrapping_add(1).max(1);
        let offer = Offer {
            number: self.last,
            token: token.0,
            length: length as u64,
        };
        out.post(FrameKind::Offer, &[&offer.emit()]);
        out.push_bulk(Bulk {
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
        true
    }

    /// The peer asks for bytes of a grant. True: it has taken our offer, whose bytes are on their way.
    pub fn close(&mut self, ask: &Ask, out: &mut Outgoing) -> bool {
        let Some(index) = self.ours.iter().position(|one| one.token == ask.token) else {
            return false;
        };
        let ours = self.ours.swap_remove(index);
        if ask.offer == ours.number {
            return true;
        }
        // It asks for something else; our memory is free once it has that.
        let is_it = |bulk: &Bulk| (bulk.kind, bulk.transfer) == (TransferKind::Offer, ours.number);
        out.cancel(is_it);
        out.detach(TransferKind::Offer, ours.number);
        false
    }

    /// Revokes a grant; returns its offers, whose end the peer must be told.
    pub fn revoke(&mut self, token: Token) -> impl Iterator<Item = u32> + '_ {
        let gone = self.ours.extract_if(.., move |one| one.token == token.0);
        gone.map(|one| one.number)
    }

    /// Takes an offer of the peer.
    ///
    /// # Errors
    /// The number is known, or it has more on offer than [`AHEAD`].
    pub fn offered(&mut self, offer: Offer) -> Result<(), Malformed> {
        let open = self.theirs.iter().filter(|one| one.taker.is_none());
        let open: u64 = open.map(|one| one.offer.length).sum();
        let known = self.position(offer.number).is_some();
        // An offer of no bytes is malformed: there could be any number of them.
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

    fn position(&self, number: u32) -> Option<usize> {
        let is_it = |one: &Theirs| one.offer.number == number;
        self.theirs.iter().position(is_it)
    }

    /// Whether the look is to end before a chunk of this offer, once, so that the layer above, which was told
    /// of the offer, can take it.
    pub fn waits_for_taker(&mut self, number: u32) -> bool {
        let Some(index) = self.position(number) else {
            return false;
        };
        let one = &mut self.theirs[index];
        one.taker.is_none() && !std::mem::replace(&mut one.seen, true)
    }

    /// Where the bytes of an offered chunk go.
    ///
    /// # Errors
    /// The bytes are not within the offer.
    pub fn destination(&self, head: ChunkHead, length: usize) -> Result<Destination, Malformed> {
        let Some(index) = self.position(head.transfer) else {
            return Ok(Destination::Nowhere);
        };
        let one = &self.theirs[index];
        let offset = usize::try_from(head.offset).map_err(|_| Malformed)?;
        let kept: usize = one.kept.iter().map(|(_, bytes)| bytes.len()).sum();
        let end = offset.checked_add(length).ok_or(Malformed)?;
        let outside = end as u64 > one.offer.length || (kept + length) as u64 > one.offer.length;
        if length == 0 || outside {
            return Err(Malformed);
        }
        Ok(match one.taker {
            None => Destination::Kept,
            Some(taker) => Destination::Of(taker, offset),
        })
    }

    /// An offered chunk has arrived whole; `kept` are its bytes that went to no memory of an asker. Returns the
    /// get that has taken the offer, and its bytes among those.
    pub fn landed(
        &mut self,
        head: ChunkHead,
        length: usize,
        kept: Vec<u8>,
    ) -> Option<(u32, Vec<u8>)> {
        let index = self.position(head.transfer)?;
        let one = &mut self.theirs[index];
        one.received += length;
        let Some(taker) = one.taker else {
            one.kept.push((head.offset as usize, kept.into()));
            return None;
        };
        if one.is_over() {
            self.theirs.remove(index);
        }
        Some((taker, kept))
    }

    /// The number of the offer of a grant that is to be read as a whole. An offer of which another part is
    /// wanted is void.
    pub fn find(&mut self, token: Token, (offset, length): (u64, u64)) -> Option<u32> {
        let is_it = |one: &Theirs| one.offer.token == token.0 && one.taker.is_none();
        let index = self.theirs.iter().position(is_it)?;
        let offer = self.theirs[index].offer;
        if offset == 0 && offer.length == length {
            return Some(offer.number);
        }
        self.theirs.swap_remove(index);
        None
    }

    /// A get takes an offer, and what of it has arrived.
    pub fn take(&mut self, number: u32, taker: u32) -> Option<Taken> {
        let index = self.position(number)?;
        let one = &mut self.theirs[index];
        one.taker = Some(taker);
        let taken = Taken {
            kept: std::mem::take(&mut one.kept),
            received: one.received,
        };
        if one.is_over() {
            self.theirs.swap_remove(index);
        }
        Some(taken)
    }

    /// A get has ended: the offers that it had taken are void. Returns their numbers.
    pub fn drop_taken(&mut self, taker: u32) -> impl Iterator<Item = u32> + '_ {
        let gone = self
            .theirs
            .extract_if(.., move |one| one.taker == Some(taker));
        gone.map(|one| one.offer.number)
    }

    /// The peer takes an offer back. Returns the get that had taken it.
    pub fn withdrawn(&mut self, number: u32) -> Option<u32> {
        let index = self.position(number)?;
        self.theirs.swap_remove(index).taker
    }
}

impl Theirs {
    /// Whether all of it has arrived.
    fn is_over(&self) -> bool {
        self.received as u64 >= self.offer.length
    }
}

#[cfg(test)]
mod tests {
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
        let mut offers = Offers::default();
        assert_eq!(offers.offered(offer(1, 0)), Err(Malformed), "nothing");
        assert_eq!(offers.offered(offer(1, AHEAD / 2)), Ok(()));
        assert_eq!(offers.offered(offer(1, 1)), Err(Malformed), "known");
        let rest = AHEAD - AHEAD / 2;
        assert_eq!(offers.offered(offer(2, rest + 1)), Err(Malformed), "more");
        assert_eq!(offers.offered(offer(2, rest)), Ok(()));
        // A get ends an offer: both one that it takes and one that it does not.
        let (half, rest) = (AHEAD as u64 / 2, rest as u64);
        assert_eq!(offers.find(Token(1), (0, half)), Some(1));
        assert_eq!(offers.find(Token(2), (1, 5)), None);
        assert_eq!(offers.find(Token(2), (0, rest)), None, "void");
        let rest = rest as usize;
        assert_eq!(offers.offered(offer(3, rest)), Ok(()));
    }

    #[test]
    fn chunks_beyond_an_offer_are_refused() {
        let mut offers = Offers::default();
        assert_eq!(offers.offered(offer(1, 100)), Ok(()));
        let head = |transfer, offset| ChunkHead {
            transfer,
            kind: TransferKind::Offer,
            offset,
        };
        assert!(offers.waits_for_taker(1), "once");
        assert!(!offers.waits_for_taker(1));
        for (offset, length) in [(0, 0), (0, 101), (100, 1), (u64::MAX, 2)] {
            let target = offers.destination(head(1, offset), length);
            assert!(target.is_err(), "{length} bytes at {offset}");
        }
        assert!(matches!(
            offers.destination(head(1, 40), 60),
            Ok(Destination::Kept)
        ));
        let unknown = offers.destination(head(2, 0), 1000);
        assert!(matches!(unknown, Ok(Destination::Nowhere)));
    }
}
