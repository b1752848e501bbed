//! What schedulers say: any text gets an answer, and every host has a name that no command takes for an option.

use std::io;

use weft_launch::allocation::{self, Found, SchedulerEnvironment};

/// Variables that show each of the schedulers; the text stands in all that say where the hosts are.
const SCHEDULERS: [&[&str]; 6] = [
    &["SLURM_JOB_ID", "SLURM_JOB_NODELIST"],
    &[
        "SLURM_JOB_ID",
        "SLURM_JOB_NODELIST",
        "SLURM_TASKS_PER_NODE",
        "SLURM_JOB_CPUS_PER_NODE",
    ],
    &["LSB_JOBID", "LSB_MCPU_HOSTS"],
    &["LSB_JOBID", "LSB_HOSTS"],
    &["PBS_JOBID", "PBS_NODEFILE"],
    &["JOB_ID", "PE_HOSTFILE"],
];
const MORE: [&[&str]; 2] = [&["FLUX_URI"], &["HYDRA_HOST_FILE"]];

struct Around<'a> {
    variables: &'a [&'a str],
    text: &'a str,
}

impl SchedulerEnvironment for Around<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.contains(&name).then(|| self.text.to_owned())
    }

    fn file(&self, _: &str) -> io::Result<String> {
        Ok(self.text.to_owned())
    }

    fn has_command(&self, _: &str) -> bool {
        true
    }

    fn output(&self, _: &[&str]) -> io::Result<String> {
        Ok(self.text.to_owned())
    }

    fn is_here(&self, name: &str) -> bool {
        name == "here"
    }
}

/// The first byte chooses the scheduler.
pub fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let all: Vec<_> = SCHEDULERS.iter().chain(&MORE).collect();
    let text = String::from_utf8_lossy(rest);
    let around = Around {
        variables: all[usize::from(*first) % all.len()],
        text: &text,
    };
    match allocation::find(&around) {
        Found::Nothing => {}
        Found::Unusable(sentence) => assert!(!sentence.trim().is_empty()),
        Found::Allocation(found) => {
            assert!(
                !found.hosts.is_empty() && !found.command.is_empty(),
                "{found:?}"
            );
            for host in &found.hosts {
                assert!(host.slots != Some(0), "{found:?}");
                assert!(
                    !host.name.is_empty() && !host.name.starts_with('-'),
                    "{found:?}"
                );
                assert!(!host.address().starts_with('-'), "{found:?}");
            }
        }
    }
}
