//! Communicators (MPI 5.0, chapter 7).

use std::ffi::{CStr, c_int};
use std::sync::{Arc, Once};

use weft_mpi::comm::Bridge;
use weft_mpi::process_set::{self, tag_of};
use weft_mpi::{Comm, Group, Status};

use crate::args::{InOut, Out, TextOut, text_of};
use crate::calls::abi::{full, new_info};
use crate::calls::attribute::{self, Holder};
use crate::calls::{group, process};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::pack;
use crate::state::{self, ErrhandlerObject, Handled, InfoObject};
use crate::{c, check, entry, handle};

/// The handle of a new communicator, which inherits the error handler of its parent.
pub(crate) fn publish(comm: Arc<Comm>, parent: &Comm) -> Checked<c::Comm> {
    let handler = entry::handler_of(parent);
    ErrhandlerObject::retain(handler);
    comm.extras().set_errhandler(handler.0);
    let handle = handle::insert(Arc::clone(&comm))
        .map(c::Comm)
        .ok_or_else(|| full("communicators"))?;
    state::register_comm(&comm, handle);
    Ok(handle)
}

/// The handle of a communicator to which this process may not belong.
pub(crate) fn publish_some(comm: Option<Arc<Comm>>, parent: &Comm) -> Checked<c::Comm> {
    comm.map_or(Ok(k::MPI_COMM_NULL), |comm| publish(comm, parent))
}

#[inline]
pub fn comm_rank(comm: &Comm, mut rank: Out<c_int>) -> Checked<()> {
    rank.set(comm.rank().cast_signed());
    Ok(())
}

#[inline]
pub fn comm_size(comm: &Comm, mut size: Out<c_int>) -> Checked<()> {
    size.set(comm.size().cast_signed());
    Ok(())
}

pub fn comm_compare(comm1: &Comm, comm2: &Comm, mut result: Out<c_int>) -> Checked<()> {
    result.set(group::constant(comm1.compare(comm2)));
    Ok(())
}

pub fn comm_test_inter(comm: &Comm, mut flag: Out<c_int>) -> Checked<()> {
    flag.flag(comm.remote_group().is_some());
    Ok(())
}

pub fn comm_group(comm: &Comm, mut group: Out<c::Group>) -> Checked<()> {
    group.set(group::publish(Arc::clone(comm.group()))?);
    Ok(())
}

fn remote(comm: &Comm) -> Checked<&Arc<Group>> {
    comm.remote_group().ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_COMM,
            "comm",
            "an intercommunicator",
            "an intracommunicator",
            "MPI_Comm_test_inter tells which it is",
        )
    })
}

pub fn comm_remote_group(comm: &Comm, mut group: Out<c::Group>) -> Checked<()> {
    group.set(group::publish(Arc::clone(remote(comm)?))?);
    Ok(())
}

pub fn comm_remote_size(comm: &Comm, mut size: Out<c_int>) -> Checked<()> {
    size.set(remote(comm)?.size().cast_signed());
    Ok(())
}

pub fn comm_dup(comm: &Arc<Comm>, mut newcomm: Out<c::Comm>) -> Checked<()> {
    newcomm.set(k::MPI_COMM_NULL);
    newcomm.set(publish_copy(comm.dup()?, comm)?);
    Ok(())
}

pub fn comm_dup_with_info(
    comm: &Arc<Comm>,
    info: Option<&InfoObject>,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    newcomm.set(k::MPI_COMM_NULL);
    let info = info.map(|info| info.open().clone());
    let copy = comm.dup_with_info(info.as_ref())?;
    newcomm.set(publish_copy(copy, comm)?);
    Ok(())
}

/// The handle of a copy, which has the attributes of its original.
fn publish_copy(copy: Arc<Comm>, original: &Comm) -> Checked<c::Comm> {
    let old = state::handle_of_comm(original);
    attribute::copy_all(Holder::Comm(old), original.extras(), copy.extras())?;
    publish(copy, original)
}

pub fn comm_idup(comm: &Arc<Comm>, newcomm: Out<c::Comm>, request: Out<c::Request>) -> Checked<()> {
    comm_idup_with_info(comm, None, newcomm, request)
}

/// The handle exists at once; its communicator may be used when the request has ended. The one hint with an effect would
/// take an agreement of its own.
pub fn comm_idup_with_info(
    comm: &Arc<Comm>,
    _info: Option<&InfoObject>,
    mut newcomm: Out<c::Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    newcomm.set(k::MPI_COMM_NULL);
    request.set(k::MPI_REQUEST_NULL);
    let (copy, agreement) = comm.idup()?;
    match publish_copy(copy, comm) {
        Ok(copy) => newcomm.set(copy),
        Err(fault) => {
            // The other ranks continue; for them this process takes part in the agreement.
            state::process()?.free_request(agreement)?;
            return Err(fault);
        }
    }
    request.set(pack(agreement));
    Ok(())
}

pub fn comm_create(comm: &Arc<Comm>, group: &Arc<Group>, mut newcomm: Out<c::Comm>) -> Checked<()> {
    newcomm.set(publish_some(comm.create(group)?, comm)?);
    Ok(())
}

