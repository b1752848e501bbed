//! Control socket of a rank, from its side: it tells, and asks one question at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use weft_sys::passing;

use crate::control::{ANSWER, Answer, Message, Told};

/// The way to the launcher.
#[derive(Debug)]
pub struct ControlSocket {
    socket: OwnedFd,
    /// One question at a time.
    asking: Mutex<()>,
}

impl ControlSocket {
    /// Over this socket, at whose other end a launcher is.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            asking: Mutex::new(()),
        }
    }

    /// Tells something. A launcher that is gone does not hear it.
    pub fn tell(&self, told: Told) {
        let _ = Message::Told(told).send(&self.socket);
    }

    /// Asks a question of one or several messages, and waits for the answer; `None` if it is none.
    ///
    /// # Errors
    /// If the launcher is gone.
    pub fn ask(&self, question: &[Message]) -> io::Result<Option<Answer>> {
        let _turn = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in question {
            piece.send(&self.socket)?;
        }
        let mut bytes = vec![0; ANSWER];
        let (count, _) = passing::receive(&self.socket, &mut bytes)?;
        Ok(Answer::decode(&bytes[..count]))
    }
}
