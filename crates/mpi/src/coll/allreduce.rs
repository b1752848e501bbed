//! `MPI_Allreduce`.

use super::choice::Allreduce;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Elements, Plan, Side};
use super::reduce::{Reduction, flat, share};
use super::{Members, bcast, reduce};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// All ranks' elements, combined, to all. In place: `send` is the receive buffer.
///
/// # Errors
/// `Op` if the operation is not defined for the datatype, `Truncate` if a buffer does not hold what
/// the count says.
pub fn allreduce(
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    reduction: &Reduction,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Allreduce");
    reduction.check(plan.name(), reduction.count, send)?;
    reduction.check(plan.name(), reduction.count, receive)?;
    let (own, out) = (plan.input(send), plan.output(receive));
    combine_for_all(members, &mut plan, own, out, reduction);
    plan.finish()
}

/// The steps, for data in one piece. `own` may be `out`.
fn combine_for_all(
    members: &Members,
    plan: &mut Plan,
    own: Span,
    out: Span,
    reduction: &Reduction,
) {
    let elements = reduction.elements();
    let commutative = reduction.op.is_commutative();
    match members.allreduce(own.len(), reduction.count, commutative) {
        _ if members.size == 1 => plan.copy(own, out),
        Allreduce::Flat => {
            let here = members.rank == 0;
            flat(members, plan, own, here.then_some(out), &elements, 0);
            // Our own data may lie in `out`: the result comes only after rank 0 has got them.
            bcast::flat(members, plan, out, 0);
        }
        Allreduce::RecursiveDoubling => {
            plan.copy(own, out);
            folded(members, plan, out, &elements, doubling);
        }
        Allreduce::Parts => parts(members, plan, own, out, reduction),
        Allreduce::Halving => {
            plan.copy(own, out);
            let steps = |core: &Core, plan: &mut Plan, data, spare, elements: &Elements| {
                halving(core, plan, data, spare, elements, reduction);
            };
            folded(members, plan, out, &elements, steps);
        }
        Allreduce::HostsFirst => hosts_first(members, plan, own, out, reduction),
        Allreduce::PartsOfHosts => parts_of_hosts(members, plan, own, out, reduction),
    }
}

/// To the leader of each host, between these, and back.
fn hosts_first(members: &Members, plan: &mut Plan, own: Span, out: Span, reduction: &Reduction) {
    let levels = Levels::of(members, Leader::First);
    let into = levels.leads().then_some(out);
    levels.within(plan, |here, plan| {
        reduce::combine(here, plan, own, into, reduction, levels.leader);
    });
    // Our own data may lie in `out`.
    plan.fence();
    if levels.leads() {
        levels.between(plan, |across, plan| {
            combine_for_all(across, plan, out, out, reduction);
        });
        plan.fence();
    }
    levels.within(plan, |here, plan| {
        bcast::spread(here, plan, out, levels.leader)
    });
}

/// Each rank combines one part with those of its host, then with the ranks of its number on the other hosts, and gives it
/// to its host: between two hosts each byte goes no more often than if each host were one rank, and all ranks work.
fn parts_of_hosts(members: &Members, plan: &mut Plan, own: Span, out: Span, reduction: &Reduction) {
    let levels = Levels::of(members, Leader::First);
    let cuts = reduction.cuts(levels.here.size);
    let elements = reduction.elements();
    let part = levels.within(plan, |here, plan| share(here, plan, own, &cuts, &elements));
    let of_part = Reduction {
        count: part.len() / reduction.datatype.size(),
        ..reduction.clone()
    };
    levels.beside(plan, |across, plan| {
        combine_for_all(across, plan, part, part, &of_part)
    });
    plan.fence();
    levels.within(plan, |here, plan| collect(here, plan, part, out, &cuts));
}

/// Each rank reduces one part and gives it to all.
fn parts(members: &Members, plan: &mut Plan, own: Span, out: Span, reduction: &Reduction) {
    let cuts = reduction.cuts(members.size);
    let part = share(members, plan, own, &cuts, &reduction.elements());
    collect(members, plan, part, out, &cuts);
}

