//! Fibers for C (`weft_fiber.h`): one runtime for the process, made when the first is started.
//!
//! A name consists of the incarnation in the upper bits and the number: it is never 0, and never reused.
//! Joining or detaching claims a fiber by its name, which succeeds once ([`JoinHandle::claim`]); all other
//! calls return `-ESRCH`, in whatever order.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use weft_fiber::{Builder, Config, Fiber, Guard, JoinHandle, Runtime};
use weft_sys::error::keep_errno;

use crate::{last_error, state};

/// The fibers of the process. A C program ends by `exit`, whatever its fibers do, so the runtime is never
/// dropped.
static FIBERS: OnceLock<Runtime> = OnceLock::new();

/// Requested number of workers; 0 if none was requested.
static WORKERS: Mutex<usize> = Mutex::new(0);

/// `weft_fiber_attributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    stack: usize,
    worker: c_int,
    migrating: c_int,
}

const _: () = assert!(size_of::<Attributes>() == 16);

/// The function of a fiber.
pub type Body = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// Result of a fiber of C: an address as a number, since it moves between threads.
type Answer = usize;

#[cold]
fn refuse(errno: c_int, text: impl Into<String>) -> c_int {
    last_error::keep(text);
    -errno
}

fn runtime() -> Result<&'static Runtime, c_int> {
    if let Some(runtime) = FIBERS.get() {
        return Ok(runtime);
    }
    let asked = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    if FIBERS.get().is_none() {
        match Runtime::new(config(*asked)) {
            Ok(runtime) => _ = FIBERS.set(runtime),
            Err(error) => {
                return Err(refuse(
                    libc::EAGAIN,
                    format!(
                        "the tables of fibers could not be made: {error}; raise the limit of address space (ulimit -v)"
                    ),
                ));
            }
        }
    }
    FIBERS
        .get()
        .ok_or_else(|| refuse(libc::EAGAIN, "the tables of fibers could not be made"))
}

/// Ranks of one host share its cores: each rank gets its part, and pins its workers if every worker of the
/// job can have its own core.
fn config(asked: usize) -> Config {
    let cores = weft_sys::cores::cores_available();
    let (rank, size) = state::rank_and_size().unwrap_or((0, 1));
    let (rank, size) = (rank as usize, (size as usize).max(1));
    let workers = match asked {
        0 => (cores / size).max(1),
        asked => asked,
    };
    Config {
        workers,
        pin: (workers * size <= cores).then_some(rank * workers),
        // SAFETY: the header makes the C program responsible for this.
        guard: unsafe { Guard::where_possible() },
        ..Config::default()
    }
}

fn name(fiber: Fiber) -> u64 {
    u64::from(fiber.incarnation()) << 32 | u64::from(fiber.number())
}

fn find(name: u64) -> Result<Fiber, c_int> {
    FIBERS
        .get()
        .and_then(|runtime| runtime.find(name as u32, (name >> 32) as u32))
        .ok_or_else(|| {
            refuse(
                libc::ESRCH,
                format!(
                    "{name:#x} names no fiber: it has ended and was joined or detached; join each once"
                ),
            )
        })
}

/// The right to join or detach a fiber.
fn claim(fiber: Fiber) -> Result<JoinHandle<Answer>, c_int> {
    // SAFETY: all fibers that this runtime names are started below, with this type.
    unsafe { JoinHandle::claim(fiber) }.ok_or_else(|| {
        refuse(
            libc::ESRCH,
            format!(
                "the fiber {:#x} was joined or detached before; join or detach each once",
                name(fiber)
            ),
        )
    })
}

