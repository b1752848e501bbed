//! Buffers that are detached. Module mpi and mpif.h cannot return an address, and leave the argument as it is
//! (MPI 5.0, section 3.6); mpi_f08 has a `c_ptr`.

use core::ffi::{c_int, c_void};

use crate::also;
use crate::data::handle;
use crate::error::finish;
use crate::generated::c;

/// The procedures for one kind of owner of a buffer, for sizes of both kinds.
macro_rules! detach {
    ($plain:ident $modern:ident $large:ident, $c_plain:ident $c_large:ident, ($($object:ident)?)) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $plain(
            $($object: *const c_int,)?
            _buffer: *mut c_void,
            size: *mut c_int,
            ierror: *mut c_int,
        ) {
            let mut address = core::ptr::null_mut::<c_void>();
            // SAFETY: the addresses are the program's.
            unsafe {
                let code = c::$c_plain($(handle($object),)? (&raw mut address).cast(), size);
                finish(ierror, code);
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $modern(
            $($object: *const c_int,)?
            buffer: *mut c_void,
            size: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: the addresses are the program's; a `c_ptr` is an address.
            unsafe { finish(ierror, c::$c_plain($(handle($object),)? buffer, size)) };
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $large(
            $($object: *const c_int,)?
            buffer: *mut c_void,
            size: *mut i64,
            ierror: *mut c_int,
        ) {
            // SAFETY: as above.
            unsafe { finish(ierror, c::$c_large($(handle($object),)? buffer, size)) };
        }
    };
}

detach!(mpi_buffer_detach_ mpi_buffer_detach_f08_ mpi_buffer_detach_c_f08_, MPI_Buffer_detach MPI_Buffer_detach_c, ());
detach!(mpi_comm_detach_buffer_ mpi_comm_detach_buffer_f08_ mpi_comm_detach_buffer_c_f08_,
    MPI_Comm_detach_buffer MPI_Comm_detach_buffer_c, (comm));
detach!(mpi_session_detach_buffer_ mpi_session_detach_buffer_f08_ mpi_session_detach_buffer_c_f08_,
    MPI_Session_detach_buffer MPI_Session_detach_buffer_c, (session));

also!(mpi_buffer_detach_: pmpi_buffer_detach_);
also!(mpi_buffer_detach_f08_: pmpi_buffer_detach_f08_);
also!(mpi_buffer_detach_c_f08_: pmpi_buffer_detach_c_f08_);
also!(mpi_comm_detach_buffer_: pmpi_comm_detach_buffer_);
also!(mpi_comm_detach_buffer_f08_: pmpi_comm_detach_buffer_f08_);
also!(mpi_comm_detach_buffer_c_f08_: pmpi_comm_detach_buffer_c_f08_);
also!(mpi_session_detach_buffer_: pmpi_session_detach_buffer_);
also!(mpi_session_detach_buffer_f08_: pmpi_session_detach_buffer_f08_);
also!(mpi_session_detach_buffer_c_f08_: pmpi_session_detach_buffer_c_f08_);
