//! Reading and writing, non-blocking: each call is an [`Access`](weft_mpi::io::Access).

use weft_mpi::io::{Direction, FilePosition};

use super::{access_of, refused_later};
use crate::args::{BufferArgument, Out};
use crate::c;
use crate::fault::Checked;
use crate::handle::request::pack;
use crate::state::FileObject;

/// Alone, or with all ranks of the file.
const ALONE: bool = false;
const TOGETHER: bool = true;

fn begin(
    fh: &FileObject,
    direction: Direction,
    place: FilePosition,
    together: bool,
    buffer: &BufferArgument,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let access = access_of(direction, place, together, buffer);
    let access = access.map_err(|fault| match together {
        ALONE => fault,
        TOGETHER => refused_later(fh, fault),
    })?;
    request.set(pack(fh.file().begin(access)?));
    Ok(())
}

pub fn file_iread_at(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Read,
        FilePosition::At(offset),
        ALONE,
        &buffer,
        request,
    )
}

pub fn file_iread(
    fh: &FileObject,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Read,
        FilePosition::Individual,
        ALONE,
        &buffer,
        request,
    )
}

pub fn file_iread_shared(
    fh: &FileObject,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Read,
        FilePosition::Shared,
        ALONE,
        &buffer,
        request,
    )
}

pub fn file_iread_at_all(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Read,
        FilePosition::At(offset),
        TOGETHER,
        &buffer,
        request,
    )
}

pub fn file_iread_all(
    fh: &FileObject,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Read,
        FilePosition::Individual,
        TOGETHER,
        &buffer,
        request,
    )
}

pub fn file_iwrite_at(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Write,
        FilePosition::At(offset),
        ALONE,
        &buffer,
        request,
    )
}

pub fn file_iwrite(
    fh: &FileObject,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Write,
        FilePosition::Individual,
        ALONE,
        &buffer,
        request,
    )
}

pub fn file_iwrite_shared(
    fh: &FileObject,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Write,
        FilePosition::Shared,
        ALONE,
        &buffer,
        request,
    )
}

pub fn file_iwrite_at_all(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Write,
        FilePosition::At(offset),
        TOGETHER,
        &buffer,
        request,
    )
}

pub fn file_iwrite_all(
    fh: &FileObject,
    buffer: BufferArgument,
    request: Out<c::Request>,
) -> Checked<()> {
    begin(
        fh,
        Direction::Write,
        FilePosition::Individual,
        TOGETHER,
        &buffer,
        request,
    )
}
