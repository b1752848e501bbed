//! Agreements: all living members come to the same decision, whichever members die meanwhile.
//!
//! ```text
//!   member        coordinator: the first member that is not lost
//!     ──State──►      waits for all that are not lost
//!     ◄─Propose──     what follows from it
//!     ──Accept──►     waits for all that are not lost
//!     ◄─Decide───     is decided
//! ```
//!
//! If the coordinator is lost, each member sends its state to the next one, with what it has accepted. A member that has
//! decided tells all others, as soon as it knows of any loss: it may leave the job before it learns of the next one. The
//! new coordinator takes a decision if there is one, else what was accepted on the highest ballot, else it decides anew.
//!
//! *Why all decide alike.* A coordinator decides when all living members have accepted its proposal. So each later
//! coordinator learns of this proposal from all living members, and can only propose the same. A member that has learned
//! that a coordinator is lost sends its state afterwards: anything it had accepted before is in it. It does not happen
//! that a lost peer lives and is heard again: fabrics end the connection to a lost peer, both ways.
//!
//! *Why all come to an end.* A member that is waited for sends, or is lost, which the fabric tells those that have sent
//! to it; the coordinator calls members on other hosts that it has not heard from. A member that has decided answers
//! until a later agreement of the communicator is decided: all that had not decided the former have come to that one.
//!
//! The agreements of a communicator are carried out one after the other, in the order of their numbers.

use std::sync::Arc;

use weft_fabric::Peer;

use super::decision::{Contribution, Decided, Decision, Purpose};
use super::message::{Body, Key, MemberState, RecoveryHead, Verb};
use crate::engine::Engine;
use crate::engine::request::Work;
use crate::engine::request_id::RequestId;
use crate::error::Result;

/// An agreement that this rank has begun, or has heard of.
#[derive(Debug)]
struct Agreement {
    key: Key,
    /// All members in the order in which they coordinate; empty until this rank has begun it.
    members: Arc<[Peer]>,
    own: Option<Contribution>,
    /// What was accepted last, on which ballot.
    accepted: Option<(u32, Decision)>,
    decided: bool,
    /// The members that this rank has told its state.
    told: Option<Peer>,
    /// It has told all others what is decided.
    spread: bool,
    /// What others have told this rank.
    heard: Vec<(Peer, MemberState)>,
    /// As the coordinator: it has proposed, and these have accepted.
    proposed: bool,
    accepts: Vec<Peer>,
    called: bool,
    /// What ends with it.
    request: Option<RequestId>,
    recipient: Option<Arc<dyn Decided>>,
}

impl Agreement {
    fn new(key: Key) -> Self {
        Self {
            key,
            members: Arc::default(),
            own: None,
            accepted: None,
            decided: false,
            told: None,
            spread: false,
            heard: Vec::new(),
            proposed: false,
            accepts: Vec::new(),
            called: false,
            request: None,
            recipient: None,
        }
    }

    fn decision(&self) -> Option<&Decision> {
        let accepted = self.accepted.as_ref().filter(|_| self.decided);
        accepted.map(|(_, decision)| decision)
    }

    fn state(&self) -> Option<Body> {
        Some(Body::State(Box::new(MemberState {
            contribution: self.own.clone()?,
            accepted: self.accepted.clone(),
            decided: self.decided,
        })))
    }

    /// What a coordinator proposes that has heard all who live; these of the members are lost.
    fn propose(&self, own: &Contribution, lost: Vec<Peer>) -> Decision {
        let accepted = self
            .heard
            .iter()
            .filter_map(|(_, state)| state.accepted.as_ref());
        let accepted = accepted
            .chain(&self.accepted)
            .max_by_key(|(ballot, _)| *ballot);
        if let Some((_, decision)) = accepted {
            return decision.clone();
        }
        let others = self.heard.iter().map(|(_, state)| &state.contribution);
        let others: Vec<&Contribution> = others.collect();
        Decision::of(own, &others, lost)
    }
}

/// An agreement under way, for people and for who looks for deadlocks.
pub(in crate::engine) struct AwaitedAgreement {
    pub(in crate::engine) name: &'static str,
    /// The members that have to do something next.
    pub(in crate::engine) missing: Vec<Peer>,
}

/// What the next thing to do is.
enum Next {
    Wait,
    /// To these, one after the other.
    Send(Vec<Peer>, Verb, Body),
    Decide(Decision),
}

/// All agreements of a rank that others may still ask about.
#[derive(Debug, Default)]
pub(in crate::engine) struct Agreements {
    all: Vec<Agreement>,
}

impl Agreements {
    fn place(&mut self, key: Key) -> usize {
        let found = self.all.iter().position(|one| one.key == key);
        found.unwrap_or_else(|| {
            self.all.push(Agreement::new(key));
            self.all.len() - 1
        })
    }

