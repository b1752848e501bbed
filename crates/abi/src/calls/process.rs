//! Dynamic processes (MPI 5.0, chapter 11): spawning, ports, names, joining.
//!
//! Requests about the job as a whole go to the launcher; groups meet by messages ([`Comm::accept`]). Spawned processes
//! connect to a port of the processes that spawn them.

mod job;
mod join;
mod parent;
mod spawn;

use std::ffi::{CStr, c_char, c_int};
use std::str::FromStr;
use std::sync::Arc;

use weft_launch::bootstrap::{JobAnswer, JobRequest, PortName};
use weft_launch::other_jobs::{OtherJobs, Wanted};
use weft_mpi::Comm;
use weft_mpi::coll::inter::Root;
use weft_mpi::comm::{Line, Port};
use weft_mpi::info::Info;

use crate::args::{InOut, Out, TextOut, text_of};
use crate::calls::comm::{comm_free, publish};
use crate::check;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::InfoObject;
use crate::{c, state};

use job::{ask, unexpected};
pub use join::comm_join;
pub use parent::comm_get_parent;
pub(crate) use parent::{find_parent, forget_parent};
pub use spawn::{comm_spawn, comm_spawn_multiple};

/// The rank of a root within one group; others are refused with the communicator.
fn root_of(root: Root) -> u32 {
    match root {
        Root::Rank(rank) => rank as u32,
        Root::ThisRank | Root::ProcNull => 0,
    }
}

pub fn open_port(info: Option<&InfoObject>, mut port_name: TextOut) -> Checked<()> {
    let wanted = wanted_door(info)?;
    match ask(JobRequest::OpenPort)? {
        JobAnswer::Port(name) => {
            let opened = other_jobs()?.open_port(&name, wanted);
            if opened.is_err() {
                ask(JobRequest::ClosePort { port: name })?;
            }
            let name = opened?;
            port_name.set(&name, k::MPI_MAX_PORT_NAME as usize);
            Ok(())
        }
        other => Err(unexpected(other)),
    }
}

/// The address at which other hosts connect, by the info keys reserved for it (MPI 5.0, section 11.9.2).
fn wanted_door(info: Option<&InfoObject>) -> Checked<Wanted> {
    fn read<T: FromStr>(pairs: &Info, key: &str, expected: &str) -> Checked<Option<T>> {
        let Some(text) = pairs.get(key)? else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Fault::new(
                k::MPI_ERR_INFO_VALUE,
                format!("the info key {key} is '{text}'; {expected} was expected"),
            )),
        }
    }
    let Some(info) = info else {
        return Ok(Wanted::default());
    };
    let pairs = info.open();
    Ok(Wanted {
        address: read(
            &pairs,
            "ip_address",
            "an address of this host, as 10.0.0.1,",
        )?,
        port: read(&pairs, "ip_port", "a number from 1 to 65535, or 0 for any,")?,
    })
}

pub fn close_port(port_name: &CStr) -> Checked<()> {
    let port = text_of(port_name);
    let name = PortName::parse(&port).map(|(_, name)| name);
    other_jobs()?.close_port(&port);
    match ask(JobRequest::ClosePort { port })? {
        JobAnswer::Done => {
            if let Some(name) = name {
                state::process()?.close_port(name.number);
            }
            Ok(())
        }
        other => Err(unexpected(other)),
    }
}

fn other_jobs() -> Checked<&'static OtherJobs> {
    let runtime =
        state::runtime().ok_or_else(|| Fault::new(k::MPI_ERR_OTHER, "MPI is not initialised"))?;
    Ok(&runtime.other_jobs)
}

/// The target of a port name.
enum PortOwner {
    /// A process of this job.
    ThisJob(Port),
    /// One of another job.
    OtherJob(Box<dyn Line>),
}

