//! Messages between the head of a job and its agents, once both have proved the key.
//!
//! One message is one value in the format of `postcard`. The other side knows the key, but may be broken or of another
//! release: the link bounds lengths; [`protocol`](super::protocol) checks what an agent may say and when.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_mpi::waits::RankWaits;

use crate::binding::BindingRequest;
pub use crate::control::Notice;
pub use crate::exchange::PublishedValue;
use crate::job_request::{JobAnswer, JobRequest, SpawnProgram};
use crate::plan::Program;

/// Changes whenever a message changes: head and agents must agree.
pub const RELEASE: u32 = 10;

/// What an agent that was started writes before anything else, outside of the link: the shell before it may
/// have printed something.
pub(crate) const MARK: &[u8] = b"\nweft agent ready\n";

/// From the head.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToAgent {
    /// Start these ranks.
    Start(Box<Assignment>),
    /// Values that ranks of the job have put before the fence that they are at: some of them.
    Put {
        /// The values.
        values: Vec<PublishedValue>,
    },
    /// All ranks of the job have come to the fence; all that was put before it was said.
    Fenced,
    /// Input for rank 0; no bytes: the end.
    Input {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The reader of a rank's output there is gone.
    CloseOutput {
        /// The rank.
        rank: u32,
        /// Standard error, not standard output.
        error: bool,
    },
    /// The answer of the job to a request of a rank.
    Answer {
        /// The rank.
        rank: u32,
        /// The answer.
        answer: JobAnswer,
    },
    /// Say how much room there is for processes that are started later.
    AskRoom,
    /// Start these processes, which a rank of the job has asked for.
    StartLater(Box<LaterProcesses>),
    /// Record where these processes are.
    RecordAddresses {
        /// All of a world.
        addresses: Vec<Address>,
    },
    /// Tell the ranks there that a process there has ended.
    AnnounceEnd {
        /// Its rank.
        rank: u32,
        /// It had left the job, so that its end is no loss.
        in_order: bool,
    },
    /// Tell the ranks there that a process on another host has ended.
    AnnounceRemoteEnd {
        /// Its rank.
        rank: u32,
        /// How.
        end: RemoteEnd,
    },
    /// Tell the ranks there that a rank of this world, on any host, will not meet the others in `MPI_Finalize`.
    AnnounceAbsence {
        /// The number of the world; 0: that of the ranks that the job started with.
        world: u32,
    },
    /// End these processes, which the others do not need.
    EndRanks {
        /// The ranks.
        ranks: Vec<u32>,
    },
    /// Ask the ranks there what they wait for.
    Inquire {
        /// The number of this inquiry: they grow.
        number: u32,
        /// Also where in the program.
        full: bool,
    },
    /// Say what your clock says.
    AskClock {
        /// The head's clock.
        asked: u64,
    },
    /// Hand this signal on.
    Signal {
        /// Its number.
        number: i32,
    },
    /// End everything now.
    End,
    /// The job is over, with this code.
    Over {
        /// The code.
        code: u8,
    },
    /// Nothing: we live.
    Alive,
}

