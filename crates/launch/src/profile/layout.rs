//! Layout of a rank's profile memory: a sealed memory file that the launcher makes and the rank fills, in words of 64 bits.
//!
//! ```text
//!   head | texts | thread area 0 | thread area 1 | …
//!                   │ head, sites, waits for whom, calls by number, arrivals at collectives, ring of events
//! ```
//!
//! Only the rank writes, each thread in an area of its own. The launcher reads when the rank has ended, however it did.
//! It trusts no number in it: all are bounded by this page.

/// First word of the head.
pub const MAGIC: u64 = 0x0001_656c_6966_6f72;
/// Bytes of the head and the texts.
pub const START: usize = 64 << 10;
/// Bytes of a page, where there are profiles.
const PAGE: usize = 4096;
/// Offset of the texts.
pub const TEXTS: usize = 1024;
/// Most threads of a rank that are recorded.
pub const MOST_THREADS: usize = 64;

/// Words of the head.
pub mod head {
    /// [`MAGIC`](super::MAGIC), once the rest is there.
    pub const MAGIC: usize = 0;
    /// Number of areas in use.
    pub const THREADS: usize = 3;
    /// Bytes of texts that are used.
    pub const TEXTS: usize = 4;
    /// Threads that got no area.
    pub const THREADS_LEFT_OUT: usize = 5;
    /// 1 once the rank has named its call sites.
    pub const NAMED: usize = 6;
    /// Ticks at which frequent calls were last left out; 0 while all are recorded.
    pub const GAP_BEGUN: usize = 7;
    /// Calls that were left out of threads without an area.
    pub const LIGHT_LEFT_OUT: usize = 8;
}

/// Words of a thread area's head.
pub mod area {
    /// The id of the thread.
    pub const THREAD: usize = 0;
    /// Calls at sites for which there was no room.
    pub const CALLS_LEFT_OUT: usize = 1;
    /// Waits that no row was left for.
    pub const WAITS_LEFT_OUT: usize = 2;
    /// Events written in all: the last [`EVENTS`](super::EVENTS) of them are kept.
    pub const EVENTS: usize = 3;
    /// Number of arrivals.
    pub const ARRIVALS: usize = 4;
    /// Arrivals are kept of every 2^n-th collective of a communicator.
    pub const ARRIVALS_SHIFT: usize = 5;
    /// Words of this head.
    pub const WORDS: usize = 32;
}

/// Words of a call site.
pub mod site {
    /// Return address of the call and the call's number; 0: free.
    pub const KEY: usize = 0;
    /// The name of the call.
    pub const CALL: usize = 1;
    /// The place as object and offset.
    pub const OBJECT: usize = 2;
    /// The place as file and line.
    pub const PLACE: usize = 3;
    /// Calls.
    pub const COUNT: usize = 4;
    /// Bytes of data of all of them.
    pub const BYTES: usize = 5;
    /// Calls that were timed.
    pub const TIMED: usize = 6;
    /// Ticks of these, with what they waited.
    pub const TICKS: usize = 7;
    /// Ticks that these waited.
    pub const WAITED: usize = 8;
    /// Ticks that the others waited.
    pub const WAITED_UNTIMED: usize = 9;
    /// Ticks of the longest call that was timed.
    pub const LONGEST: usize = 10;
    /// Calls until the next one that is timed.
    pub const SKIP: usize = 11;
    /// Return address of the call.
    pub const ADDRESS: usize = 12;
    /// The number of the call.
    pub const NUMBER: usize = 13;
    /// Ticks of long sleeps of calls that were recorded: part of what they waited.
    pub const SLEPT: usize = 14;
    /// Ticks of long sleeps of calls that were left out.
    pub const SLEPT_LEFT_OUT: usize = 15;
    /// The values of [`COUNT`], [`BYTES`], [`TIMED`], [`TICKS`], waits and sleeps when the last slice began: five words.
    pub const BEFORE: usize = 16;
    /// Estimates for the calls that were left out up to the last slice: eight words, see
    /// [`Estimate`](super::super::estimate::Estimate).
    pub const ESTIMATE: usize = 21;
    /// Words of a site.
    pub const WORDS: usize = 32;
}

/// Call sites of a thread, a power of two.
pub const SITES: usize = 256;
/// Rows of ranks that a thread has waited for, a power of two.
pub const WAITS: usize = 1024;
/// Words of such a row: key; ticks and times of waits, without long sleeps where those of calls that are left out are estimated by
/// them; ticks and times of what is complete: long sleeps.
pub const WAIT_WORDS: usize = 5;
/// Rows of calls by their number.
pub const CALL_ROWS: usize = 1024;

