//! Discovery of what can be measured: implementations of MPI and programs of components, named by the user or
//! in the source tree.

use crate::implementation::Implementation;
use crate::program::Program;
use crate::results::Role;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Places in which a run looks for implementations and programs.
pub(super) struct Discovery<'a> {
    /// The prefix of Weft that the user named.
    ours: Option<&'a Path>,
    /// The peers that the user named, and their prefixes.
    peers: &'a [(String, PathBuf)],
    /// The source tree in which this program was built or is called.
    tree: Option<PathBuf>,
}

impl<'a> Discovery<'a> {
    /// A discovery in the places that the user names, and in the source tree if there is one.
    pub fn new(ours: Option<&'a Path>, peers: &'a [(String, PathBuf)]) -> Self {
        let tree = source_tree();
        Self { ours, peers, tree }
    }

    /// Finds ours and the peers, and builds the measuring program with each; returns also what is missing, in
    /// sentences.
    ///
    /// # Errors
    /// If a peer that the user named cannot be measured.
    pub fn implementations(&self) -> Result<(Vec<Implementation>, Vec<String>)> {
        let work = self.work();
        let (mut found, mut remarks) = (Vec::new(), Vec::new());
        match self
            .ours()
            .and_then(|prefix| Implementation::new("Weft", Role::Ours, &prefix, &work))
        {
            Ok(implementation) => found.push(implementation),
            Err(error) => remarks.push(format!("Weft itself is not measured: {error:#}")),
        }
        let mut peers = self.peers.to_vec();
        peers.retain(|(name, _)| !is_argobots(name));
        for (name, folder) in [("MPICH", "mpich"), ("Open MPI", "openmpi")] {
            let Some(prefix) = self
                .target()
                .map(|target| target.join("peers").join(folder))
            else {
                continue;
            };
            if prefix.exists() && !peers.iter().any(|(given, _)| given == name) {
                peers.push((name.into(), prefix));
            }
        }
        if peers.is_empty() {
            remarks.push("no other implementation is here to compare with; cargo xtask peers installs MPICH and Open MPI \
                      under target/peers, --peer NAME=PATH names any other".into());
        }
        for (name, prefix) in &peers {
            let given = self.peers.iter().any(|(given, _)| given == name);
            match Implementation::new(name, Role::Peer, prefix, &work) {
                Ok(implementation) => found.push(implementation),
                Err(error) if given => return Err(error),
                Err(error) => remarks.push(format!("left out: {error:#}")),
            }
        }
        Ok((found, remarks))
    }

    /// The programs of components: ours, those that `cargo xtask peers` built, and Argobots if the user names
    /// it; returns also what is missing, in sentences.
    ///
    /// # Errors
    /// If Argobots was named and its program cannot be built.
    pub fn programs(&self) -> Result<(Vec<Program>, Vec<String>)> {
        let mut found = vec![Program::ours()];
        let mut remarks = Vec::new();
        if let Some(target) = self.target() {
            found.extend(Program::peers_in(&target.join("peers/components")));
        }
        if found.len() == 1 {
            remarks.push(
            "no other library's components are here to compare with; cargo xtask peers builds them under \
             target/peers/components"
                .into(),
        );
        }
        for (_, prefix) in self.peers.iter().filter(|(name, _)| is_argobots(name)) {
            found.push(Program::argobots(prefix, &self.work())?);
        }
        Ok((found, remarks))
    }

    /// The folder in which programs are built for a run.
    fn work(&self) -> PathBuf {
        match self.target() {
            Some(target) => target.join("measure"),
            None => std::env::temp_dir().join(format!("weft-measure-{}", std::process::id())),
        }
    }

    /// The prefix of the Weft to measure: the named one, the one that contains this program, or a new one
    /// installed from the source tree.
    fn ours(&self) -> Result<PathBuf> {
        if let Some(prefix) = self.ours {
            return Ok(prefix.to_path_buf());
        }
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        if let Some(prefix) = program.parent().and_then(Path::parent)
            && prefix.join("include/mpi.h").exists()
            && prefix.join("bin/mpicc").exists()
        {
            return Ok(prefix.to_path_buf());
        }
        let tree = self.tree.as_deref().context(
            "this program stands neither in an installed Weft nor in the source tree; use --ours",
        )?;
        eprintln!("weft bench: laying out what is measured (cargo xtask dist)");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .current_dir(tree)
            .args(["run", "--quiet", "--package", "xtask", "--", "dist"])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        if !built.status.success() {
            bail!("cargo xtask dist ended badly ({})", built.status);
        }
        Ok(target(tree).join("dist"))
    }

    /// Cargo's target folder of the source tree.
    fn target(&self) -> Option<PathBuf> {
        self.tree.as_deref().map(target)
    }

    /// The commit of the source tree, marked if files differ from it; empty if unknown.
    pub fn commit(&self) -> String {
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .current_dir(self.tree.as_deref()?)
                .args(arguments)
                .stderr(Stdio::null())
                .output()
                .ok()?;
            output
                .status
                .success()
                .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
        };
        let Some(head) = git(&["rev-parse", "HEAD"]) else {
            return String::new();
        };
        let changed = git(&["status", "--porcelain", "--untracked-files=no"])
            .is_some_and(|text| !text.is_empty());
        if changed {
            format!("{head}-modified")
        } else {
            head
        }
    }
}

/// Whether a name given with `--peer` is that of a library of threads, not of an implementation of MPI.
fn is_argobots(name: &str) -> bool {
    name.eq_ignore_ascii_case("argobots")
}

/// The source tree in which this program was built or is called.
fn source_tree() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let here = std::env::current_dir().ok();
    let is_tree = |folder: &&Path| {
        folder.join("xtask/Cargo.toml").exists() && folder.join("crates/bench").exists()
    };
    [program, here]
        .into_iter()
        .flatten()
        .find_map(|start| start.ancestors().find(is_tree).map(Path::to_path_buf))
}

/// Cargo's target folder of a tree.
fn target(tree: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => tree.join(folder),
        None => tree.join("target"),
    }
}
