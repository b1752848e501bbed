//! Agreement of the members of a new communicator on its context.
//!
//! A context is assigned by one process, the *leader* of the creation, from a counter of its own, and contains the
//! leader's number: no two leaders assign the same, and no agreement is needed beyond one message to each member. The
//! number of contexts that one process can lead is what remains of 32 bits, half of them: a million for a job of 1024. A
//! leader that has none left says so in that message, so that every member gets the error.

use std::sync::Arc;

use weft_atomic::Ordering;
use weft_fabric::{GUEST_KEY, Region};

use super::other_jobs::MEETING_CONTEXTS;
use super::{Comm, FIRST_NUMBER, UNNAMED};
use crate::buffer;
use crate::coll::Cut;
use crate::engine::RequestId;
use crate::engine::schedule::Recipient;
use crate::error::{Error, ErrorClass, Result};
use crate::process::Process;
use crate::schedule::{Schedule, Span, Step};

/// Bytes of a context in a message.
const CONTEXT: usize = 4;

/// Contexts of one job are below this: from here on they are those of [meetings](super::other_jobs), then keys of signals are a
/// guest's, see [`GUEST_KEY`].
const END: u64 = MEETING_CONTEXTS as u64;

const _: () = assert!(END < GUEST_KEY >> 32);

/// Numbers that one process of a job of so many can lead, in bits of a context that are left for leaders.
pub(super) fn leader_bits(peers: u32) -> u32 {
    peers.next_power_of_two().trailing_zeros()
}

/// The number of the first context that a process leads. Processes of later worlds may have the number in the job that
/// another one had before: they begin elsewhere, so that no communicator that outlives its leader meets another of the
/// same context.
pub(crate) fn first_number(peers: u32, world: u32) -> u32 {
    /// So many worlds, one after the other, begin at different numbers, within the first half of all.
    const STARTS: u32 = 1024;
    let numbers = (END >> (leader_bits(peers) + 1)) as u32;
    FIRST_NUMBER + world % STARTS * (numbers / 2 / STARTS)
}

impl Process {
    /// A new context of channel 0, led by this process.
    pub(super) fn new_context(&self) -> Result<u32> {
        self.new_context_in(0)
    }

    /// The channel that a context names.
    pub(crate) fn channel_of(&self, context: u32) -> u32 {
        let number = context >> (leader_bits(self.peers()) + 1);
        if number < FIRST_NUMBER || context >= MEETING_CONTEXTS {
            return 0;
        }
        number % self.channels
    }

    /// The channel of the next communicator that this process leads and that may have any: in turn, if several threads may use
    /// them at a time.
    pub(super) fn next_channel(&self) -> u32 {
        if self.channels == 1 || !self.threads_call_at_once() {
            return 0;
        }
        let turn = self.next_channel.fetch_add(1, Ordering::Relaxed);
        turn.wrapping_add(1) % self.channels
    }

    /// A new context of a channel, led by this process. Of the numbers that follow each other each channel has one.
    pub(super) fn new_context_in(&self, channel: u32) -> Result<u32> {
        let leaders = leader_bits(self.peers());
        let next = |number: u32| {
            let skipped = (channel + self.channels - number % self.channels) % self.channels;
            number.checked_add(skipped)
        };
        let context = |number: u32| {
            let context = u64::from(number) << (leaders + 1) | u64::from(self.me().0) << 1;
            u32::try_from(context).ok().filter(|_| context < END)
        };
        // Counts no further than there are contexts.
        let drawn = self
            .contexts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
                let number = next(number)?;
                context(number).map(|_| number + 1)
            });
        match drawn {
            Ok(number) => Ok(next(number).and_then(context).expect("looked at just now")),
            Err(number) => Err(Error::new(
                ErrorClass::Other,
                format!(
                    "this process has led the creation of {number} communicators, and no context is left; create communicators once and reuse them"
                ),
            )),
        }
    }
}

/// In which channel a context may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Channel {
    /// Channel 0.
    First,
    /// Any, as the leader chooses.
    Any,
}

/// The context that members have been told.
pub(super) fn told(context: u32) -> Result<u32> {
    if context != UNNAMED {
        return Ok(context);
    }
    Err(Error::new(
        ErrorClass::Other,
        "the process that leads the creation of this communicator has no context left; create communicators once and reuse them",
    ))
}

