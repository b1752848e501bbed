//! Flow control: a rank that does not receive is sent no more than it has room for.
//!
//! ```text
//!  sender                                        receiver
//!  messages with data, a window of them ───────►  kept until they are received
//!  CreditAsk ──────────────────────────────────►
//!  as many again ──────────────────────────────►  less than two windows of this peer are kept:
//!                              ◄──────────────── Credit{window}
//!  no answer yet: Rts, Rts, … ─────────────────►  an announcement each; Fin as they are matched
//!  as many announced as fit a window: HeldBack ►
//!                              ◄──────────────── Announce{tag}     a receive waits that may be for one of them
//!  all up to the first with that tag: Rts, … ──►
//! ```
//!
//! Point-to-point messages of programs are counted. Messages of collectives, windows and the creation of communicators
//! are not: they are bounded by themselves, and must not wait for a receive of the program.
//!
//! # What a receiver keeps of a peer
//! When it answers, less than two windows. Then one window until it is asked again, and one more until it answers: four
//! in all. And one window of announcements; further ones only if it asked for them.
//!
//! # Why no rank waits for ever
//! A message beyond the window is announced, so the receiver can match it, whatever it has not received. A message that
//! is held back is behind others of its context that are announced. Either those are matched, and their answers release
//! it; or the receiver posts a receive, or probes, for a message that has not arrived: then it asks for it, since it
//! knows from `HeldBack`, which was sent after the last announcement, that there are more. The sender notes requests that
//! it cannot meet yet: a matching message is then announced at once, with all before it. So each posted receive of the
//! receiver meets the oldest message that it matches, as if nothing were held back.

use weft_fabric::{Peer, Token};
use weft_matching::{Source, SourcePattern, TagPattern};

use super::envelope::{Envelope, MessageKind};
use super::outbox::{Load, Waiting};
use super::request_id::RequestId;
use super::{Engine, Unexpected, UnexpectedId};

/// Peers that hold messages back, in which contexts.
#[derive(Debug, Default)]
pub(super) struct Withheld(Vec<WithheldMessages>);

#[derive(Debug)]
struct WithheldMessages {
    from: Peer,
    context: u32,
    /// Tags that the peer was asked for since it has last said that it holds messages back.
    asked: Vec<Option<i32>>,
}

impl Withheld {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A peer says that it holds messages back.
    fn note(&mut self, from: Peer, context: u32) {
        self.forget(from, context);
        self.0.push(WithheldMessages {
            from,
            context,
            asked: Vec::new(),
        });
    }

    /// It does not any more.
    fn forget(&mut self, from: Peer, context: u32) {
        self.0
            .retain(|one| (one.from, one.context) != (from, context));
    }

    /// A peer is lost.
    pub(super) fn forget_peer(&mut self, peer: Peer) {
        self.0.retain(|one| one.from != peer);
    }

    /// The peers that are to be asked for a message, each once.
    fn ask(&mut self, context: u32, from: Option<Peer>, tag: Option<i32>) -> Vec<Peer> {
        let concerned = |one: &&mut WithheldMessages| {
            one.context == context
                && from.is_none_or(|from| from == one.from)
                && !one.asked.contains(&tag)
        };
        let mut peers = Vec::new();
        for one in self.0.iter_mut().filter(concerned) {
            one.asked.push(tag);
            peers.push(one.from);
        }
        peers
    }
}

/// At the sender.
impl Engine {
    /// Whether a message may leave with its data; if not, it is announced.
    #[inline]
    pub(super) fn has_credit(&mut self, to: Peer, context: u32, bytes: usize) -> bool {
        context & 1 == 1
            || self.outbox.windows.spend(to, bytes)
            || self.finds_credit(to, context, bytes)
    }

    #[cold]
    fn finds_credit(&mut self, to: Peer, context: u32, bytes: usize) -> bool {
        if self.outbox.windows.spend_kept(to, bytes) {
            return true;
        }
        if self.outbox.windows.has_asked(to) && !self.driven {
            // The answer may have come.
            self.progress();
        }
        let windows = &mut self.outbox.windows;
        if windows.holds(to) {
            return false;
        }
        if !windows.has_asked(to) {
            windows.ask(to);
            self.send_control(to, Envelope::flow(MessageKind::CreditAsk, context));
        }
        self.outbox.windows.spend(to, bytes) || self.outbox.windows.spend_kept(to, bytes)
    }

    fn send_control(&mut self, to: Peer, envelope: Envelope) {
        self.post_control(to, envelope.to_head());
    }

    /// Holds back the message of a send.
    #[cold]
    pub(super) fn hold_back(&mut self, to: Peer, request: RequestId, envelope: Envelope) {
        let context = envelope.context;
        if self.outbox.windows.hold(to, request, envelope) {
            self.send_control(to, Envelope::held_back(context, true));
            return;
        }
        let wanted = self.outbox.windows.wanted(to, context);
        if wanted > 0 {
            self.announce_held(to, context, wanted);
        }
    }

