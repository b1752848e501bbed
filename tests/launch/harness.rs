//! Starting jobs in tests, and finding every process that belongs to one.

#![allow(dead_code, reason = "each test program uses its part")]
#![allow(
    clippy::disallowed_types,
    reason = "a counter of the test, which no model explores"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A job that takes longer than this hangs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The variable by which all processes of a job are found, even if they have other parents.
const MARK: &str = "LAUNCH_TEST_MARK";

/// The command, which cargo builds for the tests of its package.
pub fn weft() -> PathBuf {
    match option_env!("CARGO_BIN_EXE_weft") {
        Some(path) => path.into(),
        None => panic!("a test of another package names the command itself: Job::of"),
    }
}

/// The helper program. Cargo builds it with the tests, unless only one of the tests was asked for.
pub fn rank() -> String {
    example("rank")
}

/// An example of the room `weft`.
pub fn example(name: &str) -> String {
    let path = weft().with_file_name("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo build -p weft --example {name}",
        path.display()
    );
    path.to_string_lossy().into_owned()
}

/// A job that can be started.
pub struct Job {
    pub command: Command,
    mark: String,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub error: String,
}

impl Ended {
    /// The exit code.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The last line of standard error.
    pub fn last(&self) -> &str {
        self.error.lines().last().unwrap_or("")
    }

    /// The lines of standard output, sorted.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}

impl Job {
    /// `weft run` with these words.
    pub fn new<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Self {
        let mut job = Self::of(Command::new(weft()));
        job.command.arg("run").args(words);
        job
    }

    /// A job of a command that starts a launcher somewhere.
    pub fn of(mut command: Command) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!(
            "{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        command.env(MARK, &mark).stdin(Stdio::null());
        default_signals(&mut command);
        Self { command, mark }
    }

    /// The same words in one string, split at blanks.
    pub fn line(line: &str) -> Self {
        Self::new(line.split_whitespace())
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn input(mut self, file: &Path) -> Self {
        self.command
            .stdin(fs::File::open(file).expect("the input of the test"));
        self
    }

    /// Runs to the end; no process may be left then.
    pub fn run(self) -> Ended {
        let mut running = self.start();
        let ended = running.end();
        assert_eq!(
            running.left(),
            Vec::<String>::new(),
            "left behind by a job that ended: {ended:?}"
        );
        ended
    }

    /// As [`run`](Self::run), for a job whose agents were started separately: they end at the same time.
    pub fn run_elsewhere(self) -> Ended {
        let mut running = self.start();
        let ended = running.end();
        let time = running.until_nothing();
        assert!(time.is_some(), "{:?} is left: {ended:?}", running.left());
        ended
    }

    /// Starts it, in a process group of its own.
    pub fn start(mut self) -> Running {
        self.command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = self.command.spawn().expect("the launcher is there");
        Running {
            child,
            mark: self.mark,
        }
    }
}

/// A running job. Processes that are left when the test ends are killed.
pub struct Running {
    pub child: Child,
    mark: String,
}

/// A process of a job.
#[derive(Clone, Debug)]
pub struct Member {
    pub id: u32,
    pub parent: u32,
    pub name: String,
}

impl Member {
    /// The process with this id, if it lives.
    pub fn read(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (start, end) = (stat.find('(')?, stat.rfind(')')?);
        let mut fields = stat[end + 1..].split_whitespace();
        let state = fields.next().unwrap_or("Z");
        let parent = fields.next().and_then(|field| field.parse().ok());
        (!matches!(state, "Z" | "X")).then(|| Self {
            id,
            parent: parent.unwrap_or(0),
            name: stat[start + 1..end].to_owned(),
        })
    }
}

impl Running {
    /// Makes a command count as part of this job, in a process group of its own.
    pub fn adopt(&self, command: &mut Command) {
        command
            .env(MARK, &self.mark)
            .stdin(Stdio::null())
            .process_group(0);
        default_signals(command);
    }

    /// The launcher's process.
    pub fn frontend(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end and collects the output.
    pub fn end(&mut self) -> Ended {
        let out = collect(self.child.stdout.take());
        let error = collect(self.child.stderr.take());
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            if Instant::now() > deadline {
                let members = self.left();
                self.clean();
                panic!("the job hangs: {members:?}; it said {:?}", error.join());
            }
            thread::sleep(Duration::from_millis(2));
        };
        Ended {
            status,
            out: out.join().expect("reads"),
            error: error.join().expect("reads"),
        }
    }

