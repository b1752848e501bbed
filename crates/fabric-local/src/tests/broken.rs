//! The conformance suite can fail: each way of breaking a fabric is found by the property for it. Faults that
//! would only show as a wait without end are left out, since they take too long.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weft_fabric::conformance::{Stage, Wrapped, mailboxes, portals, shares, syncs};
use weft_fabric::{
    Fabric, Head, Next, Operation, Peer, Posted, Region, Result, Rights, SharedBytes, SharedKey,
    SharedMemory, Sink, Source, SyncKey, Token, Uses, forward_fabric,
};

use super::group;

/// How a fabric is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Breach {
    /// None: the control.
    None,
    Doubles,
    Reorders,
    ChangesAByte,
    ChangesTheHead,
    CutsLongMessages,
    RefusesWithEffect,
    ReadsBeforeItRefuses,
    CutsLongParts,
    AcceptsTooLong,
    IgnoresTheBudget,
    NobodyIsAStranger,
    Once,
    Anybody,
    AnyRight,
    WholePage,
    RevokesNothing,
    TokensComeAgain,
    SignalsOvertake,
    SignalsAreFlags,
    TakesTooMuch,
    KeysMix,
    ForgetsAll,
    SharesCopies,
    BlocksStay,
    BlocksOfAnybody,
}

struct Broken {
    inner: Box<dyn Fabric>,
    breach: Breach,
    sends: u64,
    held: Vec<(Peer, Head, Vec<u8>)>,
    revoked: Vec<Token>,
}

impl Broken {
    fn is(&self, breach: Breach) -> bool {
        self.breach == breach
    }

    fn every(&self, count: u64) -> bool {
        self.sends.is_multiple_of(count)
    }
}

/// A sink that passes on what arrives, broken.
struct Hands<'a> {
    sink: &'a mut dyn Sink,
    breach: Breach,
    held: &'a mut Vec<(Peer, Head, Vec<u8>)>,
}

impl Sink for Hands<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        if self.breach == Breach::SignalsOvertake {
            // Kept until the next look, while signals pass.
            self.held.push((from, *head, data.to_vec()));
        } else {
            self.sink.message(from, head, data);
        }
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.sink.transfer_completed(operation, result);
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.sink.lost(peer, reason);
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.sink.signalled(from, key);
    }
}

