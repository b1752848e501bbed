//! `cargo xtask dist`: builds Weft in release and lays it out as an installation.
//!
//! ```text
//! PREFIX/bin/      weft; mpiexec, mpirun, mpicc, mpicxx, mpic++, mpiCC, mpifort, mpif90, mpif77 are links to it
//! PREFIX/lib/      libmpi_abi.so.1, libmpi_fortran.so.1, and the same without a number as links to them; libmpi.so.12 and
//!                  libmpifort.so.12 for programs of MPICH, and the names that Debian has for these; libmpi.so.40 and
//!                  libmpi_mpifh.so.40 for programs of Open MPI
//! PREFIX/include/  mpi.h and what else C programs include; mpif.h, and the sources of the modules for Fortran
//! PREFIX/share/    the examples; what other tools look for there and in lib/: see `packages`
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ciphers::Ciphers;
use crate::rooms::root;

/// Where to lay it out.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder that gets bin, lib, include, share. Default: dist in cargo's target folder.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

/// Names under which the one program answers.
const NAMES: [&str; 9] = [
    "mpiexec", "mpirun", "mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif90", "mpif77",
];

/// Builds and lays out; prints the prefix on standard output.
pub fn run(arguments: &Arguments) -> Result<()> {
    println!("{}", lay_out(arguments.prefix.as_deref())?.display());
    Ok(())
}

/// Builds and lays out; answers the prefix.
pub fn lay_out(prefix: Option<&Path>) -> Result<PathBuf> {
    let root = root()?;
    let target = target(&root);
    let prefix = match prefix {
        Some(prefix) => std::env::current_dir()?.join(prefix),
        None => target.join("dist"),
    };
    let profile = profile();
    let mut build = cargo();
    if profile != RELEASE {
        Ciphers::are_built(&mut build)?;
    }
    let status = build
        .current_dir(&root)
        .args([
            "build",
            "--profile",
            &profile,
            "--package",
            "weft",
            "--package",
            "weft-abi",
            "--package",
            "weft-abi-mpich",
            "--package",
            "weft-abi-openmpi",
            "--package",
            "weft-abi-fortran",
            "--package",
            "weft-abi-mpich-fortran",
            "--package",
            "weft-abi-openmpi-fortran",
        ])
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo build --profile {profile} ended badly ({status})");
    }
    let built = target.join(&profile);
    let libraries = LIBRARIES.map(|(name, _)| built.join(name));
    arrange(
        &prefix,
        &built.join("weft"),
        libraries.each_ref().map(PathBuf::as_path),
    )?;
    Ok(prefix)
}

const RELEASE: &str = "release";

/// Cargo's profile with which it is built: that of releases, or as the environment says, for what is only to be tested.
fn profile() -> String {
    std::env::var("WEFT_DIST_PROFILE").unwrap_or_else(|_| RELEASE.to_owned())
}

/// Libraries: as cargo names them, and as programs ask for them. `libmpi.so` for linkers is not among them: whoever builds a
/// program with Weft builds it for the standard ABI.
pub const LIBRARIES: [(&str, &str); 6] = [
    ("libmpi_abi.so", "libmpi_abi.so.1"),
    ("libmpi.so", "libmpi.so.12"),
    ("libmpi_fortran.so", "libmpi_fortran.so.1"),
    ("libmpifort.so", "libmpifort.so.12"),
    ("libmpi_openmpi.so", "libmpi.so.40"),
    ("libmpi_mpifh.so", "libmpi_mpifh.so.40"),
];

/// Other names of libraries, which programs of Debian and Ubuntu ask for: libraries with nothing in them, which need the one that is
/// meant. Copies would be two libraries in one process, and a link has no place in a wheel.
pub const OTHER_NAMES: [(&str, &str); 2] = [
    ("libmpich.so.12", "libmpi.so.12"),
    ("libmpichfort.so.12", "libmpifort.so.12"),
];

/// Libraries by the names by which linkers find them.
pub const LINKED: [(&str, &str); 2] = [LIBRARIES[0], LIBRARIES[2]];

/// Lays out an installation of this command and of these [`LIBRARIES`], and of what is in the tree.
pub fn arrange(prefix: &Path, program: &Path, libraries: [&Path; LIBRARIES.len()]) -> Result<()> {
    let root = root()?;
    for folder in ["bin", "lib", "include", "share/weft/examples"] {
        fs::create_dir_all(prefix.join(folder))
            .with_context(|| format!("cannot make {}", prefix.join(folder).display()))?;
    }
    put(program, &prefix.join("bin/weft"))?;
    for name in NAMES {
        link("weft", &prefix.join("bin").join(name))?;
    }
    for (library, (_, wanted)) in libraries.iter().zip(LIBRARIES) {
        put(library, &prefix.join("lib").join(wanted))?;
    }
    for (other, wanted) in OTHER_NAMES {
        replace(&prefix.join("lib").join(other), |beside| {
            name(other, &prefix.join("lib").join(wanted), beside)
        })?;
    }
    for (short, wanted) in LINKED {
        link(wanted, &prefix.join("lib").join(short))?;
    }
    copy_tree(&root.join("crates/abi/include"), &prefix.join("include"))?;
    copy_tree(
        &root.join("crates/abi-fortran/modules"),
        &prefix.join("include"),
    )?;
    copy_tree(&root.join("examples"), &prefix.join("share/weft/examples"))?;
    crate::packages::lay_out(prefix)
}

