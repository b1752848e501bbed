//! Control messages between a rank and its launcher, over the rank's control socket: notices and questions of the rank,
//! and answers. Each is a whole message of text.
//!
//! A notice has no answer. A question has one answer, and a rank asks one question at a time.
//!
//! The launcher reads them from a process that may be broken or hostile: they are bounded, and what is not understood is
//! ignored. A rank can speak only for itself: each has a socket of its own.

use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};
use weft_mpi::waits::RankWaits;
use weft_secure::Key;
use weft_sys::passing;

use crate::hex::{hex, unhex};
use crate::hosts::message;
use crate::inspection::counters::CounterPlaces;
use crate::job_request::{JobAnswer, JobRequest};

/// Longest name of a value that ranks exchange, in bytes; letters, digits, `-`, `_` and `.`.
pub const NAME_LIMIT: usize = 32;
/// Longest value that ranks exchange, in bytes.
pub const VALUE_LIMIT: usize = 4096;
/// Longest message in bytes.
pub const LONGEST: usize = 3 * VALUE_LIMIT;
/// Longest answer in bytes: a value, or a part of the hosts of many ranks. It must fit the buffer of a socket, whatever
/// else waits there: a longer one is never sent.
pub const ANSWER: usize = 64 << 10;
/// Longest part of the hosts of many ranks, in bytes; the next one is asked for.
const PART: usize = 32 << 10;
/// Most bytes of what a rank tells of its waits.
const LONGEST_WAITS: usize = 256 << 10;
/// Longest text of an abort, so much of it is kept.
const TEXT: usize = 4096;

/// A rank's notices about itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// MPI is being initialised: from here on the process must finalise before it exits.
    Initialised,
    /// MPI was finalised.
    Finalised,
    /// The job is to end, with this exit code.
    Abort {
        /// The code given to `MPI_Abort`.
        code: i32,
        /// The text to print, possibly empty.
        text: String,
    },
    /// It cannot go on because another process is lost: an end that it reports next follows from that.
    EndsByLoss,
    /// It shares a communicator with processes of another world, which die with it.
    Connected,
    /// It no longer does.
    Independent,
    /// Its process, and the addresses of the counters in its memory that are shown when the running job is inspected.
    Counters(CounterPlaces),
    /// It goes on when others die, and is to be told of their deaths.
    HandlesLosses,
    /// It has used sessions only and has ended them: the others of its world will not meet it in `MPI_Finalize`.
    Absent,
}

/// One message: a notice, or a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A notice; not answered.
    Notice(Notice),
    /// Asks to keep a value of this rank.
    Put {
        /// Its name.
        name: String,
        /// What others may read after the next fence.
        value: Vec<u8>,
    },
    /// Asks to be answered when all ranks have asked this.
    Fence,
    /// Asks for a value of a rank.
    Get {
        /// The owner of the value.
        rank: u32,
        /// Its name.
        name: String,
    },
    /// Asks for the host of each rank, and for the key of the job: for the text from this byte on.
    AskHosts {
        /// Where it begins.
        from: usize,
    },
    /// A piece of a [`JobRequest`]; answered after the last one.
    Ask {
        /// This is the last one.
        last: bool,
        /// The next bytes of it.
        piece: Vec<u8>,
    },
    /// A piece of what this rank waits for: [`RankWaits`]. It answers an inquiry, and is not answered.
    Waits {
        /// This is the last one.
        last: bool,
        /// The next bytes of it.
        piece: Vec<u8>,
    },
}

/// A rank's answer about its waits, as far as its pieces have come.
#[derive(Debug, Default)]
pub struct WaitsInPieces {
    bytes: Vec<u8>,
}

impl WaitsInPieces {
    /// Takes the next piece. Returns the whole with the last one; an answer that is too long is dropped.
    pub fn take(&mut self, last: bool, piece: &[u8]) -> Option<RankWaits> {
        if self.bytes.len() + piece.len() <= LONGEST_WAITS {
            self.bytes.extend_from_slice(piece);
        }
        if !last {
            return None;
        }
        message::decode(&std::mem::take(&mut self.bytes))
    }
}

/// Answers of a launcher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The value is kept; all ranks have come.
    Taken,
    /// The value asked for, if there is one.
    Value(Option<Vec<u8>>),
    /// The host of each rank.
    Hosts {
        /// The key of the job.
        key: Key,
        /// Total number of bytes.
        total: usize,
        /// A part of how [`HostMap`](crate::bootstrap::HostMap) writes the host of each rank.
        part: String,
    },
    /// It cannot be done.
    Refused {
        /// Why.
        reason: String,
    },
    /// The answer of the job to a request.
    Job(JobAnswer),
}

/// Whether a value may be kept under a name.
pub fn is_value(name: &str, value: &[u8]) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let good = !name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(letter);
    good && value.len() <= VALUE_LIMIT
}

