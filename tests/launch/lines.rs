//! Command lines: numbers, programs, folders, variables, spellings of other launchers, mistakes.

use std::process::Command;

use crate::harness::{Job, installation, rank, weft};

#[test]
fn ranks_are_numbered_over_all_programs() {
    let rank = rank();
    let ended = Job::line(&format!(
        "-n 2 {rank} where : -n 1 {rank} where : {rank} where"
    ))
    .run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let expected = [
        "rank 0 of 4 program 0 singleton false",
        "rank 1 of 4 program 0 singleton false",
        "rank 2 of 4 program 1 singleton false",
        "rank 3 of 4 program 2 singleton false",
    ];
    assert_eq!(ended.sorted(), expected);
}

#[test]
fn more_ranks_than_cores_are_nothing_special() {
    for ranks in [17, 64] {
        let ended = Job::line(&format!("-n {ranks} {} where", rank())).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.out.lines().count(), ranks);
        assert_eq!(ended.error, "");
    }
}

#[test]
fn it_answers_to_the_usual_name() {
    let folder = installation();
    let mut command = Command::new(folder.path().join("mpiexec"));
    command.args(["-np", "2", &rank(), "where"]);
    let ended = Job::of(command).run();
    assert_eq!((ended.code(), ended.out.lines().count()), (Some(0), 2));
}

#[test]
fn folders_and_variables_reach_the_program() {
    let script = "echo $(pwd) $ONE $TWO $THREE";
    let ended = Job::new([
        "-genv", "ONE", "1", "-wdir", "/usr", "-env", "TWO", "2", "-x", "THREE=3", "-n", "1", "sh",
        "-c", script, ":", "-wdir", "/", "sh", "-c", script,
    ])
    .run();
    assert_eq!(ended.sorted(), ["/ 1 3", "/usr 1 2 3"]);
    let ended = Job::new([
        "-genvnone",
        "-n",
        "1",
        "/bin/sh",
        "-c",
        "echo home=$HOME rank=$WEFT_RANK",
    ])
    .variable("HOME", "/home/x")
    .run();
    assert_eq!(ended.out, "home= rank=0\n");
    // Variables from a foreign launcher are not for our ranks: they see their own numbers.
    let ended = Job::new([
        "-n",
        "1",
        "sh",
        "-c",
        "echo ${PMI_RANK-none} ${OMPI_COMM_WORLD_SIZE-none}",
    ])
    .variable("PMI_RANK", "3")
    .variable("OMPI_COMM_WORLD_SIZE", "7")
    .run();
    assert_eq!(ended.out, "0 1\n");
}

#[test]
fn options_of_others_are_taken_and_what_is_ignored_is_said_once() {
    let line = "--allow-run-as-root --oversubscribe -iface lo -iface lo --mca btl self -n 2 true";
    let ended = Job::line(line).run();
    assert_eq!(ended.code(), Some(0));
    let lines: Vec<_> = ended.error.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("-iface lo") && lines[1].contains("--mca btl self"),
        "{lines:?}"
    );
    assert_eq!(Job::line(&format!("-q {line}")).run().error, "");
}

#[test]
fn a_program_that_cannot_run_is_told_with_the_remedy() {
    for (line, code, said) in [
        ("-n 2 no-such-program", 127, "./no-such-program"),
        ("-n 2 ./no/such/program", 127, "does not exist"),
        ("-n 2 /etc/passwd", 126, "chmod +x"),
        ("-n 2 /etc", 126, "is a folder"),
        ("-n 1 true : -n 1 no-such-program", 127, "no-such-program"),
        ("-n 2 -wdir /no/such/folder true", 2, "-wdir"),
        ("-n 2 --frobnicate true", 2, "--help"),
        ("-n 2", 2, "no program"),
        ("-n 5000 true", 2, "at most 4096"),
    ] {
        let ended = Job::line(line).run();
        assert_eq!(ended.code(), Some(code), "{line}: {ended:?}");
        assert!(
            ended.error.contains(said) && ended.error.starts_with("weft: "),
            "{line}: {ended:?}"
        );
        assert_eq!(ended.error.lines().count(), 1, "{line}: {ended:?}");
    }
}

#[test]
fn a_name_in_the_folder_is_found_without_a_dot() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy("/bin/true", folder.path().join("own")).expect("copies");
    let mut job = Job::line("-n 2 own");
    job.command.current_dir(folder.path());
    assert_eq!(job.run().code(), Some(0));
}

#[test]
fn help_and_version_are_there() {
    for (line, said) in [("--help", "--timeout SECONDS"), ("--version", "MPI 5.0")] {
        let ended = Job::line(line).run();
        assert_eq!(ended.code(), Some(0));
        assert!(ended.out.contains(said), "{ended:?}");
    }
    // Both in words, and in the way of the scripts in a package for pip.
    for (words, said) in [
        (&["help"][..], "Usage: weft <COMMAND>"),
        (&["help", "ps"], "Usage: weft ps"),
        (&["help", "run"], "Usage: weft run "),
        (&["mpirun", "--help"], "Usage: mpirun "),
        (&["mpiexec", "--version"], "mpiexec (Weft) "),
    ] {
        let output = Command::new(weft()).args(words).output().expect("runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(said), "{text}");
    }
    // A full disk is an error, not a panic; an impossible folder is reported before anything is measured.
    let full = std::fs::File::create("/dev/full").expect("a device");
    let mut list = Command::new(weft());
    let output = list.args(["bench", "--list"]).stdout(full).output();
    let output = output.expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("could not be written"), "{said}");
    let mut nowhere = Command::new(weft());
    nowhere.args(["bench", "thread-signal", "--out", "/proc/nowhere"]);
    let output = nowhere.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot make the folder"), "{said}");
    let output = Command::new(weft()).arg("info").output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    for name in [
        "fabric shm",
        "cross-memory attach",
        "cores",
        "locked memory",
    ] {
        assert!(text.contains(name), "{text}");
    }
    let output = Command::new(weft())
        .args(["info", "--json"])
        .output()
        .expect("runs");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = json["lines"].as_array().expect("a list");
    assert!(
        lines
            .iter()
            .all(|line| ["on", "off", "limit"].contains(&line["state"].as_str().unwrap_or("")))
    );
}

/// Otherwise it would run as several copies of rank 0, each alone.
#[test]
fn a_program_of_another_implementation_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |words: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", words]).current_dir(folder.path());
        command.status().is_ok_and(|status| status.success())
    };
    let made = run(
        "echo 'int f;' > lib.c && echo 'extern int f; int main() { return f; }' > main.c && \
         cc -shared -Wl,-soname,libmpi.so.40 -o libmpi.so.40 lib.c && cc -o program main.c ./libmpi.so.40",
    );
    if !made {
        eprintln!("there is no C compiler here: not tested");
        return;
    }
    let program = folder.path().join("program");
    let program = program.to_string_lossy();
    let ended = Job::new(["-n", "2", &program]).run();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(
        ended.error.contains("libmpi.so.40") && ended.error.contains("mpicc"),
        "{ended:?}"
    );
    // A single rank is alone anyway.
    let library = folder.path().to_string_lossy().into_owned();
    let ended = Job::new(["-n", "1", &program])
        .variable("LD_LIBRARY_PATH", &library)
        .run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}
