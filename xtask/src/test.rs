//! `cargo xtask test`: installs what the tests need and runs all of them, one step after the other.
//!
//! A step that cannot run here (Miri without its component) is skipped and says why; one that fails
//! does not keep the next from running. The last line has the counts.
//!
//! Neighbours that may run beside others run two at a time: what computes beside what waits. Beside the tests, which have limits of
//! time, computes only what is `nice`: it gets the time that they leave. Where few cores are, the time of the whole is that of the
//! processor: what each step has taken of it stands beside the time from its beginning to its end, and how idle the cores were below.
//!
//! With `--long` the same steps take longer: random tests have more seeds, or two minutes for each fabric, mpi4py's
//! suite runs with more numbers of ranks, and the fuzz targets run for some minutes. That is for a night, or before a
//! release.

use std::io::{IsTerminal, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::nightly::{self, quietly};
use crate::processor::{self, Cores};
use crate::rooms::root;

/// What to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only the steps whose name contains this.
    only: Option<String>,
    /// The names of the steps.
    #[arg(long)]
    list: bool,
    /// Takes hours: more seeds, more numbers of ranks, and fuzzing.
    #[arg(long)]
    long: bool,
}

/// A step: its name and its command line.
struct Step {
    name: &'static str,
    line: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// What differs with `--long`.
    long: Long,
    /// It may run beside its neighbours of which that is true as well. What one of them says is shown at once, what the other says
    /// when it has ended.
    beside_others: bool,
    /// Whether it can run here; if not, why.
    possible: fn() -> Result<(), String>,
}

/// How a step is longer.
enum Long {
    /// It is the same.
    Same,
    /// These variables are set besides.
    With(&'static [(&'static str, &'static str)]),
    /// This is its command line.
    Line(&'static str),
    /// It is there with `--long` only.
    Only,
}

impl Step {
    const fn new(name: &'static str, line: &'static str) -> Self {
        Self {
            name,
            line,
            environment: &[],
            long: Long::Same,
            beside_others: false,
            possible: || Ok(()),
        }
    }

    /// Its command line.
    const fn line(&self, long: bool) -> &'static str {
        match self.long {
            Long::Line(line) if long => line,
            _ => self.line,
        }
    }

    /// Variables besides its own.
    const fn more(&self, long: bool) -> &'static [(&'static str, &'static str)] {
        match self.long {
            Long::With(more) if long => more,
            _ => &[],
        }
    }
}

const MIRI: &str = "-Zmiri-disable-isolation";

/// Each test with so many schedules of its threads.
const MIRI_WITH_SEEDS: &str = "-Zmiri-disable-isolation -Zmiri-many-seeds=0..8";

/// Under Miri one takes as long as all the tests of a room, and panics that tests expect have them too.
const NO_BACKTRACE: (&str, &str) = ("RUST_BACKTRACE", "0");

