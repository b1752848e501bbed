//! Messages of the endpoint: what has arrived, and to whom it is reported; what is sent.

use weft_fabric::{Bell, HEAD, Peer, Posted, Result, SharedBytes, Sink, SyncKey};

use super::Ofi;
use crate::wire::{Ask, End, FrameKind, HEADER, Outcome, Piece};

impl Ofi {
    /// Handles a message, and gives its buffer back.
    #[inline]
    pub(super) fn receive(&mut self, slot: usize, length: usize, sink: &mut dyn Sink) {
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
    pub(super) fn understand(
        &mut self,
        from: u32,
        kind: FrameKind,
        (slot, length): (usize, usize),
        sink: &mut dyn Sink,
    ) -> Option<()> {
        let body = &self.mail.device.received(slot, length)[HEADER..];
        let peer = Peer(from);
        match kind {
            FrameKind::Message => {
                let (head, data) = body.split_first_chunk::<HEAD>()?;
                sink.message(peer, head, SharedBytes::of(data));
            }
            FrameKind::Signal => {
                let key = SyncKey(u64::from_le_bytes(body.try_into().ok()?));
                self.signals.arrive(peer, key);
                sink.signalled(peer, key);
            }
            FrameKind::Data => {
                let (number, bytes) = body.split_first_chunk::<4>()?;
                let number = u32::from_le_bytes(*number);
                let transfer = self.asked.get(number, from)?;
                if transfer.put || bytes.len() != transfer.region.len() {
                    return None;
                }
                transfer.region.copy_from_slice(bytes);
                self.end(from, number, Outcome::Done, sink);
            }
            FrameKind::End => {
                let end = End::parse(body)?;
                self.asked.get(end.number, from)?;
                self.end(from, end.number, end.outcome, sink);
            }
            FrameKind::Ask => {
                let (ask, data) = Ask::parse(body)?;
                let small = ask.length <= self.small() as u64;
                let carried = if ask.put && small { ask.length } else { 0 };
                if data.len() as u64 != carried {
                    return None;
                }
                let data = data.to_vec();
                self.open(peer, &ask, data);
            }
            FrameKind::Piece => {
                let (piece, bytes) = Piece::parse_whole(body)?;
                let transfer = self.asked.get(piece.number, from)?;
                let place = piece.within(&transfer.region);
                place.filter(|_| !transfer.put)?.copy_from_slice(bytes);
            }
            FrameKind::Fetch => {
                let (piece, rest) = Piece::parse(body)?;
                let most = rest.is_empty().then_some(self.small())?;
                self.asked.fetch(from, piece, most)?;
            }
            FrameKind::Fetched => {
                let (piece, bytes) = Piece::parse_whole(body)?;
                self.serving.fetched(from, &piece, bytes)?;
            }
            FrameKind::Goodbye | FrameKind::Ack => return body.is_empty().then_some(()),
        }
        Some(())
    }

    /// A transfer of ours has ended.
    pub(super) fn end(&mut self, from: u32, number: u32, outcome: Outcome, sink: &mut dyn Sink) {
        if let Some(mut transfer) = self.asked.remove(number) {
            // No peer can access the memory from here on.
            transfer.registration = None;
            if let Some(link) = self.mail.link(from) {
                link.asks = link.asks.saturating_sub(1);
            }
            sink.transfer_completed(transfer.operation, transfer.result(outcome));
        }
    }

    /// A refused sender may sleep without another look.
    #[inline]
    pub(super) fn retry_soon(&mut self) {
        if self.mail.take_full() {
            self.bell.sleep_shortly();
        }
    }

    /// Sends a message of the mailbox or the sync.
    #[inline]
    pub(super) fn post(&mut self, to: Peer, kind: FrameKind, parts: &[&[u8]]) -> Result<Posted> {
        if self.later.is_stale() {
            // Another process may have this number now; the next look reports that first.
            return Ok(Posted::Retry);
        }
        let posted = self.mail.post(to, kind, parts);
        if posted == Ok(Posted::Retry) {
            self.retry_soon();
        }
        posted
    }

    /// Another thread of this rank may sleep until the rank sends something to itself.
    pub(super) fn ring_for_oneself(&self, posted: Posted) -> Posted {
        if posted == Posted::Done {
            self.bell.ring();
        }
        posted
    }
}
