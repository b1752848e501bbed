//! Objects that the program has made and not freed, with the calls and places that made them.
//!
//! Entry points of calls that make an object [note] it; those that free it [forget] it. The objects here when the
//! process finalises are [left over](crate::check::left_over).
//!
//! Probing may be as frequent as receiving: unless everything is checked, nothing is noted of a matched message. The table of
//! messages has those that are not received, and each knows the call that has found it.

use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use weft_sys::call_site::CallSite;

use super::{HandleMap, Object, ObjectKind, kind_of};
use crate::generated::constants::MPI_SUCCESS;
use crate::state::MessageObject;
use crate::{check, handle};

/// Key values are numbered apart from handles.
const KEY_VALUE: usize = 1 << 31;

/// The call that made an object or an access: its name and its place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NamedCallSite {
    /// The function that made it.
    pub call: &'static str,
    /// The place of the call, if known.
    pub place: Option<CallSite>,
}

impl NamedCallSite {
    /// Made by this function, at the present place of the program.
    pub fn here(call: &'static str) -> Self {
        // Objects made by a Python extension are reported only in the mode that reports libraries.
        let place = match check::is_full() {
            true => CallSite::of_caller(),
            false => CallSite::of_return(),
        };
        Self { call, place }
    }

    /// Whether it was made by the code of the program itself, not by a library.
    pub fn is_the_programs(&self) -> bool {
        self.place.is_some_and(|place| place.is_in_program())
    }

    /// "MPI_Comm_dup at heat.c:17 (setup)".
    pub fn describe(&self) -> String {
        match self.place {
            Some(place) => format!("{} at {place}", self.call),
            None => self.call.to_owned(),
        }
    }
}

/// A kind of thing that a program makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreatedKind {
    /// An object with a handle of this kind.
    Object(ObjectKind),
    /// A key value.
    KeyValue,
}

static ALL: LazyLock<Mutex<HandleMap<usize, NamedCallSite>>> = LazyLock::new(Mutex::default);

fn all() -> MutexGuard<'static, HandleMap<usize, NamedCallSite>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call has ended with this code; if it has succeeded, its result at `address` is the handle of an object.
///
/// # Safety
/// If the code is `MPI_SUCCESS`, the address may be read as a handle.
#[inline(never)]
pub unsafe fn note(call: &'static str, code: c_int, address: *const usize) {
    if code != MPI_SUCCESS || !check::mode().is_on() || address.is_null() {
        return;
    }
    // SAFETY: as the caller promises.
    let handle = unsafe { address.read_unaligned() };
    // Predefined objects do not belong to the program.
    if kind_of(handle).is_some_and(is_noted) {
        all().insert(handle, NamedCallSite::here(call));
    }
}

/// Whether objects of this kind are noted.
#[inline]
fn is_noted(kind: ObjectKind) -> bool {
    kind != ObjectKind::Message || check::is_full()
}

/// The object is freed, or marked to be freed.
#[inline]
pub fn forget(handle: usize) {
    if kind_of(handle).is_none_or(is_noted) {
        all().remove(&handle);
    }
}

/// A key value was made.
pub fn note_key(call: &'static str, key: c_int) {
    if check::mode().is_on() {
        all().insert(KEY_VALUE | key as usize, NamedCallSite::here(call));
    }
}

/// A key value was freed.
pub fn forget_key(key: c_int) {
    all().remove(&(KEY_VALUE | key as usize));
}

/// The objects that were made and not freed.
pub fn list() -> Vec<(CreatedKind, NamedCallSite)> {
    let messages = match is_noted(ObjectKind::Message) {
        true => Vec::new(),
        false => MessageObject::table().names(),
    };
    let messages = messages.into_iter().filter_map(|handle| {
        let call = handle::find::<MessageObject>(handle)?.call();
        let thing = CreatedKind::Object(ObjectKind::Message);
        Some((thing, NamedCallSite { call, place: None }))
    });
    let all = all();
    let things = all.iter().filter_map(|(handle, made)| {
        let thing = match handle & KEY_VALUE {
            0 => CreatedKind::Object(kind_of(*handle)?),
            _ => CreatedKind::KeyValue,
        };
        Some((thing, *made))
    });
    things.chain(messages).collect()
}

#[cfg(test)]
mod tests {
    use weft_atomic::table::KIND_SHIFT;

    use super::*;

    #[test]
    fn what_is_freed_or_predefined_is_not_listed() {
        let count = |call| list().iter().filter(|(_, made)| made.call == call).count();
        let [handle, failed] =
            [7, 8].map(|index| (ObjectKind::Info as usize) << KIND_SHIFT | index);
        for (code, handle) in [
            (MPI_SUCCESS, handle),
            (1, failed),
            (MPI_SUCCESS, crate::generated::constants::MPI_INFO_NULL.0),
        ] {
            // SAFETY: a variable.
            unsafe { note("here", code, &raw const handle) };
        }
        assert_eq!(count("here"), 1);
        forget(handle);
        assert_eq!(count("here"), 0);
        note_key("key", 0x1000);
        assert_eq!(count("key"), 1);
        forget_key(0x1000);
        assert_eq!(count("key"), 0);
    }
}