fn answered(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

/// `weft_fiber_spawn`.
///
/// # Safety
/// As the header says; `body` must be a function, `attributes` null or readable, `fiber` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_fiber_spawn(
    fiber: *mut u64,
    attributes: *const Attributes,
    body: Option<Body>,
    argument: *mut c_void,
) -> c_int {
    answered((|| {
        let Some(body) = body else {
            return Err(refuse(
                libc::EINVAL,
                "body is NULL; name the function that the fiber runs",
            ));
        };
        // SAFETY: `attributes` is null or points to attributes until the call returns (`weft_fiber_spawn`).
        let asked = unsafe { attributes.as_ref() };
        let mut builder = Builder::new();
        if let Some(asked) = asked {
            if asked.stack > weft_fiber::LARGEST_STACK {
                return Err(refuse(
                    libc::EINVAL,
                    format!(
                        "a stack of {} bytes was asked for; 67108864 are the most",
                        asked.stack
                    ),
                ));
            }
            if asked.stack > 0 {
                builder = builder.stack(asked.stack);
            }
            match usize::try_from(asked.worker) {
                Ok(worker) if worker < runtime()?.workers() => builder = builder.worker(worker),
                Ok(worker) => {
                    return Err(refuse(
                        libc::EINVAL,
                        format!(
                            "worker {worker} was asked for; there are {}, numbered from 0 (weft_fiber_set_workers)",
                            runtime()?.workers()
                        ),
                    ));
                }
                Err(_) => {}
            }
            if asked.migrating != 0 {
                // SAFETY: the header makes the C program responsible for this.
                builder = unsafe { builder.migrating() };
            }
        }
        let argument = argument.expose_provenance();
        let run = move || -> Answer {
            // SAFETY: `body` is a function that may be called once with `argument`, on the fiber's stack
            // (`weft_fiber_spawn`).
            unsafe { body(std::ptr::with_exposed_provenance_mut(argument)) }.expose_provenance()
        };
        let full = |error: std::io::Error| refuse(libc::EAGAIN, error.to_string());
        if fiber.is_null() {
            // The handle is dropped: nobody will join.
            builder.spawn_on(runtime()?, run).map_err(full)?;
            return Ok(());
        }
        let started = builder.spawn_unclaimed_on(runtime()?, run).map_err(full)?;
        // SAFETY: `fiber` is not null, so it points to a handle of the caller (`weft_fiber_spawn`).
        unsafe { fiber.write(name(started)) };
        Ok(())
    })())
}

/// `weft_fiber_join`.
///
/// # Safety
/// `result` must be null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_fiber_join(fiber: u64, result: *mut *mut c_void) -> c_int {
    answered((|| {
        let found = find(fiber)?;
        if weft_fiber::current() == Some(found) {
            return Err(refuse(
                libc::EDEADLK,
                "a fiber waits for its own end; join it from another, or detach it",
            ));
        }
        let handle = claim(found)?;
        let answer = keep_errno(|| handle.join()).map_err(|_| {
            refuse(
                libc::ECANCELED,
                "the fiber was ended by a panic of the library",
            )
        })?;
        if !result.is_null() {
            // SAFETY: `result` is not null, so it points to a pointer of the caller (`weft_fiber_join`).
            unsafe { result.write(std::ptr::with_exposed_provenance_mut(answer)) };
        }
        Ok(())
    })())
}

/// `weft_fiber_detach`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_detach(fiber: u64) -> c_int {
    answered(find(fiber).and_then(claim).map(drop))
}

/// `weft_fiber_yield`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_yield() -> c_int {
    keep_errno(weft_fiber::yield_now);
    0
}

/// `weft_fiber_park`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_park() -> c_int {
    if !weft_fiber::is_fiber() {
        return refuse(
            libc::EPERM,
            "the caller is no fiber; wait in one that weft_fiber_spawn started",
        );
    }
    keep_errno(weft_fiber::park);
    0
}

/// `weft_fiber_signal`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_signal(fiber: u64) -> c_int {
    answered(find(fiber).map(Fiber::signal))
}

/// `weft_fiber_self`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_self() -> u64 {
    weft_fiber::current().map_or(0, name)
}

/// `weft_fiber_workers`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_workers() -> c_int {
    match runtime() {
        Ok(runtime) => c_int::try_from(runtime.workers()).unwrap_or(c_int::MAX),
        Err(code) => code,
    }
}

/// `weft_fiber_worker`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_worker() -> c_int {
    match weft_fiber::current_worker() {
        Some(worker) => c_int::try_from(worker).unwrap_or(c_int::MAX),
        None => refuse(libc::EPERM, "the caller is no fiber, so no worker runs it"),
    }
}

/// `weft_fiber_set_workers`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fiber_set_workers(workers: c_int) -> c_int {
    let Some(wanted) = usize::try_from(workers)
        .ok()
        .filter(|wanted| (1..=64).contains(wanted))
    else {
        return refuse(
            libc::EINVAL,
            format!("{workers} workers were asked for; 1 to 64 are possible"),
        );
    };
    let mut asked = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    if FIBERS.get().is_some() {
        return refuse(
            libc::EBUSY,
            "there are fibers already; say how many workers before the first is started",
        );
    }
    *asked = wanted;
    0
}

#[cfg(test)]
mod tests;
