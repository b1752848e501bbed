//! Counts: what members of a play count of their traffic at moments of their own, and whether that proves that nothing comes
//! any more. The model is the reference: after a proof nobody may hear of anything, until somebody does something.

use weft_fabric::traffic::{self, Traffic};
use weft_fabric::{LinkTraffic, Peer};

/// Counts of a play.
#[derive(Default, Debug)]
pub struct Counts {
    /// What each has counted when a look found nothing, unless it has done or found something since.
    counted: Vec<Option<Traffic>>,
    /// It was proven that nothing comes, and nobody has done anything since.
    proven: bool,
    /// How often.
    pub proofs: usize,
}

impl Counts {
    pub fn new(ranks: usize) -> Self {
        Self {
            counted: vec![None; ranks],
            ..Self::default()
        }
    }

    /// A rank does something of its own accord.
    pub fn act(&mut self, rank: usize) {
        self.counted[rank] = None;
        self.proven = false;
    }

    /// A look of a rank has found so much, and handed out so many things. False: it was proven that nothing comes.
    pub fn look(&mut self, rank: usize, found: usize, heard: usize, traffic: Traffic) -> bool {
        self.counted[rank] = (found == 0).then_some(traffic);
        heard == 0 || !self.proven
    }

    /// Whether the counts of those who live prove that nothing comes any more.
    pub fn prove(&mut self, lives: impl Fn(usize) -> bool) -> bool {
        let living = (0..self.counted.len()).filter(|rank| lives(*rank));
        let counted: Option<Vec<&Traffic>> = living
            .clone()
            .map(|rank| self.counted[rank].as_ref())
            .collect();
        let Some(counted) = counted else {
            return false;
        };
        let members: Vec<(Peer, &[LinkTraffic])> = living
            .zip(&counted)
            .map(|(rank, traffic)| (Peer(rank as u32), &*traffic.links))
            .collect();
        let proven = counted.iter().all(|traffic| traffic.is_at_rest) && traffic::agree(&members);
        self.proofs += usize::from(proven && !self.proven);
        self.proven |= proven;
        proven
    }
}