    /// Whether an earlier agreement of the communicator is under way here.
    fn has_earlier(&self, key: Key) -> bool {
        self.under_way(key.context)
            .any(|one| one.key.number < key.number)
    }

    /// Those of a communicator that this rank has begun, and that are not decided.
    fn under_way(&self, context: u32) -> impl Iterator<Item = &Agreement> {
        let all = self.all.iter();
        all.filter(move |one| one.key.context == context && one.own.is_some() && !one.decided)
    }
}

impl Engine {
    /// Begins an agreement, number `number` of a communicator; answers the request that ends with it.
    pub(crate) fn start_agreement(
        &mut self,
        (context, number): (u32, u32),
        members: Arc<[Peer]>,
        own: Contribution,
        recipient: Arc<dyn Decided>,
    ) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let request = self.core.requests.insert(context, None, Work::Nothing);
        let context = context & !1;
        let place = self.core.agreements.place(Key { context, number });
        let agreement = &mut self.core.agreements.all[place];
        agreement.members = members;
        agreement.own = Some(own);
        agreement.request = Some(request);
        agreement.recipient = Some(recipient);
        self.advance_agreements(context);
        self.drain_deferred();
        Ok(request)
    }

    /// What the agreement waits for that ends this request, if one does.
    pub(in crate::engine) fn awaited_of_agreement(
        &self,
        request: RequestId,
    ) -> Option<AwaitedAgreement> {
        let agreements = &self.core.agreements;
        let mut all = agreements.all.iter();
        let asked = all.find(|one| one.request == Some(request))?;
        let name = match asked.own.as_ref()?.purpose {
            Purpose::Agree => "MPIX_Comm_agree",
            Purpose::Shrink => "MPIX_Comm_shrink",
        };
        // Those of a communicator are carried out one after the other.
        let under_way = agreements.under_way(asked.key.context);
        let first = under_way.min_by_key(|one| one.key.number)?;
        let (me, lost) = (self.fabric.me(), &self.core.lost);
        let members = first.members.iter().copied();
        let mut living = members.filter(|peer| *peer == me || !lost.has(*peer));
        let missing = match living.next() {
            Some(coordinator) if coordinator != me => vec![coordinator],
            _ if first.proposed => living
                .filter(|peer| !first.accepts.contains(peer))
                .collect(),
            _ => {
                let heard = |peer: &Peer| first.heard.iter().any(|(other, _)| other == peer);
                living.filter(|peer| !heard(peer)).collect()
            }
        };
        Some(AwaitedAgreement { name, missing })
    }

    /// A member has said something of an agreement.
    pub(super) fn hear_agreement(&mut self, from: Peer, key: Key, verb: Verb, body: Body) {
        match (verb, body) {
            (Verb::State, Body::State(state)) => {
                self.hear_losses(from, &state.contribution.failed);
                let place = self.core.agreements.place(key);
                let agreement = &mut self.core.agreements.all[place];
                if let Some(decision) = agreement.decision().cloned() {
                    let decide = RecoveryHead::Agreement {
                        key,
                        verb: Verb::Decide,
                    };
                    return self.send_recovery(from, decide, &Body::Decision(decision));
                }
                agreement.heard.retain(|(other, _)| *other != from);
                agreement.heard.push((from, *state));
            }
            (Verb::Propose { ballot }, Body::Decision(decision)) => {
                self.hear_losses(from, &decision.failed);
                let place = self.core.agreements.place(key);
                let agreement = &mut self.core.agreements.all[place];
                let older = agreement
                    .accepted
                    .as_ref()
                    .is_some_and(|(on, _)| *on > ballot);
                if agreement.decided || older {
                    return;
                }
                agreement.accepted = Some((ballot, decision));
                let verb = Verb::Accept { ballot };
                let accept = RecoveryHead::Agreement { key, verb };
                return self.send_recovery(from, accept, &Body::Nothing);
            }
            (Verb::Accept { ballot }, Body::Nothing) => {
                let place = self.core.agreements.place(key);
                let agreement = &mut self.core.agreements.all[place];
                let mine = agreement
                    .accepted
                    .as_ref()
                    .is_some_and(|(on, _)| *on == ballot);
                if agreement.proposed && mine && !agreement.accepts.contains(&from) {
                    agreement.accepts.push(from);
                }
            }
            (Verb::Decide, Body::Decision(decision)) => {
                self.hear_losses(from, &decision.failed);
                self.decide(key, decision);
            }
            (Verb::Call, _) => return,
            _ => return self.core.counters.refused.add(1),
        }
        self.advance_agreements(key.context);
    }

    /// It is decided: what waits for it ends.
    fn decide(&mut self, key: Key, decision: Decision) {
        let place = self.core.agreements.place(key);
        let agreement = &mut self.core.agreements.all[place];
        if agreement.decided {
            return;
        }
        agreement.decided = true;
        agreement.heard = Vec::new();
        let ended = (agreement.request.take(), agreement.recipient.take());
        let outcome = ended
            .1
            .map_or(Ok(()), |recipient| recipient.decided(&decision));
        agreement.accepted = Some((u32::MAX, decision));
        if let Some(request) = ended.0 {
            self.end_outside(request, outcome.map(|()| 0));
        }
        // To this one all have come that live, and so all have decided the former.
        let former =
            |one: &Agreement| one.key.context == key.context && one.key.number < key.number;
        self.core.agreements.all.retain(|one| !former(one));
    }

    /// Goes on with the agreements of a communicator.
    fn advance_agreements(&mut self, context: u32) {
        let of = |one: &&Agreement| one.key.context == context && one.own.is_some();
        let mut keys: Vec<Key> = self
            .core
            .agreements
            .all
            .iter()
            .filter(of)
            .map(|one| one.key)
            .collect();
        keys.sort_unstable_by_key(|key| key.number);
        for key in keys {
            while self.advance_agreement(key) {}
        }
    }

    /// Goes on with all: somebody is lost.
    pub(in crate::engine) fn advance_all_agreements(&mut self) {
        let mut contexts: Vec<u32> = self
            .core
            .agreements
            .all
            .iter()
            .map(|one| one.key.context)
            .collect();
        contexts.sort_unstable();
        contexts.dedup();
        for context in contexts {
            self.advance_agreements(context);
        }
    }

    /// Does the next thing for an agreement; false if there is nothing to do now.
    fn advance_agreement(&mut self, key: Key) -> bool {
        let me = self.fabric.me();
        let next = self.next_of(key, me);
        match next {
            Next::Wait => false,
            Next::Send(peers, verb, body) => {
                let head = RecoveryHead::Agreement { key, verb };
                for peer in peers {
                    self.send_recovery(peer, head, &body);
                }
                true
            }
            Next::Decide(decision) => {
                self.decide(key, decision);
                true
            }
        }
    }

    /// What is to be done for an agreement, noted as done.
    fn next_of(&mut self, key: Key, me: Peer) -> Next {
        let agreements = &self.core.agreements;
        let Some(place) = agreements.all.iter().position(|one| one.key == key) else {
            return Next::Wait;
        };
        if agreements.has_earlier(key) {
            return Next::Wait;
        }
        let (lost, far) = (&self.core.lost, &self.far);
        let agreement = &mut self.core.agreements.all[place];
        let Some(own) = agreement.own.clone() else {
            return Next::Wait;
        };
        let members = Arc::clone(&agreement.members);
        let others = || {
            let others = members.iter().copied();
            others.filter(|peer| *peer != me && !lost.has(*peer))
        };
        let coordinator = members
            .iter()
            .copied()
            .find(|peer| *peer == me || !lost.has(*peer));
        let coordinator = coordinator.unwrap_or(me);
        if let Some(decision) = agreement.decision() {
            if agreement.spread || coordinator != me && !lost.is_anybody() {
                return Next::Wait;
            }
            let body = Body::Decision(decision.clone());
            agreement.spread = true;
            return Next::Send(others().collect(), Verb::Decide, body);
        }
        if coordinator != me {
            if agreement.told == Some(coordinator) {
                return Next::Wait;
            }
            agreement.told = Some(coordinator);
            return match agreement.state() {
                Some(state) => Next::Send(vec![coordinator], Verb::State, state),
                None => Next::Wait,
            };
        }
        let decided = agreement.heard.iter().find(|(_, state)| state.decided);
        if let Some((_, decision)) = decided.and_then(|(_, state)| state.accepted.clone()) {
            return Next::Decide(decision);
        }
        if !agreement.proposed {
            let heard = |peer: Peer| agreement.heard.iter().any(|(other, _)| *other == peer);
            let missing: Vec<Peer> = others().filter(|peer| !heard(*peer)).collect();
            if !missing.is_empty() {
                let away = |peer: &Peer| far.get(peer.index()) == Some(&true);
                let away: Vec<Peer> = missing.into_iter().filter(away).collect();
                if agreement.called || away.is_empty() {
                    return Next::Wait;
                }
                agreement.called = true;
                return Next::Send(away, Verb::Call, Body::Nothing);
            }
            let ballot = members.iter().position(|peer| *peer == me).unwrap_or(0) as u32;
            let failed = members
                .iter()
                .copied()
                .filter(|peer| lost.has(*peer))
                .collect();
            let decision = agreement.propose(&own, failed);
            agreement.proposed = true;
            agreement.accepted = Some((ballot, decision.clone()));
            let verb = Verb::Propose { ballot };
            return Next::Send(others().collect(), verb, Body::Decision(decision));
        }
        if others().all(|peer| agreement.accepts.contains(&peer)) {
            return match &agreement.accepted {
                Some((_, decision)) => Next::Decide(decision.clone()),
                None => Next::Wait,
            };
        }
        Next::Wait
    }
}
