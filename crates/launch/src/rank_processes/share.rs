//! Share of a host in a job: which ranks it gets, and what they are told about the others.

use weft_secure::Key;

use super::spawn::RankNumbers;
use crate::binding::BindingRequest;

/// The ranks of a job that this host gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostShare {
    /// How many ranks the job has.
    pub size: u32,
    /// Those of this host, ascending, and which program each runs.
    pub ranks: Vec<(u32, u32)>,
    /// Processes that may be there beside them, started later.
    pub room: u32,
    /// Processes that may be started in place of dead ones.
    pub spares: u32,
    /// Processes of the job, on whatever host, whose addresses are recorded.
    pub addresses: u32,
    /// On which cores its ranks run.
    pub binding: BindingRequest,
}

impl HostShare {
    /// How many ranks this host gets.
    pub fn local_size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The numbers of one of them.
    pub fn numbers(&self, local_rank: usize) -> RankNumbers {
        let (rank, appnum) = self.ranks[local_rank];
        RankNumbers {
            rank,
            size: self.size,
            local_rank: local_rank as u32,
            local_size: self.local_size(),
            appnum,
            place: None,
        }
    }
}

/// The other hosts of a job, for the ranks of this one to ask for.
pub struct OtherHosts {
    /// By which ranks prove to each other that they belong to the job.
    pub key: Key,
    /// The host of each rank, as [`HostMap`](crate::bootstrap::HostMap) writes it.
    pub map: String,
}
