//! Searcher: the thread of the rank that searches.

use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weft_fabric_shm::Watch;
use weft_sys::event::EventFd;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::{self, SIGSTOP};
use weft_sys::{passing, signal};

use super::host_ranks::WatchedHost;
use super::{Member, VARIABLE};
use crate::bootstrap::key_listener::KeyListener;
use crate::control::{LONGEST, Message, WaitsInPieces};
use crate::job::deadlock::{self, DeadlockWatch, Standstill, WatchedRanks};
use crate::options::OnDeadlock;

/// Messages of one rank that are read before others get their turn.
const AT_ONCE: usize = 64;
/// After what was said the job ends: how long a launcher has to pass it on. Hydra ends without waiting for what comes last.
const PASSED_ON: Duration = Duration::from_millis(200);
/// How long a launcher has to end the job. One that has been told that MPI is over does not hear of it, but of how this process ends.
const ENDS: Duration = Duration::from_secs(3);

/// The thread, for who has begun it.
#[derive(Debug)]
pub struct Search {
    end: Arc<EventFd>,
    thread: JoinHandle<()>,
}

impl Search {
    /// Begins to search for this rank, to whose listener the others come.
    ///
    /// # Errors
    /// If there is no thread, or no descriptor.
    pub fn begin(member: Arc<Member>, watch: Watch, listener: OwnedFd) -> io::Result<Self> {
        let end = Arc::new(EventFd::new()?);
        let searcher = Searcher {
            listener: KeyListener::new(listener, member.host.key.clone())?,
            voices: Vec::new(),
            ranks: WatchedHost::new(watch, member.host.ranks.clone()),
            watch: DeadlockWatch::new(Instant::now()),
            end: Arc::clone(&end),
            member,
        };
        // By this name it does not count as a thread of the program.
        let thread = signal::spawn_without_signals("weft-watch", move || searcher.run())?;
        Ok(Self { end, thread })
    }

    /// Ends it. Whoever answers an inquiry from now on finds nobody.
    pub fn end(self) {
        self.end.notify();
        let _ = self.thread.join();
    }
}

/// A rank that has come.
struct Voice {
    rank: u32,
    socket: OwnedFd,
    waits: WaitsInPieces,
}

struct Searcher {
    member: Arc<Member>,
    end: Arc<EventFd>,
    listener: KeyListener,
    voices: Vec<Voice>,
    ranks: WatchedHost,
    watch: DeadlockWatch,
}

impl Searcher {
    fn run(mut self) {
        while let Ok(true) = self.turn() {}
    }

    /// Waits for something to happen, and attends to it. False: it ends.
    fn turn(&mut self) -> io::Result<bool> {
        let mut entries = vec![PollFd::new(&*self.end, Interest::Read)];
        let listener = self.listener.sockets();
        entries.extend(listener.map(|socket| PollFd::new(socket, Interest::Read)));
        let voices_at = entries.len();
        let voices = self.voices.iter();
        entries.extend(voices.map(|voice| PollFd::new(&voice.socket, Interest::Read)));
        let look = self.watch.next_look();
        let left = look.map(|look| look.saturating_duration_since(Instant::now()));
        poll::wait(&mut entries, left)?;
        let ready: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
        drop(entries);
        if ready[0] {
            return Ok(false);
        }
        self.hear(&ready[voices_at..]);
        if ready[1..voices_at].contains(&true) {
            let came = self.listener.take().into_iter();
            self.voices.extend(came.map(|came| Voice {
                rank: came.rank,
                socket: came.socket,
                waits: WaitsInPieces::default(),
            }));
            // What they have come to say is there, as a rule.
            let all = vec![true; self.voices.len()];
            self.hear(&all);
        }
        let now = Instant::now();
        if self.watch.next_look().is_some_and(|look| look <= now) {
            self.ranks.note_ends();
            if let Some(found) = self.watch.look(now, &mut self.ranks) {
                self.tell(&found);
            }
        }
        Ok(true)
    }

    fn hear(&mut self, ready: &[bool]) {
        let mut ready = ready.iter();
        let watch = &mut self.watch;
        self.voices
            .retain_mut(|voice| ready.next() != Some(&true) || voice.hear(watch).is_ok());
    }

    /// No rank can ever go on.
    fn tell(&self, found: &Standstill) {
        if self.member.host.on_deadlock == OnDeadlock::Stop {
            return self.stop(found);
        }
        let ended = self.ranks.running().len();
        let (text, code) = deadlock::told_by_ranks(found, ended, None);
        say(&text);
        let _ = poll::wait(&mut [], Some(PASSED_ON));
        let summary = format!("a deadlock: {}", found.summary());
        self.member.end_job(code, &summary);
        let _ = poll::wait(&mut [], Some(ENDS));
        process::end_at_once(code);
    }

    /// It is told, and the ranks stay for a debugger: this one is stopped last.
    fn stop(&self, found: &Standstill) {
        let running = self.ranks.running();
        let named = running.iter();
        let named = named.map(|rank| format!("{} (rank {})", rank.process, rank.rank));
        let named: Vec<String> = named.collect();
        let by = format!("{VARIABLE}=stop");
        let (text, _) = deadlock::told_by_ranks(found, running.len(), Some((&by, &named)));
        say(&text);
        let us = process::id();
        let others = running.iter().map(|rank| rank.process);
        for process in others.filter(|process| *process != us).chain([us]) {
            let _ = process::signal(process, SIGSTOP);
        }
    }
}

impl Voice {
    /// Reads what it has to say; an error: it is gone.
    fn hear(&mut self, watch: &mut DeadlockWatch) -> io::Result<()> {
        let mut bytes = [0; LONGEST];
        for _ in 0..AT_ONCE {
            let count = match passing::receive(&self.socket, &mut bytes) {
                Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if let Some(Message::Waits { last, piece }) = Message::decode(&bytes[..count])
                && let Some(waits) = self.waits.take(last, &piece)
            {
                watch.hear(self.rank, waits, Instant::now());
            }
        }
        Ok(())
    }
}

/// Once for the job, at once.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
