//! `cargo xtask mpi4py`: builds mpi4py from source with Weft's `mpicc` and runs its own tests under
//! Weft's `mpiexec`; or, with `--abi mpich` or `--abi openmpi`, takes the wheel of the registry as it is.
//!
//! All test files of one number of ranks run in one job. A job is ended after a file with failures,
//! when no rank goes on, and when a rank dies; what is left then runs in a new job, because a failed
//! test may leave messages behind that later tests would trip over. A test that stands still or dies is
//! left out of the new job, which goes on with the same file, so one run names all failures.

mod installation;
mod job;
mod lists;
#[path = "../../tests/launch/network.rs"]
mod network;
mod record;
mod session;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::dist::{self, target};
use crate::rooms::root;
use crate::wheel;
use installation::{Installation, Mpi};
use lists::Lists;
use network::Network;
use session::Session;

/// What to run against what.
#[derive(clap::Args)]
pub struct Arguments {
    /// Numbers of ranks.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4")]
    ranks: Vec<u32>,
    /// Files whose tests ask nothing of other ranks run with the first number of ranks alone.
    #[arg(long)]
    alone_once: bool,
    /// Only test files whose name contains one of these.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    only: Vec<String>,
    /// All files and tests of the suite, also those that are excluded.
    #[arg(long)]
    everything: bool,
    /// The MPI under test. Default: this tree, built in release and laid out.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// The MPI under test is the wheel of this tree, installed by pip.
    #[arg(long, conflicts_with = "prefix")]
    wheel: bool,
    /// For which ABI mpi4py is built: `mpich` is the wheel of the registry, which loads libmpi.so.12; `openmpi` the same wheel,
    /// with libmpi.so.40.
    #[arg(long, value_enum, default_value = "standard")]
    abi: Abi,
    /// Its compiler wrapper, if it is not in the prefix's bin.
    #[arg(long, value_name = "PATH")]
    mpicc: Option<PathBuf>,
    /// Its launcher, if it is not in the prefix's bin.
    #[arg(long, value_name = "PATH")]
    mpiexec: Option<PathBuf>,
    /// Over what ranks of one host talk: tcp, as `mpiexec --fabric` says.
    #[arg(long, value_name = "FABRIC")]
    fabric: Option<String>,
    /// On so many hosts, network namespaces that are made for it (needs the right to).
    #[arg(long, value_name = "COUNT")]
    hosts: Option<usize>,
    /// Seconds that one test may take. Some compute for long in Python, beside others of as many ranks; a deadlock is told by
    /// Weft itself within a second.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    test_limit: u64,
    /// Seconds that one job over many files may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 2400)]
    limit: u64,
}

/// The ABI that mpi4py uses.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Abi {
    /// Built from source with the compiler wrapper of the MPI under test.
    Standard,
    /// Built by others with MPICH.
    Mpich,
    /// Built by others with Open MPI.
    Openmpi,
}

impl Abi {
    /// The library that a wheel is to load; none where mpi4py is built from source.
    fn library(self) -> Option<&'static str> {
        match self {
            Self::Standard => None,
            Self::Mpich => Some("libmpi.so.12"),
            Self::Openmpi => Some("libmpi.so.40"),
        }
    }
}

/// Builds, runs, and sums up.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = root()?;
    let prefix = match &arguments.prefix {
        Some(prefix) => prefix.clone(),
        None if arguments.wheel => wheel::installed()?,
        None => dist::lay_out(None)?,
    };
    let mpi = Mpi::at(
        &prefix,
        arguments.mpicc.as_deref(),
        arguments.mpiexec.as_deref(),
    )?;
    let home = target(&root).join("mpi4py");
    let mut installation = Installation::prepare(&home, mpi, arguments.abi.library())?;
    if let Some(fabric) = &arguments.fabric {
        installation.place.options = vec!["--fabric".into(), fabric.clone()];
    }
    if let Some(count) = arguments.hosts {
        let network = Network::new(count);
        installation.place.network = Some(network.context("no hosts can be made here")?);
    }
    let library = installation.library()?;
    println!("mpi4py on {library}");
    if arguments.prefix.is_none() && !library.starts_with("Weft") {
        bail!("mpi4py was to be tested on Weft, but runs on {library}");
    }
    let folder = root.join("tests/mpi4py");
    let mut lists = Lists::read(&folder, &installation.suite, &root.join("docs/coverage.md"))?;
    let library = arguments.abi.library();
    lists
        .excluded
        .retain(|entry| entry.library.is_none() || entry.library.as_deref() == library);
    if arguments.everything {
        lists = lists.everything(&installation.suite)?;
    }
    if !arguments.only.is_empty() {
        lists.files.retain(|file| {
            arguments
                .only
                .iter()
                .any(|part| file.contains(part.as_str()))
        });
        if lists.files.is_empty() {
            bail!(
                "no included test file has {} in its name",
                arguments.only.join(" or ")
            );
        }
    }
    let program = folder.join("run.py");
    let mut session = Session::new(arguments, &installation, &lists, &program);
    let begun = Instant::now();
    for &ranks in &arguments.ranks {
        if arguments.only.is_empty() {
            session.bench(ranks)?;
        }
        session.suite(ranks)?;
    }
    session.sum_up(begun.elapsed())
}
