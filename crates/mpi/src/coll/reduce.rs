//! `MPI_Reduce`, and the common part of reductions.
//!
//! Results are folded from the last rank to the first, `into = operand op into`: that is the form of the standard's
//! functions, needs no copy of the rank's own data, and keeps the order of ranks, so that operations that do not commute
//! are right by construction.

use std::borrow::Cow;
use std::sync::Arc;

use super::choice::Reduce;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Elements, Plan, Side};
use super::tree::TreePosition;
use super::{Members, missing};
use crate::buffer::Buffer;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use crate::op::Op;
use crate::schedule::{Schedule, Span};

/// Datatype and operation of a reduction: the arguments that are the same at all ranks.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// Elements of each rank.
    pub count: usize,
    /// Their datatype.
    pub datatype: Arc<Datatype>,
    /// The operation.
    pub op: Arc<Op>,
}

/// A [`Reduction`] whose datatype, and mostly whose operation, are the caller's: counting their users takes longer than
/// combining a few elements.
#[derive(Clone, Debug)]
pub struct ReductionArgument<'a> {
    /// Elements of each rank.
    pub count: usize,
    /// Their datatype.
    pub datatype: &'a Arc<Datatype>,
    /// The operation.
    pub op: Cow<'a, Arc<Op>>,
}

impl<'a> From<&'a Reduction> for ReductionArgument<'a> {
    fn from(reduction: &'a Reduction) -> Self {
        Self {
            count: reduction.count,
            datatype: &reduction.datatype,
            op: Cow::Borrowed(&reduction.op),
        }
    }
}

impl ReductionArgument<'_> {
    /// The same, with shared ownership of what it names.
    #[must_use]
    pub fn keep(&self) -> Reduction {
        Reduction {
            count: self.count,
            datatype: Arc::clone(self.datatype),
            op: Arc::clone(&self.op),
        }
    }

    /// See [`Reduction::check`].
    #[inline]
    pub(super) fn check(&self, name: &str, count: usize, buffer: &Buffer) -> Result<()> {
        check((&self.op, self.datatype), name, count, buffer)
    }

    /// [`check`](Self::check) for a send buffer and a receive buffer, of so many bytes each.
    #[inline]
    pub(super) fn check_both(&self, name: &str, send: &Buffer, receive: &Buffer) -> Result<()> {
        self.check(name, self.count, send)?;
        if receive.bytes() == send.bytes() {
            return Ok(());
        }
        self.check(name, self.count, receive)
    }
}

/// Checks an operation on elements, and that the buffer holds so many.
#[inline]
fn check(
    (op, datatype): (&Op, &Datatype),
    name: &str,
    count: usize,
    buffer: &Buffer,
) -> Result<()> {
    op.is_allowed_in_collectives(datatype)
        .map_err(|error| Error::new(error.class(), format!("{name}: {error}")))?;
    if buffer.bytes() == datatype.bytes(count)? {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::Truncate,
        format!(
            "{name}: a buffer of {} bytes for {count} elements of {} bytes; count and datatype of both buffers must agree",
            buffer.bytes(),
            datatype.size()
        ),
    ))
}

impl Reduction {
    pub(super) fn elements(&self) -> Elements {
        Elements {
            op: Arc::clone(&self.op),
            datatype: Arc::clone(&self.datatype),
        }
    }

    /// Checks the operation, and that the buffer holds what the count says.
    pub(super) fn check(&self, name: &str, count: usize, buffer: &Buffer) -> Result<()> {
        check((&self.op, &self.datatype), name, count, buffer)
    }

    /// Where the parts of `count` elements begin that `parts` ranks share, in bytes, and the end.
    pub(super) fn cuts(&self, parts: usize) -> Vec<usize> {
        let (whole, rest) = (self.count / parts, self.count % parts);
        let size = self.datatype.size();
        (0..=parts)
            .map(|part| (part * whole + part.min(rest)) * size)
            .collect()
    }
}

/// All ranks' elements, combined, to the root. In place: `send` is the root's receive buffer.
/// `receive` matters at the root only.
///
/// # Errors
/// `Root` for a root that is no rank, `Op` if the operation is not defined for the datatype, `Buffer`
/// if a buffer is missing, `Truncate` if a buffer does not hold what the count says.
pub fn reduce(
    members: &Members,
    send: &Buffer,
    receive: Option<&Buffer>,
    reduction: &Reduction,
    root: usize,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Reduce");
    members.check_root(plan.name(), root)?;
    reduction.check(plan.name(), reduction.count, send)?;
    let own = plan.input(send);
    let mut out = None;
    if members.rank == root {
        let receive = receive.ok_or_else(|| missing(plan.name(), "receive"))?;
        reduction.check(plan.name(), reduction.count, receive)?;
        out = Some(plan.output(receive));
    }
    combine(members, &mut plan, own, out, reduction, root);
    plan.finish()
}

/// The steps, for data in one piece; also the first half of other collectives. `out` is there at the
/// root.
pub(super) fn combine(
    members: &Members,
    plan: &mut Plan,
    own: Span,
    out: Option<Span>,
    reduction: &Reduction,
    root: usize,
) {
    match members.reduce(own.len(), reduction.count, reduction.op.is_commutative()) {
        _ if members.size == 1 => {
            out.into_iter().for_each(|out| plan.copy(own, out));
        }
        Reduce::Flat => flat(members, plan, own, out, &reduction.elements(), root),
        Reduce::Binomial => binomial(members, plan, own, out, &reduction.elements(), root),
        Reduce::Parts => parts(members, plan, own, out, reduction, root),
        Reduce::HostsFirst => hosts_first(members, plan, own, out, reduction, root),
    }
}

