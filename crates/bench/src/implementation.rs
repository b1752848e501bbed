//! Implementations of MPI that a run compares: their location, the options of their launchers, and the
//! measuring program built with their own compiler wrapper.

use crate::hosts::HostsOnDemand;
use crate::results::Role;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The measuring program, embedded so that an installed `weft` needs no source tree.
const SOURCES: [(&str, &str); 19] = [
    ("measure.h", include_str!("../measure/measure.h")),
    ("main.c", include_str!("../measure/main.c")),
    ("point.c", include_str!("../measure/point.c")),
    ("stream.c", include_str!("../measure/stream.c")),
    ("collective.h", include_str!("../measure/collective.h")),
    ("collective.c", include_str!("../measure/collective.c")),
    ("forms.c", include_str!("../measure/forms.c")),
    ("routine.c", include_str!("../measure/routine.c")),
    ("matching.c", include_str!("../measure/matching.c")),
    ("raw.c", include_str!("../measure/raw.c")),
    ("switches.c", include_str!("../measure/switches.c")),
    ("flags.c", include_str!("../measure/flags.c")),
    ("idle.c", include_str!("../measure/idle.c")),
    ("beside.c", include_str!("../measure/beside.c")),
    ("rma.c", include_str!("../measure/rma.c")),
    ("io.c", include_str!("../measure/io.c")),
    ("threads.c", include_str!("../measure/threads.c")),
    ("packing.c", include_str!("../measure/packing.c")),
    ("instructions.c", include_str!("../measure/instructions.c")),
];

/// Dialect of a launcher: the options that it understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launcher {
    /// `-n N program`, nothing else is needed.
    Plain,
    /// Refuses root and more ranks than cores unless told otherwise.
    OpenMpi,
}

/// One implementation, with its measuring program.
#[derive(Clone, Debug)]
pub struct Implementation {
    /// Name in the legend.
    pub name: String,
    /// Ours or a peer.
    pub role: Role,
    prefix: PathBuf,
    launcher: Launcher,
    program: PathBuf,
    /// Whether ranks of one host use TCP, too.
    over_tcp: bool,
    /// Whether they use libfabric's provider tcp.
    over_libfabric: bool,
    /// The libfabric that ours then loads; `None`: the installed one.
    libfabric: Option<PathBuf>,
    /// Whether that is encrypted.
    encrypted: bool,
    /// Further options of the launcher.
    options: &'static [&'static str],
    /// Hosts, each of which runs half of the ranks.
    hosts: Option<HostsOnDemand>,
}

impl Implementation {
    /// Takes an installed implementation and builds the measuring program with it, in `work`.
    ///
    /// # Errors
    /// If there is no such folder, it lacks `bin/mpicc` or `bin/mpiexec`, or `mpicc` does not build the program:
    /// its first lines of output are in the error.
    pub fn new(name: &str, role: Role, prefix: &Path, work: &Path) -> Result<Implementation> {
        let prefix = prefix
            .canonicalize()
            .with_context(|| format!("{name}: there is no folder {}", prefix.display()))?;
        for tool in ["mpicc", "mpiexec"] {
            if !prefix.join("bin").join(tool).exists() {
                bail!(
                    "{name}: {} has no bin/{tool}; give the prefix that holds bin, lib and include",
                    prefix.display()
                );
            }
        }
        let version =
            output(Command::new(prefix.join("bin/mpiexec")).arg("--version")).unwrap_or_default();
        let launcher = if version.contains("Open MPI") || version.to_lowercase().contains("prte") {
            Launcher::OpenMpi
        } else {
            Launcher::Plain
        };
        let program = build(name, &prefix, work)?;
        Ok(Implementation {
            name: name.to_string(),
            role,
            prefix,
            launcher,
            program,
            over_tcp: false,
            over_libfabric: false,
            libfabric: None,
            encrypted: false,
            options: &[],
            hosts: None,
        })
    }

    /// The same over TCP between ranks of one host.
    #[must_use]
    pub fn over_tcp(&self) -> Implementation {
        Implementation {
            over_tcp: true,
            ..self.clone()
        }
    }

    /// The same over libfabric's provider tcp between ranks of one host. Ours loads the first libfabric that any of `all` includes, so
    /// that all are compared over the same one; otherwise the installed one.
    #[must_use]
    pub fn over_libfabric(&self, all: &[Implementation]) -> Implementation {
        Implementation {
            over_libfabric: true,
            libfabric: all.iter().find_map(Implementation::libfabric_of_its_own),
            ..self.clone()
        }
    }

    /// The libfabric that is included with it.
    fn libfabric_of_its_own(&self) -> Option<PathBuf> {
        ["lib/mpich", "lib/openmpi", "lib"]
            .map(|folder| self.prefix.join(folder).join("libfabric.so.1"))
            .into_iter()
            .find(|library| library.exists())
    }

    /// The same with encryption, if the way is known.
    #[must_use]
    pub fn encrypted(&self) -> Option<Implementation> {
        (self.role == Role::Ours).then(|| Implementation {
            encrypted: true,
            ..self.over_tcp()
        })
    }

