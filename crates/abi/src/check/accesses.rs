//! One-sided accesses, by `mpiexec --check`: accesses of an epoch that conflict, and uses of their memory by
//! the program.
//!
//! ```text
//!   MPI_Put ──► watch: does an access of this origin conflict? ──► flush, unlock, complete ──► its buffer unchanged?
//!                                                              │            kept for when all meet (`epochs`)
//!                                                              └─► MPI_Win_fence: as above, and each target hears of
//!                                                                  all accesses to it (`fences`)
//! ```
//!
//! Two accesses conflict if they have bytes in common, nothing orders them, and one of them writes, unless both accumulate (MPI 5.0,
//! section 12.7). An access with a request also belongs to its epoch; the end of the request frees its buffers. A get is then complete;
//! for other accesses the request says nothing about the target.

mod kind;

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicU64, Ordering};
use weft_mpi::error::Result;
use weft_mpi::rma::{TargetBuffer, Window};
use weft_mpi::{Buffer, RequestId};

use super::epochs::{self, Within};
use super::findings;
use super::under_way::Memory;
use crate::handle::creation::NamedCallSite;

pub use kind::AccessKind;

/// Most accesses of an epoch that are kept: further ones are not checked.
const MOST: usize = 4096;

/// Most pieces of an access: further pieces of a datatype are not checked.
const PIECES: usize = 1024;

/// An access of this origin, in an epoch that is open.
#[derive(Debug)]
pub struct Access {
    pub made: NamedCallSite,
    pub kind: AccessKind,
    pub target: u32,
    /// Bytes of the target's memory, from its base, or addresses for a dynamic window; in order.
    pub spans: Vec<Range<i64>>,
    /// Checksum of the bytes that are put, if they are contiguous at the target.
    pub sum: Option<u64>,
    pub within: Within,
    local: Vec<Memory>,
    /// Its number among all accesses of this process.
    number: u64,
    /// The request that frees its buffers.
    request: Option<RequestId>,
}

#[cfg(test)]
impl Access {
    pub fn for_tests(made: NamedCallSite, kind: AccessKind, spans: Vec<Range<i64>>) -> Self {
        Self {
            made,
            kind,
            target: 0,
            spans,
            sum: None,
            within: Within::Fences,
            local: Vec::new(),
            number: 0,
            request: None,
        }
    }
}

/// The accesses that a call ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All.
    All,
    /// Those to one target.
    To(u32),
    /// Those to one target, or all, for the origin alone: its buffers are free.
    Locally(Option<u32>),
}

static ALL: LazyLock<Mutex<HashMap<u32, Vec<Access>>>> = LazyLock::new(Mutex::default);
static NUMBER: AtomicU64 = AtomicU64::new(1);

fn all() -> MutexGuard<'static, HashMap<u32, Vec<Access>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first bytes that both have; the spans of each are in order.
pub fn common(one: &[Range<i64>], other: &[Range<i64>]) -> Option<Range<i64>> {
    let (mut first, mut second) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        let both = a.start.max(b.start)..a.end.min(b.end);
        if !both.is_empty() {
            return Some(both);
        }
        if a.end <= b.end {
            first.next();
        } else {
            second.next();
        }
    }
    None
}

