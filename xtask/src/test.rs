//! `cargo xtask test`: installs what the tests need and runs all of them, one step after the other.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::layers::root;

/// What to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only the steps whose name contains this.
    only: Option<String>,
}

/// A step: its name and its command line.
struct Step {
    name: &'static str,
    line: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const STEPS: &[Step] = &[
    Step { name: "format", line: &["cargo", "fmt", "--all", "--", "--check"], environment: &[] },
    Step { name: "layers", line: &["cargo", "xtask", "layers"], environment: &[] },
    Step {
        name: "lints",
        line: &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        environment: &[],
    },
    Step { name: "unit tests", line: &["cargo", "test", "--workspace"], environment: &[] },
    Step {
        name: "loom",
        line: &["cargo", "test", "--release", "-p", "weft-atomic", "-p", "weft-pool", "--lib"],
        environment: &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")],
    },
];

/// Runs all steps; all failures are listed at the end.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut failed = Vec::new();
    let mut passed = 0;
    for step in STEPS {
        if arguments.only.as_ref().is_some_and(|only| !step.name.contains(only.as_str())) {
            continue;
        }
        println!("\n== {}: {}", step.name, step.line.join(" "));
        let begun = Instant::now();
        let status = Command::new(step.line[0])
            .args(&step.line[1..])
            .envs(step.environment.iter().copied())
            .current_dir(root()?)
            .status();
        let good = status.is_ok_and(|status| status.success());
        println!("== {}: {} in {:.0} s", step.name, if good { "passed" } else { "FAILED" }, begun.elapsed().as_secs_f64());
        if good { passed += 1 } else { failed.push(step.name) }
    }
    println!("\nsteps: {passed} passed, {} failed", failed.len());
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}
