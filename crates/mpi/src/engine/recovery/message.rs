//! Messages of recovery: head and data, and the checks of what a peer sends.
//!
//! ```text
//!  byte 0     1      2..4   4..8      8..12    12..16   16..32
//!       0x21  verb   0      context   number   ballot   0
//!                           incarnation
//! ```
//!
//! The data are words of 32 bits. A set of processes is its number of ranges, then each as first and length: processes
//! that fail together, such as those of one host, have consecutive numbers.

use weft_fabric::{Head, Peer};

use super::decision::{AgreementOutcome, Contribution, Decision, Purpose};

/// The first byte of these heads: no envelope, no head of one-sided communication and no frame of a guest has it.
const MARK: u8 = 0x21;

/// Which agreement: the even context of its communicator, and its number among the agreements there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub context: u32,
    pub number: u32,
}

/// What is said of an agreement. The ballot is the coordinator's place among the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    /// To the coordinator: what this member brings, and what it has accepted.
    State,
    /// From the coordinator: this is to be accepted.
    Propose { ballot: u32 },
    /// To the coordinator: it is accepted.
    Accept { ballot: u32 },
    /// It is decided.
    Decide,
    /// From the coordinator, to who has not been heard of: shows whether it can be reached.
    Call,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecoveryHead {
    Revoked {
        context: u32,
    },
    /// These are lost: those that have this incarnation.
    Lost {
        incarnation: u32,
    },
    Agreement {
        key: Key,
        verb: Verb,
    },
}

/// First process and how many follow.
pub(super) type Range = (u32, u32);

/// The state of a member, as it tells the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MemberState {
    pub contribution: Contribution,
    /// What it has accepted last, and on which ballot.
    pub accepted: Option<(u32, Decision)>,
    /// That is decided.
    pub decided: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Body {
    Nothing,
    Members(Vec<Range>),
    State(Box<MemberState>),
    Decision(Decision),
}

/// A message of a peer.
#[derive(Debug)]
pub(in crate::engine) struct RecoveryMessage {
    pub(super) head: RecoveryHead,
    pub(super) body: Body,
}

/// Processes as ranges, in any order.
pub(super) fn ranges_of(peers: &[Peer]) -> Vec<Range> {
    let mut sorted: Vec<u32> = peers.iter().map(|peer| peer.0).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<Range> = Vec::new();
    for peer in sorted {
        match ranges.last_mut() {
            Some((first, length)) if *first + *length == peer => *length += 1,
            _ => ranges.push((peer, 1)),
        }
    }
    ranges
}

/// The processes of ranges, of a job of so many.
pub(super) fn peers_of(ranges: &[Range], most: u32) -> Vec<Peer> {
    let all = ranges.iter().flat_map(|(first, length)| {
        let end = first.saturating_add(*length).min(most);
        (*first..end).map(Peer)
    });
    all.take(most as usize).collect()
}

impl RecoveryHead {
    pub(super) fn to_head(self) -> Head {
        let (verb, words) = match self {
            Self::Revoked { context } => (0, [context, 0, 0]),
            Self::Lost { incarnation } => (6, [incarnation, 0, 0]),
            Self::Agreement { key, verb } => {
                let (verb, ballot) = match verb {
                    Verb::State => (1, 0),
                    Verb::Propose { ballot } => (2, ballot),
                    Verb::Accept { ballot } => (3, ballot),
                    Verb::Decide => (4, 0),
                    Verb::Call => (5, 0),
                };
                (verb, [key.context, key.number, ballot])
            }
        };
        let mut head = [0; 32];
        (head[0], head[1]) = (MARK, verb);
        for (place, word) in head[4..16].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        head
    }