const STEPS: &[Step] = &[
    Step::new("format", "cargo fmt --all -- --check"),
    Step::new("layers", "cargo xtask layers"),
    Step::new("links", "cargo xtask links"),
    Step::new("codegen", "cargo xtask codegen --check"),
    // Before what runs side by side: others than the debug build take it from there (`ciphers`).
    Step::new("ciphers", "cargo build --package aws-lc-sys"),
    Step {
        beside_others: true,
        ..Step::new(
            "lints",
            "cargo clippy --workspace --all-targets -- -D warnings",
        )
    },
    Step {
        // Beside the lints, which have another profile: its end keeps one core busy. From the tests on, everything needs it.
        beside_others: true,
        ..Step::new("installation", "cargo xtask dist")
    },
    Step {
        // Pages for those who work here: modules speak of private items too.
        environment: &[(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        )],
        beside_others: true,
        ..Step::new(
            "documentation",
            "cargo doc --workspace --no-deps --document-private-items --quiet",
        )
    },
    Step {
        // Alone: what waits for another rank counts more beside other work.
        possible: crate::instructions::possible,
        long: Long::Line("cargo xtask instructions --as-it-is --recorded"),
        ..Step::new("instructions", "cargo xtask instructions --as-it-is")
    },
    Step {
        // Twice as many tests as cores at a time: most of the time they wait for the processes that they have started.
        environment: &[("RUST_TEST_THREADS", "4")],
        beside_others: true,
        long: Long::With(&[
            ("WEFT_SEEDS", "2000"),
            ("WEFT_SECONDS", "120"),
            ("PROPTEST_CASES", "20000"),
            ("WEFT_LARGE_FILES", "1"),
        ]),
        ..Step::new(
            "unit and system tests",
            "cargo test --workspace --no-fail-fast",
        )
    },
    // Beside those tests, with the time that they leave. The first ones need nothing of what is built for the tests meanwhile.
    Step {
        environment: &[
            // Property tests look for earlier failures in files and read their settings.
            ("MIRIFLAGS", MIRI),
            ("PROPTEST_CASES", "4"),
            NO_BACKTRACE,
        ],
        beside_others: true,
        long: Long::With(&[("MIRIFLAGS", MIRI_WITH_SEEDS), ("PROPTEST_CASES", "20")]),
        possible: nightly::with_miri,
        ..Step::new(
            "miri",
            "nice cargo +nightly miri test -p weft-atomic -p weft-fiber -p weft-pool -p weft-matching --lib",
        )
    },
    Step {
        environment: &[("MIRIFLAGS", MIRI), NO_BACKTRACE],
        beside_others: true,
        possible: nightly::with_miri,
        ..Step::new(
            "miri, datatypes",
            "nice cargo xtask miri -p weft-mpi --lib -- datatype::tests::any datatype::tests::pieces",
        )
    },
    Step {
        // Its own folder, because another value of RUSTFLAGS builds everything anew.
        environment: &[
            ("RUSTFLAGS", "--cfg loom"),
            ("CARGO_TARGET_DIR", "target/loom"),
        ],
        beside_others: true,
        ..Step::new(
            "loom",
            "nice cargo test --profile models -p weft-atomic -p weft-fiber -p weft-pool -p weft-matching -p weft-net --lib",
        )
    },
    Step {
        // Likewise. The code itself, each rank ended after any of its stores.
        environment: &[
            ("RUSTFLAGS", "--cfg fault_points"),
            ("CARGO_TARGET_DIR", "target/fault_points"),
        ],
        beside_others: true,
        long: Long::With(&[("WEFT_SEEDS", "10000000")]),
        ..Step::new(
            "fault points",
            "nice cargo test --profile models -p weft-fabric-shm --lib --test killed deaths",
        )
    },
    Step {
        beside_others: true,
        possible: crate::models::possible,
        ..Step::new("models", "nice cargo xtask models")
    },
    Step {
        beside_others: true,
        possible: nightly::installed,
        ..Step::new(
            "address, library",
            "nice cargo xtask sanitize address --build",
        )
    },
    Step {
        beside_others: true,
        possible: nightly::with_source,
        ..Step::new(
            "thread, library",
            "nice cargo xtask sanitize thread --build",
        )
    },
    Step {
        beside_others: true,
        ..Step::new("wheel", "cargo xtask wheel --check")
    },
    Step {
        // One alone, and the fewest that are neither a pair nor a power of two.
        // On what users install, which is the installation of the other steps without its symbols. Half of its time it keeps one
        // core busy: the compiler's, and one rank alone.
        beside_others: true,
        long: Long::Line("cargo xtask mpi4py --wheel --ranks 1,2,3,4"),
        ..Step::new(
            "mpi4py",
            "cargo xtask mpi4py --wheel --ranks 1,3 --alone-once",
        )
    },
    Step {
        // Ranks that wait for each other, most of the time.
        beside_others: true,
        possible: nightly::installed,
        ..Step::new("address sanitizer", "cargo xtask sanitize address")
    },
    Step {
        beside_others: true,
        possible: nightly::with_source,
        ..Step::new("thread sanitizer", "cargo xtask sanitize thread")
    },
    Step {
        long: Long::Only,
        ..Step::new(
            "large messages",
            "cargo test -p weft-tests --test programs many_elements -- --ignored",
        )
    },
    Step {
        // mpi4py as the registry has it; tests of programs in C show the same library at once.
        long: Long::Only,
        ..Step::new(
            "mpi4py-mpich",
            "cargo xtask mpi4py --wheel --abi mpich --ranks 1,3",
        )
    },
    Step {
        long: Long::Only,
        ..Step::new(
            "mpi4py-openmpi",
            "cargo xtask mpi4py --wheel --abi openmpi --ranks 1,3",
        )
    },
    Step {
        possible: nightly::installed,
        long: Long::Only,
        ..Step::new("fuzz", "cargo xtask fuzz 300")
    },
];

