//! Standard streams: which of them were closed when this process began, and the size of the terminal that one is.
//!
//! The run-time library of Rust opens `/dev/null` in place of a closed one before `main`: what is written there is lost without a
//! word. So this module checks before that, when the loader starts the process, so that code that writes for others can report the
//! problem.

use std::os::fd::{AsRawFd, BorrowedFd};

use weft_atomic::AtomicU8;
use weft_atomic::Ordering::Relaxed;

/// A bit for each stream that was closed. Written before there is a second thread.
static CLOSED: AtomicU8 = AtomicU8::new(0);

// SAFETY: the loader calls the functions in this section, which have this type, once it has relocated this object. C's
// library is ready then, Rust's is not needed: the function asks the kernel, and stores into a static.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: asks about a number, which need not be open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Relaxed);
        }
    }
}

/// Whether this is standard input, output or error, and was closed when this process began. What is open there now did not
/// come from the process's starter.
#[must_use]
pub fn was_closed(stream: BorrowedFd<'_>) -> bool {
    let number = stream.as_raw_fd();
    (0..3).contains(&number) && CLOSED.load(Relaxed) & 1 << number != 0
}

/// Columns and rows of the terminal that standard output is, if it is one that says so.
#[must_use]
pub fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}