    /// All living processes of the job.
    pub fn members(&self) -> Vec<Member> {
        let wanted = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc is there").flatten() {
            let Some(id) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if !environment
                .split(|&byte| byte == 0)
                .any(|variable| variable == wanted.as_bytes())
            {
                continue;
            }
            found.extend(Member::read(id));
        }
        found
    }

    /// Names of the processes that are left.
    pub fn left(&self) -> Vec<String> {
        self.members()
            .iter()
            .map(|member| format!("{} ({})", member.id, member.name))
            .collect()
    }

    /// The supervisor's process, once it exists.
    pub fn supervisor(&self) -> Option<u32> {
        let members = self.members();
        members
            .iter()
            .find(|member| member.name == "weft-supervisor")
            .map(|member| member.id)
    }

    /// The processes that the supervisor has started.
    pub fn ranks(&self) -> Vec<u32> {
        let supervisor = self.supervisor().unwrap_or(0);
        let members = self.members();
        members
            .iter()
            .filter(|member| member.parent == supervisor)
            .map(|member| member.id)
            .collect()
    }

    /// Waits until a condition holds.
    pub fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition(self) {
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}: {:?}",
                self.members()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until that many processes have this name.
    pub fn until_names(&self, name: &str, count: usize) {
        self.until(name, |job| {
            job.members()
                .iter()
                .filter(|member| member.name == name)
                .count()
                == count
        });
    }

    /// Reads the next line of standard error.
    pub fn said(&mut self) -> String {
        let errors = self.child.stderr.as_mut().expect("not collected yet");
        let mut line = Vec::new();
        // One byte at a time, because the rest is collected later.
        let mut byte = [0];
        while byte[0] != b'\n' && errors.read(&mut byte).expect("readable") == 1 {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Reads standard output until it contains a text.
    pub fn hear(&mut self, text: &str) -> String {
        let pipe = self.child.stdout.as_mut().expect("not collected yet");
        let mut heard = String::new();
        let mut some = [0; 4096];
        while !heard.contains(text) {
            let count = pipe.read(&mut some).expect("readable");
            assert!(
                count > 0,
                "the output ended with {heard:?}, before {text:?}"
            );
            heard.push_str(&String::from_utf8_lossy(&some[..count]));
        }
        heard
    }

    /// How long it takes until no process is left; `None` if some stay.
    pub fn until_nothing(&mut self) -> Option<Duration> {
        let start = Instant::now();
        loop {
            let _ = self.child.try_wait();
            if self.members().is_empty() {
                return Some(start.elapsed());
            }
            if start.elapsed() > Duration::from_secs(5) {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn clean(&mut self) {
        for _ in 0..100 {
            let members = self.members();
            if members.is_empty() {
                break;
            }
            for member in members {
                signal(member.id, libc::SIGKILL);
            }
            let _ = self.child.try_wait();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.clean();
    }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Makes a command start with the signals that a terminal sets. Tests that run in the background of a shell
/// without job control were started with SIGINT and SIGQUIT ignored, and a launcher keeps ignoring signals
/// that it finds ignored.
pub fn default_signals(command: &mut Command) {
    let default = || {
        for number in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
            // SAFETY: signal(2) may be called between fork and exec, and uses no memory of ours.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: `default` does nothing but signal(2).
    unsafe { command.pre_exec(default) };
}

/// The only child of a process, once it exists.
pub fn child_of(parent: u32) -> u32 {
    let deadline = Instant::now() + LIMIT;
    loop {
        let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut children = ids
            .filter_map(Member::read)
            .filter(|member| member.parent == parent);
        if let Some(child) = children.next() {
            return child.id;
        }
        assert!(Instant::now() < deadline, "process {parent} has no child");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Signals a process of a test.
pub fn signal(id: u32, number: i32) {
    let _ = weft_sys::process::signal(id, number);
}

/// A folder with `mpiexec` in it, as in an installation.
pub fn installation() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    symlink(weft(), folder.path().join("mpiexec")).expect("a link");
    folder
}

/// Whether namespaces can be made here; prints a message if not.
pub fn namespaces() -> bool {
    let made = Command::new("unshare")
        .args(["--user", "--map-root-user", "--pid", "--fork", "true"])
        .stderr(Stdio::null())
        .status();
    let made = made.is_ok_and(|status| status.success());
    if !made {
        eprintln!("namespaces cannot be made here: not tested");
    }
    made
}

/// Words before a program that put it into namespaces of its own.
pub const OWN_NAMESPACES: [&str; 5] = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];

/// Our names in the folder of shared memory that were not there before.
pub fn new_names_in_shared_memory(before: &[String]) -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.contains("weft") && !before.contains(name))
        .collect()
}
