//! Jobs within the allocations of schedulers: two nodes, a ring and an exchange of 1 MiB, a killed rank, an abort, exit codes.
//!
//! Slurm itself runs here where it is installed, with two nodes on this host. The commands of the others are scripts that start
//! programs in a network namespace like the command of the scheduler: their arguments are the same, and standard input and
//! output pass through.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;
#[path = "allocations/slurm.rs"]
mod slurm;
#[path = "allocations/srun_on_two_hosts.rs"]
mod srun_on_two_hosts;
#[path = "allocations/starting_others.rs"]
mod starting_others;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use network::Network;
use slurm::Slurm;
use weft_tests::{Ended, build, check_sessions_beside, installation, is_long, run};

const LIMIT: Duration = Duration::from_secs(60);

/// `MPI_ERR_PROC_ABORTED`.
const PROC_ABORTED: i32 = 58;

fn program() -> PathBuf {
    build("tests/programs/job_ends.c", &["-pthread"])
}

fn launcher() -> String {
    installation().join("bin/mpiexec").display().to_string()
}

/// The way in which the program is asked to end, the exit code of the job, and the message of the launcher.
const ENDS: [(&str, i32, &str); 5] = [
    ("well", 0, ""),
    ("code", 5, "rank 3"),
    ("abort", 7, "rank 3"),
    ("kill", 137, "rank 3"),
    ("unasked", 137, "rank 3"),
];

fn judge(ended: &Ended, end: &str, code: i32, said: &str) {
    assert_eq!(ended.code(), Some(code), "{end}: {ended:?}");
    assert!(ended.err.contains(said), "{end}: {ended:?}");
    let done = ended.out.contains("job_ends: ok with 4 ranks");
    // A rank that ends with a code may end the others before they have printed that they are done.
    if end != "code" {
        assert_eq!(done, end == "well", "{end}: {ended:?}");
    }
}

