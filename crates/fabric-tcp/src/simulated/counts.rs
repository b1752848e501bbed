//! Counts: the members' counts of their traffic, each at its own time, and whether they prove that nothing more will arrive.
//! The model is the reference: after a proof nothing may be reported to anybody, until a member acts.

use weft_fabric::traffic::{self, Traffic};
use weft_fabric::{LinkTraffic, Peer};

/// Counts of a play.
#[derive(Default, Debug)]
pub struct Counts {
    /// Each member's count when a look found nothing, unless it has acted or found something since.
    counted: Vec<Option<Traffic>>,
    /// It was proven that nothing more will arrive, and nobody has acted since.
    proven: bool,
    /// How often that was proven.
    pub proofs: usize,
}

impl Counts {
    pub fn new(ranks: usize) -> Self {
        Self {
            counted: vec![None; ranks],
            ..Self::default()
        }
    }

    /// A rank acts of its own accord.
    pub fn act(&mut self, rank: usize) {
        self.counted[rank] = None;
        self.proven = false;
    }

    /// A look of a rank has found `found`, and handed out `heard` things. False: it was proven that nothing
    /// would arrive.
    pub fn look(&mut self, rank: usize, found: usize, heard: usize, traffic: Traffic) -> bool {
        self.counted[rank] = (found == 0).then_some(traffic);
        heard == 0 || !self.proven
    }

    /// Whether the counts of living members prove that nothing more will arrive.
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
