//! Start of a rank: its process, and the descriptors that tie it to its launcher.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weft_sys::descriptor::{self, Carries};
use weft_sys::{process, signal};

use crate::binding::{self, RankCores};
use crate::bootstrap::{Names, pmi};
use crate::linkage;
use crate::plan::Program;
use crate::profile::ProfileMemory;
use crate::signals::HANDLED;

/// A process that was started for a rank, and our ends of what it has.
pub struct Spawned {
    /// Its id.
    pub process: u32,
    /// The socket over which it tells and asks.
    pub control: OwnedFd,
    /// Never written to: closes when we end, and ends the rank then.
    pub lifeline: OwnedFd,
    /// Its standard output and standard error, unless it has ours.
    pub outputs: Option<[File; 2]>,
    /// The memory of its profile, if it was asked for.
    pub profile: Option<ProfileMemory>,
    /// The socket over which it may speak PMI.
    pub pmi: Option<OwnedFd>,
}

/// The numbers of a rank, as its process is told them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankNumbers {
    /// In the job, from 0.
    pub rank: u32,
    /// How many ranks the job has.
    pub size: u32,
    /// Among the ranks of this host, from 0.
    pub local_rank: u32,
    /// How many ranks this host has.
    pub local_size: u32,
    /// Which of the programs it runs, from 0.
    pub appnum: u32,
    /// Of a process that was started later: the numbers above are those in its own world.
    pub place: Option<LaterSlot>,
}

/// Slot of a process that was started later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaterSlot {
    /// Its number in the job.
    pub number: u32,
    /// Its number in the segment of its host.
    pub slot: u32,
    /// The job has other hosts.
    pub several_hosts: bool,
}

impl RankNumbers {
    /// The number in the job.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.place.map_or(self.rank, |place| place.number)
    }
}

impl RankNumbers {
    /// The variables from which scripts and programs read their numbers under the launchers of MPICH and Open MPI. A
    /// rank has them for its whole life. They name no way to a launcher: that does `PMI_FD`, beside them, for
    /// programs that may need it.
    fn usual_variables(&self) -> [(&'static str, String); 8] {
        [
            ("PMI_RANK", self.rank),
            ("PMI_SIZE", self.size),
            ("MPI_LOCALRANKID", self.local_rank),
            ("MPI_LOCALNRANKS", self.local_size),
            ("OMPI_COMM_WORLD_RANK", self.rank),
            ("OMPI_COMM_WORLD_SIZE", self.size),
            ("OMPI_COMM_WORLD_LOCAL_RANK", self.local_rank),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", self.local_size),
        ]
        .map(|(name, number)| (name, number.to_string()))
    }
}

/// Starts ranks. As long as it lives the segment is open to whatever is started.
pub struct Spawner<'a> {
    memory: &'a OwnedFd,
    /// Says to whatever is started below a rank that a job of ours is above it.
    job: OsString,
    /// The ranks write where we do: there is only one, and nothing needs to be sorted.
    direct: bool,
    /// Which programs may speak PMI, of those that were started.
    pmi: HashMap<PathBuf, bool>,
}