/// From an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromAgent {
    /// The first message.
    Hello(Hello),
    /// A rank runs, as this process of its host.
    Started {
        /// The rank.
        rank: u32,
        /// Its number there.
        process: u32,
        /// On which cores it runs, for people, if that is to be reported.
        cores: Option<String>,
    },
    /// A rank could not be started.
    NotStarted {
        /// The rank.
        rank: u32,
        /// Why.
        reason: String,
    },
    /// Output of a rank; no bytes: it has closed this output.
    Output {
        /// The rank.
        rank: u32,
        /// Standard error, not standard output.
        error: bool,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A notice of a rank to its launcher.
    Notice {
        /// The rank.
        rank: u32,
        /// The notice.
        told: Notice,
    },
    /// A rank has ended, with this wait status.
    Exited {
        /// The rank.
        rank: u32,
        /// As the kernel gives it.
        status: i32,
    },
    /// The agent was told to end, by this signal, and ends its ranks.
    Leaving {
        /// The signal.
        signal: i32,
    },
    /// Rank 0 has taken this many bytes of the input that the head has sent for it.
    InputTaken {
        /// The number of bytes.
        bytes: u64,
    },
    /// Values that ranks of this host have put since the last fence: some of them.
    Put {
        /// The values.
        values: Vec<PublishedValue>,
    },
    /// A rank asks something of the job.
    Asked {
        /// The rank.
        rank: u32,
        /// The request.
        request: JobRequest,
    },
    /// Number of free process slots, as requested.
    Room(Room),
    /// Processes were started later, or could not be.
    StartedLater {
        /// Their numbers in the job, and there.
        processes: Vec<(u32, u32)>,
        /// Why not all were.
        reason: Option<String>,
    },
    /// The addresses of processes are recorded.
    AddressesRecorded,
    /// Whether all ranks there sleep, if the head wants to know: with a number that changes when one is woken.
    Rest {
        /// Nothing: one is awake.
        shown: Option<u64>,
    },
    /// What the threads of a rank wait for: the answer to an inquiry, whose number it contains.
    Waits {
        /// The rank.
        rank: u32,
        /// The waits.
        waits: Box<RankWaits>,
    },
    /// The clock of this host, in nanoseconds, as requested.
    Clock {
        /// The head's clock, as it was sent.
        asked: u64,
        /// This host's clock.
        now: u64,
    },
    /// A part of what a rank has recorded of where its time goes.
    Profile {
        /// The rank.
        rank: u32,
        /// The part.
        piece: Vec<u8>,
        /// It is the last one.
        last: bool,
    },
    /// All ranks of this host have come to the fence; all that they put before it was said.
    Fence,
    /// All ranks here have ended and everything that they said was sent. `clean`: nothing is left.
    Ended {
        /// Nothing is left.
        clean: bool,
    },
    /// Nothing: we live.
    Alive,
}

/// End of a process, for the ranks of other hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RemoteEnd {
    /// With a wait status.
    Ended {
        /// As the kernel gives it.
        status: i32,
        /// It had left the job, so that its end is no loss.
        in_order: bool,
    },
    /// With its host, so that nobody knows how.
    HostLost,
}

/// Room for processes that are started later, on one host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Room {
    /// Process slots that can be taken now, ascending.
    pub free: Vec<u32>,
    /// How many more will be free soon: their process has ended, or is about to.
    pub soon: u32,
    /// A process that has not called MPI since such an end.
    pub behind: Option<u32>,
}

/// Processes that a host is to start later.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LaterProcesses {
    /// Size of their world, on all hosts.
    pub size: u32,
    /// The processes of this host, by their rank.
    pub processes: Vec<LaterProcess>,
    /// Their programs, by number.
    pub programs: Vec<SpawnProgram>,
    /// The number of the program of the job whose environment they have.
    pub parent: u32,
}

/// A process that is started later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LaterProcess {
    /// Its number in the job.
    pub number: u32,
    /// Its number in the memory of its host.
    pub slot: u32,
    /// Its rank in its world.
    pub rank: u32,
    /// Number of its program.
    pub appnum: u32,
}

/// The address of a process that was started from within a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Address {
    /// Its number in the job.
    pub number: u32,
    /// The number of its world: which of the processes that have this number one after the other it is.
    pub incarnation: u32,
    /// The address.
    pub address: String,
}

/// An agent's introduction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`RELEASE`].
    pub release: u32,
    /// The name of its host, for people.
    pub host: String,
    /// Number of ranks it brings; 0: as many as the head wants.
    pub ranks: u32,
    /// It has a program of its own.
    pub program: bool,
    /// Ranks of the job that another launcher has started there, ascending; they are not to be started.
    pub adopted: Vec<u32>,
}

