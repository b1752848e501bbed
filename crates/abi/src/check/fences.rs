//! Fences and ends of windows, by `mpiexec --check`: each target receives all accesses of the epoch to its memory, and checks which of
//! different origins conflict, and whether the program itself has stored there in the epoch.
//!
//! ```text
//!   exchange of accesses ──► the fence ──► conflicts; are the bytes that were put still there? ──► copy ──► all meet
//! ```
//!
//! In the next fence the copy of the memory shows whether bytes were stored to that others only read. No rank continues
//! before all have checked.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use weft_mpi::error::Result;
use weft_mpi::rma::{Flavor, Window};

use super::accesses::{self, Access, AccessKind, Ended, bytes_of, common};
use super::epochs::{self, Within};
use super::findings;
use crate::handle::creation::NamedCallSite;
use crate::state;

/// Larger windows are not copied.
const LARGEST_COPY: usize = 64 << 20;

/// Most accesses to one target that are compared with each other.
const MOST: usize = 1024;

/// Memory of windows as the last fence left it.
static COPIES: LazyLock<Mutex<HashMap<u32, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// An access to this rank's memory, as reported by its origin.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    origin: u32,
    kind: AccessKind,
    spans: Vec<Range<i64>>,
    sum: Option<u64>,
    within: Within,
    /// The call and its place.
    made: String,
}

impl Told {
    fn encode(access: &Access, made: &str, into: &mut Vec<u8>) {
        let (kind, op) = match access.kind {
            AccessKind::Get => (0, 0),
            AccessKind::Put => (1, 0),
            AccessKind::Accumulate(op) => (2, op),
        };
        let made = &made.as_bytes()[..made.len().min(usize::from(u16::MAX))];
        into.extend([kind, op, u8::from(access.sum.is_some())]);
        into.extend(access.sum.unwrap_or(0).to_le_bytes());
        let (kind, [host, begin, end]) = match access.within {
            Within::Fences => (0_u8, [0; 3]),
            Within::Alone => (1, [0; 3]),
            Within::Shared { host, begin, end } => (2, [host, begin, end]),
            Within::Exposure(number) => (3, [number, 0, 0]),
        };
        into.push(kind);
        for number in [host, begin, end] {
            into.extend(number.to_le_bytes());
        }
        into.extend((made.len() as u16).to_le_bytes());
        into.extend((access.spans.len() as u16).to_le_bytes());
        into.extend(made);
        for span in &access.spans {
            into.extend(span.start.to_le_bytes());
            into.extend(span.end.to_le_bytes());
        }
    }

