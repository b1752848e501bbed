//! `weft info`: what this build can do here, tried and not guessed; one line each, folded on a terminal that is narrower.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use serde::Serialize;
use weft_launch::{binding, user_output};
use weft_sys::process::{self, ProcessHandle};
use weft_sys::signal::Signals;
use weft_sys::{Availability, MemoryFile, available, cores, membarrier};

use crate::proof;

/// Whether libfabric has providers that can carry a job; which ones, and which one would be taken why.
fn ofi() -> (Availability, String) {
    let found = match weft_fabric_ofi::found() {
        Ok(found) => found,
        Err(error) => return (Availability::not(error.to_string()), String::new()),
    };
    let list: Vec<String> = found
        .iter()
        .map(|one| format!("{} ({})", one.provider, one.domains.join(", ")))
        .collect();
    let Some(first) = found.first() else {
        let none = "libfabric has no provider here that can carry messages in order and reach remote memory";
        return (Availability::not(none), String::new());
    };
    let chosen = match weft_fabric_ofi::hardware(&found) {
        Some(hardware) => format!(
            "between hosts {} is taken by itself: it is for hardware (--fabric tcp, or --encrypt: TCP instead)",
            hardware.provider
        ),
        None => format!(
            "taken only by --fabric ofi, then {}: none is for hardware",
            first.provider
        ),
    };
    (
        Availability::Available,
        format!("providers {}; {chosen}", list.join(", ")),
    )
}

/// How to show it.
#[derive(clap::Args)]
pub struct Arguments {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// One finding: a line of the output.
#[derive(Serialize)]
struct Finding {
    /// What it is about.
    name: &'static str,
    /// "on", "off", or "limit" for what is neither.
    state: &'static str,
    /// What was found.
    found: String,
    /// What follows from it.
    #[serde(skip_serializing_if = "String::is_empty")]
    consequence: String,
}

impl Finding {
    fn limit(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: "limit",
            found: found.into(),
            consequence: String::new(),
        }
    }

    /// On if it works; otherwise off, with the reason and what follows.
    fn probe(name: &'static str, answer: &Availability, works: &str, consequence: &str) -> Self {
        match answer.reason() {
            None => Self {
                name,
                state: "on",
                found: works.into(),
                consequence: String::new(),
            },
            Some(reason) => Self {
                name,
                state: "off",
                found: reason.trim().replace('\n', " "),
                consequence: consequence.into(),
            },
        }
    }
}

/// Columns before what was found.
const MARGIN: usize = 28;

impl Finding {
    /// One line; on a terminal of so many columns as many as it takes. Where no terminal is, other programs read it by lines.
    fn shown(&self, columns: Option<usize>) -> String {
        let state = if self.state == "limit" {
            ""
        } else {
            self.state
        };
        let mut line = format!("{:<22} {state:<3}  {}", self.name, self.found);
        if !self.consequence.is_empty() {
            line += "; ";
            line += &self.consequence;
        }
        let Some(columns) = columns else { return line };
        let indent = " ".repeat(MARGIN.min(columns / 2));
        let folded = textwrap::Options::new(columns).subsequent_indent(&indent);
        textwrap::fill(&line, folded)
    }
}

/// Looks, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let lines = look();
    if arguments.json {
        let version = env!("CARGO_PKG_VERSION");
        let all = serde_json::json!({ "version": version, "mpi": "5.0", "lines": lines });
        return user_output::answer(format_args!("{all:#}\n")).into();
    }
    let mut text = format!("weft {}, MPI 5.0\n", env!("CARGO_PKG_VERSION"));
    let columns = weft_sys::standard::terminal_size().map(|(columns, _)| columns);
    for line in lines {
        let _ = writeln!(text, "{}", line.shown(columns));
    }
    user_output::answer(text).into()
}

fn look() -> Vec<Finding> {
    let memory = MemoryFile::probe();
    let shared = match MemoryFile::probe_sealed() {
        Availability::Available => {
            "between processes of this host, by an unnamed memory file; /dev/shm is not used"
        }
        Availability::NotAvailable { .. } => {
            "between processes of this host, by a file without a name in /dev/shm or the folder for temporary files: memory \
             files are refused here (memfd_create)"
        }
    };
    let mut lines = vec![
        Finding::probe(
            "fabric shm",
            &memory,
            shared,
            "no job of more than one rank can run here",
        ),
        Finding::probe(
            "fabric local",
            &Availability::Available,
            "between threads of one process",
            "",
        ),
        Finding::probe(
            "fabric sim",
            &Availability::Available,
            "simulated ranks, for tests",
            "",
        ),
    ];
    let (tcp, reached) = tcp();
    lines.push(Finding::probe(
        "fabric tcp",
        &tcp,
        &reached,
        "all ranks run on this host",
    ));
    let (ofi, chosen) = ofi();
    lines.push(Finding::probe(
        "fabric ofi",
        &ofi,
        &chosen,
        "ranks of several hosts reach each other by TCP",
    ));
    lines.push(Finding::probe(
        "cross-memory attach",
        &proof::between_siblings(),
        "one process has read a secret from another: large messages take one copy",
        "large messages go through shared memory, in two copies",
    ));
    lines.push(Finding::probe(
        "fence on other cores",
        &membarrier::register_all(),
        "membarrier works: a sender needs no fence of its own",
        "every message costs one fence more",
    ));
    lines.push(Finding::probe(
        "process handles",
        &ProcessHandle::probe(),
        "pidfd works: only the processes meant are ever ended",
        "processes are ended by number, after a look at when they were started",
    ));
    lines.push(Finding::probe(
        "signals",
        &Signals::probe(),
        "mpiexec reads them from a descriptor (signalfd)",
        "mpiexec handles them, and reads them from a pipe",
    ));
    lines.push(Finding::probe(
        "death of launchers",
        &process::probe_orders(),
        "prctl works: what a job has started ends with its launcher, however that ends",
        "ranks of MPI end with a launcher that is killed; what they have started may stay",
    ));
    lines.push(match binding::topology_found() {
        Ok(found) => Finding::limit("topology", found),
        Err(reason) => Finding::probe(
            "topology",
            &Availability::not(reason),
            "",
            "ranks are not spread over caches and memory nodes; --bind-to knows hardware threads only",
        ),
    });
    lines.push(Finding::probe(
        "end of whole jobs",
        &proc_shows_us(),
        "/proc shows our processes: whatever a rank has started ends with the job",
        "only the ranks themselves are ended with a job, and what has initialised MPI",
    ));
    lines.push(cores_line());
    lines.extend(limits());
    lines
}

