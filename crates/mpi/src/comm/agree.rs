//! How the members of a new communicator come by its context.
//!
//! A context is given out by one process, the *leader* of the creation, from a counter of its own, and
//! carries the leader's number: no two leaders give out the same, and no agreement is needed beyond
//! one message to each member. The number of contexts that one process can lead is what remains of 32
//! bits: two million for a job of 1024.

use std::sync::Arc;

use weft_atomic::Ordering;

use super::Comm;
use crate::buffer;
use crate::coll::Cut;
use crate::engine::request::RequestId;
use crate::error::{Error, ErrorClass, Result};
use crate::process::Process;
use crate::schedule::{Schedule, Span, Step};

/// Bytes of a context in a message.
const CONTEXT: usize = 4;

impl Process {
    /// A new context, led by this process.
    pub(super) fn new_context(&self) -> Result<u32> {
        let number = self.contexts.fetch_add(1, Ordering::Relaxed);
        let leaders = self.peers().next_power_of_two().trailing_zeros();
        let context = u64::from(number) << (leaders + 1) | u64::from(self.me().0) << 1;
        u32::try_from(context).map_err(|_| {
            Error::new(
                ErrorClass::Other,
                format!("this process has led the creation of {number} communicators, and no context is left; create communicators once and reuse them"),
            )
        })
    }
}

impl Comm {
    /// A new context that all members know.
    pub(super) fn agree(&self, name: &'static str) -> Result<u32> {
        Ok(self.agree_on(name, 1)?[0])
    }

    /// New contexts that all members know, led by rank 0: of an intercommunicator, that of the first
    /// side.
    pub(super) fn agree_on(&self, name: &'static str, number: usize) -> Result<Vec<u32>> {
        let mut bytes = vec![0; number * CONTEXT];
        let first = self.leads();
        if self.rank() == 0 && first {
            for place in bytes.chunks_exact_mut(CONTEXT) {
                place.copy_from_slice(&self.process().new_context()?.to_le_bytes());
            }
        }
        if self.remote().is_some() {
            let own = bytes.len();
            bytes.resize(2 * own, 0);
            self.meet(name, &mut bytes, own)?;
            bytes.drain(if first { own..2 * own } else { 0..own });
        } else {
            self.spread(name, &mut bytes, 0)?;
        }
        let words = bytes.chunks_exact(CONTEXT);
        Ok(words
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect())
    }

    /// As [`Self::agree`], without waiting: the context goes to `copy` when the request ends.
    pub(super) fn agree_later(&self, name: &'static str, copy: &Arc<Self>) -> Result<RequestId> {
        let mut word = [0; CONTEXT];
        let first = self.leads();
        if self.rank() == 0 && first {
            word = self.process().new_context()?.to_le_bytes();
        }
        let sides = if self.remote().is_some() { 2 } else { 1 };
        let whole = Span::Scratch {
            offset: 0,
            length: sides * CONTEXT,
        };
        // Taken at once: `word` need not outlive the beginning.
        let mut steps = vec![Step::Copy {
            from: Span::User(buffer::region_of(&mut word)),
            into: whole.part(0, CONTEXT),
        }];
        if sides == 2 {
            steps.append(&mut self.meeting(whole, CONTEXT));
        } else {
            steps.append(&mut self.tree(whole, 0));
        }
        let place = if first { 0 } else { CONTEXT };
        steps.push(Step::Fence);
        steps.push(Step::Name {
            comm: Arc::clone(copy),
            from: whole.part(place, CONTEXT),
        });
        self.begin(Schedule {
            name,
            steps,
            scratch_bytes: sides * CONTEXT,
        })
    }

    /// Whether rank 0 of this group gives out contexts: of the two groups of an intercommunicator, the
    /// first one.
    fn leads(&self) -> bool {
        self.remote().is_none_or(|remote| remote.local_is_first)
    }

    /// Bytes of a root to all of the local group.
    pub(super) fn spread(&self, name: &'static str, bytes: &mut [u8], root: u32) -> Result<()> {
        let steps = self.tree(Span::User(buffer::region_of(bytes)), root);
        self.run(Schedule::of(name, steps))
    }

    /// The leaders of the two sides exchange what they know, and each tells its side: the first `own`
    /// bytes are those of this side's rank 0, the others those of the remote one.
    pub(super) fn meet(&self, name: &'static str, bytes: &mut [u8], own: usize) -> Result<()> {
        let steps = self.meeting(Span::User(buffer::region_of(bytes)), own);
        self.run(Schedule::of(name, steps))
    }

    /// The steps of [`Self::meet`].
    fn meeting(&self, whole: Span, own: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.rank() == 0 {
            let there = self.size();
            steps.push(Step::Receive {
                from: there,
                into: whole.part(own, whole.len() - own),
            });
            steps.push(Step::Send {
                to: there,
                from: whole.part(0, own),
            });
            steps.push(Step::Fence);
        }
        steps.append(&mut self.tree(whole, 0));
        steps
    }

    /// The steps of a binomial tree over the local group.
    fn tree(&self, whole: Span, root: u32) -> Vec<Step> {
        let size = self.size();
        let number = (self.rank() + size - root) % size;
        let rank = |number: u32| (number + root) % size;
        let mut steps = Vec::new();
        let parent_bit = if number == 0 {
            size.next_power_of_two()
        } else {
            1 << number.trailing_zeros()
        };
        if number != 0 {
            steps.push(Step::Receive {
                from: rank(number - parent_bit),
                into: whole,
            });
            steps.push(Step::Fence);
        }
        let mut bit = parent_bit >> 1;
        while bit > 0 {
            if number + bit < size {
                steps.push(Step::Send {
                    to: rank(number + bit),
                    from: whole,
                });
            }
            bit >>= 1;
        }
        steps
    }
}