/// A name under which a value may be kept.
fn name(text: &str) -> Option<String> {
    is_value(text, b"").then(|| text.to_owned())
}

/// What is longer than a message, piece by piece, each with whether it is the last one.
fn in_pieces(bytes: &[u8]) -> impl Iterator<Item = (bool, Vec<u8>)> {
    let pieces = bytes.chunks(VALUE_LIMIT);
    let last = pieces.len();
    let piece = move |(index, piece): (usize, &[u8])| (index + 1 == last, piece.to_vec());
    pieces.enumerate().map(piece)
}

/// Whether a piece is the last one.
fn is_last(word: &str) -> Option<bool> {
    match word {
        "last" => Some(true),
        "more" => Some(false),
        _ => None,
    }
}

fn value(text: &str) -> Option<Vec<u8>> {
    unhex(text).filter(|value| value.len() <= VALUE_LIMIT)
}

impl Answer {
    /// For a rank that puts too much.
    pub fn no_room() -> Self {
        Self::Refused {
            reason: format!(
                "the launcher does not keep this value: a rank may keep a few hundred, each of at most \
                 {VALUE_LIMIT} bytes under a name of at most {NAME_LIMIT}"
            ),
        }
    }

    /// The hosts of all ranks, from a byte on.
    pub fn hosts(key: &Key, all: &str, from: usize) -> Self {
        let mut end = all.len().min(from.saturating_add(PART));
        while !all.is_char_boundary(end) {
            end -= 1;
        }
        match all.get(from..end) {
            Some(part) => Self::Hosts {
                key: key.clone(),
                total: all.len(),
                part: part.to_owned(),
            },
            None => Self::Refused {
                reason: format!(
                    "the places of all ranks have {} bytes, not {from}",
                    all.len()
                ),
            },
        }
    }

    /// As it goes over the socket.
    pub fn encode(&self) -> Vec<u8> {
        let text = match self {
            Self::Taken => "taken".into(),
            Self::Value(None) => "nothing".into(),
            Self::Value(Some(value)) => format!("value {}", hex(value)),
            Self::Hosts { key, total, part } => {
                format!("places {} {total} {part}", key.to_text())
            }
            Self::Refused { reason } => format!("refused {reason}"),
            Self::Job(answer) => format!("job {}", hex(&message::encode(answer))),
        };
        text.into_bytes()
    }

    /// A message from the socket; `None` if it is no answer.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "taken" => Some(Self::Taken),
            "nothing" => Some(Self::Value(None)),
            "value" => Some(Self::Value(Some(value(rest)?))),
            "places" => {
                let (key, rest) = rest.split_once(' ')?;
                let (total, part) = rest.split_once(' ')?;
                Some(Self::Hosts {
                    key: key.parse().ok()?,
                    total: total.parse().ok()?,
                    part: part.to_owned(),
                })
            }
            "refused" => Some(Self::Refused {
                reason: rest.to_owned(),
            }),
            "job" => Some(Self::Job(message::decode(&unhex(rest)?)?)),
            _ => None,
        }
    }
}

