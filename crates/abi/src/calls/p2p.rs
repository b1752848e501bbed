//! Point-to-point (MPI 5.0, chapter 3).

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::{Buffer, Comm, Message, RequestId, SendMode, Source, Status, TagPattern, Target};

use crate::args::{InOut, Out, StatusOut};
use crate::calls::abi::full;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::{pack, pack_persistent};
use crate::state::{self, MessageObject};
use crate::{c, check, handle};

#[inline]
pub fn send(buffer: Buffer, to: Target, tag: i32, comm: &Comm) -> Checked<()> {
    Ok(comm.send(SendMode::Standard, buffer, to, tag)?)
}

#[inline]
pub fn ssend(buffer: Buffer, to: Target, tag: i32, comm: &Comm) -> Checked<()> {
    Ok(comm.send(SendMode::Synchronous, buffer, to, tag)?)
}

#[inline]
pub fn rsend(buffer: Buffer, to: Target, tag: i32, comm: &Comm) -> Checked<()> {
    Ok(comm.send(SendMode::Ready, buffer, to, tag)?)
}

#[inline]
pub fn bsend(buffer: Buffer, to: Target, tag: i32, comm: &Comm) -> Checked<()> {
    Ok(comm.send(SendMode::Buffered, buffer, to, tag)?)
}

#[inline]
pub fn isend(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    begin_send(SendMode::Standard, buffer, to, tag, comm, request)
}

#[inline]
pub fn issend(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    begin_send(SendMode::Synchronous, buffer, to, tag, comm, request)
}

#[inline]
pub fn irsend(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    begin_send(SendMode::Ready, buffer, to, tag, comm, request)
}

#[inline]
pub fn ibsend(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    begin_send(SendMode::Buffered, buffer, to, tag, comm, request)
}

pub fn send_init(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    keep_send(SendMode::Standard, buffer, to, tag, comm, request)
}

pub fn ssend_init(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    keep_send(SendMode::Synchronous, buffer, to, tag, comm, request)
}

pub fn rsend_init(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    keep_send(SendMode::Ready, buffer, to, tag, comm, request)
}

pub fn bsend_init(
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    request: Out<c::Request>,
) -> Checked<()> {
    keep_send(SendMode::Buffered, buffer, to, tag, comm, request)
}

#[inline]
fn begin_send(
    mode: SendMode,
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(handle_of_begun(comm.isend(mode, buffer, to, tag)?)?);
    Ok(())
}

/// The handle of an operation that was begun. Under full checks one that has ended already has a name of its own, too, so that its
/// buffer can be watched until the program completes it.
#[inline]
pub(super) fn handle_of_begun(id: RequestId) -> Checked<c::Request> {
    let id = if check::is_full() {
        state::process()?.name_apart(id)?
    } else {
        id
    };
    Ok(pack(id))
}

fn keep_send(
    mode: SendMode,
    buffer: Buffer,
    to: Target,
    tag: i32,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack_persistent(comm.send_init(mode, buffer, to, tag)?));
    Ok(())
}

#[inline]
pub fn recv(
    buffer: Buffer,
    from: Source,
    tag: TagPattern,
    comm: &Comm,
    mut status: StatusOut,
) -> Checked<()> {
    status.set(&comm.recv(buffer, from, tag)?);
    Ok(())
}

#[inline]
pub fn irecv(
    buffer: Buffer,
    from: Source,
    tag: TagPattern,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(handle_of_begun(comm.irecv(buffer, from, tag)?)?);
    Ok(())
}

pub fn recv_init(
    buffer: Buffer,
    from: Source,
    tag: TagPattern,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack_persistent(comm.recv_init(buffer, from, tag)?));
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn sendrecv(
    sendbuf: Buffer,
    dest: Target,
    sendtag: i32,
    recvbuf: Buffer,
    source: Source,
    recvtag: TagPattern,
    comm: &Comm,
    mut status: StatusOut,
) -> Checked<()> {
    status.set(&comm.sendrecv((sendbuf, dest, sendtag), (recvbuf, source, recvtag))?);
    Ok(())
}

