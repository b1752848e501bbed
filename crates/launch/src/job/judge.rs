//! Judge of a job: decides what follows from the ends of ranks, and from what they tell. The job fails, goes on without a world or
//! a rank, or goes on with another process of it.
//!
//! | a rank ends in order | nothing follows, but those that may wait for it hear of it |
//! |---|---|
//! | it fails, and the job is to survive deaths (`--on-death`) | the others are told, unless it had finished with MPI; or it is started anew |
//! | it fails before its world has met those who have started it | its world is lost, if the others can go on without |
//! | it fails, and all others handle losses | the others are told |
//! | it fails, and its world is connected to no other | its world ends |
//! | it fails otherwise | the job fails; the first failure counts |
//!
//! *Invariant:* once the [`Outcome`] has a failure, nothing is survived any more.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::outcome::{Failure, Outcome};
use super::rank_hosts::WorldRank;
use super::rank_table::RankTable;
use crate::control::Notice;
use crate::exit_status;
use crate::options::OnDeath;
use crate::plan::Plan;

/// How long the loss of a rank may come after what follows from it. On this host it is a matter of microseconds, unless
/// the machine is crowded.
const CAUSE: Duration = Duration::from_secs(1);

/// The consequences of judgements, each carried out at once.
pub trait Consequences {
    /// Tells the user.
    fn say(&mut self, text: &str);

    /// Tells the other ranks that one has ended; `in_order` if that is no loss to them.
    fn announce_end(&mut self, rank: u32, in_order: bool);

    /// Tells all ranks that one of this world will not meet them in `MPI_Finalize`.
    fn announce_absence(&mut self, world: u32);

    /// Gives the reason why a world does not begin to those who have had it started.
    fn lose_world(&mut self, world: u32, reason: &str);

    /// Ends some of the ranks.
    fn end_ranks(&mut self, ranks: &[u32]);

    /// Starts another process for a rank that has died; answers it.
    ///
    /// # Errors
    /// A sentence, if that cannot be.
    fn restart(&mut self, rank: u32) -> Result<u32, String>;
}

/// A failure that follows from the loss of a rank which is not known yet.
#[derive(Debug)]
struct Unexplained {
    rank: u32,
    failure: Failure,
    /// How long the loss is waited for.
    until: Instant,
}

/// The judge, with what it knows of the ranks, and the outcome so far.
#[derive(Debug)]
pub struct Judge {
    ranks: RankTable,
    outcome: Outcome,
    unexplained: Option<Unexplained>,
    on_death: OnDeath,
    /// How each rank ended is told (`--verbose` and the like).
    tells_ends: bool,
}

impl Judge {
    /// Of the job of a plan, with these ranks.
    pub fn new(plan: &Plan, ranks: RankTable) -> Self {
        Self {
            ranks,
            outcome: Outcome::default(),
            unexplained: None,
            on_death: plan.on_death,
            tells_ends: plan.exit_codes,
        }
    }

    /// The ranks.
    pub fn ranks(&self) -> &RankTable {
        &self.ranks
    }

    /// The ranks, to note what is no reason to judge.
    pub fn ranks_mut(&mut self) -> &mut RankTable {
        &mut self.ranks
    }

    /// The outcome so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The job has failed.
    pub fn fail(&mut self, failure: Failure) {
        self.outcome.fail(failure);
    }

    /// Ranks have ended, which was noticed at the same time.
    pub fn exited(&mut self, mut ended: Vec<(u32, ExitStatus)>, to: &mut dyn Consequences) {
        ended.retain(|(rank, status)| self.ranks.end(*rank, *status));
        self.ranks.sort_by_cause(&mut ended);
        if self.tells_ends {
            for (rank, status) in &ended {
                let (name, how) = (self.ranks.name(*rank), exit_status::describe(*status));
                to.say(&format!("{name} {how}"));
            }
        }
        for (rank, _) in &ended {
            if self.ranks.judge(*rank).is_none() && self.ranks.has_finalised(*rank) {
                self.outcome.end_well();
            }
        }
        if self.outcome.has_failed() {
            return self.count_failures(&ended, to);
        }
        ended.retain(|(rank, status)| !self.lose_unmet_world(*rank, *status, to));
        match self.on_death {
            OnDeath::End => {
                ended.retain(|(rank, status)| !self.handle_loss(*rank, *status, to));
                self.count_failures(&ended, to);
            }
            OnDeath::Report | OnDeath::Restart => {
                for (rank, status) in ended {
                    self.survive_end(rank, status, to);
                }
            }
        }
    }

