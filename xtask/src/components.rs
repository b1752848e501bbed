//! The part of `cargo xtask peers` that builds the programs of compared components: hash tables, packet
//! pools, thread libraries.
//!
//! Each source in `crates/bench/peers` becomes a program of the same name in `target/peers/components`, where
//! `weft bench` looks for them. A library that is not on this machine and cannot be installed is reported as
//! missing, and the experiments run without it. `tasks` is a package of its own, with the libraries of the
//! Rust registry.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Stem of the source, Debian's package of the library, what to link.
const COMPONENTS: [(&str, &str, &[&str]); 5] = [
    ("cuckoo", "libcuckoo-dev", &[]),
    ("tbb", "libtbb-dev", &["-ltbb", "-ltbbmalloc"]),
    ("lockfree", "libboost-dev", &[]),
    (
        "boost_fiber",
        "libboost-fiber-dev",
        &["-lboost_fiber", "-lboost_context"],
    ),
    ("posix", "g++", &[]),
];

/// Builds and tries all that can be built, and names the others.
pub fn build(root: &Path, peers: &Path) -> Result<()> {
    let sources = root.join("crates/bench/peers");
    let programs = peers.join("components");
    fs::create_dir_all(&programs)
        .with_context(|| format!("cannot make the folder {}", programs.display()))?;
    let tasks = programs.join("tasks");
    match build_tasks(&sources, peers, &tasks).and_then(|()| try_it(&tasks)) {
        Ok(hello) => println!("tasks: {hello}"),
        Err(error) => {
            let _ = fs::remove_file(&tasks);
            println!("tasks: left out, experiments run without them: {error:#}");
        }
    }
    for (stem, package, libraries) in COMPONENTS {
        let source = sources.join(stem).with_extension("cpp");
        let program = programs.join(stem);
        // A program from an earlier run may be of an older source.
        if program.exists() {
            fs::remove_file(&program)
                .with_context(|| format!("cannot remove {}", program.display()))?;
        }
        let mut built = compile(&source, &program, libraries);
        if built.is_err() && install(package) {
            built = compile(&source, &program, libraries);
        }
        match built.and_then(|()| try_it(&program)) {
            Ok(hello) => println!("{stem}: {hello}"),
            Err(error) => {
                let _ = fs::remove_file(&program);
                println!(
                    "{stem}: left out, experiments run without it; Debian's package is {package}: {error:#}"
                );
            }
        }
    }
    Ok(())
}

/// The libraries of the Rust registry, in a workspace of their own.
fn build_tasks(sources: &Path, peers: &Path, program: &Path) -> Result<()> {
    let folder = peers.join("tasks-build");
    let output = crate::dist::cargo()
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(sources.join("tasks/Cargo.toml"))
        .arg("--target-dir")
        .arg(&folder)
        .stdin(Stdio::null())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "cargo does not build them: {}",
            said.lines().next().unwrap_or_default()
        );
    }
    fs::copy(folder.join("release/tasks"), program)
        .with_context(|| format!("cannot write {}", program.display()))?;
    Ok(())
}

fn compile(source: &Path, program: &Path, libraries: &[&str]) -> Result<()> {
    let output = Command::new("c++")
        .args(["-std=c++17", "-O3", "-Wall", "-Wextra", "-o"])
        .arg(program)
        .arg(source)
        .args(libraries)
        .arg("-lpthread")
        .stdin(Stdio::null())
        .output()
        .context("cannot start c++")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or("it does not compile");
    bail!("{first}")
}

/// Whether Debian's package could be installed.
fn install(package: &str) -> bool {
    println!("missing: {package}; trying apt-get install");
    Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Starts the program without any request; returns what it prints.
fn try_it(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().strip_prefix("hello ") {
        Some(hello) if output.status.success() => Ok(hello.to_string()),
        _ => bail!("it is built but ends with {}", output.status),
    }
}
