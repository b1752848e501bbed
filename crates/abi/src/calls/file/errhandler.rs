//! Error handlers of files. The handler of `MPI_FILE_NULL` is the initial one of files, and gets the errors of calls
//! that have no file (MPI 5.0, section 14.7).

use std::ffi::c_int;

use crate::args::Out;
use crate::calls::errhandler::create;
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::state::{ErrhandlerObject, FileObject, Handled};
use crate::{c, check, entry};

/// The file of a handle; none for `MPI_FILE_NULL`.
fn find(handle: c::File, name: &'static str) -> Checked<Option<&'static FileObject>> {
    if handle == k::MPI_FILE_NULL {
        return Ok(None);
    }
    check::file(handle, name).map(Some)
}

fn handler_of(file: Option<&FileObject>) -> c::Errhandler {
    match file {
        Some(object) => entry::handler_of_file(object.file()),
        None => entry::default_file_handler(),
    }
}

pub fn file_create_errhandler(
    function: c::Callback,
    errhandler: Out<c::Errhandler>,
) -> Checked<()> {
    create(function, Handled::File, "file_errhandler_fn", errhandler)
}

pub fn file_set_errhandler(file: c::File, errhandler: c::Errhandler) -> Checked<()> {
    let file = find(file, "file")?;
    check::handler_of(errhandler, Handled::File, "errhandler")?;
    ErrhandlerObject::retain(errhandler);
    let before = match file {
        Some(object) => {
            let before = entry::handler_of_file(object.file());
            object.file().extras().set_errhandler(errhandler.0);
            before
        }
        None => entry::set_default_file_handler(errhandler),
    };
    ErrhandlerObject::release(before);
    Ok(())
}

pub fn file_get_errhandler(file: c::File, mut errhandler: Out<c::Errhandler>) -> Checked<()> {
    let handler = handler_of(find(file, "file")?);
    ErrhandlerObject::retain(handler);
    errhandler.set(handler);
    Ok(())
}

pub fn file_call_errhandler(fh: c::File, errorcode: c_int) -> Checked<()> {
    find(fh, "fh")?;
    entry::call_file_handler(fh, errorcode);
    Ok(())
}
