//! Arguments of calls, and checks: wrong ones get their class and a remedy, and nothing crashes.

use std::process::Command;
use std::time::Duration;

use weft_tests::{build, run, tool};

use super::passes;

#[test]
fn wrong_arguments_give_the_right_class() {
    passes("errors", &[1, 2], &[]);
}

/// Every function of the C binding with the extremes of each argument in turn, 26 000 calls: each ends
/// in success or in an error of MPI.
#[test]
fn every_function_with_the_extremes_of_every_argument() {
    let program = build("tests/programs/extremes.c", &["-w"]);
    let ended = run(&mut Command::new(program), Duration::from_secs(500));
    assert!(ended.out.contains(" 0 failures"), "{ended:?}");
    ended.expect_success();
}

/// One wrong value for each parameter of every function that is implemented, made from the tables: the class that it
/// must give, with the name of the parameter and a remedy.
#[test]
fn every_wrong_argument_gets_its_class_and_a_remedy() {
    let program = build("tests/programs/wrong.c", &["-w"]);
    let ended = run(&mut Command::new(program), Duration::from_secs(120));
    assert!(ended.out.contains(" 0 failures"), "{ended:?}");
    ended.expect_success();
}

/// The same for the functions of MPI_T, whose codes are classes of their own.
#[test]
fn every_wrong_argument_of_tools_gets_its_code() {
    passes("wrong_tools", &[1, 2], &[]);
}

/// The same for the functions of weft.h, which has no table.
#[test]
fn every_service_with_the_extremes_of_every_argument() {
    let program = build("tests/programs/extremes_weft.c", &["-w"]);
    let ended = run(&mut Command::new(program), Duration::from_secs(60));
    ended.expect_success();
}

/// This is for a value that no launcher of ours has checked: otherwise a user who misspells it would believe
/// that everything is checked.
#[test]
fn a_mode_of_checks_that_is_not_known_is_refused() {
    let mut command = Command::new(build("tests/programs/job_ends.c", &["-pthread"]));
    let ended = run(command.env("WEFT_CHECK", "stric"), Duration::from_secs(60));
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.err.contains("WEFT_CHECK is 'stric'"), "{ended:?}");
}

/// Things that work with Weft but need not elsewhere are reported if asked for, once by each process.
#[test]
fn checks_for_development() {
    let program = build("tests/programs/fine_print.c", &["-pthread"]);
    for (option, times) in [(None, 0), (Some("--check"), 2)] {
        let mut command = tool("mpiexec");
        command.args(option).args(["-n", "2"]).arg(&program);
        let ended = run(&mut command, Duration::from_secs(60));
        ended.expect_success();
        let said = "reduces MPI_CHAR with MPI_SUM; MPI 5.0, section 6.9.2";
        assert_eq!(ended.err.matches(said).count(), times, "{ended:?}");
        let named = |rank| {
            ended
                .err
                .contains(&format!("rank {rank} of MPI_COMM_WORLD"))
        };
        assert_eq!(named(0) && named(1), times == 2, "{ended:?}");
    }
}
