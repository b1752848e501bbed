use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use super::*;

const OWNER: u32 = 1_000;

/// A listener at which calls and errors come as a test decides.
struct Script {
    coming: RefCell<VecDeque<io::Result<(UnixStream, Credentials)>>>,
    socket: UnixStream,
}

impl AsFd for Script {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listen for Script {
    fn accept(&self) -> io::Result<(UnixStream, Credentials)> {
        let next = self.coming.borrow_mut().pop_front();
        next.unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
    }
}

fn callers() -> Callers<Script> {
    let (socket, _) = UnixStream::pair().expect("descriptors are left");
    let coming = RefCell::default();
    Callers::new(Script { coming, socket }, OWNER)
}

/// A call by this user; returns the caller's end.
fn call(callers: &Callers<Script>, user: u32) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().expect("descriptors are left");
    let who = Credentials {
        process: 1,
        user,
        group: user,
    };
    callers
        .listener
        .coming
        .borrow_mut()
        .push_back(Ok((ours, who)));
    theirs
}

fn fail(callers: &Callers<Script>, errno: i32) {
    let error = io::Error::from_raw_os_error(errno);
    callers.listener.coming.borrow_mut().push_back(Err(error));
}

/// A turn with news of every caller that has sent something.
fn turn(callers: &mut Callers<Script>, now: u64) -> Turn {
    let mut entries = Vec::new();
    callers.watch(&mut entries);
    let found = weft_sys::poll::wait(&mut entries, Some(std::time::Duration::ZERO));
    found.expect("polls");
    let mut ready: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
    ready[0] = true;
    drop(entries);
    callers.turn(&ready, now)
}

fn heard(stream: &UnixStream) -> String {
    let mut text = String::new();
    let mut reader = stream;
    let _ = reader.read_to_string(&mut text);
    text
}

#[test]
fn another_user_is_refused_and_not_read() {
    let mut callers = callers();
    let stranger = call(&callers, OWNER + 1);
    (&stranger).write_all(b"\"Down\"\n").expect("written");
    let found = turn(&mut callers, 1);
    assert!(found.questions.is_empty() && callers.calls.is_empty());
    assert_eq!(found.stranger, Some(OWNER + 1));
    assert!(heard(&stranger).contains("belongs to user 1000, you are 1001"));
    // Root may ask.
    let root = call(&callers, 0);
    (&root).write_all(b"\"Status\"\n").expect("written");
    assert_eq!(turn(&mut callers, 2).questions.len(), 1);
}

#[test]
fn a_caller_is_heard_among_a_crowd_that_says_nothing() {
    let mut callers = callers();
    let mut silent = Vec::new();
    for number in 0..1_000u64 {
        silent.push(call(&callers, OWNER));
        if number % 100 == 99 {
            let asking = call(&callers, OWNER);
            (&asking).write_all(b"\"Status\"\n").expect("written");
            let mut questions = Vec::new();
            for _ in 0..16 {
                questions.extend(turn(&mut callers, number).questions);
                assert!(callers.calls.len() <= CALLS);
            }
            let [(who, question)] = &questions[..] else {
                panic!("{} questions", questions.len());
            };
            assert_eq!(question, b"\"Status\"");
            assert!(callers.is_waiting(*who));
            callers.answer(*who, &Answer::Done);
            assert_eq!(heard(&asking), "\"Done\"\n");
        }
    }
    // In the end the time of all is over.
    turn(&mut callers, 1_000 + CALL);
    assert!(callers.calls.is_empty() && callers.deadline().is_none());
}

#[test]
fn a_question_in_pieces_is_heard_and_one_that_never_ends_is_over_in_time() {
    let mut callers = callers();
    let slow = call(&callers, OWNER);
    let endless = call(&callers, OWNER);
    turn(&mut callers, 0);
    let mut questions = Vec::new();
    for (place, byte) in b"\"Status\"\n".iter().enumerate() {
        (&slow).write_all(&[*byte]).expect("written");
        (&endless).write_all(b"x").expect("written");
        questions.extend(turn(&mut callers, place as u64 * 1_000_000).questions);
    }
    assert_eq!(questions.len(), 1);
    assert_eq!(callers.deadline(), Some(CALL));
    (&endless).write_all(b"x").expect("written");
    turn(&mut callers, CALL);
    assert!(callers.calls.is_empty());
    assert_eq!(heard(&endless), "");
}

#[test]
fn a_caller_that_does_not_listen_holds_nobody_up() {
    let mut callers = callers();
    let deaf = call(&callers, OWNER);
    (&deaf).write_all(b"\"Status\"\n").expect("written");
    let questions = turn(&mut callers, 0).questions;
    let long = Answer::Refused("x".repeat(4 << 20));
    callers.answer(questions[0].0, &long);
    assert_eq!(callers.calls.len(), 1, "there was no room for all of it");
    let other = call(&callers, OWNER);
    (&other).write_all(b"\"Status\"\n").expect("written");
    let questions = turn(&mut callers, 1).questions;
    callers.answer(questions[0].0, &Answer::Done);
    assert_eq!(heard(&other), "\"Done\"\n");
    turn(&mut callers, CALL);
    assert!(callers.calls.is_empty());
    drop(deaf);
}

#[test]
fn what_accept_cannot_do_is_tried_again_and_nobody_spins() {
    // EPERM, ENOMEM, ENFILE, EMFILE, EPROTO, ENETDOWN, ENOBUFS.
    for errno in [1, 12, 23, 24, 71, 100, 105] {
        let mut callers = callers();
        let idle = call(&callers, OWNER);
        turn(&mut callers, 0);
        assert_eq!(callers.calls.len(), 1);
        fail(&callers, errno);
        let asking = call(&callers, OWNER);
        (&asking).write_all(b"\"Status\"\n").expect("written");
        let found = turn(&mut callers, 1);
        assert!(found.trouble.is_some() && found.questions.is_empty());
        assert!(callers.calls.is_empty(), "its descriptor is given back");
        assert_eq!(heard(&idle), "");
        // Not before its time, however often the broker looks.
        assert_eq!(callers.deadline(), Some(1 + PAUSE));
        for _ in 0..100 {
            assert!(turn(&mut callers, PAUSE).questions.is_empty());
        }
        assert_eq!(turn(&mut callers, 1 + PAUSE).questions.len(), 1, "{errno}");
    }
    // EINTR, ECONNABORTED: of one caller alone.
    let mut callers = callers();
    fail(&callers, 4);
    fail(&callers, 103);
    let asking = call(&callers, OWNER);
    (&asking).write_all(b"\"Status\"\n").expect("written");
    let found = turn(&mut callers, 0);
    assert!(found.trouble.is_none());
    assert_eq!(found.questions.len(), 1);
    // An endless sequence of them does not keep the broker from its other work.
    for _ in 0..10_000 {
        fail(&callers, 103);
    }
    turn(&mut callers, 1);
    assert!(!callers.listener.coming.borrow().is_empty());
}

#[test]
fn a_caller_that_is_gone_before_its_answer_is_forgotten() {
    let mut callers = callers();
    let gone = call(&callers, OWNER);
    (&gone).write_all(b"\"Status\"\n").expect("written");
    let questions = turn(&mut callers, 0).questions;
    drop(gone);
    turn(&mut callers, 1);
    assert!(!callers.is_waiting(questions[0].0));
    callers.answer(questions[0].0, &Answer::Done);
    assert!(callers.release(questions[0].0).is_none());
}