/// Runs all steps; all failures are listed at the end.
pub fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |step: &&Step| {
        arguments
            .only
            .as_ref()
            .is_none_or(|only| step.name.contains(only.as_str()))
    };
    let now = |step: &&Step| arguments.long || !matches!(step.long, Long::Only);
    let steps: Vec<&Step> = STEPS.iter().filter(now).filter(wanted).collect();
    if steps.is_empty() {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!(
            "no step has this in its name; the steps are {}",
            names.join(", ")
        );
    }
    if arguments.list {
        steps
            .iter()
            .for_each(|step| println!("{:<22} {}", step.name, step.line(arguments.long)));
        return Ok(());
    }
    prepare()?;
    let (begun, cores) = (Instant::now(), Cores::now()?);
    let mut results = Vec::new();
    for group in steps.chunk_by(|one, other| one.beside_others && other.beside_others) {
        results.extend(match group {
            [step] => vec![run_step(step, arguments.long)?],
            group => run_together(group, arguments.long)?,
        });
    }
    let lines: Vec<&str> = results.iter().map(|result| &*result.line).collect();
    let count = |outcome: &Outcome| {
        let same = results.iter().filter(|result| result.outcome == *outcome);
        same.count()
    };
    let (passed, skipped) = (count(&Outcome::Passed), count(&Outcome::Skipped));
    let failed: Vec<&str> = steps
        .iter()
        .zip(&results)
        .filter(|(_, result)| result.outcome == Outcome::Failed)
        .map(|(step, _)| step.name)
        .collect();
    for (step, result) in steps.iter().zip(&results) {
        let complaints = match result.outcome {
            Outcome::Failed => complaints(&result.said),
            Outcome::Passed | Outcome::Skipped => Vec::new(),
        };
        if !complaints.is_empty() {
            println!(
                "\n== {}, once more: {}",
                step.name,
                step.line(arguments.long)
            );
            println!("{}", complaints.join("\n"));
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let idle = Cores::now()?.idle_since(&cores, took);
    println!("\n{:<22} {:>8} {:>11}", "", "time", "processor");
    println!("{}", lines.join("\n"));
    println!(
        "in {took:.0} s, in which the cores were idle for {:.0} %",
        100.0 * idle
    );
    if skipped > 0 {
        println!("{skipped} skipped");
    }
    println!("{passed} passed, {} failed", failed.len());
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("failed: {}", failed.join(", "))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// How a step has ended, the line that says so, and what it said itself, as far as that was seen by us.
struct StepResult {
    outcome: Outcome,
    line: String,
    said: Vec<u8>,
}

/// Runs one step, which says what it has to say.
fn run_step(step: &Step, long: bool) -> Result<StepResult> {
    println!("\n== {}: {}", step.name, step.line(long));
    // A terminal is the step's own, with its bars of progress.
    let listener = match std::io::stdout().is_terminal() {
        true => Listener::Nobody,
        false => Listener::Everybody,
    };
    let result = outcome_of(step, long, listener)?;
    println!("== {}", result.line);
    Ok(result)
}

/// Runs steps two at a time.
fn run_together(group: &[&Step], long: bool) -> Result<Vec<StepResult>> {
    let names: Vec<&str> = group.iter().map(|step| step.name).collect();
    println!("\n== two at a time: {}", names.join("; "));
    let queue = Mutex::new(group.iter().enumerate());
    // Whoever has it is heard at once.
    let floor = Mutex::new(());
    let results: Mutex<Vec<(usize, Result<StepResult>)>> = Mutex::default();
    let work = || {
        loop {
            let next = open(&queue).next();
            let Some((index, step)) = next else {
                return;
            };
            let floor = floor.try_lock();
            let listener = match floor {
                Ok(_) => Listener::Everybody,
                Err(_) => Listener::Later,
            };
            let result = outcome_of(step, long, listener);
            drop(floor);
            let mut results = open(&results);
            println!("\n== {}: {}", step.name, step.line(long));
            if let Ok(result) = &result {
                if listener == Listener::Later {
                    print!("{}", String::from_utf8_lossy(&result.said));
                }
                println!("== {}", result.line);
            }
            results.push((index, result));
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who hears what a step says while it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// Our output is its own, and we keep nothing.
    Nobody,
    /// We keep it and say it.
    Everybody,
    /// We keep it.
    Later,
}

/// Runs a step if that is possible here.
fn outcome_of(step: &Step, long: bool, listener: Listener) -> Result<StepResult> {
    let begun = Instant::now();
    let mut said = Vec::new();
    let (outcome, processor, text) = match (step.possible)() {
        Err(reason) => (Outcome::Skipped, 0.0, format!("skipped: {reason}")),
        Ok(()) => match ended(step, long, listener, &mut said)? {
            (true, processor) => (Outcome::Passed, processor, "passed".to_owned()),
            (false, processor) => (Outcome::Failed, processor, "FAILED".to_owned()),
        },
    };
    let took = begun.elapsed().as_secs_f64();
    Ok(StepResult {
        outcome,
        line: format!("{:<22} {took:>6.1} s {processor:>9.1} s  {text}", step.name),
        said,
    })
}

/// Runs it to its end: whether it has succeeded, and the processor time that it has taken.
fn ended(step: &Step, long: bool, listener: Listener, said: &mut Vec<u8>) -> Result<(bool, f64)> {
    let mut words = step.line(long).split(' ');
    let program = words.next().context("a step without a program")?;
    let mut command = Command::new(program);
    crate::dist::from_shell(&mut command);
    command
        .args(words)
        .envs(step.environment.iter().copied())
        .envs(step.more(long).iter().copied())
        .current_dir(root()?)
        .stdin(Stdio::null());
    let cannot = || format!("cannot start {program}");
    if listener == Listener::Nobody {
        return reap(command.spawn().with_context(cannot)?);
    }
    let (mut heard, writer) = std::io::pipe()?;
    let child = command
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(cannot)?;
    // It has the ends of the pipe that are written to: without them, what is read ends with the step.
    drop(command);
    let mut part = [0; 1 << 14];
    loop {
        let length = heard.read(&mut part)?;
        if length == 0 {
            break;
        }
        said.extend_from_slice(&part[..length]);
        if listener == Listener::Everybody {
            std::io::stdout().write_all(&part[..length])?;
            std::io::stdout().flush()?;
        }
    }
    reap(child)
}

/// Whether it has succeeded in the end, and the processor time that it has taken.
fn reap(mut child: Child) -> Result<(bool, f64)> {
    let taken = processor::taken(&child)?;
    Ok((child.wait()?.success(), taken))
}

/// The lines by which a step names what failed: who looks at the end of a long output finds it there.
fn complaints(said: &[u8]) -> Vec<String> {
    const SIGNS: [&str; 6] = ["panicked at", "FAILED", "error", "SUMMARY:", "n=", "failed"];
    const MOST: usize = 40;
    let said = String::from_utf8_lossy(said);
    let lines = said
        .lines()
        .filter(|line| SIGNS.iter().any(|sign| line.contains(sign)))
        .filter(|line| !line.contains(" 0 failed") && !line.ends_with("... ok"));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    lines[lines.len().saturating_sub(MOST)..].to_vec()
}

/// Installs what is missing, where that needs no more than what a developer has at hand.
fn prepare() -> Result<()> {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !quietly("cargo", &[tool, "--version"])
            && !quietly("rustup", &["component", "add", component])
        {
            bail!("cargo {tool} is missing and cannot be added; rustup component add {component}");
        }
    }
    let mut missing = Vec::new();
    if !quietly("cc", &["--version"]) {
        missing.push("gcc");
    }
    if !quietly("python3", &["-c", "import venv, ensurepip"]) {
        missing.push("python3-venv");
    }
    let headers = "import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()['include'], 'Python.h')))";
    if !quietly("python3", &["-c", headers]) {
        missing.push("python3-dev");
    }
    useful();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    println!("missing: {packages}; trying apt-get install");
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(&missing);
    if quietly("apt-get", &["update"]) && quietly("apt-get", &install) {
        return Ok(());
    }
    bail!("the tests need {packages} (names of Debian's packages); install them and start again")
}

/// Installs what some tests want, and say so when they have to do without: the launcher of MPICH; for
/// jobs on several hosts namespaces, a server in each, ports that can be shut; ordinary programs to talk
/// to over a shared network card; what checks the models; a compiler of Fortran.
fn useful() {
    let mut missing = Vec::new();
    for (file, package) in [
        ("/usr/sbin/sshd", "openssh-server"),
        ("/usr/bin/ssh", "openssh-client"),
        ("/usr/sbin/iptables", "iptables"),
        ("/usr/bin/nc.openbsd", "netcat-openbsd"),
        ("/usr/bin/iperf3", "iperf3"),
        ("/usr/bin/spin", "spin"),
        ("/usr/bin/fi_info", "libfabric-bin"),
        ("/usr/bin/gfortran", "gfortran"),
    ] {
        if !std::path::Path::new(file).exists() {
            missing.push(package);
        }
    }
    if !quietly("ip", &["-V"]) {
        missing.push("iproute2");
    }
    if !missing.is_empty() {
        let mut install = vec!["install", "--yes", "--no-install-recommends"];
        install.extend(&missing);
        println!("missing: {}; trying apt-get install", missing.join(" "));
        if !quietly("apt-get", &["update"]) || !quietly("apt-get", &install) {
            println!(
                "not installed: some tests of jobs on several hosts, of libfabric, of weft net and of Fortran will be skipped"
            );
        }
    }
    if let Err(error) = crate::peers::launcher() {
        println!("no launcher of MPICH: jobs under it will not be tested: {error:#}");
    }
    if let Err(error) = crate::peers::foreign() {
        println!("no Open MPI: programs that are built with it will not be tested: {error:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_said_once_more_and_nothing_else() {
        let said = "test errors_are_named ... ok\ntest locks ... FAILED\nthread 'locks' panicked at a.rs:3:\n\
            n=3 test_rma 36 passed   0 failed   0 skipped 11.7 s  ok\n       n=3 test_rma.Put: rank 0: not ended\n\
            test result: FAILED. 9 passed; 1 failed\n   Compiling weft\n";
        let complaints = complaints(said.as_bytes());
        let expected = [
            "test locks ... FAILED",
            "thread 'locks' panicked at a.rs:3:",
            "       n=3 test_rma.Put: rank 0: not ended",
            "test result: FAILED. 9 passed; 1 failed",
        ];
        assert_eq!(complaints, expected);
    }
}