    /// Ours twice more: with a profile, and with a timeline, which nobody reads.
    #[must_use]
    pub fn recording(&self) -> Option<[Implementation; 2]> {
        const OPTIONS: [&[&str]; 2] = [&["--profile=/dev/null"], &["--timeline", "/dev/null"]];
        (self.role == Role::Ours).then(|| {
            OPTIONS.map(|options| Implementation {
                options,
                ..self.clone()
            })
        })
    }

    /// The same with half of its ranks on each of two hosts, if the way is known.
    #[must_use]
    pub fn over_hosts(&self, hosts: &HostsOnDemand) -> Option<Implementation> {
        let known = self.role == Role::Ours || self.hydra().is_some();
        known.then(|| Implementation {
            hosts: Some(hosts.clone()),
            ..self.clone()
        })
    }

    /// The same without the checks that are on by default, of ours.
    #[must_use]
    pub fn unchecked(&self) -> Option<Implementation> {
        (self.role == Role::Ours).then(|| Implementation {
            options: &["--check=off", "--no-deadlock-check"],
            ..self.clone()
        })
    }

    /// The launcher's command line for the measuring program; its arguments are still to be added.
    ///
    /// # Errors
    /// If it runs on several hosts, and these cannot be made.
    pub fn command(&self, ranks: u32, cores: usize) -> Result<Command> {
        if let Some(hosts) = &self.hosts {
            let (hosts, each) = (hosts.get()?, ranks as usize / 2);
            let mut command = match self.hydra().filter(|_| self.role != Role::Ours) {
                Some(hydra) => hosts.by_hydra(hydra, each),
                None => hosts.by_ours(self.tool("mpiexec"), each),
            };
            command.arg(&self.program);
            return Ok(command);
        }
        let mut command = Command::new(self.prefix.join("bin/mpiexec"));
        command.arg("-n").arg(ranks.to_string());
        if self.launcher == Launcher::OpenMpi {
            command
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            if ranks as usize > cores {
                command.args(["--map-by", ":OVERSUBSCRIBE"]);
            }
        }
        if self.over_tcp {
            match (self.role, self.launcher) {
                (Role::Ours, _) => command.args(["--fabric", "tcp"]),
                (_, Launcher::OpenMpi) => {
                    command.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"])
                }
                // MPICH, whichever of its two network modules was built in.
                (_, Launcher::Plain) => command
                    .env("MPIR_CVAR_NOLOCAL", "1")
                    .env("FI_PROVIDER", "tcp")
                    .env("UCX_TLS", "tcp,self"),
            };
        }
        if self.over_libfabric {
            match (self.role, self.launcher) {
                (Role::Ours, _) => {
                    if let Some(library) = &self.libfabric {
                        command.env("WEFT_LIBFABRIC", library);
                    }
                    command.args(["--fabric", "ofi:tcp"])
                }
                (_, Launcher::OpenMpi) => command
                    .args(["--mca", "pml", "cm", "--mca", "mtl", "ofi"])
                    .args(["--mca", "mtl_ofi_provider_include", "tcp"])
                    .args(["--mca", "opal_common_ofi_provider_include", "tcp"])
                    .env("FI_PROVIDER", "tcp"),
                (_, Launcher::Plain) => command
                    .env("MPIR_CVAR_NOLOCAL", "1")
                    .env("MPIR_CVAR_CH4_NETMOD", "ofi")
                    .env("FI_PROVIDER", "tcp"),
            };
        }
        if self.encrypted {
            command.arg("--encrypt");
        }
        command.args(self.options);
        command.arg(&self.program).stdin(Stdio::null());
        Ok(command)
    }

    /// A program of the implementation.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    /// The measuring program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its launcher, if that is Hydra: the one that starts ranks of any implementation.
    pub fn hydra(&self) -> Option<PathBuf> {
        let hydra = self.tool("mpiexec.hydra");
        hydra.exists().then_some(hydra)
    }

    /// Note for the reader of the page on what [`Implementation::command`] adds to the plain command line.
    pub fn launch_note(&self) -> String {
        match self.launcher {
            Launcher::Plain => "mpiexec -n N, no option".into(),
            Launcher::OpenMpi => {
                "mpiexec -n N; allowed to run as root; --map-by :OVERSUBSCRIBE where N is more \
                                  than the cores, or it refuses to start"
                    .into()
            }
        }
    }
}

/// The first lines of a command's output, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds the measuring program with the implementation's own wrapper.
fn build(name: &str, prefix: &Path, work: &Path) -> Result<PathBuf> {
    let folder = work.join(
        name.to_lowercase()
            .replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"),
    );
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (file, text) in SOURCES {
        std::fs::write(folder.join(file), text)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    let program = folder.join("measure");
    let wrapper = prefix.join("bin/mpicc");
    let built = Command::new(&wrapper)
        .current_dir(&folder)
        .args(["-std=gnu11", "-O2", "-Wall", "-o", "measure"])
        .args(
            SOURCES
                .iter()
                .map(|(file, _)| *file)
                .filter(|file| file.ends_with(".c")),
        )
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name}: cannot start {}", wrapper.display()))?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr);
        let first: Vec<&str> = said.lines().take(12).collect();
        bail!(
            "{name}: {} does not build the measuring program:\n{}",
            wrapper.display(),
            first.join("\n")
        );
    }
    if !program.exists() {
        bail!(
            "{name}: {} says that it built the measuring program, but made no file",
            wrapper.display()
        );
    }
    Ok(program)
}
