//! Reading and writing, blocking: each call is an [`Access`](weft_mpi::io::Access).

use weft_mpi::io::{Direction, FilePosition};

use super::{access_of, refused};
use crate::args::{BufferArgument, StatusOut};
use crate::c;
use crate::fault::Checked;
use crate::state::FileObject;

/// Alone, or with all ranks of the file.
const ALONE: bool = false;
const TOGETHER: bool = true;

fn run(
    fh: &FileObject,
    direction: Direction,
    place: FilePosition,
    together: bool,
    buffer: &BufferArgument,
    mut status: StatusOut,
) -> Checked<()> {
    let access = access_of(direction, place, together, buffer);
    let access = access.map_err(|fault| match together {
        ALONE => fault,
        TOGETHER => refused(fh, fault),
    })?;
    status.set(&fh.file().access(access)?);
    Ok(())
}

pub fn file_read_at(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    status: StatusOut,
) -> Checked<()> {
    run(
        fh,
        Direction::Read,
        FilePosition::At(offset),
        ALONE,
        &buffer,
        status,
    )
}

pub fn file_read(fh: &FileObject, buffer: BufferArgument, status: StatusOut) -> Checked<()> {
    run(
        fh,
        Direction::Read,
        FilePosition::Individual,
        ALONE,
        &buffer,
        status,
    )
}

pub fn file_read_shared(fh: &FileObject, buffer: BufferArgument, status: StatusOut) -> Checked<()> {
    run(
        fh,
        Direction::Read,
        FilePosition::Shared,
        ALONE,
        &buffer,
        status,
    )
}

pub fn file_read_at_all(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    status: StatusOut,
) -> Checked<()> {
    run(
        fh,
        Direction::Read,
        FilePosition::At(offset),
        TOGETHER,
        &buffer,
        status,
    )
}

pub fn file_read_all(fh: &FileObject, buffer: BufferArgument, status: StatusOut) -> Checked<()> {
    run(
        fh,
        Direction::Read,
        FilePosition::Individual,
        TOGETHER,
        &buffer,
        status,
    )
}

pub fn file_read_ordered(
    fh: &FileObject,
    buffer: BufferArgument,
    status: StatusOut,
) -> Checked<()> {
    run(
        fh,
        Direction::Read,
        FilePosition::Shared,
        TOGETHER,
        &buffer,
        status,
    )
}

pub fn file_write_at(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    status: StatusOut,
) -> Checked<()> {
    run(
        fh,
        Direction::Write,
        FilePosition::At(offset),
        ALONE,
        &buffer,
        status,
    )
}

pub fn file_write(fh: &FileObject, buffer: BufferArgument, status: StatusOut) -> Checked<()> {
    run(
        fh,
        Direction::Write,
        FilePosition::Individual,
        ALONE,
        &buffer,
        status,
    )
}

pub fn file_write_shared(
    fh: &FileObject,
    buffer: BufferArgument,
    status: StatusOut,
) -> Checked<()> {
    run(
        fh,
        Direction::Write,
        FilePosition::Shared,
        ALONE,
        &buffer,
        status,
    )
}

pub fn file_write_at_all(
    fh: &FileObject,
    offset: c::Offset,
    buffer: BufferArgument,
    status: StatusOut,
) -> Checked<()> {
    run(
        fh,
        Direction::Write,
        FilePosition::At(offset),
        TOGETHER,
        &buffer,
        status,
    )
}

pub fn file_write_all(fh: &FileObject, buffer: BufferArgument, status: StatusOut) -> Checked<()> {
    run(
        fh,
        Direction::Write,
        FilePosition::Individual,
        TOGETHER,
        &buffer,
        status,
    )
}

pub fn file_write_ordered(
    fh: &FileObject,
    buffer: BufferArgument,
    status: StatusOut,
) -> Checked<()> {
    run(
        fh,
        Direction::Write,
        FilePosition::Shared,
        TOGETHER,
        &buffer,
        status,
    )
}
