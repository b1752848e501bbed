//! `MPI_Comm_join`: two processes that share a socket become an intercommunicator (MPI 5.0, section 11.10.6).
//!
//! Each opens a port and sends its name over the socket, in a message of fixed length. The lower process accepts at its port, and the other one
//! connects to it. Between two jobs, the one with the lower name accepts, once the other has said that it can reach the port. If they cannot reach
//! each other, there is no communicator, and the socket is unchanged.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;

use weft_launch::bootstrap::{JobAnswer, JobRequest, PortName};
use weft_launch::other_jobs::Wanted;
use weft_mpi::Comm;
use weft_mpi::comm::Port;

use super::job::{ask, unexpected};
use super::other_jobs;
use crate::args::Out;
use crate::calls::comm::publish;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, state};

/// Bytes of a name on the socket, filled up with zeros.
const MESSAGE: usize = 256;
/// Sent by the connecting process once it has reached the other job's port.
const REACHED: &str = "reached";

pub fn comm_join(fd: c_int, mut intercomm: Out<c::Comm>) -> Checked<()> {
    intercomm.set(k::MPI_COMM_NULL);
    let own = match ask(JobRequest::OpenPort)? {
        JobAnswer::Port(own) => other_jobs()?.open_port(&own, Wanted::default())?,
        other => return Err(unexpected(other)),
    };
    let joined = join(fd, &own);
    other_jobs()?.close_port(&own);
    let closed = ask(JobRequest::ClosePort { port: own });
    let joined = joined?;
    closed?;
    if let Some(comm) = joined {
        let itself = state::comm_self()
            .ok_or_else(|| Fault::new(k::MPI_ERR_OTHER, "MPI is not initialised"))?;
        intercomm.set(publish(comm, itself)?);
    }
    Ok(())
}

fn join(fd: c_int, own: &str) -> Checked<Option<Arc<Comm>>> {
    let name = tell(fd, own)?;
    let (Some((job, own)), Some((other, theirs))) = (PortName::parse(own), PortName::parse(&name))
    else {
        return Ok(None);
    };
    let itself = state::process()?.itself();
    if job != other {
        return join_elsewhere(fd, &itself, (job, own), (other, &name));
    }
    if own.owner == theirs.owner {
        return Ok(None);
    }
    let port = |name: PortName| {
        Some(Ok(Port {
            owner: weft_fabric::Peer(name.owner),
            number: name.number,
        }))
    };
    Ok(Some(if own.owner < theirs.owner {
        itself.accept(0, port(own))?
    } else {
        itself.connect_to(0, port(theirs))?
    }))
}

/// The same with a process of another job.
fn join_elsewhere(
    fd: c_int,
    itself: &Arc<Comm>,
    (job, own): (&str, PortName),
    (other, theirs): (&str, &str),
) -> Checked<Option<Arc<Comm>>> {
    if job < other {
        if tell(fd, "")? != REACHED {
            return Ok(None);
        }
        let (owner, number) = (itself.process().me(), own.number);
        return Ok(Some(itself.accept(0, Some(Ok(Port { owner, number })))?));
    }
    let way = other_jobs()?.call(theirs);
    tell(fd, if way.is_ok() { REACHED } else { "" })?;
    match way {
        Ok(way) => Ok(Some(itself.connect_to_other_job(0, way)?)),
        Err(_) => Ok(None),
    }
}

/// As [`exchange`], with the error of the call.
fn tell(fd: c_int, text: &str) -> Checked<String> {
    exchange(fd, text).map_err(|error| {
        Fault::new(
            k::MPI_ERR_OTHER,
            format!("descriptor {fd} cannot be used: {error}; pass a connected stream socket of which both ends call MPI_Comm_join"),
        )
    })
}

/// Sends a name, and receives one.
fn exchange(fd: c_int, own: &str) -> io::Result<String> {
    let mut out = [0; MESSAGE];
    let name = own.as_bytes();
    out[..name.len()].copy_from_slice(name);
    let mut sent = 0;
    while sent < MESSAGE {
        // SAFETY: `out` has that many bytes left; the descriptor is the caller's.
        let count = unsafe {
            libc::send(
                fd,
                out[sent..].as_ptr().cast(),
                MESSAGE - sent,
                libc::MSG_NOSIGNAL,
            )
        };
        sent += progress(fd, count, libc::POLLOUT)?;
    }
    let mut into = [0; MESSAGE];
    let mut came = 0;
    while came < MESSAGE {
        // SAFETY: `into` has that many bytes left; the descriptor is the caller's.
        let count = unsafe { libc::recv(fd, into[came..].as_mut_ptr().cast(), MESSAGE - came, 0) };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        came += progress(fd, count, libc::POLLIN)?;
    }
    let end = into.iter().position(|byte| *byte == 0).unwrap_or(MESSAGE);
    Ok(String::from_utf8_lossy(&into[..end]).into_owned())
}

/// Returns how many bytes were transferred; none if the socket was not ready, for which this waits.
fn progress(fd: c_int, count: isize, event: i16) -> io::Result<usize> {
    if let Ok(count) = usize::try_from(count) {
        return Ok(count);
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(0),
        io::ErrorKind::WouldBlock => {
            let mut entry = libc::pollfd {
                fd,
                events: event,
                revents: 0,
            };
            // SAFETY: one entry, which outlives the call.
            unsafe { libc::poll(&raw mut entry, 1, -1) };
            Ok(0)
        }
        _ => Err(error),
    }
}
