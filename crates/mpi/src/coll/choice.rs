//! Choice of algorithms: the one place that decides, by size, count and load.
//!
//! Two cases are told apart first. On a *crowded* host (more ranks than cores) each message to a rank
//! that sleeps costs a switch of context, some microseconds; what counts is how many ranks must run
//! one after the other. Flat algorithms, where everybody talks to one rank once, need the fewest. On
//! cores of their own ranks answer in a fraction of a microsecond, and what counts is how long the
//! longest chain of messages is, and for large data how the copies are spread.
//!
//! All ranks must decide alike: only what the standard makes equal on all ranks may be asked here.
//!
//! The numbers are where the algorithms cross, by counting messages and copies, and for reductions on a
//! crowded host by measuring 4, 8 and 17 ranks on two cores. The experiments `collectives-small` and
//! `collectives-ranks` show what they give.

use super::Members;

/// From here on data are bulk: they travel by one copy that the receiver makes.
pub(super) const BULK: usize = 32 * 1024;
/// So many messages at once are no burden for a receiver.
const FAN: usize = 32;
/// Blocks up to here are cheaper copied along than sent in a message of their own.
const SMALL_BLOCK: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Barrier {
    Flat,
    Dissemination,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bcast {
    Flat,
    Binomial,
    /// The root scatters, then all gather.
    ScatterAllgather,
}

/// Gather and scatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rooted {
    Flat,
    Binomial,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allgather {
    /// To one rank, and from there to all.
    Flat,
    Bruck,
    Ring,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alltoall {
    Bruck,
    /// So many partners at a time.
    Pairwise(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reduce {
    /// The root does everything.
    Flat,
    Binomial,
    /// Each rank reduces one part; the root gathers them.
    Parts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allreduce {
    /// Reduce flat, then bcast flat.
    Flat,
    RecursiveDoubling,
    /// Each rank reduces one part, which all gather.
    Parts,
    /// Recursive halving and doubling (Rabenseifner), for operations that commute.
    Halving,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReduceScatter {
    /// Each rank gets its part from all others.
    Parts,
    /// Reduce to one rank, then scatter.
    ReduceScatter,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scan {
    /// From rank to rank.
    Chain,
    Doubling,
}

impl Members {
    pub(super) fn barrier(&self) -> Barrier {
        if self.crowded {
            Barrier::Flat
        } else {
            Barrier::Dissemination
        }
    }

    pub(super) fn bcast(&self, bytes: usize) -> Bcast {
        if self.crowded || self.size <= 3 {
            Bcast::Flat
        } else if bytes >= 4 * BULK && self.size >= 8 {
            Bcast::ScatterAllgather
        } else {
            Bcast::Binomial
        }
    }

    pub(super) fn rooted(&self, block: usize) -> Rooted {
        if self.crowded || self.size <= FAN || block > SMALL_BLOCK {
            Rooted::Flat
        } else {
            Rooted::Binomial
        }
    }

    pub(super) fn allgather(&self, total: usize) -> Allgather {
        if self.crowded {
            Allgather::Flat
        } else if total <= BULK {
            Allgather::Bruck
        } else {
            Allgather::Ring
        }
    }

    pub(super) fn alltoall(&self, block: usize) -> Alltoall {
        if !self.crowded && self.size >= 8 && block <= SMALL_BLOCK / 2 {
            Alltoall::Bruck
        } else {
            Alltoall::Pairwise(FAN)
        }
    }

    /// So many bytes of each rank one rank reduces sooner alone than all share the work: waking all
    /// once more costs as much as adding some kilobytes for each. Memory for all their data is bounded.
    fn alone(&self) -> usize {
        BULK.max((BULK / 2 * self.size).min(16 * 1024 * 1024 / self.size))
    }

    pub(super) fn reduce(&self, bytes: usize, elements: usize) -> Reduce {
        if self.crowded && bytes <= self.alone() || self.size <= 3 && bytes <= BULK {
            Reduce::Flat
        } else if bytes > BULK && elements >= self.size && self.size <= FAN {
            Reduce::Parts
        } else {
            Reduce::Binomial
        }
    }

    pub(super) fn allreduce(&self, bytes: usize, elements: usize, commutative: bool) -> Allreduce {
        if self.crowded && bytes <= self.alone() {
            Allreduce::Flat
        } else if bytes <= BULK / 4 || elements < self.size {
            Allreduce::RecursiveDoubling
        } else if self.size <= FAN {
            Allreduce::Parts
        } else if commutative {
            Allreduce::Halving
        } else {
            Allreduce::RecursiveDoubling
        }
    }

    pub(super) fn reduce_scatter(&self, bytes: usize) -> ReduceScatter {
        if self.crowded && bytes <= self.alone() || self.size > 2 * FAN {
            ReduceScatter::ReduceScatter
        } else {
            ReduceScatter::Parts
        }
    }

    pub(super) fn scan(&self) -> Scan {
        if self.crowded {
            Scan::Chain
        } else {
            Scan::Doubling
        }
    }
}
