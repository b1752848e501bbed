//! Looking at running jobs: `weft ps`, `weft top`, `weft stacks` and SIGQUIT, and who may use them.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_sys::process;
use weft_tests::{Ended, build, run, tool};

const LIMIT: Duration = Duration::from_secs(60);

/// A job of a program that says when it is ready.
struct Job {
    mpiexec: Child,
    lines: Receiver<String>,
}

impl Job {
    /// `tests/programs/looking.c`: rank 0 computes, rank 1 waits for it, rank 2 sleeps, rank 3 is in a barrier.
    fn start() -> Self {
        Self::of("tests/programs/looking.c", &[])
    }

    /// Of four ranks, with these options.
    fn of(source: &str, options: &[&str]) -> Self {
        let program: PathBuf = build(source, &["-g"]);
        // A program that a shell starts in the background ignores the signal, and so would the job: this
        // restores the default.
        let mut mpiexec = Command::new("env")
            .arg("--default-signal=QUIT")
            .arg(tool("mpiexec").get_program())
            .args(options)
            .args(["-n", "4"])
            .arg(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("mpiexec can be started");
        let (sender, lines) = channel();
        let out: Box<dyn Read + Send> = Box::new(mpiexec.stdout.take().expect("piped"));
        let error: Box<dyn Read + Send> = Box::new(mpiexec.stderr.take().expect("piped"));
        for stream in [out, error] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        let job = Self { mpiexec, lines };
        job.hear("ready");
        job
    }

    /// Its id, by which users name it.
    fn id(&self) -> String {
        self.mpiexec.id().to_string()
    }

    /// The name of its socket.
    fn socket(&self) -> String {
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("Linux");
        let prefix = format!("weft-job-{}-{}-", process::user(), self.id());
        let mut names = sockets.split(['@', '\n']);
        let name = names.find(|name| name.starts_with(&prefix));
        name.expect("it listens").to_owned()
    }

    /// Reads the lines up to one that contains this text.
    fn hear(&self, text: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => heard.push(line),
                Err(error) => panic!("{text} was not heard ({error}): {heard:?}"),
            }
            if heard.last().is_some_and(|line| line.contains(text)) {
                return heard;
            }
        }
    }

    /// Whether `weft ps` shows it.
    fn is_shown(&self) -> bool {
        let found = json(&["ps", "--json"]);
        let jobs = found["jobs"].as_array().expect("a list");
        jobs.iter().any(|job| job["launcher"] == self.mpiexec.id())
    }

    /// Asks until the answer is right: a rank does not answer before it gets a core.
    fn until(&self, arguments: &[&str], right: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        let id = self.id();
        let arguments = [arguments, &[&id, "--json"]].concat();
        loop {
            let found = json(&arguments);
            if right(&found) {
                return found;
            }
            assert!(begun.elapsed() < LIMIT, "{arguments:?}: {found:#}");
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = process::signal(self.mpiexec.id(), process::SIGTERM);
        let _ = self.mpiexec.wait();
    }
}

fn weft(arguments: &[&str]) -> Ended {
    run(tool("weft").args(arguments), LIMIT)
}

