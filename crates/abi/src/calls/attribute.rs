//! Attributes and key values (MPI 5.0, section 7.7).
//!
//! An attribute is a word of the program under a key. The key says what happens to it when the object
//! is duplicated or freed: a function of the program, or one of two predefined ones that are known by
//! their numbers and never called. No lock is held while the program's functions run.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weft_mpi::extras::Extras;
use weft_mpi::{Comm, Datatype};

use crate::args::{InOut, Out};
use crate::calls::errhandler;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::creation;
use crate::state::{self, WinObject};
use crate::{c, check};

/// Keys of the program begin here, away from the predefined ones.
const FIRST_KEY: c_int = 0x1000;

/// The object that an attribute belongs to, as callbacks get it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder {
    Comm(c::Comm),
    Datatype(c::Datatype),
    Win(c::Win),
}

/// Kind of object that a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subject {
    Comm,
    Datatype,
    Win,
}

impl Subject {
    /// The call that makes such a key.
    const fn creator(self) -> &'static str {
        match self {
            Self::Comm => "MPI_Comm_create_keyval",
            Self::Datatype => "MPI_Type_create_keyval",
            Self::Win => "MPI_Win_create_keyval",
        }
    }
}

impl Holder {
    const fn subject(self) -> Subject {
        match self {
            Self::Comm(_) => Subject::Comm,
            Self::Datatype(_) => Subject::Datatype,
            Self::Win(_) => Subject::Win,
        }
    }

    const fn word(self) -> usize {
        match self {
            Self::Comm(handle) => handle.0,
            Self::Datatype(handle) => handle.0,
            Self::Win(handle) => handle.0,
        }
    }
}

/// A key value of the program.
///
/// It may be used until it was freed *and* no object carries it any more (MPI 5.0, section 7.7.2): a copy of
/// its number that the program has kept is as valid as the freed variable was.
#[derive(Clone, Copy, Debug)]
struct Key {
    subject: Subject,
    copy: c::Callback,
    delete: c::Callback,
    extra_state: usize,
    freed: bool,
    /// How many objects carry it.
    uses: usize,
}

impl Key {
    fn is_usable(&self) -> bool {
        !self.freed || self.uses > 0
    }
}

/// The keys that may be used, by number. A number is given only once: an old number never names another key.
struct Keys {
    known: BTreeMap<c_int, Key>,
    next: c_int,
}

static KEYS: Mutex<Keys> = Mutex::new(Keys {
    known: BTreeMap::new(),
    next: FIRST_KEY,
});

impl Keys {
    /// Changes a key, and removes it if it may no longer be used.
    fn change(&mut self, number: c_int, change: impl FnOnce(&mut Key)) {
        if let Some(key) = self.known.get_mut(&number) {
            change(key);
            if !key.is_usable() {
                self.known.remove(&number);
            }
        }
    }
}

fn keys() -> MutexGuard<'static, Keys> {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(number: c_int) -> Option<Key> {
    keys().known.get(&number).copied()
}

fn create(
    subject: Subject,
    copy: c::Callback,
    delete: c::Callback,
    mut out: Out<c_int>,
    state: *mut c_void,
) -> Checked<()> {
    let mut keys = keys();
    let number = keys.next;
    let Some(next) = number.checked_add(1) else {
        return Err(Fault::new(
            k::MPI_ERR_OTHER,
            format!("{number} keys were created: there are no more numbers"),
        ));
    };
    keys.next = next;
    let key = Key {
        subject,
        copy,
        delete,
        extra_state: state.expose_provenance(),
        freed: false,
        uses: 0,
    };
    keys.known.insert(number, key);
    out.set(number);
    creation::note_key(subject.creator(), number);
    Ok(())
}

#[cold]
fn bad_key(name: &'static str, key: c_int) -> Fault {
    let found = match key {
        k::MPI_KEYVAL_INVALID => "MPI_KEYVAL_INVALID".to_owned(),
        k::MPI_TAG_UB..=k::MPI_UNIVERSE_SIZE => {
            format!("the predefined key {key}, which cannot be changed")
        }
        other => other.to_string(),
    };
    Fault::argument(
        k::MPI_ERR_KEYVAL,
        name,
        "a key that a call has created for this kind of object",
        found,
        "pass what MPI_Comm_create_keyval or its like has stored, before it is freed",
    )
}

/// A key for a kind of object, that may be used.
fn usable_key(subject: Subject, name: &'static str, key: c_int) -> Checked<Key> {
    key_of(key)
        .filter(|found| found.subject == subject)
        .ok_or_else(|| bad_key(name, key))
}

/// Sets the value under a key.
fn attach(extras: &Extras, number: c_int, value: usize) {
    let before = extras.attributes().set(number, value);
    if before.is_none() {
        keys().change(number, |key| key.uses += 1);
    }
}

