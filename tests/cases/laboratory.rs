//! The two programs of the laboratory report (`examples/lab`) compile unchanged, write their files
//! with two ranks, and end with their own message with any other number.
//!
//! Each sends thousands of messages of each of 2 049 sizes; here a copy of the program sends a hundred. With
//! `WEFT_SEEDS` the original runs.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_tests::{build, root, run, scratch, tool};

/// The program, unchanged except for how often it sends.
fn shorter(source: &str) -> PathBuf {
    let text = std::fs::read_to_string(root().join(source)).expect("it is there");
    let is_number = |line: &&str| line.starts_with("#define SAMPLES ");
    let number = text.lines().find(is_number).expect("it says how often");
    let path = scratch("laboratory").join(Path::new(source).file_name().expect("a file"));
    std::fs::write(&path, text.replace(number, "#define SAMPLES 100")).expect("writes");
    path
}

fn writes(source: &str, file: &str) {
    let source = format!("examples/lab/{source}");
    let itself = build(&source, &[]);
    let program = match weft_tests::is_long() {
        true => itself.clone(),
        false => build(&shorter(&source).to_string_lossy(), &[]),
    };
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
    command.args(["-n", "3"]).arg(&itself).current_dir(&folder);
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
