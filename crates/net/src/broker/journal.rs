//! Journal: messages for the administrator, on standard error. The broker neither waits for a reader, nor ends
//! because there is none, nor writes more in a second than can be read.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use weft_sys::poll::{self, Interest, PollFd};

/// Most sentences in a second.
const MOST: u32 = 20;

const SECOND: u64 = 1_000_000_000;

/// The latest messages.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// When the second that is counted began, in nanoseconds.
    began: u64,
    said: u32,
    left_out: u64,
}

impl Journal {
    /// Says a sentence, or counts it if there were too many.
    pub(super) fn say(&mut self, now: u64, sentence: fmt::Arguments<'_>) {
        if self.admits(now) {
            write(format_args!("weft net: {sentence}\n"));
        }
    }

    fn admits(&mut self, now: u64) -> bool {
        if now >= self.began.saturating_add(SECOND) {
            if self.left_out > 0 {
                write(format_args!(
                    "weft net: {} messages were left out\n",
                    self.left_out
                ));
            }
            *self = Self {
                began: now,
                ..Self::default()
            };
        }
        let admits = self.said < MOST;
        self.said += u32::from(admits);
        self.left_out += u64::from(!admits);
        admits
    }
}

/// One sentence, if there is room for it.
fn write(text: fmt::Arguments<'_>) {
    let error = io::stderr();
    let mut entries = [PollFd::new(&error, Interest::Write)];
    if matches!(poll::wait(&mut entries, Some(Duration::ZERO)), Ok(1)) {
        // If this fails, nobody is left to be told.
        let _ = (&error).write_all(text.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_said() {
        let mut journal = Journal::default();
        let said = |journal: &mut Journal, now| (0..1_000).filter(|_| journal.admits(now)).count();
        assert_eq!(said(&mut journal, SECOND), MOST as usize);
        assert_eq!(journal.left_out, 1_000 - u64::from(MOST));
        assert_eq!(said(&mut journal, 2 * SECOND), MOST as usize);
    }
}