/// The task of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// The key by which ranks prove to each other that they belong to the job.
    pub key: [u8; 32],
    /// The host of each rank of the job, as `HostMap` writes it.
    pub hosts: String,
    /// Number of ranks of the job.
    pub size: u32,
    /// The ranks of this host, ascending, and which program each runs.
    pub ranks: Vec<(u32, u32)>,
    /// The programs; empty if the agent has its own.
    pub programs: Vec<ProgramText>,
    /// After how many milliseconds of silence the other side is taken for dead.
    pub silence: u64,
    /// Rank 0 is here and reads what the head sends.
    pub input: bool,
    /// Number of processes that may exist beside the ranks, started later.
    pub room: u32,
    /// Their numbers in the job begin with this one.
    pub first_later: u32,
    /// Number of processes that the job may have.
    pub capacity: u32,
    /// Say when all ranks there sleep.
    pub watched: bool,
    /// On which cores ranks run.
    pub binding: BindingRequest,
    /// Whether the ranks record where their time goes, and how much.
    pub profile: Option<String>,
}

/// A [`Program`] as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgramText {
    executable: Vec<u8>,
    words: Vec<Vec<u8>>,
    folder: Option<Vec<u8>>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
}

fn bytes(text: impl AsRef<OsStr>) -> Vec<u8> {
    text.as_ref().as_bytes().to_vec()
}

fn text(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

impl From<&Program> for ProgramText {
    fn from(program: &Program) -> Self {
        let environment = program.environment.iter();
        Self {
            executable: bytes(&program.executable),
            words: program.words.iter().map(bytes).collect(),
            folder: program.folder.as_ref().map(bytes),
            environment: environment
                .map(|(name, value)| (bytes(name), bytes(value)))
                .collect(),
        }
    }
}

impl From<ProgramText> for Program {
    fn from(found: ProgramText) -> Self {
        let variable = |(name, value)| (text(name), text(value));
        let environment: BTreeMap<_, _> = found.environment.into_iter().map(variable).collect();
        Self {
            executable: PathBuf::from(text(found.executable)),
            words: found.words.into_iter().map(text).collect(),
            folder: found.folder.map(|folder| PathBuf::from(text(folder))),
            environment,
            ranks: 0,
        }
    }
}

/// A message as bytes.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    postcard::to_stdvec(message).expect("values of these types can be written")
}

/// Bytes as a message; `None` if they are none, or more than one.
pub fn decode<M: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<M> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        let program = Program {
            executable: "/bin/sh".into(),
            words: vec!["sh".into(), OsString::from_vec(vec![0xff, b'x'])],
            folder: Some("/tmp".into()),
            environment: BTreeMap::from([("A".into(), "1".into())]),
            ranks: 0,
        };
        let start = ToAgent::Start(Box::new(Assignment {
            key: [7; 32],
            hosts: "0*1 a".into(),
            size: 1,
            ranks: vec![(0, 0)],
            programs: vec![ProgramText::from(&program)],
            silence: 1000,
            input: true,
            room: 0,
            first_later: 0,
            capacity: 0,
            watched: true,
            binding: BindingRequest::default(),
            profile: None,
        }));
        let Some(ToAgent::Start(found)) = decode(&encode(&start)) else {
            panic!("not the same");
        };
        assert_eq!(ToAgent::Start(found.clone()), start);
        let [text] = <[_; 1]>::try_from(found.programs).expect("one");
        assert_eq!(Program::from(text), program);
    }

    #[test]
    fn nonsense_is_no_message() {
        let good = encode(&FromAgent::Exited { rank: 3, status: 9 });
        assert!(decode::<FromAgent>(&good).is_some());
        assert_eq!(decode::<FromAgent>(&good[..good.len() - 1]), None);
        assert_eq!(decode::<FromAgent>(&[&good[..], b"x"].concat()), None);
        assert_eq!(decode::<ToAgent>(&[200]), None);
        // A length that nothing follows asks for no memory.
        assert_eq!(decode::<ToAgent>(&[2, 255, 255, 255, 255, 15]), None);
    }
}
