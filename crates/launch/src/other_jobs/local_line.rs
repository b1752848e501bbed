//! Local line: a local socket to the root of another job, and a thread that receives from it, so that no thread waits for
//! it without making progress.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak, mpsc};

use rustix::net::{Shutdown, shutdown};
use weft_mpi::comm::Line;
use weft_mpi::{Process, Result};
use weft_sys::{descriptor, passing, signal};

use super::{gone, notify, taken};

/// Bytes of one piece of a message.
const PIECE: usize = 32 << 10;

/// A local socket to the root of another job.
pub(super) struct LocalLine {
    socket: Arc<OwnedFd>,
    heard: mpsc::Receiver<Vec<u8>>,
}

impl LocalLine {
    pub fn new(socket: OwnedFd, process: Weak<Process>) -> io::Result<Self> {
        descriptor::set_nonblocking(&socket, false)?;
        let socket = Arc::new(socket);
        let (tell, heard) = mpsc::channel();
        let (hears, told) = (Arc::clone(&socket), process);
        signal::spawn_without_signals("weft-watch", move || {
            while let Some(message) = hear(&hears) {
                if tell.send(message).is_err() {
                    return;
                }
                notify(&told);
            }
            drop(tell);
            notify(&told);
        })?;
        Ok(Self { socket, heard })
    }
}

/// A message; `None` if the other side is gone.
fn hear(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut piece = vec![0; PIECE + 1];
    loop {
        let (count, _) = passing::receive(socket, &mut piece).ok()?;
        let (more, bytes) = piece[..count].split_first()?;
        message.extend(bytes);
        if *more == 0 {
            return Some(message);
        }
    }
}

impl Line for LocalLine {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let pieces: Vec<&[u8]> = match message.is_empty() {
            true => vec![message],
            false => message.chunks(PIECE).collect(),
        };
        for (number, part) in pieces.iter().enumerate() {
            let more = u8::from(number + 1 < pieces.len());
            let mut piece = vec![more];
            piece.extend(*part);
            passing::send(&*self.socket, &piece, &[]).map_err(|_| gone())?;
        }
        Ok(())
    }

    fn take(&mut self) -> Option<Result<Vec<u8>>> {
        taken(&self.heard)
    }

    fn is_between_hosts(&self) -> bool {
        false
    }
}

impl Drop for LocalLine {
    fn drop(&mut self) {
        // The thread hears the end.
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_length_go_by_a_line_and_its_end_is_heard() {
        let (one, other) =
            descriptor::socket_pair(descriptor::Carries::Messages).expect("descriptors are left");
        let mut line = LocalLine::new(one, Weak::new()).expect("a thread");
        let mut message = vec![0; 3 * PIECE + 5];
        message[PIECE] = 7;
        for message in [&message[..], &[], &message[..PIECE]] {
            line.send(message).expect("somebody hears");
            assert_eq!(hear(&other).as_deref(), Some(message));
        }
        drop(line);
        assert_eq!(hear(&other), None);
    }
}