    fn parse(head: &Head) -> Option<Self> {
        if head[0] != MARK {
            return None;
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (context, ballot) = (word(4) & !1, word(12));
        let verb = match head[1] {
            0 => return Some(Self::Revoked { context }),
            1 => Verb::State,
            2 => Verb::Propose { ballot },
            3 => Verb::Accept { ballot },
            4 => Verb::Decide,
            5 => Verb::Call,
            6 => {
                let incarnation = word(4);
                return Some(Self::Lost { incarnation });
            }
            _ => return None,
        };
        let number = word(8);
        Some(Self::Agreement {
            key: Key { context, number },
            verb,
        })
    }
}

impl Body {
    /// The bytes; sets that would not fit a message of `most` bytes are told as one range that holds them, which only
    /// [`Members`](Self::Members) may be: a receiver ignores the others.
    pub(super) fn to_bytes(&self, most: usize) -> Vec<u8> {
        let mut words = Vec::new();
        match self {
            Self::Nothing => {}
            Self::Members(ranges) => {
                write_ranges(ranges, &mut words);
                if words.len() * 4 > most
                    && let (Some(first), Some(last)) = (ranges.first(), ranges.last())
                {
                    words.clear();
                    write_ranges(&[(first.0, last.0 + last.1 - first.0)], &mut words);
                }
            }
            Self::State(state) => {
                let MemberState {
                    contribution,
                    accepted,
                    decided,
                } = &**state;
                let shrinks = u32::from(contribution.purpose == Purpose::Shrink);
                words.extend([shrinks, contribution.flag, contribution.context]);
                write_ranges(&ranges_of(&contribution.acknowledged), &mut words);
                write_ranges(&ranges_of(&contribution.failed), &mut words);
                words.push(u32::from(*decided));
                if let Some((ballot, decision)) = accepted {
                    words.push(*ballot);
                    write_decision(decision, &mut words);
                }
            }
            Self::Decision(decision) => write_decision(decision, &mut words),
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

fn write_ranges(ranges: &[Range], words: &mut Vec<u32>) {
    words.push(ranges.len() as u32);
    words.extend(ranges.iter().flat_map(|(first, length)| [*first, *length]));
}

fn write_decision(decision: &Decision, words: &mut Vec<u32>) {
    let outcome = match decision.outcome {
        AgreementOutcome::Agreed => 0,
        AgreementOutcome::Unacknowledged => 1,
        AgreementOutcome::Mixed => 2,
    };
    words.extend([outcome, decision.flag, decision.context]);
    write_ranges(&ranges_of(&decision.failed), words);
}

/// Words that are left to be read.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn ranges(&mut self) -> Option<Vec<Range>> {
        let count = self.next()? as usize;
        if count > self.0.len() / 8 {
            return None;
        }
        (0..count)
            .map(|_| Some((self.next()?, self.next()?)))
            .collect()
    }

    fn peers(&mut self) -> Option<Vec<Peer>> {
        let ranges = self.ranges()?;
        let many = ranges
            .iter()
            .map(|(_, length)| u64::from(*length))
            .sum::<u64>();
        (many <= 1 << 20).then(|| peers_of(&ranges, 1 << 20))
    }

    fn decision(&mut self) -> Option<Decision> {
        let outcome = match self.next()? {
            0 => AgreementOutcome::Agreed,
            1 => AgreementOutcome::Unacknowledged,
            2 => AgreementOutcome::Mixed,
            _ => return None,
        };
        Some(Decision {
            outcome,
            flag: self.next()?,
            context: self.next()?,
            failed: self.peers()?,
        })
    }

    fn state(&mut self) -> Option<MemberState> {
        let purpose = match self.next()? {
            0 => Purpose::Agree,
            1 => Purpose::Shrink,
            _ => return None,
        };
        let contribution = Contribution {
            purpose,
            flag: self.next()?,
            context: self.next()?,
            acknowledged: self.peers()?,
            failed: self.peers()?,
        };
        let decided = self.next()? == 1;
        let accepted = match self.next() {
            None => None,
            Some(ballot) => Some((ballot, self.decision()?)),
        };
        (!decided || accepted.is_some()).then_some(MemberState {
            contribution,
            accepted,
            decided,
        })
    }
}

impl RecoveryMessage {
    /// Whether a head is that of such a message.
    #[inline]
    pub(super) fn has(head: &Head) -> bool {
        head[0] == MARK
    }

    /// What a peer has sent, if it is a message of recovery.
    pub(super) fn parse(head: &Head, data: &[u8]) -> Option<Self> {
        let head = RecoveryHead::parse(head)?;
        let mut words = Words(data);
        let body = match head {
            RecoveryHead::Revoked { .. } | RecoveryHead::Lost { .. } => {
                Body::Members(words.ranges()?)
            }
            RecoveryHead::Agreement { verb, .. } => match verb {
                Verb::State => Body::State(Box::new(words.state()?)),
                Verb::Propose { .. } | Verb::Decide => Body::Decision(words.decision()?),
                Verb::Accept { .. } | Verb::Call => Body::Nothing,
            },
        };
        Some(Self { head, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(numbers: &[u32]) -> Vec<Peer> {
        numbers.iter().copied().map(Peer).collect()
    }

    fn travels(head: RecoveryHead, body: &Body) {
        let bytes = body.to_bytes(4096);
        let message = RecoveryMessage::parse(&head.to_head(), &bytes).expect("is one");
        assert_eq!((message.head, &message.body), (head, body));
        for length in 0..bytes.len() {
            // Whatever it is taken for, it ends.
            _ = RecoveryMessage::parse(&head.to_head(), &bytes[..length]);
        }
    }

    #[test]
    fn messages_carry_everything() {
        let key = Key {
            context: 0xdead_beee,
            number: 7,
        };
        let decision = Decision {
            outcome: AgreementOutcome::Unacknowledged,
            flag: 0xffff_fff0,
            context: 12,
            failed: peers(&[1, 2, 3, 9]),
        };
        let state = |accepted, decided| MemberState {
            contribution: Contribution {
                purpose: Purpose::Shrink,
                flag: 5,
                context: 6,
                acknowledged: peers(&[4]),
                failed: peers(&[4, 5]),
            },
            accepted,
            decided,
        };
        let of = |verb| RecoveryHead::Agreement { key, verb };
        travels(
            RecoveryHead::Revoked { context: 8 },
            &Body::Members(vec![(3, 4), (9, 1)]),
        );
        travels(
            RecoveryHead::Lost { incarnation: 9 },
            &Body::Members(vec![(2, 1)]),
        );
        travels(of(Verb::State), &Body::State(Box::new(state(None, false))));
        let accepted = Some((3, decision.clone()));
        travels(
            of(Verb::State),
            &Body::State(Box::new(state(accepted, true))),
        );
        let propose = Verb::Propose { ballot: u32::MAX };
        travels(of(propose), &Body::Decision(decision.clone()));
        travels(of(Verb::Decide), &Body::Decision(decision));
        travels(of(Verb::Accept { ballot: 2 }), &Body::Nothing);
        travels(of(Verb::Call), &Body::Nothing);
    }

    #[test]
    fn members_that_do_not_fit_are_told_as_one_range() {
        let members: Vec<Peer> = (0..1000).map(|number| Peer(number * 2)).collect();
        let body = Body::Members(ranges_of(&members));
        let bytes = body.to_bytes(4096);
        let head = RecoveryHead::Revoked { context: 2 };
        let message = RecoveryMessage::parse(&head.to_head(), &bytes).expect("is one");
        assert_eq!(message.body, Body::Members(vec![(0, 1999)]));
        assert_eq!(peers_of(&[(0, u32::MAX), (1, u32::MAX)], 3).len(), 3);
    }
}