/// A scheduler whose command is a script; `HOSTS` in a value is replaced by the path of a file that contains
/// `file`.
struct Scheduler {
    name: &'static str,
    /// Its command, and the script that is run under this name to reach a host.
    command: (&'static str, String),
    variables: Vec<(&'static str, String)>,
    file: String,
}

fn schedulers(hosts: &[String]) -> Vec<Scheduler> {
    let [a, b] = hosts else { panic!("two hosts") };
    let set = format!(
        r#"{{"version": 1, "execution": {{"R_lite": [{{"rank": "0-1", "children": {{"core": "0-1"}}}}], "nodelist": ["{a}", "{b}"]}}}}"#
    );
    let ssh = "while [ \"${1#-}\" != \"$1\" ]; do [ $1 = -o ] && shift; shift; done; host=$1; shift; set -- sh -c \"$*\"";
    vec![
        Scheduler {
            name: "Slurm",
            command: (
                "srun",
                "case \"$*\" in '-u '*--overlap*--ntasks=1\\ --nodelist*) ;; *) exit 9;; esac\n\
                 while [ $1 != --nodelist ]; do shift; done; host=$2; shift 2"
                    .into(),
            ),
            variables: vec![
                ("SLURM_JOB_ID", "7".into()),
                ("SLURM_JOB_NODELIST", format!("{a},{b}")),
                ("SLURM_TASKS_PER_NODE", "2(x2)".into()),
            ],
            file: String::new(),
        },
        Scheduler {
            name: "LSF",
            command: ("blaunch", "host=$1; shift".into()),
            variables: vec![
                ("LSB_JOBID", "7".into()),
                ("LSB_MCPU_HOSTS", format!("{a} 2 {b} 2")),
            ],
            file: String::new(),
        },
        Scheduler {
            name: "Grid Engine",
            command: (
                "qrsh",
                "[ $1 = -inherit ] || exit 9; host=$2; shift 2".into(),
            ),
            variables: vec![("JOB_ID", "7".into()), ("PE_HOSTFILE", "HOSTS".into())],
            file: format!("{a} 2 all.q@{a} UNDEFINED\n{b} 2 all.q@{b} UNDEFINED\n"),
        },
        Scheduler {
            name: "PBS",
            command: ("ssh", ssh.into()),
            variables: vec![("PBS_JOBID", "7".into()), ("PBS_NODEFILE", "HOSTS".into())],
            file: format!("{a}\n{a}\n{b}\n{b}\n"),
        },
        Scheduler {
            name: "a host file",
            command: ("ssh", ssh.into()),
            variables: vec![
                ("OMPI_MCA_orte_default_hostfile", "HOSTS".into()),
                ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10".into()),
            ],
            file: format!("{a} slots=2\n{b} slots=2\n"),
        },
        Scheduler {
            name: "Flux",
            command: (
                "flux",
                format!(
                    "if [ \"$*\" = 'kvs get resource.R' ]; then echo '{set}'; exit; fi\n\
                     [ \"$1 $2\" = 'exec --rank' ] || exit 9\n\
                     case $3 in 0) host={a};; 1) host={b};; esac; shift 3"
                ),
            ),
            variables: vec![("FLUX_URI", "local:///none".into())],
            file: String::new(),
        },
    ]
}

impl Scheduler {
    /// The launcher within its allocation, on the first host.
    fn launcher(&self, network: &Network) -> Command {
        let folder = network.file(self.name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let (name, reach) = &self.command;
        let script = folder.join(name);
        // Written only once: no process can start a file that another one has open for writing.
        if !script.exists() {
            let text = format!("#!/bin/sh\n{reach}\nexec ip netns exec $host \"$@\"\n");
            std::fs::write(&script, text).expect("writes");
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("ours");
        }
        let hosts = folder.join("hosts");
        std::fs::write(&hosts, &self.file).expect("writes");
        let mut start = network.on(0, &launcher());
        let search = std::env::var("PATH").unwrap_or_default();
        start.env("PATH", format!("{}:{search}", folder.display()));
        for (name, value) in &self.variables {
            start.env(name, value.replace("HOSTS", &hosts.display().to_string()));
        }
        start
    }
}

#[test]
fn by_the_commands_of_each_scheduler() {
    let Some(network) = Network::new(2) else {
        return;
    };
    for scheduler in schedulers(&network.hosts) {
        for (end, code, said) in ENDS {
            let ended = run(scheduler.launcher(&network).arg(program()).arg(end), LIMIT);
            judge(&ended, end, code, said);
        }
        // Where the ranks run, and from whom the launcher knows it.
        let mut told = scheduler.launcher(&network);
        let ended = run(told.args(["-v", "-n", "3"]).arg(program()), LIMIT);
        ended.expect_success();
        let name = scheduler.name;
        assert!(
            ended.err.contains(&format!("hosts of {name}, ")),
            "{ended:?}"
        );
        for (host, ranks) in network.hosts.iter().zip(["0, 1", "2"]) {
            let here =
                |line: &&str| line.contains(host) && line.ends_with(&format!("for ranks {ranks}"));
            assert!(
                ended.err.lines().any(|line| here(&line)),
                "{name}: {ended:?}"
            );
        }
        let mut alone = scheduler.launcher(&network);
        let ended = run(alone.args(["--no-allocation", "-v"]).arg(program()), LIMIT);
        assert!(ended.out.contains("ok with 1 ranks"), "{ended:?}");
        assert!(!ended.err.contains("hosts of"), "{ended:?}");
    }
}

#[test]
fn a_command_that_fails_is_named_with_its_complaint() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let all = schedulers(&network.hosts);
    let lsf = all.iter().find(|one| one.name == "LSF").expect("LSF");
    let broken = Scheduler {
        command: (
            "blaunch",
            "echo 'no such host in this job' >&2; exit 3".into(),
        ),
        variables: lsf.variables.clone(),
        name: "broken",
        file: String::new(),
    };
    let ended = run(broken.launcher(&network).arg(program()), LIMIT);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    for said in ["no such host in this job", "blaunch"] {
        assert!(ended.err.contains(said), "{said}: {ended:?}");
    }
    // Both hosts are asked at the same time.
    let hosts = &network.hosts;
    assert!(
        hosts.iter().any(|host| ended.err.contains(host)),
        "{ended:?}"
    );
}

/// In an allocation of two nodes by Slurm itself.
#[test]
fn within_slurm() {
    let Some(slurm) = Slurm::start() else {
        return;
    };
    let program = program().display().to_string();
    for (end, code, said) in ENDS {
        let mut start = slurm.command("salloc");
        start.args(["-N2", "--ntasks-per-node=2", &launcher(), &program, end]);
        judge(&run(&mut start, LIMIT), end, code, said);
        let ended = slurm.batch(&format!("{} {program} {end}", launcher()));
        judge(&ended, end, code, said);
    }
    let both = |arguments: &[&str]| {
        let mut start = slurm.command("salloc");
        start.args(["-N2", "--ntasks-per-node=2", &launcher(), "-v"]);
        run(start.args(arguments).arg(&program), LIMIT)
    };
    let three = both(&["-n", "3"]);
    three.expect_success();
    assert!(
        three.err.contains("for ranks 0, 1") && three.err.contains("for ranks 2"),
        "{three:?}"
    );
    assert!(three.err.contains("SLURM_JOB_NODELIST"), "{three:?}");
    let second = both(&["--hosts", "n2", "-n", "2"]);
    second.expect_success();
    assert!(
        second.err.contains("for ranks 0, 1") && second.err.contains("n2 ("),
        "{second:?}"
    );
    let many = both(&["-n", "6"]);
    many.expect_success();
    assert!(many.err.contains("6 ranks on the 4 slots"), "{many:?}");
    // The batch step is on the first node: so its ranks need no command.
    let ended = slurm.batch(&format!("PATH=/nowhere {} -v -n 2 {program}", launcher()));
    ended.expect_success();
    assert!(ended.out.contains("ok with 2 ranks"), "{ended:?}");
}

/// Runs the program as tasks of srun, two on each of two nodes, or one.
fn by_srun(slurm: &Slurm, mpi: &str, layout: &[&str], end: &str) -> Ended {
    let program = program().display().to_string();
    let mut start = slurm.command("srun");
    start.arg(format!("--mpi={mpi}")).args(layout);
    run(start.args([&program, end]), LIMIT)
}

/// Ends of a job that srun starts. srun has codes of its own for killed tasks, and shows which tasks it ended
/// itself.
fn ends_by_srun(slurm: &Slurm, mpi: &str) {
    let layout = ["-N2", "-n4", "--ntasks-per-node=2"];
    for (end, code, said) in ENDS {
        let ended = by_srun(slurm, mpi, &layout, end);
        match end {
            "abort" | "kill" | "unasked" => {
                assert!(ended.code().is_some_and(|code| code != 0), "{ended:?}");
            }
            _ => assert_eq!(ended.code(), Some(code), "{end}: {ended:?}"),
        }
        let said = said.replace("rank 3", if end == "code" { "task 3" } else { "rank 3" });
        assert!(ended.err.contains(&said), "{end}: {ended:?}");
    }
}

/// Ranks that srun starts, with PMI and without it.
#[test]
fn started_by_srun() {
    let Some(slurm) = Slurm::start() else {
        return;
    };
    ends_by_srun(&slurm, "pmi2");
    let ended = by_srun(&slurm, "none", &["-N2", "-n4"], "well");
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    for option in ["srun --mpi=pmix", "srun --mpi=pmi2"] {
        assert_eq!(ended.err.matches(option).count(), 1, "{ended:?}");
    }
}

/// … with PMIx.
#[test]
fn started_by_srun_over_pmix() {
    let Some(slurm) = Slurm::start() else {
        return;
    };
    if Slurm::speaks_pmix() {
        ends_by_srun(&slurm, "pmix");
    }
}

/// Open MPI, if it is installed.
fn open_mpi() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    network::open_mpi(&target.map_or_else(|| weft_tests::root().join("target"), PathBuf::from))
}

/// A rank that only uses sessions informs the ranks of other hosts itself.
#[test]
fn nobody_waits_under_prterun_for_a_rank_that_uses_sessions_only() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/sessions_beside.c", &[]);
    for who in ["0", "3"] {
        for what in ["early", "stays", "awaits", "met"] {
            let file = network.file(&format!("{what}{who}"));
            let mut start = network.open_mpi(&prefix, "prterun", 2, 2);
            start.args(["-n", "4", "-x", "WHO"]).env("WHO", who);
            let mut ended = run(start.arg(&program).arg(what).arg(&file), LIMIT);
            ended.err = network::without_race_of_prrte(&ended.err);
            check_sessions_beside(&ended, 4, &format!("{what}, rank {who}"));
        }
    }
}

/// Two hosts; the launcher reaches one of them by its own daemon.
#[test]
fn started_by_prterun_and_the_launcher_of_open_mpi() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    // When a rank ended by itself at the same time, a daemon of PRRTE forgot an abort once in twenty times.
    let aborts = if is_long() { 40 } else { 1 };
    let again = ENDS.iter().filter(|(end, ..)| *end == "abort").cycle();
    let ends: Vec<_> = ENDS.iter().chain(again.take(aborts - 1)).copied().collect();
    for launcher in ["prterun", "mpiexec"] {
        for &(end, code, said) in &ends {
            let mut start = network.open_mpi(&prefix, launcher, 2, 2);
            start.args(["-n", "4"]);
            let ended = run(start.arg(program()).arg(end), LIMIT);
            // Its message about a code does not name the rank.
            let said = if end == "code" { "" } else { said };
            // A rank that learns of the loss, or of the end of the aborting rank, before the launcher does
            // ends the job with the class of its error.
            let code = match ended.code() {
                Some(PROC_ABORTED) if ["kill", "abort"].contains(&end) => PROC_ABORTED,
                _ => code,
            };
            judge(&ended, end, code, said);
        }
    }
}