fn json(arguments: &[&str]) -> Value {
    let ended = weft(arguments);
    ended.expect_success();
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn does(job: &Value) -> Vec<&str> {
    let ranks = job["ranks"].as_array().expect("a list");
    ranks
        .iter()
        .map(|rank| rank["does"].as_str().expect("a word"))
        .collect()
}

#[test]
fn each_rank_is_shown_with_what_it_does() {
    let job = Job::start();
    let as_started = ["computes", "waits asleep", "blocked", "waits asleep"];
    let found = job.until(&["stacks"], |found| does(found) == as_started);
    let wait = |rank: usize| &found["ranks"][rank]["waits"][0];
    let what = wait(1)["what"].as_str().expect("a sentence");
    assert!(
        what.contains("MPI_Recv") && what.contains("rank 0") && what.contains("42"),
        "{what}"
    );
    let place = wait(1)["place"].as_str().unwrap_or_default();
    assert!(place.contains("looking.c"), "{found:#}");
    let what = wait(3)["what"].as_str().expect("a sentence");
    assert!(what.contains("MPI_Barrier"), "{what}");

    // The same as text; the job may be named by its program.
    let ended = weft(&["stacks", &job.id()]);
    ended.expect_success();
    let computes = ended.out.lines().find(|line| line.starts_with("rank 0:"));
    assert!(
        computes.is_some_and(|line| line.contains("computes") && line.contains("gdb -p")),
        "{ended:?}"
    );

    let top = job.until(&["top", "--interval", "0.1"], |found| {
        does(found) == as_started
    });
    let counted = |rank: usize, what: &str| {
        let counters = &top["ranks"][rank]["counters"];
        counters[what].as_u64().unwrap_or_else(|| panic!("{top:#}"))
    };
    assert!(counted(0, "messages_sent") >= 10 && counted(0, "bytes_sent") >= 1000);
    assert!(counted(1, "messages_received") >= 10 && counted(1, "bytes_received") >= 1000);
    assert!(counted(3, "collectives") >= 2, "{top:#}");
    assert!(top["ranks"][0]["per_second"]["core"].as_f64().is_some());
    let ended = weft(&["top", "--interval", "0.1", &job.id()]);
    ended.expect_success();
    assert!(ended.out.contains("WAITS FOR"), "{ended:?}");

    let found = json(&["ps", "--json"]);
    let jobs = found["jobs"].as_array().expect("a list");
    let ours = jobs
        .iter()
        .find(|found| found["launcher"] == job.mpiexec.id());
    let ours = ours.unwrap_or_else(|| panic!("{found:#}"));
    assert_eq!(ours["state"], "running");
    assert_eq!(ours["ranks"].as_array().map(Vec::len), Some(4));
    let ended = weft(&["ps"]);
    ended.expect_success();
    let line = ended.out.lines().find(|line| line.contains(&job.id()));
    assert!(
        line.is_some_and(|line| line.contains("looking")),
        "{ended:?}"
    );
}

/// Who waits in mailbox, portal and sync says what for, and for whom.
#[test]
fn a_rank_that_waits_in_services_says_what_for() {
    let job = Job::of("tests/programs/services_wait.c", &["--on-deadlock=ignore"]);
    let all_wait = |found: &Value| does(found).iter().all(|does| does.starts_with("waits"));
    let found = job.until(&["stacks"], all_wait);
    for (rank, call, what) in [
        (
            0,
            "weft_mailbox_read",
            "a message from any node at port 3 of its mailbox",
        ),
        (
            1,
            "weft_portal_read",
            "node 0 to write, from its source port 1, to port 2 of its portal",
        ),
        (2, "weft_sync_wait", "nodes 0, 1 to signal"),
        (
            3,
            "weft_portal_write",
            "node 0 to allow this one, and read, at port 9 of its portal",
        ),
    ] {
        let wait = &found["ranks"][rank]["waits"][0];
        assert_eq!(wait["what"], format!("{call}: {what}"), "{found:#}");
        let place = wait["place"].as_str().unwrap_or_default();
        assert!(place.contains("services_wait.c"), "{found:#}");
    }
}

/// Who waits at a window says whose lock or step it waits for, and who has a lock says that.
#[test]
fn a_rank_that_waits_at_a_window_says_what_for() {
    for fabric in ["auto", "tcp"] {
        let options = [
            "--on-deadlock=ignore",
            "-x",
            &format!("WEFT_FABRIC={fabric}"),
        ];
        let job = Job::of("tests/programs/lock_wait.c", &options);
        let all_wait = |found: &Value| does(found).iter().all(|does| does.starts_with("waits"));
        let found = job.until(&["stacks"], all_wait);
        let wait = |rank: usize| &found["ranks"][rank]["waits"][0]["what"];
        assert_eq!(wait(1), "MPI_Win_lock: the lock of rank 2 at a window");
        let complete = "MPI_Win_wait: rank 0 to end an access epoch (MPI_Win_complete)";
        assert_eq!(wait(3), complete);
        let locks = |rank: usize| &found["ranks"][rank]["locks"];
        assert_eq!(locks(0), "the lock of rank 2 at a window (exclusive)");
        assert!((1..4).all(|rank| locks(rank).is_null()), "{found:#}");
    }
}

/// Nobody waits for a launcher that is stopped: the others are shown, and it is named.
#[test]
fn a_launcher_that_is_stopped_is_named_beside_the_others() {
    let (job, stopped) = (Job::start(), Job::start());
    let found = json(&["ps", "--json"]);
    let jobs = found["jobs"].as_array().expect("a list");
    let launcher = |found: &&Value| found["launcher"] == stopped.mpiexec.id();
    let supervisor = jobs.iter().find(launcher).expect("shown")["supervisor"].clone();
    let process = supervisor.as_u64().expect("a number") as u32;
    process::signal(process, process::SIGSTOP).expect("it runs");

    let remedy = format!("it is stopped, by a signal or a debugger; kill -CONT {process}");
    let ended = weft(&["ps"]);
    ended.expect_success();
    assert!(ended.out.contains(&job.id()), "{ended:?}");
    assert!(ended.out.contains(&remedy), "{ended:?}");
    assert!(!ended.out.contains("no job of yours"), "{ended:?}");
    let found = json(&["ps", "--json"]);
    let unseen = found["unseen"].as_array().expect("a list");
    let named = unseen
        .iter()
        .find(|unseen| unseen["supervisor"] == supervisor);
    let reason = named.and_then(|unseen| unseen["reason"].as_str());
    assert!(
        reason.is_some_and(|reason| reason.starts_with(&remedy)),
        "{found:#}"
    );
    weft(&["stacks", &job.id()]).expect_success();

    process::signal(process, process::SIGCONT).expect("it runs");
    assert!(stopped.is_shown());
}

#[test]
fn sigquit_prints_the_report_and_the_job_goes_on() {
    let mut job = Job::start();
    for _ in 0..2 {
        process::signal(job.mpiexec.id(), process::SIGQUIT).expect("it runs");
        let heard = job.hear("rank 3:").join("\n");
        for part in [&job.id(), "4 ranks", "rank 0:", "rank 1:", "rank 2:"] {
            assert!(heard.contains(part), "{part}: {heard}");
        }
    }
    assert!(job.mpiexec.try_wait().expect("ours").is_none());
}

#[test]
fn what_was_killed_is_not_shown() {
    let mut job = Job::start();
    assert!(job.is_shown());
    let found = json(&["ps", "--json"]);
    let jobs = found["jobs"].as_array().expect("a list");
    let ours = jobs
        .iter()
        .find(|found| found["launcher"] == job.mpiexec.id());
    let supervisor = ours.expect("shown")["supervisor"]
        .as_u64()
        .expect("a number");
    let supervisor = process::ProcessHandle::open(supervisor as u32).expect("it runs");
    // Both at once, so that neither can clean up.
    supervisor.signal(process::SIGKILL).expect("it runs");
    job.mpiexec.kill().expect("it runs");
    job.mpiexec.wait().expect("ours");
    assert!(supervisor.wait_end(Some(LIMIT)).expect("a handle"));
    assert!(!job.is_shown());
    let ended = weft(&["stacks", &job.id()]);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.err.contains("weft ps"), "{ended:?}");
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("Linux");
    assert!(!sockets.contains(&format!("weft-job-{}-{}-", process::user(), job.id())));
}