/// Removes the value under a key.
fn detach(extras: &Extras, number: c_int) {
    let before = extras.attributes().remove(number);
    if before.is_some() {
        keys().change(number, |key| key.uses = key.uses.saturating_sub(1));
    }
}

fn free(subject: Subject, name: &'static str, mut key: InOut<c_int>) -> Checked<()> {
    usable_key(subject, name, key.get())?;
    keys().change(key.get(), |key| key.freed = true);
    creation::forget_key(key.get());
    key.set(k::MPI_KEYVAL_INVALID);
    Ok(())
}

/// Outcome of a function of the program, from the code that it returned.
fn answer(code: c_int, what: &str) -> Checked<()> {
    if code == k::MPI_SUCCESS {
        return Ok(());
    }
    Err(Fault::new(
        code,
        format!(
            "the program's function to {what} an attribute has returned {code}; it must return MPI_SUCCESS"
        ),
    ))
}

impl Key {
    /// Tells the program that an attribute is deleted.
    fn call_delete(&self, holder: Holder, number: c_int, value: usize) -> Checked<()> {
        if self.delete == k::MPI_COMM_NULL_DELETE_FN {
            return Ok(());
        }
        // SAFETY: the program has passed a function of this type with the key; the types for
        // communicators, datatypes and windows differ in the handle's type alone, a word in each.
        let code = unsafe {
            let function: unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int =
                std::mem::transmute(self.delete.0);
            function(
                holder.word(),
                number,
                pointer(value),
                pointer(self.extra_state),
            )
        };
        answer(code, "delete")
    }

    /// Asks the program for the value of a duplicate; `None` if it shall have none.
    fn call_copy(&self, holder: Holder, number: c_int, value: usize) -> Checked<Option<usize>> {
        if self.copy == k::MPI_COMM_NULL_COPY_FN {
            return Ok(None);
        }
        if self.copy == k::MPI_COMM_DUP_FN {
            return Ok(Some(value));
        }
        let mut copied: *mut c_void = std::ptr::null_mut();
        let mut flag: c_int = 0;
        // SAFETY: as for deleting; the two results are variables of ours.
        let code = unsafe {
            let function: unsafe extern "C" fn(
                usize,
                c_int,
                *mut c_void,
                *mut c_void,
                *mut c_void,
                *mut c_int,
            ) -> c_int = std::mem::transmute(self.copy.0);
            function(
                holder.word(),
                number,
                pointer(self.extra_state),
                pointer(value),
                (&raw mut copied).cast(),
                &raw mut flag,
            )
        };
        answer(code, "copy")?;
        Ok((flag != 0).then(|| copied.expose_provenance()))
    }
}

fn pointer(word: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(word)
}

fn set(
    holder: Holder,
    extras: &Extras,
    name: &'static str,
    number: c_int,
    value: *mut c_void,
) -> Checked<()> {
    let key = usable_key(holder.subject(), name, number)?;
    let old = extras.attributes().get(number);
    if let Some(old) = old {
        key.call_delete(holder, number, old)?;
    }
    attach(extras, number, value.expose_provenance());
    Ok(())
}

fn delete(holder: Holder, extras: &Extras, name: &'static str, number: c_int) -> Checked<()> {
    let key = usable_key(holder.subject(), name, number)?;
    let old = extras.attributes().get(number);
    if let Some(old) = old {
        key.call_delete(holder, number, old)?;
        detach(extras, number);
    }
    Ok(())
}

/// Stores a pointer at an address that is declared `void *` and means `void **`.
unsafe fn store(place: *mut c_void, value: *mut c_void) -> Checked<()> {
    if place.is_null() {
        return Err(Fault::null("attribute_val"));
    }
    // SAFETY: `attribute_val` is the address of a pointer, declared `void *` (MPI 5.0, section 7.7.2,
    // `MPI_Comm_get_attr`); it is not null.
    unsafe { place.cast::<*mut c_void>().write_unaligned(value) };
    Ok(())
}

unsafe fn get(
    subject: Subject,
    extras: &Extras,
    name: &'static str,
    number: c_int,
    place: *mut c_void,
    mut flag: Out<c_int>,
) -> Checked<()> {
    usable_key(subject, name, number)?;
    let found = extras.attributes().get(number);
    flag.flag(found.is_some());
    match found {
        // SAFETY: `attribute_val` is null or the address of a pointer, as `get` was promised (MPI 5.0, section 7.7).
        Some(value) => unsafe { store(place, pointer(value)) },
        None => Ok(()),
    }
}

