use super::*;
use crate::options::{CommandLine, ProgramLine};
use crate::plan;

/// Consequences that were asked for, as words. It has as many spares as it says.
#[derive(Default)]
struct Recorded {
    done: Vec<String>,
    spares: u32,
}

impl Consequences for Recorded {
    fn say(&mut self, _: &str) {}

    fn announce_end(&mut self, rank: u32, in_order: bool) {
        let how = if in_order { "in order" } else { "lost" };
        self.done.push(format!("{rank} {how}"));
    }

    fn announce_absence(&mut self, world: u32) {
        self.done.push(format!("absent in {world}"));
    }

    fn lose_world(&mut self, world: u32, _: &str) {
        self.done.push(format!("world {world} lost"));
    }

    fn end_ranks(&mut self, ranks: &[u32]) {
        self.done.push(format!("end {ranks:?}"));
    }

    fn restart(&mut self, rank: u32) -> Result<u32, String> {
        self.done.push(format!("restart {rank}"));
        let left = self.spares.checked_sub(1);
        self.spares = left.ok_or("no spare is left")?;
        Ok(77)
    }
}

fn judge(ranks: u32, on_death: OnDeath) -> Judge {
    let plan = plan::make(CommandLine {
        programs: vec![ProgramLine {
            ranks: Some(ranks),
            words: vec!["sh".into()],
            ..ProgramLine::default()
        }],
        on_death,
        ..CommandLine::default()
    });
    let mut judge = Judge::new(&plan.expect("right"), RankTable::new(ranks));
    judge.ranks_mut().start_all();
    for rank in 0..ranks {
        judge.hear(rank, Notice::Initialised, &mut Recorded::default());
    }
    judge
}

fn killed() -> ExitStatus {
    ExitStatus::from_raw(libc::SIGKILL)
}

/// The consequences of the deaths of these ranks.
fn deaths(judge: &mut Judge, ranks: &[u32]) -> Vec<String> {
    let mut to = Recorded::default();
    let ended = ranks.iter().map(|rank| (*rank, killed()));
    judge.exited(ended.collect(), &mut to);
    to.done
}

#[test]
fn a_death_is_the_end_unless_others_handle_it_or_are_to_survive_it() {
    let mut job = judge(2, OnDeath::End);
    assert_eq!(deaths(&mut job, &[1]), [""; 0]);
    assert_eq!(job.outcome().rank_at_fault(), Some(1));

    let mut handled = judge(3, OnDeath::End);
    for rank in [0, 2] {
        handled.hear(rank, Notice::HandlesLosses, &mut Recorded::default());
    }
    assert_eq!(deaths(&mut handled, &[1]), ["1 lost"]);
    assert!(!handled.outcome().has_failed());

    let mut reported = judge(2, OnDeath::Report);
    assert_eq!(deaths(&mut reported, &[1]), ["1 lost"]);
    assert!(!reported.outcome().has_failed() && reported.outcome().code() != 0);
}

#[test]
fn a_rank_is_started_anew_while_there_are_spares() {
    let mut job = judge(2, OnDeath::Restart);
    let mut to = Recorded {
        spares: 1,
        ..Recorded::default()
    };
    job.exited(vec![(1, killed())], &mut to);
    assert_eq!(
        (job.ranks().running(), job.outcome().code()),
        (vec![0, 1], 0)
    );
    job.exited(vec![(1, killed())], &mut to);
    assert_eq!(to.done, ["1 lost", "restart 1", "1 lost", "restart 1"]);
    assert_eq!(job.ranks().running(), [0]);
    assert_ne!(job.outcome().code(), 0, "it was not started anew");
}

#[test]
fn a_rank_that_has_finished_is_no_loss_however_it_ends_then() {
    let mut job = judge(5, OnDeath::Report);
    let mut to = Recorded::default();
    for rank in [1, 2, 3] {
        job.hear(rank, Notice::Finalised, &mut to);
    }
    // A session that it has not ended.
    job.hear(3, Notice::Initialised, &mut to);
    let well = ExitStatus::from_raw(0);
    job.exited(vec![(1, well)], &mut to);
    assert_eq!(job.outcome().code(), 0);
    let with_code = ExitStatus::from_raw(3 << 8);
    job.exited(vec![(2, with_code)], &mut to);
    job.exited(vec![(3, killed()), (4, well)], &mut to);
    let told = ["1 in order", "2 in order", "3 lost", "4 lost"];
    assert_eq!(to.done, told, "the last has not finalised");
    assert_eq!(job.outcome().code(), 3, "the first failure");
}

/// With the process before goes what others share with it.
#[test]
fn a_rank_that_is_started_anew_after_it_had_finished_is_a_loss() {
    let mut job = judge(2, OnDeath::Restart);
    let mut to = Recorded {
        spares: 1,
        ..Recorded::default()
    };
    job.hear(0, Notice::Finalised, &mut to);
    job.hear(1, Notice::Finalised, &mut to);
    job.exited(vec![(0, ExitStatus::from_raw(0))], &mut to);
    job.exited(vec![(1, killed())], &mut to);
    assert_eq!(to.done, ["0 in order", "1 lost", "restart 1"]);
}

