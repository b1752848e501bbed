//! `cargo xtask test`: installs what the tests need and runs all of them, one step after the other.
//!
//! A step that cannot run here (Miri without its component) is skipped and says why; one that fails
//! does not keep the next from running. The last line has the counts.
//!
//! With `--long` the same steps take longer: random tests have more seeds, mpi4py's suite runs with more numbers
//! of ranks, and the fuzz targets run for some minutes. That is for a night, or before a release.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::nightly::{self, quietly};
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

const STEPS: &[Step] = &[
    Step::new("format", "cargo fmt --all -- --check"),
    Step::new("layers", "cargo xtask layers"),
    Step::new("links", "cargo xtask links"),
    Step::new("codegen", "cargo xtask codegen --check"),
    Step::new(
        "lints",
        "cargo clippy --workspace --all-targets -- -D warnings",
    ),
    Step {
        // Pages for those who work here: modules speak of private items too.
        environment: &[(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        )],
        ..Step::new(
            "documentation",
            "cargo doc --workspace --no-deps --document-private-items --quiet",
        )
    },
    Step::new("installation", "cargo xtask dist"),
    Step {
        possible: crate::instructions::possible,
        ..Step::new("instructions", "cargo xtask instructions --as-it-is")
    },
    Step {
        long: Long::With(&[("WEFT_SEEDS", "2000"), ("PROPTEST_CASES", "20000")]),
        ..Step::new(
            "unit and system tests",
            "cargo test --workspace --no-fail-fast",
        )
    },
    Step {
        // Its own folder, because another value of RUSTFLAGS builds everything anew.
        environment: &[
            ("RUSTFLAGS", "--cfg loom"),
            ("CARGO_TARGET_DIR", "target/loom"),
        ],
        ..Step::new(
            "loom",
            "cargo test --profile models -p weft-atomic -p weft-fiber -p weft-pool -p weft-matching -p weft-net --lib",
        )
    },
    Step {
        // Likewise. The code itself, each rank ended after any of its stores.
        environment: &[
            ("RUSTFLAGS", "--cfg fault_points"),
            ("CARGO_TARGET_DIR", "target/fault_points"),
        ],
        long: Long::With(&[("WEFT_SEEDS", "10000000")]),
        ..Step::new(
            "fault points",
            "cargo test --profile models -p weft-fabric-shm --lib --test killed deaths",
        )
    },
    Step {
        possible: crate::models::possible,
        ..Step::new("models", "cargo xtask models")
    },
    Step {
        environment: &[
            // Property tests look for earlier failures in files and read their settings.
            ("MIRIFLAGS", "-Zmiri-disable-isolation"),
            ("PROPTEST_CASES", "4"),
        ],
        possible: nightly::with_miri,
        ..Step::new(
            "miri",
            "cargo +nightly miri test -p weft-atomic -p weft-fiber -p weft-pool -p weft-matching --lib",
        )
    },
    Step {
        environment: &[("MIRIFLAGS", "-Zmiri-disable-isolation")],
        possible: nightly::with_miri,
        ..Step::new(
            "miri, datatypes",
            "cargo +nightly miri test -p weft-mpi --lib -- datatype::tests::any datatype::tests::pieces",
        )
    },
    Step {
        long: Long::Only,
        ..Step::new(
            "large messages",
            "cargo test -p weft-tests --test programs many_elements -- --ignored",
        )
    },
    Step {
        possible: nightly::installed,
        ..Step::new("address sanitizer", "cargo xtask sanitize address")
    },
    Step {
        possible: nightly::with_source,
        ..Step::new("thread sanitizer", "cargo xtask sanitize thread")
    },
    Step::new("wheel", "cargo xtask wheel --check"),
    Step {
        // One alone, and the fewest that are neither a pair nor a power of two.
        // On what users install, which is the installation of the other steps without its symbols.
        long: Long::Line("cargo xtask mpi4py --wheel --ranks 1,2,3,4"),
        ..Step::new("mpi4py", "cargo xtask mpi4py --wheel --ranks 1,3")
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
    let mut failed = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    let mut lines = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.line(arguments.long));
        let begun = Instant::now();
        let outcome = match (step.possible)() {
            Err(reason) => {
                skipped += 1;
                format!("skipped: {reason}")
            }
            Ok(()) if succeeds(step, arguments.long)? => {
                passed += 1;
                "passed".to_string()
            }
            Ok(()) => {
                failed.push(step.name);
                "FAILED".to_string()
            }
        };
        let line = summary(step.name, begun.elapsed(), &outcome);
        println!("== {line}");
        lines.push(line);
    }
    println!("\n{}", lines.join("\n"));
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

fn summary(name: &str, took: Duration, outcome: &str) -> String {
    format!("{name:<22} {:>6.1} s  {outcome}", took.as_secs_f64())
}

fn succeeds(step: &Step, long: bool) -> Result<bool> {
    let mut words = step.line(long).split(' ');
    let program = words.next().context("a step without a program")?;
    let mut command = Command::new(program);
    crate::dist::from_shell(&mut command);
    let status = command
        .args(words)
        .envs(step.environment.iter().copied())
        .envs(step.more(long).iter().copied())
        .current_dir(root()?)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    Ok(status.success())
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
/// to over a shared network card; what checks the models.
fn useful() {
    let mut missing = Vec::new();
    for (file, package) in [
        ("/usr/sbin/sshd", "openssh-server"),
        ("/usr/bin/ssh", "openssh-client"),
        ("/usr/sbin/iptables", "iptables"),
        ("/usr/bin/nc.openbsd", "netcat-openbsd"),
        ("/usr/bin/iperf3", "iperf3"),
        ("/usr/bin/spin", "spin"),
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
                "not installed: some tests of jobs on several hosts and of weft net will be skipped"
            );
        }
    }
    if let Err(error) = crate::peers::launcher() {
        println!("no launcher of MPICH: jobs under it will not be tested: {error:#}");
    }
}
