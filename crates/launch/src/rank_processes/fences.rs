//! Fences: the values that the ranks of this host have put, over their control sockets or by PMI, and whether all of them
//! wait for those of other hosts.

use std::io;

use super::pmi;
use super::share::{HostShare, OtherHosts};
use super::spawn::RankNumbers;
use crate::control::Answer;
use crate::exchange::{Exchange, PublishedValue};

/// No rank waits for this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NobodyWaits;

/// The consequence of the arrival of a rank at a fence.
#[must_use]
#[derive(PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Others of this host are to come, or it has come before.
    Early,
    /// All of this host have come and wait for those of others, for which these values are.
    OfHost(Vec<PublishedValue>),
    /// All of the job have come: the ranks are to be let through.
    OfJob,
}

/// See the [module page](self).
pub struct Fences {
    /// How many ranks the job has.
    size: u32,
    /// `None` if the job has no others.
    others: Option<OtherHosts>,
    exchange: Exchange,
    /// What ranks have put that speak PMI.
    pmi: pmi::Store,
    /// The ranks wait at a fence for those of other hosts.
    are_waiting: bool,
}

impl Fences {
    /// Of the ranks of this host.
    ///
    /// # Errors
    /// If the kernel has no randomness.
    pub fn new(share: &HostShare, others: Option<OtherHosts>) -> io::Result<Self> {
        Ok(Self {
            size: share.size,
            exchange: Exchange::new(share.local_size()),
            pmi: pmi::Store::new(share.size, others.as_ref())?,
            others,
            are_waiting: false,
        })
    }

    /// A rank puts a value: the answer.
    pub fn put(&mut self, value: PublishedValue) -> Answer {
        match self.exchange.put(value) {
            true => Answer::Taken,
            false => Answer::no_room(),
        }
    }

    /// Ranks of the job have put these values before we had them.
    pub fn know(&mut self, values: &[PublishedValue]) {
        for value in values {
            self.exchange.keep(value);
        }
    }

    /// A rank asks for a value: the answer.
    pub fn get(&self, rank: u32, name: &str) -> Answer {
        Answer::Value(self.exchange.get(rank, name).cloned())
    }

    /// A rank asks for the hosts of the job: the answer, from this byte on.
    pub fn hosts(&self, from: usize) -> Answer {
        match &self.others {
            Some(others) => Answer::hosts(&others.key, &others.map, from),
            None => Answer::Refused {
                reason: "all ranks of this job are on one host: there is nothing to tell".into(),
            },
        }
    }

    /// Answers what a rank asks next by PMI, of what was read: what it means beside that. `None`: nothing is left.
    pub fn serve_pmi(
        &mut self,
        connection: &mut pmi::Connection,
        numbers: RankNumbers,
    ) -> Option<pmi::Meaning> {
        self.pmi.serve(connection, numbers, &mut self.exchange)
    }

    /// A rank has come to a fence.
    pub fn arrive(&mut self, local: u32) -> Arrival {
        // A rank that waits at one already does not come to another.
        if self.are_waiting {
            return Arrival::Early;
        }
        let values = self.exchange.arrive(local);
        self.arrival(values)
    }

    /// A rank has ended, of which the others were told: they do not wait for it. As [`arrive`](Self::arrive).
    pub fn leave(&mut self, local: u32) -> Arrival {
        let values = self.exchange.leave(local);
        self.arrival(values.filter(|_| !self.are_waiting))
    }

    fn arrival(&mut self, values: Option<Vec<PublishedValue>>) -> Arrival {
        match (values, &self.others) {
            (None, _) => Arrival::Early,
            (Some(_), None) => Arrival::OfJob,
            (Some(values), Some(_)) => {
                self.are_waiting = true;
                Arrival::OfHost(values)
            }
        }
    }

    /// Keeps values that ranks of other hosts have put before the fence.
    ///
    /// # Errors
    /// If no rank waits at a fence, or a value is of a rank that the job does not have.
    pub fn keep(&mut self, values: &[PublishedValue]) -> Result<(), NobodyWaits> {
        let is_strange = |value: &PublishedValue| value.rank >= self.size;
        if !self.are_waiting || values.iter().any(is_strange) {
            return Err(NobodyWaits);
        }
        for value in values {
            self.exchange.keep(value);
            self.pmi.keep(value);
        }
        Ok(())
    }

    /// The ranks of all hosts have come: those of this one are to be let through.
    ///
    /// # Errors
    /// If none waits.
    pub fn open(&mut self) -> Result<(), NobodyWaits> {
        match std::mem::take(&mut self.are_waiting) {
            true => Ok(()),
            false => Err(NobodyWaits),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_secure::Key;

    use super::*;
    use crate::binding::BindingRequest;

    fn fences(others: Option<OtherHosts>) -> Fences {
        let share = HostShare {
            size: 3,
            ranks: vec![(0, 0), (1, 0)],
            room: 0,
            spares: 0,
            addresses: 0,
            binding: BindingRequest::default(),
        };
        Fences::new(&share, others).expect("random")
    }

    fn value(rank: u32) -> PublishedValue {
        PublishedValue {
            rank,
            name: "a".into(),
            value: vec![7],
        }
    }

    #[test]
    fn a_fence_on_one_host_is_over_when_its_ranks_have_come() {
        let mut fences = fences(None);
        assert_eq!(fences.put(value(1)), Answer::Taken);
        assert_eq!(fences.arrive(0), Arrival::Early);
        assert_eq!(fences.arrive(0), Arrival::Early, "the same one again");
        assert_eq!(fences.arrive(1), Arrival::OfJob);
        assert_eq!(fences.keep(&[value(0)]), Err(NobodyWaits));
        assert_eq!(fences.open(), Err(NobodyWaits), "it is open");
        assert_eq!(fences.arrive(1), Arrival::Early, "the next one");
        assert_eq!(fences.leave(0), Arrival::OfJob, "it has ended");
        assert_eq!(fences.arrive(1), Arrival::OfJob);
        assert_eq!(fences.leave(1), Arrival::Early, "nobody is there");
    }

    #[test]
    fn a_fence_on_several_hosts_waits_for_the_others() {
        let key = Key::random().expect("random");
        let map = String::new();
        let mut fences = fences(Some(OtherHosts { key, map }));
        assert_eq!(fences.put(value(0)), Answer::Taken);
        assert_eq!(fences.arrive(1), Arrival::Early);
        assert_eq!(fences.arrive(0), Arrival::OfHost(vec![value(0)]));
        assert_eq!(fences.arrive(0), Arrival::Early, "it waits already");
        assert_eq!(fences.keep(&[value(3)]), Err(NobodyWaits), "no rank");
        assert_eq!(fences.keep(&[value(2)]), Ok(()));
        assert_eq!(fences.open(), Ok(()));
        assert_eq!(fences.open(), Err(NobodyWaits));
        assert_eq!(fences.get(2, "a"), Answer::Value(Some(vec![7])));
        assert_eq!(fences.arrive(1), Arrival::Early);
        assert_eq!(fences.leave(0), Arrival::OfHost(Vec::new()));
        assert_eq!(fences.leave(1), Arrival::Early, "it waits already");
        assert_eq!(fences.open(), Ok(()));
    }
}
