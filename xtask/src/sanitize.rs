//! `cargo xtask sanitize`: the C programs of the tests with a `libmpi_abi` that AddressSanitizer or
//! ThreadSanitizer watches.
//!
//! ```text
//! target/watched/          what is built for them
//! target/NAME/             the watched library
//! target/NAME/dist/        an installation: our launcher and compiler wrapper as always, the watched library
//! ```
//!
//! The same tests run as without it (`tests/cases/programs.rs`, `tests/attacks`), with few ranks, and for races once where the
//! program starts no thread; a report fails the rank and so the test. Needs a nightly compiler; for threads also the source of the
//! standard library, since an unwatched lock would hide what it orders. What is not seen:
//!
//! * ThreadSanitizer knows the threads of one process: two processes that race in shared memory are not
//!   seen (loom and the models of [`weft-atomic`](../../crates/atomic) are for that).
//! * Assembly. Fences are not modelled either, and need not be: in Weft they order a store before a load
//!   (`atomic::fence`), and what hands data over is a `Release` with its `Acquire`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ciphers::Ciphers;
use crate::dist::{self, from_shell, target};
use crate::nightly::{self, PLATFORM};
use crate::rooms::root;

/// What to watch for, and where.
#[derive(clap::Args)]
pub struct Arguments {
    /// What watches.
    kind: Kind,
    /// Only the tests whose name contains one of these. Default: all that make sense.
    only: Vec<String>,
    /// Builds the watched library, and runs nothing.
    #[arg(long)]
    build: bool,
}

/// A sanitizer.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Memory: bounds, life, leaks.
    Address,
    /// Data races between threads of a process.
    Thread,
}

/// Tests that say nothing here: they measure time, put a library before the sanitizer's, start more
/// than watched programs can, or bound memory, of which a sanitizer takes what it wants.
const LEFT_OUT: [&str; 6] = [
    "nested_a_million_deep",
    "the_extremes_of_every_argument",
    "a_blocked_rank_sleeps",
    "a_profiling_library_intercepts",
    "fibers_of_the_examples",
    "a_flooding_sender_waits",
];

impl Kind {
    /// As compilers call it.
    const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// The compiler's run-time library.
    fn runtime(self) -> Result<PathBuf> {
        let folder = nightly::print("target-libdir").context("rustc +nightly does not answer")?;
        let short = match self {
            Self::Address => "asan",
            Self::Thread => "tsan",
        };
        let file = folder.join(format!("librustc-nightly_rt.{short}.a"));
        if !file.exists() {
            bail!(
                "{} is not there: rustup toolchain install nightly",
                file.display()
            );
        }
        Ok(file)
    }

    /// What the sanitizer is told through the environment. A report ends the process with code 66.
    fn options(self, root: &Path) -> Vec<(&'static str, String)> {
        match self {
            // Fibers change stacks, of which it is not told: `crates/fiber/src/sanitizer.rs`.
            Self::Address => {
                let known = root.join("tests/sanitizers/leaks.txt");
                vec![
                    (
                        "ASAN_OPTIONS",
                        "exitcode=66:detect_stack_use_after_return=0".to_owned(),
                    ),
                    (
                        "LSAN_OPTIONS",
                        format!(
                            "exitcode=66:print_suppressions=0:suppressions={}",
                            known.display()
                        ),
                    ),
                ]
            }
            Self::Thread => vec![("TSAN_OPTIONS", "exitcode=66".to_owned())],
        }
    }
}

/// Builds, lays out and runs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let kind = arguments.kind;
    let possible = match kind {
        Kind::Address => nightly::installed(),
        Kind::Thread => nightly::with_source(),
    };
    possible.map_err(anyhow::Error::msg)?;
    let root = root()?;
    let folder = target(&root).join(kind.name());
    let library = build(kind, &folder)?;
    if arguments.build {
        return Ok(());
    }
    let plain = dist::lay_out(None)?;
    let prefix = folder.join("dist");
    let mut libraries = dist::LIBRARIES.map(|(_, name)| plain.join("lib").join(name));
    // The first is that which all others call.
    libraries[0] = library;
    dist::arrange(
        &prefix,
        &plain.join("bin/weft"),
        libraries.each_ref().map(PathBuf::as_path),
    )?;
    let mut tests = dist::cargo();
    // Of the whole workspace, though they are those of one package: by itself it asks for other features of what all are built
    // on, and everything would be built once more.
    tests
        .current_dir(&root)
        .args([
            "test",
            "--workspace",
            "--test",
            "programs",
            "--test",
            "attacks",
            "--no-fail-fast",
            "--",
        ])
        .args(&arguments.only)
        .args(LEFT_OUT.iter().flat_map(|name| ["--skip", name]))
        .env("WEFT_TEST_SANITIZER", kind.name())
        .env("WEFT_TEST_PREFIX", &prefix)
        .env("WEFT_TEST_RUNTIME", kind.runtime()?)
        .envs(kind.options(&root));
    let status = tests.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("under the {} sanitizer: {status}", kind.name());
    }
    Ok(())
}

/// The watched library.
fn build(kind: Kind, folder: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    from_shell(&mut cargo);
    cargo
        .current_dir(root()?)
        .args(["+nightly", "build", "--package", "weft-abi"])
        .args(["--profile", "sanitize", "--target", PLATFORM])
        .arg("--target-dir")
        .arg(folder)
        // What runs while building is the same for each sanitizer, and built once.
        .env("CARGO_BUILD_BUILD_DIR", target(&root()?).join("watched"))
        .env(
            "RUSTFLAGS",
            format!("-Zsanitizer={0} --cfg sanitizer=\"{0}\"", kind.name()),
        );
    match kind {
        // Entry points take longer to optimize than their checks of addresses take to run.
        Kind::Address => cargo.args(["--config", "profile.sanitize.package.weft-abi.opt-level=0"]),
        Kind::Thread => cargo.arg("-Zbuild-std"),
    };
    Ciphers::are_built(&mut cargo)?;
    let status = cargo.status().context("cannot start cargo")?;
    if !status.success() {
        bail!(
            "cargo +nightly build for the {} sanitizer ended badly ({status})",
            kind.name()
        );
    }
    Ok(folder.join(PLATFORM).join("sanitize/libmpi_abi.so"))
}
