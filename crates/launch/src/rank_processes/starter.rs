//! Starter: what the ranks of a host are started with beside their program: cores, output, the memory of their profiles,
//! which is kept until it is read.

use std::fs::File;
use std::io;
use std::process::Stdio;

use weft_sys::descriptor;

use super::rank::Rank;
use super::share::HostShare;
use super::spawn::{RankNumbers, Spawned, Spawner};
use crate::binding::{FREE, RankCores};
use crate::plan::Program;
use crate::profile::{Clock, Moment, ProfileMemory, RankRecord};
use crate::segment::Segment;

/// A rank that was started.
#[derive(Debug)]
pub struct Started {
    /// Which.
    pub rank: u32,
    /// Its process.
    pub process: u32,
    /// Its standard output and standard error, to be read without waiting; `None` if it has ours.
    pub outputs: Option<[File; 2]>,
    /// On which cores it runs, for people, if that is to be reported.
    pub cores: Option<String>,
}

/// A rank that could not be started.
#[derive(Debug)]
pub struct NotStarted {
    /// Which.
    pub rank: u32,
    /// Why, with a remedy where there is one.
    pub reason: io::Error,
}

/// See the [module page](self).
pub struct Starter {
    /// The ranks write where we do.
    direct: bool,
    /// On which cores each rank runs, by local rank; none: on all.
    cores: Vec<RankCores>,
    /// What the user is to know of that.
    cores_note: Option<String>,
    /// Whether it is told of each rank.
    reports_cores: bool,
    /// The memory of profiles, also of ranks that have ended.
    profiles: Vec<(u32, ProfileMemory)>,
    /// When this was prepared.
    prepared: Moment,
}

impl Starter {
    /// For the ranks of this host. If `direct`, they write to our own standard output and standard error.
    ///
    /// # Errors
    /// If they cannot have the cores that were asked for.
    pub fn new(share: &HostShare, direct: bool) -> io::Result<Self> {
        let (cores, cores_note) = (share.binding)
            .of_this_host(share.ranks.len())
            .map_err(io::Error::other)?;
        Ok(Self {
            direct,
            cores,
            cores_note,
            reports_cores: share.binding.report,
            profiles: Vec::new(),
            prepared: Moment::now(),
        })
    }

    /// For ranks that are there already: those that are started in their place write where we do, on any cores.
    pub fn of_adopted(share: &HostShare) -> Self {
        Self {
            direct: true,
            cores: Vec::new(),
            cores_note: None,
            reports_cores: share.binding.report,
            profiles: Vec::new(),
            prepared: Moment::now(),
        }
    }

    /// What the user is to know of the cores of these ranks.
    pub fn cores_note(&self) -> Option<&str> {
        self.cores_note.as_deref()
    }

    /// Opens the segment to whatever is started, for the ranks that the job has from the start.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn spawner<'a>(&self, segment: &'a Segment) -> io::Result<Spawner<'a>> {
        Spawner::new(&segment.descriptor, self.direct)
    }

    /// Starts the process of a rank; of one that comes later on any cores, which are not reported.
    ///
    /// # Errors
    /// As [`Spawner::start`].
    pub fn start(
        &mut self,
        spawner: &mut Spawner<'_>,
        numbers: RankNumbers,
        (program, input): (&Program, Stdio),
    ) -> io::Result<(Rank, Started)> {
        let is_later = numbers.place.is_some();
        let own = self.cores.get(numbers.local_rank as usize);
        let cores = own.filter(|_| !is_later).unwrap_or(&FREE);
        let Spawned {
            process,
            control,
            lifeline,
            outputs,
            profile,
            pmi,
        } = spawner.start(numbers, program, input, cores)?;
        let rank = numbers.number();
        self.profiles.extend(profile.map(|memory| (rank, memory)));
        let started = Started {
            rank,
            process,
            outputs,
            cores: (self.reports_cores && !is_later).then(|| cores.describe()),
        };
        let rank = Rank::new(numbers, process, control, lifeline).with_pmi(pmi);
        Ok((rank, started))
    }

    /// What the ranks have written about where their time goes. To be called once they have ended.
    pub fn take_profiles(&mut self) -> Vec<RankRecord> {
        let profiles = std::mem::take(&mut self.profiles);
        let clock = Clock::since(self.prepared);
        let records = profiles.into_iter();
        records
            .filter_map(|(rank, memory)| memory.read(rank, &clock))
            .collect()
    }
}

/// Raises the limit of descriptors if it does not suffice for so many ranks, or agents that have them.
pub fn make_room(ranks: u32) {
    // Four each, five with PMI, and more while one is started. Ranks inherit the limit, and some programs mind a large
    // one: only if it must be.
    let wanted = 5 * u64::from(ranks) + 64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.current.is_some_and(|limit| limit < wanted) {
        // If it cannot be, the start of a rank will say so.
        let _ = descriptor::raise_limit();
    }
}