impl<'a> Spawner<'a> {
    /// Prepares.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(memory: &'a OwnedFd, direct: bool) -> io::Result<Self> {
        // All ranks inherit it under the same number; nobody else is started while it is open so.
        descriptor::set_close_on_exec(memory, false)?;
        Ok(Self {
            memory,
            job: process::id().to_string().into(),
            direct,
            pmi: HashMap::new(),
        })
    }

    /// Starts one rank, which reads this and runs there.
    ///
    /// # Errors
    /// If there are no descriptors or processes left, or the program cannot be executed. The text names
    /// the file, and a remedy where there is one.
    pub fn start(
        &mut self,
        numbers: RankNumbers,
        program: &Program,
        input: Stdio,
        cores: &RankCores,
    ) -> io::Result<Spawned> {
        self.spawn(numbers, program, input, cores).map_err(|error| {
            let remedy = match weft_sys::error::errno(&error) {
                Some(libc::EMFILE) => {
                    "; a rank takes up to five descriptors here: raise the limit (ulimit -n)"
                }
                Some(libc::EAGAIN) => {
                    "; the limit of processes is reached: raise it (ulimit -u, or pids.max of the control group)"
                }
                _ => "",
            };
            let file = program.executable.display();
            io::Error::new(error.kind(), format!("{file}: {error}{remedy}"))
        })
    }

    fn spawn(
        &mut self,
        numbers: RankNumbers,
        program: &Program,
        input: Stdio,
        cores: &RankCores,
    ) -> io::Result<Spawned> {
        let (control, its_control) = descriptor::socket_pair(Carries::Messages)?;
        descriptor::set_nonblocking(&control, true)?;
        let (its_lifeline, lifeline) = descriptor::pipe()?;
        for inherited in [&its_control, &its_lifeline] {
            descriptor::set_close_on_exec(inherited, false)?;
        }
        let profile = ProfileMemory::of(&program.environment)?;
        let mut pmi = None;
        let mut command = Command::new(&program.executable);
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        command
            .arg0(&program.words[0])
            .args(&program.words[1..])
            .env_clear()
            .envs(&program.environment)
            .envs(numbers.usual_variables())
            .env(Names::RANK, numbers.rank.to_string())
            .env(Names::SIZE, numbers.size.to_string())
            .env(Names::LOCAL_RANK, numbers.local_rank.to_string())
            .env(Names::LOCAL_SIZE, numbers.local_size.to_string())
            .env(Names::APPNUM, numbers.appnum.to_string())
            .env(Names::JOB, &self.job)
            .env(Names::JOB_DESCRIPTOR, self.memory.as_raw_fd().to_string())
            .env(
                Names::CONTROL_DESCRIPTOR,
                its_control.as_raw_fd().to_string(),
            )
            .env(
                Names::LIFELINE_DESCRIPTOR,
                its_lifeline.as_raw_fd().to_string(),
            );
        if let Some(LaterSlot {
            number,
            slot,
            several_hosts,
        }) = numbers.place
        {
            let several_hosts = u32::from(several_hosts);
            command.env(Names::PLACE, format!("{number} {slot} {several_hosts}"));
        }
        // Of later processes other libraries know nothing.
        if numbers.place.is_none() && self.may_speak_pmi(&program.executable) {
            let (ours, theirs) = descriptor::socket_pair(Carries::Bytes)?;
            descriptor::set_nonblocking(&ours, true)?;
            let number = descriptor::hand_over(&mut command, theirs);
            command.env(pmi::DESCRIPTOR, number.to_string());
            pmi = Some(ours);
        }
        if let Some(profile) = &profile {
            let number = descriptor::hand_over(&mut command, profile.share()?);
            command.env(Names::PROFILE_DESCRIPTOR, number.to_string());
        }
        command.stdin(input);
        let mut outputs = None;
        if !self.direct {
            let (out, its_out) = descriptor::pipe()?;
            let (err, its_err) = descriptor::pipe()?;
            command.stdout(its_out).stderr(its_err);
            for ours in [&out, &err] {
                descriptor::set_nonblocking(ours, true)?;
            }
            outputs = Some([File::from(out), File::from(err)]);
        }
        signal::unblock_in_child(&mut command, &HANDLED)?;
        process::child_dies_with_us(&mut command, process::SIGKILL);
        match cores {
            RankCores::Free => {}
            RankCores::Near(threads) => {
                process::child_begins_on(&mut command, threads, false);
                // The kernel may move it while it starts: once it begins with MPI it goes back.
                command.env(Names::CORES, binding::ranges(threads));
            }
            RankCores::Bound(threads) => process::child_begins_on(&mut command, threads, true),
        }
        let child = command.spawn()?;
        Ok(Spawned {
            process: child.id(),
            control,
            lifeline,
            outputs,
            profile,
            pmi,
        })
    }

    /// Whether a program may run over a library that speaks PMI: one that does not name ours. What scripts load, nobody knows.
    fn may_speak_pmi(&mut self, program: &Path) -> bool {
        if !self.pmi.contains_key(program) {
            let speaks = !linkage::names_our_library(program);
            self.pmi.insert(program.to_owned(), speaks);
        }
        self.pmi[program]
    }
}

impl Drop for Spawner<'_> {
    fn drop(&mut self) {
        let _ = descriptor::set_close_on_exec(self.memory, true);
    }
}