    /// A host is lost, with those of these ranks that had not ended. The job goes on if it is to survive deaths, or if they are what
    /// others handle; without the ranks that it was to have, it does not begin.
    pub fn lose_host(
        &mut self,
        host: String,
        mut ranks: Vec<u32>,
        reason: String,
        to: &mut dyn Consequences,
    ) {
        // The wait status of a process that was killed.
        let killed = ExitStatus::from_raw(libc::SIGKILL);
        ranks.retain(|rank| self.ranks.end(*rank, killed));
        let survives = self.on_death != OnDeath::End;
        let are_handled = ranks.iter().all(|rank| self.ranks.is_loss_handled(*rank));
        if self.outcome.has_failed() || ranks.is_empty() || !(survives || are_handled) {
            return self.outcome.fail(Failure::HostLost {
                host,
                ranks,
                reason,
            });
        }
        to.say(&format!("host {host} is lost with its ranks: {reason}"));
        if !survives {
            for rank in ranks {
                self.handle_loss(rank, killed, to);
            }
            return;
        }
        ranks.retain(|rank| !self.lose_unmet_world(*rank, killed, to));
        for rank in ranks.clone() {
            // Where MPI is over nobody needs it any more.
            to.announce_end(rank, self.ranks.has_left(rank));
        }
        // That counts, not what it did to each of its processes.
        self.outcome.survive(Failure::HostLost {
            host,
            ranks,
            reason,
        });
    }

    /// A rank has told something.
    pub fn hear(&mut self, rank: u32, told: Notice, to: &mut dyn Consequences) {
        if told == Notice::Absent {
            to.announce_absence(self.ranks.world(rank).map_or(0, |own| own.world));
        }
        if let Some(failure) = self.ranks.tell(rank, told) {
            self.fail_of_rank(rank, failure, to);
        }
    }

    /// Nobody waits for a world any more: it ends, and the job goes on.
    pub fn end_abandoned_world(&mut self, world: u32, to: &mut dyn Consequences) {
        let mut running = self.ranks.running_of(world);
        // Those of which not all could be started are being ended already.
        running.retain(|rank| !self.ranks.is_given_up(*rank));
        self.ranks.give_up(world);
        if !running.is_empty() && !self.outcome.has_failed() {
            to.say(&format!(
                "spawned world {world} is ended: MPI_Comm_spawn has failed at those who have started it; the job goes on without it"
            ));
            to.end_ranks(&running);
        }
    }

    /// How long the loss that explains a failure is waited for.
    pub fn explained_until(&self) -> Option<Instant> {
        self.unexplained.as_ref().map(|one| one.until)
    }

    /// The loss that would explain a failure does not show itself: the failure counts.
    pub fn stop_waiting_for_cause(&mut self, to: &mut dyn Consequences) {
        if let Some(Unexplained { rank, failure, .. }) = self.unexplained.take() {
            self.end_world_or_job(rank, failure, to);
        }
    }

    /// The job is not to survive these ends: their failures count.
    fn count_failures(&mut self, ended: &[(u32, ExitStatus)], to: &mut dyn Consequences) {
        let failures: Vec<_> = ended
            .iter()
            .map(|(rank, _)| self.ranks.judge(*rank))
            .collect();
        for ((rank, _), failure) in ended.iter().zip(&failures) {
            let failed = failure.is_some();
            let given_up = self.ranks.is_given_up(*rank);
            let is_missed = !failed && self.ranks.is_left_early(*rank);
            if self.ranks.world(*rank).is_some() && (!failed || given_up) || is_missed {
                // Its process slot may be taken by another one later; of those that go on, none waits for it unseen.
                to.announce_end(*rank, !failed);
            }
        }
        for ((rank, _), failure) in ended.iter().zip(failures) {
            if let Some(failure) = failure {
                self.fail_of_rank(*rank, failure, to);
            }
        }
    }

