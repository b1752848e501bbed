//! Requests under way, by `mpiexec --check`: where they were made, and what the program does with their
//! buffers before they end.
//!
//! ```text
//!   MPI_Isend ──► begun: sum of the bytes ─────────────────────► MPI_Wait ──► ended: the same sum?
//!   MPI_Irecv ──► begun: does anybody else use this memory? ──► …
//!   MPI_Send_init ──► begun, MPI_Start ──► started, as above
//! ```
//!
//! The kernel reads the memory of a send, and reports if it is unmapped. Buffers with gaps are summed, but not compared with
//! others: elements of two such buffers may interleave. Receive buffers are not filled with a pattern when they are posted: the
//! bytes beyond the received message must not change.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use weft_mpi::left_over::Standing;
use weft_mpi::{Buffer, RequestId};

use super::{accesses, buffer, committed, count, findings};
use crate::c;
use crate::generated::constants as k;
use crate::handle::creation::NamedCallSite;
use crate::handle::request::{Named, unpack};
use crate::state;

/// A buffer of a call, as the program gave it.
#[derive(Clone, Copy, Debug)]
pub struct BufferUse {
    address: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    receives: bool,
}

impl BufferUse {
    /// A buffer that is sent.
    pub const fn sends(address: *const c_void, count: i64, datatype: c::Datatype) -> Self {
        Self {
            address: address.cast_mut(),
            count,
            datatype,
            receives: false,
        }
    }

    /// A buffer that is received into.
    pub const fn receives(address: *mut c_void, count: i64, datatype: c::Datatype) -> Self {
        Self {
            address,
            count,
            datatype,
            receives: true,
        }
    }

    /// The memory; `None` if the arguments are wrong, as the call has reported.
    ///
    /// # Safety
    /// As for [`buffer`].
    unsafe fn memory(self) -> Option<Memory> {
        let datatype = committed(self.datatype, "datatype").ok()?;
        let count = count(self.count, "count").ok()?;
        // SAFETY: as the caller promises.
        let buffer = unsafe { buffer(self.address, count, datatype, "buf") }.ok()?;
        Some(Memory {
            receives: self.receives,
            buffer,
            sum: None,
        })
    }
}

/// The memory of a request.
#[derive(Debug)]
pub struct Memory {
    pub receives: bool,
    buffer: Buffer,
    /// Checksum of the sent data at the beginning.
    sum: Option<u64>,
}

impl Memory {
    /// The memory of an operation that begins.
    pub fn of(buffer: Buffer, receives: bool) -> Self {
        let mut memory = Self {
            receives,
            buffer,
            sum: None,
        };
        if !receives {
            memory.sum = memory.sum_now();
        }
        memory
    }

    /// Checksum of the sent data at the beginning.
    pub fn sum(&self) -> Option<u64> {
        self.sum
    }

    /// Whether the sent data have changed.
    pub fn is_changed(&self) -> bool {
        self.sum.is_some() && self.sum != self.sum_now()
    }

    /// The addresses of memory without gaps.
    fn span(&self) -> Option<Range<usize>> {
        match &self.buffer {
            Buffer::Flat(region, _) => {
                let first = region.as_ptr().addr();
                Some(first..first + region.len())
            }
            Buffer::Typed(_) => None,
        }
    }

    /// How many bytes it has in common with another one.
    pub fn common(&self, other: &Self) -> usize {
        match (self.span(), other.span()) {
            (Some(one), Some(other)) => one
                .end
                .min(other.end)
                .saturating_sub(one.start.max(other.start)),
            _ => 0,
        }
    }

    /// A sum over the bytes; `None` if the memory cannot be read.
    fn sum_now(&self) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        match &self.buffer {
            Buffer::Flat(region, _) => {
                let bytes = weft_sys::attach::read_own(region.as_ptr().addr(), region.len())?;
                hasher.write(&bytes);
            }
            Buffer::Typed(typed) => hasher.write(&typed.packed().ok()?),
        }
        Some(hasher.finish())
    }

    /// "sends from".
    pub fn what(&self) -> &'static str {
        if self.receives {
            "receives into"
        } else {
            "sends from"
        }
    }
}

/// A request of which the program has a handle.
#[derive(Debug)]
struct UnderWay {
    made: NamedCallSite,
    memory: Vec<Memory>,
    is_active: bool,
}

static ALL: LazyLock<Mutex<HashMap<RequestId, UnderWay>>> = LazyLock::new(Mutex::default);

fn all() -> MutexGuard<'static, HashMap<RequestId, UnderWay>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a request was made, if that is known.
pub fn made(id: RequestId) -> Option<String> {
    let made = all().get(&id).map(|one| one.made);
    made.map(|made| made.describe())
}

/// A call uses memory that requests under way use in another way. Returns the findings, to be reported
/// without the lock.
fn conflicts(
    all: &HashMap<RequestId, UnderWay>,
    made: &NamedCallSite,
    memory: &[Memory],
) -> Vec<String> {
    let mut found = Vec::new();
    for other in all.values().filter(|other| other.is_active) {
        for (one, theirs) in memory
            .iter()
            .flat_map(|one| other.memory.iter().map(move |theirs| (one, theirs)))
        {
            let bytes = one.common(theirs);
            if bytes > 0 && (one.receives || theirs.receives) {
                found.push(format!(
                    "{} {} {bytes} bytes that {} {}, too, and has not ended; wait for it first, or use another buffer",
                    made.describe(),
                    one.what(),
                    other.made.describe(),
                    theirs.what(),
                ));
            }
        }
    }
    found
}

