//! Split collective access: one call begins, another ends. The end gets the buffer of the beginning again, without
//! new information.

use std::ffi::c_void;

use weft_mpi::io::{Direction, FilePosition, SplitCall};

use super::{access_of, refused_later};
use crate::args::{BufferArgument, StatusOut};
use crate::c;
use crate::fault::Checked;
use crate::state::FileObject;

fn begin(
    fh: &FileObject,
    direction: Direction,
    place: FilePosition,
    buffer: &BufferArgument,
) -> Checked<()> {
    let access = access_of(direction, place, true, buffer);
    let access = access.map_err(|fault| refused_later(fh, fault))?;
    Ok(fh.file().begin_split(access)?)
}

fn end(fh: &FileObject, call: SplitCall, mut status: StatusOut) -> Checked<()> {
    status.set(&fh.file().end_split(call)?);
    Ok(())
}

pub fn file_read_at_all_begin(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
) -> Checked<()> {
    begin(fh, Direction::Read, FilePosition::At(offset), &buffer)
}

pub fn file_read_at_all_end(fh: &FileObject, _buf: *mut c_void, status: StatusOut) -> Checked<()> {
    end(fh, SplitCall::AtAll(Direction::Read), status)
}

pub fn file_read_all_begin(fh: &FileObject, buffer: BufferArgument) -> Checked<()> {
    begin(fh, Direction::Read, FilePosition::Individual, &buffer)
}

pub fn file_read_all_end(fh: &FileObject, _buf: *mut c_void, status: StatusOut) -> Checked<()> {
    end(fh, SplitCall::All(Direction::Read), status)
}

pub fn file_read_ordered_begin(fh: &FileObject, buffer: BufferArgument) -> Checked<()> {
    begin(fh, Direction::Read, FilePosition::Shared, &buffer)
}

pub fn file_read_ordered_end(fh: &FileObject, _buf: *mut c_void, status: StatusOut) -> Checked<()> {
    end(fh, SplitCall::Ordered(Direction::Read), status)
}

pub fn file_write_at_all_begin(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
) -> Checked<()> {
    begin(fh, Direction::Write, FilePosition::At(offset), &buffer)
}

pub fn file_write_at_all_end(
    fh: &FileObject,
    _buf: *const c_void,
    status: StatusOut,
) -> Checked<()> {
    end(fh, SplitCall::AtAll(Direction::Write), status)
}

pub fn file_write_all_begin(fh: &FileObject, buffer: BufferArgument) -> Checked<()> {
    begin(fh, Direction::Write, FilePosition::Individual, &buffer)
}

pub fn file_write_all_end(fh: &FileObject, _buf: *const c_void, status: StatusOut) -> Checked<()> {
    end(fh, SplitCall::All(Direction::Write), status)
}

pub fn file_write_ordered_begin(fh: &FileObject, buffer: BufferArgument) -> Checked<()> {
    begin(fh, Direction::Write, FilePosition::Shared, &buffer)
}

pub fn file_write_ordered_end(
    fh: &FileObject,
    _buf: *const c_void,
    status: StatusOut,
) -> Checked<()> {
    end(fh, SplitCall::Ordered(Direction::Write), status)
}