/// The bytes of the target's elements.
fn spans(window: &Window, target: &TargetBuffer<'_>) -> Vec<Range<i64>> {
    let unit = window.unit_of(target.rank).unwrap_or(1);
    let base = target.displacement.wrapping_mul(unit);
    let bytes = target.datatype.bytes(target.count).unwrap_or(0);
    let mut spans = Vec::new();
    let visit = |offset: isize, number: usize, stride: isize, each: usize| {
        for piece in 0..number {
            let first = base.wrapping_add((offset + stride * piece.cast_signed()) as i64);
            spans.push(first..first + each as i64);
            if spans.len() == PIECES {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    };
    target.datatype.pieces(0, bytes, visit);
    spans.sort_unstable_by_key(|span| span.start);
    spans
}

/// An access is about to be made, if everything is checked. Its buffers stay valid until it has ended. Returns its
/// number; 0 if it is not checked.
#[inline]
pub fn watch(
    call: &'static str,
    window: &Window,
    what: (AccessKind, &TargetBuffer<'_>),
    buffers: (Option<&Buffer>, Option<&Buffer>),
) -> u64 {
    if super::is_full() {
        begun(call, window, what, buffers)
    } else {
        0
    }
}

/// The access with this number, which ends with its epoch, is under way, unless it was refused: then it has touched nothing.
///
/// # Errors
/// As it was refused.
#[inline]
pub fn unless_refused<T>(window: &Window, number: u64, begun: Result<T>) -> Result<T> {
    if number != 0 && begun.is_err() {
        forget_access(window, number);
    }
    begun
}

#[cold]
fn forget_access(window: &Window, number: u64) {
    if let Some(open) = all().get_mut(&window.comm().context()) {
        open.retain(|access| access.number != number);
    }
}

/// The access with this number has this request, or has failed.
///
/// # Errors
/// The access's own failure.
#[inline]
pub fn requested(window: &Window, number: u64, request: Result<RequestId>) -> Result<RequestId> {
    match number {
        0 => request,
        number => keep_request(window, number, request),
    }
}

#[cold]
fn keep_request(window: &Window, number: u64, request: Result<RequestId>) -> Result<RequestId> {
    let request = match request {
        // A separate request that identifies its access.
        Ok(request) => window.comm().process().name_apart(request),
        Err(error) => Err(error),
    };
    let mut windows = all();
    let open = windows.entry(window.comm().context()).or_default();
    match &request {
        Ok(request) => {
            let access = open.iter_mut().find(|access| access.number == number);
            if let Some(access) = access {
                access.request = Some(*request);
            }
        }
        Err(_) => {
            drop(windows);
            forget_access(window, number);
        }
    }
    request
}

/// A request has ended, by this call: if it belonged to an access, its buffers are free. Returns what is
/// wrong with them.
pub fn request_ended(id: RequestId, call: &'static str) -> Option<String> {
    let mut windows = all();
    let mut open = windows.iter_mut();
    let (context, place) = open.find_map(|(context, open)| {
        let place = open.iter().position(|access| access.request == Some(id))?;
        Some((*context, place))
    })?;
    let open = windows.get_mut(&context)?;
    open[place].request = None;
    let found = open[place].free(call);
    let over = (open[place].kind == AccessKind::Get).then(|| open.remove(place));
    drop(windows);
    epochs::keep(context, over.into_iter().collect());
    found
}

impl Access {
    /// This call gives its buffers back to the program. Returns what is wrong with them.
    fn free(&mut self, call: &'static str) -> Option<String> {
        let is_changed = self.local.iter().any(Memory::is_changed);
        self.local.clear();
        is_changed.then(|| {
            format!(
                "the buffer of {} was changed before {}; leave it alone until then: what arrives is chance",
                self.made.describe(),
                NamedCallSite::here(call).describe(),
            )
        })
    }
}

#[cold]
fn begun(
    call: &'static str,
    window: &Window,
    (kind, target): (AccessKind, &TargetBuffer<'_>),
    (sent, received): (Option<&Buffer>, Option<&Buffer>),
) -> u64 {
    look_at_types(call, target, sent.or(received));
    let memory = |receives| move |buffer: &Buffer| Memory::of(buffer.clone(), receives);
    let mut access = Access {
        made: NamedCallSite::here(call),
        kind,
        target: target.rank,
        spans: spans(window, target),
        sum: None,
        within: epochs::within(window, target.rank),
        local: Vec::new(),
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        request: None,
    };
    let number = access.number;
    access.local.extend(sent.map(memory(false)));
    access.local.extend(received.map(memory(true)));
    if kind == AccessKind::Put && access.spans.len() == 1 {
        access.sum = access.local.first().and_then(Memory::sum);
    }
    let mut windows = all();
    let open = windows.entry(window.comm().context()).or_default();
    let found: Vec<String> = open
        .iter()
        .filter_map(|other| conflict(&access, other))
        .collect();
    if open.len() < MOST {
        open.push(access);
    }
    drop(windows);
    for text in found {
        findings::tell(&text);
    }
    number
}

/// Both sides of an access must be of the same elements (MPI 5.0, section 12.3).
fn look_at_types(call: &'static str, target: &TargetBuffer<'_>, own: Option<&Buffer>) {
    let (Some(own), there) = (own.map(Buffer::code), target.datatype.code(target.count)) else {
        return;
    };
    if !own.fits(there) {
        findings::tell(&format!(
            "{} has {} at this rank and {} at rank {} of the window; the datatypes of both sides must consist of the same basic elements in the same order",
            NamedCallSite::here(call).describe(),
            own.name(),
            there.name(),
            target.rank,
        ));
    }
}

/// The conflict of an access with an earlier one of the same origin.
fn conflict(one: &Access, before: &Access) -> Option<String> {
    let both = (one.target == before.target).then(|| common(&one.spans, &before.spans));
    // Accumulating accesses of one origin are done in order.
    let ordered = matches!(
        (one.kind, before.kind),
        (AccessKind::Accumulate(_), AccessKind::Accumulate(_))
    );
    if let Some(Some(bytes)) = both
        && one.kind.conflicts(before.kind)
        && !ordered
    {
        return Some(format!(
            "{} accesses {} of the memory of rank {} of the window, as {} does in the same epoch, and one of them writes: which comes first is chance; put MPI_Win_flush, or the end of the epoch, between them",
            one.made.describe(),
            bytes_of(&bytes),
            one.target,
            before.made.describe(),
        ));
    }
    let mut pairs = one
        .local
        .iter()
        .flat_map(|mine| before.local.iter().map(move |theirs| (mine, theirs)));
    let (mine, theirs) = pairs
        .find(|(mine, theirs)| mine.common(theirs) > 0 && (mine.receives || theirs.receives))?;
    Some(format!(
        "{} {} {} bytes of this rank's memory that {} {}, too, in the same epoch; end the epoch first, or use another buffer",
        one.made.describe(),
        mine.what(),
        mine.common(theirs),
        before.made.describe(),
        theirs.what(),
    ))
}

/// In words: "bytes 0 to 7".
pub fn bytes_of(span: &Range<i64>) -> String {
    format!("bytes {} to {}", span.start, span.end - 1)
}

/// Runs `complete`, which ends accesses here and at their targets; if everything is checked, they are kept.
#[inline]
pub fn completed<T>(
    call: &'static str,
    window: &Window,
    which: Ended,
    complete: impl FnOnce() -> T,
) -> T {
    if !super::is_full() {
        return complete();
    }
    let over = end(call, window, which);
    let answer = complete();
    epochs::keep(window.comm().context(), over);
    answer
}

/// A call is about to end accesses for this origin, if everything is checked.
#[inline]
pub fn ended(call: &'static str, window: &Window, which: Ended) {
    if super::is_full() {
        drop(end(call, window, which));
    }
}

/// Ends accesses; returns those that have ended with the program's buffers unchanged.
#[cold]
pub fn end(call: &'static str, window: &Window, which: Ended) -> Vec<Access> {
    let mut windows = all();
    let Some(open) = windows.get_mut(&window.comm().context()) else {
        return Vec::new();
    };
    let is_over = |access: &Access| match which {
        Ended::All | Ended::Locally(None) => true,
        Ended::To(target) | Ended::Locally(Some(target)) => access.target == target,
    };
    let mut found = Vec::new();
    for access in open.iter_mut().filter(|access| is_over(access)) {
        found.extend(access.free(call));
    }
    let over = match which {
        Ended::Locally(_) => Vec::new(),
        _ => {
            let (over, left) = std::mem::take(open).into_iter().partition(is_over);
            *open = left;
            over
        }
    };
    drop(windows);
    for text in found {
        findings::tell(&text);
    }
    over
}

/// A window is freed.
pub fn forget(window: &Window) {
    if super::is_full() {
        all().remove(&window.comm().context());
        super::fences::forget(window);
        epochs::forget(window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_bytes_in_common_or_not() {
        let comb: Vec<Range<i64>> = (0..10).map(|tooth| tooth * 8..tooth * 8 + 4).collect();
        let gaps: Vec<Range<i64>> = (0..10).map(|tooth| tooth * 8 + 4..tooth * 8 + 8).collect();
        assert_eq!(common(&comb, &gaps), None);
        let one = |span: Range<i64>| vec![span];
        assert_eq!(common(&comb, &one(30..34)), Some(32..34));
        assert_eq!(common(&one(30..33), &comb), Some(32..33));
        assert_eq!(common(&comb, &comb), Some(0..4));
        assert_eq!(common(&comb, &[]), None);
    }
}
