//! `cargo xtask wheel`: Weft as a package of Python, `weft-mpi`, for users who have `pip` and no Rust
//! compiler.
//!
//! ```text
//! target/wheel/weft_mpi-VERSION-py3-none-manylinux_X_Y_x86_64.whl
//!     weft_mpi-VERSION.data/data/bin, lib, include, share     go into the environment as they are
//!     weft_mpi-VERSION.dist-info/                             name, licences
//! target/wheel/tools/                                         environment with the packer
//! target/wheel/environment/                                   environment into which the wheel was installed
//! ```
//!
//! It is the installation of `cargo xtask dist` with these differences. It has no symbols for debuggers, and the command no tables by which its
//! stack could be read: without symbols, a backtrace would be numbers. Because an archive of this kind has no links, the names of the one program are scripts, and `libmpi_abi.so` is a line for the linker. The
//! platform tag names the oldest C library that has all the symbols that these files need.

use std::fs;
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::{self, target};
use crate::rooms::root;

/// Where to put it.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder that gets the wheel. Default: wheel in cargo's target folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also installs it by pip in an environment of its own, and runs programs in C and C++ there.
    #[arg(long)]
    check: bool,
}

/// The scripts: a name, and the word that tells the command which one it is.
const SCRIPTS: [(&str, &str); 9] = [
    ("mpiexec", "mpiexec"),
    ("mpirun", "mpirun"),
    ("mpicc", "mpicc"),
    ("mpicxx", "mpicxx"),
    ("mpic++", "mpicxx"),
    ("mpiCC", "mpicxx"),
    ("mpifort", "mpifort"),
    ("mpif90", "mpifort"),
    ("mpif77", "mpifort"),
];

/// The one program.
const COMMAND: &str = "bin/weft";

/// The sections by which the stack of a program can be read, and its functions be left by an exception.
const TABLES_OF_FRAMES: [&str; 3] = [".eh_frame", ".eh_frame_hdr", ".gcc_except_table"];

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds it; prints its path on standard output.
pub fn run(arguments: &Arguments) -> Result<()> {
    let home = target(&root()?).join("wheel");
    let wheel = build(&home, arguments.out.as_deref().unwrap_or(&home))?;
    compress(&home, &wheel)?;
    if arguments.check {
        check(&install(&home, &wheel)?)?;
    }
    println!("{}", wheel.display());
    Ok(())
}

/// Builds the wheel and installs it; returns the prefix. In a folder of its own, for another process may build the one that is
/// to be published meanwhile; and not compressed as far as possible, which changes none of its files.
pub fn installed() -> Result<PathBuf> {
    let home = target(&root()?).join("wheel-installed");
    let wheel = build(&home, &home)?;
    install(&home, &wheel)
}

