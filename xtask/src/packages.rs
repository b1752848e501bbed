//! Packages: files of an installation for other tools (pkg-config, CMake, environment modules, manual pages, completions of shells),
//! and `cargo xtask deb`, a package of Debian.
//!
//! ```text
//! PREFIX/lib/pkgconfig/weft.pc          lib/cmake/Weft/              files of packaging/, with the version
//! PREFIX/share/modulefiles/weft/VERSION share/weft/tsan.txt
//! PREFIX/share/man/man1/mpiexec.1       share/bash-completion, zsh, fish     from tables/options.toml
//! PREFIX/share/man/man1/weft.1, mpicc.1 share/bash-completion                from packaging
//! ```
//!
//! All of these files find the installation by their own place in it: it may be moved as a whole.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::dist::{self, target};
use crate::rooms::root;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who answers for a package.
const MAINTAINER: &str = "The maintainers of Weft <weft@localhost>";

/// The destinations of files of `packaging/`.
const FILES: [(&str, &str); 8] = [
    ("pkgconfig/weft.pc", "lib/pkgconfig/weft.pc"),
    ("cmake/WeftConfig.cmake", "lib/cmake/Weft/WeftConfig.cmake"),
    (
        "cmake/WeftConfigVersion.cmake",
        "lib/cmake/Weft/WeftConfigVersion.cmake",
    ),
    ("module/weft", "share/modulefiles/weft/@VERSION@"),
    ("tsan.txt", "share/weft/tsan.txt"),
    ("man/weft.1", "share/man/man1/weft.1"),
    ("man/mpicc.1", "share/man/man1/mpicc.1"),
    ("completions/weft", "share/bash-completion/completions/weft"),
];

/// One row of `tables/options.toml`, as far as it is shown to users.
#[derive(Deserialize)]
struct Row {
    names: Vec<String>,
    #[serde(default)]
    takes: usize,
    #[serde(default)]
    value: String,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    help: String,
}

/// What a shell offers for a value.
enum Offered<'a> {
    Words(&'a [String]),
    Commands,
    Files,
    Folders,
    Nothing,
}

#[derive(Deserialize)]
struct Table {
    option: Vec<Row>,
}

impl Table {
    /// The options that users are shown.
    fn shown(&self) -> impl Iterator<Item = &Row> {
        self.option.iter().filter(|row| !row.help.is_empty())
    }
}

impl Row {
    /// Its names, as typed.
    fn spelled(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|name| match name.len() {
            1 => format!("-{name}"),
            _ => format!("--{name}"),
        })
    }

    /// The values that it may have, if it takes one.
    fn offered(&self) -> Option<Offered<'_>> {
        let value = self.value.trim_matches(['[', ']', '=']);
        match value {
            _ if self.takes == 0 => None,
            _ if !self.words.is_empty() => Some(Offered::Words(&self.words)),
            "DIR" => Some(Offered::Folders),
            "COMMAND" => Some(Offered::Commands),
            _ if value.starts_with("FILE") => Some(Offered::Files),
            _ => Some(Offered::Nothing),
        }
    }
}

