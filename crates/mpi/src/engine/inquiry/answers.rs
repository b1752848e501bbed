//! Answers of the engines of a rank to one inquiry, and the answer of the rank when all are complete.

use std::mem::replace;

use weft_fabric::MOST_CHANNELS;

use super::other_threads::{OtherThreads, ThreadsOfRank};
use crate::waits::{MOST, RankWaits};

/// What an engine answers, with the threads that wait there.
type Answer = (RankWaits, Vec<u32>);

/// Answers of the engines of a rank to one inquiry: each gives its own when all that wait in it have looked. The last one tells.
#[derive(Debug, Default)]
pub(in crate::engine) struct Answers {
    number: u32,
    /// By engine.
    given: [Option<Answer>; MOST_CHANNELS as usize],
    was_told: bool,
}

impl Answers {
    /// An engine answers this inquiry, perhaps as the first one.
    pub(super) fn give(&mut self, number: u32, engine: usize, answer: Answer) {
        if self.number != number {
            *self = Self {
                number,
                ..Self::default()
            };
        }
        self.given[engine] = Some(answer);
    }

    /// Whether there is an answer of an engine to this inquiry, which nobody has told yet: `quiet`, if nobody waits there.
    pub(super) fn complete(&mut self, number: u32, engine: usize, quiet: Option<Answer>) -> bool {
        if self.number != number || self.was_told {
            return false;
        }
        let given = &mut self.given[engine];
        if quiet.is_some() {
            *given = quiet;
        }
        given.is_some()
    }

    /// All answers to this inquiry, for who is to tell them; `None` for all others.
    pub(super) fn take(&mut self, number: u32) -> Option<Self> {
        if self.number != number || self.was_told {
            return None;
        }
        let told = Self {
            number,
            was_told: true,
            ..Self::default()
        };
        Some(replace(self, told))
    }

    /// What all engines have told, as one. So much has happened in them.
    pub(super) fn merged(
        self,
        activity: u64,
        threads: Option<&ThreadsOfRank>,
    ) -> Option<RankWaits> {
        let add = |(mut all, mut looked): Answer, (mut one, mut more): Answer| {
            all.awaits_outside |= one.awaits_outside;
            all.under_way = all.under_way.saturating_add(one.under_way);
            all.more_waits = all.more_waits.saturating_add(one.more_waits);
            all.more_unreceived = all.more_unreceived.saturating_add(one.more_unreceived);
            all.links.append(&mut one.links);
            all.waits.append(&mut one.waits);
            all.unreceived.append(&mut one.unreceived);
            looked.append(&mut more);
            (all, looked)
        };
        let (mut all, looked) = self.given.into_iter().flatten().reduce(add)?;
        let beyond = |length: usize| u32::try_from(length.saturating_sub(MOST)).unwrap_or(u32::MAX);
        all.more_waits = all.more_waits.saturating_add(beyond(all.waits.len()));
        all.waits.truncate(MOST);
        all.more_unreceived += beyond(all.unreceived.len());
        all.unreceived.truncate(MOST);
        // Several have called.
        let others = OtherThreads::without(&looked, threads);
        (all.inquiry, all.other_threads) = (self.number, others.awake);
        all.activity = activity.wrapping_add(others.activity);
        Some(all)
    }
}
