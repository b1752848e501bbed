//! Choice of algorithms: the one place that decides, by size, count and load.
//!
//! Two cases are told apart first. On a *crowded* host (more ranks than cores) each message to a sleeping rank costs a
//! context switch, some microseconds; what counts is how many ranks must run one after the other. Flat algorithms, in
//! which all ranks talk to one rank once, need the fewest. With cores of their own, ranks answer in a fraction of a
//! microsecond, and what counts is how long the longest chain of messages is, and for large data how the copies are
//! spread.
//!
//! If ranks are on several hosts, the work within each host comes first, because a message between hosts takes ten times
//! as long as one within: see [`hosts`](super::hosts). The level within a host and the level between hosts come here
//! again, with the ranks of the level.
//!
//! All ranks must decide alike: only facts that the standard makes equal on all ranks may be used here. Whether a host is
//! crowded is known only to its own ranks.
//!
//! The numbers are the sizes at which the algorithms cross, found by counting messages and copies, and for reductions on
//! a crowded host by measuring 4, 8 and 17 ranks on two cores. The experiments `collectives-small` and
//! `collectives-ranks` show their effect.

use weft_fabric::board::{Board, MOST_MEMBERS};

use super::on_board::{Demand, Kind};
use super::{Hosts, Members};

/// From here on data are bulk: they travel by one copy that the receiver makes.
pub(super) const BULK: usize = 32 * 1024;
/// So many messages at once are no burden for a receiver.
const FAN: usize = 32;
/// Blocks up to here are cheaper copied along than sent in a message of their own.
const SMALL_BLOCK: usize = 512;
/// So many blocks one rank puts in order for others.
const MANY_BLOCKS: usize = 1024;

/// On a board: where each rank reads the data of all, so much together at most. Beyond, the work of combining is shared out.
const ALL_READ: usize = 64 * 1024;
/// Most epochs of one collective on a board: slices of its data.
const MOST_EPOCHS: usize = 64;

/// How ranks that share memory do a blocking collective on their board. Only reductions have a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnBoard {
    /// Every rank that gets a result folds everything.
    ByEach,
    /// Each folds a part.
    InParts,
}

/// Whether and how a collective is done on the board of `size` members, all on one host.
#[inline]
pub(super) fn on_board(
    demand: &Demand,
    size: usize,
    crowded: impl FnOnce() -> bool,
) -> Option<OnBoard> {
    if fits_at_once(demand.shown, demand.read, size) {
        return Some(OnBoard::ByEach);
    }
    on_board_in_slices(demand, size, crowded())
}

/// Whether a collective whose members show `shown` bytes and read `read` is done on the board of `size` members in one epoch, by each
/// for itself.
#[inline(always)]
pub(super) fn fits_at_once(shown: usize, read: usize, size: usize) -> bool {
    shown <= Board::INLINE || shown <= Board::capacity_ahead_for(size) && read <= ALL_READ
}

const _: () = assert!(
    Board::INLINE * MOST_MEMBERS <= ALL_READ,
    "what lies beside the stamps is little for all together"
);

/// The same where each member shows a block of `each` bytes for every one.
#[inline(always)]
pub(super) fn blocks_fit_at_once(each: usize, size: usize) -> bool {
    let all = each.saturating_mul(size);
    // Where the data go in slices, the parts of a slice are of whole words.
    let words = each.div_ceil(8).saturating_mul(8);
    fits_at_once(all, all, size)
        && (all <= Board::INLINE || words.saturating_mul(size) <= Board::capacity_for(size))
}

/// The same where each member takes one part of the `all` bytes of every one: parts of whole elements, the longest of which is so
/// long.
#[inline(always)]
pub(super) fn parts_fit_at_once(
    all: usize,
    (longest, element): (usize, usize),
    size: usize,
) -> bool {
    fits_at_once(all, all, size)
        && (all <= Board::INLINE
            || longest <= Board::capacity_for(size) / size / element.max(1) * element)
}

