//! What a rank tells its launcher over its control socket: whole messages of text, one thing each.
//!
//! The launcher reads them from a process that may be broken or hostile: they are bounded, and what is
//! not understood is ignored. A rank can speak only for itself: each has a socket of its own.

use std::os::fd::AsFd;

use weft_sys::passing;

/// Longest message in bytes.
pub const LONGEST: usize = 4096;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// MPI is being initialised: from here on the process must finalise before it exits.
    Initialised,
    /// MPI was finalised.
    Finalised,
    /// The job is to end, with this exit code.
    Abort {
        /// What MPI_Abort was given.
        code: i32,
        /// What to print, possibly nothing.
        text: String,
    },
}

impl Message {
    /// As it goes over the socket.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Initialised => b"initialised".to_vec(),
            Self::Finalised => b"finalised".to_vec(),
            Self::Abort { code, text } => {
                let mut bytes = format!("abort {code} {text}");
                let mut end = bytes.len().min(LONGEST);
                while !bytes.is_char_boundary(end) {
                    end -= 1;
                }
                bytes.truncate(end);
                bytes.into_bytes()
            }
        }
    }

    /// What came over the socket; `None` if it is no message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        match &*text {
            "initialised" => Some(Self::Initialised),
            "finalised" => Some(Self::Finalised),
            text => {
                let (code, text) = text.strip_prefix("abort ")?.split_once(' ')?;
                Some(Self::Abort {
                    code: code.parse().ok()?,
                    text: text.to_owned(),
                })
            }
        }
    }

    /// Sends it.
    ///
    /// # Errors
    /// If the launcher is gone, or the descriptor is no socket.
    pub fn send(&self, socket: &impl AsFd) -> std::io::Result<()> {
        passing::send(socket, &self.encode(), &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let abort = Message::Abort {
            code: -7,
            text: "no convergence after 3 steps".into(),
        };
        for message in [Message::Initialised, Message::Finalised, abort] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        let long = Message::Abort {
            code: 1,
            text: "ß".repeat(LONGEST),
        };
        assert!(long.encode().len() <= LONGEST);
        assert!(Message::decode(&long.encode()).is_some());
    }

    #[test]
    fn nonsense_is_no_message() {
        for bytes in [
            &b""[..],
            b"abort",
            b"abort x y",
            b"abort 99999999999 x",
            b"\xff\0",
        ] {
            assert_eq!(Message::decode(bytes), None);
        }
    }
}
