//! Delivery: the handling of each packet that arrives, and of lost peers.
//!
//! ```text
//!   Message ───────────────────► sink
//!   Signal  ───────────────────► signal table, sink
//!   all others ────────────────► portal ──► sink, when a transfer has ended
//!   nonsense, abort, death ────► lost: outbound lane closed, transfers ended, sink told
//! ```

use weft_fabric::{Peer, SignalTable, Sink, SyncKey};

use crate::inbound::{After, Deliver, InboundLanes};
use crate::lane::{Packet, PacketKind, words};
use crate::membership::JobMembership;
use crate::outbound::OutboundLanes;
use crate::portal::Portal;
use crate::slots::End;

/// Whatever changes when something arrives: the endpoint without its inbound lanes, and the sink.
pub(crate) struct Delivery<'a> {
    members: &'a mut JobMembership,
    outbound: &'a mut OutboundLanes,
    portal: &'a mut Portal,
    signals: &'a mut SignalTable,
    sink: &'a mut dyn Sink,
}

impl<'a> Delivery<'a> {
    /// To these parts of one endpoint, and to this sink.
    #[inline]
    pub fn new(
        members: &'a mut JobMembership,
        outbound: &'a mut OutboundLanes,
        portal: &'a mut Portal,
        signals: &'a mut SignalTable,
        sink: &'a mut dyn Sink,
    ) -> Self {
        Self {
            members,
            outbound,
            portal,
            signals,
            sink,
        }
    }

    /// Whether there is something for [`hear_of_others`](Self::hear_of_others).
    #[inline]
    pub fn has_untold(&self) -> bool {
        self.members.has_untold()
    }

    /// A rank has aborted, or the launcher has told of changes: those who aborted are lost, and those who died, after
    /// what they had sent; those who have left are forgotten; new processes have the slots of others. Answers how many
    /// items that were.
    #[cold]
    pub fn hear_of_others(&mut self, inbound: &mut InboundLanes) -> usize {
        let mut done = 0;
        if let Some((peer, reason)) = self.members.tell_abort() {
            self.lose(peer, &reason);
            inbound.close(peer);
            done += 1;
        }
        if !self.members.tell_changes() {
            return done;
        }
        done += 1;
        for peer in (0..self.members.process_slots()).map(Peer) {
            if self.members.is_replaced(peer) {
                self.open(peer, inbound);
            }
            let Some(end) = self.members.untold_end_of(peer) else {
                continue;
            };
            done += inbound.drain_all(peer, self);
            match end {
                End::Died(reason) => self.lose(peer, &reason),
                End::Left => self.part(peer),
            }
            inbound.close(peer);
            done += 1;
        }
        self.members.carried_out_changes();
        done
    }

    /// Another process has the slot of a peer: lanes from their beginning, nothing of the one before.
    #[cold]
    fn open(&mut self, peer: Peer, inbound: &mut InboundLanes) {
        self.outbound.open(peer);
        self.portal.forget(peer);
        self.signals.forget_peer(peer);
        inbound.open(peer);
        self.sink.replaced(peer);
    }

    /// A peer has left the job and its process has ended: nothing more goes there, and nobody waits for it.
    #[cold]
    fn part(&mut self, peer: Peer) {
        const REASON: &str = "it has left the job";
        if self.members.lose(peer, REASON) {
            self.outbound.close(peer);
            self.portal.end_transfers_with(peer, REASON, self.sink);
            self.sink.departed(peer, REASON);
        }
    }

    /// A peer is lost: says so once, ends its transfers, and closes the lane to it. The caller closes the one from it.
    #[cold]
    pub fn lose(&mut self, peer: Peer, reason: &str) {
        if !self.members.lose(peer, reason) {
            return;
        }
        self.outbound.close(peer);
        self.portal.end_transfers_with(peer, reason, self.sink);
        self.sink.lost(peer, reason);
    }

    /// A packet about a transfer.
    #[cold]
    fn portal_packet(&mut self, from: Peer, packet: &Packet<'_>) -> After {
        if self.portal.receive(from, packet, self.sink) {
            return After::Open;
        }
        self.lose(from, "it sent bytes that belong to no transfer");
        After::Closed
    }
}

impl Deliver for Delivery<'_> {
    #[inline]
    fn packet(&mut self, from: Peer, packet: &Packet<'_>) -> After {
        match packet.kind {
            PacketKind::Message => self.sink.message(from, &packet.head, packet.data),
            PacketKind::Signal => {
                let [key, ..] = words(&packet.head);
                self.signals.arrive(from, SyncKey(key));
                self.sink.signalled(from, SyncKey(key));
            }
            PacketKind::Get
            | PacketKind::Put
            | PacketKind::Chunk
            | PacketKind::End
            | PacketKind::Assist
            | PacketKind::Ask => return self.portal_packet(from, packet),
        }
        After::Open
    }

    fn malformed(&mut self, from: Peer) {
        self.lose(from, "it wrote something into its lane that is no message");
    }

    fn has_room(&mut self, from: Peer) {
        self.outbound.tell_room(from);
    }
}
