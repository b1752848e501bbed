//! Files (MPI 5.0, chapter 14).

use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use weft_mpi::info::Info;
use weft_mpi::io::{self, Access, AccessMode, Direction, FilePosition, Representation, Whence};
use weft_mpi::{Comm, Datatype};

use crate::args::{BufferArgument, CountOut, InOut, Out, TextOut, text_of};
use crate::calls::abi::{full, new_info};
use crate::entry;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::{self, ErrhandlerObject, FileObject, InfoObject};
use crate::{c, check, handle};

mod blocking;
mod datarep;
mod errhandler;
mod nonblocking;
mod split;

pub use blocking::*;
pub use datarep::register_datarep;
pub use errhandler::*;
pub use nonblocking::*;
pub use split::*;

/// The file of calls that have none.
pub(crate) const NO_FILE: c::File = k::MPI_FILE_NULL;

/// The access that a call makes.
fn access_of(
    direction: Direction,
    place: FilePosition,
    together: bool,
    buffer: &BufferArgument,
) -> Checked<Access> {
    Ok(Access {
        direction,
        place,
        together,
        elements: buffer.elements_in_memory()?,
    })
}

/// An argument of a collective call is wrong at this rank: tells the ranks that wait for it.
pub(crate) fn refused(fh: &FileObject, fault: Fault) -> Fault {
    fh.file().refuse(fault.as_error());
    fault
}

/// As [`refused`], for a call that does not wait.
fn refused_later(fh: &FileObject, fault: Fault) -> Fault {
    fh.file().refuse_later(fault.as_error());
    fault
}

/// As [`refused`], for a file that is not open yet.
pub(crate) fn not_opened(comm: &Comm, fault: Fault) -> Fault {
    io::refuse_to_open(comm, fault.as_error());
    fault
}

/// The flags of an access mode, with their numbers in the ABI.
fn flags(mode: &mut AccessMode) -> [(c_int, &mut bool); 9] {
    [
        (k::MPI_MODE_RDONLY, &mut mode.read_only),
        (k::MPI_MODE_RDWR, &mut mode.read_write),
        (k::MPI_MODE_WRONLY, &mut mode.write_only),
        (k::MPI_MODE_CREATE, &mut mode.create),
        (k::MPI_MODE_EXCL, &mut mode.exclusive),
        (k::MPI_MODE_DELETE_ON_CLOSE, &mut mode.delete_on_close),
        (k::MPI_MODE_UNIQUE_OPEN, &mut mode.unique_open),
        (k::MPI_MODE_SEQUENTIAL, &mut mode.sequential),
        (k::MPI_MODE_APPEND, &mut mode.append),
    ]
}

/// An access mode; an unknown bit gives a mode that `open` refuses on all ranks.
fn mode_of(amode: c_int) -> AccessMode {
    let mut mode = AccessMode::default();
    let mut known = 0;
    for (bit, set) in flags(&mut mode) {
        *set = amode & bit != 0;
        known |= bit;
    }
    if amode & !known == 0 {
        mode
    } else {
        AccessMode::default()
    }
}

