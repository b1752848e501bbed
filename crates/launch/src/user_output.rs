//! User output: output of this program to the user, which may fail: a disk is full, a file may not grow, a reader is gone.
//! That ends no process, but a command that could not answer does not end successfully.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use rustix::io::Errno;
use weft_sys::{signal, standard};

/// Says a line on standard error. If that cannot be written, there is nowhere else.
pub fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes the answer of a command to standard output; answers its exit code.
pub fn answer(text: impl Display) -> u8 {
    let mut out = io::stdout().lock();
    if standard::was_closed(out.as_fd()) {
        return code_of(Err(Errno::BADF.into()));
    }
    code_of(write!(out, "{text}").and_then(|()| out.flush()))
}

/// The exit code of a command whose answer was written with this result; an error that the user should know is printed.
pub fn code_of(written: io::Result<()>) -> u8 {
    match written {
        Ok(()) => 0,
        // A reader that has closed a pipe wants no more.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => 0,
        Err(error) => {
            tell(format_args!(
                "weft: standard output could not be written: {error}"
            ));
            1
        }
    }
}

/// Makes a file that may not grow (`ulimit -f`) an error of its writer, not the end of this process. Started processes
/// get the former setting, if they are started with [`HANDLED`](crate::signals::HANDLED).
pub fn outlive_full_files() {
    // Without it we end where somebody else would.
    let _ = signal::block(&[libc::SIGXFSZ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_written_is_no_success() {
        for (written, code) in [
            (Ok(()), 0),
            (Err(ErrorKind::BrokenPipe.into()), 0),
            (Err(ErrorKind::StorageFull.into()), 1),
        ] {
            assert_eq!(code_of(written), code);
        }
    }
}