fn tell_all(found: Vec<String>) {
    for text in found {
        findings::tell(&text);
    }
}

/// A blocking call is about to use these buffers.
///
/// # Safety
/// As for [`buffer`], until the call has ended.
#[cold]
pub unsafe fn used(call: &'static str, buffers: &[BufferUse]) {
    // SAFETY: as the caller promises.
    let memory: Vec<Memory> = buffers
        .iter()
        .filter_map(|one| unsafe { one.memory() })
        .collect();
    let requests = all();
    if requests.is_empty() {
        return;
    }
    let found = conflicts(&requests, &NamedCallSite::here(call), &memory);
    drop(requests);
    tell_all(found);
}

/// A call has ended with this code; if it has succeeded, its request is at `request`, and uses these buffers.
///
/// # Safety
/// As for [`buffer`], until the request has ended.
#[cold]
pub unsafe fn begun(
    call: &'static str,
    code: c_int,
    request: *const c::Request,
    buffers: &[BufferUse],
) {
    if code != k::MPI_SUCCESS || request.is_null() {
        return;
    }
    // SAFETY: the call has stored its request at the address.
    let Named::Request(id, persistent) = unpack(unsafe { request.read_unaligned() }) else {
        return;
    };
    let made = NamedCallSite::here(call);
    // SAFETY: as the caller promises.
    let memory = buffers
        .iter()
        .filter_map(|one| unsafe { one.memory() })
        .collect();
    let mut requests = all();
    requests.insert(
        id,
        UnderWay {
            made,
            memory,
            is_active: false,
        },
    );
    if !persistent {
        let found = activate(&mut requests, id, &made);
        drop(requests);
        tell_all(found);
    }
}

/// A request is under way from now on.
fn activate(
    all: &mut HashMap<RequestId, UnderWay>,
    id: RequestId,
    made: &NamedCallSite,
) -> Vec<String> {
    let Some(mut one) = all.remove(&id) else {
        return Vec::new();
    };
    let found = conflicts(all, made, &one.memory);
    for memory in one.memory.iter_mut().filter(|memory| !memory.receives) {
        memory.sum = memory.sum_now();
    }
    one.is_active = true;
    all.insert(id, one);
    found
}

/// A request has ended: returns what is wrong with its buffers.
fn ended(
    all: &mut HashMap<RequestId, UnderWay>,
    id: RequestId,
    persistent: bool,
    call: &'static str,
) -> Vec<String> {
    let Some(one) = all.get_mut(&id).filter(|one| one.is_active) else {
        return Vec::new();
    };
    one.is_active = false;
    let mut found = Vec::new();
    for memory in &one.memory {
        let Some(sum) = memory.sum else { continue };
        let now = memory.sum_now();
        if now != Some(sum) {
            let how = if now.is_none() {
                "given back to the system"
            } else {
                "changed"
            };
            found.push(format!(
                "the buffer of {} was {how} before {} has ended the send; leave it alone until then",
                one.made.describe(),
                NamedCallSite::here(call).describe(),
            ));
        }
    }
    if !persistent {
        all.remove(&id);
    }
    found
}

/// Requests that a call may end or start, as they were before it.
#[derive(Debug)]
pub struct Watched {
    call: &'static str,
    address: *const c::Request,
    before: Vec<c::Request>,
}

impl Watched {
    /// The requests of a call.
    ///
    /// # Safety
    /// `count` handles may be read there, before the call and after it.
    #[cold]
    pub unsafe fn before(call: &'static str, address: *const c::Request, count: c_int) -> Self {
        let count = if address.is_null() {
            0
        } else {
            usize::try_from(count).unwrap_or(0)
        };
        // SAFETY: as the caller promises.
        let before = (0..count).map(|place| unsafe { address.add(place).read_unaligned() });
        Self {
            call,
            address,
            before: before.collect(),
        }
    }

    /// Checks them after the call.
    #[cold]
    pub fn after(self, code: c_int) {
        let Some(runtime) = state::runtime() else {
            return;
        };
        let mut found = Vec::new();
        let mut requests = all();
        for (place, handle) in self.before.iter().enumerate() {
            let Named::Request(id, persistent) = unpack(*handle) else {
                continue;
            };
            match self.call {
                "MPI_Start" | "MPI_Startall" if code == k::MPI_SUCCESS => {
                    found.extend(activate(&mut requests, id, &NamedCallSite::here(self.call)));
                }
                "MPI_Start" | "MPI_Startall" | "MPI_Cancel" => {}
                "MPI_Request_free" => {
                    if let Some(one) = requests.remove(&id)
                        && one.is_active
                        && one.memory.iter().any(|memory| memory.receives)
                        && code == k::MPI_SUCCESS
                    {
                        found.push(format!(
                            "{} frees the receive of {}, which has not ended: nobody can know when its buffer is filled; wait for it",
                            NamedCallSite::here(self.call).describe(),
                            one.made.describe(),
                        ));
                    }
                }
                _ => {
                    // SAFETY: as promised to `before`.
                    let now = unsafe { self.address.add(place).read_unaligned() };
                    let over = match persistent {
                        true => runtime.process.standing(id) == Some(Standing::Inactive),
                        false => now == k::MPI_REQUEST_NULL,
                    };
                    if over {
                        found.extend(accesses::request_ended(id, self.call));
                        found.extend(ended(&mut requests, id, persistent, self.call));
                    }
                }
            }
        }
        drop(requests);
        tell_all(found);
    }
}
