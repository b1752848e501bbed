//! Standard stream of the launcher that output goes to: standard output, standard error, or both if they are the same.
//!
//! Writing never waits: a slow reader must not keep the launcher from noticing that a rank has died. The descriptor is
//! shared with the process that started the launcher, so its mode is not changed; instead the launcher asks whether there
//! is room and then writes no more than what surely fits.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use rustix::io::Errno;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::standard;

/// A pipe that is ready to be written to takes so many bytes without waiting (PIPE_BUF).
const SURELY: usize = 4096;

/// Bytes written before others get their turn.
const TURN: usize = 256 << 10;

/// From so many waiting bytes on, ranks have to wait.
const FULL: usize = 256 << 10;

/// Standard output or standard error, and what waits to be written there.
#[derive(Debug)]
pub struct StandardStream {
    file: File,
    waiting: Vec<u8>,
    /// How much of `waiting` has been written.
    written: usize,
    /// Bytes that can be written at once when there is room.
    step: usize,
    /// The process that started us had closed it: the file that is open there now is another one.
    closed: bool,
    /// Why nothing can be written any more.
    broken: Option<io::Error>,
    /// The last byte that was put in ended a line.
    fresh: bool,
}

impl StandardStream {
    /// Writes to what this descriptor is.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(to: BorrowedFd<'_>) -> io::Result<Self> {
        let file = File::from(to.try_clone_to_owned()?);
        // Only disks take any amount without waiting for somebody.
        let disk = file.metadata().is_ok_and(|found| {
            !found.file_type().is_fifo()
                && !found.file_type().is_socket()
                && !found.file_type().is_char_device()
        });
        Ok(Self {
            file,
            waiting: Vec::new(),
            written: 0,
            step: if disk { TURN } else { SURELY },
            closed: standard::was_closed(to),
            broken: None,
            fresh: true,
        })
    }

    /// Whether two descriptors are the same file or terminal.
    pub fn same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
        let identity = |descriptor: BorrowedFd<'_>| -> io::Result<(u64, u64)> {
            let found = File::from(descriptor.try_clone_to_owned()?).metadata()?;
            Ok((found.dev(), found.ino()))
        };
        matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Puts bytes at the end of what waits.
    pub fn push(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.fresh = *last == b'\n';
        }
        if self.broken.is_none() {
            self.waiting.extend_from_slice(bytes);
        }
    }

    /// Whether what was put in ends with a whole line.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether so much waits that no more should be put in.
    pub fn is_full(&self) -> bool {
        self.waiting.len() - self.written >= FULL
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.len() == self.written
    }

    /// Whether nothing can be written any more.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Why bytes were lost, if somebody may have wanted them: a disk that is full, a stream that was never open. Who closes a pipe wants no more.
    pub fn loss(&self) -> Option<&io::Error> {
        let wanted = |error: &&io::Error| error.kind() != io::ErrorKind::BrokenPipe;
        self.broken.as_ref().filter(wanted)
    }

    /// Writes what can be written without waiting.
    pub fn write(&mut self) {
        let mut left = TURN;
        while !self.is_empty() && left > 0 {
            let mut room = [PollFd::new(&self.file, Interest::Write)];
            if !matches!(poll::wait(&mut room, Some(Duration::ZERO)), Ok(1)) {
                break;
            }
            let end = self.waiting.len().min(self.written + self.step.min(left));
            let written = match self.closed {
                true => Err(Errno::BADF.into()),
                false => self.file.write(&self.waiting[self.written..end]),
            };
            match written {
                Ok(count) if count > 0 => {
                    self.written += count;
                    left = left.saturating_sub(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                failed => {
                    let error = failed.err().unwrap_or(io::ErrorKind::WriteZero.into());
                    self.broken = Some(error);
                    self.written = self.waiting.len();
                }
            }
        }
        if self.is_empty() {
            self.waiting.clear();
            self.written = 0;
        } else if self.written > FULL {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
    }
}

impl AsFd for StandardStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use weft_sys::descriptor;

    #[test]
    fn a_full_pipe_does_not_hold_us_up() {
        let (reader, writer) = descriptor::pipe().expect("descriptors are left");
        let mut stream = StandardStream::new(writer.as_fd()).expect("duplicates");
        drop(writer);
        let text: Vec<u8> = (0..500_000u32).map(|index| (index % 251) as u8).collect();
        stream.push(&text);
        assert!(stream.is_full());
        stream.write();
        assert!(
            !stream.is_empty(),
            "a pipe does not take half a million bytes"
        );
        let mut reader = File::from(reader);
        let mut heard = Vec::new();
        let mut some = vec![0; 10_000];
        while heard.len() < text.len() {
            let count = reader.read(&mut some).expect("readable");
            heard.extend_from_slice(&some[..count]);
            stream.write();
        }
        assert!(heard == text && stream.is_empty());
    }

    #[test]
    fn a_reader_that_is_gone_is_noticed() {
        let (reader, writer) = descriptor::pipe().expect("descriptors are left");
        let mut stream = StandardStream::new(writer.as_fd()).expect("duplicates");
        stream.push(b"x");
        drop(reader);
        stream.write();
        assert!(stream.is_broken() && stream.is_empty());
        stream.push(b"y");
        assert!(stream.is_empty());
        assert!(stream.loss().is_none(), "nobody wanted it");
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_lost() {
        let full = File::options().write(true).open("/dev/full");
        let full = full.expect("Linux has it");
        let mut stream = StandardStream::new(full.as_fd()).expect("duplicates");
        stream.push(b"x");
        stream.write();
        assert!(stream.is_broken() && stream.is_empty());
        let loss = stream.loss().map(io::Error::kind);
        assert_eq!(loss, Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn the_same_file_is_recognised() {
        let (one, other) = descriptor::pipe().expect("descriptors are left");
        let (third, _fourth) = descriptor::pipe().expect("descriptors are left");
        assert!(
            StandardStream::same(one.as_fd(), other.as_fd()),
            "two ends of one pipe"
        );
        assert!(!StandardStream::same(one.as_fd(), third.as_fd()));
    }
}