#[test]
fn a_client_that_sends_nonsense_is_refused_and_holds_up_nobody() {
    use std::io::Write;
    let job = Job::start();
    let name = job.socket();
    let mut stream = connect(&name);
    stream
        .write_all(b"{\"ask\":\"everything\"}\n")
        .expect("room");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("refused"), "{text}");
    // Input without an end: the connection is closed, whatever happens to the bytes written.
    let mut stream = connect(&name);
    let _ = stream.write_all(&[b'x'; 5000]);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert_eq!(bytes, b"");
    // Clients that send nothing, and clients that go away.
    let silent: Vec<UnixStream> = (0..8).map(|_| connect(&name)).collect();
    for _ in 0..8 {
        drop(connect(&name));
        let mut stream = connect(&name);
        stream.write_all(b"{\"ask\":\"waits\"}\n").expect("room");
    }
    assert!(job.is_shown());
    drop(silent);
}

/// A user that is neither the present one nor root.
const STRANGER: u32 = 64_999;
/// Tells the test below that it is the stranger, and the socket to connect to.
const SOCKET: &str = "LOOKING_SOCKET";

#[test]
fn another_user_is_told_nothing() {
    if let Ok(name) = std::env::var(SOCKET) {
        return ask_as_stranger(&name);
    }
    if process::user() != 0 {
        eprintln!("only root can become another user: not tested");
        return;
    }
    let job = Job::start();
    let name = job.socket();
    // The same user gets an answer.
    let mut stream = connect(&name);
    assert!(asked(&mut stream).contains("\"launcher\""));

    let us = std::env::current_exe().expect("a file");
    let mut stranger = Command::new(us);
    stranger
        .args(["--exact", "another_user_is_told_nothing", "--nocapture"])
        .env(SOCKET, &name)
        .uid(STRANGER)
        .gid(STRANGER);
    let ended = run(&mut stranger, LIMIT);
    ended.expect_success();
    assert!(ended.out.contains("nothing was told"), "{ended:?}");

    let mut command = tool("weft");
    command.arg("ps").uid(STRANGER).gid(STRANGER);
    let ended = run(&mut command, LIMIT);
    ended.expect_success();
    assert!(ended.out.contains("no job of yours"), "{ended:?}");
    assert!(!ended.out.contains(&job.id()), "{ended:?}");
}

fn connect(name: &str) -> UnixStream {
    let address = SocketAddr::from_abstract_name(name).expect("short");
    UnixStream::connect_addr(&address).expect("it listens")
}

/// The answer; empty if the other side closes the connection.
fn asked(stream: &mut UnixStream) -> String {
    use std::io::Write;
    let _ = stream.write_all(b"{\"ask\":\"job\"}\n");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

fn ask_as_stranger(name: &str) {
    assert_eq!(process::user(), STRANGER);
    let text = asked(&mut connect(name));
    assert_eq!(text, "");
    println!("nothing was told");
}