    /// Tells a peer of some messages that were held back.
    fn announce_held(&mut self, to: Peer, context: u32, most: usize) {
        for _ in 0..most {
            let Some((request, envelope)) = self.outbox.windows.release(to, context) else {
                break;
            };
            self.announce_send(to, request, envelope);
        }
        let more = self.outbox.windows.end_release(to, context);
        self.send_control(to, Envelope::held_back(context, more));
        self.flush();
    }

    /// Tells a peer of the message of a send that was held back, unless that has ended.
    fn announce_send(&mut self, to: Peer, request: RequestId, mut envelope: Envelope) {
        let slot = self.core.requests.get_mut(request);
        let Some(granted) = slot.and_then(|slot| slot.release()) else {
            return;
        };
        let token = match granted {
            Some(region) => self.grant(region, to),
            None => Ok(envelope.token),
        };
        let mark = envelope.token;
        let Some(slot) = self.core.requests.get_mut(request) else {
            return;
        };
        match token {
            Ok(token) => {
                slot.announce(token);
                envelope.token = token;
                if granted.is_some() && mark != Token(0) {
                    let engine = self.core.requests.engine();
                    self.marking.leaves(engine, (mark.0, token.0));
                }
                self.outbox.windows.note_announced(to);
                let waiting = Waiting {
                    head: envelope.to_head(),
                    load: Load::None,
                    request: Some(request),
                };
                self.outbox.push(to, waiting);
            }
            Err(error) => {
                slot.fail(Some(error));
                self.core.complete(request);
            }
        }
    }

    /// An announced message is matched, or its send has failed.
    #[inline]
    pub(super) fn end_announced(&mut self, to: Peer) {
        if self.outbox.windows.end_announced(to) {
            self.announce_more(to);
        }
    }

    #[cold]
    fn announce_more(&mut self, to: Peer) {
        for context in self.outbox.windows.contexts(to) {
            let room = self.outbox.windows.room(to);
            if room > 0 {
                self.announce_held(to, context, room);
            }
        }
    }

    /// How many messages are held back.
    pub(crate) fn withheld(&self) -> usize {
        self.outbox.windows.held()
    }
}

/// At the receiver.
impl Engine {
    /// What a peer says of flow control.
    #[cold]
    pub(super) fn control_flow(&mut self, from: Peer, envelope: &Envelope) {
        let context = envelope.context;
        match envelope.kind {
            MessageKind::CreditAsk => {
                if self.core.unexpected.owe(from) {
                    self.give_credit(from);
                }
            }
            MessageKind::Credit => self.outbox.windows.answered(from, envelope.size),
            MessageKind::HeldBack if envelope.size == 0 => self.withheld.forget(from, context),
            MessageKind::HeldBack => self.hear_of_held_back(from, context),
            MessageKind::Announce => {
                let wanted = self
                    .outbox
                    .windows
                    .want(from, context, envelope.wanted_tag());
                if wanted > 0 {
                    self.announce_held(from, context, wanted);
                }
            }
            _ => self.core.counters.refused.add(1),
        }
    }

    /// Lets a peer send more that nobody may be there to receive.
    #[cold]
    pub(crate) fn give_credit(&mut self, to: Peer) {
        let size = self.core.unexpected.window();
        self.send_control(to, Envelope::credit(size));
    }

    /// Asks for those that are waited for already.
    fn hear_of_held_back(&mut self, from: Peer, context: u32) {
        self.withheld.note(from, context);
        let posted = self.core.matching.posted();
        let concerned = posted.filter(|(pattern, _)| {
            let source = pattern.source;
            let is_source =
                source == SourcePattern::Any || source == SourcePattern::Exact(Source(from.0));
            pattern.context.0 == context && is_source
        });
        let mut tags: Vec<Option<i32>> = concerned
            .map(|(pattern, _)| match pattern.tag {
                TagPattern::Any => None,
                TagPattern::Exact(tag) => Some(tag.0),
            })
            .collect();
        tags.dedup();
        for tag in tags {
            self.ask_for_withheld(context, Some(from), tag);
        }
        // Probes look again.
        self.core.wake_all();
    }

    /// Somebody waits for a message that is not here.
    #[inline]
    pub(super) fn want_withheld(&mut self, context: u32, from: Option<Peer>, tag: Option<i32>) {
        if !self.withheld.is_empty() {
            self.ask_for_withheld(context, from, tag);
        }
    }

    #[cold]
    fn ask_for_withheld(&mut self, context: u32, from: Option<Peer>, tag: Option<i32>) {
        for peer in self.withheld.ask(context, from, tag) {
            self.send_control(peer, Envelope::announce(context, tag));
        }
    }

    /// Bytes that each peer may have unreceived here each time it asks.
    pub(crate) fn credit_window(&self) -> u32 {
        self.core.unexpected.window()
    }

    /// Sets it; this rank sends others no more either before they answer.
    pub(crate) fn set_credit_window(&mut self, bytes: u32) {
        self.core.unexpected.set_window(bytes);
        self.outbox.windows.set_size(bytes);
    }
}

impl Engine {
    /// A message that came unexpected, for its receive: its sender may have more room now.
    #[inline]
    pub(super) fn take_kept(&mut self, id: UnexpectedId) -> Unexpected {
        let (message, is_due) = self.core.unexpected.take(id);
        if is_due {
            self.give_credit(message.from);
        }
        message
    }
}
