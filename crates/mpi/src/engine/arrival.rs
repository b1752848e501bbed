//! Arrivals: the [`Sink`] of the engine. Nothing here calls the fabric (it is being polled).

use weft_fabric::{Head, Operation, Peer, SharedBytes, Sink, SyncKey, Token};
use weft_matching::{Context, Source, Tag};

use super::Core;
use super::deferred::Deferred;
use super::envelope::{Envelope, MessageKind};
use super::events::EventKind;
use super::one_sided::OneSidedHead;
use super::receiving::PieceTaken;
use super::request_id::RequestId;
use super::sending::Answer;
use super::unexpected::Unexpected;
use crate::error::Error;

impl Sink for Core {
    #[inline]
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        // Most messages are eager, and many are looked for right now, or waited for by the oldest receive.
        let has_met = if self.matching.posted_len() == 0 {
            self.matches_polling_receive(from, head, data)
        } else {
            self.meets_posted(from, head, data)
        };
        if !has_met {
            self.any_message(from, head, data);
        }
    }

    fn transfer_completed(&mut self, operation: Operation, result: weft_fabric::Result<()>) {
        let Some(pull) = self.pulls.end(operation) else {
            let error = || result.clone().err().map(Error::from);
            if self.one_sided.has_transfers()
                && self.one_sided.transfer_completed(operation, error())
            {
                self.end_one_sided();
                return self.wake_for_windows();
            }
            return self.guest.transfer_completed(operation, result);
        };
        self.counters.pulls_ended.add(1);
        self.deferred.push(Deferred::Answer {
            to: pull.from,
            reply: pull.reply,
        });
        self.deferred.push(Deferred::Pulled {
            request: pull.request,
            error: result.err().map(Error::from),
        });
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.deferred.push(Deferred::Lost {
            peer,
            reason: reason.to_owned(),
        });
        self.guest.lost(peer, reason);
    }

    fn departed(&mut self, peer: Peer, reason: &str) {
        self.deferred.push(Deferred::Departed {
            peer,
            reason: reason.to_owned(),
        });
    }

    fn replaced(&mut self, peer: Peer) {
        self.deferred.push(Deferred::Replaced(peer));
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        // Counted by the fabric; the runs that wait for signals look after the poll.
        self.runs.note_signal();
        self.guest.signalled(from, key);
    }
}

