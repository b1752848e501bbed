//! Control socket of a rank, from its side: it sends messages, and asks one question at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use weft_mpi::waits::RankWaits;
use weft_sys::passing;

use crate::control::{ANSWER, Answer, Message, Notice};
use crate::job_request::JobRequest;

/// The way to the launcher.
#[derive(Debug)]
pub struct ControlSocket {
    socket: OwnedFd,
    /// One question at a time.
    asking: Mutex<()>,
    /// For data that take several messages, one after the other.
    telling: Mutex<()>,
}

impl ControlSocket {
    /// Over this socket, with a launcher at the other end.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            asking: Mutex::new(()),
            telling: Mutex::new(()),
        }
    }

    /// Sends a notice. Lost if the launcher is gone.
    pub fn tell(&self, told: Notice) {
        let _ = Message::Notice(told).send(&self.socket);
    }

    /// Answers an inquiry with what this process waits for. Lost if the launcher is gone.
    pub fn tell_waits(&self, waits: &RankWaits) {
        // One after the other: pieces of two answers must not mix.
        let _turn = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in Message::waits(waits) {
            if piece.send(&self.socket).is_err() {
                return;
            }
        }
    }

    /// Says whether this process is connected with other worlds. If it is not, the launcher, on any host, knows it when
    /// this returns: other processes of its world, which may go on then, may end in any way, and the meaning of their end
    /// depends on it.
    pub fn tell_connected(&self, connected: bool) {
        if connected {
            return self.tell(Notice::Connected);
        }
        self.tell_and_wait(Notice::Independent);
    }

    /// Sends a notice that the launcher, on any host, knows when this returns.
    pub fn tell_and_wait(&self, told: Notice) {
        self.tell(told);
        // A launcher that is gone ends this process by its lifeline.
        let _ = self.ask(&Message::pieces(&JobRequest::Heard));
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use weft_sys::descriptor::{Carries, socket_pair};

    use super::*;
    use crate::job_request::JobAnswer;

    #[test]
    fn a_rank_that_says_goodbye_goes_on_when_that_was_heard() {
        let (launcher, rank) = socket_pair(Carries::Messages).expect("descriptors are left");
        let mut bytes = vec![0; ANSWER];
        let mut heard = || {
            let (count, _) = passing::receive(&launcher, &mut bytes).expect("told");
            Message::decode(&bytes[..count])
        };
        let (sender, returned) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let control = ControlSocket::new(rank);
                for connected in [true, false] {
                    control.tell_connected(connected);
                    sender.send(connected).expect("waited for");
                }
            });
            assert_eq!(heard(), Some(Message::Notice(Notice::Connected)));
            assert_eq!(returned.recv(), Ok(true), "nobody answers that");
            assert_eq!(heard(), Some(Message::Notice(Notice::Independent)));
            assert!(matches!(heard(), Some(Message::Ask { last: true, .. })));
            let early = returned.recv_timeout(Duration::from_millis(50));
            assert!(early.is_err(), "the launcher has not answered");
            let answer = Answer::Job(JobAnswer::Done).encode();
            passing::send(&launcher, &answer, &[]).expect("asked");
            assert_eq!(returned.recv(), Ok(false));
        });
    }
}
