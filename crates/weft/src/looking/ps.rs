//! `weft ps`: the jobs of this user on this host.

use std::process::ExitCode;

use weft_launch::inspection::client;
use weft_launch::inspection::protocol::{JobReport, Phase, Question};
use weft_launch::inspection::report;
use weft_launch::saying;

use super::{Table, fail, unseen_line};

/// How to show it.
#[derive(clap::Args)]
pub struct Arguments {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Looks, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let found = match client::find(Question::Job) {
        Ok(found) => found,
        Err(error) => {
            return fail(&format!(
                "the sockets of this host cannot be listed: /proc/net/unix: {error}"
            ));
        }
    };
    if arguments.json {
        let jobs = found.jobs.iter().map(|job| {
            let mut value = serde_json::json!(job);
            value["state"] = state(job).into();
            value
        });
        let jobs: Vec<serde_json::Value> = jobs.collect();
        let unseen = found.unseen.iter().map(
            |unseen| serde_json::json!({ "supervisor": unseen.supervisor, "reason": unseen.reason }),
        );
        let unseen: Vec<serde_json::Value> = unseen.collect();
        let all = serde_json::json!({ "jobs": jobs, "unseen": unseen });
        return saying::answer(format_args!("{all:#}\n")).into();
    }
    let mut table = Table::new(&[">JOB", ">RANKS", "RUNS FOR", "STATE", "PROGRAM"]);
    for job in &found.jobs {
        table.push(vec![
            job.launcher.to_string(),
            job.ranks.len().to_string(),
            report::duration(job.seconds),
            state(job),
            report::programs(job),
        ]);
    }
    let mut lines = match found.jobs.is_empty() {
        true => vec!["no job of yours runs here".to_owned()],
        false => table.lines(),
    };
    lines.extend(found.unseen.iter().map(unseen_line));
    saying::answer(lines.join("\n") + "\n").into()
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