#[test]
fn nothing_is_survived_once_the_job_has_failed() {
    let mut job = judge(3, OnDeath::Report);
    job.fail(Failure::Signal {
        signal: libc::SIGTERM,
    });
    assert_eq!(deaths(&mut job, &[0]), [""; 0], "nobody is told");
    let mut to = Recorded::default();
    job.lose_host("a".into(), vec![1, 2], "cut".into(), &mut to);
    assert!(to.done.is_empty() && job.outcome().rank_at_fault().is_none());
}

/// Ranks may hear of a death over their connections sooner than its parent does.
#[test]
fn the_cause_is_waited_for_and_counts() {
    let mut job = judge(2, OnDeath::End);
    job.hear(0, Notice::EndsByLoss, &mut Recorded::default());
    assert_eq!(deaths(&mut job, &[0]), [""; 0]);
    assert!(job.explained_until().is_some() && !job.outcome().has_failed());
    deaths(&mut job, &[1]);
    assert_eq!(job.outcome().rank_at_fault(), Some(1));

    let mut without = judge(2, OnDeath::End);
    without.hear(0, Notice::EndsByLoss, &mut Recorded::default());
    deaths(&mut without, &[0]);
    without.stop_waiting_for_cause(&mut Recorded::default());
    assert_eq!(without.outcome().rank_at_fault(), Some(0));
    assert!(without.explained_until().is_none());
}

/// A job with a world of two processes, 2 and 3, that rank 0 has had started.
fn with_world(on_death: OnDeath) -> Judge {
    let mut judge = judge(1, on_death);
    for (number, rank) in [(2, 0), (3, 1)] {
        judge
            .ranks_mut()
            .start_later(number, WorldRank { world: 1, rank });
        judge.hear(number, Notice::Initialised, &mut Recorded::default());
    }
    judge
}

#[test]
fn a_world_that_has_not_met_is_lost_and_its_starters_hear_of_it() {
    let mut job = with_world(OnDeath::Report);
    assert_eq!(
        deaths(&mut job, &[2]),
        ["world 1 lost", "end [3]", "2 lost"]
    );
    assert!(!job.outcome().has_failed());
    let mut not_handled = with_world(OnDeath::End);
    assert_eq!(deaths(&mut not_handled, &[2]), [""; 0]);
    assert_eq!(not_handled.outcome().rank_at_fault(), Some(2));
}

#[test]
fn a_world_without_connections_ends_alone() {
    let mut job = with_world(OnDeath::End);
    for rank in [2, 3] {
        job.hear(rank, Notice::Independent, &mut Recorded::default());
    }
    assert_eq!(deaths(&mut job, &[3]), ["3 lost", "end [2]"]);
    assert!(!job.outcome().has_failed());
    assert_eq!(deaths(&mut job, &[2]), ["2 lost"], "that is no failure");
}

#[test]
fn an_abandoned_world_is_ended_once() {
    let mut job = with_world(OnDeath::End);
    let mut to = Recorded::default();
    job.end_abandoned_world(1, &mut to);
    job.end_abandoned_world(1, &mut to);
    assert_eq!(to.done, ["end [2, 3]"]);
}

#[test]
fn a_lost_host_is_handled_as_its_ranks_are() {
    let mut to = Recorded::default();
    let mut job = judge(3, OnDeath::End);
    job.hear(0, Notice::HandlesLosses, &mut to);
    job.lose_host("b".into(), vec![1, 2], "cut".into(), &mut to);
    assert_eq!(to.done, ["1 lost", "2 lost"]);
    assert!(!job.outcome().has_failed());
    let mut unborn = judge(1, OnDeath::End);
    unborn.lose_host("b".into(), Vec::new(), "cut".into(), &mut to);
    assert!(unborn.outcome().has_failed(), "it never had any");
}

/// One that has finished with MPI is missed by nobody.
#[test]
fn a_lost_host_is_survived_where_deaths_are() {
    let mut to = Recorded::default();
    let mut job = judge(4, OnDeath::Report);
    job.hear(2, Notice::Finalised, &mut to);
    job.exited(vec![(3, ExitStatus::from_raw(3 << 8))], &mut to);
    job.lose_host("b".into(), vec![1, 2, 3], "cut".into(), &mut to);
    assert_eq!(to.done, ["3 lost", "1 lost", "2 in order"]);
    assert!(!job.outcome().has_failed() && job.ranks().running() == [0]);
    assert_eq!(job.outcome().code(), 3, "the first failure");
    let mut first = judge(2, OnDeath::Report);
    first.lose_host("b".into(), vec![1], "cut".into(), &mut to);
    assert_eq!(
        (first.outcome().code(), first.outcome().has_failed()),
        (1, false)
    );
}
