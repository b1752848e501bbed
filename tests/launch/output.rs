//! Output and input.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::harness::{Job, rank, weft};

#[test]
fn lines_are_tagged_on_request() {
    let script = "echo one; echo two; printf three";
    for option in ["--tag-output", "-l", "-prepend-rank"] {
        let ended = Job::new([option, "-n", "2", "sh", "-c", script]).run();
        for rank in 0..2 {
            for word in ["one", "two", "three"] {
                assert!(
                    ended
                        .out
                        .lines()
                        .any(|line| line == format!("[{rank}] {word}")),
                    "{ended:?}"
                );
            }
        }
    }
    // Also for one rank.
    assert_eq!(Job::line("-l -n 1 echo x").run().out, "[0] x\n");
}

#[test]
fn the_two_outputs_stay_apart() {
    let ended = Job::new(["-n", "3", "sh", "-c", "echo out; echo error >&2"]).run();
    assert_eq!(ended.out, "out\n".repeat(3));
    assert_eq!(ended.error, "error\n".repeat(3));
}

#[test]
fn one_rank_writes_where_we_do_byte_by_byte() {
    let ended = Job::new(["-n", "1", "printf", "no end"]).run();
    assert_eq!(ended.out, "no end");
}

#[test]
fn a_burst_of_lines_arrives_whole_and_in_order() {
    const RANKS: usize = 8;
    const LINES: usize = 100_000;
    let ended = Job::new([
        "-n",
        &RANKS.to_string(),
        &rank(),
        "burst",
        &LINES.to_string(),
    ])
    .run();
    assert_eq!(ended.code(), Some(0));
    let mut next = [0; RANKS];
    for line in ended.out.lines() {
        let inner = line
            .strip_prefix('<')
            .and_then(|line| line.strip_suffix('>'));
        let mut fields = inner
            .unwrap_or_else(|| panic!("mangled: {line}"))
            .split(' ');
        let mut number = || fields.next().and_then(|field| field.parse::<usize>().ok());
        let (Some(rank), Some(index)) = (number(), number()) else {
            panic!("mangled: {line}")
        };
        assert!(
            fields
                .next()
                .is_some_and(|rest| rest.bytes().all(|byte| byte == b'x')),
            "mangled: {line}"
        );
        assert_eq!(index, next[rank], "rank {rank}");
        next[rank] += 1;
    }
    assert_eq!(next, [LINES; RANKS]);
}

#[test]
fn a_prompt_without_a_newline_is_shown_and_answered() {
    let mut job = Job::new(["-n", "2", &rank(), "ask"]);
    job.command.stdin(Stdio::piped());
    let mut running = job.start();
    // The other rank reads nothing; the prompt of rank 0 must appear nevertheless.
    let heard = running.hear("name? ");
    let input = running.child.stdin.take();
    input
        .expect("piped")
        .write_all(b"world\n")
        .expect("rank 0 reads");
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let all = heard + &ended.out;
    assert!(all.contains("hello world\n"), "{all:?}");
    assert!(all.contains("hello \n"), "{all:?}");
}

#[test]
fn standard_input_goes_to_rank_0_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("input");
    std::fs::write(&file, "first\nsecond\n").expect("written");
    let script = "echo $WEFT_RANK: $(cat)";
    let ended = Job::new(["-n", "3", "sh", "-c", script]).input(&file).run();
    assert_eq!(ended.sorted(), ["0: first second", "1:", "2:"]);
    let ended = Job::new(["-stdin", "none", "-n", "2", "sh", "-c", script])
        .input(&file)
        .run();
    assert_eq!(ended.sorted(), ["0:", "1:"]);
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let line = format!("{} run -n 2 yes | head -n 3", weft().display());
    let mut command = Command::new("sh");
    command.args(["-c", &line]);
    let ended = Job::of(command).run();
    assert_eq!(ended.out, "y\n".repeat(3));
    assert!(ended.last().contains("SIGPIPE"), "{ended:?}");
}

#[test]
fn one_file_for_both_outputs_keeps_lines_whole() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do printf out; printf 'put\n'; printf err >&2; printf 'or\n' >&2; done";
    let line = format!("{} run -n 4 sh -c \"$SCRIPT\" 2>&1", weft().display());
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("SCRIPT", script);
    let ended = Job::of(command).run();
    assert_eq!(
        ended.out.lines().filter(|line| *line == "output").count(),
        36,
        "{}",
        ended.out
    );
    assert_eq!(
        ended.out.lines().filter(|line| *line == "error").count(),
        36,
        "{}",
        ended.out
    );
}

