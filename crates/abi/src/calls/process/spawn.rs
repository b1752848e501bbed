//! `MPI_Comm_spawn` and `MPI_Comm_spawn_multiple`. All arguments before the root are significant there only.

use std::ffi::{CStr, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use weft_launch::bootstrap::{
    ERROR_HANDLERS, JobAnswer, JobRequest, PortName, SpawnProgram, SpawnRequest,
};
use weft_mpi::Comm;
use weft_mpi::coll::inter::Root;
use weft_mpi::comm::{AwaitedWorld, Port};

use super::job::{ask, unexpected};
use super::{code, root_of};
use crate::args::Out;
use crate::calls::comm::publish;
use crate::check;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, state};

/// Most processes that one call may ask for: more than any job has.
const MOST: u32 = 1 << 16;

#[expect(clippy::too_many_arguments, reason = "as the standard has it")]
pub fn comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: c::Info,
    root: Root,
    comm: &Arc<Comm>,
    intercomm: Out<c::Comm>,
    array_of_errcodes: *mut c_int,
) -> Checked<()> {
    spawn(root, comm, intercomm, array_of_errcodes, || {
        // SAFETY: at the root these are as the binding says (MPI 5.0, section 11.8.2).
        Ok(vec![unsafe { program(command, argv, maxprocs, info)? }])
    })
}

#[expect(clippy::too_many_arguments, reason = "as the standard has it")]
pub fn comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const c::Info,
    root: Root,
    comm: &Arc<Comm>,
    intercomm: Out<c::Comm>,
    array_of_errcodes: *mut c_int,
) -> Checked<()> {
    spawn(root, comm, intercomm, array_of_errcodes, || {
        let count = check::length(count.into(), "count")?;
        // Each program has at least one process.
        if !(1..=MOST as usize).contains(&count) {
            return Err(Fault::argument(
                k::MPI_ERR_ARG,
                "count",
                format!("a number of commands from 1 to {MOST}"),
                count.to_string(),
                "name the programs to be started",
            ));
        }
        // SAFETY: at the root the lists have `count` elements, and these are as the binding says (MPI 5.0, section 11.8.3).
        unsafe {
            let commands =
                check::slice(array_of_commands.cast_const(), count, "array_of_commands")?;
            let counts = check::slice(array_of_maxprocs, count, "array_of_maxprocs")?;
            let infos = check::slice(array_of_info, count, "array_of_info")?;
            let arguments = match array_of_argv.is_null() {
                true => None,
                false => Some(check::slice(
                    array_of_argv.cast_const(),
                    count,
                    "array_of_argv",
                )?),
            };
            (0..count)
                .map(|index| {
                    let argv = arguments.map_or(k::MPI_ARGV_NULL, |all| all[index]);
                    program(commands[index], argv, counts[index], infos[index])
                })
                .collect()
        }
    })
}

/// A program and the most processes that run it.
struct Wanted {
    program: SpawnProgram,
    most: u32,
}

