//! MPI job: it is launched and answers requests. A [pool](JobPool) keeps the resident ones.
//!
//! ```text
//! mpiexec -n 2 measure SOCKET ──> rank 0 ── hello ──┐
//!                                 rank 1 ── hello ──┴─> listener in a private folder
//! request "pingpong size=8 …" ──> every rank;  answer "ok 241.3 240.8 …" <── rank 0
//! ```
//!
//! Between requests every rank sleeps in `read`, outside of MPI, so a resident job takes no processor from
//! the one that is measured. A job that does not answer in time is killed: the launcher's process group and
//! every rank, by the process ids that the ranks reported.

mod pool;

pub use pool::JobPool;

use crate::implementation::Implementation;
use crate::intruders::listeners;
use crate::process::{KILL, TERMINATE, wait};
use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use weft_sys::process::{ProcessHandle, child_dies_with_us, signal_group};

/// Longest time to start, and to end when asked.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(10);

/// A running job.
pub struct Job {
    launcher: Child,
    ranks: Vec<BufReader<UnixStream>>,
    processes: Vec<ProcessHandle>,
    log: File,
    version: String,
    ended: bool,
}

impl Job {
    /// Starts a job and waits until all ranks have said hello.
    ///
    /// # Errors
    /// If the launcher does not start or ends while starting, if not all ranks have said hello within half a
    /// minute, or if they are not ranks of one job of that size. The error holds what the job printed.
    pub fn launch(
        implementation: &Implementation,
        ranks: u32,
        multiple: bool,
        cores: usize,
    ) -> Result<Job> {
        let folder = tempfile::Builder::new()
            .prefix("weft-bench-")
            .tempdir()
            .context("no temporary folder")?;
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).context("cannot listen for the ranks")?;
        listener.set_nonblocking(true)?;
        let log = tempfile::tempfile().context("no temporary file")?;
        let mut command = implementation.command(ranks, cores)?;
        command
            .arg(&socket)
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0);
        if multiple {
            command.arg("multiple");
        }
        // Even if this process ends: ranks that wait inside of MPI may spin for ever.
        child_dies_with_us(&mut command, TERMINATE);
        let launcher = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut job = Job {
            launcher,
            ranks: Vec::new(),
            processes: Vec::new(),
            log,
            version: String::new(),
            ended: false,
        };
        let deadline = Instant::now() + START;
        let mut waiting: Vec<(u32, BufReader<UnixStream>)> = Vec::new();
        while waiting.len() < ranks as usize {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(START))?;
                    let mut reader = BufReader::new(stream);
                    let rank = job.hello(&mut reader, ranks)?;
                    waiting.push((rank, reader));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if let Some(status) = job.launcher.try_wait()? {
                        bail!("ended while starting ({}){}", status, job.said());
                    }
                    if Instant::now() > deadline {
                        bail!(
                            "{} of {ranks} ranks started within {START:?}{}",
                            waiting.len(),
                            job.said()
                        );
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
                Err(error) => return Err(error).context("the listener for the ranks failed"),
            }
        }
        waiting.sort_by_key(|(rank, _)| *rank);
        if waiting
            .iter()
            .enumerate()
            .any(|(index, (rank, _))| *rank as usize != index)
        {
            bail!(
                "the ranks are {:?}, expected 0 to {}",
                waiting.iter().map(|(r, _)| r).collect::<Vec<_>>(),
                ranks - 1
            );
        }
        job.ranks = waiting.into_iter().map(|(_, reader)| reader).collect();
        // The folder is removed now: from here on nothing is left behind, however this process ends.
        Ok(job)
    }

    /// Reads one rank's greeting: its rank, size, process id and library.
    fn hello(&mut self, reader: &mut BufReader<UnixStream>, ranks: u32) -> Result<u32> {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .context("a rank did not say who it is")?;
        let words: Vec<&str> = line.trim_end().split('\t').collect();
        let ["hello", rank, size, pid, version] = words[..] else {
            bail!("not a greeting of a rank: {line:?}")
        };
        if size.parse() != Ok(ranks) {
            bail!(
                "a rank says that the job has {size} ranks, {ranks} were asked for: is it the right launcher?"
            );
        }
        let pid = pid.parse().context("process id of a rank")?;
        // A handle names this process even if its id is reused later.
        self.processes
            .push(ProcessHandle::open(pid).context("a rank ended while starting")?);
        self.version = version.to_string();
        rank.parse().context("rank of a rank")
    }

    /// The version that the library reports.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Sends a request to every rank.
    ///
    /// # Errors
    /// If a rank has closed its socket: the job is gone.
    pub fn post(&mut self, request: &str) -> Result<()> {
        for rank in &mut self.ranks {
            if rank
                .get_mut()
                .write_all(format!("{request}\n").as_bytes())
                .is_err()
            {
                bail!("the job is gone{}", self.said());
            }
        }
        Ok(())
    }

    /// Waits for the answer to a request that was posted.
    ///
    /// # Errors
    /// If the job has ended, gives no answer within `timeout`, or reports that it failed, in its own words.
    pub fn collect(&mut self, timeout: Duration) -> Result<Vec<f64>> {
        let mut line = String::new();
        let first = self.ranks.first_mut().context("a job without ranks")?;
        first.get_ref().set_read_timeout(Some(timeout))?;
        match first.read_line(&mut line) {
            Ok(0) => {
                // The launcher needs a moment to report why.
                let status = self.wait(Duration::from_secs(2));
                bail!(
                    "ended ({}){}",
                    status.map_or("still running".into(), |status| status.to_string()),
                    self.said()
                )
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("no answer within {timeout:?}{}", self.said())
            }
            Err(error) => return Err(error).context("the job's socket failed"),
        }
        let values = line
            .strip_prefix("ok")
            .ok_or_else(|| anyhow!("not an answer: {line:?}"))?;
        values
            .split_whitespace()
            .map(|word| {
                word.parse()
                    .with_context(|| format!("not a number: {word}"))
            })
            .collect()
    }

    /// Posts a request and waits for the answer.
    ///
    /// # Errors
    /// As [`Self::post`] and [`Self::collect`]. A job that fails must be [discarded](JobPool::discard).
    pub fn request(&mut self, request: &str, timeout: Duration) -> Result<Vec<f64>> {
        self.post(request)?;
        self.collect(timeout).with_context(|| request.to_string())
    }

    /// The addresses at which the ranks listen.
    ///
    /// # Errors
    /// If the kernel's tables of a rank cannot be read, or no rank listens: they do not use TCP.
    pub fn listening(&self) -> Result<Vec<SocketAddr>> {
        let mut all = Vec::new();
        for process in &self.processes {
            all.extend(listeners(process.id())?);
        }
        if all.is_empty() {
            bail!("the ranks listen at no port: they do not talk over TCP");
        }
        Ok(all)
    }

    /// Proportional set size of every rank, in MB (10^6 bytes).
    ///
    /// # Errors
    /// If a rank's `smaps_rollup` cannot be read or has no such size.
    pub fn memory(&self) -> Result<Vec<f64>> {
        let of = |process: &ProcessHandle| {
            let path = format!("/proc/{}/smaps_rollup", process.id());
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("Pss:"))
                .context("no Pss in smaps_rollup")?;
            let kib: f64 = line
                .trim()
                .trim_end_matches("kB")
                .trim()
                .parse()
                .context("Pss is no number")?;
            Ok(kib * 1024.0 / 1e6)
        };
        self.processes.iter().map(of).collect()
    }

    /// Lets the job finalise and end; kills it if it does not.
    ///
    /// # Errors
    /// If it ends with another status than 0, or does not end within ten seconds: it is killed then.
    pub fn end(mut self) -> Result<()> {
        self.post("quit")?;
        self.ended = true;
        match self.wait(END) {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!(
                "ended badly after its last request ({}){}",
                status,
                self.said()
            ),
            None => {
                self.ended = false;
                bail!(
                    "did not end within {END:?} after MPI_Finalize was asked for{}",
                    self.said()
                )
            }
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait(&mut self.launcher, limit)
    }

    /// The last lines that the job printed, for a message.
    fn said(&self) -> String {
        // A duplicate shares the position, but reading at an offset does not move it.
        let mut bytes = vec![0; 64 * 1024];
        let from = self
            .log
            .metadata()
            .map_or(0, |facts| facts.len())
            .saturating_sub(bytes.len() as u64);
        let have = self.log.read_at(&mut bytes, from).unwrap_or(0);
        bytes.truncate(have);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines.len().saturating_sub(4);
        if lines.is_empty() {
            String::new()
        } else {
            format!("; it said: {}", lines[last..].join(" | "))
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Only processes that this job started: its launcher's group, and the ranks that it reported.
        let _ = signal_group(self.launcher.id(), KILL);
        for process in &self.processes {
            let _ = process.signal(KILL);
        }
        let _ = self.launcher.wait();
    }
}
