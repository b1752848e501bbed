//! Shared parts of whole-system tests: an installation of Weft, programs built with its `mpicc`, jobs with a
//! time limit.
//!
//! The installation is made once for a test program (`cargo xtask dist`); the C programs are built into a
//! folder of the target directory. Under [`sanitizer`] it is another installation.

#![forbid(unsafe_code)]

pub mod sanitizer;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sanitizer::Sanitizer;

/// The folder of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests stands in the workspace")
        .to_path_buf()
}

/// The installation under test.
///
/// # Panics
/// If it cannot be built, because nothing can be tested then.
pub fn installation() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    if let Some(watched) = Sanitizer::of_this_run() {
        return &watched.prefix;
    }
    PREFIX.get_or_init(|| {
        let made = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--package", "xtask", "--", "dist"])
            .current_dir(root())
            .stderr(Stdio::inherit())
            .output()
            .expect("cargo can be started");
        assert!(
            made.status.success(),
            "cargo xtask dist ended with {}",
            made.status
        );
        let text = String::from_utf8_lossy(&made.stdout);
        PathBuf::from(text.lines().last().expect("it prints the prefix").trim())
    })
}

/// A tool of the installation.
#[must_use]
pub fn tool(name: &str) -> Command {
    Command::new(installation().join("bin").join(name))
}

/// Expects a profile that has each of these calls ten times at its line of the program.
///
/// # Panics
/// If a call does not.
pub fn expect_counted(ended: &Ended, source: &str, calls: [(&str, u32); 2]) {
    for (call, line) in calls {
        let place = format!("{source}:{line} (");
        let is_counted = |row: &str| {
            // The place consists of two words: file and line, and the procedure.
            let words: Vec<&str> = row.split_whitespace().collect();
            words.first() == Some(&call) && row.contains(&place) && words.get(3) == Some(&"10")
        };
        let found = ended.err.lines().any(is_counted);
        assert!(found, "{call} at {place}: {ended:?}");
    }
}

/// Whether libfabric is installed, according to `weft info` of the installation.
///
/// # Panics
/// If its output does not mention libfabric.
#[must_use]
pub fn has_libfabric() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let look = || {
        let info = run(tool("weft").arg("info"), Duration::from_secs(30));
        let line = info.out.lines().find(|line| line.contains("fabric ofi"));
        let line = line.expect("weft info says what is there of libfabric");
        line.contains("providers")
    };
    *FOUND.get_or_init(look)
}

/// Builds a C program, and returns its path; only once, because another test may be running it. `source` is
/// relative to the workspace.
///
/// # Panics
/// If the compiler refuses it.
#[must_use]
pub fn build(source: &str, flags: &[&str]) -> PathBuf {
    static BUILT: Mutex<Vec<(String, PathBuf)>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("{source} {}", flags.join(" "));
    if let Some((_, program)) = built.iter().find(|(other, _)| *other == key) {
        return program.clone();
    }
    // Each program has a folder of its own, because programs of different folders may have the same name.
    let folder = scratch(&format!("programs/{}", built.len()));
    let name = Path::new(source)
        .file_stem()
        .expect("a file")
        .to_string_lossy()
        .into_owned();
    let program = folder.join(if flags.contains(&"-shared") {
        format!("lib{name}.so")
    } else {
        name
    });
    let compile = |arguments: &[&OsStr], more: &[String], into: &Path| {
        let output = tool("mpicc")
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"])
            .args(arguments)
            .args(more)
            .args(flags)
            .arg("-o")
            .arg(into)
            .output()
            .expect("mpicc can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mpicc {source}:\n{said}");
    };
    let file = root().join(source);
    match Sanitizer::of_this_run() {
        // Two steps: the compiler would link a run-time library of its own.
        Some(watched) => {
            let object = program.with_extension("o");
            compile(
                &["-c".as_ref(), file.as_ref()],
                &watched.compiling(),
                &object,
            );
            compile(&[object.as_ref()], &watched.linking(), &program);
        }
        None => compile(&[file.as_ref()], &[], &program),
    }
    built.push((key, program.clone()));
    program
}

/// A folder of the target directory for files of a test; it differs for each sanitizer, because tests with several
/// sanitizers may run at the same time.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let of_this_run = Sanitizer::of_this_run().map_or("tests", |watched| &watched.name);
    let folder = target.join("tmp").join(of_this_run).join(name);
    std::fs::create_dir_all(&folder).expect("the target directory can be written");
    folder
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status of `mpiexec`; `None` if it was ended at the time limit.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ended {
    /// The exit code, if it ended by itself.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// # Panics
    /// If the job did not end with code 0.
    pub fn expect_success(&self) {
        assert_eq!(
            self.code(),
            Some(0),
            "\n--- out\n{}\n--- err\n{}",
            self.out,
            self.err
        );
    }
}