/// To the leader of each host, and from these to the root, which is the leader of its own.
fn hosts_first(
    members: &Members,
    plan: &mut Plan,
    own: Span,
    out: Option<Span>,
    reduction: &Reduction,
    root: usize,
) {
    let levels = Levels::of(members, Leader::Root(root));
    let leads = levels.leads();
    let of_host = match levels.here.size {
        1 => own,
        _ if leads => plan.scratch(own.len()),
        _ => own,
    };
    if levels.here.size > 1 {
        let into = leads.then_some(of_host);
        levels.within(plan, |here, plan| {
            combine(here, plan, own, into, reduction, levels.leader);
        });
    }
    if leads {
        plan.fence();
        levels.between(plan, |across, plan| {
            combine(
                across,
                plan,
                of_host,
                out,
                reduction,
                levels.hosts.host(root),
            );
        });
    }
}

/// The root gets everything and does everything. `out` is there at the root.
pub(super) fn flat(
    members: &Members,
    plan: &mut Plan,
    own: Span,
    out: Option<Span>,
    elements: &Elements,
    root: usize,
) {
    let Some(out) = out else {
        return plan.send(root, own);
    };
    let last = members.size - 1;
    // The fold begins in `out`, unless our own data, which come later, are there.
    let here = root == last || !own.is_same(&out);
    let result = if here { out } else { plan.scratch(own.len()) };
    let spans: Vec<Span> = (0..members.size)
        .map(|rank| match rank {
            rank if rank == root => own,
            rank if rank == last => result,
            _ => plan.scratch(own.len()),
        })
        .collect();
    for rank in members.others() {
        plan.receive(rank, spans[rank]);
    }
    if root == last {
        plan.copy(own, result);
    }
    plan.fence();
    for span in spans[..last].iter().rev() {
        plan.reduce(elements, *span, Side::Before, result);
    }
    plan.copy(result, out);
}

/// Up a binomial tree. If the operation commutes, the root of the tree is the root; else it is rank 0,
/// so that each subtree is a run of ranks, and it sends the result to the root.
fn binomial(
    members: &Members,
    plan: &mut Plan,
    own: Span,
    out: Option<Span>,
    elements: &Elements,
    root: usize,
) {
    let top = if elements.op.is_commutative() {
        root
    } else {
        0
    };
    let position = TreePosition::of(members.rank, top, members.size);
    let rank = |number: usize| (number + top) % members.size;
    let children: Vec<usize> = position.children().collect();
    let mut result = own;
    if !children.is_empty() {
        let spans: Vec<Span> = children.iter().map(|_| plan.scratch(own.len())).collect();
        for (child, span) in children.iter().zip(&spans) {
            plan.receive(rank(*child), *span);
        }
        plan.fence();
        result = spans[spans.len() - 1];
        for span in spans[..spans.len() - 1].iter().rev() {
            plan.reduce(elements, *span, Side::Before, result);
        }
        plan.reduce(elements, own, Side::Before, result);
    }
    match (position.parent(), out) {
        (Some(parent), _) => plan.send(rank(parent), result),
        (None, Some(out)) => plan.copy(result, out),
        (None, None) => plan.send(root, result),
    }
    if let (Some(out), true) = (out, members.rank != top) {
        // What we sent may lie in `out`.
        plan.fence();
        plan.receive(top, out);
    }
}

/// Each rank reduces one part, the root gathers them: the work is spread, and the root gets no more
/// than twice the data.
fn parts(
    members: &Members,
    plan: &mut Plan,
    own: Span,
    out: Option<Span>,
    reduction: &Reduction,
    root: usize,
) {
    let cuts = reduction.cuts(members.size);
    let part = share(members, plan, own, &cuts, &reduction.elements());
    let Some(out) = out else {
        return plan.send(root, part);
    };
    for rank in members.others() {
        plan.receive(rank, out.part(cuts[rank], cuts[rank + 1] - cuts[rank]));
    }
    plan.copy(part, out.part(cuts[root], cuts[root + 1] - cuts[root]));
}

/// Each rank gets its part of the data of all others and reduces it. Answers where the result is;
/// `own` is free afterwards.
pub(super) fn share(
    members: &Members,
    plan: &mut Plan,
    own: Span,
    cuts: &[usize],
    elements: &Elements,
) -> Span {
    let part = |rank: usize| own.part(cuts[rank], cuts[rank + 1] - cuts[rank]);
    let mine = part(members.rank);
    let last = members.size - 1;
    let spans: Vec<Span> = (0..members.size)
        .map(|rank| match rank {
            rank if rank == members.rank && rank != last => mine,
            _ => plan.scratch(mine.len()),
        })
        .collect();
    for rank in members.others() {
        plan.receive(rank, spans[rank]);
    }
    for rank in members.others() {
        plan.send(rank, part(rank));
    }
    if members.rank == last {
        plan.copy(mine, spans[last]);
    }
    plan.fence();
    for span in spans[..last].iter().rev() {
        plan.reduce(elements, *span, Side::Before, spans[last]);
    }
    spans[last]
}