/// Copies the attributes of a communicator or datatype to its duplicate, which is not published yet.
pub(crate) fn copy_all(holder: Holder, from: &Extras, to: &Extras) -> Checked<()> {
    let all = from.attributes().all();
    for (number, value) in all {
        let Some(key) = key_of(number) else { continue };
        match key.call_copy(holder, number, value) {
            Ok(Some(copied)) => attach(to, number, copied),
            Ok(None) => {}
            Err(fault) => {
                // The duplicate is dropped before it had a handle that a delete function could be told.
                for (number, _) in to.attributes().all() {
                    detach(to, number);
                }
                return Err(fault);
            }
        }
    }
    Ok(())
}

/// Tells the program that all attributes are deleted, the last one set first.
pub(crate) fn delete_all(holder: Holder, extras: &Extras) -> Checked<()> {
    let all = extras.attributes().all();
    for (number, value) in all.into_iter().rev() {
        if let Some(key) = key_of(number) {
            key.call_delete(holder, number, value)?;
        }
        detach(extras, number);
    }
    Ok(())
}

/// Address of the integer of a predefined key; `None` for other keys.
fn predefined(key: c_int) -> Option<*const c_int> {
    static TAG_UB: c_int = check::TAG_MAX;
    static ANY: c_int = k::MPI_ANY_SOURCE;
    static NOBODY: c_int = k::MPI_PROC_NULL;
    static YES: c_int = 1;
    static NO: c_int = 0;
    static APPNUM: OnceLock<c_int> = OnceLock::new();
    static SIZE: OnceLock<c_int> = OnceLock::new();
    let runtime = state::runtime()?;
    Some(match key {
        k::MPI_TAG_UB => &TAG_UB,
        k::MPI_IO => &ANY,
        k::MPI_HOST => &NOBODY,
        // The clock of `MPI_Wtime` is that of the host.
        k::MPI_WTIME_IS_GLOBAL if runtime.launcher.hosts().count() == 1 => &YES,
        k::MPI_WTIME_IS_GLOBAL => &NO,
        k::MPI_APPNUM => APPNUM.get_or_init(|| runtime.launcher.appnum().cast_signed()),
        k::MPI_UNIVERSE_SIZE => SIZE.get_or_init(|| runtime.launcher.universe().cast_signed()),
        k::MPI_LASTUSEDCODE => return Some(errhandler::last_used_code()),
        _ => return None,
    })
}

