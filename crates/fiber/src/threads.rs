//! Threads of the workers of a runtime: which are started, and on which cores they run.
//!
//! Invariant: only one thread ever plays a worker. The worker's bit in `played` is set under the lock before that thread
//! plays it, and stays.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use weft_sys::cores;

use crate::config::Config;

/// The threads of at most 64 workers.
pub(crate) struct WorkerThreads {
    threads: Mutex<Threads>,
    /// The cores of this process.
    cores: Vec<usize>,
    workers: usize,
    /// See [`Config::pin`].
    pin: Option<usize>,
}

#[derive(Default)]
struct Threads {
    /// Bit of each worker that is played. It stays: nobody plays a worker after another.
    played: u64,
    /// Threads of the runtime's own that nobody has joined yet.
    own: Vec<thread::JoinHandle<()>>,
}

impl WorkerThreads {
    /// No threads yet, for the workers of this configuration.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            threads: Mutex::default(),
            cores: cores::allowed().unwrap_or_else(|_| vec![0]),
            workers: config.workers,
            pin: config.pin,
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread will play this worker, which nobody plays yet.
    pub(crate) fn adopt(&self, index: usize) {
        self.threads().played |= 1 << index;
    }

    /// Starts the thread of a worker, which runs `play`, if nobody plays it yet.
    pub(crate) fn start(
        &'static self,
        index: usize,
        play: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut threads = self.threads();
        if threads.played & 1 << index != 0 {
            return Ok(());
        }
        let started = thread::Builder::new()
            .name(format!("weft worker {index}"))
            .spawn(move || {
                self.pin(index);
                play();
            })?;
        threads.played |= 1 << index;
        threads.own.push(started);
        Ok(())
    }

    fn pin(&self, index: usize) {
        if let Some(first) = self.pin
            && self.have_cores()
        {
            // Running elsewhere is slower and not wrong.
            _ = cores::pin(&[self.cores[(first + index) % self.cores.len()]]);
        }
    }

    /// Whether each worker may have a core for itself.
    pub(crate) fn have_cores(&self) -> bool {
        self.workers <= self.cores.len()
    }

    /// Waits for the ends of all threads that were started here, also of those that are started meanwhile.
    pub(crate) fn join(&self) {
        loop {
            // The last fibers may start more.
            let thread = self.threads().own.pop();
            let Some(thread) = thread else {
                break;
            };
            // A worker's thread does not panic: its fibers catch their own.
            _ = thread.join();
        }
    }
}