/// Builds the wheel into the folder `out`.
fn build(home: &Path, out: &Path) -> Result<PathBuf> {
    let root = root()?;
    let built = dist::lay_out(None)?;
    let tree = home.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    let data = tree.join(format!("weft_mpi-{VERSION}.data/data"));
    let name = tree.join(format!("weft_mpi-{VERSION}.dist-info"));
    for folder in [&data.join("bin"), &data.join("lib"), &name.join("licenses")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let libraries = dist::LIBRARIES.map(|(_, name)| name).into_iter();
    let others = dist::OTHER_NAMES.map(|(name, _)| name);
    let parts: Vec<String> = iter::once(COMMAND.to_owned())
        .chain(libraries.chain(others).map(|name| format!("lib/{name}")))
        .collect();
    for part in &parts {
        let tables: &[&str] = match part.as_str() {
            COMMAND => &TABLES_OF_FRAMES,
            // Programs have their stacks read through the libraries: to say where in the program a call is.
            _ => &[],
        };
        strip(&built.join(part), tables, &data.join(part))?;
    }
    forget_frames(&data.join(COMMAND))?;
    for (script, word) in SCRIPTS {
        let text = format!(
            "#!/bin/sh\nexec \"$(dirname -- \"$(readlink -f -- \"$0\")\")/weft\" {word} \"$@\"\n"
        );
        let path = data.join("bin").join(script);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    for (short, wanted) in dist::LINKED {
        fs::write(data.join("lib").join(short), format!("INPUT({wanted})\n"))?;
    }
    dist::copy_tree(&built.join("include"), &data.join("include"))?;
    dist::copy_tree(&built.join("share"), &data.join("share"))?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root.join(license), name.join("licenses").join(license))
            .with_context(|| format!("cannot copy {license}"))?;
    }
    let needs: Vec<_> = parts.iter().map(|part| data.join(part)).collect();
    let (major, minor) = c_library(&needs)?;
    let machine = std::env::consts::ARCH;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{machine}");
    fs::write(
        name.join("WHEEL"),
        format!(
            "Wheel-Version: 1.0\nGenerator: cargo xtask wheel\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ),
    )?;
    fs::write(name.join("METADATA"), metadata(&root)?)?;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut pack = Command::new(tools(home)?);
    pack.args(["-m", "wheel", "pack", "--dest-dir"])
        .arg(out)
        .arg(&tree);
    succeed(&mut pack, "wheel pack")?;
    Ok(out.join(format!("weft_mpi-{VERSION}-{tag}.whl")))
}

/// The interpreter that has what packs wheels.
fn tools(home: &Path) -> Result<PathBuf> {
    environment(&home.join("tools"), &["wheel", "zopfli"])
}

/// Makes the wheel as small as the format allows.
fn compress(home: &Path, wheel: &Path) -> Result<()> {
    let mut compress = Command::new(tools(home)?);
    compress
        .arg(root()?.join("xtask/src/wheel/pack.py"))
        .arg(wheel);
    succeed(&mut compress, "pack.py")
}

/// The metadata that `pip show` and an index display.
fn metadata(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    Ok(format!(
        "Metadata-Version: 2.4\nName: weft-mpi\nVersion: {VERSION}\n\
         Summary: MPI 5 for Linux: mpiexec, mpicc and libmpi_abi\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n\
         Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{text}"
    ))
}

/// A copy without symbols for debuggers, and without these sections.
fn strip(from: &Path, sections: &[&str], to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    for section in sections {
        strip.args(["--remove-section", section]);
    }
    strip.args(["--strip-unneeded", "-o"]).arg(to).arg(from);
    succeed(
        &mut strip,
        "strip (it comes with the C compiler, in binutils)",
    )
}

/// Takes away the header of a program file (ELF, 64 bits) that says where the table of its frames is: who panics would look for the table
/// there when it is no more.
fn forget_frames(path: &Path) -> Result<()> {
    const FRAMES: u64 = 0x6474_e550;
    const NOTHING: [u8; 4] = [0; 4];
    let mut file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let number = |file: &[u8], at: usize, bytes: usize| -> Option<u64> {
        let bytes = file.get(at..at + bytes)?.iter().rev();
        Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let headers = || -> Option<Vec<usize>> {
        let table = usize::try_from(number(&file, 32, 8)?).ok()?;
        let (each, count) = (
            number(&file, 54, 2)? as usize,
            number(&file, 56, 2)? as usize,
        );
        Some((0..count).map(|index| table + index * each).collect())
    };
    let headers = headers().with_context(|| format!("{} has no headers", path.display()))?;
    for at in headers {
        if number(&file, at, 4) == Some(FRAMES) {
            file[at..at + 4].copy_from_slice(&NOTHING);
        }
    }
    fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))
}

/// The oldest version of the C library that has all the symbols that these files need.
fn c_library(files: &[PathBuf]) -> Result<(u32, u32)> {
    let mut read = Command::new("objdump");
    let output = read
        .arg("-p")
        .args(files)
        .output()
        .context("cannot start objdump (it comes with the C compiler, in binutils)")?;
    newest(&String::from_utf8_lossy(&output.stdout))
        .context("objdump names no version of the C library")
}

