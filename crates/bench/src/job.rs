//! A launched MPI job that answers requests, and the pool of those that are resident.
//!
//! ```text
//! mpiexec -n 2 measure SOCKET ──> rank 0 ── hello ──┐
//!                                 rank 1 ── hello ──┴─> listener in a private folder
//! request "pingpong size=8 …" ──> every rank;  answer "ok 241.3 240.8 …" <── rank 0
//! ```
//!
//! Between requests every rank sleeps in `read`, outside of MPI, so a resident job takes no processor
//! from the one that is measured. A job that does not answer in time is killed: the launcher's process
//! group and every rank, by the process ids that the ranks gave.

use crate::experiment::JobKey;
use crate::implementation::Implementation;
use crate::strangers::listening;
use anyhow::{Context, Result, anyhow, bail};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use weft_sys::process::{ProcessHandle, child_dies_with_us, signal_group};

/// How long a job may take to start, and to end when asked.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(10);

/// SIGKILL.
const KILL: i32 = 9;
/// SIGTERM: a launcher ends its ranks, too.
const END_NOW: i32 = 15;

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
        let mut command = implementation.command(ranks, cores);
        command
            .arg(&socket)
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0);
        if multiple {
            command.arg("multiple");
        }
        // However this process ends: ranks that wait inside of MPI may spin for ever.
        child_dies_with_us(&mut command, END_NOW);
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
                        bail!("ended while starting ({}){}", describe(status), job.said());
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
        // The folder goes now: from here on nothing is left behind, however this process ends.
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
        // A handle means this process even if its id is used again later.
        self.processes
            .push(ProcessHandle::open(pid).context("a rank ended while starting")?);
        self.version = version.to_string();
        rank.parse().context("rank of a rank")
    }

    /// What the library says of itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Sends a request to every rank.
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
                    status.map_or("still running".into(), describe),
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

    /// Asks and waits.
    pub fn request(&mut self, request: &str, timeout: Duration) -> Result<Vec<f64>> {
        self.post(request)?;
        self.collect(timeout).with_context(|| request.to_string())
    }

    /// The addresses at which the ranks listen.
    pub fn listening(&self) -> Result<Vec<SocketAddr>> {
        let mut all = Vec::new();
        for process in &self.processes {
            all.extend(listening(process.id())?);
        }
        if all.is_empty() {
            bail!("the ranks listen at no port: they do not talk over TCP");
        }
        Ok(all)
    }

    /// Proportional set size of every rank, in MB (10^6 bytes).
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

    /// Lets the job finalise and end; killed if it does not.
    pub fn end(mut self) -> Result<()> {
        self.post("quit")?;
        self.ended = true;
        match self.wait(END) {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!(
                "ended badly after its last request ({}){}",
                describe(status),
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
        // Only processes that this job started: its launcher's group, and the ranks by their own word.
        let _ = signal_group(self.launcher.id(), KILL);
        for process in &self.processes {
            let _ = process.signal(KILL);
        }
        let _ = self.launcher.wait();
    }
}

/// Waits for a process, at most so long.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
            _ => return None,
        }
    }
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}

/// Runs a command that must end well by itself; its time from start to end.
pub fn timed(mut command: Command, limit: Duration) -> Result<Duration> {
    let log = tempfile::tempfile().context("no temporary file")?;
    command
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    child_dies_with_us(&mut command, END_NOW);
    let start = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    // A thread that sleeps in waitpid sees the end at once; a loop of naps would add to the time.
    let (sender, receiver) = std::sync::mpsc::channel();
    let group = child.id();
    std::thread::spawn(move || sender.send(child.wait().map(|status| (status, start.elapsed()))));
    match receiver.recv_timeout(limit) {
        Ok(Ok((status, took))) if status.success() => Ok(took),
        Ok(Ok((status, _))) => bail!("{command:?} ended badly ({status})"),
        Ok(Err(error)) => Err(error).context("waiting for a launcher failed"),
        Err(_) => {
            let _ = signal_group(group, KILL);
            bail!("{command:?} did not end within {limit:?}")
        }
    }
}

/// The resident jobs of a run, launched when first asked for.
#[derive(Default)]
pub struct Pool {
    jobs: HashMap<JobKey, Job>,
    failures: HashMap<JobKey, (u32, String)>,
    /// What went wrong while jobs ended.
    pub complaints: Vec<String>,
}

impl Pool {
    /// The job of this key, launched if it does not run. After two failed launches the key is refused.
    pub fn job(
        &mut self,
        key: JobKey,
        participants: &[Implementation],
        cores: usize,
    ) -> Result<&mut Job> {
        if !self.jobs.contains_key(&key) {
            if let Some((2.., why)) = self.failures.get(&key) {
                bail!("{why} (tried twice)");
            }
            match Job::launch(
                &participants[key.implementation],
                key.ranks,
                key.multiple,
                cores,
            ) {
                Ok(job) => self.jobs.insert(key, job),
                Err(error) => {
                    let failure = self.failures.entry(key).or_default();
                    *failure = (failure.0 + 1, format!("{error:#}"));
                    return Err(error);
                }
            };
        }
        self.jobs
            .get_mut(&key)
            .context("a job that was just launched")
    }

    /// Ends one job in good order.
    pub fn end(&mut self, key: JobKey) -> Result<()> {
        self.jobs.remove(&key).map_or(Ok(()), Job::end)
    }

    /// Kills a job that misbehaved.
    pub fn discard(&mut self, key: JobKey) {
        self.jobs.remove(&key);
    }

    /// Ends all jobs in good order.
    pub fn retire(&mut self, participants: &[Implementation]) {
        let mut jobs: Vec<_> = self.jobs.drain().collect();
        jobs.sort_by_key(|(key, _)| *key);
        for (key, job) in jobs {
            if let Err(error) = job.end() {
                self.complaints.push(format!(
                    "{} with {} ranks: {error:#}",
                    participants[key.implementation].name, key.ranks
                ));
            }
        }
    }
}