    /// A process has ended, perhaps before it had met those who have had it started: then its world ends, and these hear of it,
    /// if the job can go on. False if nothing of this holds.
    fn lose_unmet_world(
        &mut self,
        rank: u32,
        status: ExitStatus,
        to: &mut dyn Consequences,
    ) -> bool {
        let (Some(world), Some(failure)) = (self.ranks.unmet_world(rank), self.ranks.judge(rank))
        else {
            return false;
        };
        let survives = self.on_death != OnDeath::End;
        if !survives && !self.ranks.is_handled_without(world) {
            return false;
        }
        let (name, how) = (self.ranks.name(rank), exit_status::describe(status));
        let lost = format!("{name} {how} before it had met those who have had it started");
        to.say(&format!("{lost}; the job goes on without its world"));
        match survives {
            true => self.outcome.survive(failure),
            false => self.outcome.handle(failure),
        }
        let running = self.ranks.running_of(world);
        self.ranks.give_up(world);
        to.lose_world(
            world,
            &format!(
                "{lost}, and its world was ended; start programs that call MPI_Init, and look at the last output of that one"
            ),
        );
        // Those that are left of it have nothing to say of the loss.
        to.end_ranks(&running);
        to.announce_end(rank, false);
        true
    }

    /// A rank has ended: whether the job goes on, as its other ranks handle the loss.
    fn handle_loss(&mut self, rank: u32, status: ExitStatus, to: &mut dyn Consequences) -> bool {
        let failure = self.ranks.judge(rank);
        let is_handled = self.ranks.is_loss_handled(rank) && !self.ranks.is_given_up(rank);
        let Some(failure) = failure.filter(|_| is_handled) else {
            return false;
        };
        to.announce_end(rank, false);
        let (name, how) = (self.ranks.name(rank), exit_status::describe(status));
        to.say(&format!(
            "{name} {how}; the job goes on: the other ranks handle losses (MPIX_Comm_shrink and the like)"
        ));
        self.outcome.handle(failure);
        true
    }

    /// A rank has ended in a job that is to survive deaths. One that has finished with MPI is no loss to the others, however its
    /// process ends then: what they wait for comes from those that have not. One that is started anew is: with the process before
    /// goes what they share with it.
    fn survive_end(&mut self, rank: u32, status: ExitStatus, to: &mut dyn Consequences) {
        let failure = self.ranks.judge(rank);
        let fails = failure.is_some() && !self.ranks.is_given_up(rank);
        let anew = fails && !status.success() && self.on_death == OnDeath::Restart;
        let has_left = self.ranks.has_left(rank);
        let in_order = has_left || failure.is_none() && self.ranks.world(rank).is_some();
        to.announce_end(rank, in_order && !anew);
        let Some(failure) = failure.filter(|_| fails) else {
            return;
        };
        let then = match anew.then(|| to.restart(rank)) {
            Some(Ok(process)) => {
                self.ranks.start(rank);
                format!("started anew as process {process}")
            }
            Some(Err(reason)) => {
                self.outcome.survive(failure);
                format!("not started anew: {reason}")
            }
            None => {
                self.outcome.survive(failure);
                match has_left {
                    true => "the others do not need it any more (--on-death)".into(),
                    false => "the others were told (--on-death)".into(),
                }
            }
        };
        let (name, how) = (self.ranks.name(rank), exit_status::describe(status));
        let when = if has_left { " after MPI_Finalize" } else { "" };
        to.say(&format!("{name} {how}{when}; {then}"));
    }

    /// A rank has failed. If it goes no further because another one is lost, that one is waited for a moment: ranks may hear of a
    /// death over their connections sooner than its parent does.
    fn fail_of_rank(&mut self, rank: u32, failure: Failure, to: &mut dyn Consequences) {
        if !self.ranks.is_ended_by_loss(rank) || self.ranks.is_given_up(rank) {
            return self.end_world_or_job(rank, failure, to);
        }
        self.unexplained.get_or_insert(Unexplained {
            rank,
            failure,
            until: Instant::now() + CAUSE,
        });
    }

    /// A rank has failed: the end of the job, unless it belongs to a world that has nothing to do with others.
    fn end_world_or_job(&mut self, rank: u32, failure: Failure, to: &mut dyn Consequences) {
        if self.ranks.is_given_up(rank) {
            return;
        }
        let world = self.ranks.world(rank);
        let Some(WorldRank { world, .. }) = world.filter(|_| self.ranks.is_independent(rank))
        else {
            return self.outcome.fail(failure);
        };
        let others = self.ranks.running_of(world);
        self.ranks.give_up(world);
        let what = match &failure {
            Failure::Aborted { code, .. } => format!("called MPI_Abort with code {code}"),
            Failure::Ended { status, .. } => exit_status::describe(*status),
            _ => "ended without MPI_Finalize".into(),
        };
        let name = self.ranks.name(rank);
        to.say(&format!(
            "{name} {what}; the job goes on without its world, which is connected to no other"
        ));
        self.outcome.survive(failure);
        to.announce_end(rank, false);
        to.end_ranks(&others);
    }
}

#[cfg(test)]
mod tests;