fn path_of(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

fn pairs(info: Option<&InfoObject>) -> Info {
    info.map_or_else(Info::default, |info| info.open().clone())
}

pub fn file_open(
    comm: &Arc<Comm>,
    filename: &CStr,
    amode: c_int,
    info: Option<&InfoObject>,
    mut fh: Out<c::File>,
) -> Checked<()> {
    fh.set(k::MPI_FILE_NULL);
    let file = io::open(comm, path_of(filename), mode_of(amode), &pairs(info))?;
    let handler = entry::default_file_handler();
    ErrhandlerObject::retain(handler);
    file.extras().set_errhandler(handler.0);
    let context = file.comm().context();
    let handle = FileObject::create(file).ok_or_else(|| full("files"))?;
    state::register_file(context, handle);
    // Files have their own handler from the beginning.
    state::note_handler();
    fh.set(handle);
    Ok(())
}

pub fn file_close(mut fh: InOut<c::File>) -> Checked<()> {
    let object = check::file(fh.get(), "fh")?;
    let outcome = object.file().close();
    if let Err(error) = outcome {
        if object.file().is_open() {
            return Err(error.into());
        }
        // The file's handler gets the error, and the file ends when the handler has returned.
        let code = entry::failed_to_close(fh.get(), &Fault::from(error));
        end(object, &mut fh);
        return Err(Fault::told(code));
    }
    end(object, &mut fh);
    Ok(())
}

/// Ends a file, and its use of an error handler.
fn end(object: &FileObject, fh: &mut InOut<c::File>) {
    ErrhandlerObject::release(entry::handler_of_file(object.file()));
    object.file().extras().set_errhandler(0);
    state::forget_file(object.file().comm().context());
    handle::remove::<FileObject>(fh.get().0);
    fh.set(k::MPI_FILE_NULL);
}

pub fn file_delete(filename: &CStr, _info: Option<&InfoObject>) -> Checked<()> {
    Ok(io::delete(path_of(filename))?)
}

pub fn file_set_size(fh: &FileObject, size: c::Offset) -> Checked<()> {
    Ok(fh.file().set_size(size)?)
}

pub fn file_preallocate(fh: &FileObject, size: c::Offset) -> Checked<()> {
    Ok(fh.file().preallocate(size)?)
}

pub fn file_get_size(fh: &FileObject, mut size: Out<c::Offset>) -> Checked<()> {
    size.set(fh.file().size()?.cast_signed());
    Ok(())
}

pub fn file_get_group(fh: &FileObject, mut group: Out<c::Group>) -> Checked<()> {
    let copy = Arc::clone(fh.file().comm().group());
    group.set(c::Group(
        handle::insert(copy).ok_or_else(|| full("groups"))?,
    ));
    Ok(())
}

pub fn file_get_amode(fh: &FileObject, mut amode: Out<c_int>) -> Checked<()> {
    let mut mode = fh.file().mode();
    let set = flags(&mut mode).into_iter().filter(|(_, set)| **set);
    amode.set(set.fold(0, |amode, (bit, _)| amode | bit));
    Ok(())
}

pub fn file_set_info(fh: &FileObject, info: Option<&InfoObject>) -> Checked<()> {
    Ok(fh.file().set_info(&pairs(info))?)
}

pub fn file_get_info(fh: &FileObject, mut info_used: Out<c::Info>) -> Checked<()> {
    info_used.set(new_info(fh.file().info())?);
    Ok(())
}

pub fn file_set_view(
    fh: &FileObject,
    disp: c::Offset,
    etype: &Arc<Datatype>,
    filetype: &Arc<Datatype>,
    datarep: &CStr,
    info: Option<&InfoObject>,
) -> Checked<()> {
    let displacement = (disp != k::MPI_DISPLACEMENT_CURRENT).then_some(disp);
    let representation = check_committed(etype)
        .and_then(|()| check_committed(filetype))
        .and_then(|()| datarep::find(&text_of(datarep)));
    fh.file()
        .set_view(displacement, etype, filetype, representation, &pairs(info))?;
    Ok(())
}

/// The error is sent to the other ranks, which wait for this one.
fn check_committed(datatype: &Datatype) -> weft_mpi::Result<()> {
    if datatype.is_committed() {
        return Ok(());
    }
    Err(weft_mpi::Error::new(
        weft_mpi::ErrorClass::Type,
        "etype or filetype is not committed; call MPI_Type_commit first",
    ))
}

pub fn file_get_view(
    fh: &FileObject,
    mut disp: Out<c::Offset>,
    mut etype: Out<c::Datatype>,
    mut filetype: Out<c::Datatype>,
    mut datarep: TextOut,
) -> Checked<()> {
    let view = fh.file().view();
    disp.set(view.displacement().cast_signed());
    etype.set(datatype_for_the_program(view.etype())?);
    filetype.set(datatype_for_the_program(view.filetype())?);
    let name = Representation::name(view.representation());
    datarep.set(name, k::MPI_MAX_DATAREP_STRING as usize);
    Ok(())
}

/// A datatype of a view: a derived one becomes a separate object, which the program frees.
fn datatype_for_the_program(datatype: &Arc<Datatype>) -> Checked<c::Datatype> {
    if datatype.is_predefined() {
        return Ok(state::handle_of_datatype(datatype));
    }
    let copy = if datatype.is_parameterised() {
        Arc::clone(datatype)
    } else {
        Datatype::build(datatype.recipe().clone(), datatype.has_large_counts())?
    };
    copy.commit();
    state::publish_datatype(copy).ok_or_else(|| full("datatypes"))
}

/// The origin from which a position is counted.
fn whence_of(whence: c_int) -> Checked<Whence> {
    match whence {
        k::MPI_SEEK_SET => Ok(Whence::Set),
        k::MPI_SEEK_CUR => Ok(Whence::Current),
        k::MPI_SEEK_END => Ok(Whence::End),
        other => Err(Fault::argument(
            k::MPI_ERR_ARG,
            "whence",
            "MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END",
            other.to_string(),
            "take the constants of mpi.h",
        )),
    }
}

pub fn file_seek(fh: &FileObject, offset: c::Offset, whence: c_int) -> Checked<()> {
    Ok(fh.file().seek(offset, whence_of(whence)?)?)
}

pub fn file_get_position(fh: &FileObject, mut offset: Out<c::Offset>) -> Checked<()> {
    offset.set(fh.file().position()?);
    Ok(())
}

pub fn file_seek_shared(fh: &FileObject, offset: c::Offset, whence: c_int) -> Checked<()> {
    Ok(fh.file().seek_shared(offset, whence_of(whence)?)?)
}

pub fn file_get_position_shared(fh: &FileObject, mut offset: Out<c::Offset>) -> Checked<()> {
    offset.set(fh.file().shared_position()?);
    Ok(())
}

pub fn file_get_byte_offset(
    fh: &FileObject,
    offset: c::Offset,
    mut disp: Out<c::Offset>,
) -> Checked<()> {
    disp.set(fh.file().byte_offset(offset)?);
    Ok(())
}

pub fn file_get_type_extent(
    fh: &FileObject,
    datatype: &Arc<Datatype>,
    mut extent: CountOut,
) -> Checked<()> {
    extent.set(Some(fh.file().type_extent(datatype)?));
    Ok(())
}

pub fn file_set_atomicity(fh: &FileObject, flag: bool) -> Checked<()> {
    Ok(fh.file().set_atomicity(flag)?)
}

pub fn file_get_atomicity(fh: &FileObject, mut flag: Out<c_int>) -> Checked<()> {
    flag.flag(fh.file().is_atomic());
    Ok(())
}

pub fn file_sync(fh: &FileObject) -> Checked<()> {
    Ok(fh.file().sync()?)
}
