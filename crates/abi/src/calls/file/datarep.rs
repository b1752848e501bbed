//! Data representations of programs (MPI 5.0, section 14.5.3): their functions, and the calls of these.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use weft_mpi::buffer::TypedBuffer;
use weft_mpi::io::{Conversion, Registry, Representation};
use weft_mpi::{Datatype, Error, ErrorClass};
use weft_sys::Region;

use crate::args::{Form, text_of};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state;

/// They live as long as the process: the standard has no call that ends one.
static REGISTRY: Registry = Registry::new();

/// The functions that a program has registered. Both conversion functions have counts of one form.
#[derive(Debug)]
struct Functions {
    read: c::Callback,
    write: c::Callback,
    extent: c::Callback,
    extra_state: usize,
    form: Form,
}

impl Functions {
    /// Calls a conversion function; false if there is none.
    fn convert(
        &self,
        function: c::Callback,
        elements: &TypedBuffer,
        file: Region,
    ) -> weft_mpi::Result<bool> {
        if function.0 == 0 {
            return Ok(false);
        }
        // Keeps the handle while the function runs.
        let _use = state::use_datatype(elements.datatype());
        let datatype = state::handle_of_datatype(elements.datatype());
        let memory = elements.address().cast::<c_void>();
        let file = file.as_ptr().cast::<c_void>();
        let state = self.extra_state as *mut c_void;
        let count = elements.count();
        let code = match self.form {
            Form::Small => {
                let count = c_int::try_from(count).map_err(|_| too_many(count))?;
                // SAFETY: the program passed a function of this type to `MPI_Register_datarep`; the elements are the
                // buffer of one of its calls, and `file` has as many bytes as its extent function returned for them.
                unsafe {
                    let function: unsafe extern "C" fn(
                        *mut c_void,
                        c::Datatype,
                        c_int,
                        *mut c_void,
                        c::Offset,
                        *mut c_void,
                    ) -> c_int = std::mem::transmute(function.0);
                    function(memory, datatype, count, file, 0, state)
                }
            }
            Form::Large => {
                let count = c::Count::try_from(count).map_err(|_| too_many(count))?;
                // SAFETY: as above, for `MPI_Register_datarep_c`.
                unsafe {
                    let function: unsafe extern "C" fn(
                        *mut c_void,
                        c::Datatype,
                        c::Count,
                        *mut c_void,
                        c::Offset,
                        *mut c_void,
                    ) -> c_int = std::mem::transmute(function.0);
                    function(memory, datatype, count, file, 0, state)
                }
            }
        };
        failed(code, "conversion").map(|()| true)
    }
}

fn failed(code: c_int, what: &str) -> weft_mpi::Result<()> {
    if code == k::MPI_SUCCESS {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::Conversion,
        format!("the {what} function of a data representation returned {code}; see why it does"),
    ))
}

fn too_many(count: usize) -> Error {
    Error::new(
        ErrorClass::Count,
        format!(
            "{count} elements do not fit the int of the conversion function; register it with MPI_Register_datarep_c"
        ),
    )
}

impl Conversion for Functions {
    fn file_extent(&self, datatype: &Arc<Datatype>) -> weft_mpi::Result<usize> {
        let mut extent: c::Aint = 0;
        // SAFETY: the program passed a function of this type to `MPI_Register_datarep`; the result is a variable of ours.
        let code = unsafe {
            let function: unsafe extern "C" fn(c::Datatype, *mut c::Aint, *mut c_void) -> c_int =
                std::mem::transmute(self.extent.0);
            function(
                state::handle_of_datatype(datatype),
                &raw mut extent,
                self.extra_state as *mut c_void,
            )
        };
        failed(code, "extent")?;
        usize::try_from(extent).map_err(|_| {
            Error::new(
                ErrorClass::Conversion,
                format!("the extent function of a data representation says {extent} for {}; an extent in a file is at least 0", datatype.name()),
            )
        })
    }

    fn read(&self, file: Region, into: &TypedBuffer) -> weft_mpi::Result<bool> {
        self.convert(self.read, into, file)
    }

    fn write(&self, from: &TypedBuffer, file: Region) -> weft_mpi::Result<bool> {
        self.convert(self.write, from, file)
    }
}

/// The representation of a name.
pub(super) fn find(name: &str) -> weft_mpi::Result<Representation> {
    REGISTRY.find(name)
}

pub fn register_datarep(
    datarep: &CStr,
    read_conversion_fn: c::Callback,
    write_conversion_fn: c::Callback,
    dtype_file_extent_fn: c::Callback,
    extra_state: *mut c_void,
    form: Form,
) -> Checked<()> {
    if dtype_file_extent_fn.0 == 0 {
        return Err(Fault::null("dtype_file_extent_fn"));
    }
    let functions = Functions {
        read: read_conversion_fn,
        write: write_conversion_fn,
        extent: dtype_file_extent_fn,
        extra_state: extra_state.expose_provenance(),
        form,
    };
    REGISTRY.register(&text_of(datarep), Arc::new(functions))?;
    Ok(())
}