impl Fabric for Broken {
    forward_fabric!(self => self.inner; me, peers, limits, bell, now, route, offer,
        shares_memory, allocate_shared, is_asleep, wake, is_any_beside, is_flushed, traffic,
        say_goodbye);

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        self.sends += 1;
        let (mut head, mut data) = (*head, data.to_vec());
        match self.breach {
            Breach::AcceptsTooLong => data.truncate(self.limits().data),
            Breach::NobodyIsAStranger if to.0 >= self.peers() => return Ok(Posted::Done),
            Breach::ChangesTheHead if self.every(3) => head[31] ^= 1,
            Breach::ChangesAByte if self.every(3) => {
                if let Some(last) = data.last_mut() {
                    *last ^= 1;
                }
            }
            Breach::CutsLongMessages => data.truncate(4095),
            Breach::Reorders if self.every(5) && self.sends < 200 && self.held.is_empty() => {
                self.held.push((to, head, data));
                return Ok(Posted::Done);
            }
            _ => {}
        }
        let posted = self.inner.try_send(to, &head, &data)?;
        if self.is(Breach::RefusesWithEffect) && posted == Posted::Done && self.every(7) {
            return Ok(Posted::Retry);
        }
        if self.is(Breach::Doubles) && self.every(9) {
            let _ = self.inner.try_send(to, &head, &data)?;
        }
        if self.is(Breach::Reorders) {
            for (to, head, data) in std::mem::take(&mut self.held) {
                let _ = self.inner.try_send(to, &head, &data)?;
            }
        }
        Ok(posted)
    }

    fn try_send_part(
        &mut self,
        to: Peer,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
    ) -> Option<Result<Posted>> {
        if part.len() > self.limits().data || to.0 >= self.peers() {
            return None;
        }
        self.sends += 1;
        let mut data = vec![0; part.len()];
        match self.breach {
            Breach::ReadsBeforeItRefuses if self.every(7) => {
                source.read(part.start, &mut data);
                Some(Ok(Posted::Retry))
            }
            Breach::CutsLongParts => {
                source.read(part.start, &mut data[..part.len().min(4095)]);
                Some(self.inner.try_send(to, head, &data))
            }
            _ => self.inner.try_send_part(to, head, source, part),
        }
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let late = if self.is(Breach::SignalsOvertake) {
            std::mem::take(&mut self.held)
        } else {
            Vec::new()
        };
        let budget = if self.is(Breach::IgnoresTheBudget) {
            1000
        } else {
            budget
        };
        let breach = self.breach;
        let held = &mut self.held;
        let mut hands = Hands { sink, breach, held };
        let found = self.inner.poll(&mut hands, budget);
        for (from, head, data) in &late {
            sink.message(*from, head, SharedBytes::of(data));
        }
        found + late.len()
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let to = to.filter(|_| !self.is(Breach::Anybody));
        let rights = if self.is(Breach::AnyRight) {
            Rights::ReadWrite
        } else {
            rights
        };
        let uses = if self.is(Breach::Once) {
            Uses::Many
        } else {
            uses
        };
        self.inner.grant(region, to, rights, uses)
    }

    fn revoke(&mut self, token: Token) -> bool {
        match self.breach {
            Breach::RevokesNothing => {
                let live = !self.revoked.contains(&token);
                self.revoked.push(token);
                live
            }
            Breach::TokensComeAgain => {
                let live = self.inner.revoke(token);
                self.revoked.push(token);
                live
            }
            _ => self.inner.revoke(token),
        }
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        if self.is(Breach::WholePage) {
            // Does not report that it is outside.
            let cut = into.prefix(1);
            return self.inner.get(from, token, 0, cut, operation);
        }
        self.inner.get(from, token, offset, into, operation)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        // The slot of a grant without its generation.
        if self.is(Breach::TokensComeAgain) {
            for generation in (0..200).rev() {
                let token = Token((token.0 & 0xFFFF_FFFF) | generation << 32);
                let moved = self.inner.put(to, token, offset, source, operation);
                if moved.is_ok() {
                    return moved;
                }
            }
        }
        self.inner.put(to, token, offset, source, operation)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let key = if self.is(Breach::KeysMix) {
            SyncKey(key.0 & 0xFF)
        } else {
            key
        };
        self.inner.signal(to, key)
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        let key = if self.is(Breach::KeysMix) {
            SyncKey(key.0 & 0xFF)
        } else {
            key
        };
        self.inner.signals(from, key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        let there = self.signals(from, key);
        match self.breach {
            Breach::TakesTooMuch => self.inner.take_signals(from, key, count.min(there)),
            Breach::SignalsAreFlags if there > 0 && count > 0 => {
                self.inner.take_signals(from, key, there)
            }
            _ => self.inner.take_signals(from, key, count),
        }
    }

    fn release_shared(&mut self, key: SharedKey) -> bool {
        if self.is(Breach::BlocksStay) {
            let live = !self.revoked.contains(&Token(key.0));
            self.revoked.push(Token(key.0));
            return live;
        }
        self.inner.release_shared(key)
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        let attached = self.inner.attach_shared(peer, key, length);
        match (self.breach, attached) {
            (Breach::SharesCopies, Ok(_)) => {
                Ok(SharedMemory::of_this_process(length).expect("there is memory"))
            }
            (Breach::BlocksOfAnybody, Err(error)) => {
                let mut others = (0..self.peers()).map(Peer);
                let found =
                    others.find_map(|other| self.inner.attach_shared(other, key, length).ok());
                found.ok_or(error)
            }
            (_, attached) => attached,
        }
    }

    fn forget(&mut self, key: SyncKey) {
        if self.is(Breach::ForgetsAll) {
            for near in key.0.saturating_sub(4)..key.0.saturating_add(4) {
                self.inner.forget(SyncKey(near));
            }
        }
        self.inner.forget(key);
    }
}

