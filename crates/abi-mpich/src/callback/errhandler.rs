//! Error handlers of the program: the function receives a handle and an error code.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use core::ffi::c_int;

use super::stub::{Stubs, stubs};
use crate::generated::names::index;
use crate::generated::numbers::OTHER;
use crate::handle::{self, Comm, Errhandler, File, Handle, Session, Win, Word};
use crate::{alias, error, own, standard};

/// What an error handler is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Comm,
    File,
    Session,
    Win,
}

/// Defines functions that make error handlers: what the function of the program gets for the object, and how that is made.
macro_rules! handlers {
    ($($kind:ident $create:ident $(= $direct:ident)?, $name:ident $stubs:ident $code:ident $run:ident, $seen:ty = $see:expr;)*) => {$(
        static $stubs: Stubs = Stubs::new();

        stubs!($code => $run, "rdx", "x2");

        unsafe extern "C" fn $run(object: *mut usize, code: *mut c_int, stub: usize) {
            let (function, in_cxx) = $stubs.functions($code as *const () as usize, stub);
            // SAFETY: the program has passed a function of this type when the handler was made; the standard ABI passes
            // addresses of a handle and of a code.
            unsafe {
                let mut code = error::encode(*code);
                if in_cxx != 0 {
                    own::cxx::handle(Kind::$kind, (function, in_cxx), *object, &mut code);
                    return;
                }
                let mut object: $seen = $see(*object);
                let function: unsafe extern "C" fn(*mut $seen, *mut c_int, ...) = core::mem::transmute(function);
                function(&raw mut object, &raw mut code);
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(function: usize, errhandler: *mut Word) -> c_int {
            let stub = match function {
                0 => 0,
                _ => match $stubs.take($code as *const () as usize, function) {
                    Some(stub) => stub,
                    None => return OTHER,
                },
            };
            let mut made = 0;
            // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
            unsafe {
                let call: unsafe extern "C" fn(usize, *mut usize) -> c_int = standard::function(index::$name);
                let code = call(stub, handle::out_pointer(errhandler, &mut made));
                if code == 0 {
                    $stubs.made($code as *const () as usize, stub, made);
                    handle::store::<Errhandler>(errhandler, made);
                }
                error::encode(code)
            }
        }
        $(alias!($direct => $create);)?
    )*};
}

handlers! {
    Comm PMPI_Comm_create_errhandler = MPI_Comm_create_errhandler, MPI_COMM_CREATE_ERRHANDLER OF_COMM comm run_comm, Word = Comm::encode;
    File PMPI_File_create_errhandler = MPI_File_create_errhandler, MPI_FILE_CREATE_ERRHANDLER OF_FILE file run_file, usize = File::encode;
    Session PMPI_Session_create_errhandler = MPI_Session_create_errhandler, MPI_SESSION_CREATE_ERRHANDLER OF_SESSION session run_session, Word = Session::encode;
    Win PMPI_Win_create_errhandler = MPI_Win_create_errhandler, MPI_WIN_CREATE_ERRHANDLER OF_WIN win run_win, Word = Win::encode;
}

/// The library for C++ tells what calls the function of an error handler that was just made.
pub fn tell(errhandler: Word, in_cxx: usize) {
    let handle = Errhandler::decode(errhandler);
    let mut kinds = [&OF_COMM, &OF_FILE, &OF_WIN].into_iter();
    kinds.find(|stubs| stubs.tell(handle, in_cxx));
}

/// Error handlers that Fortran makes, whose function gets the integer of the object.
#[cfg(feature = "openmpi")]
mod of_fortran {
    use super::*;
    use crate::own::fortran::number;

    handlers! {
        Comm weft_fortran_comm_create_errhandler, MPI_COMM_CREATE_ERRHANDLER OF_COMM comm run_comm, c_int = number::<Comm>;
        File weft_fortran_file_create_errhandler, MPI_FILE_CREATE_ERRHANDLER OF_FILE file run_file, c_int = number::<File>;
        Session weft_fortran_session_create_errhandler, MPI_SESSION_CREATE_ERRHANDLER OF_SESSION session run_session, c_int = number::<Session>;
        Win weft_fortran_win_create_errhandler, MPI_WIN_CREATE_ERRHANDLER OF_WIN win run_win, c_int = number::<Win>;
    }
}
