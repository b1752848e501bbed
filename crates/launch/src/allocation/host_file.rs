//! Host files that the environment names for other launchers: the MPI operator of Kubernetes sets these variables, and
//! users do.

use std::ffi::OsString;

use super::{Reason, SchedulerAllocation, SchedulerEnvironment, text_named};
use crate::mapping::ssh;
use crate::options::hosts_in_text;

pub const WHO: &str = "a host file";

/// The names that one launcher has for its settings.
struct Launcher {
    /// The host file.
    files: &'static [&'static str],
    /// The command that reaches a host.
    command: &'static [&'static str],
    /// More words for it.
    words: &'static str,
    /// How many ranks a host takes that does not say.
    slots: &'static str,
}

const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        files: &[
            "OMPI_MCA_orte_default_hostfile",
            "PRTE_MCA_prte_default_hostfile",
        ],
        command: &["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"],
        words: "OMPI_MCA_plm_rsh_args",
        slots: "OMPI_MCA_orte_set_default_slots",
    },
    Launcher {
        files: &["HYDRA_HOST_FILE"],
        command: &["HYDRA_LAUNCHER_EXEC"],
        words: "HYDRA_LAUNCH_EXTRA_ARGS",
        slots: "",
    },
    Launcher {
        files: &["I_MPI_HYDRA_HOST_FILE"],
        command: &["I_MPI_HYDRA_BOOTSTRAP_EXEC"],
        words: "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
        slots: "I_MPI_PERHOST",
    },
];

pub fn look(around: &dyn SchedulerEnvironment) -> Option<Result<SchedulerAllocation, Reason>> {
    LAUNCHERS.iter().find_map(|launcher| {
        let named = |name: &&'static str| Some((*name, around.variable(name)?));
        let (name, path) = launcher.files.iter().find_map(named)?;
        Some(found(around, launcher, name, &path))
    })
}

fn found(
    around: &dyn SchedulerEnvironment,
    launcher: &Launcher,
    name: &str,
    path: &str,
) -> Result<SchedulerAllocation, Reason> {
    let text = text_named(around, name, path)?;
    let mut hosts = hosts_in_text(&text).map_err(|error| format!("{name}, {path}: {error}"))?;
    let slots = around.variable(launcher.slots);
    let slots = slots
        .and_then(|slots| slots.parse().ok())
        .filter(|slots| *slots > 0);
    for host in &mut hosts {
        host.slots = host.slots.or(slots).or(Some(1));
    }
    let words = |text: String| text.split_whitespace().map(OsString::from).collect();
    let agent = launcher
        .command
        .iter()
        .find_map(|name| around.variable(name));
    let mut command: Vec<OsString> = agent.map_or_else(ssh, words);
    command.extend(
        around
            .variable(launcher.words)
            .map(words)
            .unwrap_or_default(),
    );
    SchedulerAllocation::new(WHO, format!("{name}={path}"), hosts, command, around)
}