/// Whether `property` fails on a fabric that is broken in this way.
fn finds(property: Property, breach: Breach) -> bool {
    let wrap = move |inner| {
        Box::new(Broken {
            inner,
            breach,
            sends: 0,
            held: Vec::new(),
            revoked: Vec::new(),
        }) as Box<dyn Fabric>
    };
    let stage = Wrapped { inner: group, wrap };
    catch_unwind(AssertUnwindSafe(|| property(&stage))).is_err()
}

type Property = fn(&dyn Stage);

/// The property that finds each breach.
const FOR: [(Property, Breach); 26] = [
    (
        mailboxes::messages_of_one_sender_keep_their_order,
        Breach::Doubles,
    ),
    (
        mailboxes::messages_of_one_sender_keep_their_order,
        Breach::Reorders,
    ),
    (mailboxes::random_lengths_arrive_whole, Breach::ChangesAByte),
    (
        mailboxes::every_length_arrives_whole,
        Breach::ChangesTheHead,
    ),
    (
        mailboxes::every_length_arrives_whole,
        Breach::CutsLongMessages,
    ),
    (
        mailboxes::a_refused_post_has_no_effect_and_is_taken_later,
        Breach::RefusesWithEffect,
    ),
    (
        mailboxes::injected_messages_are_like_others,
        Breach::RefusesWithEffect,
    ),
    (
        mailboxes::packed_messages_are_like_others,
        Breach::ReadsBeforeItRefuses,
    ),
    (
        mailboxes::packed_messages_are_like_others,
        Breach::CutsLongParts,
    ),
    (
        mailboxes::a_message_beyond_the_limit_is_refused,
        Breach::AcceptsTooLong,
    ),
    (
        mailboxes::a_look_respects_its_budget,
        Breach::IgnoresTheBudget,
    ),
    (
        mailboxes::there_is_nobody_beyond_the_last,
        Breach::NobodyIsAStranger,
    ),
    (portals::a_grant_for_once_serves_once, Breach::Once),
    (portals::only_the_named_peer_may_move, Breach::Anybody),
    (portals::nothing_moves_without_the_right, Breach::AnyRight),
    (portals::nothing_moves_outside_of_a_grant, Breach::WholePage),
    (portals::a_revoked_token_is_dead, Breach::RevokesNothing),
    (portals::a_stale_token_stays_dead, Breach::TokensComeAgain),
    (
        syncs::signals_do_not_overtake_messages,
        Breach::SignalsOvertake,
    ),
    (
        syncs::early_and_double_signals_are_counted,
        Breach::SignalsAreFlags,
    ),
    (
        syncs::no_more_can_be_taken_than_there_is,
        Breach::TakesTooMuch,
    ),
    (syncs::keys_and_senders_are_kept_apart, Breach::KeysMix),
    (
        syncs::forgetting_a_key_drops_its_signals_alone,
        Breach::ForgetsAll,
    ),
    (shares::members_see_each_others_stores, Breach::SharesCopies),
    (shares::a_released_key_is_dead, Breach::BlocksStay),
    (
        shares::a_key_reaches_one_block_of_one_peer,
        Breach::BlocksOfAnybody,
    ),
];

#[test]
fn every_breach_is_found_and_a_sound_fabric_passes() {
    for (property, breach) in FOR {
        assert!(!finds(property, Breach::None), "{breach:?}: the control");
        assert!(finds(property, breach), "{breach:?} was not found");
    }
}
