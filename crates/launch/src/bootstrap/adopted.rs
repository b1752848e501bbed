//! Adopted: the launcher interface of processes that Weft's launcher has not started: a program that was started alone,
//! or the ranks of a launcher that starts no later processes. The launcher is started when the first of them needs
//! something that only a launcher gives.
//!
//! ```text
//!   who asks first    starts weft adopt: memory, lifeline, ports, and where the others find it ──►     ◄── taken
//!   the others        a name that all ranks of the host know ──► the key, a rank, a lifeline ──►       ◄── taken
//! ```
//!
//! The name is an abstract one, which is bound once: the process that binds it starts the launcher and hands the socket
//! over, so there is one launcher even if several ask at the same time. In a job on several hosts the launcher of a host
//! is an agent, which is started by [calls](super::calls). From then on a process is tied to the launcher as any rank is,
//! until it has finalised MPI.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use weft_secure::Key;
use weft_sys::descriptor::{self, Carries};
use weft_sys::poll;
use weft_sys::{lifeline, passing};

use super::BootstrapError;
use super::abstract_socket;
use super::control_socket::ControlSocket;
use super::key_listener::shown_by;
use crate::adoption::{self, Adoption, AgentRole};
use crate::control::{ANSWER, Answer, Message, Notice};
use crate::exchange::{PublishedValue, portions_of};
use crate::hosts::message::encode;
use crate::job_request::{JobAnswer, JobRequest};
use crate::worlds::Worlds;

/// How long a rank waits for a launcher that another rank starts.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two attempts.
pub const AGAIN: Duration = Duration::from_millis(1);

/// The launcher that has this process.
#[derive(Debug)]
pub struct Adopted {
    control: ControlSocket,
    /// When its other end closes, the kernel ends us.
    lifeline: Mutex<Option<OwnedFd>>,
}

/// How the other ranks of a host reach the launcher.
#[derive(Debug)]
pub struct Meeting {
    /// The abstract name at which it listens.
    pub name: String,
    /// The key that they show there.
    pub key: Key,
    /// Number of ranks of the host.
    pub ranks: u32,
    /// The rank of this process among them.
    pub rank: u32,
    /// Closes when all of them have ended.
    pub ends: OwnedFd,
}