impl Message {
    /// As it goes over the socket.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Notice(Notice::Initialised) => b"initialised".to_vec(),
            Self::Notice(Notice::Finalised) => b"finalised".to_vec(),
            Self::Notice(Notice::Connected) => b"connected".to_vec(),
            Self::Notice(Notice::EndsByLoss) => b"bereaved".to_vec(),
            Self::Notice(Notice::Independent) => b"independent".to_vec(),
            Self::Notice(Notice::Counters(places)) => {
                format!("counters {}", places.encode()).into_bytes()
            }
            Self::Notice(Notice::HandlesLosses) => b"handles-losses".to_vec(),
            Self::Notice(Notice::Absent) => b"absent".to_vec(),
            Self::Ask { last, piece } => {
                let word = if *last { "last" } else { "more" };
                format!("ask {word} {}", hex(piece)).into_bytes()
            }
            Self::Waits { last, piece } => {
                let word = if *last { "last" } else { "more" };
                format!("waits {word} {}", hex(piece)).into_bytes()
            }
            Self::Notice(Notice::Abort { code, text }) => {
                let mut bytes = format!("abort {code} {text}");
                let mut end = bytes.len().min(TEXT);
                while !bytes.is_char_boundary(end) {
                    end -= 1;
                }
                bytes.truncate(end);
                bytes.into_bytes()
            }
            Self::Put { name, value } => format!("put {name} {}", hex(value)).into_bytes(),
            Self::Fence => b"fence".to_vec(),
            Self::Get { rank, name } => format!("get {rank} {name}").into_bytes(),
            // As releases have asked that know no parts: they cannot read the answer, and say so.
            Self::AskHosts { from: 0 } => b"places".to_vec(),
            Self::AskHosts { from } => format!("places {from}").into_bytes(),
        }
    }

    /// A message from the socket; `None` if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        match &*text {
            "initialised" => Some(Self::Notice(Notice::Initialised)),
            "finalised" => Some(Self::Notice(Notice::Finalised)),
            "fence" => Some(Self::Fence),
            "connected" => Some(Self::Notice(Notice::Connected)),
            "bereaved" => Some(Self::Notice(Notice::EndsByLoss)),
            "independent" => Some(Self::Notice(Notice::Independent)),
            "handles-losses" => Some(Self::Notice(Notice::HandlesLosses)),
            "absent" => Some(Self::Notice(Notice::Absent)),
            "places" => Some(Self::AskHosts { from: 0 }),
            text => {
                let (word, rest) = text.split_once(' ')?;
                if word == "places" {
                    let from = rest.parse().ok()?;
                    return Some(Self::AskHosts { from });
                }
                if word == "counters" {
                    let places = CounterPlaces::decode(rest)?;
                    return Some(Self::Notice(Notice::Counters(places)));
                }
                let (first, second) = rest.split_once(' ')?;
                match word {
                    "abort" => Some(Self::Notice(Notice::Abort {
                        code: first.parse().ok()?,
                        text: second.to_owned(),
                    })),
                    "put" => Some(Self::Put {
                        name: name(first)?,
                        value: value(second)?,
                    }),
                    "get" => Some(Self::Get {
                        rank: first.parse().ok()?,
                        name: name(second)?,
                    }),
                    "ask" => Some(Self::Ask {
                        last: is_last(first)?,
                        piece: value(second)?,
                    }),
                    "waits" => Some(Self::Waits {
                        last: is_last(first)?,
                        piece: value(second)?,
                    }),
                    _ => None,
                }
            }
        }
    }

    /// A request to the job, in as many messages as it takes.
    pub fn pieces(request: &JobRequest) -> Vec<Self> {
        let bytes = message::encode(request);
        let ask = |(last, piece)| Self::Ask { last, piece };
        in_pieces(&bytes).map(ask).collect()
    }

    /// What a rank waits for, in as many messages as needed.
    pub fn waits(waits: &RankWaits) -> Vec<Self> {
        let bytes = message::encode(waits);
        let tell = |(last, piece)| Self::Waits { last, piece };
        in_pieces(&bytes).map(tell).collect()
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
    use weft_mpi::counters::Shown;

    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let abort = Message::Notice(Notice::Abort {
            code: -7,
            text: "no convergence after 3 steps".into(),
        });
        let put = Message::Put {
            name: "address".into(),
            value: vec![7; VALUE_LIMIT],
        };
        let get = Message::Get {
            rank: 3,
            name: "a.b-c_1".into(),
        };
        for message in [
            Message::Notice(Notice::Initialised),
            Message::Notice(Notice::Finalised),
            abort,
            put,
            get,
            Message::Fence,
            Message::AskHosts { from: 0 },
            Message::AskHosts { from: 70_000 },
            Message::Notice(Notice::Connected),
            Message::Notice(Notice::EndsByLoss),
            Message::Notice(Notice::Independent),
            Message::Notice(Notice::Counters(CounterPlaces::new(
                7,
                &[(Shown::Sleeps, 4096)],
            ))),
            Message::Notice(Notice::HandlesLosses),
            Message::Notice(Notice::Absent),
            Message::Ask {
                last: false,
                piece: vec![1; VALUE_LIMIT],
            },
            Message::Ask {
                last: true,
                piece: Vec::new(),
            },
            Message::Waits {
                last: false,
                piece: vec![1; VALUE_LIMIT],
            },
            Message::Waits {
                last: true,
                piece: vec![7],
            },
        ] {
            assert!(message.encode().len() <= LONGEST);
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        let key = Key::random().expect("random");
        for answer in [
            Answer::Taken,
            Answer::Value(None),
            Answer::Value(Some(Vec::new())),
            Answer::Value(Some(vec![0, 255])),
            Answer::hosts(&key, "0*3 here", 0),
            Answer::hosts(&key, "0*3 here", 8),
            Answer::hosts(&key, "0*3 here", 9),
            Answer::Refused {
                reason: "no room for more".into(),
            },
            Answer::Job(JobAnswer::Port("weft:1:2:3".into())),
        ] {
            assert!(answer.encode().len() <= ANSWER);
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        let long = Message::Notice(Notice::Abort {
            code: 1,
            text: "ß".repeat(LONGEST),
        });
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
            b"put a/b 00",
            b"put a 0",
            b"put  00",
            b"get x a",
            b"get 1 ",
            b"places -1",
            b"ask some 00",
            b"ask last",
            b"counters",
            b"counters x",
            b"waits soon 00",
            b"\xff\0",
        ] {
            assert_eq!(Message::decode(bytes), None);
        }
    }
}
