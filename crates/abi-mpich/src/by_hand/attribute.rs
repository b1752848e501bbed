//! Predefined attributes, whose values are addresses of numbers that are constants.

use core::ffi::{c_int, c_void};

use weft_bare::atomics::{AtomicI32, Ordering};

use crate::generated::names::index;
use crate::handle::{Comm, Handle, Win, Word};
use crate::number::{
    self, STANDARD_HOST, STANDARD_IO, STANDARD_LASTUSEDCODE, STANDARD_WIN_CREATE_FLAVOR,
    STANDARD_WIN_MODEL,
};
use crate::{alias, error, standard};

/// The numbers to which attributes of communicators point.
static HOST: AtomicI32 = AtomicI32::new(0);
static IO: AtomicI32 = AtomicI32::new(0);
static LAST_USED_CODE: AtomicI32 = AtomicI32::new(0);

/// The numbers to which attributes of windows point: small ones, each at its own place.
static SMALL: [c_int; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// The address of the number that the foreign ABI has instead of the one at `value`.
///
/// # Safety
/// The value is that of the attribute with this key.
unsafe fn translated(keyval: c_int, value: *mut c_void) -> *mut c_void {
    // SAFETY: attributes with these keys point to a number.
    let number = || unsafe { value.cast::<c_int>().read_unaligned() };
    let (place, number) = match keyval {
        STANDARD_HOST => (&HOST, number::rank::encode(number())),
        STANDARD_IO => (&IO, number::rank::encode(number())),
        STANDARD_LASTUSEDCODE => (&LAST_USED_CODE, error::encode(number())),
        STANDARD_WIN_CREATE_FLAVOR => return small(number::window_flavor::encode(number()), value),
        STANDARD_WIN_MODEL => return small(number::window_model::encode(number()), value),
        _ => return value,
    };
    place.store(number, Ordering::Relaxed);
    place.as_ptr().cast()
}

fn small(number: c_int, otherwise: *mut c_void) -> *mut c_void {
    let found = usize::try_from(number)
        .ok()
        .and_then(|place| SMALL.get(place));
    found.map_or(otherwise, |number| (&raw const *number).cast_mut().cast())
}

macro_rules! gets {
    ($($get:ident $direct:ident $name:ident $kind:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(object: Word, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int {
            let keyval = number::keyval::decode(keyval);
            // SAFETY: the addresses come from the caller, which keeps the promises of the C binding; if the flag is set, the call has stored
            // a pointer.
            unsafe {
                let call: unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_int) -> c_int =
                    standard::function(index::$name);
                let code = call($kind::decode(object), keyval, value, flag);
                if code == 0 && flag.read_unaligned() != 0 {
                    let at = value.cast::<*mut c_void>();
                    at.write_unaligned(translated(keyval, at.read_unaligned()));
                }
                error::encode(code)
            }
        }
        alias!($direct => $get);
    )*};
}

gets! {
    PMPI_Attr_get MPI_Attr_get MPI_ATTR_GET Comm;
    PMPI_Comm_get_attr MPI_Comm_get_attr MPI_COMM_GET_ATTR Comm;
    PMPI_Win_get_attr MPI_Win_get_attr MPI_WIN_GET_ATTR Win;
}