/// Starts a launcher of this installation, which gets these descriptors, and then these messages. Answers the socket over which it says
/// what it does.
fn launch(
    adoption: &Adoption,
    descriptors: &[BorrowedFd<'_>],
    rest: &[Vec<u8>],
) -> Result<OwnedFd, String> {
    let launcher = adoption::find_launcher().ok_or(
        "there is no launcher: the command weft was looked for beside the library and in PATH",
    )?;
    let adoption = adoption.encode()?;
    let started = || {
        let (ours, theirs) = descriptor::socket_pair(Carries::Messages)?;
        let command = &mut Command::new(&launcher);
        let mut started = command.arg("adopt").stdin(Stdio::from(theirs)).spawn()?;
        passing::send(&ours, &adoption, descriptors)?;
        // It leaves at once a process behind that is no child of ours. A program may reap everything itself.
        let _ = started.wait();
        for message in rest {
            passing::send(&ours, message, &[])?;
        }
        Ok(ours)
    };
    started().map_err(|error: io::Error| {
        let launcher = launcher.display();
        format!("the launcher {launcher} could not be started: {error}")
    })
}

/// Starts the head of a job of this many ranks on several hosts, whose agents prove this key. Over the returned socket it
/// reports its address, and then that all have come.
///
/// # Errors
/// The reason.
pub fn start_head(ranks: u32, key: &Key) -> Result<OwnedFd, String> {
    launch(&Adoption::of_hosts(ranks, key), &[], &[])
}

/// A launcher that was started and has not said that it has this process.
#[derive(Debug)]
pub struct StartingLauncher {
    control: OwnedFd,
    lifeline: OwnedFd,
}

impl StartingLauncher {
    /// Starts one that is told this. `others`: where the other ranks come, and what closes with the last of them.
    fn start(
        adoption: &Adoption,
        memory: &OwnedFd,
        others: Option<[&OwnedFd; 2]>,
        rest: &[Vec<u8>],
    ) -> Result<Self, String> {
        let (lifeline, writing) = descriptor::pipe().map_err(|error| error.to_string())?;
        let mut descriptors = vec![memory.as_fd(), writing.as_fd()];
        descriptors.extend(others.iter().flatten().map(|other| other.as_fd()));
        let control = launch(adoption, &descriptors, rest)?;
        Ok(Self { control, lifeline })
    }

    /// Starts the agent of this host, which joins the head of its job, and knows what its ranks have published.
    ///
    /// # Errors
    /// Why not.
    pub fn of_host(
        mut role: AgentRole,
        values: Vec<PublishedValue>,
        memory: &OwnedFd,
        meeting: &Meeting,
    ) -> Result<Self, String> {
        let values: Vec<Vec<u8>> = portions_of(values, ANSWER / 2)
            .map(|portion| encode(&portion))
            .collect();
        role.portions = values.len() as u32;
        let listener = abstract_socket::listen(&meeting.name)
            .map_err(|error| format!("its socket cannot be made: {}", io::Error::from(error)))?;
        Self::start(
            &Adoption::of_host(role),
            memory,
            Some([&listener, &meeting.ends]),
            &values,
        )
    }

    /// One that says so over this socket.
    #[cfg(test)]
    pub fn said(control: OwnedFd, lifeline: OwnedFd) -> Self {
        Self { control, lifeline }
    }

    /// Over which it says so.
    pub fn control(&self) -> &OwnedFd {
        &self.control
    }

    /// Waits until it has this process.
    ///
    /// # Errors
    /// Why it has not.
    pub fn finish(self) -> Result<Adopted, String> {
        let failed = |error: io::Error| format!("it has not taken the program over: {error}");
        match hear(&self.control).map_err(failed)? {
            Some(Answer::Taken) => Adopted::taken(self.control, self.lifeline).map_err(failed),
            Some(Answer::Refused { reason }) => Err(reason),
            _ => Err(
                "it has not taken the program over; all must be of the same release of Weft".into(),
            ),
        }
    }
}

impl Adopted {
    /// Starts a launcher, which has the job from now on.
    ///
    /// # Errors
    /// Why not, with what to do instead. `remedy`: how to start the program so that it has a launcher.
    pub fn start(
        worlds: &Worlds,
        memory: &OwnedFd,
        remedy: &str,
        meeting: Option<(&Meeting, &OwnedFd)>,
    ) -> Result<Self, String> {
        let adoption = match meeting {
            None => Adoption::of_program(worlds.clone()),
            Some((meeting, _)) => {
                Adoption::of_rank(worlds.clone(), meeting.rank, meeting.ranks, &meeting.key)
            }
        };
        let others = meeting.map(|(meeting, listener)| [listener, &meeting.ends]);
        StartingLauncher::start(&adoption, memory, others, &[])
            .and_then(StartingLauncher::finish)
            .map_err(|reason| format!("{reason}; {remedy}"))
    }

    /// Comes to the launcher of this host's ranks, or starts it if there is none yet.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn meet(
        worlds: &Worlds,
        memory: &OwnedFd,
        remedy: &str,
        meeting: &Meeting,
    ) -> Result<Self, String> {
        let failed = |error: io::Error| {
            format!("the launcher of this host cannot be reached: {error}; {remedy}")
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(adopted) = Self::find(meeting).map_err(failed)? {
                return Ok(adopted);
            }
            match abstract_socket::listen(&meeting.name) {
                Ok(listener) => {
                    return Self::start(worlds, memory, remedy, Some((meeting, &listener)));
                }
                Err(Errno::ADDRINUSE) if Instant::now() < deadline => {
                    // Another rank is about to start it.
                    poll::wait(&mut [], Some(AGAIN)).map_err(failed)?;
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// Comes to the launcher of this host's ranks. `None`: there is none, or it has ended, so that another one may be started.
    ///
    /// # Errors
    /// If there is one that is not ours, or refuses, or the kernel does.
    pub fn find(meeting: &Meeting) -> io::Result<Option<Self>> {
        match abstract_socket::connect(&meeting.name) {
            Ok(socket) => Self::come(socket, meeting),
            Err(Errno::CONNREFUSED | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Shows the launcher that this is a rank of its host. `None` if it went away.
    fn come(socket: OwnedFd, meeting: &Meeting) -> io::Result<Option<Self>> {
        if !abstract_socket::runs_as_us(&socket) {
            return Err(io::Error::other("it runs as another user than the ranks"));
        }
        let (reading, writing) = descriptor::pipe()?;
        let shown = shown_by(meeting.rank, &meeting.key);
        if passing::send(&socket, &shown, &[writing.as_fd()]).is_err() {
            return Ok(None);
        }
        drop(writing);
        match hear(&socket) {
            Ok(Some(Answer::Taken)) => Self::taken(socket, reading).map(Some),
            Ok(Some(Answer::Refused { reason })) => Err(io::Error::other(reason)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn taken(control: OwnedFd, lifeline: OwnedFd) -> io::Result<Self> {
        lifeline::tie(&lifeline)?;
        let control = ControlSocket::new(control);
        control.tell(Notice::Initialised);
        Ok(Self {
            control,
            lifeline: Mutex::new(Some(lifeline)),
        })
    }

    /// Asks something of the job.
    ///
    /// # Errors
    /// If the launcher is gone.
    pub fn ask(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        match self.control.ask(&Message::pieces(request)) {
            Ok(Some(Answer::Job(answer))) => Ok(answer),
            Ok(Some(Answer::Refused { reason })) => Err(BootstrapError::new(reason)),
            Ok(_) => Err(BootstrapError::new(
                "the launcher's answer cannot be understood",
            )),
            Err(error) => Err(BootstrapError::new(format!(
                "the launcher is gone: {error}"
            ))),
        }
    }

    /// As [`Launcher::connected`](super::Launcher::connected).
    pub fn tell_connected(&self, connected: bool) {
        self.control.tell_connected(connected);
    }

    /// As [`Launcher::ends_by_loss`](super::Launcher::ends_by_loss).
    pub fn tell_end_by_loss(&self) {
        self.control.tell(Notice::EndsByLoss);
    }

    /// As [`Launcher::finalised`](super::Launcher::finalised).
    pub fn tell_finalised(&self) {
        self.untie();
        self.control.tell(Notice::Finalised);
    }

    /// Ends the job. The caller exits, with the code; it is not to be killed before that.
    pub fn tell_abort(&self, code: i32, text: &str) {
        self.untie();
        let text = text.to_owned();
        self.control.tell(Notice::Abort { code, text });
    }

    /// What becomes of the launcher is of no consequence any more.
    fn untie(&self) {
        let lifeline = &mut *self.lifeline.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lifeline) = lifeline.take() {
            let _ = lifeline::untie(&lifeline);
        }
    }
}

/// What a launcher says next; `None` if it is gone, or cannot be understood.
pub(super) fn hear(socket: &OwnedFd) -> io::Result<Option<Answer>> {
    let mut bytes = vec![0; ANSWER];
    let (count, _) = passing::receive(socket, &mut bytes)?;
    Ok(Answer::decode(&bytes[..count]))
}