/// The same of much data.
#[inline(never)]
fn on_board_in_slices(demand: &Demand, size: usize, crowded: bool) -> Option<OnBoard> {
    if demand.is_users {
        return None;
    }
    let (ahead, most) = (Board::capacity_ahead_for(size), Board::capacity_for(size));
    let (way, slice) = match demand.kind {
        Kind::Scan => return None,
        // In a crowd the root has no room for further slices until all have run: 8 ranks on two cores took 28 µs for blocks of
        // 64 KiB, which go in four epochs, and 12 where each reads the root's memory; 4 ranks, in two, 7.6 and 10.
        Kind::Scatter if crowded && demand.shown > 2 * most => return None,
        Kind::Blocks | Kind::Scatter => (OnBoard::ByEach, ahead),
        // Of two ranks, the one shows slices while the other one folds them.
        Kind::Reduce if size == 2 && demand.shown <= MOST_EPOCHS * ahead => {
            (OnBoard::ByEach, ahead)
        }
        Kind::Reduce | Kind::Allreduce => (OnBoard::InParts, most),
    };
    let fits = size <= FAN && demand.shown.div_ceil(slice) <= MOST_EPOCHS;
    fits.then_some(way)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Barrier {
    Flat,
    Dissemination,
    HostsFirst,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bcast {
    Flat,
    Binomial,
    /// The root scatters, then all gather.
    ScatterAllgather,
    HostsFirst,
}

/// Gather and scatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rooted {
    Flat,
    Binomial,
    HostsFirst,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allgather {
    /// To one rank, and from there to all.
    Flat,
    Bruck,
    Ring,
    HostsFirst,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alltoall {
    Bruck,
    /// So many partners at a time.
    Pairwise(usize),
    HostsFirst,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reduce {
    /// The root does everything.
    Flat,
    Binomial,
    /// Each rank reduces one part; the root gathers them.
    Parts,
    HostsFirst,
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
    HostsFirst,
    /// Each rank of a host reduces one part, of which it then speaks for its host.
    PartsOfHosts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReduceScatter {
    /// Each rank gets its part from all others.
    Parts,
    /// To one rank, which scatters the result.
    OneRank,
    HostsFirst,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scan {
    /// From rank to rank.
    Chain,
    Doubling,
    HostsFirst,
}

impl Members {
    /// They are on one host, and that is crowded.
    fn are_crowded(&self) -> bool {
        self.crowded && self.hosts.is_none()
    }

    /// The hosts, if some of them has several ranks.
    pub(super) fn levels(&self) -> Option<&Hosts> {
        self.hosts.as_deref().filter(|hosts| hosts.largest() > 1)
    }

    /// Whether data of hosts can be combined: in any order, or in that of ranks.
    fn combine_by_host(&self, commutative: bool) -> bool {
        self.levels()
            .is_some_and(|hosts| commutative || hosts.keep_order())
    }

    pub(super) fn barrier(&self) -> Barrier {
        if self.levels().is_some() {
            Barrier::HostsFirst
        } else if self.are_crowded() {
            Barrier::Flat
        } else {
            Barrier::Dissemination
        }
    }

    pub(super) fn bcast(&self, bytes: usize) -> Bcast {
        if self.levels().is_some() {
            Bcast::HostsFirst
        } else if self.are_crowded() || self.size <= 3 {
            Bcast::Flat
        } else if bytes >= 4 * BULK && self.size >= 8 {
            Bcast::ScatterAllgather
        } else {
            Bcast::Binomial
        }
    }

    /// The leader of a host takes the blocks of its ranks along, unless they are so large that copying them is a burden.
    pub(super) fn rooted(&self, block: usize) -> Rooted {
        let of_a_host = self
            .levels()
            .map(|hosts| hosts.largest().saturating_mul(block));
        if of_a_host.is_some_and(|bytes| bytes <= BULK) {
            Rooted::HostsFirst
        } else if self.are_crowded() || self.size <= FAN || block > SMALL_BLOCK {
            Rooted::Flat
        } else {
            Rooted::Binomial
        }
    }

    pub(super) fn allgather(&self, total: usize) -> Allgather {
        if self.levels().is_some() {
            Allgather::HostsFirst
        } else if self.are_crowded() {
            Allgather::Flat
        } else if total <= BULK {
            Allgather::Bruck
        } else {
            Allgather::Ring
        }
    }

    pub(super) fn alltoall(&self, block: usize) -> Alltoall {
        let of_a_host = self.levels().map(|hosts| hosts.largest() * self.size);
        if block <= SMALL_BLOCK / 2 && of_a_host.is_some_and(|blocks| blocks <= MANY_BLOCKS) {
            Alltoall::HostsFirst
        } else if !self.are_crowded() && self.size >= 8 && block <= SMALL_BLOCK / 2 {
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

    pub(super) fn reduce(&self, bytes: usize, elements: usize, commutative: bool) -> Reduce {
        if self.combine_by_host(commutative) {
            Reduce::HostsFirst
        } else if self.are_crowded() && bytes <= self.alone() || self.size <= 3 && bytes <= BULK {
            Reduce::Flat
        } else if bytes > BULK && elements >= self.size && self.size <= FAN {
            Reduce::Parts
        } else {
            Reduce::Binomial
        }
    }

    pub(super) fn allreduce(&self, bytes: usize, elements: usize, commutative: bool) -> Allreduce {
        if self.combine_by_host(commutative) {
            let even = self.levels().is_some_and(Hosts::are_even);
            if even && bytes > BULK && elements >= self.size {
                Allreduce::PartsOfHosts
            } else {
                Allreduce::HostsFirst
            }
        } else if self.are_crowded() && bytes <= self.alone() {
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
        if self.combine_by_host(false) {
            ReduceScatter::HostsFirst
        } else if self.are_crowded() && bytes <= self.alone() || self.size > 2 * FAN {
            ReduceScatter::OneRank
        } else {
            ReduceScatter::Parts
        }
    }

    pub(super) fn scan(&self) -> Scan {
        if self.combine_by_host(false) {
            Scan::HostsFirst
        } else if self.are_crowded() {
            Scan::Chain
        } else {
            Scan::Doubling
        }
    }
}
