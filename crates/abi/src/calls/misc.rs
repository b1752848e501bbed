//! Clocks, versions, names.

use std::ffi::c_int;
use std::sync::LazyLock;
use std::time::Instant;

use weft_mpi::info::Info;

use crate::args::{Out, TextOut};
use crate::c;
use crate::calls::abi::new_info;
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::tool::settings;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Seconds of the monotonic clock of the host, the same for all its processes.
pub fn wtime() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the time there.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) } != 0 {
        return START.elapsed().as_secs_f64();
    }
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

pub fn wtick() -> f64 {
    1e-9
}

/// Level 0 disables events, any higher level enables them; further arguments are for profiling libraries.
pub fn pcontrol(level: c_int) -> Checked<()> {
    settings::set_level(level);
    Ok(())
}

pub fn get_version(mut version: Out<c_int>, mut subversion: Out<c_int>) -> Checked<()> {
    version.set(k::MPI_VERSION);
    subversion.set(k::MPI_SUBVERSION);
    Ok(())
}

pub fn get_library_version(mut version: TextOut, mut resultlen: Out<c_int>) -> Checked<()> {
    let text = concat!("Weft ", env!("CARGO_PKG_VERSION"), ", MPI 5.0 ABI 1.0");
    resultlen.set(version.set(text, k::MPI_MAX_LIBRARY_VERSION_STRING as usize) as c_int);
    Ok(())
}

pub fn get_processor_name(mut name: TextOut, mut resultlen: Out<c_int>) -> Checked<()> {
    let mut bytes = [0_u8; k::MPI_MAX_PROCESSOR_NAME as usize];
    // SAFETY: the length is that of the array; the kernel writes a name that fits or fails.
    let failed = unsafe { libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len()) } != 0;
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let host = String::from_utf8_lossy(&bytes[..end]);
    let host = if failed || host.is_empty() {
        "localhost".into()
    } else {
        host
    };
    resultlen.set(name.set(&host, bytes.len()) as c_int);
    Ok(())
}

pub fn get_hw_resource_info(mut hw_info: Out<c::Info>) -> Checked<()> {
    hw_info.set(new_info(Info::default())?);
    Ok(())
}