/// The newest of the versions `GLIBC_X.Y` in a text.
fn newest(text: &str) -> Option<(u32, u32)> {
    let found = text.split_whitespace().filter_map(|word| {
        let mut numbers = word.strip_prefix("GLIBC_")?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    found.max()
}

/// A virtual environment with these packages; returns its Python.
fn environment(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    let ready = folder.join("ready");
    let wanted = packages.join(" ");
    if fs::read_to_string(&ready).ok().as_deref() != Some(&wanted) {
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(folder);
        succeed(
            &mut make,
            "python3 -m venv (on Debian in the package python3-venv)",
        )?;
        if !packages.is_empty() {
            let mut install = Command::new(&python);
            install.args([
                "-m",
                "pip",
                "--disable-pip-version-check",
                "install",
                "--quiet",
            ]);
            succeed(install.args(packages), "pip install")?;
        }
        fs::write(&ready, wanted)?;
    }
    Ok(python)
}

/// Installs the wheel in a fresh environment, without the network; returns its prefix.
fn install(home: &Path, wheel: &Path) -> Result<PathBuf> {
    let prefix = home.join("environment");
    if prefix.exists() {
        fs::remove_dir_all(&prefix)
            .with_context(|| format!("cannot remove {}", prefix.display()))?;
    }
    let python = environment(&prefix, &[])?;
    let mut install = Command::new(python);
    install
        .args(["-m", "pip", "--disable-pip-version-check", "install"])
        .args(["--quiet", "--no-index"])
        .arg(wheel);
    succeed(&mut install, "pip install of the wheel")?;
    Ok(prefix)
}

/// Programs in C and C++, built and run with the files of the wheel and nothing else of this tree.
fn check(prefix: &Path) -> Result<()> {
    let root = root()?;
    let bin = prefix.join("bin");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let clean = |program: &str| {
        let mut command = Command::new(bin.join(program));
        command.env_clear().env("PATH", &path).current_dir(prefix);
        command
    };
    for (compiler, language) in [("mpicc", "c"), ("mpicxx", "c++"), ("mpic++", "c++")] {
        let program = prefix.join(format!("program-{compiler}"));
        let source = root.join("tests/programs/wheel.c");
        let mut compile = clean(compiler);
        compile.args(["-x", language]).arg(source).arg("-o");
        succeed(compile.arg(&program), compiler)?;
        for launcher in ["mpiexec", "mpirun"] {
            let mut run = clean(launcher);
            let output = run
                .args(["-n", "2"])
                .arg(&program)
                .output()
                .with_context(|| format!("cannot start {launcher}"))?;
            let said = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() || !said.contains("2 ranks on Weft") {
                bail!(
                    "{} under the {launcher} of the wheel ended with {} and said: {said}{}",
                    program.display(),
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }
    Ok(())
}

/// Runs a command; its output appears only if it fails.
fn succeed(command: &mut Command, name: &str) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    bail!(
        "{name} ended badly ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::{TABLES_OF_FRAMES, forget_frames, newest, strip};

    #[test]
    fn a_program_without_frames_panics_in_words() {
        const ABORTED: i32 = 6;
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("panics.rs"), "fn main() { panic!(\"in words\") }").expect("a program");
        let made = Command::new("rustc")
            .args(["-Cpanic=abort", "-o"])
            .args([path("whole"), path("panics.rs")])
            .status();
        assert!(made.expect("rustc").success());
        strip(&path("whole"), &TABLES_OF_FRAMES, &path("small")).expect("a copy");
        forget_frames(&path("small")).expect("headers");
        let size = |name| fs::metadata(path(name)).expect("a file").len();
        assert!(size("small") < size("whole"));
        let ended = Command::new(path("small"))
            .env("RUST_BACKTRACE", "1")
            .output()
            .expect("it can be started");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("in words"));
        assert_eq!(ended.status.signal(), Some(ABORTED));
    }

    #[test]
    fn the_newest_version_counts_as_a_number() {
        let text =
            "0x0d696919 0x00 24 GLIBC_2.9\n 0x069691b4 0x00 03 GLIBC_2.34 GLIBC_2.3.4 GCC_5.0";
        assert_eq!(newest(text), Some((2, 34)));
        assert_eq!(newest("nothing"), None);
    }
}
