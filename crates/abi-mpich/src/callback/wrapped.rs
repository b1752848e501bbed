//! Functions of generalized requests, of data representations and of events.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use alloc::boxed::Box;
use core::ffi::{c_char, c_int, c_void};

use weft_bare::atomics::{AtomicUsize, Ordering};

use crate::generated::names::index;
use crate::handle::{self, Datatype, Handle, Request, Word};
use crate::status::{Classic, Standard};
use crate::{alias, error, number, standard};

/// Functions of a generalized request; freed with the request.
struct GeneralRequest {
    query: unsafe extern "C" fn(*mut c_void, *mut Classic) -> c_int,
    free: unsafe extern "C" fn(*mut c_void) -> c_int,
    cancel: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    extra_state: *mut c_void,
}

unsafe extern "C" fn query(request: *mut GeneralRequest, status: *mut Standard) -> c_int {
    let mut classic = Classic::empty(
        number::rank::encode(number::STANDARD_ANY_SOURCE),
        number::ANY_TAG,
    );
    // SAFETY: the standard ABI passes the record of the request, and a status to fill in.
    unsafe {
        if !status.is_null() {
            (*status).store(&raw mut classic);
        }
        let code = ((*request).query)((*request).extra_state, &raw mut classic);
        if !status.is_null() {
            status.write(Standard::load(&raw const classic));
        }
        error::decode_any(code)
    }
}

unsafe extern "C" fn free(request: *mut GeneralRequest) -> c_int {
    // SAFETY: it is freed once, by the last call about this request.
    unsafe {
        let request = Box::from_raw(request);
        error::decode_any((request.free)(request.extra_state))
    }
}

