//! Callers: programs that connect to the broker. Their identity is checked first, and the broker waits for
//! none of them.
//!
//! ```text
//!   accept ──another user──▶ refused, not a byte is read
//!     │ this user or root
//!   asking ──a whole line──▶ waiting ──answer──▶ answering ──all of it gone──▶ closed
//!     └────── over time, too long, closed, or pushed out by newer ones ──────▶ closed
//! ```
//!
//! Each user has a bounded number of unanswered calls. A further call replaces the oldest that has not asked
//! yet, so that callers that connect and say nothing do not harm callers that ask. If `accept` fails, it is
//! retried later: without descriptors on the host the broker answers late.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use weft_sys::passing::{self, Credentials};
use weft_sys::poll::{Interest, PollFd};

use super::line::{LONGEST, LineProgress, PartialLine};
use super::messages::Answer;

/// Most unanswered calls of one user.
pub const CALLS: usize = 32;

/// How long a call may take, in nanoseconds.
pub const CALL: u64 = 5_000_000_000;

/// Most calls accepted in one turn, so that the handling of ended components does not wait for a crowd.
const AT_A_TIME: usize = 32;

/// Pause in accepting after the kernel failed to, in nanoseconds.
const PAUSE: u64 = 100_000_000;

/// The listener for calls.
pub(super) trait Listen: AsFd {
    /// The next caller and its credentials, without waiting.
    fn accept(&self) -> io::Result<(UnixStream, Credentials)>;
}

impl Listen for UnixListener {
    fn accept(&self) -> io::Result<(UnixStream, Credentials)> {
        let (stream, _) = UnixListener::accept(self)?;
        let who = passing::peer_credentials(&stream)?;
        Ok((stream, who))
    }
}

/// The number of a call, unique while the system runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallNumber(u64);

enum State {
    Asking(PartialLine),
    /// The question was handed out.
    Waiting,
    Answering {
        text: Vec<u8>,
        sent: usize,
    },
}

struct Call {
    number: CallNumber,
    stream: UnixStream,
    user: u32,
    until: u64,
    state: State,
}

/// All unanswered calls, oldest first.
pub(super) struct Callers<L> {
    listener: L,
    /// The user that owns the system.
    owner: u32,
    calls: Vec<Call>,
    next: u64,
    /// Nobody is accepted before this.
    paused: Option<u64>,
}

/// The findings of a turn.
#[derive(Default)]
pub(super) struct Turn {
    /// Questions, each of which must be answered.
    pub(super) questions: Vec<(CallNumber, Vec<u8>)>,
    /// Why nobody could be accepted.
    pub(super) trouble: Option<io::Error>,
    /// Another user was refused.
    pub(super) stranger: Option<u32>,
}

impl<L: Listen> Callers<L> {
    /// `listener` must not wait.
    pub(super) fn new(listener: L, owner: u32) -> Self {
        Self {
            listener,
            owner,
            calls: Vec::new(),
            next: 0,
            paused: None,
        }
    }

