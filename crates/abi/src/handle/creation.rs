//! Objects that the program has made and not freed, with the calls and places that made them.
//!
//! Entry points of calls that make an object [note] it; those that free it [forget] it. The objects here when the
//! process finalises are [left over](crate::check::left_over).
//!
//! Probing may be as frequent as receiving: unless everything is checked, nothing is noted of a matched message. The table of
//! messages has those that are not received, and each knows the call that has found it.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_atomic::table::INDEX_MASK;
use weft_sys::call_site::CallSite;

use super::{KINDS, Object, ObjectKind, kind_of};
use crate::generated::constants::MPI_SUCCESS;
use crate::state::MessageObject;
use crate::{check, handle};

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
    #[inline(always)]
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

/// What was made and not freed.
struct Made {
    /// Objects with their handles, by kind and index: these are as dense as the tables of objects.
    objects: [Vec<Option<(usize, NamedCallSite)>>; KINDS.len()],
    keys: BTreeMap<c_int, NamedCallSite>,
}

impl Made {
    #[inline]
    fn insert(&mut self, kind: ObjectKind, handle: usize, made: NamedCallSite) {
        let objects = &mut self.objects[kind as usize - 1];
        let index = handle & INDEX_MASK;
        if index >= objects.len() {
            objects.resize(index + 1, None);
        }
        objects[index] = Some((handle, made));
    }

    #[inline]
    fn remove(&mut self, kind: ObjectKind, handle: usize) {
        let object = self.objects[kind as usize - 1].get_mut(handle & INDEX_MASK);
        if let Some(object) = object
            && object.is_some_and(|(other, _)| other == handle)
        {
            *object = None;
        }
    }
}

static ALL: Mutex<Made> = Mutex::new(Made {
    objects: [const { Vec::new() }; KINDS.len()],
    keys: BTreeMap::new(),
});

#[inline]
fn all() -> MutexGuard<'static, Made> {
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
    if let Some(kind) = kind_of(handle).filter(|kind| is_noted(*kind)) {
        let made = NamedCallSite::here(call);
        all().insert(kind, handle, made);
    }
}

/// Whether objects of this kind are noted: those of MPI.
#[inline]
fn is_noted(kind: ObjectKind) -> bool {
    kind as usize <= KINDS.len() && (kind != ObjectKind::Message || check::is_full())
}

/// The object is freed, or marked to be freed.
#[inline]
pub fn forget(handle: usize) {
    if let Some(kind) = kind_of(handle) {
        forget_of(kind, handle);
    }
}

/// The same of an object of a known kind.
#[inline]
pub fn forget_of(kind: ObjectKind, handle: usize) {
    if !is_noted(kind) {
        return;
    }
    match kind {
        ObjectKind::Message => forget_message(handle),
        other => all().remove(other, handle),
    }
}

/// Apart from the rest, which need not save registers for it.
#[cold]
#[inline(never)]
fn forget_message(handle: usize) {
    all().remove(ObjectKind::Message, handle);
}

/// A key value was made.
pub fn note_key(call: &'static str, key: c_int) {
    if check::mode().is_on() {
        let made = NamedCallSite::here(call);
        all().keys.insert(key, made);
    }
}

/// A key value was freed.
pub fn forget_key(key: c_int) {
    all().keys.remove(&key);
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
    let objects = all.objects.iter().zip(KINDS).flat_map(|(objects, kind)| {
        let thing = CreatedKind::Object(kind);
        let objects = objects.iter().flatten();
        objects.map(move |(_, made)| (thing, *made))
    });
    let keys = all.keys.values();
    let keys = keys.map(|made| (CreatedKind::KeyValue, *made));
    objects.chain(keys).chain(messages).collect()
}

#[cfg(test)]
mod tests {
    use weft_atomic::table::{INDEX_BITS, KIND_SHIFT};

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
        forget(handle + (1 << INDEX_BITS));
        assert_eq!(count("here"), 1, "a later one at the same place");
        forget(handle);
        assert_eq!(count("here"), 0);
        note_key("key", 0x1000);
        assert_eq!(count("key"), 1);
        forget_key(0x1000);
        assert_eq!(count("key"), 0);
    }
}
