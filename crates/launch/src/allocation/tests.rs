//! Each scheduler as its jobs see it, and what follows for a command line.

use std::collections::HashMap;
use std::io;

use super::*;
use crate::mapping::Allocation;
use crate::options::{CommandLine, Table};

/// SchedulerEnvironment that are made up; the host is called `here`.
#[derive(Default)]
struct FakeEnvironment {
    variables: HashMap<&'static str, &'static str>,
    files: HashMap<&'static str, &'static str>,
    commands: Vec<&'static str>,
    answer: Option<&'static str>,
}

impl FakeEnvironment {
    /// With these variables, and the commands of all schedulers.
    fn new(variables: &[(&'static str, &'static str)]) -> Self {
        Self {
            variables: variables.iter().copied().collect(),
            commands: vec!["srun", "blaunch", "qrsh", "flux"],
            ..Self::default()
        }
    }

    fn with_file(mut self, path: &'static str, text: &'static str) -> Self {
        self.files.insert(path, text);
        self
    }

    fn found(&self) -> SchedulerAllocation {
        match find(self) {
            Found::Allocation(allocation) => allocation,
            other => panic!("{other:?}"),
        }
    }

    fn unusable(&self) -> String {
        match find(self) {
            Found::Unusable(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn read(&self, line: &str) -> CommandLine {
        let words: Vec<_> = line.split_whitespace().map(OsString::from).collect();
        let read = Table::of_this_program().read_within(&words, &|| find(self));
        read.unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}

impl SchedulerEnvironment for FakeEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &str) -> io::Result<String> {
        let text = self.files.get(path).map(|text| (*text).to_owned());
        text.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn has_command(&self, name: &str) -> bool {
        self.commands.contains(&name)
    }

    fn output(&self, _: &[&str]) -> io::Result<String> {
        let answer = self.answer.map(str::to_owned);
        answer.ok_or_else(|| io::Error::other("no broker"))
    }

    fn is_here(&self, name: &str) -> bool {
        same_host(name, "here") || self.variables.get(slurm::THIS_NODE) == Some(&name)
    }
}

/// `name:slots` of each host; `*` for this one.
fn hosts(hosts: &[HostSlots]) -> String {
    let shown = hosts.iter().map(|host| {
        let slots = host
            .slots
            .map_or(String::new(), |slots| format!(":{slots}"));
        let star = if host.address == HostAddress::Here {
            "*"
        } else {
            ""
        };
        format!("{}{slots}{star}", host.address())
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Where the ranks of a command line go, and by which command: `2 on a:1 b:1 by srun`.
fn placed(line: &CommandLine) -> String {
    let ranks = line.programs[0].ranks.unwrap_or(1);
    match &line.allocation {
        Allocation::ThisHost => format!("{ranks} here"),
        Allocation::Started { hosts: found, way } => {
            format!(
                "{ranks} on {} by {}",
                hosts(found),
                way.command[0].display()
            )
        }
        other => panic!("{other:?}"),
    }
}

const SLURM: [(&str, &str); 4] = [
    ("SLURM_JOB_ID", "7"),
    ("SLURM_JOB_NODELIST", "n[1-2],m4"),
    ("SLURM_TASKS_PER_NODE", "2(x2),1"),
    ("SLURM_NTASKS", "5"),
];

const SET: &str = r#"{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3"}},
    {"rank": "2", "children": {"core": "0,2"}}], "starttime": 0, "expiration": 0, "nodelist": ["here", "n[1-2]"]}}"#;

#[test]
fn each_scheduler_is_understood() {
    let slurm = FakeEnvironment::new(&SLURM);
    assert_eq!(hosts(&slurm.found().hosts), "n1:2 n2:2 m4:1");
    let mut batch = FakeEnvironment::new(&SLURM);
    batch.variables.insert("SLURMD_NODENAME", "n1");
    assert_eq!(hosts(&batch.found().hosts), "n1:2* n2:2 m4:1");
    // Without a number of tasks: as many as its cores are enough for.
    let mut cores = FakeEnvironment::new(&SLURM);
    cores.variables.remove("SLURM_TASKS_PER_NODE");
    assert_eq!(hosts(&cores.found().hosts), "n1:1 n2:1 m4:1");
    cores.variables.insert("SLURM_JOB_CPUS_PER_NODE", "8(x2),1");
    cores.variables.insert("SLURM_CPUS_PER_TASK", "4");
    assert_eq!(hosts(&cores.found().hosts), "n1:2 n2:2 m4:1");

    let lsf = FakeEnvironment::new(&[
        ("LSB_JOBID", "7"),
        ("LSB_MCPU_HOSTS", "here.example 2 b 3 "),
    ]);
    assert_eq!(hosts(&lsf.found().hosts), "here.example:2* b:3");
    assert_eq!(lsf.found().command, ["blaunch"]);
    let lsf = FakeEnvironment::new(&[("LSB_JOBID", "7"), ("LSB_HOSTS", "a a b a")]);
    assert_eq!(hosts(&lsf.found().hosts), "a:3 b:1");

    let pbs = FakeEnvironment::new(&[("PBS_JOBID", "7.head"), ("PBS_NODEFILE", "/nodes")])
        .with_file("/nodes", "a\na\nhere\n\nhere\n");
    assert_eq!(hosts(&pbs.found().hosts), "a:2 here:2*");
    assert_eq!(pbs.found().command[0], "ssh");

    let grid = FakeEnvironment::new(&[("JOB_ID", "7"), ("PE_HOSTFILE", "/pe")]).with_file(
        "/pe",
        "a 2 all.q@a UNDEFINED\nb 1 all.q@b <NULL>\na 3 short.q@a UNDEFINED\n",
    );
    assert_eq!(hosts(&grid.found().hosts), "a:5 b:1");
    assert_eq!(grid.found().command, ["qrsh", "-inherit"]);

    let flux = FakeEnvironment {
        answer: Some(SET),
        ..FakeEnvironment::new(&[("FLUX_URI", "local:///run/flux")])
    };
    // The command is given the rank of the broker.
    assert_eq!(hosts(&flux.found().hosts), "here:4* 1:4 2:2");
    assert_eq!(flux.found().hosts[2].name, "n2");
    assert_eq!(flux.found().command, ["flux", "exec", "--rank"]);

    assert_eq!(
        find(&FakeEnvironment::new(&[("SLURM_JOB_ID", "7")])),
        Found::Nothing
    );
    assert_eq!(
        find(&FakeEnvironment::new(&[("JOB_ID", "7")])),
        Found::Nothing
    );
    assert_eq!(find(&FakeEnvironment::default()), Found::Nothing);
}

#[test]
fn host_files_of_other_launchers_are_used() {
    let operator = FakeEnvironment::new(&[
        ("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
        ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
    ])
    .with_file(
        "/etc/mpi/hostfile",
        "w-0.pi.ns.svc slots=2\nw-1.pi.ns.svc slots=2\n",
    );
    let found = operator.found();
    assert_eq!(hosts(&found.hosts), "w-0.pi.ns.svc:2 w-1.pi.ns.svc:2");
    assert_eq!(found.command[0], "ssh");
    assert_eq!(
        found.command.last().expect("words"),
        "ConnectionAttempts=10"
    );
    for (name, slots) in [
        ("HYDRA_HOST_FILE", None),
        ("I_MPI_HYDRA_HOST_FILE", Some(("I_MPI_PERHOST", "3"))),
        ("PRTE_MCA_prte_default_hostfile", None),
    ] {
        let mut other = FakeEnvironment::new(&[(name, "/hosts")]).with_file("/hosts", "a:2\nb\n");
        other.variables.extend(slots);
        let each = slots.map_or("1", |(_, each)| each);
        assert_eq!(hosts(&other.found().hosts), format!("a:2 b:{each}"));
    }
    // What was set by hand counts more than the scheduler.
    let mut both = FakeEnvironment::new(&SLURM).with_file("/hosts", "a:2\n");
    both.variables.insert("HYDRA_HOST_FILE", "/hosts");
    assert_eq!(both.found().scheduler, "a host file");
    let agent = FakeEnvironment::new(&[
        ("OMPI_MCA_orte_default_hostfile", "/hosts"),
        ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"),
    ])
    .with_file("/hosts", "a slots=2\n");
    assert_eq!(agent.found().command, ["/etc/mpi/kubexec.sh"]);
}

#[test]
fn what_cannot_be_used_is_said() {
    let step = |tasks| {
        let mut step = FakeEnvironment::new(&SLURM);
        step.variables.insert("SLURM_STEP_NUM_TASKS", tasks);
        step
    };
    assert!(step("4").unusable().contains("one of 4 tasks"));
    assert_eq!(step("1").found().ranks(), 5);
    let mut job = FakeEnvironment::new(&[("FLUX_URI", "local:///x")]);
    assert!(job.unusable().contains("no broker"));
    job.answer = Some("{}");
    assert!(job.unusable().contains("execution"));
    job.variables.insert("FLUX_JOB_ID", "f7");
    assert!(job.unusable().contains("task of job f7"));
    for (around, said) in [
        (
            FakeEnvironment::new(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1")]),
            "'n[1'",
        ),
        (
            FakeEnvironment::new(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "-oX")]),
            "'-oX'",
        ),
        (
            FakeEnvironment::new(&[("LSB_JOBID", "7"), ("LSB_MCPU_HOSTS", "a 2 b")]),
            "last host",
        ),
        (
            FakeEnvironment::new(&[("LSB_JOBID", "7"), ("LSB_MCPU_HOSTS", "a 0")]),
            "'0'",
        ),
        (
            FakeEnvironment::new(&[("PBS_JOBID", "7"), ("PBS_NODEFILE", "/none")]),
            "/none",
        ),
        (
            FakeEnvironment::new(&[("PBS_JOBID", "7"), ("PBS_NODEFILE", "/x")])
                .with_file("/x", "\n"),
            "names no host",
        ),
        (
            FakeEnvironment::new(&[("JOB_ID", "7"), ("PE_HOSTFILE", "/x")])
                .with_file("/x", "a all.q"),
            "number of slots",
        ),
        (
            FakeEnvironment::new(&[("HYDRA_HOST_FILE", "/x")]).with_file("/x", "a:b"),
            "NAME:RANKS",
        ),
    ] {
        let reason = around.unusable();
        assert!(
            reason.contains(said) && reason.contains("is not used"),
            "{reason}"
        );
        // The job runs here, and the line is for the user.
        let line = around.read("-n 2 ./a");
        assert_eq!(placed(&line), "2 here");
        assert_eq!(line.ignored, [reason]);
        assert!(around.read("--no-allocation ./a").ignored.is_empty());
    }
}

#[test]
fn ranks_go_where_the_scheduler_has_made_room() {
    let slurm = FakeEnvironment::new(&SLURM);
    for (line, expected) in [
        ("./a", "5 on n1:2 n2:2 m4:1 by srun"),
        ("-n 2 ./a", "2 on n1:2 n2:2 m4:1 by srun"),
        ("-ppn 1 ./a", "3 on n1:1 n2:1 m4:1 by srun"),
        ("--pernode -n 2 ./a", "2 on n1:1 n2:1 m4:1 by srun"),
        ("--no-allocation ./a", "1 here"),
        ("-localonly -n 3 ./a", "3 here"),
        ("-rmk user -n 3 ./a", "3 here"),
        ("-rmk slurm -n 3 ./a", "3 on n1:2 n2:2 m4:1 by srun"),
        ("-launcher ssh -n 3 ./a", "3 on n1:2 n2:2 m4:1 by ssh"),
        ("-bootstrap slurm -n 3 ./a", "3 on n1:2 n2:2 m4:1 by srun"),
        (
            "--launch-command rsh -n 3 ./a",
            "3 on n1:2 n2:2 m4:1 by rsh",
        ),
        // The user knows better, within the allocation as well.
        ("--hosts n2:3 ./a", "3 on n2:3 by srun"),
        ("--hosts n2.cluster,m4 -n 2 ./a", "2 on n2 m4 by srun"),
        ("--hosts localhost -n 2 ./a", "2 here"),
    ] {
        let read = slurm.read(line);
        assert_eq!(placed(&read), expected, "{line}");
        assert!(read.ignored.is_empty(), "{line}: {:?}", read.ignored);
    }
    let many = slurm.read("-n 8 ./a");
    assert_eq!(placed(&many), "8 on n1:2 n2:2 m4:1 by srun");
    assert!(
        many.ignored[0].contains("8 ranks on the 5 slots"),
        "{:?}",
        many.ignored
    );
    let stranger = slurm.read("--hosts n1,other -n 2 ./a");
    assert_eq!(placed(&stranger), "2 on n1 other by ssh");
    assert!(
        stranger.ignored[0].contains("other is named"),
        "{:?}",
        stranger.ignored
    );
    let joined = slurm.read("--listen 127.0.0.1:0 -n 8");
    assert!(matches!(joined.allocation, Allocation::Joined { .. }));
    // Several programs say how many of each.
    let two = slurm.read("-n 2 ./a : -n 1 ./b");
    assert_eq!(
        (two.programs[0].ranks, two.programs[1].ranks),
        (Some(2), Some(1))
    );
    // Where there is no srun, in a container for example.
    let container = FakeEnvironment {
        commands: Vec::new(),
        ..FakeEnvironment::new(&SLURM)
    };
    assert_eq!(placed(&container.read("./a")), "5 on n1:2 n2:2 m4:1 by ssh");
}

#[test]
fn what_is_all_on_this_host_needs_no_agent() {
    let mut batch = FakeEnvironment::new(&SLURM);
    batch.variables.insert("SLURMD_NODENAME", "n1");
    for (line, expected) in [
        ("-n 2 ./a", "2 here"),
        ("-n 3 ./a", "3 on n1:2* n2:2 m4:1 by srun"),
        ("--hosts n1 -n 3 ./a", "3 here"),
        ("-n 1 ./a : -n 1 ./b", "1 here"),
        ("-n 1 ./a : -n 2 ./b", "1 on n1:2* n2:2 m4:1 by srun"),
        ("-n 4000000000 ./a", "4000000000 on n1:2* n2:2 m4:1 by srun"),
    ] {
        assert_eq!(placed(&batch.read(line)), expected, "{line}");
    }
    batch.variables.insert("SLURM_JOB_NODELIST", "n1");
    batch.variables.insert("SLURM_TASKS_PER_NODE", "4");
    assert_eq!(placed(&batch.read("./a")), "4 here");
    assert_eq!(placed(&batch.read("-n 9 ./a")), "9 here");
    // Where it came from is known.
    let origin = batch.read("./a").origin.expect("Slurm").to_string();
    assert_eq!(
        origin,
        "Slurm, n1:4 (from SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE)"
    );
}

#[test]
fn names_of_one_host_are_the_same() {
    for (one, other, same) in [
        ("a", "a", true),
        ("a", "a.example", true),
        ("a.one", "a.two", false),
        ("a", "b", false),
        ("10.0.0.1", "10", false),
        ("10.0.0.1", "10.0.0.2", false),
    ] {
        assert_eq!(same_host(one, other), same, "{one} {other}");
        assert_eq!(same_host(other, one), same, "{other} {one}");
    }
}