impl Core {
    /// A message of any kind.
    #[inline(never)]
    fn any_message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        if self.matching.posted_len() != 0 && self.long_meets_posted(from, head, data) {
            return;
        }
        if let Some((context, tag, signature)) = Envelope::eager_from_head(head) {
            let (words, _) = head.as_chunks::<8>();
            let envelope = Envelope {
                token: Token(u64::from_le_bytes(words[3])),
                ..Envelope::eager(context, tag, 0).of(signature)
            };
            return self.arrive(from, envelope, data);
        }
        match Envelope::from_head(head) {
            Some(envelope) if envelope.kind.is_message() => self.arrive(from, envelope, data),
            Some(envelope) => match envelope.kind {
                MessageKind::Piece => self.piece(from, &envelope, data),
                MessageKind::Cts => self.asked(from, &envelope),
                MessageKind::Mismatch => self.hear_of_mismatch(from, &envelope, data),
                MessageKind::Fin => self.sent(from, envelope.request, envelope.token),
                _ => self.deferred.push(Deferred::Flow { from, envelope }),
            },
            None => self.other_message(from, head, data),
        }
    }

    /// A message that is no envelope: of recovery from losses, of one-sided communication, or of the guest.
    #[inline(never)]
    fn other_message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        if self.recovery_message(from, head, data) {
            return;
        }
        let taken = match OneSidedHead::from_head(head) {
            Some(head) => {
                let taken = self.one_sided.arrive(from, &head, data);
                self.counters.one_sided_arrived.add(u64::from(taken));
                self.end_one_sided();
                self.wake_for_windows();
                taken
            }
            None => self.guest.message(from, head, data),
        };
        self.counters.refused.add(u64::from(!taken));
    }

    #[inline(always)]
    fn arrive(&mut self, from: Peer, mut envelope: Envelope, data: SharedBytes<'_>) {
        let is_rts = envelope.kind.is_rts();
        if !is_rts {
            // The envelope's size is the peer's word; the length of the data is the fabric's.
            envelope.size = data.len() as u64;
        }
        let key = weft_matching::Envelope {
            context: Context(envelope.context),
            source: Source(from.0),
            tag: Tag(envelope.tag),
        };
        // The receive of a call that looks right now is younger than those that are posted.
        if let Some(request) = self.matching.meet(key) {
            self.arrive_posted(request, from, &envelope, data);
        } else if !self.fill_polling_receive(from, &envelope, data) {
            self.arrive_unexpected(key, from, &envelope, data);
        }
    }

    /// A message met no receive: it is kept.
    #[inline(never)]
    fn arrive_unexpected(
        &mut self,
        key: weft_matching::Envelope,
        from: Peer,
        envelope: &Envelope,
        data: SharedBytes<'_>,
    ) {
        let id = self.unexpected.keep(from, *envelope, data);
        self.matching.keep(key, id);
        self.note_unexpected(from, envelope, data.len());
    }

    /// A message met a posted receive.
    #[inline(never)]
    fn arrive_posted(
        &mut self,
        request: RequestId,
        from: Peer,
        envelope: &Envelope,
        data: SharedBytes<'_>,
    ) {
        self.note_matched(from, envelope);
        if envelope.kind.is_rts() {
            if self.match_to_pull(request) {
                self.deferred.push(Deferred::Pull {
                    request,
                    from,
                    envelope: *envelope,
                });
            }
            return;
        }
        self.deliver(request, from, envelope, data);
        if envelope.kind == MessageKind::EagerSynchronous {
            self.answer_matched(from, envelope);
        }
    }

    /// Tells the sender that its message is matched.
    fn answer_matched(&mut self, to: Peer, envelope: &Envelope) {
        if to == self.me {
            // Its request is here: nothing has to be sent for that.
            return self.sent(to, envelope.request, envelope.token);
        }
        self.deferred.push(Deferred::Answer {
            to,
            reply: envelope.reply(),
        });
    }

    /// A message met a waiting receive.
    #[inline]
    fn note_matched(&mut self, from: Peer, envelope: &Envelope) {
        let counters = &*self.counters;
        counters.matched_posted.add(1);
        counters.bytes_received.add(envelope.size);
        let message = (envelope.tag, envelope.context);
        self.raise(EventKind::MatchedPosted, Some(from), message, envelope.size);
    }

    /// A message came before its receive, with so many bytes of data.
    #[inline]
    fn note_unexpected(&mut self, from: Peer, envelope: &Envelope, held: usize) {
        let counters = &*self.counters;
        counters.unexpected.add(held as u64);
        let waiting = self.matching.unexpected_len() as u64;
        counters.unexpected_most.raise(waiting);
        if held > 0 {
            let bytes = counters.unexpected_bytes_now();
            counters.unexpected_bytes_most.raise(bytes);
        }
        let message = (envelope.tag, envelope.context);
        self.raise(EventKind::Unexpected, Some(from), message, envelope.size);
        let Envelope { context, tag, .. } = *envelope;
        self.waiters
            .wake_for_message(context, tag, &mut self.callbacks);
    }

    /// A receive met a waiting message, of which so many bytes were held.
    #[inline]
    pub(super) fn note_taken(&mut self, message: &Unexpected) {
        let counters = &*self.counters;
        counters.matched_unexpected.add(1);
        counters.unexpected_gone.add(message.data.len() as u64);
        counters.bytes_received.add(message.envelope.size);
        let (from, envelope) = (message.from, message.envelope);
        let named = (envelope.tag, envelope.context);
        self.raise(
            EventKind::MatchedUnexpected,
            Some(from),
            named,
            envelope.size,
        );
    }

    /// A receive belongs to a message whose data wait at the sender: from now on it ends with their
    /// transfer. False if it has ended.
    pub(super) fn match_to_pull(&mut self, id: RequestId) -> bool {
        let slot = self.requests.get_mut(id);
        slot.is_some_and(|slot| slot.match_to_pull())
    }

    /// The data of a matched receive are here.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        id: RequestId,
        from: Peer,
        envelope: &Envelope,
        data: SharedBytes<'_>,
    ) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        // Where nobody marks messages, the word of a synchronous one has no meaning any more.
        let mark = if self.tells_marks {
            envelope.token
        } else {
            Token(0)
        };
        if slot.deliver((from, mark), envelope, data) {
            let has_more = slot.complete();
            if self.events.wants(EventKind::Completed) {
                self.note_completed(id);
            }
            if has_more {
                self.run_on_complete(id);
            }
        }
    }

    /// A part of the data of a receive is here.
    fn piece(&mut self, from: Peer, envelope: &Envelope, data: SharedBytes<'_>) {
        let slot = self.requests.get_mut(envelope.request);
        let place = (envelope.token, envelope.size);
        match slot.map_or(PieceTaken::Undue, |slot| slot.take_piece(from, place, data)) {
            PieceTaken::Undue => self.counters.refused.add(1),
            PieceTaken::GoesOn => {}
            PieceTaken::Ends => self.complete(envelope.request),
        }
    }

    /// A peer says that one of our sends is matched and asks for its data.
    fn asked(&mut self, from: Peer, envelope: &Envelope) {
        let slot = self.requests.get_mut(envelope.request);
        if slot.is_some_and(|slot| slot.ask(from, envelope.token)) {
            self.deferred.push(Deferred::Asked {
                request: envelope.request,
                receive: envelope.receive(),
            });
        } else {
            self.counters.refused.add(1);
        }
    }

    /// A peer says that one of our sends is matched and its buffer free.
    fn sent(&mut self, from: Peer, id: RequestId, token: Token) {
        let slot = self.requests.get_mut(id);
        match slot.map_or(Answer::Undue, |slot| slot.answer(from, token)) {
            Answer::Undue => self.counters.refused.add(1),
            Answer::EndsGrant => self.deferred.push(Deferred::Answered(id)),
            Answer::Ends => self.complete(id),
        }
    }
}