/// One program, as named by the root.
///
/// # Safety
/// `command` is null or a string, `argv` null or a list of strings that ends with null; they do not change
/// until the call returns.
unsafe fn program(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: c::Info,
) -> Checked<Wanted> {
    // SAFETY: as promised to us.
    let command = unsafe { check::text(command, "command")? };
    let mut words = vec![command.to_bytes().to_vec()];
    if !argv.is_null() {
        // SAFETY: as promised to us: the list is readable up to and including the null at its end, and holds
        // strings.
        words.extend(unsafe {
            (0..)
                .map(|index| *argv.add(index))
                .take_while(|word| !word.is_null())
                .map(|word| CStr::from_ptr(word).to_bytes().to_vec())
        });
    }
    let most = u32::try_from(maxprocs)
        .ok()
        .filter(|most| (1..=MOST).contains(most));
    let most = most.ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_ARG,
            "maxprocs",
            format!("a number of processes from 1 to {MOST}"),
            maxprocs.to_string(),
            "start at least one process",
        )
    })?;
    let info = check::info_or_null(info, "info")?;
    let pairs = info.map(|info| info.open().clone()).unwrap_or_default();
    let value = |key: &str| pairs.get(key).map(|value| value.map(str::to_owned));
    if let Some(arch) = value("arch")?
        && arch != std::env::consts::ARCH
    {
        return Err(Fault::new(
            k::MPI_ERR_SPAWN,
            format!(
                "processes on hosts of architecture '{arch}' were asked for (info key arch); those of this job are {}",
                std::env::consts::ARCH
            ),
        ));
    }
    let here = || std::env::current_dir().map(|folder| folder.into_os_string().into_vec());
    let folder = match value("wdir")? {
        Some(folder) => {
            let mut whole = here().unwrap_or_default();
            if !folder.starts_with('/') && !whole.is_empty() {
                whole.push(b'/');
                whole.extend(folder.bytes());
                whole
            } else {
                folder.into_bytes()
            }
        }
        None => here().unwrap_or_else(|_| b"/".to_vec()),
    };
    let error_handler = value("mpi_initial_errhandler")?;
    if let Some(name) = &error_handler
        && !ERROR_HANDLERS.contains(&&**name)
    {
        return Err(Fault::new(
            k::MPI_ERR_SPAWN,
            format!(
                "the info key mpi_initial_errhandler is '{name}'; one of {} was expected",
                ERROR_HANDLERS.join(", ")
            ),
        ));
    }
    let counts = match value("soft")? {
        Some(soft) => soft_counts(&soft, most)?,
        None => vec![most],
    };
    Ok(Wanted {
        program: SpawnProgram {
            words,
            counts,
            folder,
            path: value("path")?.map(String::into_bytes),
            host: value("host")?,
            error_handler,
        },
        most,
    })
}

/// The numbers of processes that a soft request allows: triplets `first:last:stride`, `first:last` or `number`, separated
/// by commas (MPI 5.0, section 11.8.4).
fn soft_counts(soft: &str, most: u32) -> Checked<Vec<u32>> {
    let wrong = || {
        Fault::new(
            k::MPI_ERR_SPAWN,
            format!(
                "the info key soft is '{soft}'; numbers of processes from 1 to {most} were expected, as 2,4:8,10:20:5"
            ),
        )
    };
    let mut counts = Vec::new();
    for triplet in soft.split(',') {
        let parts: Result<Vec<i64>, _> =
            triplet.split(':').map(|part| part.trim().parse()).collect();
        let (first, last, stride) = match parts.map_err(|_| wrong())?[..] {
            [one] => (one, one, 1),
            [first, last] => (first, last, 1),
            [first, last, stride] if stride != 0 => (first, last, stride),
            _ => return Err(wrong()),
        };
        let end = |number: &i64| {
            if stride > 0 {
                *number <= last
            } else {
                *number >= last
            }
        };
        let within = |number: i64| {
            u32::try_from(number)
                .ok()
                .filter(|number| (1..=most).contains(number))
        };
        // Numbers outside of the range do not count, and a request could name any number of them.
        let steps = u64::from(MOST)
            .max(first.abs_diff(last) / stride.unsigned_abs() + 1)
            .min(u64::from(MOST) * 2);
        let numbers = std::iter::successors(Some(first), |number| number.checked_add(stride));
        let named = numbers.take_while(end).take(steps as usize);
        counts.extend(named.filter_map(within));
    }
    counts.sort_unstable();
    counts.dedup();
    match counts.is_empty() {
        true => Err(wrong()),
        false => Ok(counts),
    }
}

