//! C programs of `tests/programs`, built with `mpicc`, under `mpiexec` with few and many ranks.
#![allow(missing_docs)]

use weft_tests::{Ended, build, mpiexec, run, tool};

fn passes(name: &str, ranks: &[u32], arguments: &[&str]) {
    let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
    for &ranks in ranks {
        let ended = mpiexec(ranks, &program, arguments);
        ended.expect_success();
        assert!(
            ended.out.contains(&format!(": ok with {ranks} rank")),
            "{ended:?}"
        );
    }
}

#[test]
fn rings_and_barriers_end_promptly_however_many_ranks() {
    passes("ring", &[1, 2, 3, 4, 17, 64], &["100"]);
}

#[test]
fn point_to_point() {
    passes("point_to_point", &[1, 2, 4], &[]);
}

#[test]
fn communicators() {
    passes("communicators", &[1, 2, 3, 4, 9], &[]);
}

#[test]
fn collectives() {
    passes("collectives", &[1, 2, 3, 4, 7, 8], &[]);
}

#[test]
fn intercommunicators() {
    passes("intercommunicators", &[1, 2, 3, 4, 9], &[]);
}

#[test]
fn topologies() {
    passes("topologies", &[1, 2, 3, 4, 6, 12], &[]);
}

#[test]
fn services_alone_and_beside_mpi() {
    passes("services", &[1, 2, 3, 17], &[]);
    passes("services", &[1, 2, 17], &["mpi"]);
}

#[test]
fn wrong_arguments_give_the_right_class() {
    passes("errors", &[1, 2], &[]);
}

#[test]
fn threads_of_both_kinds() {
    passes("threads", &[2, 4], &["16"]);
    passes("threads", &[2], &["64"]);
}

#[test]
fn fibers_of_c() {
    passes("fibers", &[1, 2, 3], &[]);
}

/// The examples as they say that they are started, smaller.
#[test]
fn fibers_of_the_examples() {
    let of = |name: &str, argument: &str, expected: &str| {
        let program = build(&format!("examples/fibers/{name}.c"), &[]);
        let ended = mpiexec(2, &program, &[argument]);
        ended.expect_success();
        assert!(ended.out.contains(expected), "{ended:?}");
    };
    of("ring", "500", "passed 1000 fibers");
    of("echo", "5000", "5000 clients");
    of("million", "16384", "all have received theirs");
}

#[test]
fn singleton_needs_no_launcher() {
    let program = build("tests/programs/ring.c", &["-pthread"]);
    run(
        &mut std::process::Command::new(program),
        std::time::Duration::from_secs(20),
    )
    .expect_success();
}

#[test]
fn a_profiling_library_intercepts() {
    let program = build("tests/programs/ring.c", &["-pthread"]);
    let library = build("tests/programs/profile.c", &["-shared", "-fPIC"]);
    let mut command = tool("mpiexec");
    command
        .args([
            "-n",
            "2",
            "-x",
            &format!("LD_PRELOAD={}", library.display()),
        ])
        .arg(program)
        .arg("10");
    let ended: Ended = run(&mut command, std::time::Duration::from_secs(20));
    ended.expect_success();
    for rank in 0..2 {
        assert!(
            ended
                .err
                .contains(&format!("profile: rank {rank} sent 10 times")),
            "{}",
            ended.err
        );
    }
}

#[test]
fn a_blocked_rank_sleeps() {
    let program = build("tests/programs/idle.c", &[]);
    let ended = mpiexec(2, &program, &["2"]);
    ended.expect_success();
    let used: f64 = ended
        .out
        .split("used ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no figure in {:?}", ended.out));
    assert!(used <= 0.04, "{used} s of CPU while blocked");
}

#[test]
fn over_tcp_plain_and_encrypted() {
    for (name, ranks, arguments) in [
        ("point_to_point", 4, &[][..]),
        ("collectives", 4, &[]),
        ("communicators", 4, &[]),
        ("ring", 9, &["20"]),
    ] {
        let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
        for extra in [&[][..], &["--encrypt"]] {
            let mut command = tool("mpiexec");
            command.args(["--fabric", "tcp", "-n", &ranks.to_string()]);
            command.args(extra).arg(&program).args(arguments);
            let ended: Ended = run(&mut command, std::time::Duration::from_secs(60));
            ended.expect_success();
            let said = format!(": ok with {ranks} rank");
            assert!(ended.out.contains(&said), "{ended:?}");
        }
    }
}