pub fn sendrecv_replace(
    buffer: Buffer,
    dest: Target,
    sendtag: i32,
    source: Source,
    recvtag: TagPattern,
    comm: &Comm,
    mut status: StatusOut,
) -> Checked<()> {
    status.set(&comm.sendrecv_replace(buffer, (dest, sendtag), (source, recvtag))?);
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn isendrecv(
    sendbuf: Buffer,
    dest: Target,
    sendtag: i32,
    recvbuf: Buffer,
    source: Source,
    recvtag: TagPattern,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.isendrecv((sendbuf, dest, sendtag), (recvbuf, source, recvtag))?,
    ));
    Ok(())
}

pub fn isendrecv_replace(
    buffer: Buffer,
    dest: Target,
    sendtag: i32,
    source: Source,
    recvtag: TagPattern,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.isendrecv_replace(
        buffer,
        (dest, sendtag),
        (source, recvtag),
    )?));
    Ok(())
}

pub fn probe(from: Source, tag: TagPattern, comm: &Comm, mut status: StatusOut) -> Checked<()> {
    status.set(&comm.probe(from, tag)?);
    Ok(())
}

pub fn iprobe(
    from: Source,
    tag: TagPattern,
    comm: &Comm,
    mut flag: Out<c_int>,
    mut status: StatusOut,
) -> Checked<()> {
    let found = comm.iprobe(from, tag)?;
    flag.flag(found.is_some());
    if let Some(found) = found {
        status.set(&found);
    }
    Ok(())
}

/// The handle of a message that this call has found; `None` means one from `MPI_PROC_NULL`.
fn handle_of(call: &'static str, message: Option<Message>) -> Checked<c::Message> {
    let Some(message) = message else {
        return Ok(k::MPI_MESSAGE_NO_PROC);
    };
    handle::insert(MessageObject::new(call, message))
        .map(c::Message)
        .ok_or_else(|| full("matched messages"))
}

pub fn mprobe(
    from: Source,
    tag: TagPattern,
    comm: &Comm,
    mut message: Out<c::Message>,
    mut status: StatusOut,
) -> Checked<()> {
    let (found, end) = comm.mprobe(from, tag)?;
    message.set(handle_of("MPI_Mprobe", found)?);
    status.set(&end);
    Ok(())
}

pub fn improbe(
    from: Source,
    tag: TagPattern,
    comm: &Comm,
    mut flag: Out<c_int>,
    mut message: Out<c::Message>,
    mut status: StatusOut,
) -> Checked<()> {
    let found = comm.improbe(from, tag)?;
    flag.flag(found.is_some());
    if let Some((found, end)) = found {
        message.set(handle_of("MPI_Improbe", found)?);
        status.set(&end);
    }
    Ok(())
}

/// Takes the message of a handle, and ends the handle; `None` means a message from `MPI_PROC_NULL`.
fn take(message: &mut InOut<c::Message>) -> Checked<Option<Message>> {
    let given = message.get();
    if given == k::MPI_MESSAGE_NO_PROC {
        message.set(k::MPI_MESSAGE_NULL);
        return Ok(None);
    }
    let taken = handle::find::<MessageObject>(given.0).and_then(MessageObject::take).ok_or_else(|| {
        let found =
            if given == k::MPI_MESSAGE_NULL { "MPI_MESSAGE_NULL".to_owned() } else { format!("{:#x}", given.0) };
        Fault::argument(
            k::MPI_ERR_REQUEST,
            "message",
            "a message that a matched probe has found",
            found,
            "receive each message once, with the handle that MPI_Mprobe or MPI_Improbe has stored",
        )
    })?;
    handle::remove::<MessageObject>(given.0);
    message.set(k::MPI_MESSAGE_NULL);
    Ok(Some(taken))
}

pub fn mrecv(buffer: Buffer, mut message: InOut<c::Message>, mut status: StatusOut) -> Checked<()> {
    let end = match take(&mut message)? {
        None => Status::null(),
        Some(message) => {
            // The handle is gone with the message, which knows where it was probed.
            let context = message.context();
            let end = state::process()?.mrecv(message, buffer);
            end.map_err(|error| Fault::from(error).on(Some(context)))?
        }
    };
    status.set(&end);
    Ok(())
}

pub fn imrecv(
    buffer: Buffer,
    mut message: InOut<c::Message>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let process: &Arc<_> = state::process()?;
    let id = match take(&mut message)? {
        None => process
            .world()
            .irecv(buffer, Source::Null, TagPattern::Any)?,
        Some(message) => process.imrecv(message, buffer),
    };
    request.set(handle_of_begun(id)?);
    Ok(())
}
