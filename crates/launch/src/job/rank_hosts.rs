//! Hosts of a job's ranks, as the job sees them: this host ([`LocalHost`](super::local::LocalHost)) or
//! others ([`RemoteHosts`](super::remote::RemoteHosts)), with the same operations and the same [`Event`]s.
//!
//! ```text
//!   start ──▶ wait for `entries` ──▶ proceed ──▶ … ──▶ begin_end ──▶ until none is `unfinished` ──▶ kill
//!                     ▲                 │ events                                              ──▶ part
//!                     └─────────────────┘
//! ```

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::Instant;

use weft_mpi::waits::RankWaits;
use weft_sys::poll::PollFd;

use super::outcome::Failure;
use super::output::OutputKind;
use crate::control::Notice;
use crate::hosts::agents;
use crate::profile::RankRecord;

/// One thing to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// What a rank of this host has to say, by its local rank.
    Control(usize),
    /// The end of a process that was there before its launcher, by its local rank.
    Adopted(usize),
    /// Ranks of another launcher that come to this one, or have all ended.
    OtherRanks,
    /// An agent, or somebody who may become one.
    Agents(agents::Token),
    /// What rank 0 reads, on another host.
    Input,
    /// The process that has asked for the launcher of ranks on several hosts has ended.
    Asker,
}

/// What has happened to the ranks of a job.
#[derive(Debug)]
pub enum Event {
    /// Something to be shown to the user, without the name of this program.
    Note(String),
    /// All ranks have a host: those that have not ended yet run, or are about to.
    Assigned,
    /// A rank runs.
    Started {
        rank: u32,
        process: u32,
        /// What the user may want to know besides: its program, or its host.
        detail: String,
        /// Its standard output and standard error, if they are to be read here.
        outputs: Option<[File; 2]>,
    },
    /// A rank on another host has written this; nothing: it has closed this output.
    Output {
        rank: u32,
        kind: OutputKind,
        bytes: Vec<u8>,
    },
    /// A rank has told this about itself.
    Notice { rank: u32, told: Notice },
    /// What the threads of a rank wait for: it answers an [inquiry](RankHosts::inquire).
    Waits { rank: u32, waits: RankWaits },
    /// A process was started from within a program; it has this number in the job.
    Spawned {
        rank: u32,
        /// Its world, and its rank there.
        world: WorldRank,
        process: u32,
        detail: String,
        outputs: Option<[File; 2]>,
    },
    /// Not all of a world could be started: its end is no failure.
    GivenUp { world: u32 },
    /// `MPI_Comm_spawn` has failed at those who have had this world started: nobody waits for it any more.
    Abandoned { world: u32 },
    /// Ranks have ended, and this was noticed at the same time.
    Exited { ended: Vec<(u32, ExitStatus)> },
    /// A host is lost, with those of these ranks that had not ended.
    HostLost {
        host: String,
        ranks: Vec<u32>,
        reason: String,
    },
    /// The job cannot go on.
    Failed(Failure),
}

/// Rank of a process in a world that was started from within a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorldRank {
    pub world: u32,
    pub rank: u32,
}

/// The hosts of a job's ranks. Nothing here waits, except where it says so.
pub trait RankHosts {
    /// Starts the ranks, or what will start them. `input` is what rank 0 reads instead of our standard
    /// input.
    fn start(&mut self, input: Option<OwnedFd>) -> Vec<Event>;

    /// What to wait for. If `held_up`, nobody takes our output, and what adds to it is left for later.
    fn entries(&self, held_up: bool) -> Vec<(Token, PollFd<'_>)>;

    /// When to [`proceed`](Self::proceed) at the latest.
    fn next_look(&self) -> Option<Instant>;

    /// Goes on: `ready` says which of the [`entries`](Self::entries) were found ready.
    fn proceed(&mut self, ready: &[(Token, bool)], held_up: bool) -> Vec<Event>;

    /// Reaps children of this process: at least one has ended.
    fn reap(&mut self) -> Vec<Event>;

    /// Sends a signal to the ranks, and to all that they have started if it stops, continues or ends
    /// programs.
    fn signal(&mut self, number: i32);

    /// Takes no more of what a rank writes there: whoever reads our output is gone.
    fn close_output(&mut self, rank: u32, kind: OutputKind);

    /// Tells the other ranks that one has ended; `in_order` if that is no loss to them.
    fn announce_end(&mut self, rank: u32, in_order: bool);

    /// Tells all ranks that one of this world will not meet them in `MPI_Finalize`. Those of its host know that from itself.
    fn announce_absence(&mut self, world: u32);

    /// One of a world has ended before it had met those who have had it started: if these wait, they are woken, and find this reason
    /// at their port.
    fn lose_world(&mut self, world: u32, reason: &str);

    /// Ends some of the ranks, which the others do not need.
    fn end_ranks(&mut self, ranks: &[u32]);

    /// Starts another process for a rank that has died; answers it, and its outputs.
    ///
    /// # Errors
    /// A sentence, if that cannot be.
    fn restart(&mut self, rank: u32) -> Result<(u32, Option<[File; 2]>), String>;

    /// Asks all ranks of this host what they wait for. Those whose threads wait in MPI answer by
    /// [`Event::Waits`], each once.
    fn inquire(&mut self);

    /// The host of a rank, if that is worth saying.
    fn host(&self, rank: u32) -> Option<&str>;

    /// Has other hosts end what they have.
    fn begin_end(&mut self);

    /// The other hosts that have not said yet that all is ended there.
    fn unfinished(&self) -> Vec<String>;

    /// Ends everything below this process, and waits for it. False if something is left: it runs as
    /// another user.
    fn kill(&mut self) -> (Vec<Event>, bool);

    /// Reads all that ranks have said before they ended.
    fn read_rest(&mut self) -> Vec<Event>;

    /// What the ranks have recorded of where their time goes; once they have ended.
    fn take_profiles(&mut self) -> Vec<RankRecord>;

    /// Says that the job is over, and with what code. Waits, for a bounded time.
    fn part(&mut self, code: u8);
}