impl Recipient for Comm {
    /// The context that its members have agreed on, in four bytes.
    fn tell(&self, bytes: Region) -> Result<()> {
        let mut word = [0; CONTEXT];
        bytes.copy_to_slice(&mut word);
        self.name(told(u32::from_le_bytes(word))?);
        Ok(())
    }
}

impl Comm {
    /// A new context that all members know.
    pub(super) fn agree_on_context(&self, name: &'static str) -> Result<u32> {
        Ok(self.agree_on(name, 1, Channel::First)?[0])
    }

    /// New contexts that all members know, led by rank 0: of an intercommunicator, that of the first
    /// side.
    pub(super) fn agree_on(
        &self,
        name: &'static str,
        number: usize,
        channel: Channel,
    ) -> Result<Vec<u32>> {
        let mut bytes = vec![0; number * CONTEXT];
        let first = self.leads();
        let mut failure = None;
        if self.rank() == 0 && first {
            for place in bytes.chunks_exact_mut(CONTEXT) {
                let channel = match channel {
                    Channel::First => 0,
                    Channel::Any => self.channel_of_relative(),
                };
                let context = self.draw_context(channel).unwrap_or_else(|error| {
                    failure = Some(error);
                    UNNAMED
                });
                place.copy_from_slice(&context.to_le_bytes());
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
        if let Some(error) = failure {
            return Err(error);
        }
        let words = bytes.chunks_exact(CONTEXT);
        words
            .map(|word| told(u32::from_le_bytes(word.try_into().expect("four bytes"))))
            .collect()
    }

    /// The channel of a communicator that is made of this one, and that this process leads. One of several jobs, or of two
    /// groups, is in channel 0.
    pub(super) fn channel_of_relative(&self) -> u32 {
        let is_plain = self.remote().is_none() && !self.process().connections().are_possible();
        if is_plain {
            self.process().next_channel()
        } else {
            0
        }
    }

    /// The context that members have been told of a communicator that this process is in: its engine is open after this.
    pub(super) fn hear_of(&self, context: u32) -> Result<u32> {
        self.process().open_engine_of(context)?;
        Ok(context)
    }

    /// As [`Self::agree_on_context`], without waiting: the context goes to `copy` when the request ends.
    pub(super) fn agree_later(&self, name: &'static str, copy: &Arc<Self>) -> Result<RequestId> {
        let mut word = [0; CONTEXT];
        let first = self.leads();
        if self.rank() == 0 && first {
            let context = self.draw_context(0);
            // Every member, this one too, gets the error at the end.
            word = context.unwrap_or(UNNAMED).to_le_bytes();
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
            steps.append(&mut self.meet_steps(whole, CONTEXT));
        } else {
            steps.append(&mut self.tree_steps(whole, 0));
        }
        let place = if first { 0 } else { CONTEXT };
        steps.push(Step::Fence);
        let recipient: Arc<dyn Recipient> = Arc::<Self>::clone(copy);
        steps.push(Step::Tell {
            recipient,
            from: whole.part(place, CONTEXT),
        });
        self.begin(Schedule {
            scratch_bytes: sides * CONTEXT,
            ..Schedule::of(name, steps)
        })
    }

    /// Whether rank 0 of this group gives out contexts: of the two groups of an intercommunicator, the
    /// first one.
    fn leads(&self) -> bool {
        self.remote().is_none_or(|remote| remote.local_is_first)
    }

    /// Bytes of a root to all of the local group.
    pub(super) fn spread(&self, name: &'static str, bytes: &mut [u8], root: u32) -> Result<()> {
        let steps = self.tree_steps(Span::User(buffer::region_of(bytes)), root);
        self.run(Schedule::of(name, steps))
    }

    /// The leaders of the two sides exchange what they know, and each tells its side: the first `own`
    /// bytes are those of this side's rank 0, the others those of the remote one.
    pub(super) fn meet(&self, name: &'static str, bytes: &mut [u8], own: usize) -> Result<()> {
        let steps = self.meet_steps(Span::User(buffer::region_of(bytes)), own);
        self.run(Schedule::of(name, steps))
    }

    /// The steps of [`Self::meet`].
    fn meet_steps(&self, whole: Span, own: usize) -> Vec<Step> {
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
        steps.append(&mut self.tree_steps(whole, 0));
        steps
    }

    /// The steps of a binomial tree over the local group.
    fn tree_steps(&self, whole: Span, root: u32) -> Vec<Step> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_atomic::Ordering;
    use weft_fabric_local::Local;

    use crate::comm::{Bridge, FIRST_NUMBER, first_number};
    use crate::{Comm, Error, Process};

    /// Runs four ranks as threads, of which those in `empty` have no context left.
    fn without_contexts(empty: &[u32], rank: impl Fn(Arc<Process>) + Sync) {
        std::thread::scope(|scope| {
            for endpoint in Local::group(4) {
                let rank = &rank;
                scope.spawn(move || {
                    let process = Process::new(Box::new(endpoint));
                    if empty.contains(&process.me().0) {
                        process.contexts.store(u32::MAX, Ordering::Relaxed);
                    }
                    rank(Arc::clone(&process));
                    process.drain();
                });
            }
        });
    }

    fn is_told<T>(made: Result<T, Error>) {
        let error = made.map(drop).expect_err("the leader has no context left");
        assert!(error.text().contains("context"), "{error}");
    }

    #[test]
    fn every_member_is_told_that_no_context_is_left() {
        without_contexts(&[0], |process| {
            let world = process.world();
            let me = world.rank().cast_signed();
            is_told(world.dup());
            is_told(world.split(Some(me % 2), me));
            is_told(world.create(world.group()));
            is_told(world.create_group(world.group(), 3));
            let (copy, request) = world.idup().unwrap();
            is_told(process.wait(request));
            assert_eq!(copy.known_context(), None);
            // What another one leads goes on.
            let group = Arc::new(world.group().include(&[2, 1, 0, 3]).unwrap());
            assert!(world.create_group(&group, 3).unwrap().is_some());
        });
    }

    fn sides(world: &Comm) -> (Arc<Comm>, u32) {
        let (me, other) = (world.rank() / 2, 2 - world.rank() / 2 * 2);
        // Led by rank 1, which has contexts.
        let order = if me == 0 { [1, 0] } else { [3, 2] };
        let group = Arc::new(world.group().include(&order).unwrap());
        let side = world.create_group(&group, 5).unwrap();
        (side.expect("a member"), other)
    }

    #[test]
    fn both_sides_are_told_that_no_context_is_left() {
        // Of the two leaders, ranks 0 and 2, the lower one draws.
        without_contexts(&[0], |process| {
            let world = process.world();
            let (side, other) = sides(&world);
            let bridge = Bridge {
                comm: &world,
                remote_leader: other,
                tag: 7,
            };
            let leads = side.rank() == 1;
            let made = side.connect(1, leads.then_some(bridge));
            let error = made.map(drop).expect_err("no context is left");
            let reason = "this process has led the creation of";
            assert!(error.text().contains(reason), "{error}");
            // Then by leaders that have one.
            let bridge = Bridge {
                comm: &world,
                remote_leader: other + 1,
                tag: 7,
            };
            let leads = side.rank() == 0;
            let between = side.connect(0, leads.then_some(bridge)).unwrap();
            // Rank 0 of the first side leads: it is rank 1 of the world.
            between.merge(false).unwrap();
            between.dup().unwrap();
        });
    }

    #[test]
    fn worlds_begin_at_numbers_of_their_own_and_keep_half_of_all() {
        for peers in [1, 66, 1536, 4096] {
            assert_eq!(first_number(peers, 0), FIRST_NUMBER);
            let numbers = (super::END >> (super::leader_bits(peers) + 1)) as u32;
            let last = first_number(peers, 1023);
            assert!(
                first_number(peers, 1) > FIRST_NUMBER + 64 && last <= numbers / 2 + FIRST_NUMBER
            );
        }
    }

    #[test]
    fn contexts_end_below_the_keys_of_guests() {
        let endpoint = Local::group(1).pop().expect("one");
        let process = Process::new(Box::new(endpoint));
        let last = (super::END >> 1) as u32 - 1;
        process.contexts.store(last, Ordering::Relaxed);
        assert_eq!(process.new_context().unwrap(), last << 1);
        for _ in 0..3 {
            assert!(process.new_context().is_err());
        }
        assert_eq!(process.contexts.load(Ordering::Relaxed), last + 1);
        process.contexts.store(FIRST_NUMBER, Ordering::Relaxed);
        assert!(process.world().dup().is_ok());
    }
}
