//! Events (MPI 5.0, section 15.3.8).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use weft_mpi::events::Event;
use weft_mpi::info::Info;

use crate::args::Optional;
use crate::calls::abi::new_info;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::tool::events::{EVENTS, EventType};
use crate::tool::registrations::{LEVELS, Registration, current, kind_of};
use crate::tool::{self, hand_out, index_of};
use crate::{c, handle};

pub fn t_event_get_num(mut num_events: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    num_events.set(EVENTS.len() as c_int);
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn t_event_get_info(
    event_index: c_int,
    name: Optional<c_char>,
    mut name_len: Optional<c_int>,
    mut verbosity: Optional<c_int>,
    mut array_of_datatypes: Optional<c::Datatype>,
    mut array_of_displacements: Optional<c::Aint>,
    mut num_elements: Optional<c_int>,
    mut enumtype: Optional<c::ToolHandle>,
    mut info: Optional<c::Info>,
    desc: Optional<c_char>,
    mut desc_len: Optional<c_int>,
    mut bind: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let one = kind_of(event_index)?;
    hand_out(one.name, &name, &mut name_len);
    hand_out(one.description, &desc, &mut desc_len);
    verbosity.set(k::MPI_T_VERBOSITY_USER_DETAIL);
    let room = num_elements
        .get()
        .and_then(|room| usize::try_from(room).ok());
    let elements = one.elements.iter().zip(one.displacements());
    for (place, (element, start)) in elements.take(room.unwrap_or(0)).enumerate() {
        array_of_datatypes.set_at(place, element.datatype());
        array_of_displacements.set_at(place, start as c::Aint);
    }
    num_elements.set(one.elements.len() as c_int);
    enumtype.set(k::MPI_T_ENUM_NULL);
    bind.set(k::MPI_T_BIND_NO_OBJECT);
    no_hints(&mut info)
}

/// An info object without hints, if the caller wants one.
fn no_hints(info: &mut Optional<c::Info>) -> Checked<()> {
    if !info.is_null() {
        info.set(new_info(Info::default())?);
    }
    Ok(())
}

pub fn t_event_get_index(name: Optional<c_char>, mut event_index: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    let names = EVENTS.iter().map(|one| one.name);
    event_index.set(index_of(names, &name, "event")?);
    Ok(())
}

pub fn t_event_handle_alloc(
    event_index: c_int,
    _obj_handle: Optional<c_void>,
    _info: c::Info,
    mut event_registration: Optional<c::ToolHandle>,
) -> Checked<()> {
    tool::check()?;
    let Some(made) = Registration::create(kind_of(event_index)?) else {
        return Err(Fault::new(
            k::MPI_T_ERR_OUT_OF_HANDLES,
            "too many registrations live at once",
        ));
    };
    event_registration.set(c::ToolHandle(made));
    Ok(())
}

fn find(registration: c::ToolHandle) -> Checked<&'static Arc<Registration>> {
    tool::check()?;
    handle::find::<Arc<Registration>>(registration.0).ok_or_else(|| {
        Fault::new(
            k::MPI_T_ERR_INVALID_HANDLE,
            "this is no registration of an event, or it was freed",
        )
    })
}

fn level(safety: c_int) -> Checked<usize> {
    let found = LEVELS.iter().position(|level| *level == safety);
    found.ok_or_else(|| tool::invalid("this is no level of callback safety"))
}

pub fn t_event_handle_free(
    event_registration: c::ToolHandle,
    user_data: Optional<c_void>,
    free_cb_function: c::Callback,
) -> Checked<()> {
    find(event_registration)?.free(free_cb_function, user_data.raw());
    Ok(())
}

pub fn t_event_handle_get_info(
    event_registration: c::ToolHandle,
    mut info_used: Optional<c::Info>,
) -> Checked<()> {
    find(event_registration)?;
    no_hints(&mut info_used)
}

/// There are no hints.
pub fn t_event_handle_set_info(event_registration: c::ToolHandle, _info: c::Info) -> Checked<()> {
    find(event_registration).map(drop)
}

pub fn t_event_register_callback(
    event_registration: c::ToolHandle,
    cb_safety: c_int,
    _info: c::Info,
    user_data: Optional<c_void>,
    event_cb_function: c::Callback,
) -> Checked<()> {
    let registration = find(event_registration)?;
    registration.set_function(level(cb_safety)?, event_cb_function, user_data.raw());
    Ok(())
}

pub fn t_event_callback_get_info(
    event_registration: c::ToolHandle,
    cb_safety: c_int,
    mut info_used: Optional<c::Info>,
) -> Checked<()> {
    find(event_registration)?;
    level(cb_safety)?;
    no_hints(&mut info_used)
}

/// There are no hints.
pub fn t_event_callback_set_info(
    event_registration: c::ToolHandle,
    cb_safety: c_int,
    _info: c::Info,
) -> Checked<()> {
    find(event_registration)?;
    level(cb_safety).map(drop)
}

pub fn t_event_set_dropped_handler(
    event_registration: c::ToolHandle,
    dropped_cb_function: c::Callback,
) -> Checked<()> {
    find(event_registration)?.set_dropped_handler(dropped_cb_function);
    Ok(())
}

/// The event that the callback of this thread was called for.
fn instance(handle: c::ToolHandle) -> Checked<Event> {
    tool::check()?;
    current(handle).ok_or_else(|| {
        Fault::new(
            k::MPI_T_ERR_INVALID_HANDLE,
            "this is no event that a callback of this thread was just called for",
        )
    })
}

pub fn t_event_read(
    event_instance: c::ToolHandle,
    element_index: c_int,
    buffer: Optional<c_void>,
) -> Checked<()> {
    let event = instance(event_instance)?;
    let elements = EventType::of(&event).elements;
    let element = tool::row(elements, element_index, "element")?;
    write(&element.bytes_of(&event), buffer)
}

pub fn t_event_copy(event_instance: c::ToolHandle, buffer: Optional<c_void>) -> Checked<()> {
    let event = instance(event_instance)?;
    write(&EventType::of(&event).bytes_of(&event), buffer)
}

fn write(bytes: &[u8], buffer: Optional<c_void>) -> Checked<()> {
    let mut room = buffer.cast::<u8>().needed()?;
    for (place, byte) in bytes.iter().enumerate() {
        room.set_at(place, *byte);
    }
    Ok(())
}

pub fn t_event_get_timestamp(
    event_instance: c::ToolHandle,
    mut event_timestamp: Optional<c::Count>,
) -> Checked<()> {
    event_timestamp.set(instance(event_instance)?.time as i64);
    Ok(())
}

pub fn t_event_get_source(
    event_instance: c::ToolHandle,
    mut source_index: Optional<c_int>,
) -> Checked<()> {
    instance(event_instance)?;
    source_index.set(0);
    Ok(())
}