/// Words of such a row.
pub mod call {
    /// Calls that were left out. Counted by the code that leaves them out: the first word.
    pub const LEFT_OUT: usize = 0;
    /// … when the last slice began.
    pub const LEFT_OUT_BEFORE: usize = 1;
    /// The number of the last slice.
    pub const SLICE: usize = 2;
    /// Calls that were recorded in it.
    pub const RECORDED: usize = 3;
    /// Words of a row.
    pub const WORDS: usize = 4;
}
/// Arrivals at collectives: context and number, ticks at the beginning, ticks that it took, site.
pub const ARRIVALS: usize = 4096;
/// Words of an arrival.
pub const ARRIVAL_WORDS: usize = 4;
/// Events of a thread, a power of two; the oldest give way.
pub const EVENTS: usize = 1 << 17;
/// Words of an event.
pub const EVENT_WORDS: usize = 7;

/// Word at which the sites of an area begin.
pub const SITES_AT: usize = area::WORDS;
/// … the waits.
pub const WAITS_AT: usize = SITES_AT + SITES * site::WORDS;
/// … the calls by number, on pages of their own: see [`CALL_ROWS_OF_FIRST`].
pub const CALLS_AT: usize = (WAITS_AT + WAITS * WAIT_WORDS).next_multiple_of(PAGE / 8);
/// Where the rows of calls of the first area begin, in bytes from the beginning of the memory. They are whole pages, so that a rank may have them where its
/// code knows them by name.
pub const CALL_ROWS_OF_FIRST: usize = START + CALLS_AT * 8;
const _: () = assert!(CALL_ROWS_OF_FIRST.is_multiple_of(PAGE));
const _: () = assert!((CALL_ROWS * call::WORDS * 8).is_multiple_of(PAGE));
/// … the arrivals.
pub const ARRIVALS_AT: usize = CALLS_AT + CALL_ROWS * call::WORDS;
/// … the events.
pub const EVENTS_AT: usize = ARRIVALS_AT + ARRIVALS * ARRIVAL_WORDS;

/// Bytes of a thread area, whole pages.
#[must_use]
pub const fn area_bytes(timeline: bool) -> usize {
    let words = EVENTS_AT + if timeline { EVENTS * EVENT_WORDS } else { 0 };
    (words * 8).next_multiple_of(PAGE)
}

/// Bytes of the whole.
#[must_use]
pub const fn bytes(timeline: bool) -> usize {
    START + MOST_THREADS * area_bytes(timeline)
}

/// Why a call has waited.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Cause {
    /// A message was not sent yet.
    LateSender = 0,
    /// A message was not received yet.
    LateReceiver = 1,
    /// Both sides were there: the data moved.
    Transfer = 2,
    /// Members of a collective had not come, or its data moved.
    Collective = 3,
    /// Something at a window.
    Window = 4,
    /// Anything else.
    Other = 5,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::LateSender,
        Self::LateReceiver,
        Self::Transfer,
        Self::Collective,
        Self::Window,
        Self::Other,
    ];

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LateSender => "late sender",
            Self::LateReceiver => "late receiver",
            Self::Transfer => "transfer",
            Self::Collective => "collective",
            Self::Window => "window",
            Self::Other => "other",
        }
    }

    /// From a word; any other value counts as [`Self::Other`].
    #[must_use]
    pub fn of(number: u64) -> Self {
        let found = Self::ALL.get(usize::try_from(number).unwrap_or(usize::MAX));
        found.copied().unwrap_or(Self::Other)
    }
}

/// The number for a peer that is not known.
pub const NOBODY: u32 = u32::MAX;

/// The mark of the message with this number, from 0, among those that a rank has marked: a word that is no word of a transfer.
///
/// ```text
///  bits 62 and 63   0..62
///  both 1           number
/// ```
#[must_use]
pub const fn mark(number: u64) -> u64 {
    // The names of grants have both only after 2^30 of one place.
    (0b11 << 62) | number
}

/// The key of a row of waits.
#[must_use]
pub const fn wait_key(site: usize, cause: Cause, peer: u32) -> u64 {
    (site as u64 + 1) << 40 | (cause as u64) << 32 | peer as u64
}

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum EventKind {
    /// A call, from its begin to its end.
    Call = 1,
    /// A message was sent; it began at the first time.
    Sent = 2,
    /// A message was received: the receive began at the first time, and has ended at the second.
    Received = 3,
    /// A call waited: polled, or slept.
    Waited = 4,
    /// A thread slept.
    Slept = 5,
    /// Frequent calls were left out.
    Gap = 6,
    /// A message that was held back has left, with another word in place of its mark.
    Named = 7,
}

impl EventKind {
    /// From a word.
    #[must_use]
    pub fn of(number: u64) -> Option<Self> {
        [
            Self::Call,
            Self::Sent,
            Self::Received,
            Self::Waited,
            Self::Slept,
            Self::Gap,
            Self::Named,
        ]
        .into_iter()
        .find(|kind| *kind as u64 == number)
    }
}