/// The cargo that called this program, or the one on the path, as if called from a shell.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    from_shell(&mut cargo);
    cargo
}

/// Takes out of a command's environment what cargo told *this* program about its package. Build scripts
/// watch those variables (that of `ring` does): a cargo that inherits them builds again what did not
/// change, and so does the next one without them.
pub fn from_shell(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Cargo's target folder.
pub fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// Puts a file in place.
fn put(from: &Path, to: &Path) -> Result<()> {
    replace(to, |beside| fs::copy(from, beside).map(drop))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Makes a library of this name that needs another one, which stands beside it. Where no object says that it needs no
/// executable stack, linkers leave out the header that says so of the library; whoever loads it would then get such a stack, or
/// (from glibc 2.41 on) an error.
fn name(name: &str, needed: &Path, at: &Path) -> io::Result<()> {
    let made = Command::new("cc")
        .args(["-shared", "-nostdlib", "-s", "-Wl,--no-as-needed"])
        .arg(needed)
        .arg(format!("-Wl,-soname,{name}"))
        .args(["-Wl,-z,noexecstack", "-Wl,-rpath,$ORIGIN"])
        .args(["-Wl,--allow-shlib-undefined", "-o"])
        .arg(at)
        .status()?;
    match made.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("cc: {made}"))),
    }
}

/// Makes a link, replacing what stands there.
fn link(to: &str, at: &Path) -> Result<()> {
    replace(at, |beside| symlink(to, beside))
        .with_context(|| format!("cannot link {} to {to}", at.display()))
}

/// Puts what is made beside it in place by a rename: what runs from there is not disturbed, also by two who lay out the same
/// installation at a time.
pub fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let name = path.file_name().context("a file without a name")?;
    let name = name.to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // Of one who was killed and had this number.
    let _ = fs::remove_file(&beside);
    make(&beside)?;
    fs::rename(&beside, path).with_context(|| format!("cannot put {} in place", path.display()))
}

/// Copies the files of a folder and of those in it; a folder that does not exist is empty.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let here = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &here)?
        } else {
            put(&entry.path(), &here)?
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_links_are_replaced() {
        let folder = std::env::temp_dir().join(format!("weft-dist-test-{}", std::process::id()));
        fs::create_dir_all(folder.join("from/inner")).expect("folder");
        for text in ["one", "two"] {
            fs::write(folder.join("from/inner/file"), text).expect("file");
            copy_tree(&folder.join("from"), &folder.join("to")).expect("copy");
            link("inner/file", &folder.join("to/link")).expect("link");
            assert_eq!(
                fs::read_to_string(folder.join("to/link")).expect("read"),
                text
            );
        }
        let names: Vec<_> = fs::read_dir(folder.join("to/inner"))
            .expect("read")
            .collect();
        assert_eq!(names.len(), 1, "nothing half-made is left beside the file");
        fs::remove_dir_all(&folder).expect("clean");
    }

    /// Flags of the header of a program file (ELF, 64 bits) that speaks of the stack.
    fn flags_of_stack(file: &[u8]) -> Option<u32> {
        const STACK: u32 = 0x6474_e551;
        let number = |at: usize, bytes: usize| {
            let bytes = file[at..at + bytes].iter().rev();
            bytes.fold(0, |number: usize, byte| number << 8 | usize::from(*byte))
        };
        let (table, each, count) = (number(32, 8), number(54, 2), number(56, 2));
        let headers = (0..count).map(|index| table + index * each);
        let mut stacks = headers.filter(|at| number(*at, 4) as u32 == STACK);
        stacks.next().map(|at| number(at + 4, 4) as u32)
    }

    #[test]
    fn another_name_of_a_library_asks_for_no_executable_stack() {
        const EXECUTABLE: u32 = 1;
        let folder = tempfile::tempdir().expect("a folder");
        let (meant, other) = (folder.path().join("one.so"), folder.path().join("other.so"));
        let made = Command::new("cc")
            .args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(&meant)
            .status();
        assert!(made.expect("a C compiler").success());
        name("other.so", &meant, &other).expect("a library");
        let flags = flags_of_stack(&fs::read(&other).expect("read"));
        assert_eq!(flags.map(|flags| flags & EXECUTABLE), Some(0));
    }
}
