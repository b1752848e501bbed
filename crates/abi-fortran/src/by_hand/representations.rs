//! Data representations of files: conversions are subroutines (MPI 5.0, section 14.5.3).

use alloc::boxed::Box;
use core::ffi::{CStr, c_char, c_int, c_void};

use crate::also;
use crate::data::{aint, number};
use crate::error::finish;
use crate::generated::c;
use crate::text::Text;

/// A subroutine that returns how many bytes a datatype has in a file.
type Extent = unsafe extern "C" fn(*const c_int, *mut isize, *mut isize, *mut c_int);

/// A subroutine that converts; `Count` is the integer type of the number of elements.
type Convert<Count> = unsafe extern "C" fn(
    *mut c_void,
    *const c_int,
    *const Count,
    *mut c_void,
    *const i64,
    *mut isize,
    *mut c_int,
);

/// The callbacks of one representation. They are never freed, like the representation.
struct Callbacks<Count> {
    read: Convert<Count>,
    write: Convert<Count>,
    extent: Extent,
    extra: isize,
}

unsafe extern "C" fn extent<Count>(
    datatype: usize,
    bytes: *mut isize,
    extra: *mut c_void,
) -> c_int {
    let callbacks = extra.cast::<Callbacks<Count>>();
    let (datatype, mut code) = (number(datatype), 0);
    // SAFETY: `register` has given C the callbacks.
    unsafe {
        ((*callbacks).extent)(&datatype, bytes, &raw mut (*callbacks).extra, &mut code);
    }
    code
}

/// The function that C calls to convert in one direction.
macro_rules! conversion {
    ($direction:ident) => {
        unsafe extern "C" fn $direction<Count>(
            memory: *mut c_void,
            datatype: usize,
            count: Count,
            file: *mut c_void,
            position: i64,
            extra: *mut c_void,
        ) -> c_int {
            let callbacks = extra.cast::<Callbacks<Count>>();
            let (datatype, mut code) = (number(datatype), 0);
            // SAFETY: as above.
            unsafe {
                let extra = &raw mut (*callbacks).extra;
                ((*callbacks).$direction)(
                    memory, &datatype, &count, file, &position, extra, &mut code,
                );
            }
            code
        }
    };
}

conversion!(read);
conversion!(write);

/// Whether a program has passed the subroutine that means "as in memory". A program that is loaded at a fixed address has its
/// own address for it, which the dynamic linker returns. The names are those of the bindings that have it.
fn is_null<Count>(function: Convert<Count>, ours: *const (), names: &[&CStr]) -> bool {
    let given = function as *const ();
    core::ptr::eq(given, ours)
        || names.iter().any(|name| {
            // SAFETY: the name ends with a zero.
            let there = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            core::ptr::eq(given, there.cast::<()>())
        })
}

/// The procedure for one type of counts.
macro_rules! representations {
    ($procedure:ident = $register:ident, $count:ty, $null:ident $($null_name:literal)*) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $procedure(
            datarep: *const c_char,
            read_conversion_fn: Convert<$count>,
            write_conversion_fn: Convert<$count>,
            dtype_file_extent_fn: Extent,
            extra_state: *const isize,
            ierror: *mut c_int,
            datarep_length: usize,
        ) {
            let address = |of: Convert<$count>, wrapper: *const ()| {
                if is_null(of, $null as *const (), &[$($null_name),*]) {
                    0
                } else {
                    wrapper as usize
                }
            };
            // SAFETY: the program passes a text, subroutines and addresses of integers.
            unsafe {
                let callbacks = Box::into_raw(Box::new(Callbacks::<$count> {
                    read: read_conversion_fn,
                    write: write_conversion_fn,
                    extent: dtype_file_extent_fn,
                    extra: aint(extra_state),
                }));
                let code = c::$register(
                    Text::new(datarep, datarep_length).pointer(),
                    address(read_conversion_fn, read::<$count> as *const ()),
                    address(write_conversion_fn, write::<$count> as *const ()),
                    extent::<$count> as *const () as usize,
                    callbacks.cast(),
                );
                if code != 0 {
                    drop(Box::from_raw(callbacks));
                }
                finish(ierror, code);
            }
        }

        /// Means "as in memory". It is never called.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $null(
            _memory: *mut c_void,
            _datatype: *const c_int,
            _count: *const $count,
            _file: *mut c_void,
            _position: *const i64,
            _extra: *mut isize,
            ierror: *mut c_int,
        ) {
            // SAFETY: a caller passes the address of an integer.
            unsafe { finish(ierror, crate::generated::constants::MPI_ERR_CONVERSION) };
        }
    };
}

representations!(
    mpi_register_datarep_ = MPI_Register_datarep,
    c_int,
    mpi_conversion_fn_null_ c"mpi_conversion_fn_null_" c"__mpi_f08_callbacks_MOD_mpi_conversion_fn_null"
);
representations!(
    mpi_register_datarep_c_f08_ = MPI_Register_datarep_c,
    i64,
    mpi_conversion_fn_null_c_ c"mpi_conversion_fn_null_c_" c"__mpi_f08_callbacks_MOD_mpi_conversion_fn_null_c"
);
also!(mpi_register_datarep_: pmpi_register_datarep_ mpi_register_datarep_f08_ pmpi_register_datarep_f08_);
also!(mpi_register_datarep_c_f08_: pmpi_register_datarep_c_f08_);