    /// Adds the entries to poll: one for the listener, one for each call.
    pub(super) fn watch<'c>(&'c self, entries: &mut Vec<PollFd<'c>>) {
        let new = match self.paused {
            Some(_) => Interest::Nothing,
            None => Interest::Read,
        };
        entries.push(PollFd::new(&self.listener, new));
        entries.extend(self.calls.iter().map(|call| {
            let interest = match call.state {
                State::Asking(_) => Interest::Read,
                State::Waiting => Interest::Nothing,
                State::Answering { .. } => Interest::Write,
            };
            PollFd::new(&call.stream, interest)
        }));
    }

    /// When there is something to do even if no caller says anything.
    pub(super) fn deadline(&self) -> Option<u64> {
        let calls = self.calls.iter().map(|call| call.until);
        calls.chain(self.paused).min()
    }

    /// Continues all calls for which there is news (`ready`, in the order of [`watch`](Self::watch)) and
    /// accepts others.
    pub(super) fn turn(&mut self, ready: &[bool], now: u64) -> Turn {
        let mut turn = Turn::default();
        let mut ready = ready.iter().copied();
        let may_accept = ready.next().unwrap_or(false);
        self.calls.retain_mut(|call| {
            let is_ready = ready.next().unwrap_or(false);
            now < call.until && (!is_ready || call.go_on(&mut turn.questions))
        });
        if self.paused.is_some_and(|until| now >= until) {
            self.paused = None;
        } else if !may_accept || self.paused.is_some() {
            return turn;
        }
        for _ in 0..AT_A_TIME {
            match self.listener.accept() {
                Ok((stream, who)) => self.admit(stream, who, now, &mut turn),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    // An error of that one caller, or of none.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        // Often too few descriptors: an idle call is given up.
                        self.make_room(None);
                        self.paused = Some(now + PAUSE);
                        turn.trouble = Some(error);
                        break;
                    }
                },
            }
        }
        turn
    }

    fn admit(&mut self, stream: UnixStream, who: Credentials, now: u64, turn: &mut Turn) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        if who.user != self.owner && who.user != 0 {
            let refusal = Answer::Refused(format!(
                "this system belongs to user {}, you are {}",
                self.owner, who.user
            ));
            // A caller that does not read is not told.
            let _ = (&stream).write(&line_of(&refusal));
            turn.stranger = Some(who.user);
            return;
        }
        if self
            .calls
            .iter()
            .filter(|call| call.user == who.user)
            .count()
            >= CALLS
        {
            self.make_room(Some(who.user));
        }
        let mut call = Call {
            number: CallNumber(self.next),
            stream,
            user: who.user,
            until: now + CALL,
            state: State::Asking(PartialLine::default()),
        };
        self.next += 1;
        // A proper caller has usually asked by now.
        if call.go_on(&mut turn.questions) {
            self.calls.push(call);
        }
    }

    /// Gives up the oldest call of a user, or of any; a call whose question is known only if all questions
    /// are.
    fn make_room(&mut self, user: Option<u32>) {
        let theirs = |call: &Call| user.is_none_or(|user| user == call.user);
        let oldest = self
            .calls
            .iter()
            .position(|call| theirs(call) && !matches!(call.state, State::Waiting));
        let oldest = oldest.or_else(|| self.calls.iter().position(theirs));
        if let Some(oldest) = oldest {
            self.calls.remove(oldest);
        }
    }

    /// Answers a question that was handed out. A caller that is gone is not told.
    pub(super) fn answer(&mut self, number: CallNumber, answer: &Answer) {
        let Some(place) = self.place(number) else {
            return;
        };
        let call = &mut self.calls[place];
        call.state = State::Answering {
            text: line_of(answer),
            sent: 0,
        };
        if !call.go_on(&mut Vec::new()) {
            self.calls.remove(place);
        }
    }

    /// The connection of a call that is answered in another way; `None` if the caller is gone.
    pub(super) fn release(&mut self, number: CallNumber) -> Option<UnixStream> {
        let place = self.place(number)?;
        Some(self.calls.remove(place).stream)
    }

    /// Whether a call still waits for its answer.
    pub(super) fn is_waiting(&self, number: CallNumber) -> bool {
        self.place(number).is_some()
    }

    fn place(&self, number: CallNumber) -> Option<usize> {
        self.calls.iter().position(|call| call.number == number)
    }
}

impl Call {
    /// Does what can be done without waiting; false when the call is over.
    fn go_on(&mut self, questions: &mut Vec<(CallNumber, Vec<u8>)>) -> bool {
        match &mut self.state {
            State::Asking(line) => {
                let mut piece = [0; 4096];
                // Enough for the longest line; the rest of longer input is read in the next turn.
                for _ in 0..=LONGEST / piece.len() {
                    match (&self.stream).read(&mut piece) {
                        Ok(0) => return false,
                        Ok(count) => match line.push(&piece[..count]) {
                            LineProgress::Incomplete => {}
                            LineProgress::Whole(question) => {
                                questions.push((self.number, question));
                                self.state = State::Waiting;
                                return true;
                            }
                            LineProgress::TooLong => {
                                let refusal = Answer::Refused(format!(
                                    "a question has at most {LONGEST} bytes"
                                ));
                                let text = line_of(&refusal);
                                self.state = State::Answering { text, sent: 0 };
                                return self.go_on(questions);
                            }
                        },
                        Err(error) => return is_passing(&error),
                    }
                }
                true
            }
            // Nothing is expected, so the caller is gone.
            State::Waiting => false,
            State::Answering { text, sent } => loop {
                match (&self.stream).write(&text[*sent..]) {
                    Ok(0) => return false,
                    Ok(count) => {
                        *sent += count;
                        if *sent == text.len() {
                            return false;
                        }
                    }
                    Err(error) => return is_passing(&error),
                }
            },
        }
    }
}

/// Whether the call can be retried.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn line_of(answer: &Answer) -> Vec<u8> {
    // Plain data can always be serialised; otherwise the answer would be an empty line, which the caller
    // refuses.
    let mut text = serde_json::to_vec(answer).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests;