pub fn comm_create_group(
    comm: &Arc<Comm>,
    group: &Arc<Group>,
    tag: i32,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    newcomm.set(publish_some(comm.create_group(group, tag)?, comm)?);
    Ok(())
}

/// The processes of the group meet over the world, separated from others by their tag.
pub fn comm_create_from_group(
    group: &Arc<Group>,
    stringtag: &CStr,
    info: Option<&InfoObject>,
    errhandler: c::Errhandler,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    check::handler_of(errhandler, Handled::Comm, "errhandler")?;
    let world = world()?;
    let info = info.map(|info| info.open().clone());
    let process = state::process()?;
    let made = process.create_from_group(group, stringtag.to_bytes(), info.as_ref())?;
    newcomm.set(match made {
        Some(comm) => publish_from_groups(comm, world, errhandler)?,
        None => k::MPI_COMM_NULL,
    });
    Ok(())
}

fn world() -> Checked<&'static Arc<Comm>> {
    state::world().ok_or_else(|| Fault::new(k::MPI_ERR_INTERN, "no runtime"))
}

/// The handle of a communicator that was made without a parent.
fn publish_from_groups(
    comm: Arc<Comm>,
    world: &Comm,
    errhandler: c::Errhandler,
) -> Checked<c::Comm> {
    let handle = publish(Arc::clone(&comm), world)?;
    crate::calls::errhandler::comm_set_errhandler(&comm, errhandler)?;
    Ok(handle)
}

/// A rank of a group that leads it.
fn leader(rank: c_int, size: u32, name: &'static str) -> Checked<u32> {
    if rank.cast_unsigned() < size {
        return Ok(rank.cast_unsigned());
    }
    Err(Fault::argument(
        k::MPI_ERR_RANK,
        name,
        format!("a rank of its group from 0 to {}", i64::from(size) - 1),
        rank.to_string(),
        "pass the rank of the process that speaks for the group",
    ))
}

pub fn intercomm_create(
    local_comm: &Arc<Comm>,
    local_leader: c_int,
    peer_comm: c::Comm,
    remote_leader: c_int,
    tag: i32,
    mut newintercomm: Out<c::Comm>,
) -> Checked<()> {
    let local_leader = leader(local_leader, local_comm.size(), "local_leader")?;
    // Peer and remote leader are significant only at the leader.
    let bridge = if local_comm.rank() == local_leader {
        let comm = check::communicator(peer_comm, "peer_comm")?;
        let size = comm.remote_group().unwrap_or(comm.group()).size();
        Some(Bridge {
            comm,
            remote_leader: leader(remote_leader, size, "remote_leader")?,
            tag,
        })
    } else {
        None
    };
    let comm = local_comm.connect(local_leader, bridge)?;
    newintercomm.set(publish(comm, local_comm)?);
    Ok(())
}

/// The local group meets over the world, then the leaders do.
#[allow(clippy::too_many_arguments)]
pub fn intercomm_create_from_groups(
    local_group: &Arc<Group>,
    local_leader: c_int,
    remote_group: c::Group,
    remote_leader: c_int,
    stringtag: &CStr,
    _info: Option<&InfoObject>,
    errhandler: c::Errhandler,
    mut newintercomm: Out<c::Comm>,
) -> Checked<()> {
    check::handler_of(errhandler, Handled::Comm, "errhandler")?;
    let (world, tag) = (world()?, tag_of(stringtag.to_bytes()));
    let local_leader = leader(local_leader, local_group.size(), "local_leader")?;
    let Some(local) = world.create_group(local_group, tag)? else {
        return Err(Fault::argument(
            k::MPI_ERR_GROUP,
            "local_group",
            "a group that this process is in",
            "one that it is not in",
            "only the members of the group make the call",
        ));
    };
    let bridge = if local.rank() == local_leader {
        let remote = check::group(remote_group, "remote_group")?;
        let rank = leader(remote_leader, remote.size(), "remote_leader")?;
        Some(Bridge {
            comm: world,
            remote_leader: remote.peer(rank).0,
            tag,
        })
    } else {
        None
    };
    let comm = local.connect(local_leader, bridge)?;
    newintercomm.set(publish_from_groups(comm, world, errhandler)?);
    Ok(())
}

pub fn intercomm_merge(
    intercomm: &Arc<Comm>,
    high: bool,
    mut newintracomm: Out<c::Comm>,
) -> Checked<()> {
    newintracomm.set(publish(intercomm.merge(high)?, intercomm)?);
    Ok(())
}

pub fn comm_split(
    comm: &Arc<Comm>,
    color: c_int,
    key: c_int,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    let color = match color {
        k::MPI_UNDEFINED => None,
        color if color >= 0 => Some(color),
        other => {
            return Err(Fault::argument(
                k::MPI_ERR_ARG,
                "color",
                "0 or more, or MPI_UNDEFINED",
                other.to_string(),
                "number the parts from 0",
            ));
        }
    };
    newcomm.set(publish_some(comm.split(color, key)?, comm)?);
    Ok(())
}

