//! Network line: a sealed [link](crate::hosts) to the root of another job on another host, and a thread that drives it.
//! Both sides send signs of life now and then, so that a host that is cut off is not waited for.

use std::io;
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft_mpi::comm::Line;
use weft_mpi::{Process, Result};
use weft_sys::event::EventFd;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::signal;

use super::{gone, notify, taken};
use crate::hosts::link::{Link, LinkError};

/// How long the last words may take to leave.
const LAST: Duration = Duration::from_secs(5);

#[derive(Serialize, Deserialize)]
enum Said {
    Message(Vec<u8>),
    Alive,
}

/// A link to the root of another job.
pub(super) struct NetworkLine {
    /// `None` when it ends.
    say: Option<mpsc::Sender<Vec<u8>>>,
    /// There is something to say, or it ends.
    outgoing: Arc<EventFd>,
    heard: mpsc::Receiver<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
}

impl NetworkLine {
    pub fn new(link: Link, process: Weak<Process>) -> io::Result<Self> {
        let outgoing = Arc::new(EventFd::new()?);
        let (say, said) = mpsc::channel();
        let (tell, heard) = mpsc::channel();
        let thread = {
            let outgoing = Arc::clone(&outgoing);
            signal::spawn_without_signals("weft-watch", move || {
                // Why it has ended makes no difference: the other job is out of reach.
                let _ = carry(link, &outgoing, &said, |message| {
                    let heard = tell.send(message).is_ok();
                    notify(&process);
                    heard
                });
                drop(tell);
                notify(&process);
            })?
        };
        Ok(Self {
            say: Some(say),
            outgoing,
            heard,
            thread: Some(thread),
        })
    }
}

/// Carries messages both ways until either side ends it.
fn carry(
    mut link: Link,
    outgoing: &EventFd,
    said: &mpsc::Receiver<Vec<u8>>,
    hear: impl Fn(Vec<u8>) -> bool,
) -> std::result::Result<(), LinkError> {
    loop {
        _ = outgoing.drain();
        loop {
            match said.try_recv() {
                Ok(message) => link.say(&Said::Message(message)),
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => {
                    link.drain(LAST);
                    return Ok(());
                }
            }
        }
        if link.is_due(Instant::now()) {
            link.say(&Said::Alive);
        }
        link.flush()?;
        let left = link.next_look().saturating_duration_since(Instant::now());
        let mut waited = vec![link.reading(), PollFd::new(outgoing, Interest::Read)];
        if link.is_waiting() {
            waited.push(link.writing());
        }
        poll::wait(&mut waited, Some(left))?;
        if waited[0].is_ready() {
            link.fill()?;
            while let Some(said) = link.next()? {
                if let Said::Message(message) = said
                    && !hear(message)
                {
                    return Ok(());
                }
            }
        }
        link.check(Instant::now())?;
    }
}

impl Line for NetworkLine {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let say = self.say.as_ref().ok_or_else(gone)?;
        say.send(message.to_vec()).map_err(|_| gone())?;
        self.outgoing.notify();
        Ok(())
    }

    fn take(&mut self) -> Option<Result<Vec<u8>>> {
        taken(&self.heard)
    }

    fn is_between_hosts(&self) -> bool {
        true
    }
}

impl Drop for NetworkLine {
    /// What was said last leaves before.
    fn drop(&mut self) {
        self.say = None;
        self.outgoing.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