unsafe extern "C" fn cancel(request: *mut GeneralRequest, complete: c_int) -> c_int {
    // SAFETY: the standard ABI passes the record of the request.
    unsafe { error::decode_any(((*request).cancel)((*request).extra_state, complete)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Grequest_start(
    query_function: Option<unsafe extern "C" fn(*mut c_void, *mut Classic) -> c_int>,
    free_function: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    cancel_function: Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>,
    extra_state: *mut c_void,
    request: *mut Word,
) -> c_int {
    type Start =
        unsafe extern "C" fn(usize, usize, usize, *mut GeneralRequest, *mut usize) -> c_int;
    let mut made = 0;
    let functions = (query_function, free_function, cancel_function);
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
    unsafe {
        let call: Start = standard::function(index::MPI_GREQUEST_START);
        let at = handle::out_pointer(request, &mut made);
        let (Some(query_function), Some(free_function), Some(cancel_function)) = functions else {
            // The call reports which one is missing.
            let address = |there: bool| {
                if there {
                    query as *const () as usize
                } else {
                    0
                }
            };
            let code = call(
                address(functions.0.is_some()),
                address(functions.1.is_some()),
                address(functions.2.is_some()),
                core::ptr::null_mut(),
                at,
            );
            return error::encode(code);
        };
        let record = Box::into_raw(Box::new(GeneralRequest {
            query: query_function,
            free: free_function,
            cancel: cancel_function,
            extra_state,
        }));
        let code = call(
            query as *const () as usize,
            free as *const () as usize,
            cancel as *const () as usize,
            record,
            at,
        );
        if code == 0 {
            handle::store::<Request>(request, made);
        } else {
            drop(Box::from_raw(record));
        }
        error::encode(code)
    }
}
alias!(MPI_Grequest_start => PMPI_Grequest_start);

/// Functions of a data representation. Representations are never freed.
struct Representation {
    read: usize,
    write: usize,
    extent: usize,
    extra_state: *mut c_void,
}

unsafe extern "C" fn extent(datatype: usize, extent: *mut isize, of: *mut Representation) -> c_int {
    // SAFETY: the standard ABI passes the record; the program has passed a function of this type.
    unsafe {
        let function: unsafe extern "C" fn(Word, *mut isize, *mut c_void) -> c_int =
            core::mem::transmute((*of).extent);
        error::decode_any(function(
            Datatype::encode(datatype),
            extent,
            (*of).extra_state,
        ))
    }
}

macro_rules! representations {
    ($($register:ident $direct:ident $name:ident $count:ty, $read:ident $write:ident;)*) => {$(
        representations!(convert $read read $count);
        representations!(convert $write write $count);

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $register(
            name: *const c_char,
            read: usize,
            write: usize,
            extent_function: usize,
            extra_state: *mut c_void,
        ) -> c_int {
            let record = Representation { read, write, extent: extent_function, extra_state };
            let record = Box::into_raw(Box::new(record));
            let address = |of: usize, wrapper: *const ()| if of == 0 { 0 } else { wrapper as usize };
            // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
            unsafe {
                let call: unsafe extern "C" fn(*const c_char, usize, usize, usize, *mut Representation) -> c_int =
                    standard::function(index::$name);
                let code = call(
                    name,
                    address(read, $read as *const ()),
                    address(write, $write as *const ()),
                    address(extent_function, extent as *const ()),
                    record,
                );
                if code != 0 {
                    drop(Box::from_raw(record));
                }
                error::encode(code)
            }
        }
        alias!($direct => $register);
    )*};
    (convert $name:ident $field:ident $count:ty) => {
        unsafe extern "C" fn $name(
            memory: *mut c_void,
            datatype: usize,
            count: $count,
            file: *mut c_void,
            position: i64,
            of: *mut Representation,
        ) -> c_int {
            type Convert = unsafe extern "C" fn(*mut c_void, Word, $count, *mut c_void, i64, *mut c_void) -> c_int;
            // SAFETY: the standard ABI passes the record; the program has passed a function of this type.
            unsafe {
                let function: Convert = core::mem::transmute((*of).$field);
                let datatype = Datatype::encode(datatype);
                error::decode_any(function(memory, datatype, count, file, position, (*of).extra_state))
            }
        }
    };
}

representations! {
    PMPI_Register_datarep MPI_Register_datarep MPI_REGISTER_DATAREP c_int, read_small write_small;
    PMPI_Register_datarep_c MPI_Register_datarep_c MPI_REGISTER_DATAREP_C i64, read_large write_large;
}

/// A callback of a tool and its argument. Registrations are few and are never freed.
struct Listener {
    function: usize,
    user_data: *mut c_void,
}

impl Listener {
    fn new(function: usize, user_data: *mut c_void) -> *mut Self {
        Box::into_raw(Box::new(Self {
            function,
            user_data,
        }))
    }
}

unsafe extern "C" fn event(
    instance: usize,
    registration: usize,
    safety: c_int,
    listener: *mut Listener,
) {
    // SAFETY: the standard ABI passes the record; the tool has passed a function of this type.
    unsafe {
        let function: unsafe extern "C" fn(usize, usize, c_int, *mut c_void) =
            core::mem::transmute((*listener).function);
        let safety = number::callback_safety::encode(safety);
        function(instance, registration, safety, (*listener).user_data);
    }
}

unsafe extern "C" fn freed(registration: usize, safety: c_int, listener: *mut Listener) {
    // SAFETY: as above, once.
    unsafe {
        let listener = Box::from_raw(listener);
        let function: unsafe extern "C" fn(usize, c_int, *mut c_void) =
            core::mem::transmute(listener.function);
        function(
            registration,
            number::callback_safety::encode(safety),
            listener.user_data,
        );
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_register_callback(
    registration: usize,
    safety: c_int,
    info: Word,
    user_data: *mut c_void,
    function: usize,
) -> c_int {
    type Register = unsafe extern "C" fn(usize, c_int, usize, *mut Listener, usize) -> c_int;
    let (listener, wrapper) = match function {
        0 => (core::ptr::null_mut(), 0),
        _ => (
            Listener::new(function, user_data),
            event as *const () as usize,
        ),
    };
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
    unsafe {
        let call: Register = standard::function(index::MPI_T_EVENT_REGISTER_CALLBACK);
        let safety = number::callback_safety::decode(safety);
        error::encode(call(
            registration,
            safety,
            handle::Info::decode(info),
            listener,
            wrapper,
        ))
    }
}
alias!(MPI_T_event_register_callback => PMPI_T_event_register_callback);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_handle_free(
    registration: usize,
    user_data: *mut c_void,
    function: usize,
) -> c_int {
    let (listener, wrapper) = match function {
        0 => (core::ptr::null_mut(), 0),
        _ => (
            Listener::new(function, user_data),
            freed as *const () as usize,
        ),
    };
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
    unsafe {
        let call: unsafe extern "C" fn(usize, *mut Listener, usize) -> c_int =
            standard::function(index::MPI_T_EVENT_HANDLE_FREE);
        error::encode(call(registration, listener, wrapper))
    }
}
alias!(MPI_T_event_handle_free => PMPI_T_event_handle_free);

/// The function that is called when events were dropped: there is one for all registrations, because it receives no state of
/// its own.
static DROPPED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn dropped(
    count: i64,
    registration: usize,
    source: c_int,
    safety: c_int,
    user_data: *mut Listener,
) {
    // SYNC event.dropped: pairs with the store below.
    let function = DROPPED.load(Ordering::Acquire);
    // SAFETY: the tool has passed a function of this type; the record is that of the registration, or none.
    unsafe {
        let function: unsafe extern "C" fn(i64, usize, c_int, c_int, *mut c_void) =
            core::mem::transmute(function);
        let user_data = match user_data.is_null() {
            true => core::ptr::null_mut(),
            false => (*user_data).user_data,
        };
        function(
            count,
            registration,
            source,
            number::callback_safety::encode(safety),
            user_data,
        );
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_set_dropped_handler(
    registration: usize,
    function: usize,
) -> c_int {
    let wrapper = match function {
        0 => 0,
        _ => {
            // SYNC event.dropped
            DROPPED.store(function, Ordering::Release);
            dropped as *const () as usize
        }
    };
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
    unsafe {
        let call: unsafe extern "C" fn(usize, usize) -> c_int =
            standard::function(index::MPI_T_EVENT_SET_DROPPED_HANDLER);
        error::encode(call(registration, wrapper))
    }
}
alias!(MPI_T_event_set_dropped_handler => PMPI_T_event_set_dropped_handler);
