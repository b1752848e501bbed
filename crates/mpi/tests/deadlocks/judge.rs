//! Judge: whether the answers to two inquiries prove a standstill.

use std::collections::BTreeMap;

use weft_mpi::waits::{self, Link, RankWaits};

/// The answers to the inquiry before, if all gave one by which they depend on each other.
#[derive(Default)]
pub struct Judge(Option<BTreeMap<u32, RankWaits>>);

impl Judge {
    /// Takes the answers to an inquiry and what those had exchanged with others that had come to their end before. True if nobody goes on.
    pub fn is_standstill(
        &mut self,
        ranks: u32,
        mut answers: BTreeMap<u32, RankWaits>,
        ended: BTreeMap<u32, Vec<Link>>,
    ) -> bool {
        answers.retain(|rank, _| !ended.contains_key(rank));
        let before = self.0.take();
        let all = (0..ranks).all(|rank| ended.contains_key(&rank) || answers.contains_key(&rank));
        if !all || answers.values().any(|answer| !answer.depends_on_others()) {
            return false;
        }
        let unchanged = before.is_some_and(|before| {
            let same = |(rank, answer): (&u32, &RankWaits)| {
                let before = before.get(rank);
                before.is_some_and(|before| answer.is_unchanged_since(before))
            };
            // Who has come to its end since has gone on.
            answers.len() == before.len() && answers.iter().all(same)
        });
        // The counts of the second answers: they held when the second inquiry began.
        let last_words = ended.into_iter().map(|(rank, links)| {
            let told = RankWaits {
                links,
                ..RankWaits::default()
            };
            (rank, told)
        });
        let all = answers.clone().into_iter().chain(last_words).collect();
        self.0 = Some(answers);
        unchanged && waits::nothing_is_on_its_way(&all)
    }
}