/// The common part of both calls. `programs` is called at the root only.
fn spawn(
    root: Root,
    comm: &Arc<Comm>,
    mut intercomm: Out<c::Comm>,
    codes: *mut c_int,
    programs: impl FnOnce() -> Checked<Vec<Wanted>>,
) -> Checked<()> {
    intercomm.set(k::MPI_COMM_NULL);
    let root = root_of(root);
    let at_root = comm.rank() == root && comm.remote_group().is_none();
    let mut port = None;
    let failed = code(k::MPI_ERR_SPAWN);
    let asked = at_root.then(|| {
        let wanted = match programs() {
            Ok(wanted) => wanted,
            Err(fault) => return (Err(fault.as_error()), Vec::new()),
        };
        let most: u32 = wanted.iter().map(|one| one.most).sum();
        match start(&wanted, &mut port) {
            Ok((started, counts)) => {
                let mut numbers = Vec::new();
                for (one, count) in wanted.iter().zip(counts) {
                    numbers
                        .extend((0..one.most).map(|index| if index < count { 0 } else { failed }));
                }
                (Ok(started), numbers)
            }
            Err(fault) => (Err(fault.as_error()), vec![failed; most as usize]),
        }
    });
    let missing = || {
        let port = port.clone()?;
        let asked = ask(JobRequest::FindPort { port });
        asked.err().map(|fault| fault.as_error().text().to_owned())
    };
    let asked = asked.map(|(started, numbers)| {
        let awaited = started.map(|(port, number)| AwaitedWorld {
            port,
            number,
            missing: &missing,
        });
        (awaited, numbers)
    });
    let made = comm.spawned(root, asked);
    if let Some(port) = port {
        // The processes for which the port was opened have come, or never will; those that have called
        // already wait for an answer.
        let request = match &made {
            Ok((_, Ok(_))) => JobRequest::ClosePort { port },
            _ => JobRequest::Abandon { port },
        };
        let _ = ask(request);
    }
    let (numbers, made) = made?;
    if !codes.is_null() {
        // SAFETY: room for one code of each process that the root has asked for (MPI 5.0, section 11.8.2).
        let codes = unsafe { check::slice_mut(codes, numbers.len(), "array_of_errcodes")? };
        for (place, number) in codes.iter_mut().zip(numbers) {
            // If the world was not met, none of its processes is left.
            let number = if made.is_ok() { number } else { failed };
            *place = number.cast_signed();
        }
    }
    intercomm.set(publish(made?, comm)?);
    Ok(())
}

/// The root: starts processes; returns the port to which they connect, the number of their world, and the
/// number of processes of each program.
fn start(wanted: &[Wanted], name: &mut Option<String>) -> Checked<((Port, u32), Vec<u32>)> {
    if state::process()?.peers() == state::process()?.first()
        && state::runtime().is_some_and(|runtime| !runtime.launcher.is_singleton())
    {
        return Err(Fault::new(
            k::MPI_ERR_SPAWN,
            "this job has no room for further processes: it was started with --on-death restart, with \
             --universe of the number of its ranks, or by another launcher than Weft's mpiexec on one host with WEFT_FABRIC=tcp; start it without these",
        ));
    }
    let port = match ask(JobRequest::OpenPort)? {
        JobAnswer::Port(port) => port,
        other => return Err(unexpected(other)),
    };
    *name = Some(port.clone());
    let parsed = PortName::parse(&port).map(|(_, parsed)| parsed);
    let PortName { owner, number } =
        parsed.ok_or_else(|| unexpected(JobAnswer::Port(port.clone())))?;
    let request = SpawnRequest {
        programs: wanted.iter().map(|one| one.program.clone()).collect(),
        port,
    };
    match ask(JobRequest::Spawn(request))? {
        JobAnswer::Spawned { counts, world } => {
            let owner = weft_fabric::Peer(owner);
            Ok(((Port { owner, number }, world), counts))
        }
        other => Err(unexpected(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_requests_name_numbers() {
        for (soft, counts) in [
            ("3", &[3][..]),
            ("1:4", &[1, 2, 3, 4]),
            ("2:8:3,1", &[1, 2, 5, 8]),
            ("8:2:-3", &[2, 5, 8]),
            ("0:100:5", &[5, 10]),
            ("-5:3", &[1, 2, 3]),
            ("1:9223372036854775807:9", &[1, 10]),
        ] {
            assert_eq!(soft_counts(soft, 10).expect(soft), counts, "{soft}");
        }
        for soft in ["", "x", "1:2:0", "1:2:3:4", "11", "0"] {
            let fault = soft_counts(soft, 10).expect_err(soft);
            assert_eq!(fault.code(), k::MPI_ERR_SPAWN);
        }
    }
}
