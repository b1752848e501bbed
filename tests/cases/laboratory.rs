//! The two programs of the laboratory report (`examples/lab`) compile unchanged, write their files
//! with two ranks, and end with their own message with any other number.
#![allow(missing_docs)]

use std::time::Duration;

use weft_tests::{build, run, scratch, tool};

fn writes(source: &str, file: &str) {
    let program = build(&format!("examples/lab/{source}"), &[]);
    let folder = scratch(file);
    let _ = std::fs::remove_file(folder.join(file));
    let mut command = tool("mpiexec");
    command.args(["-n", "2"]).arg(&program).current_dir(&folder);
    run(&mut command, Duration::from_secs(240)).expect_success();
    let text = std::fs::read_to_string(folder.join(file)).expect("the program writes its file");
    assert!(text.starts_with("Delay - "), "{text:.80}");
    assert_eq!(
        text.lines().last().and_then(|line| line.split('\t').next()),
        Some("2048")
    );

    let mut command = tool("mpiexec");
    command.args(["-n", "3"]).arg(&program).current_dir(&folder);
    let ended = run(&mut command, Duration::from_secs(20));
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended.err.contains("World size must be 2 for "),
        "{}",
        ended.err
    );
}

#[test]
fn standard_sends() {
    writes("std.c", "std.dat");
}

#[test]
fn synchronous_sends() {
    writes("synch.c", "synch.dat");
}
