//! The target's side: arrivals are carried out at once, while the fabric is polled; answers go out after that.

use weft_atomic::ticket_lock::{Overtaken, Time};
use weft_fabric::{Peer, SharedBytes};

use super::direct::Reach;
use super::message::{OneSidedHead, Refusal, Verb, read_blocks};
use super::operation::OperationId;
use super::{LockKind, OneSided, Outgoing, WindowMemory, WindowState};
use crate::error::Error;
use crate::exposed::lost_after_sleeps;
use crate::op::{Combine, Predefined};

/// What a message leads to.
enum Answer {
    /// It is counted: its sender is told later how many were carried out.
    Counted,
    /// Its data.
    Data(Box<[u8]>),
    /// Why it was not carried out.
    Refused(Refusal),
    /// Nothing is answered.
    None,
    /// It was not due, or is no message of this window.
    Wrong,
}

impl OneSided {
    /// A message has come. False if nobody could use it.
    pub(in crate::engine) fn arrive(
        &mut self,
        from: Peer,
        head: &OneSidedHead,
        data: SharedBytes<'_>,
    ) -> bool {
        let Some(window) = self.windows.get_mut(&head.context) else {
            return false;
        };
        let Some(rank) = window.group.rank_of(from) else {
            return false;
        };
        let answer = match head.verb {
            Verb::Put | Verb::Accumulate => match window.memory.carry_out(head, data) {
                Ok(_) => Answer::Counted,
                Err(refusal) => Answer::Refused(refusal),
            },
            Verb::Get | Verb::GetAccumulate | Verb::CompareAndSwap => {
                match window.memory.carry_out(head, data) {
                    Ok(data) => Answer::Data(data),
                    Err(refusal) => Answer::Refused(refusal),
                }
            }
            Verb::Part => self.part(rank, head, data),
            Verb::Reply => self.reply(rank, head, data),
            Verb::Refused => self.refused(rank, head),
            Verb::Done => wrong_unless(window.members[rank as usize].answer(head.at)),
            Verb::LockShared => window.request(from, LockKind::Shared, false, head.at),
            Verb::LockFurther => window.request(from, LockKind::Shared, true, head.at),
            Verb::LockExclusive => window.request(from, LockKind::Exclusive, false, head.at),
            Verb::Granted => wrong_unless(window.members[rank as usize].granted(head.at)),
            Verb::Unlock => {
                window.lock.release(from);
                Answer::None
            }
            Verb::Post => {
                window.members[rank as usize].posted();
                Answer::None
            }
            // A waiter for a lock in shared memory looks again at any message.
            Verb::Freed => Answer::None,
            Verb::Complete => {
                window.members[rank as usize].completed();
                Answer::None
            }
        };
        if matches!(
            head.verb,
            Verb::LockShared | Verb::LockFurther | Verb::LockExclusive | Verb::Unlock
        ) {
            self.grant(head.context);
        }
        self.send_answer(from, rank, head, answer)
    }

    fn send_answer(&mut self, from: Peer, rank: u32, head: &OneSidedHead, answer: Answer) -> bool {
        let (head, data) = match answer {
            Answer::Counted => {
                self.count(head.context, rank);
                return true;
            }
            Answer::None => return true,
            Answer::Wrong => return false,
            Answer::Data(data) => (head.answer(Verb::Reply), data),
            Answer::Refused(refusal) => {
                let mut head = head.answer(Verb::Refused);
                head.at = refusal.number();
                (head, [].into())
            }
        };
        self.outgoing.push(Outgoing {
            to: from,
            head,
            data,
        });
        true
    }

    /// A message was carried out that its sender is to be told of.
    fn count(&mut self, context: u32, rank: u32) {
        let Some(window) = self.windows.get_mut(&context) else {
            return;
        };
        let member = &mut window.members[rank as usize];
        if member.untold == 0 {
            self.untold.push((context, rank));
        }
        member.untold += 1;
    }

    /// Gives the lock to those who can have it now.
    pub(super) fn grant(&mut self, context: u32) {
        let Some(window) = self.windows.get_mut(&context) else {
            return;
        };
        while let Some((to, overtaken)) = window.lock.grant() {
            let since = match overtaken {
                Overtaken::Nobody => 0,
                Overtaken::Writer(since) => since,
            };
            self.outgoing.push(Outgoing {
                to,
                head: OneSidedHead::with_number(Verb::Granted, context, since),
                data: [].into(),
            });
        }
    }

    /// Data for an operation of this rank, after which more come.
    fn part(&mut self, rank: u32, head: &OneSidedHead, data: SharedBytes<'_>) -> Answer {
        let operation = self.operations.get_mut(OperationId(head.name));
        let member = (head.context, rank);
        let operation = operation.filter(|operation| operation.member == member);
        wrong_unless(operation.is_some_and(|operation| operation.part(head.at, &data.to_vec())))
    }

    /// Data for an operation of this rank.
    fn reply(&mut self, rank: u32, head: &OneSidedHead, data: SharedBytes<'_>) -> Answer {
        let id = OperationId(head.name);
        let member = (head.context, rank);
        let operation = self.operations.get_mut(id);
        let Some(operation) = operation.filter(|operation| operation.member == member) else {
            return Answer::Wrong;
        };
        if !operation.reply(head.at, &data.to_vec()) {
            return Answer::Wrong;
        }
        self.answered(rank, head.context);
        self.end_if_over(id);
        Answer::None
    }