/// The kind of hardware that a guided split asks for, as an info key.
const RESOURCE: &str = "mpi_hw_resource_type";
/// The process set that it may ask for instead.
const PROCESS_SET: &str = "mpi_pset_name";

/// The color of the members of a process set; `None` if there is none of this name, or this process is not in it.
fn color_of_set(comm: &Comm, name: &str) -> Checked<Option<c_int>> {
    let Some(set) = state::process()?.process_set(name) else {
        return Ok(None);
    };
    // Whoever names another set is not to meet those of this one.
    let is_itself = c_int::from(name.eq_ignore_ascii_case(process_set::ITSELF));
    let number = comm.number_of_set(&set).map(u32::cast_signed);
    Ok(number.map(|number| 2 * number + is_itself))
}

/// Nothing is known about hardware other than memory.
pub fn comm_split_type(
    comm: &Arc<Comm>,
    split_type: c_int,
    key: c_int,
    info: Option<&InfoObject>,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    let wish = |key: &str| match info {
        Some(info) => info.open().get(key).map(|value| value.map(str::to_owned)),
        None => Ok(None),
    };
    let (resource, set) = (wish(RESOURCE)?, wish(PROCESS_SET)?);
    let host = || comm.number_of_shared_memory().map(u32::cast_signed);
    let color = match split_type {
        k::MPI_COMM_TYPE_SHARED => host(),
        k::MPI_COMM_TYPE_HW_GUIDED | k::MPI_COMM_TYPE_RESOURCE_GUIDED
            if resource.as_deref() == Some("mpi_shared_memory") =>
        {
            host()
        }
        k::MPI_COMM_TYPE_RESOURCE_GUIDED if resource.is_none() => match set {
            Some(name) => color_of_set(comm, &name)?,
            None => None,
        },
        k::MPI_UNDEFINED
        | k::MPI_COMM_TYPE_HW_GUIDED
        | k::MPI_COMM_TYPE_HW_UNGUIDED
        | k::MPI_COMM_TYPE_RESOURCE_GUIDED => None,
        other => {
            return Err(Fault::argument(
                k::MPI_ERR_ARG,
                "split_type",
                "one of the constants MPI_COMM_TYPE_..., or MPI_UNDEFINED",
                other.to_string(),
                "MPI_COMM_TYPE_SHARED gives those that share memory",
            ));
        }
    };
    newcomm.set(publish_some(comm.split(color, key)?, comm)?);
    Ok(())
}

pub fn comm_free(mut comm: InOut<c::Comm>) -> Checked<()> {
    let given = comm.get();
    let object = check::communicator(given, "comm")?;
    if matches!(given, k::MPI_COMM_WORLD | k::MPI_COMM_SELF) {
        return Err(Fault::argument(
            k::MPI_ERR_COMM,
            "comm",
            "a communicator that the program has made",
            object.extras().name(),
            "predefined communicators live until MPI_Finalize",
        ));
    }
    attribute::delete_all(Holder::Comm(given), object.extras())?;
    process::forget_parent(given);
    state::forget_comm(object);
    if let Some((count, first)) = object.drop_messages() {
        warn_of_messages(object, count, &first);
    }
    object.sever();
    object.leave_meeting();
    ErrhandlerObject::release(entry::handler_of(object));
    handle::remove::<Arc<Comm>>(given.0);
    comm.set(k::MPI_COMM_NULL);
    Ok(())
}

/// A communicator was freed, and with it messages that nobody has received: warns, once for each process. This is not
/// an error: the call has succeeded, and programs that run with other libraries would end.
#[cold]
fn warn_of_messages(comm: &Comm, count: usize, first: &Status) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let rank = comm.rank();
        let name = comm.extras().name_or("a communicator without name");
        let source = first.source.map_or_else(String::new, |rank| format!(" from rank {rank}"));
        let text = format!(
            "weft: warning: rank {rank} of {name} frees it with {count} message{} that nobody has received; the first came{source} with tag {} and has {} bytes; receive all that is sent before MPI_Comm_free\n",
            if count == 1 { "" } else { "s" },
            first.tag,
            first.bytes
        );
        state::warn(&text);
    });
}

pub fn comm_set_name(comm: &Comm, name: &CStr) -> Checked<()> {
    comm.extras().set_name(&text_of(name));
    Ok(())
}

/// The null handle has a name, too (MPI 5.0, section 7.8).
pub fn comm_get_name(comm: c::Comm, mut name: TextOut, mut resultlen: Out<c_int>) -> Checked<()> {
    let text = match comm {
        k::MPI_COMM_NULL => "MPI_COMM_NULL".to_owned(),
        comm => check::communicator(comm, "comm")?.extras().name(),
    };
    resultlen.set(name.set(&text, k::MPI_MAX_OBJECT_NAME as usize) as c_int);
    Ok(())
}

pub fn comm_get_info(comm: &Comm, mut info_used: Out<c::Info>) -> Checked<()> {
    info_used.set(new_info(comm.info()?)?);
    Ok(())
}

/// Hints of communicators are decided when they are made ([`Comm::info`]).
pub fn comm_set_info(_comm: &Comm, _info: Option<&InfoObject>) -> Checked<()> {
    Ok(())
}
