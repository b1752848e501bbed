//! Reach of another host: the command that starts an agent there, and its three streams.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};

use weft_sys::{descriptor, process, signal};

use crate::mapping::{AgentCommand, HostSlots};
use crate::signals::HANDLED;

/// The streams of a command that was started; reading them does not wait.
#[derive(Debug)]
pub struct Reached {
    /// Its output: the agent's side of the link, after anything that shells print before.
    pub input: File,
    /// Its input.
    pub output: File,
    /// Its error output.
    pub errors: File,
}

/// Starts an agent on a host, by a command unless that is this host.
///
/// # Errors
/// If the command cannot be started.
pub fn reach(host: &HostSlots, way: &AgentCommand) -> io::Result<Reached> {
    let mut command = if host.is_here() {
        Command::new(std::env::current_exe()?)
    } else {
        let weft = way.weft()?;
        let (first, rest) = way
            .command
            .split_first()
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "an empty command"))?;
        let mut reach = Command::new(first);
        reach.args(rest).arg(host.address());
        // A remote shell takes its words apart again.
        let shell = [&b"ssh"[..], b"rsh"]
            .iter()
            .any(|name| first.as_bytes().ends_with(name));
        reach.arg(if shell {
            quoted(weft.as_os_str())
        } else {
            weft.into()
        });
        reach
    };
    command
        .arg("agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    signal::unblock_in_child(&mut command, &HANDLED)?;
    process::child_dies_with_us(&mut command, process::SIGKILL);
    let mut child = command.spawn().map_err(|error| {
        let program = command.get_program().display();
        io::Error::new(error.kind(), format!("{program}: {error}"))
    })?;
    let missing = || io::Error::other("a pipe is missing");
    let output = File::from(OwnedFd::from(child.stdin.take().ok_or_else(missing)?));
    let input = File::from(OwnedFd::from(child.stdout.take().ok_or_else(missing)?));
    let errors = File::from(OwnedFd::from(child.stderr.take().ok_or_else(missing)?));
    descriptor::set_nonblocking(&input, true)?;
    descriptor::set_nonblocking(&errors, true)?;
    Ok(Reached {
        input,
        output,
        errors,
    })
}

/// A word as a shell must read it to have it whole.
fn quoted(word: &OsStr) -> OsString {
    let bytes = word.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    if bytes.iter().all(plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            other => text.push(*other),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_through_a_shell_whole() {
        assert_eq!(
            quoted("/opt/weft/bin/mpiexec".as_ref()),
            "/opt/weft/bin/mpiexec"
        );
        assert_eq!(
            quoted("/my 'own'/weft".as_ref()),
            "'/my '\\''own'\\''/weft'"
        );
    }
}