    fn refused(&mut self, rank: u32, head: &OneSidedHead) -> Answer {
        let error = refusal(Refusal::of(head.at), rank, head);
        let (id, member) = (OperationId(head.name), (head.context, rank));
        let Some(window) = self.windows.get_mut(&head.context) else {
            return Answer::Wrong;
        };
        if !window.members[rank as usize].answer(1) {
            return Answer::Wrong;
        }
        window.members[rank as usize].fail(error.clone());
        let operation = self.operations.get_mut(id);
        let awaited = operation
            .filter(|operation| operation.member == member)
            .is_some_and(|operation| operation.refuse(&error));
        if awaited {
            self.end_if_over(id);
        }
        Answer::None
    }

    fn answered(&mut self, rank: u32, context: u32) {
        if let Some(window) = self.windows.get_mut(&context) {
            // Each operation checks what is due to it.
            let _ = window.members[rank as usize].answer(1);
        }
    }

    /// Takes an operation out of the table if all of it has left and come back.
    pub(super) fn end_if_over(&mut self, id: OperationId) {
        let operation = self.operations.get_mut(id);
        if !operation.is_some_and(|operation| operation.has_ended()) {
            return;
        }
        let Some(mut operation) = self.operations.remove(id) else {
            return;
        };
        let (context, rank) = operation.member;
        if operation.is_awaited()
            && let Some(window) = self.windows.get_mut(&context)
        {
            let member = &mut window.members[rank as usize];
            member.awaiting = member.awaiting.saturating_sub(1);
        }
        if let Some(request) = operation.request() {
            self.ended.push((request, operation.take_error()));
        }
    }
}

fn wrong_unless(due: bool) -> Answer {
    if due { Answer::None } else { Answer::Wrong }
}

#[cold]
fn refusal(refusal: Refusal, rank: u32, head: &OneSidedHead) -> Error {
    let text = match refusal {
        Refusal::Range => format!(
            "rank {rank} of the window has no memory at displacement {:#x} for an operation that was sent to it; in a dynamic window, pass an address that MPI_Get_address gave at the target, within memory that is attached there",
            head.base
        ),
        Refusal::Op => format!(
            "rank {rank} of the window cannot do {} on {}",
            head.operation.name(),
            head.basic.name()
        ),
    };
    Error::new(refusal.class(), text)
}

impl WindowState {
    fn request(&mut self, from: Peer, kind: LockKind, has_others: bool, time: Time) -> Answer {
        wrong_unless(self.lock.request(from, kind, has_others, time))
    }
}

impl WindowMemory {
    /// Does what a message says; answers what was read.
    fn carry_out(&self, head: &OneSidedHead, data: SharedBytes<'_>) -> Result<Box<[u8]>, Refusal> {
        let (blocks, data) = read_blocks(data).ok_or(Refusal::Range)?;
        let bytes = blocks
            .iter()
            .fold(0usize, |sum, block| sum.saturating_add(block.data()));
        let is_as_long = match head.verb {
            Verb::Get => true,
            Verb::GetAccumulate if head.operation == Predefined::NoOp => true,
            Verb::CompareAndSwap => data.len() == bytes.saturating_mul(2),
            _ => data.len() == bytes,
        };
        if !is_as_long {
            return Err(Refusal::Range);
        }
        let combine = match head.verb {
            Verb::Accumulate | Verb::GetAccumulate => {
                Some(Combine::new(head.operation, head.basic).map_err(|_| Refusal::Op)?)
            }
            _ => None,
        };
        let mut old = match head.verb {
            Verb::Put | Verb::Accumulate => Box::default(),
            // Nobody asks for more than a message brings, but a peer could.
            _ if bytes > MOST => return Err(Refusal::Range),
            _ => vec![0; bytes].into_boxed_slice(),
        };
        // The engine is held, and cannot look who is lost.
        let is_lost = lost_after_sleeps();
        let done = self.visit(
            head.base,
            &blocks,
            bytes,
            &mut |exposed, base, blocks, part| {
                let own = data.split_at(part.start).1.split_at(part.len()).0;
                match (head.verb, &combine) {
                    (Verb::Put, _) => exposed.put(base, blocks, own),
                    (Verb::Get, _) => exposed.get(base, blocks, &mut old[part]),
                    (Verb::Accumulate, Some(combine)) => {
                        let both = (&mut *own.to_vec(), None);
                        exposed.combine(base, blocks, combine, both, &is_lost)
                    }
                    (Verb::CompareAndSwap, _) => {
                        let [block] = *blocks else { return false };
                        let both = data.to_vec();
                        let (compare, new) = both.split_at(bytes);
                        let at = base.wrapping_add(block.offset as i64);
                        block.count == 1
                            && part.len() == bytes
                            && exposed.compare_and_swap(at, compare, new, &mut old, &is_lost)
                    }
                    (Verb::GetAccumulate, Some(combine)) => {
                        let mut operand = own.to_vec();
                        operand.resize(part.len(), 0);
                        let both = (&mut *operand, Some(&mut old[part]));
                        exposed.combine(base, blocks, combine, both, &is_lost)
                    }
                    _ => false,
                }
            },
        );
        if done { Ok(old) } else { Err(Refusal::Range) }
    }
}

/// Most bytes that one message asks for.
const MOST: usize = 1 << 22;
