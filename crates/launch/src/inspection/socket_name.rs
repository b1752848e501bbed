//! Names of the sockets of running jobs: abstract ones, which are in no file system.
//!
//! ```text
//!   @weft-job-USER-LAUNCHER-TRY        TRY counts up if the name is taken: by a process of another PID namespace
//! ```

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// What all of them begin with.
const PREFIX: &str = "weft-job-";
/// So often another name is tried.
const TRIES: u32 = 16;
/// Of `/proc/net/unix`: what says that a socket listens, and the type of a stream.
const LISTENS: &str = "00010000";
const STREAM: &str = "0001";

/// The name of the socket of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketName(String);

impl SocketName {
    fn new(user: u32, launcher: u32, attempt: u32) -> Self {
        Self(format!("{PREFIX}{user}-{launcher}-{attempt}"))
    }

    /// It, as the kernel has it.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Its address.
    ///
    /// # Errors
    /// If it is too long; ours are not.
    fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(self.0.as_bytes())
    }
}

/// A socket of this name, for the job of a launcher.
///
/// # Errors
/// If the kernel has no such sockets here, or all names are taken.
pub fn listen(user: u32, launcher: u32) -> io::Result<UnixListener> {
    let mut last = None;
    for attempt in 0..TRIES {
        let name = SocketName::new(user, launcher, attempt);
        match UnixListener::bind_addr(&name.address()?) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(listener);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

/// The names of the jobs of a user that listen in this network namespace.
///
/// # Errors
/// If `/proc/net/unix` cannot be read.
pub fn of_user(user: u32) -> io::Result<Vec<SocketName>> {
    let table = std::fs::read("/proc/net/unix")?;
    Ok(find(&String::from_utf8_lossy(&table), user))
}

/// The names of a user's jobs in the kernel's table of local sockets. Whoever wants may have put names there.
fn find(table: &str, user: u32) -> Vec<SocketName> {
    let prefix = format!("{PREFIX}{user}-");
    let name = |line: &str| {
        // Number, references, protocol, flags, type, state, inode, name.
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, _, flags, kind, _, _, name] = fields[..] else {
            return None;
        };
        let name = name.strip_prefix('@')?;
        let numbers = name.strip_prefix(&prefix)?.split_once('-')?;
        let are_numbers = numbers.0.parse::<u32>().is_ok() && numbers.1.parse::<u32>().is_ok();
        let listens = flags == LISTENS && kind == STREAM;
        (listens && are_numbers).then(|| SocketName(name.to_owned()))
    };
    table.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_jobs_that_listen_are_found() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 16163 @weft-job-10-77-0
0000000000000000: 00000002 00000000 00010000 0001 01 16163 @weft-job-10-77-1
0000000000000000: 00000003 00000000 00000000 0001 03 16164 @weft-job-10-78-0
0000000000000000: 00000002 00000000 00010000 0001 01 16165 @weft-job-1-79-0
0000000000000000: 00000002 00000000 00010000 0001 01 16165 @weft-job-101-79-0
0000000000000000: 00000002 00000000 00010000 0005 01 16165 @weft-job-10-79-0
0000000000000000: 00000002 00000000 00010000 0001 01 16166 weft-job-10-80-0
0000000000000000: 00000002 00000000 00010000 0001 01 16166 /tmp/weft-job-10-80-0
0000000000000000: 00000002 00000000 00010000 0001 01 16167 @weft-job-10-81
0000000000000000: 00000002 00000000 00010000 0001 01 16167 @weft-job-10-x-0
0000000000000000: 00000002 00000000 00010000 0001 01 16168 @weft-job-10-82-0 more
0000000000000000: 00000002 00000000 00010000 0001 01 16169
@weft-job-10-83-0
\u{fffd}\0";
        let names: Vec<String> = find(table, 10).into_iter().map(|name| name.0).collect();
        assert_eq!(names, ["weft-job-10-77-0", "weft-job-10-77-1"]);
        assert_eq!(find("", 10), []);
    }

    #[test]
    fn a_name_that_is_taken_is_passed_over_and_goes_with_its_socket() {
        // A user that nobody is: no name of a job.
        let (user, launcher) = (u32::MAX - 3, std::process::id());
        let one = listen(user, launcher).expect("abstract sockets");
        let two = listen(user, launcher).expect("another name");
        let names = of_user(user).expect("the table of sockets");
        assert!(names.contains(&SocketName::new(user, launcher, 0)));
        assert!(names.contains(&SocketName::new(user, launcher, 1)));
        drop((one, two));
        assert_eq!(of_user(user).expect("the table of sockets"), []);
    }
}
