//! Attributes: the functions that copy and delete them.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use alloc::boxed::Box;
use core::ffi::{c_int, c_void};

use crate::generated::names::index;
use crate::handle::{Comm, Datatype, Handle, Win};
use crate::{alias, error, number, own, standard};

/// What the program has passed: one record for each key, never freed, because attributes outlive their key.
struct Record {
    copy: usize,
    delete: usize,
    extra_state: *mut c_void,
    #[cfg(not(feature = "openmpi"))]
    in_cxx: cxx::Key,
}

unsafe extern "C" fn copy<H: Handle>(
    object: usize,
    keyval: c_int,
    record: *mut Record,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the standard ABI passes the record that came with the key; the program has passed a function of this type.
    unsafe {
        #[cfg(not(feature = "openmpi"))]
        if let Some(proxies) = (*record).in_cxx.proxies() {
            let keyval = number::keyval::encode(keyval);
            let program = ((*record).copy, (*record).extra_state);
            let object = H::encode(object);
            let done = proxies.copy(program, object, keyval, value, copy, flag);
            return error::decode_any(done);
        }
        let function: unsafe extern "C" fn(
            H::Classic,
            c_int,
            *mut c_void,
            *mut c_void,
            *mut c_void,
            *mut c_int,
        ) -> c_int = core::mem::transmute((*record).copy);
        let keyval = number::keyval::encode(keyval);
        error::decode_any(function(
            H::encode(object),
            keyval,
            (*record).extra_state,
            value,
            copy,
            flag,
        ))
    }
}

unsafe extern "C" fn delete<H: Handle>(
    object: usize,
    keyval: c_int,
    value: *mut c_void,
    record: *mut Record,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        #[cfg(not(feature = "openmpi"))]
        if let Some(proxies) = (*record).in_cxx.proxies() {
            let keyval = number::keyval::encode(keyval);
            let program = ((*record).delete, (*record).extra_state);
            return error::decode_any(proxies.delete(program, H::encode(object), keyval, value));
        }
        let function: unsafe extern "C" fn(H::Classic, c_int, *mut c_void, *mut c_void) -> c_int =
            core::mem::transmute((*record).delete);
        let keyval = number::keyval::encode(keyval);
        error::decode_any(function(
            H::encode(object),
            keyval,
            value,
            (*record).extra_state,
        ))
    }
}

/// Keys with functions in C++: MPICH's library for C++ tells what calls them, when a key was made.
#[cfg(not(feature = "openmpi"))]
pub mod cxx {
    use core::ffi::c_int;
    use core::ptr::null_mut;

    use weft_bare::atomics::{AtomicPtr, AtomicUsize, Ordering};

    use super::Record;
    use crate::own::cxx::Proxies;

    /// What a record has of this.
    #[derive(Default)]
    pub(super) struct Key {
        number: c_int,
        /// The record of the key that was made before.
        before: AtomicPtr<Record>,
        copy: AtomicUsize,
        delete: AtomicUsize,
    }

    impl Key {
        /// What calls the functions, if they are in C++.
        pub fn proxies(&self) -> Option<Proxies> {
            // SYNC key.cxx
            let copy = self.copy.load(Ordering::Acquire);
            let delete = self.delete.load(Ordering::Relaxed);
            (copy != 0).then_some(Proxies { copy, delete })
        }
    }

    /// The record of the key that was made last.
    static LAST: AtomicPtr<Record> = AtomicPtr::new(null_mut());

    /// A key was made with this record, which stays.
    pub(super) unsafe fn made(record: *mut Record, keyval: c_int) {
        // SAFETY: nobody else writes the number, and nobody reads it before the record is in the list.
        let before = unsafe {
            (*record).in_cxx.number = keyval;
            &(*record).in_cxx.before
        };
        let mut last = LAST.load(Ordering::Relaxed);
        loop {
            before.store(last, Ordering::Relaxed);
            // SYNC key.record: pairs with the load of who tells.
            match LAST.compare_exchange(last, record, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => last = other,
            }
        }
    }

    /// What calls the functions of a key that was just made, in numbers of the standard ABI.
    pub fn tell(keyval: c_int, proxies: &Proxies) {
        // SYNC key.record
        let mut next = LAST.load(Ordering::Acquire);
        // SAFETY: null, or a record, which stays.
        while let Some(record) = unsafe { next.as_ref() } {
            let key = &record.in_cxx;
            if key.number == keyval {
                key.delete.store(proxies.delete, Ordering::Relaxed);
                // SYNC key.cxx: pairs with the load of who copies or deletes.
                key.copy.store(proxies.copy, Ordering::Release);
                return;
            }
            next = key.before.load(Ordering::Relaxed);
        }
    }
}

unsafe fn create<H: Handle>(
    place: usize,
    copy_function: usize,
    delete_function: usize,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let copies = match copy_function {
        0 => 0,
        address if own::attribute::duplicates(address) => number::STANDARD_DUP_FN as usize,
        _ => copy::<H> as *const () as usize,
    };
    let deletes = match delete_function {
        0 => 0,
        _ => delete::<H> as *const () as usize,
    };
    let record = Box::new(Record {
        copy: copy_function,
        delete: delete_function,
        extra_state,
        #[cfg(not(feature = "openmpi"))]
        in_cxx: cxx::Key::default(),
    });
    let record = Box::into_raw(record);
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding; the record stays.
    unsafe {
        let call: unsafe extern "C" fn(usize, usize, *mut c_int, *mut Record) -> c_int =
            standard::function(place);
        let code = call(copies, deletes, keyval, record);
        if code != 0 {
            drop(Box::from_raw(record));
            return error::encode(code);
        }
        #[cfg(not(feature = "openmpi"))]
        cxx::made(record, *keyval);
        error::encode(code)
    }
}

macro_rules! keys {
    ($($create:ident $direct:ident $name:ident $kind:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(
            copy_function: usize,
            delete_function: usize,
            keyval: *mut c_int,
            extra_state: *mut c_void,
        ) -> c_int {
            // SAFETY: the same arguments.
            unsafe { create::<$kind>(index::$name, copy_function, delete_function, keyval, extra_state) }
        }
        alias!($direct => $create);
    )*};
}

keys! {
    PMPI_Comm_create_keyval MPI_Comm_create_keyval MPI_COMM_CREATE_KEYVAL Comm;
    PMPI_Keyval_create MPI_Keyval_create MPI_KEYVAL_CREATE Comm;
    PMPI_Type_create_keyval MPI_Type_create_keyval MPI_TYPE_CREATE_KEYVAL Datatype;
    PMPI_Win_create_keyval MPI_Win_create_keyval MPI_WIN_CREATE_KEYVAL Win;
}