/// Checks the end of `sessions_beside.c`, which is the same whatever the rank does that only uses sessions.
///
/// # Panics
/// If the end differs: `of` names the case.
pub fn check_sessions_beside(ended: &Ended, ranks: u32, of: &str) {
    assert_eq!(ended.code(), Some(0), "{of}: {ended:?}");
    let lines = |end: &str| {
        let lines = ended.out.lines();
        lines.filter(|line| line.ends_with(end)).count()
    };
    let ends = (lines("finalised"), lines("beside"));
    assert_eq!(ends, (ranks as usize - 1, 1), "{of}: {ended:?}");
    assert_eq!(ended.err, "", "{of}");
}

/// Runs a command to its end, or until `limit`, or four times that under a sanitizer; then it is ended. The run is repeated if MPICH's
/// launcher has failed by itself.
///
/// # Panics
/// If it cannot be started.
pub fn run(command: &mut Command, limit: Duration) -> Ended {
    let mut ended = run_with_input(command, Stdio::null(), limit);
    for _ in 0..4 {
        if !is_hydras_own(command, &ended) {
            break;
        }
        ended = run_with_input(command, Stdio::null(), limit);
    }
    ended
}

/// Whether the launcher of MPICH has failed by itself and not because of its program: on a busy machine it may end by SIGPIPE or by an
/// assertion of its own, and lose the output of the ranks. With `/bin/true` as the program, 440 of 8,000 jobs did.
fn is_hydras_own(command: &Command, ended: &Ended) -> bool {
    const SIGPIPE: i32 = 13;
    let is_hydra = Path::new(command.get_program()).ends_with("mpiexec.hydra");
    let signal = ended.status.and_then(|status| status.signal());
    is_hydra && (signal == Some(SIGPIPE) || ended.err.contains("control_cb"))
}

/// As [`run`], with a standard input.
///
/// # Panics
/// If it cannot be started.
pub fn run_with_input(command: &mut Command, input: impl Into<Stdio>, limit: Duration) -> Ended {
    let mut child = command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|cause| panic!("{command:?} cannot be started: {cause}"));
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(Box::new(child.stdout.take().expect("piped")));
    let err = read(Box::new(child.stderr.take().expect("piped")));
    let is_watched = std::env::var_os("WEFT_TEST_SANITIZER").is_some();
    let limit = if is_watched { 4 * limit } else { limit };
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("our own child") {
            Some(status) => break Some(status),
            None if begun.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    Ended {
        status,
        out: out.join().expect("reads"),
        err: err.join().expect("reads"),
    }
}

/// `mpiexec -n ranks program arguments…`, for a minute at most.
pub fn mpiexec(ranks: u32, program: &Path, arguments: &[&str]) -> Ended {
    let mut command = tool("mpiexec");
    command
        .arg("-n")
        .arg(ranks.to_string())
        .arg(program)
        .args(arguments);
    run(&mut command, Duration::from_secs(60))
}

/// Programs of `tests/programs` that print how many ranks they had, with their argument: to test ways of starting and of
/// connecting ranks.
pub const PROGRAMS: [(&str, &str); 6] = [
    ("ring", "20"),
    ("point_to_point", ""),
    ("communicators", ""),
    ("collectives", ""),
    ("one_sided", ""),
    ("window_circles", "10"),
];

/// Runs one of these programs, or another that prints the same, with `start` to its end with that many ranks.
///
/// # Panics
/// If it does not end well.
pub fn passes(name: &str, argument: &str, ranks: u32, start: &mut Command) {
    const LIMIT: Duration = Duration::from_secs(90);
    let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
    start
        .arg(program)
        .args((!argument.is_empty()).then_some(argument));
    let ended = run(start, LIMIT);
    ended.expect_success();
    assert!(
        ended.out.contains(&format!(": ok with {ranks} ranks")),
        "{name}: {ended:?}"
    );
}

/// The processes that run a program.
#[must_use]
pub fn running(program: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("there");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let runs = |process: &u32| {
        std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|exe| exe == program)
    };
    numbers.filter(runs).collect()
}

/// The processes that run a program, after those that are about to end have ended.
#[must_use]
pub fn processes_of(program: &Path) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = running(program);
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        std::thread::yield_now();
    }
}

/// Whether this is a long run of the tests (`cargo xtask test --long`), which sets `WEFT_SEEDS`.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("WEFT_SEEDS").is_some()
}

/// Seeds of a random test: `WEFT_SEED` alone, or the first `WEFT_SEEDS`, or as many as it usually takes:
/// fewer under a sanitizer.
///
/// # Panics
/// If a variable is not a number.
#[must_use]
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = std::env::var(name).ok()?;
        let wrong = |_| panic!("{name}: a number was expected, not {text:?}");
        Some(text.parse().unwrap_or_else(wrong))
    };
    match number("WEFT_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            0..number("WEFT_SEEDS").unwrap_or(match Sanitizer::of_this_run() {
                Some(_) => usual.div_ceil(4),
                None => usual,
            })
        }
    }
}
