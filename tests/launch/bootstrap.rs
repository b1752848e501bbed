//! Bootstrap of a rank: through wrappers, alone, under foreign launchers, by mistake.

use std::process::{Command, Stdio};

use crate::harness::{Job, OWN_NAMESPACES, default_signals, namespaces, rank};

fn joined(words: &[&str], count: usize) {
    let mut all = vec!["-n".to_owned(), count.to_string()];
    all.extend(words.iter().map(|word| (*word).to_owned()));
    let ended = Job::new(&all).run();
    assert_eq!(ended.code(), Some(0), "{words:?}: {ended:?}");
    let expected: Vec<_> = (0..count)
        .map(|rank| format!("rank {rank} of {count} program 0 singleton false"))
        .collect();
    let found: Vec<_> = ended
        .sorted()
        .into_iter()
        .filter(|line| line.starts_with("rank"))
        .collect();
    assert_eq!(found, expected, "{words:?}");
}

#[test]
fn wrappers_let_the_rank_through() {
    let rank = rank();
    joined(&["sh", "-c", &format!("{rank} where; :")], 2);
    joined(&["env", "OTHER=1", &rank, "where"], 2);
    joined(&["nice", "-n", "1", &rank, "where"], 2);
}

#[test]
fn ranks_in_namespaces_of_their_own_join() {
    if namespaces() {
        let mut words = OWN_NAMESPACES.to_vec();
        let rank = rank();
        words.extend([&*rank, "where"]);
        joined(&words, 3);
    }
}

#[test]
fn a_debugger_lets_the_rank_through() {
    let there = Command::new("gdb")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if there.is_err() {
        eprintln!("there is no gdb here: not tested");
        return;
    }
    let ended = Job::new([
        "-n",
        "2",
        "gdb",
        "-nx",
        "-batch",
        "-ex",
        "run",
        "--args",
        &rank(),
        "where",
    ])
    .run();
    for rank in 0..2 {
        assert!(
            ended.out.contains(&format!("rank {rank} of 2")),
            "{ended:?}"
        );
    }
}

#[test]
fn alone_is_a_job_of_one() {
    let output = Command::new(rank())
        .arg("where")
        .env_remove("WEFT_JOB")
        .output()
        .expect("runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "rank 0 of 1 program 0 singleton true\n"
    );
}

#[test]
fn what_a_rank_starts_is_no_rank() {
    let ended = Job::new(["-n", "2", &rank(), "start"]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(
        ended.out,
        "rank 0 of 1 program 0 singleton true\n".repeat(2)
    );
    // This also holds if the rank replaces itself by another program; but it has not finalised.
    let ended = Job::new([
        "-n",
        "1",
        &rank(),
        "become",
        "sh",
        "-c",
        "echo ${WEFT_RANK-gone}; ls /proc/self/fd | wc -w",
    ])
    .run();
    let lines: Vec<_> = ended.out.lines().collect();
    assert_eq!(lines[0], "gone", "{ended:?}");
    assert_eq!(ended.code(), Some(1));
}

#[test]
fn a_job_inside_a_job_is_a_job_of_its_own() {
    let weft = crate::harness::weft();
    let ended = Job::new([
        "-n",
        "1",
        "sh",
        "-c",
        &format!("{} run -n 2 {} where", weft.display(), rank()),
    ])
    .run();
    assert_eq!(
        ended.sorted(),
        [
            "rank 0 of 2 program 0 singleton false",
            "rank 1 of 2 program 0 singleton false"
        ]
    );
}

/// Scripts and programs read the numbers of a rank from the variables of the usual launchers: before and after it has
/// joined the job. Even so, a process that a rank starts is not a rank, and jobs inside have their own variables.
#[test]
fn ranks_have_the_usual_variables() {
    let (weft, rank) = (crate::harness::weft(), rank());
    let expected = |size: u32| -> Vec<String> {
        let line = |rank| format!("usual {rank} {size} {rank} {size} {rank} {size} {rank} {size}");
        (0..size).map(line).collect()
    };
    let names = "$PMI_RANK $PMI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK $OMPI_COMM_WORLD_LOCAL_SIZE";
    let script = format!("echo usual {names}");
    let nested = format!("{} run -n 3 {rank} usual", weft.display());
    // Except for these numbers, no variables lead to another launcher.
    let lonely = "env | grep -E '^(PMI_(PORT|ID)|PMIX_|PMI2_|HYDI_|OMPI_MCA_)'; echo none";
    for (words, expected) in [
        (&["-n", "3", "sh", "-c", &script][..], expected(3)),
        (&["-n", "3", &rank, "usual"], expected(3)),
        (&["-n", "1", "sh", "-c", &nested], expected(3)),
        (&["-n", "2", "sh", "-c", lonely], vec!["none".to_owned(); 2]),
    ] {
        let ended = Job::new(words).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.sorted(), expected, "{ended:?}");
    }
}

