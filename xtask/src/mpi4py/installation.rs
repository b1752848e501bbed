//! What the run needs: the MPI under test, a Python of our own, mpi4py built against that MPI, and the
//! test files of the same source distribution.
//!
//! ```text
//! target/mpi4py/python/            virtual environment: Cython, setuptools, numpy
//! target/mpi4py/mpi4py-VERSION/    the unpacked source distribution: test/, demo/
//! target/mpi4py/built-KEY/         mpi4py, built; KEY is made of the headers that it was built with
//! target/mpi4py/wheel-VERSION/     mpi4py as the registry has it, built with MPICH and with Open MPI
//! target/mpi4py/logs/              what the runs leave
//! ```

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::network::Network;

/// The version that the lists in `tests/mpi4py` speak of.
const VERSION: &str = "4.1.2";

/// The MPI under test.
pub struct Mpi {
    /// Its compiler wrapper.
    pub mpicc: PathBuf,
    /// Its launcher.
    pub mpiexec: PathBuf,
    /// The folder of its library, put in `LD_LIBRARY_PATH`.
    pub libraries: PathBuf,
    /// The folder of its headers.
    pub headers: PathBuf,
}

impl Mpi {
    /// The MPI installed at `prefix`, with other tools if the caller names them.
    pub fn at(prefix: &Path, mpicc: Option<&Path>, mpiexec: Option<&Path>) -> Result<Self> {
        let prefix = fs::canonicalize(prefix).with_context(|| {
            format!(
                "there is no installation at {}; cargo xtask dist makes one",
                prefix.display()
            )
        })?;
        let mpicc = match mpicc {
            Some(named) => named.to_path_buf(),
            // MPICH has a second wrapper for the standard ABI, which mpi4py is built for.
            None => [prefix.join("bin/mpicc_abi"), prefix.join("bin/mpicc")]
                .into_iter()
                .find(|path| path.exists())
                .with_context(|| format!("{} has no bin/mpicc", prefix.display()))?,
        };
        let mpiexec = mpiexec.map_or_else(|| prefix.join("bin/mpiexec"), Path::to_path_buf);
        if !mpiexec.exists() {
            bail!("{} does not exist", mpiexec.display());
        }
        Ok(Self {
            mpicc,
            mpiexec,
            libraries: prefix.join("lib"),
            headers: prefix.join("include"),
        })
    }
}

/// Everything that a run needs, in place.
pub struct Installation {
    /// The MPI under test.
    pub mpi: Mpi,
    python: PathBuf,
    package: PathBuf,
    /// The folder of the test files.
    pub suite: PathBuf,
    /// The folder of the demonstration programs.
    pub demo: PathBuf,
    /// The folder for what the runs leave.
    pub logs: PathBuf,
    /// The library that the wheel of the registry is to load.
    library: Option<PathBuf>,
    /// Where jobs run.
    pub place: Place,
}

/// Where jobs run.
#[derive(Default)]
pub struct Place {
    /// Options of `mpiexec`.
    pub options: Vec<String>,
    /// Hosts made for the purpose; without them, this one.
    pub network: Option<Network>,
}

impl Installation {
    /// Makes what is not there yet, below `home`. With the name of a library, mpi4py is the one of the registry, which was built
    /// elsewhere for the ABIs of MPICH and Open MPI.
    pub fn prepare(home: &Path, mpi: Mpi, library: Option<&str>) -> Result<Self> {
        fs::create_dir_all(home.join("logs"))
            .with_context(|| format!("cannot make {}", home.display()))?;
        let environment = home.join("python");
        let python = environment.join("bin/python");
        if !environment.join("ready").exists() {
            make_python(&environment, &python)?;
        }
        let source = home.join(format!("mpi4py-{VERSION}"));
        let archive = home.join(format!("mpi4py-{VERSION}.tar.gz"));
        if !source.join("test").exists() {
            fetch(home, &python, &archive)?;
        }
        let package = match library {
            Some(_) => home.join(format!("wheel-{VERSION}")),
            None => home.join(format!("built-{:016x}", key(&mpi)?)),
        };
        if !package.join("ready").exists() {
            match library {
                Some(_) => install_wheel(&python, &package)?,
                None => build(&python, &archive, &package, &mpi)?,
            }
        }
        Ok(Self {
            library: library.map(|name| mpi.libraries.join(name)),
            mpi,
            python,
            package,
            suite: source.join("test"),
            demo: source.join("demo"),
            logs: home.join("logs"),
            place: Place::default(),
        })
    }

    /// What the library under test calls itself: mpi4py may have been linked with another.
    pub fn library(&self) -> Result<String> {
        let output = self
            .mpiexec(1)
            .args([
                "-c",
                "from mpi4py import MPI; print(MPI.Get_library_version())",
            ])
            .output()
            .context("cannot start mpiexec")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("mpi4py cannot be imported ({}):\n{text}", output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().trim().to_string())
    }

    /// `mpiexec -n ranks python`, to which the caller adds what Python shall run.
    pub fn mpiexec(&self, ranks: u32) -> Command {
        let mut command = match &self.place.network {
            None => Command::new(&self.mpi.mpiexec),
            Some(network) => network.on(0, &self.mpi.mpiexec.to_string_lossy()),
        };
        if let Some(network) = &self.place.network {
            let hosts = &network.hosts[..network.hosts.len().min(ranks as usize)];
            let hosts = hosts.join(",");
            command.args(["--launch-command", "ip netns exec", "--hosts", &hosts]);
        }
        let mut paths = self.package.clone().into_os_string();
        paths.push(":");
        paths.push(&self.suite);
        command
            .args(&self.place.options)
            .args(["-n", &ranks.to_string()])
            .arg(&self.python)
            .env("LD_LIBRARY_PATH", &self.mpi.libraries)
            // Which of its extension modules a wheel loads is a matter of the library.
            .env_remove("MPI4PY_MPIABI")
            .env_remove("MPI4PY_LIBMPI")
            .envs(self.library.iter().map(|file| ("MPI4PY_LIBMPI", file)))
            // The package; and the tests, which processes that are started later import.
            .env("PYTHONPATH", paths)
            .env("PYTHONUNBUFFERED", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // numpy's own threads would only compete with the ranks.
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::null());
        command
    }
}