    /// Takes one off the front; `None` at the end, and if it is malformed.
    fn decode(origin: u32, bytes: &mut &[u8]) -> Option<Self> {
        let [kind, op, has_sum] = take(bytes)?;
        let sum = u64::from_le_bytes(take(bytes)?);
        let [within] = take(bytes)?;
        let mut number = || Some(u64::from_le_bytes(take(bytes)?));
        let (host, begin, end) = (number()?, number()?, number()?);
        let within = match within {
            0 => Within::Fences,
            1 => Within::Alone,
            2 => Within::Shared { host, begin, end },
            _ => Within::Exposure(host),
        };
        let length = usize::from(u16::from_le_bytes(take(bytes)?));
        let count = u16::from_le_bytes(take(bytes)?);
        let made = String::from_utf8_lossy(bytes.split_off(..length)?).into_owned();
        let span = |_| {
            let start = i64::from_le_bytes(take(bytes)?);
            Some(start..i64::from_le_bytes(take(bytes)?))
        };
        Some(Self {
            origin,
            kind: match kind {
                0 => AccessKind::Get,
                1 => AccessKind::Put,
                _ => AccessKind::Accumulate(op),
            },
            sum: (has_sum != 0).then_some(sum),
            within,
            spans: (0..count).map(span).collect::<Option<_>>()?,
            made,
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    bytes.split_off(..N)?.try_into().ok()
}

/// Fences, with all checks if requested.
#[inline]
pub fn fence(window: &Window, fence: impl FnOnce() -> Result<()>) -> Result<()> {
    if super::is_full() && is_of_this_world(window) {
        watched(window, fence)
    } else {
        fence()
    }
}

/// Whether all members were started together, and are checked alike.
fn is_of_this_world(window: &Window) -> bool {
    let world = state::world();
    world.is_some_and(|world| {
        let mut members = window.group().members();
        members.all(|member| world.group().rank_of(member).is_some())
    })
}

#[cold]
fn watched(window: &Window, fence: impl FnOnce() -> Result<()>) -> Result<()> {
    const CALL: &str = "MPI_Win_fence";
    let mut over = accesses::end(CALL, window, Ended::All);
    over.append(&mut epochs::take(window));
    let told = window.exchange(tell(window, &over))?;
    fence()?;
    let all = heard(window, &told);
    let conflicting = look_at_conflicts(&all);
    look_at_memory(window, &all, &conflicting);
    keep_copy(window);
    window.meet()
}

/// A window is about to be freed: checks all accesses since the last fence. Collective.
pub fn at_end(window: &Window) {
    if super::is_full() && is_of_this_world(window) {
        let told = window.exchange(tell(window, &epochs::take(window)));
        // The next call reports a lost rank.
        let told = told.unwrap_or_default();
        look_at_conflicts(&heard(window, &told));
    }
}

/// The reports of all origins about their accesses to this rank's memory.
fn heard(window: &Window, told: &[Vec<u8>]) -> Vec<Told> {
    let mut all = Vec::new();
    for (origin, mut bytes) in (0..).zip(told.iter().map(Vec::as_slice)) {
        while let Some(mut told) = Told::decode(origin, &mut bytes) {
            if let Some(within) = epochs::at_target(window, origin, told.within) {
                told.within = within;
                all.push(told);
            }
        }
    }
    all
}

/// The report for each target.
fn tell(window: &Window, over: &[Access]) -> Vec<Vec<u8>> {
    let mut out = vec![Vec::new(); window.size() as usize];
    // Naming a place reads debug information.
    let mut named: HashMap<NamedCallSite, String> = HashMap::new();
    for access in over {
        let made = named
            .entry(access.made)
            .or_insert_with(|| access.made.describe());
        if let Some(out) = out.get_mut(access.target as usize) {
            Told::encode(access, made, out);
        }
    }
    out
}

/// Finds the accesses that have bytes in common with a conflicting one of another origin.
fn look_at_conflicts(all: &[Told]) -> Vec<bool> {
    let mut conflicting = vec![false; all.len()];
    for (place, one) in all.iter().enumerate().take(MOST) {
        for (other_place, other) in all.iter().enumerate().take(place) {
            if other.origin == one.origin
                || !one.kind.conflicts(other.kind)
                || !one.within.meets(other.within)
            {
                continue;
            }
            let Some(bytes) = common(&one.spans, &other.spans) else {
                continue;
            };
            (conflicting[place], conflicting[other_place]) = (true, true);
            let (when, remedy) = one.within.told();
            findings::tell(&format!(
                "{} by rank {} of the window and {} by rank {} access {} of this rank's memory {when}, and one of them writes: which comes first is chance; {remedy}, or use MPI_Accumulate with the same operation",
                other.made,
                other.origin,
                one.made,
                one.origin,
                bytes_of(&bytes),
            ));
        }
    }
    conflicting
}

/// Whether the program has stored to bytes that others have accessed.
fn look_at_memory(window: &Window, all: &[Told], conflicting: &[bool]) {
    let copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let copy = copies.get(&window.comm().context());
    let mut found = Vec::new();
    for (place, told) in all.iter().enumerate().take(MOST) {
        let written_by_another = |span: &Range<i64>| {
            let span = std::slice::from_ref(span);
            let mut others = all.iter().enumerate().filter(|(other, _)| *other != place);
            others.any(|(_, other)| other.kind.writes() && common(&other.spans, span).is_some())
        };
        let verb = match (told.kind, told.sum) {
            (AccessKind::Put, Some(_)) => "writes",
            (AccessKind::Get, _) => "reads",
            _ => continue,
        };
        if told.within != Within::Fences
            || conflicting[place]
            || told.spans.iter().any(written_by_another)
        {
            continue;
        }
        let is_stored_to = |span: &&Range<i64>| {
            let now = read(window, span)?;
            let differs = match told.sum {
                Some(sum) => sum_of(&now) != sum,
                None => {
                    let before = copy?.get(span.start as usize..span.end as usize)?;
                    before != now
                }
            };
            Some(differs)
        };
        if let Some(span) = told
            .spans
            .iter()
            .find(|span| is_stored_to(span) == Some(true))
        {
            found.push(format!(
                "the program has stored to {} of its window's memory in the epoch that {} ends, in which {} by rank {} of the window {verb} them: what is there is chance; store after the fence",
                bytes_of(span),
                NamedCallSite::here("MPI_Win_fence").describe(),
                told.made,
                told.origin,
            ));
        }
    }
    drop(copies);
    for text in found {
        findings::tell(&text);
    }
}

/// Bytes of this rank's memory.
fn read(window: &Window, span: &Range<i64>) -> Option<Vec<u8>> {
    let memory = window.memory();
    let (first, end) = (
        usize::try_from(span.start).ok()?,
        usize::try_from(span.end).ok()?,
    );
    if window.flavor() == Flavor::Dynamic || first >= end || end > memory.len() {
        return None;
    }
    weft_sys::attach::read_own(memory.as_ptr().addr() + first, end - first)
}

/// A checksum, computed as for the data of a put.
fn sum_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn keep_copy(window: &Window) {
    let length = window.memory().len();
    let copy = (length <= LARGEST_COPY).then(|| read(window, &(0..length as i64)));
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let context = window.comm().context();
    match copy.flatten() {
        Some(copy) => _ = copies.insert(context, copy),
        None => _ = copies.remove(&context),
    }
}

/// A window is freed.
pub fn forget(window: &Window) {
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    copies.remove(&window.comm().context());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_is_heard() {
        let mut bytes = Vec::new();
        let made = NamedCallSite {
            call: "MPI_Put",
            place: None,
        };
        let spans = vec![-8..4, 16..80];
        for kind in [AccessKind::Get, AccessKind::Put, AccessKind::Accumulate(3)] {
            let access = Access::for_tests(made, kind, spans.clone());
            Told::encode(&access, "MPI_Put at a.c:3", &mut bytes);
        }
        let mut rest = &bytes[..];
        for kind in [AccessKind::Get, AccessKind::Put, AccessKind::Accumulate(3)] {
            let told = Told::decode(2, &mut rest).expect("one");
            assert_eq!((told.kind, told.origin, &told.spans), (kind, 2, &spans));
            assert_eq!(told.made, "MPI_Put at a.c:3");
        }
        assert_eq!(Told::decode(0, &mut rest), None);
        for length in 0..bytes.len() / 3 {
            assert_eq!(Told::decode(0, &mut &bytes[..length]), None, "{length}");
        }
    }
}
