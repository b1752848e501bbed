//! C++ binding of Open MPI 4: what its library (`libmpi_cxx.so.40`) asks of `libmpi.so.40` beyond the functions of MPI. Whatever was compiled in C++ with
//! `mpi.h` of Open MPI 4 refers to that library, and it to these functions, whether or not the program uses the binding: without them such a program
//! does not even start where the dynamic linker resolves all names at once.
//!
//! ```text
//!   MPI::Op::Init(f)                   libmpi.so.40                     a reduction
//!     MPI_Op_create(intercept)    ──►  a stub of its own        ◄──     calls the stub
//!     ompi_op_set_cxx_callback(f) ──►  told for that stub       ──►     intercept(…, datatype, f)  ──►  f
//! ```
//!
//! An error handler works alike: the library for C++ stores the function to call at a fixed place of the object that it gets.
//!
//! Functions in C++ for the keys of communicators are refused: Open MPI's library looks for the kind of a communicator in its object, and a communicator
//! that the program has made is no object here.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use alloc::boxed::Box;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, with_exposed_provenance};

use weft_bare::say;

use super::handle::{self, Comm, File, Session, Win, Word};
use super::object::Object;
use crate::callback::attribute::{PMPI_Type_create_keyval, PMPI_Win_create_keyval};
use crate::callback::errhandler::{
    Kind, PMPI_Comm_create_errhandler, PMPI_File_create_errhandler, PMPI_Win_create_errhandler,
};
use crate::callback::{errhandler, op};
use crate::generated::handles::ompi_mpi_comm_world;
use crate::generated::names::index;
use crate::generated::numbers::OTHER;
use crate::handle::Handle;
use crate::standard;

/// The function of the library for C++ that calls a function of the program with a reference to a datatype.
const INTERCEPT: &CStr = c"ompi_mpi_cxx_op_intercept";

/// Calls the function of an operation: `(intercept, function)` is that of the library for C++, and that of the program, which it calls.
///
/// # Safety
/// As for the function: the addresses are those of as many elements.
pub unsafe fn reduce(
    (intercept, function): (usize, usize),
    operand: *mut c_void,
    into: *mut c_void,
    mut count: c_int,
    mut datatype: Word,
) {
    // SAFETY: the library has a function of this type under the name that was compared.
    unsafe {
        let intercept: unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            *mut c_int,
            *mut Word,
            usize,
        ) = core::mem::transmute(intercept);
        intercept(operand, into, &raw mut count, &raw mut datatype, function);
    }
}

/// Whether a function for an operation is that of the library for C++.
pub fn is_intercept(function: usize) -> bool {
    // SAFETY: all zero is a value of the type: addresses and pointers.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: any address may be asked for; the name, if there is one, is a string of the library at that address.
    unsafe {
        libc::dladdr(with_exposed_provenance(function), &raw mut found) != 0
            && !found.dli_sname.is_null()
            && CStr::from_ptr(found.dli_sname) == INTERCEPT
    }
}

/// Tells the function of the program for the operation that was just made by `MPI::Op::Init`.
#[unsafe(no_mangle)]
pub extern "C" fn ompi_op_set_cxx_callback(operation: Word, function: usize) {
    op::tell(operation, function);
}

/// Kinds of objects, by the numbers that the library for C++ passes: of attributes.
const KEY_OF_TYPE: c_int = 2;
const KEY_OF_WIN: c_int = 3;
/// The same of error handlers.
const HANDLER_OF_WIN: c_int = 2;
const HANDLER_OF_FILE: c_int = 3;

/// A key whose functions are those of the library for C++.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_attr_create_keyval(
    kind: c_int,
    copy: usize,
    delete: usize,
    keyval: *mut c_int,
    extra_state: *mut c_void,
    _flags: c_int,
    _bindings_extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the same arguments.
    unsafe {
        match kind {
            KEY_OF_TYPE => PMPI_Type_create_keyval(copy, delete, keyval, extra_state),
            KEY_OF_WIN => PMPI_Win_create_keyval(copy, delete, keyval, extra_state),
            _ => {
                say!(
                    "weft: MPI::Comm::Create_keyval: functions in C++ for the attributes of communicators need the objects of Open MPI's own library, \
                     which Weft does not have; use MPI_Comm_create_keyval with functions in C"
                );
                OTHER
            }
        }
    }
}

/// Where the library for C++ stores the function that calls that of the program, in the object that it gets. In all of Open MPI 2 to 4.
const DISPATCH: usize = 0x78;

/// Error handler that a program in C++ makes: its handle is the address. Never freed, since an object may have it longer than the program has the handle.
type Errhandler = Object<1024>;

/// Calls the function of an error handler: `(function, object)` is that of the program, and the [object](Errhandler) that is the handle.
///
/// # Safety
/// The function is one for such objects.
pub unsafe fn handle(
    kind: Kind,
    (function, errhandler): (usize, usize),
    object: usize,
    code: &mut c_int,
) {
    let mut object = match kind {
        Kind::Comm => Comm::encode(object),
        Kind::File => File::encode(object),
        Kind::Session => Session::encode(object),
        Kind::Win => Win::encode(object),
    };
    // SAFETY: the object stays; the library for C++ has stored a function of this type there, right after it was made.
    unsafe {
        let errhandler = &*with_exposed_provenance::<Errhandler>(errhandler);
        let dispatch: Option<unsafe extern "C" fn(*mut Word, *mut c_int, *const c_char, usize)> =
            core::mem::transmute(errhandler.word(DISPATCH));
        if let Some(dispatch) = dispatch {
            dispatch(&raw mut object, code, c"MPI".as_ptr(), function);
        }
    }
}

/// An error handler whose function is one in C++: the object that is its handle. Null if none can be made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_errhandler_create(
    kind: c_int,
    function: usize,
    _language: c_int,
) -> *const c_void {
    let create = match kind {
        HANDLER_OF_WIN => PMPI_Win_create_errhandler,
        HANDLER_OF_FILE => PMPI_File_create_errhandler,
        _ => PMPI_Comm_create_errhandler,
    };
    let mut made = 0;
    // SAFETY: the address is that of a variable.
    if unsafe { create(function, &raw mut made) } != 0 {
        return null();
    }
    let standard = handle::Errhandler::decode(made);
    let object: &'static Errhandler = Box::leak(Box::new(Object::of(standard, standard as i64)));
    errhandler::tell(made, (&raw const *object).expose_provenance());
    (&raw const *object).cast()
}

/// An error that the library for C++ has found itself, where no function of MPI was called that could have reported it: ends the program, as the handler
/// that such objects have at first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_errhandler_invoke(
    _errhandler: *const c_void,
    _object: *const c_void,
    _kind: c_int,
    code: c_int,
    message: *const c_char,
) -> c_int {
    let what = match message.is_null() {
        true => "Open MPI's library for C++".into(),
        // SAFETY: the library passes a string.
        false => unsafe { CStr::from_ptr(message) }.to_string_lossy(),
    };
    say!("weft: {what} has failed with code {code}");
    let world = Comm::decode((&raw const ompi_mpi_comm_world).addr());
    // SAFETY: the standard ABI has a function of this type at this index.
    unsafe {
        let abort: unsafe extern "C" fn(usize, c_int) -> c_int =
            standard::function(index::MPI_ABORT);
        abort(world, code)
    }
}