/// Whether other hosts could reach this one, and where.
fn tcp() -> (Availability, String) {
    let addresses = match weft_fabric_tcp::Listen::Interfaces.addresses() {
        Ok(addresses) => addresses,
        Err(error) => return (Availability::not(error.to_string()), String::new()),
    };
    if addresses.iter().all(|(_, address)| address.is_loopback()) {
        let reason = "no interface that is up has an address, loopback aside";
        return (Availability::not(reason), String::new());
    }
    let places: Vec<String> = addresses
        .iter()
        .map(|(interface, address)| format!("{address} ({interface})"))
        .collect();
    let reached = format!(
        "between hosts, which reach this one at {}",
        places.join(", ")
    );
    (Availability::Available, reached)
}

fn proc_shows_us() -> Availability {
    let us = std::process::id().to_string();
    match fs::read_link("/proc/self") {
        Ok(link) if link.to_str() == Some(&us) => Availability::Available,
        Ok(link) => Availability::not(format!(
            "/proc belongs to another PID namespace: it calls us {}, we are {us}",
            link.display()
        )),
        Err(error) => Availability::not(format!("/proc cannot be read: {error}")),
    }
}

fn cores_line() -> Finding {
    let found = cores::find();
    let quota = match found.quota {
        Some(quota) => format!("the control group grants the time of {quota:.2}"),
        None => "no control group limits the time".into(),
    };
    let online = std::thread::available_parallelism().map_or(0, usize::from);
    let allowed = if found.allowed.is_empty() {
        online
    } else {
        found.allowed.len()
    };
    let available = found.available();
    Finding {
        consequence: format!(
            "ranks spin while at most {available} are awake, and sleep beyond that"
        ),
        ..Finding::limit("cores", format!("{allowed} may be used; {quota}"))
    }
}

/// What may end a job early.
fn limits() -> Vec<Finding> {
    let mut lines = Vec::new();
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    for (row, name) in [
        ("Max locked memory", "locked memory"),
        ("Max open files", "open descriptors"),
        ("Max processes", "processes"),
    ] {
        let Some(line) = text.lines().find_map(|line| line.strip_prefix(row)) else {
            continue;
        };
        let fields: Vec<&str> = line.split_whitespace().collect();
        let unit = if fields.last() == Some(&"bytes") {
            " bytes"
        } else {
            ""
        };
        if let [soft, hard, ..] = fields[..] {
            lines.push(Finding::limit(
                name,
                format!("{soft}{unit}, could be raised to {hard}"),
            ));
        }
    }
    let (memory, processes) = available::limits_of_groups();
    let memory = memory.map_or("no limit by the control group".into(), |bytes| {
        format!("{} MiB, by the control group", bytes >> 20)
    });
    lines.push(Finding::limit("memory", memory));
    if let Some(processes) = processes {
        let found = format!("{processes}, with threads, by the control group");
        lines.push(Finding::limit("processes of the group", found));
    }
    if let Ok(scope) = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope") {
        lines.push(Finding::limit(
            "ptrace scope",
            format!("{} (Yama)", scope.trim()),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_folded_on_a_terminal_alone() {
        let found = "providers of some network (eth0, lo), providers of another network (eth0, lo); none is for hardware";
        let finding = Finding {
            name: "fabric ofi",
            state: "on",
            found: found.into(),
            consequence: "what follows from it".into(),
        };
        let whole = finding.shown(None);
        assert_eq!(whole.lines().count(), 1);
        assert!(whole.starts_with("fabric ofi             on   providers"));
        for columns in [20, 40, 80, 200] {
            let shown = finding.shown(Some(columns));
            let words = |text: &str| -> Vec<String> {
                text.split_whitespace().map(str::to_owned).collect()
            };
            assert_eq!(words(&shown), words(&whole), "{columns}");
            assert!(
                shown.lines().all(|line| line.chars().count() <= columns),
                "{shown}"
            );
        }
        let shown = finding.shown(Some(80));
        assert!(
            shown
                .lines()
                .skip(1)
                .all(|line| line.starts_with(&" ".repeat(MARGIN)))
        );
    }
}
