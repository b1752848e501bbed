//! `cargo xtask fuzz SECONDS [TARGET…]`: runs each fuzz target of `fuzz/` for that many seconds, two at a
//! time.
//!
//! It does the work of `cargo fuzz` without that tool: a nightly compiler builds the targets with coverage
//! counters and AddressSanitizer, each as a program with libFuzzer in it. Inputs that reached something new
//! are kept in `target/fuzz/corpus` for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use crate::dist::{from_shell, target};
use crate::nightly::{self, PLATFORM};
use crate::rooms::root;

/// How long, and which.
#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds for each target.
    seconds: u32,
    /// Only these targets. Default: all.
    targets: Vec<String>,
}

/// Counters of edges and of operands of comparisons, as libFuzzer needs them, and no shortcuts without
/// counters.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing \
    -Cdebug-assertions -Ccodegen-units=1 -Cforce-frame-pointers";

/// Targets that run at once.
const AT_ONCE: usize = 2;

/// Seconds that one input may take.
const PATIENCE: u32 = 20;

/// The outcome of one target.
struct Outcome {
    target: String,
    inputs: u64,
    rate: u64,
    /// Edges of the program that were reached.
    edges: u64,
    /// The input that makes it fail; if it left none, what the target printed.
    crash: Option<String>,
}

/// Builds and runs them; an error if any input makes one fail.
pub fn run(arguments: &Arguments) -> Result<()> {
    nightly::installed().map_err(anyhow::Error::msg)?;
    let root = root()?;
    let folder = target(&root).join("fuzz");
    let wanted = wanted(&root.join("fuzz/fuzz_targets"), &arguments.targets)?;
    build(&root.join("fuzz"), &folder, &wanted)?;
    let queue = Mutex::new(wanted.iter());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic").next();
                    let Some(name) = next else { break };
                    let outcome = play(&folder, name, arguments.seconds);
                    if let Ok(outcome) = &outcome {
                        println!("{}", outcome.line());
                    }
                    outcomes.lock().expect("no panic").push(outcome);
                }
            });
        }
    });
    let outcomes: Vec<Outcome> = outcomes
        .into_inner()
        .expect("no panic")
        .into_iter()
        .collect::<Result<_>>()?;
    let inputs: u64 = outcomes.iter().map(|one| one.inputs).sum();
    let failed: Vec<&Outcome> = outcomes.iter().filter(|one| one.crash.is_some()).collect();
    println!("{inputs} inputs, {} targets failed", failed.len());
    if failed.is_empty() {
        return Ok(());
    }
    let again = failed.iter().map(|one| one.again(&folder));
    bail!(
        "an input makes a target fail:\n{}",
        again.collect::<Vec<_>>().join("\n")
    )
}

impl Outcome {
    fn line(&self) -> String {
        format!(
            "{:<10} {:>10} inputs {:>7}/s {:>6} edges  {}",
            self.target,
            self.inputs,
            self.rate,
            self.edges,
            self.crash.as_deref().unwrap_or("no crash")
        )
    }

    /// How to reproduce the failure.
    fn again(&self, folder: &Path) -> String {
        let crash = self.crash.as_deref().unwrap_or_default();
        format!("  {} {crash}", program(folder, &self.target).display())
    }
}

/// All targets, or those that were asked for.
fn wanted(folder: &Path, asked: &[String]) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut all = Vec::new();
    for entry in entries {
        let path = entry?.path();
        all.extend(
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
        );
    }
    all.sort();
    if let Some(unknown) = asked.iter().find(|name| !all.contains(name)) {
        bail!(
            "{unknown} is no fuzz target; the targets are {}",
            all.join(", ")
        );
    }
    all.retain(|name| asked.is_empty() || asked.contains(name));
    Ok(all)
}

fn build(package: &Path, folder: &Path, targets: &[String]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    from_shell(&mut cargo);
    let status = cargo
        .current_dir(package)
        .args(["+nightly", "build", "--release", "--target", PLATFORM])
        .arg("--target-dir")
        .arg(folder)
        .args(targets.iter().flat_map(|name| ["--bin", name]))
        .env("RUSTFLAGS", FLAGS)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the fuzz targets are not built: cargo +nightly build ended badly ({status})");
    }
    Ok(())
}

fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join(PLATFORM).join("release").join(name)
}

/// Runs one target; its output goes to a file.
fn play(folder: &Path, name: &str, seconds: u32) -> Result<Outcome> {
    let own = |kind: &str| -> Result<PathBuf> {
        let path = folder.join(kind).join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    };
    let (corpus, artifacts) = (own("corpus")?, own("artifacts")?);
    let log = folder.join(format!("{name}.log"));
    let file = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = Command::new(program(folder, name))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={PATIENCE}"))
        // With AddressSanitizer, a program keeps freed memory for a while.
        .args(["-rss_limit_mb=8192", "-print_final_stats=1"])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(corpus)
        // The process object of a Rust program and its world refer to each other, so neither is ever dropped.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .status()
        .with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let number = |after: &str| -> u64 {
        let rest = said.rsplit_once(after).map_or("", |(_, rest)| rest);
        let word = rest.split_whitespace().next();
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let crash = said
        .rsplit_once("Test unit written to ")
        .and_then(|(_, rest)| rest.lines().next())
        .map(str::to_owned);
    let ended = || format!("{status}, see {}", log.display());
    Ok(Outcome {
        target: name.to_owned(),
        inputs: number("stat::number_of_executed_units:"),
        rate: number("stat::average_exec_per_sec:"),
        edges: number("cov: "),
        crash: (!status.success()).then(|| crash.unwrap_or_else(ended)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_known_by_their_files() {
        let folder = root().expect("a workspace").join("fuzz/fuzz_targets");
        let all = wanted(&folder, &[]).expect("targets");
        assert!(
            all.contains(&"engine".to_owned()) && all.len() >= 8,
            "{all:?}"
        );
        let one = wanted(&folder, &["segment".to_owned()]).expect("a target");
        assert_eq!(one, ["segment"]);
        let error = wanted(&folder, &["segments".to_owned()]).expect_err("no target");
        assert!(error.to_string().contains("the targets are"), "{error}");
    }
}
