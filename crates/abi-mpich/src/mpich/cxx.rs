//! C++ binding of MPICH: what its library (`libmpicxx.so.12`; Debian's `libmpichcxx.so.12`) asks of `libmpi.so.12` beyond the functions of MPI. Whatever
//! was compiled in C++ with `mpi.h` of MPICH refers to that library, and it to these functions, whether or not the program uses the binding.
//!
//! It makes an object with a function of the program in C++, as if it were one in C, and then tells which function of its own calls it: one that turns
//! handles into C++ objects.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use core::ffi::{c_int, c_void};

use super::handle::{Comm, File, Win, Word};
use crate::alias;
use crate::callback::errhandler::Kind;
use crate::callback::{attribute, errhandler, op};
use crate::handle::Handle;

/// Calls the function of an operation: `(function, in_cxx)` is that of the program, and that of the library for C++, which calls it.
///
/// # Safety
/// As for the function: the addresses are those of as many elements.
pub unsafe fn reduce(
    (function, in_cxx): (usize, usize),
    operand: *mut c_void,
    into: *mut c_void,
    count: c_int,
    datatype: Word,
) {
    // SAFETY: the library has told a function of this type.
    unsafe {
        let call: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, Word, usize) =
            core::mem::transmute(in_cxx);
        call(operand, into, count, datatype, function);
    }
}

/// Calls the function of an error handler, as [`reduce`] that of an operation.
///
/// # Safety
/// The function is one for such objects.
pub unsafe fn handle(
    kind: Kind,
    (function, in_cxx): (usize, usize),
    object: usize,
    code: &mut c_int,
) {
    let (kind, mut object) = match kind {
        Kind::File => (1, File::encode(object)),
        // Handles of 32 bits: the lower half of the word.
        Kind::Win => (2, Win::encode(object) as usize),
        Kind::Comm | Kind::Session => (0, Comm::encode(object) as usize),
    };
    // SAFETY: the library has told a function of this type. What it reads of the object is as long as a handle.
    unsafe {
        let call: unsafe extern "C" fn(c_int, *mut usize, *mut c_int, usize) =
            core::mem::transmute(in_cxx);
        call(kind, &raw mut object, code, function);
    }
}

/// The functions of the library for C++ that call those of a key.
pub struct Proxies {
    pub copy: usize,
    pub delete: usize,
}

/// Attributes are pointers.
const POINTER: c_int = 0;

impl Proxies {
    /// Calls the program's function that copies.
    ///
    /// # Safety
    /// As for that function.
    pub unsafe fn copy<C>(
        &self,
        (function, extra_state): (usize, *mut c_void),
        object: C,
        keyval: c_int,
        value: *mut c_void,
        copy: *mut c_void,
        flag: *mut c_int,
    ) -> c_int {
        // SAFETY: the library has told a function of this type.
        unsafe {
            let call: unsafe extern "C" fn(
                usize,
                C,
                c_int,
                *mut c_void,
                c_int,
                *mut c_void,
                *mut c_void,
                *mut c_int,
            ) -> c_int = core::mem::transmute(self.copy);
            call(
                function,
                object,
                keyval,
                extra_state,
                POINTER,
                value,
                copy,
                flag,
            )
        }
    }

    /// Calls the program's function that deletes.
    ///
    /// # Safety
    /// As for that function.
    pub unsafe fn delete<C>(
        &self,
        (function, extra_state): (usize, *mut c_void),
        object: C,
        keyval: c_int,
        value: *mut c_void,
    ) -> c_int {
        // SAFETY: the library has told a function of this type.
        unsafe {
            let call: unsafe extern "C" fn(
                usize,
                C,
                c_int,
                c_int,
                *mut c_void,
                *mut c_void,
            ) -> c_int = core::mem::transmute(self.delete);
            call(function, object, keyval, POINTER, value, extra_state)
        }
    }
}

/// The operation that was just made has a function in C++.
#[unsafe(no_mangle)]
pub extern "C" fn MPII_Op_set_cxx(operation: Word, in_cxx: usize) {
    op::tell(operation, in_cxx);
}

/// The error handler that was just made has a function in C++.
#[unsafe(no_mangle)]
pub extern "C" fn MPII_Errhandler_set_cxx(handler: Word, in_cxx: usize) {
    errhandler::tell(handler, in_cxx);
}

/// The key that was just made has functions in C++.
#[unsafe(no_mangle)]
pub extern "C" fn MPII_Keyval_set_proxy(keyval: c_int, copy: usize, delete: usize) {
    attribute::cxx::tell(keyval, &Proxies { copy, delete });
}

// The names before MPICH 3.3.
alias!(MPIR_Op_set_cxx => MPII_Op_set_cxx);
alias!(MPIR_Errhandler_set_cxx => MPII_Errhandler_set_cxx);
alias!(MPIR_Keyval_set_proxy => MPII_Keyval_set_proxy);