/// A terminal: what is typed reaches rank 0, although the ranks are not in its foreground.
#[test]
fn a_terminal_is_read_for_rank_0() {
    // `script` gives a command a terminal of its own, and types its own input there.
    if Command::new("script")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("there is no program script here: not tested");
        return;
    }
    let line = format!(
        "{} run -n 2 sh -c 'read word; echo got $WEFT_RANK $word'",
        weft().display()
    );
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]);
    let mut job = Job::of(command);
    job.command.stdin(Stdio::piped());
    let mut running = job.start();
    let mut input = running.child.stdin.take().expect("piped");
    running.until_names("sh", 1);
    input.write_all(b"typed\n").expect("open");
    let heard = running.hear("got 0 typed");
    assert!(heard.contains("got 0 typed"));
    drop(input);
    running.end();
}

/// `>&-` leaves no place for output: a command with output reports that it is lost, and one without ends
/// well.
#[test]
fn a_closed_stream_is_named() {
    let run = |words: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" {words} >&-")]);
        shell.arg(weft()).output().expect("starts")
    };
    for words in [
        "run -n 2 echo x",
        "run -l -n 1 echo x",
        "run --version",
        "ps",
    ] {
        let ended = run(words);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{words}: {said}");
        let told = "weft: standard output could not be written: Bad file descriptor";
        assert!(said.contains(told), "{words}: {said}");
    }
    let ended = run("run -n 2 true");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

/// Output for which the disk is too full is not lost silently: a program without the launcher would have
/// noticed at its last write.
#[test]
fn a_full_disk_is_named() {
    let full = || std::fs::File::options().write(true).open("/dev/full");
    for option in ["-n 2", "-l -n 1"] {
        let mut launcher = Command::new(weft());
        launcher
            .arg("run")
            .args(option.split(' '))
            .args(["echo", "x"]);
        let ended = launcher
            .stdout(full().expect("Linux has it"))
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        let told = "weft: standard output could not be written: No space left on device";
        assert!(said.contains(told), "{said}");
    }
    // An answer of the launcher itself also fails.
    for words in [
        &["run", "--help"][..],
        &["run", "--version"],
        &["info"],
        &["ps"],
    ] {
        let mut command = Command::new(weft());
        let ended = command.args(words).stdout(full().expect("Linux has it"));
        let ended = ended.output().expect("starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("No space left on device"), "{said}");
    }
    // What the launcher was asked to write at the end of a job is its output.
    for words in [&["--profile=/dev/full"][..], &["--timeline", "/dev/full"]] {
        let mut launcher = Command::new(weft());
        let ended = launcher.args(["run", "-n", "2"]).args(words).arg("true");
        let ended = ended.output().expect("starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {said}");
        let told = "(/dev/full) could not be written: No space left on device";
        assert!(said.contains(told), "{said}");
    }
    let mut launcher = Command::new(weft());
    launcher.args(["run", "-n", "2", "--profile", "true"]);
    let ended = launcher.stderr(full().expect("Linux has it")).output();
    assert_eq!(ended.expect("starts").status.code(), Some(1), "--profile");
    // A message that cannot be written does not change how a job ends.
    for (words, code) in [
        (&["-n", "2", "no-such-program"][..], 127),
        (&["--frobnicate", "true"], 2),
        (&["-v", "-n", "2", "sh", "-c", "exit 3"], 3),
    ] {
        let mut launcher = Command::new(weft());
        launcher.arg("run").args(words);
        let ended = launcher.stderr(full().expect("Linux has it")).output();
        let ended = ended.expect("starts");
        assert_eq!(ended.status.code(), Some(code), "{words:?}");
    }
    // The failure of a rank determines the code; lost output is reported nevertheless.
    let script = "echo x; echo y >&2; sleep 0.2; exit 7";
    let ended = Command::new(weft())
        .args(["run", "-n", "2", "sh", "-c", script])
        .stdout(full().expect("Linux has it"))
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(7), "{said}");
    assert!(said.contains("could not be written"), "{said}");
}