/// A number that changes when mpi4py has to be built again: the headers, the wrapper, the version.
fn key(mpi: &Mpi) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    VERSION.hash(&mut hasher);
    mpi.mpicc.hash(&mut hasher);
    let mut headers: Vec<PathBuf> = fs::read_dir(&mpi.headers)
        .with_context(|| format!("cannot read {}", mpi.headers.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "h"))
        .collect();
    headers.sort();
    if !headers.iter().any(|path| path.ends_with("mpi.h")) {
        bail!("{} has no mpi.h", mpi.headers.display());
    }
    for path in headers {
        fs::read(&path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// A virtual environment with what building mpi4py needs, and numpy, which more tests use.
fn make_python(environment: &Path, python: &Path) -> Result<()> {
    println!("python: making {}", environment.display());
    let made = Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(environment)
        .status()
        .context("cannot start python3; install it (on Debian: apt-get install python3 python3-venv python3-dev)")?;
    if !made.success() {
        bail!("python3 -m venv ended badly; on Debian it is in the package python3-venv");
    }
    pip(python, &["install", "setuptools>=77", "cython>=3.1"], &[])?;
    if let Err(cause) = pip(python, &["install", "--only-binary", ":all:", "numpy"], &[]) {
        println!("python: going on without numpy ({cause}); tests that need it skip themselves");
    }
    mark(environment)
}

/// Gets the source distribution and unpacks it.
fn fetch(home: &Path, python: &Path, archive: &Path) -> Result<()> {
    println!("mpi4py {VERSION}: getting the source distribution");
    let wanted = format!("mpi4py=={VERSION}");
    let folder = home.to_string_lossy();
    pip(
        python,
        &[
            "download",
            "--no-deps",
            "--no-build-isolation",
            "--no-binary",
            "mpi4py",
            "-d",
            &folder,
            &wanted,
        ],
        &[],
    )?;
    let unpacked = Command::new(python)
        .args(["-m", "tarfile", "-e"])
        .arg(archive)
        .arg(home)
        .status()
        .context("cannot start python")?;
    if !unpacked.success() {
        bail!("cannot unpack {}", archive.display());
    }
    Ok(())
}

/// Installs mpi4py as the registry has it, built.
fn install_wheel(python: &Path, package: &Path) -> Result<()> {
    println!("mpi4py {VERSION}: installing the wheel");
    let (wanted, target) = (format!("mpi4py=={VERSION}"), package.to_string_lossy());
    pip(
        python,
        &[
            "install",
            "--no-deps",
            "--no-cache-dir",
            "--only-binary",
            ":all:",
            "--upgrade",
            "--target",
            &target,
            &wanted,
        ],
        &[],
    )?;
    mark(package)
}

/// Builds mpi4py from source with the compiler wrapper under test.
fn build(python: &Path, archive: &Path, package: &Path, mpi: &Mpi) -> Result<()> {
    println!("mpi4py {VERSION}: building with {}", mpi.mpicc.display());
    if package.exists() {
        fs::remove_dir_all(package)
            .with_context(|| format!("cannot remove {}", package.display()))?;
    }
    let (archive, target) = (archive.to_string_lossy(), package.to_string_lossy());
    let (mpicc, flags) = (mpi.mpicc.to_string_lossy(), flags(mpi));
    pip(
        python,
        &[
            "install",
            "--no-deps",
            "--no-build-isolation",
            "--no-cache-dir",
            "--no-binary",
            "mpi4py",
            "--target",
            &target,
            &archive,
        ],
        // Without optimization it is built in a fifth of the time; what is tested is not its speed.
        &[
            ("MPI4PY_BUILD_MPIABI", "1"),
            ("MPI4PY_BUILD_MPICC", &mpicc),
            ("CFLAGS", &flags),
        ],
    )?;
    mark(package)
}

/// Flags of the compiler. mpi4py asks for the extension for fault tolerance in libraries that it knows by name only; with
/// another one that has it, it is to be told.
fn flags(mpi: &Mpi) -> String {
    let mut flags = "-O0 -g0".to_owned();
    if mpi.headers.join("mpi-ext.h").exists() {
        let functions = [
            "revoke",
            "is_revoked",
            "get_failed",
            "ack_failed",
            "agree",
            "iagree",
            "shrink",
            "ishrink",
        ];
        let functions = functions.map(|name| format!("Comm_{name}"));
        let classes = ["REVOKED", "PROC_FAILED", "PROC_FAILED_PENDING"];
        let classes = classes.map(|name| format!("ERR_{name}"));
        for name in functions.iter().chain(&classes) {
            flags += &format!(" -DPyMPI_HAVE_MPIX_{name}=1");
        }
    }
    flags
}

/// Runs pip; its output appears only when it fails.
fn pip(python: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let output = Command::new(python)
        .args(["-m", "pip", "--disable-pip-version-check"])
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(25)..].join("\n");
    bail!(
        "pip {} ended badly ({}):\n{tail}",
        arguments.join(" "),
        output.status
    )
}

/// Says that a folder is complete: one left half-made by an interruption is made again.
fn mark(folder: &Path) -> Result<()> {
    fs::write(folder.join("ready"), "")
        .with_context(|| format!("cannot write in {}", folder.display()))
}
