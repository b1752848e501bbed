//! Programs in Fortran, compiled by the installation's `mpifort` and run by its `mpiexec`. Without a compiler of Fortran nothing is
//! tested, and that is said.
#![allow(missing_docs)]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use weft_tests::{Ended, root, run, scratch, tool};

/// The compiler that `mpifort` calls, if it is there.
fn is_there() -> bool {
    let asked = Command::new("gfortran")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let there = asked.is_ok_and(|status| status.success());
    if !there {
        eprintln!("skipped: there is no gfortran");
    }
    there
}

/// Compiles a program of `tests/programs/fortran`.
fn build(wrapper: &str, source: &str) -> PathBuf {
    let folder = scratch(&format!("fortran-{source}"));
    let program = folder.join("program");
    let output = tool(wrapper)
        .args(["-g", "-O1", "-o"])
        .arg(&program)
        .arg(root().join("tests/programs/fortran").join(source))
        .current_dir(&folder)
        .output()
        .expect("the wrapper can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{wrapper} {source}:\n{said}");
    program
}

fn job(ranks: u32, wrapper: &str, source: &str, arguments: &[&str]) -> Ended {
    let mut command = tool("mpiexec");
    command
        .args(["-n", &ranks.to_string()])
        .arg(build(wrapper, source))
        .args(arguments);
    run(&mut command, Duration::from_secs(60))
}

#[test]
fn each_binding_carries_messages() {
    if !is_there() {
        return;
    }
    for (wrapper, source, said) in [
        ("mpif77", "ring_mpif.f", "mpif.h ok"),
        ("mpif90", "ring_mpi.f90", "ok"),
        ("mpifort", "ring_f08.f90", "f08 ok"),
    ] {
        let ended = job(3, wrapper, source, &[]);
        ended.expect_success();
        assert!(ended.out.contains(said), "{source}: {}", ended.out);
    }
}

#[test]
fn chapters_of_the_standard_are_there() {
    if !is_there() {
        return;
    }
    let file = scratch("fortran-file").join("file");
    let ended = job(4, "mpifort", "breadth.f90", &[&file.to_string_lossy()]);
    ended.expect_success();
    assert!(ended.out.contains("breadth ok"), "{}", ended.out);
}

#[test]
fn attributes_have_callbacks_and_buffers_come_back() {
    if !is_there() {
        return;
    }
    for (source, said) in [
        ("attributes.f90", "attributes ok"),
        ("attributes_old.f90", "old ok"),
    ] {
        let ended = job(2, "mpifort", source, &[]);
        ended.expect_success();
        assert!(ended.out.contains(said), "{source}: {}", ended.out);
    }
}

#[test]
fn a_program_starts_others_by_padded_texts() {
    if !is_there() {
        return;
    }
    let mut command = tool("mpiexec");
    command
        .args(["-n", "1", "--universe", "4"])
        .arg(build("mpifort", "spawn.f90"));
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    assert!(ended.out.contains("spawn ok"), "{}", ended.out);
}

#[test]
fn what_is_written_after_the_call_is_read() {
    if !is_there() {
        return;
    }
    let ended = job(1, "mpifort", "late.f90", &[]);
    ended.expect_success();
    assert!(ended.out.contains("late ok"), "{}", ended.out);
}

#[test]
fn an_error_names_the_line_of_the_program() {
    if !is_there() {
        return;
    }
    let ended = job(1, "mpifort", "wrong_rank.f90", &[]);
    assert_ne!(ended.code(), Some(0));
    for said in ["MPI_Send", "77", "wrong_rank.f90:7"] {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }
}
