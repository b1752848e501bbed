//! `weft ps`: the jobs of this user on this host.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use weft_launch::inspection::client::{self, Answered, Unseen};
use weft_launch::inspection::protocol::{JobReport, Phase, Question};
use weft_launch::inspection::report;
use weft_launch::user_output;

use super::{Table, fail, unseen_line};

/// How to show it.
#[derive(clap::Args)]
pub struct Arguments {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// After so long those that have answered are shown, while others are waited for.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Looks, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let sockets = match client::sockets() {
        Ok(sockets) => sockets,
        Err(error) => {
            return fail(&format!(
                "the sockets of this host cannot be listed: /proc/net/unix: {error}"
            ));
        }
    };
    let seen: Vec<u32> = sockets.iter().map(|socket| socket.supervisor).collect();
    let answers = client::ask_all(sockets, Question::Job);
    let unlisted = client::unlisted(&seen);
    if arguments.json {
        let mut found = Found::of(answers.iter());
        found.unseen.extend(unlisted);
        return user_output::answer(format_args!("{:#}\n", found.json())).into();
    }
    let begun = Instant::now();
    let soon = || answers.recv_timeout(SHOWN_AFTER.saturating_sub(begun.elapsed()));
    let mut found = Found::of(std::iter::from_fn(|| soon().ok()));
    found.unseen.extend(unlisted);
    let mut code = found.print();
    // Those that are late come one by one.
    for answered in answers {
        let late = Found::of(std::iter::once(answered));
        code = code.max(late.print());
        found.jobs.extend(late.jobs);
        found.unseen.extend(late.unseen);
    }
    if found.jobs.is_empty() {
        let but = match found.unseen.is_empty() {
            true => "",
            false => ", but for what is said above",
        };
        code = code.max(user_output::answer(format_args!(
            "no job of yours runs here{but}\n"
        )));
    }
    code.into()
}

/// What was found on this host.
#[derive(Default)]
struct Found {
    /// In the order of their launchers.
    jobs: Vec<JobReport>,
    /// Those that cannot be asked.
    unseen: Vec<Unseen>,
}

impl Found {
    fn of(answers: impl Iterator<Item = Answered>) -> Self {
        let mut found = Self::default();
        for (socket, answer) in answers {
            match answer {
                Ok(job) => found.jobs.push(job),
                Err(error) if client::has_ended(&error) => {}
                Err(error) => found.unseen.push(Unseen {
                    supervisor: socket.supervisor,
                    reason: error.to_string(),
                }),
            }
        }
        found.jobs.sort_by_key(|job| job.launcher);
        found.unseen.sort_by_key(|unseen| unseen.supervisor);
        found
    }

    fn json(&self) -> serde_json::Value {
        let jobs = self.jobs.iter().map(|job| {
            let mut value = serde_json::json!(job);
            value["state"] = state(job).into();
            value
        });
        let jobs: Vec<serde_json::Value> = jobs.collect();
        let unseen = self.unseen.iter().map(
            |unseen| serde_json::json!({ "supervisor": unseen.supervisor, "reason": unseen.reason }),
        );
        let unseen: Vec<serde_json::Value> = unseen.collect();
        serde_json::json!({ "jobs": jobs, "unseen": unseen })
    }

    /// Prints a table, and a line for each that is not in it; answers the exit code.
    fn print(&self) -> u8 {
        let mut lines = Vec::new();
        if !self.jobs.is_empty() {
            let mut table = Table::new(&[">JOB", ">RANKS", "RUNS FOR", "STATE", "PROGRAM"]);
            for job in &self.jobs {
                table.push(vec![
                    job.launcher.to_string(),
                    job.ranks.len().to_string(),
                    report::duration(job.seconds),
                    state(job),
                    report::programs(job),
                ]);
            }
            lines = table.lines();
        }
        lines.extend(self.unseen.iter().map(unseen_line));
        match lines.is_empty() {
            true => 0,
            false => user_output::answer(lines.join("\n") + "\n"),
        }
    }
}

/// The state of a whole job.
fn state(job: &JobReport) -> String {
    let there = job.ranks.iter().filter(|rank| rank.phase != Phase::Awaited);
    let states: Vec<_> = there.filter_map(|rank| rank.state.as_ref()).collect();
    let elsewhere = job.ranks.iter().filter(|rank| rank.host.is_some());
    let elsewhere = elsewhere.count();
    let text = if elsewhere > 0 {
        return format!("{elsewhere} ranks on other hosts");
    } else if states.is_empty() {
        "waits for its ranks"
    } else if states.iter().all(|state| state.stopped) {
        "stopped"
    } else if states.iter().all(|state| state.running == 0) {
        "all ranks asleep"
    } else {
        "running"
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use weft_launch::inspection::process::ProcessState;
    use weft_launch::inspection::protocol::RankReport;

    use super::*;

    #[test]
    fn a_job_sleeps_if_all_of_it_does() {
        let rank = |running, stopped| RankReport {
            phase: Phase::Within,
            state: Some(ProcessState {
                running,
                stopped,
                ..ProcessState::default()
            }),
            ..RankReport::default()
        };
        let elsewhere = RankReport {
            host: Some("there".into()),
            ..RankReport::default()
        };
        for (ranks, text) in [
            (vec![], "waits for its ranks"),
            (vec![RankReport::default()], "waits for its ranks"),
            (vec![rank(0, false), rank(1, false)], "running"),
            (vec![rank(0, false), rank(0, true)], "all ranks asleep"),
            (vec![rank(0, true), rank(0, true)], "stopped"),
            (vec![rank(1, false), elsewhere], "1 ranks on other hosts"),
        ] {
            let job = JobReport {
                ranks,
                ..JobReport::default()
            };
            assert_eq!(state(&job), text);
        }
    }
}