/// The parts that the ranks have, to all.
fn collect(members: &Members, plan: &mut Plan, part: Span, out: Span, cuts: &[usize]) {
    let place = |rank: usize| out.part(cuts[rank], cuts[rank + 1] - cuts[rank]);
    for rank in members.others() {
        plan.receive(rank, place(rank));
    }
    for rank in members.others() {
        plan.send(rank, part);
    }
    plan.copy(part, place(members.rank));
}

/// The largest power of two of ranks, among whom exchanges in pairs work out. Each of the first of
/// them stands for two ranks, neighbours, so that the order of ranks is kept.
struct Core {
    number: usize,
    size: usize,
    /// Ranks beyond the power of two.
    extra: usize,
}

impl Core {
    fn rank(&self, number: usize) -> usize {
        if number < self.extra {
            2 * number + 1
        } else {
            number + self.extra
        }
    }
}

/// Lets pairs of neighbours fold into one, runs `steps` among the core, and gives the result back.
/// `data` holds this rank's elements, and the result at the end.
fn folded(
    members: &Members,
    plan: &mut Plan,
    data: Span,
    elements: &Elements,
    steps: impl FnOnce(&Core, &mut Plan, Span, Span, &Elements),
) {
    let size = 1 << (usize::BITS - 1 - members.size.leading_zeros());
    let extra = members.size - size;
    let rank = members.rank;
    let number = if rank < 2 * extra {
        rank / 2
    } else {
        rank - extra
    };
    if rank < 2 * extra && rank.is_multiple_of(2) {
        plan.send(rank + 1, data);
        plan.fence();
        plan.receive(rank + 1, data);
        return;
    }
    let spare = plan.scratch(data.len());
    if rank < 2 * extra {
        plan.receive(rank - 1, spare);
        plan.fence();
        plan.reduce(elements, spare, Side::Before, data);
    }
    steps(
        &Core {
            number,
            size,
            extra,
        },
        plan,
        data,
        spare,
        elements,
    );
    if rank < 2 * extra {
        plan.fence();
        plan.send(rank - 1, data);
    }
}

/// In round k partners whose numbers differ in bit k exchange all they have.
fn doubling(core: &Core, plan: &mut Plan, data: Span, spare: Span, elements: &Elements) {
    let mut bit = 1;
    while bit < core.size {
        let other = core.number ^ bit;
        plan.exchange(core.rank(other), data, core.rank(other), spare);
        let side = if other < core.number {
            Side::Before
        } else {
            Side::After
        };
        plan.reduce(elements, spare, side, data);
        bit *= 2;
    }
}

/// Partners exchange halves of what they are responsible for until each has one part, then the way
/// back (Rabenseifner). For operations that commute.
fn halving(
    core: &Core,
    plan: &mut Plan,
    data: Span,
    spare: Span,
    elements: &Elements,
    reduction: &Reduction,
) {
    let cuts = reduction.cuts(core.size);
    let run = |span: Span, first: usize, count: usize| {
        span.part(cuts[first], cuts[first + count] - cuts[first])
    };
    let mut bit = core.size / 2;
    while bit > 0 {
        let other = core.number ^ bit;
        // Our part lies in the half of `bit` parts from here, the partner's in the other one.
        let ours = core.number / bit * bit;
        let theirs = other / bit * bit;
        let rank = core.rank(other);
        plan.exchange(rank, run(data, theirs, bit), rank, run(spare, ours, bit));
        plan.reduce(
            elements,
            run(spare, ours, bit),
            Side::Before,
            run(data, ours, bit),
        );
        bit /= 2;
    }
    bit = 1;
    while bit < core.size {
        let other = core.number ^ bit;
        let ours = core.number / bit * bit;
        let theirs = other / bit * bit;
        let rank = core.rank(other);
        plan.exchange(rank, run(data, ours, bit), rank, run(data, theirs, bit));
        bit *= 2;
    }
}
