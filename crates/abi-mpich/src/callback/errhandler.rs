//! Error handlers of the program: the function receives a handle and an error code.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use std::ffi::c_int;

use super::stub::{Stubs, stubs};
use crate::generated::names::index;
use crate::generated::numbers::OTHER;
use crate::handle::{self, Comm, Errhandler, File, Handle, Session, Win, Word};
use crate::{alias, error, standard};

macro_rules! handlers {
    ($($create:ident $direct:ident $name:ident $kind:ident $stubs:ident $code:ident $run:ident;)*) => {$(
        static $stubs: Stubs = Stubs::new();

        stubs!($code => $run, "rdx", "x2");

        unsafe extern "C" fn $run(object: *mut usize, code: *mut c_int, stub: usize) {
            type Classic = <$kind as Handle>::Classic;
            let function = $stubs.function($code as *const () as usize, stub);
            // SAFETY: the program has passed a function of this type when the handler was made; the standard ABI passes
            // addresses of a handle and of a code.
            unsafe {
                let mut object = $kind::encode(*object);
                let mut code = error::encode(*code);
                let function: unsafe extern "C" fn(*mut Classic, *mut c_int, ...) = std::mem::transmute(function);
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
                    handle::store::<Errhandler>(errhandler, made);
                }
                error::encode(code)
            }
        }
        alias!($direct => $create);
    )*};
}

handlers! {
    PMPI_Comm_create_errhandler MPI_Comm_create_errhandler MPI_COMM_CREATE_ERRHANDLER Comm OF_COMM comm run_comm;
    PMPI_File_create_errhandler MPI_File_create_errhandler MPI_FILE_CREATE_ERRHANDLER File OF_FILE file run_file;
    PMPI_Session_create_errhandler MPI_Session_create_errhandler MPI_SESSION_CREATE_ERRHANDLER Session OF_SESSION session run_session;
    PMPI_Win_create_errhandler MPI_Win_create_errhandler MPI_WIN_CREATE_ERRHANDLER Win OF_WIN win run_win;
}