/// Writes the files of an installation for other tools.
pub fn lay_out(prefix: &Path) -> Result<()> {
    let root = root()?;
    for (from, to) in FILES {
        let from = root.join("packaging").join(from);
        let text =
            fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
        write(&prefix.join(to.replace("@VERSION@", VERSION)), &text)?;
    }
    let table =
        fs::read_to_string(root.join("tables/options.toml")).context("tables/options.toml")?;
    let table: Table = toml::from_str(&table).context("tables/options.toml")?;
    let share = prefix.join("share");
    for name in ["mpicxx", "mpic++", "mpiCC", "mpifort", "mpif90", "mpif77"] {
        write(
            &share.join(format!("man/man1/{name}.1")),
            ".so man1/mpicc.1\n",
        )?;
    }
    for name in ["mpiexec", "mpirun"] {
        let text = match name {
            "mpiexec" => manual(&table),
            _ => ".so man1/mpiexec.1\n".into(),
        };
        write(&share.join(format!("man/man1/{name}.1")), &text)?;
        write(
            &share.join(format!("bash-completion/completions/{name}")),
            &bash(&table, name),
        )?;
        write(
            &share.join(format!("fish/vendor_completions.d/{name}.fish")),
            &fish(&table, name),
        )?;
    }
    write(&share.join("zsh/site-functions/_mpiexec"), &zsh(&table))
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let text = text.replace("@VERSION@", VERSION);
    dist::replace(path, |beside| fs::write(beside, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Escapes what roff would take for requests and hyphens.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

/// The manual page of mpiexec.
fn manual(table: &Table) -> String {
    let mut text = format!(
        ".TH MPIEXEC 1 \"\" \"Weft {VERSION}\"\n\
         .SH NAME\nmpiexec, mpirun \\- start MPI programs\n\
         .SH SYNOPSIS\n.B mpiexec\n[\\fIOPTIONS\\fR] \\fIPROGRAM\\fR [\\fIARGUMENTS\\fR...] [: [\\fIOPTIONS\\fR] \
         \\fIPROGRAM\\fR ...]\n\
         .SH DESCRIPTION\nStarts the ranks of a job on this host, on hosts that are named, or on those that a scheduler has given. \
         One and two hyphens mean the same, and \\-\\-option=value the same as \\-\\-option value.\n\
         .SH OPTIONS\n"
    );
    for row in table.shown() {
        let names: Vec<String> = row.spelled().map(|name| roff(&name)).collect();
        let _ = writeln!(
            text,
            ".TP\n\\fB{}\\fR \\fI{}\\fR\n{}",
            names.join("\\fR, \\fB"),
            roff(&row.value),
            roff(&row.help)
        );
    }
    text += ".SH EXIT STATUS\nThat of the rank that failed first; 128 + n for signal n; 124 after \\-\\-timeout; 35 after a deadlock; \
             120 for what \\-\\-check=strict has found; 126 or 127 if a program cannot be started; 2 for a wrong command line.\n\
             .SH SEE ALSO\n.BR weft (1)\n";
    text
}

/// Completions of bash: the options, their values, and the programs and files after them. Bash splits
/// `--name=value` into three words.
fn bash(table: &Table, name: &str) -> String {
    let words: Vec<String> = table.shown().flat_map(Row::spelled).collect();
    let mut values = String::new();
    for row in table.shown() {
        let answer = match row.offered() {
            None => continue,
            Some(Offered::Words(words)) => {
                format!("$(compgen -W '{}' -- \"$word\")", words.join(" "))
            }
            Some(Offered::Commands) => "$(compgen -c -f -- \"$word\")".into(),
            Some(Offered::Files) => "$(compgen -f -- \"$word\")".into(),
            Some(Offered::Folders) => "$(compgen -d -- \"$word\")".into(),
            Some(Offered::Nothing) => String::new(),
        };
        let names = row.names.iter();
        let names: Vec<String> = names.map(|name| format!("-{name} | --{name}")).collect();
        let _ = writeln!(
            values,
            "    {}) COMPREPLY=({answer}); return ;;",
            names.join(" | ")
        );
    }
    let words = words.join(" ");
    format!(
        "_weft_{name}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
    if [ \"$word\" = = ]; then
        word=
    elif [ \"$before\" = = ]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    case $before in
{values}    esac
    case $word in
    -*) COMPREPLY=($(compgen -W '{words}' -- \"$word\")) ;;
    *) COMPREPLY=($(compgen -c -f -- \"$word\")) ;;
    esac
}}
complete -o filenames -F _weft_{name} {name}
"
    )
}

/// … of zsh.
fn zsh(table: &Table) -> String {
    let mut text = String::from("#compdef mpiexec mpirun\n_arguments -S \\\n");
    for row in table.shown() {
        let help = row
            .help
            .replace('\'', "")
            .replace(['[', ']'], "")
            .replace(':', "\\:");
        let offered = match row.offered() {
            Some(Offered::Words(words)) => format!("({})", words.join(" ")),
            Some(Offered::Commands) => "_command_names -e".into(),
            Some(Offered::Files) => "_files".into(),
            Some(Offered::Folders) => "_files -/".into(),
            Some(Offered::Nothing) | None => " ".into(),
        };
        let values = format!(":value:{offered}").repeat(row.takes);
        for name in row.spelled() {
            let _ = writeln!(text, "  '{name}[{help}]{values}' \\");
        }
    }
    text + "  '*::program:_normal'\n"
}

/// … of fish.
fn fish(table: &Table, command: &str) -> String {
    let mut text = String::new();
    for row in table.shown() {
        let help = row.help.replace('\'', "");
        let values = match row.offered() {
            None => String::new(),
            Some(Offered::Words(words)) => format!(" -x -a '{}'", words.join(" ")),
            Some(Offered::Commands) => " -x -a '(__fish_complete_command)'".into(),
            Some(Offered::Files) => " -r -F".into(),
            Some(Offered::Folders) => " -x -a '(__fish_complete_directories)'".into(),
            Some(Offered::Nothing) => " -x".into(),
        };
        for name in &row.names {
            let kind = if name.len() == 1 { "-s" } else { "-l" };
            let _ = writeln!(
                text,
                "complete -c {command} {kind} '{name}'{values} -d '{help}'"
            );
        }
    }
    text
}

/// Where to put the package.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder that gets the package. Default: deb in cargo's target folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also unpacks it somewhere else, and builds and runs a program there.
    #[arg(long)]
    check: bool,
}

/// Makes a package of Debian that installs Weft below `/opt/weft`; prints its path.
pub fn run(arguments: &Arguments) -> Result<()> {
    let built = dist::lay_out(None)?;
    let home = target(&root()?).join("deb");
    let out = arguments.out.as_deref().unwrap_or(&home);
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let package = pack(&built, out)?;
    if arguments.check {
        check(&package)?;
    }
    println!("{}", package.display());
    Ok(())
}

/// Packs an installation into the folder `out`.
fn pack(built: &Path, out: &Path) -> Result<PathBuf> {
    let root = root()?;
    let tree = tempfile::tempdir().context("a folder for the package")?;
    let prefix = tree.path().join("opt/weft");
    dist::copy_tree(built, &prefix)?;
    // The files that mpifort has made there belong to the compiler of this machine.
    let modules = prefix.join("lib/fortran");
    if modules.exists() {
        fs::remove_dir_all(&modules)?;
    }
    // Copying the links would copy the program.
    for (folder, file) in [
        ("bin", "weft"),
        ("lib", "libmpi_abi.so.1"),
        ("lib", "libmpi_fortran.so.1"),
        ("lib", "libmpi.so.12"),
        ("lib", "libmpifort.so.12"),
        ("lib", "libmpi.so.40"),
        ("lib", "libmpi_mpifh.so.40"),
    ] {
        for entry in fs::read_dir(built.join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_symlink() {
                let to = prefix.join(folder).join(entry.file_name());
                fs::remove_file(&to)?;
                std::os::unix::fs::symlink(fs::read_link(entry.path())?, to)?;
            }
        }
        let _ = Command::new("strip")
            .arg("--strip-unneeded")
            .arg(prefix.join(folder).join(file))
            .status();
    }
    let depends = depends(&prefix)?;
    let documents = tree.path().join("usr/share/doc/weft");
    fs::create_dir_all(&documents)?;
    let license = fs::read_to_string(root.join("LICENSE-MIT"))?;
    write(
        &documents.join("copyright"),
        &format!(
            "Weft is licensed under the MIT license, which follows, or under the Apache License, Version 2.0\n\
             (/usr/share/common-licenses/Apache-2.0), at your choice.\n\n{license}"
        ),
    )?;
    // What has changed is told in the project's own form, and Debian's, which says when; the same files make the same package.
    fs::copy(root.join("CHANGELOG.md"), documents.join("NEWS"))?;
    write(
        &documents.join("changelog"),
        &format!(
            "weft ({VERSION}) unstable; urgency=medium\n\n  * See NEWS.gz.\n\n \
             -- {MAINTAINER}  Thu, 01 Jan 1970 00:00:00 +0000\n"
        ),
    )?;
    for file in ["NEWS", "changelog"] {
        output(Command::new("gzip").arg("-9n").arg(documents.join(file)))?;
    }
    let mut sums = Vec::new();
    let bytes = list_sums(tree.path(), tree.path(), &mut sums)?;
    sums.sort();
    write(&tree.path().join("DEBIAN/md5sums"), &sums.concat())?;
    let machine = output(Command::new("dpkg").arg("--print-architecture"))?;
    let machine = machine.trim();
    write(
        &tree.path().join("DEBIAN/control"),
        &format!(
            "Package: weft\nVersion: {VERSION}\nArchitecture: {machine}\nMaintainer: {MAINTAINER}\n\
             Installed-Size: {}\nSection: net\nPriority: optional\nDepends: {depends}\nRecommends: libhwloc15\n\
             Suggests: gcc, g++, gfortran, libfabric1\n\
             Description: MPI 5 by the standard ABI: mpiexec, mpicc and libmpi_abi\n Installed below /opt/weft, beside other \
             implementations of MPI. Who puts\n /opt/weft/bin first in PATH, or loads the environment module in\n \
             /opt/weft/share/modulefiles, has its mpicc, mpiexec and manual pages.\n",
            bytes.div_ceil(1024)
        ),
    )?;
    set_modes(tree.path(), &prefix.join("bin"))?;
    let package = out.join(format!("weft_{VERSION}_{machine}.deb"));
    let mut command = Command::new("dpkg-deb");
    command.args(["--build", "--root-owner-group", "-Zgzip"]);
    output(command.arg(tree.path()).arg(&package))?;
    Ok(package)
}

/// The packages without which nothing of an installation starts: the C library, of the version whose functions are used, and the unwinder.
fn depends(prefix: &Path) -> Result<String> {
    let mut newest = (2, 0);
    for folder in ["bin", "lib"] {
        for entry in fs::read_dir(prefix.join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                newest = newest.max(wanted_of_libc(&fs::read(entry.path())?));
            }
        }
    }
    let (major, minor) = newest;
    Ok(format!("libc6 (>= {major}.{minor}), libgcc-s1"))
}

/// The newest version of the C library that a program names.
fn wanted_of_libc(program: &[u8]) -> (u32, u32) {
    let name = b"GLIBC_";
    let named = program.windows(name.len()).enumerate();
    let named = named.filter(|(_, window)| window == name);
    let version = |(at, _): (usize, &[u8])| {
        let rest = program[at + name.len()..].split(|byte| *byte == 0).next()?;
        let (major, minor) = std::str::from_utf8(rest).ok()?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    named.filter_map(version).max().unwrap_or_default()
}

/// Gives everything the modes that a package has, whatever the caller's are: only what lies in `bin` is run.
fn set_modes(folder: &Path, bin: &Path) -> Result<()> {
    let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(folder, 0o755)?;
    for entry in fs::read_dir(folder)? {
        let (kind, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let kind = kind?;
        if kind.is_dir() {
            set_modes(&path, bin)?;
        } else if kind.is_file() {
            set(&path, if folder == bin { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

/// A line of `md5sums` for each file of a package below `folder`; answers their bytes.
fn list_sums(tree: &Path, folder: &Path, sums: &mut Vec<String>) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let (kind, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let kind = kind?;
        if kind.is_dir() {
            bytes += list_sums(tree, &path, sums)?;
        } else if kind.is_file() {
            bytes += fs::metadata(&path)?.len();
            let name = path.strip_prefix(tree)?;
            sums.push(output(Command::new("md5sum").arg(name).current_dir(tree))?);
        }
    }
    Ok(bytes)
}

/// Unpacks the package, and builds and runs a program with the files in it.
fn check(package: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder to unpack to")?;
    output(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(package)
            .arg(folder.path()),
    )?;
    let bin = folder.path().join("opt/weft/bin");
    let program = folder.path().join("program");
    let source = root()?.join("tests/programs/ring.c");
    output(
        Command::new(bin.join("mpicc"))
            .arg(source)
            .arg("-o")
            .arg(&program),
    )?;
    output(
        Command::new(bin.join("mpiexec"))
            .args(["-n", "3"])
            .arg(&program),
    )?;
    Ok(())
}

/// The output of a command that must succeed.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !ended.status.success() {
        bail!(
            "{name} failed ({}): {}",
            ended.status,
            String::from_utf8_lossy(&ended.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

#[cfg(test)]
mod tests;