pub fn comm_create_keyval(
    copy: c::Callback,
    delete: c::Callback,
    comm_keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Checked<()> {
    create(Subject::Comm, copy, delete, comm_keyval, extra_state)
}

pub fn comm_free_keyval(comm_keyval: InOut<c_int>) -> Checked<()> {
    free(Subject::Comm, "comm_keyval", comm_keyval)
}

pub fn comm_set_attr(
    comm: &Arc<Comm>,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
) -> Checked<()> {
    set(
        Holder::Comm(state::handle_of_comm(comm)),
        comm.extras(),
        "comm_keyval",
        comm_keyval,
        attribute_val,
    )
}

pub fn comm_delete_attr(comm: &Arc<Comm>, comm_keyval: c_int) -> Checked<()> {
    delete(
        Holder::Comm(state::handle_of_comm(comm)),
        comm.extras(),
        "comm_keyval",
        comm_keyval,
    )
}

pub unsafe fn comm_get_attr(
    comm: &Arc<Comm>,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    mut flag: Out<c_int>,
) -> Checked<()> {
    if let Some(value) = predefined(comm_keyval) {
        flag.flag(true);
        // SAFETY: `attribute_val` is null or the address of a pointer (MPI 5.0, section 7.7.2, `MPI_Comm_get_attr`).
        return unsafe { store(attribute_val, value.cast_mut().cast()) };
    }
    // SAFETY: `attribute_val` is null or the address of a pointer (MPI 5.0, section 7.7.2, `MPI_Comm_get_attr`).
    unsafe {
        get(
            Subject::Comm,
            comm.extras(),
            "comm_keyval",
            comm_keyval,
            attribute_val,
            flag,
        )
    }
}

pub fn keyval_create(
    copy: c::Callback,
    delete: c::Callback,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Checked<()> {
    create(Subject::Comm, copy, delete, keyval, extra_state)
}

pub fn keyval_free(keyval: InOut<c_int>) -> Checked<()> {
    free(Subject::Comm, "keyval", keyval)
}

pub fn attr_put(comm: &Arc<Comm>, keyval: c_int, attribute_val: *mut c_void) -> Checked<()> {
    set(
        Holder::Comm(state::handle_of_comm(comm)),
        comm.extras(),
        "keyval",
        keyval,
        attribute_val,
    )
}

pub fn attr_delete(comm: &Arc<Comm>, keyval: c_int) -> Checked<()> {
    delete(
        Holder::Comm(state::handle_of_comm(comm)),
        comm.extras(),
        "keyval",
        keyval,
    )
}

pub unsafe fn attr_get(
    comm: &Arc<Comm>,
    keyval: c_int,
    attribute_val: *mut c_void,
    flag: Out<c_int>,
) -> Checked<()> {
    // SAFETY: `attribute_val` is null or the address of a pointer, as for `MPI_Comm_get_attr`, which this call is
    // (MPI 5.0, section 16.1).
    unsafe { comm_get_attr(comm, keyval, attribute_val, flag) }
}

pub fn type_create_keyval(
    copy: c::Callback,
    delete: c::Callback,
    type_keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Checked<()> {
    create(Subject::Datatype, copy, delete, type_keyval, extra_state)
}

pub fn type_free_keyval(type_keyval: InOut<c_int>) -> Checked<()> {
    free(Subject::Datatype, "type_keyval", type_keyval)
}

pub fn type_set_attr(
    datatype: &Arc<Datatype>,
    type_keyval: c_int,
    attribute_val: *mut c_void,
) -> Checked<()> {
    let holder = Holder::Datatype(state::handle_of_datatype(datatype));
    set(
        holder,
        datatype.extras(),
        "type_keyval",
        type_keyval,
        attribute_val,
    )
}

pub fn type_delete_attr(datatype: &Arc<Datatype>, type_keyval: c_int) -> Checked<()> {
    let holder = Holder::Datatype(state::handle_of_datatype(datatype));
    delete(holder, datatype.extras(), "type_keyval", type_keyval)
}

pub unsafe fn type_get_attr(
    datatype: &Arc<Datatype>,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: Out<c_int>,
) -> Checked<()> {
    // SAFETY: `attribute_val` is null or the address of a pointer (MPI 5.0, section 7.7.4, `MPI_Type_get_attr`).
    unsafe {
        get(
            Subject::Datatype,
            datatype.extras(),
            "type_keyval",
            type_keyval,
            attribute_val,
            flag,
        )
    }
}

pub fn win_create_keyval(
    copy: c::Callback,
    delete: c::Callback,
    win_keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Checked<()> {
    create(Subject::Win, copy, delete, win_keyval, extra_state)
}

pub fn win_free_keyval(win_keyval: InOut<c_int>) -> Checked<()> {
    free(Subject::Win, "win_keyval", win_keyval)
}

pub fn win_set_attr(win: &WinObject, win_keyval: c_int, attribute_val: *mut c_void) -> Checked<()> {
    set(
        Holder::Win(win.handle()),
        win.window().extras(),
        "win_keyval",
        win_keyval,
        attribute_val,
    )
}

pub fn win_delete_attr(win: &WinObject, win_keyval: c_int) -> Checked<()> {
    delete(
        Holder::Win(win.handle()),
        win.window().extras(),
        "win_keyval",
        win_keyval,
    )
}

/// The variable to which a predefined key of a window points; `None` for other keys.
fn predefined_of_window(win: &WinObject, key: c_int) -> Option<*mut c_void> {
    let facts = win.facts();
    Some(match key {
        k::MPI_WIN_BASE => win.window().memory().as_ptr().cast(),
        k::MPI_WIN_SIZE => (&raw const facts.size).cast_mut().cast(),
        k::MPI_WIN_DISP_UNIT => (&raw const facts.disp_unit).cast_mut().cast(),
        k::MPI_WIN_CREATE_FLAVOR => (&raw const facts.flavor).cast_mut().cast(),
        k::MPI_WIN_MODEL => (&raw const facts.model).cast_mut().cast(),
        _ => return None,
    })
}

pub unsafe fn win_get_attr(
    win: &WinObject,
    win_keyval: c_int,
    attribute_val: *mut c_void,
    mut flag: Out<c_int>,
) -> Checked<()> {
    if let Some(value) = predefined_of_window(win, win_keyval) {
        flag.flag(true);
        // SAFETY: `attribute_val` is null or the address of a pointer (MPI 5.0, section 7.7.3, `MPI_Win_get_attr`).
        return unsafe { store(attribute_val, value) };
    }
    // SAFETY: `attribute_val` is null or the address of a pointer (MPI 5.0, section 7.7.3, `MPI_Win_get_attr`).
    unsafe {
        get(
            Subject::Win,
            win.window().extras(),
            "win_keyval",
            win_keyval,
            attribute_val,
            flag,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_until_it_is_freed_and_nobody_carries_it() {
        let key = Key {
            subject: Subject::Comm,
            copy: c::Callback(0),
            delete: c::Callback(0),
            extra_state: 0,
            freed: false,
            uses: 0,
        };
        let mut keys = Keys {
            known: BTreeMap::from([(1, key), (2, key)]),
            next: 3,
        };
        keys.change(1, |key| key.uses += 1);
        keys.change(1, |key| key.freed = true);
        keys.change(2, |key| key.freed = true);
        assert!(keys.known.keys().eq([&1]), "{:?}", keys.known);
        keys.change(1, |key| key.uses -= 1);
        assert!(keys.known.is_empty(), "{:?}", keys.known);
    }
}