/// The port of a name, which is open.
fn find_port(name: &str) -> Checked<PortOwner> {
    let port = name.to_owned();
    match ask(JobRequest::FindPort { port })? {
        JobAnswer::Elsewhere => Ok(PortOwner::OtherJob(other_jobs()?.call(name)?)),
        JobAnswer::Done => match PortName::parse(name) {
            Some((_, PortName { owner, number })) => Ok(PortOwner::ThisJob(Port {
                owner: weft_fabric::Peer(owner),
                number,
            })),
            None => Err(Fault::new(
                k::MPI_ERR_PORT,
                "the launcher knows a port by a name that is none",
            )),
        },
        other => Err(unexpected(other)),
    }
}

/// The root's result about its port: its error is the error of all.
fn port_at_root(
    comm: &Comm,
    root: u32,
    port_name: *const c_char,
) -> Option<weft_mpi::Result<PortOwner>> {
    (comm.rank() == root && comm.remote_group().is_none()).then(|| {
        // SAFETY: at the root a string that does not change until the call returns (MPI 5.0, section 11.9); null is refused.
        let name = unsafe { check::text(port_name, "port_name") };
        let port = name.and_then(|name| find_port(&text_of(name)));
        port.map_err(|fault| fault.as_error())
    })
}

pub fn comm_accept(
    port_name: *const c_char,
    _info: c::Info,
    root: Root,
    comm: &Arc<Comm>,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    newcomm.set(k::MPI_COMM_NULL);
    let root = root_of(root);
    let port = port_at_root(comm, root, port_name);
    let port = port.map(|port| match port? {
        PortOwner::ThisJob(port) if port.owner == comm.process().me() => Ok(port),
        _ => Err(weft_mpi::Error::new(
            weft_mpi::ErrorClass::Port,
            "the port belongs to another process; accept where MPI_Open_port was called",
        )),
    });
    newcomm.set(publish(comm.accept(root, port)?, comm)?);
    Ok(())
}

pub fn comm_connect(
    port_name: *const c_char,
    _info: c::Info,
    root: Root,
    comm: &Arc<Comm>,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    newcomm.set(k::MPI_COMM_NULL);
    let root = root_of(root);
    let made = match port_at_root(comm, root, port_name) {
        Some(Ok(PortOwner::OtherJob(way))) => comm.connect_to_other_job(root, way)?,
        Some(Ok(PortOwner::ThisJob(port))) => comm.connect_to(root, Some(Ok(port)))?,
        Some(Err(error)) => comm.connect_to(root, Some(Err(error)))?,
        None => comm.connect_to(root, None)?,
    };
    newcomm.set(publish(made, comm)?);
    Ok(())
}

/// Waits for the operations under way on the communicator, then frees it.
pub fn comm_disconnect(comm: InOut<c::Comm>) -> Checked<()> {
    let given = comm.get();
    let object = check::communicator(given, "comm")?;
    if !matches!(given, k::MPI_COMM_WORLD | k::MPI_COMM_SELF) {
        object.settle()?;
    }
    comm_free(comm)
}

pub fn publish_name(
    service_name: &CStr,
    _info: Option<&InfoObject>,
    port_name: &CStr,
) -> Checked<()> {
    let (service, port) = (text_of(service_name), text_of(port_name));
    done(ask(JobRequest::Publish { service, port })?)
}

pub fn lookup_name(
    service_name: &CStr,
    _info: Option<&InfoObject>,
    mut port_name: TextOut,
) -> Checked<()> {
    let service = text_of(service_name);
    match ask(JobRequest::LookUp { service })? {
        JobAnswer::Port(name) => {
            port_name.set(&name, k::MPI_MAX_PORT_NAME as usize);
            Ok(())
        }
        other => Err(unexpected(other)),
    }
}

pub fn unpublish_name(
    service_name: &CStr,
    _info: Option<&InfoObject>,
    port_name: &CStr,
) -> Checked<()> {
    let (service, port) = (text_of(service_name), text_of(port_name));
    done(ask(JobRequest::Unpublish { service, port })?)
}

fn done(answer: JobAnswer) -> Checked<()> {
    match answer {
        JobAnswer::Done => Ok(()),
        other => Err(unexpected(other)),
    }
}

/// The number of an error class, as one of a list of error codes.
const fn code(class: c_int) -> u32 {
    class.cast_unsigned()
}
