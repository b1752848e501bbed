//! `cargo xtask peers`: installs MPICH and Open MPI, to be compared with Weft.
//!
//! Both come as packages of the Python registry (no root, no system packages) and go to `target/peers/mpich`
//! and `target/peers/openmpi`, each a complete prefix with `bin`, `lib` and `include`. Both are tried at
//! once: each builds the measuring program with its own `mpicc` and starts it with two ranks. The programs of
//! compared components are built as well ([`components`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::components;
use crate::dist::target;
use crate::rooms::root;

/// Package, its version, and its folder. These are the versions that the project's figures are about.
const PEERS: [(&str, &str); 2] = [("mpich", "5.0.2"), ("openmpi", "5.0.11")];

/// How to install.
#[derive(clap::Args)]
pub struct Arguments {
    /// Installs again what is there already.
    #[arg(long)]
    again: bool,
    /// Only this one.
    #[arg(long, value_name = "PACKAGE", value_parser = ["mpich", "openmpi"])]
    only: Option<String>,
    /// The newest versions instead of those that the project's figures speak of.
    #[arg(long)]
    newest: bool,
    /// Only the programs of compared components, not the implementations of MPI.
    #[arg(long)]
    components: bool,
}

/// Installs both and tries them.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = root()?;
    let peers = target(&root).join("peers");
    let wanted = |package: &str| arguments.only.as_ref().is_none_or(|only| only == package);
    if arguments.only.is_none() {
        components::build(&root, &peers)?;
    }
    if arguments.components {
        return Ok(());
    }
    for (package, version) in PEERS.into_iter().filter(|(package, _)| wanted(package)) {
        let prefix = peers.join(package);
        if arguments.again && prefix.exists() {
            fs::remove_dir_all(&prefix)
                .with_context(|| format!("cannot remove {}", prefix.display()))?;
        }
        if !prefix.join("bin/mpicc").exists() {
            let wanted = if arguments.newest {
                package.to_string()
            } else {
                format!("{package}=={version}")
            };
            install(&wanted, &prefix)?;
        }
        try_it(package, &prefix, &root)?;
    }
    println!(
        "what was installed is under {}; weft bench finds it there",
        peers.display()
    );
    Ok(())
}

/// Installs MPICH if it is missing: in the tests its launcher starts our programs.
pub fn launcher() -> Result<()> {
    let (package, version) = PEERS[0];
    let prefix = target(&root()?).join("peers").join(package);
    if prefix.join("bin/mpiexec.hydra").exists() {
        return Ok(());
    }
    install(&format!("{package}=={version}"), &prefix)
}

/// Installs Open MPI if it is missing: the tests build programs with it, which run over our library. Not where peers are: nothing is
/// compared with it, and its launchers start none of our programs.
pub fn foreign() -> Result<()> {
    let (package, version) = PEERS[1];
    let prefix = target(&root()?).join("foreign").join(package);
    if prefix.join("bin/mpicc").exists() {
        return Ok(());
    }
    install(&format!("{package}=={version}"), &prefix)
}

/// Makes a virtual environment, which is the prefix, and installs the package in it.
fn install(package: &str, prefix: &Path) -> Result<()> {
    println!("{package}: installing in {}", prefix.display());
    let python = Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(prefix)
        .status();
    if !python
        .context("cannot start python3, which brings the packages; install it")?
        .success()
    {
        bail!("python3 -m venv failed; on Debian it is in the package python3-venv");
    }
    let installed = Command::new(prefix.join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            package,
        ])
        .status()
        .context("cannot start pip")?;
    if !installed.success() {
        bail!("pip cannot install {package}; is the Python registry reachable?");
    }
    Ok(())
}

/// Builds the measuring program and starts it as two ranks that do nothing.
fn try_it(name: &str, prefix: &Path, root: &Path) -> Result<()> {
    let sources = root.join("crates/bench/measure");
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in
        fs::read_dir(&sources).with_context(|| format!("cannot read {}", sources.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    files.sort();
    let program = prefix.join("bin/weft-measure");
    let built = Command::new(prefix.join("bin/mpicc"))
        .args(["-std=gnu11", "-O2", "-Wall", "-o"])
        .arg(&program)
        .args(&files)
        .status()
        .with_context(|| format!("{name}: cannot start its mpicc"))?;
    if !built.success() {
        bail!("{name}: its mpicc does not build the measuring program");
    }
    let mut start = Command::new(prefix.join("bin/mpiexec"));
    // Open MPI refuses root without these; MPICH does not know them.
    start
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let ran = start
        .args(["-n", "2"])
        .arg(&program)
        .stdin(Stdio::null())
        .status();
    if !ran
        .with_context(|| format!("{name}: cannot start its mpiexec"))?
        .success()
    {
        bail!("{name}: two ranks that only initialise and finalise end badly");
    }
    println!("{name}: builds the measuring program and runs it");
    Ok(())
}