/// Ranks that do not know our protocol ask for their job through PMI, like the library of MPICH.
#[test]
fn ranks_that_speak_pmi_are_served() {
    let rank = rank();
    let unaware = format!("env -u WEFT_RANK -u WEFT_JOB_FD -u WEFT_JOB {rank} exchange");
    for wrapped in [format!("exec {unaware}"), format!("{unaware}; exit $?")] {
        let ended = Job::new(["-n", "4", "sh", "-c", &wrapped]).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        let expected: Vec<_> = (0..4)
            .map(|rank| format!("rank {rank} heard all, is {rank} of 4 on one of 1"))
            .collect();
        assert_eq!(ended.sorted(), expected);
    }
}

#[test]
fn a_foreign_launcher_is_named() {
    for (variables, named, remedy) in [
        (
            &[("PMI_ID", "1"), ("PMI_PORT", "here:1234")][..],
            "MPICH",
            "weft run -n",
        ),
        (
            &[
                ("OMPI_COMM_WORLD_SIZE", "2"),
                ("OMPI_COMM_WORLD_RANK", "0"),
                ("PMIX_RANK", "0"),
            ],
            "Open MPI",
            "weft run -n",
        ),
        (
            &[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")],
            "srun",
            "srun --mpi=pmi2",
        ),
    ] {
        let mut command = Command::new(rank());
        let output = command
            .arg("where")
            .envs(variables.iter().copied())
            .output()
            .expect("runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{error}"
        );
        assert!(error.contains(named) && error.contains(remedy), "{error}");
    }
    // Only one of the tasks explains it.
    let output = Command::new(rank())
        .arg("where")
        .envs([("SLURM_NTASKS", "4"), ("SLURM_PROCID", "2")])
        .output()
        .expect("runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("srun") && error.contains("as task 0 says"),
        "{error}"
    );
}

#[test]
fn ranks_exchange_values_through_the_launcher() {
    let ended = Job::new(["-n", "5", &rank(), "exchange"]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let expected: Vec<_> = (0..5)
        .map(|rank| format!("rank {rank} heard all, is {rank} of 5 on one of 1"))
        .collect();
    assert_eq!(ended.sorted(), expected);
}

#[test]
fn a_second_process_of_a_rank_is_refused() {
    let rank = rank();
    // The second process runs beside the first, or after it.
    for script in [
        format!("{rank} wait & sleep 0.3; {rank} where"),
        format!("{rank} where; {rank} where"),
    ] {
        let ended = Job::new(["-n", "1", "sh", "-c", &script]).run();
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        let told =
            ended.error.contains("second process") || ended.error.contains("has joined already");
        assert!(told, "{ended:?}");
    }
}

#[test]
fn descriptors_that_were_closed_on_the_way_are_told() {
    let python = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))";
    let there = Command::new("python3").args(["-c", ""]).status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("there is no python3 here: not tested");
        return;
    }
    let ended = Job::new(["-n", "2", "python3", "-c", python, &rank(), "where"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.error.contains("close_fds=False"), "{ended:?}");
    assert_eq!(ended.out, "");
}

#[test]
fn a_rank_starts_as_from_a_shell() {
    // The same signals are blocked and ignored, and the same descriptors are open, plus the four of the job (the
    // last one for a library that speaks PMI).
    let script = "echo $(grep -E 'Sig(Blk|Ign)' /proc/self/status) $(ls /proc/self/fd | wc -w)";
    let seen = |text: &str| -> Vec<(String, u32)> {
        let split = |line: &str| {
            let (signals, count) = line.rsplit_once(' ').expect("two parts");
            (signals.to_owned(), count.parse().expect("a number"))
        };
        text.lines().map(split).collect()
    };
    let mut command = Command::new("sh");
    default_signals(&mut command);
    let output = command.args(["-c", script]).stdin(Stdio::null()).output();
    let output = output.expect("there is a shell");
    let shell = seen(&String::from_utf8_lossy(&output.stdout));
    assert!(shell[0].0.contains("SigBlk: 0000000000000000"), "{shell:?}");
    let ended = Job::new(["-n", "2", "sh", "-c", script]).run();
    let expected = (shell[0].0.clone(), shell[0].1 + 4);
    assert_eq!(seen(&ended.out), vec![expected; 2]);
}
