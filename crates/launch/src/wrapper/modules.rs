//! Fortran modules: a compiler's output for `mpi.f90` and `mpi_f08.f90`, whose format is specific to that compiler.
//!
//! ```text
//!   prefix/include/mpi.f90, mpi_f08.f90   ── FC -c, once for each compiler ──►   FOLDER/KEY/mpi.mod, mpi_f08.mod, …
//!
//!   FOLDER   prefix/lib/fortran   if it can be written, else   $XDG_CACHE_HOME/weft/fortran, else   ~/.cache/weft/fortran
//!   KEY      what the compiler says of its version, and a hash of it and of the sources
//! ```
//!
//! A folder gets its name when it is complete, so several processes may make one at once; the second uses the first
//! one's.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The sources, in the order in which they need each other.
const SOURCES: [&str; 2] = ["mpi.f90", "mpi_f08.f90"];

/// Letters of a version that are part of a name.
const SHOWN: usize = 40;

/// The folder with the modules for this compiler, made if there is none yet.
pub(super) fn of(prefix: &Path, compiler: &[OsString]) -> Result<PathBuf, String> {
    let sources = SOURCES.map(|name| prefix.join("include").join(name));
    let key = key(&sources, compiler)?;
    let folders = folders(prefix, &|variable| std::env::var_os(variable));
    if let Some(made) = folders
        .iter()
        .map(|folder| folder.join(&key))
        .find(|folder| folder.is_dir())
    {
        return Ok(made);
    }
    let mut reasons = Vec::new();
    for folder in &folders {
        match make_folder(folder) {
            Ok(scratch) => return make(scratch, &sources, compiler, &folder.join(&key)),
            Err(error) => reasons.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(format!(
        "there is no folder for the modules mpi and mpi_f08 ({}); let one of these be written, or set XDG_CACHE_HOME",
        reasons.join("; ")
    ))
}

/// Where modules may be, the best first.
fn folders(prefix: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let path = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
    let mut folders = vec![prefix.join("lib/fortran")];
    folders.extend(cache.map(|cache| cache.join("weft/fortran")));
    folders
}

/// By what the modules of this compiler and of these sources are known.
fn key(sources: &[PathBuf], compiler: &[OsString]) -> Result<String, String> {
    let shown = compiler[0].display();
    let asked = Command::new(&compiler[0])
        .args(&compiler[1..])
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let output = asked.map_err(|error| {
        format!("the compiler {shown} cannot be started: {error}; install it (Debian: gfortran), or name another in the variable FC")
    })?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut hasher = DefaultHasher::new();
    (compiler, &version).hash(&mut hasher);
    for source in sources {
        let text = fs::read(source).map_err(|error| format!("{}: {error}", source.display()))?;
        text.hash(&mut hasher);
    }
    let line = version.lines().next().unwrap_or_default();
    Ok(name_of(line, hasher.finish()))
}

/// `GNU_Fortran_12.2.0-0123456789abcdef`.
fn name_of(version: &str, hash: u64) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    let words = version
        .split(|letter| !plain(letter))
        .filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("_");
    let name: String = name.chars().take(SHOWN).collect();
    format!("{name}-{hash:016x}")
}

/// A new folder in this one, which is made if it is missing.
fn make_folder(folder: &Path) -> std::io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let scratch = folder.join(format!(".{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    Ok(scratch)
}

/// Compiles the sources in `scratch`, where compilers put modules by themselves, and gives the folder its name.
fn make(
    scratch: PathBuf,
    sources: &[PathBuf],
    compiler: &[OsString],
    name: &Path,
) -> Result<PathBuf, String> {
    let outcome = compile(&scratch, sources, compiler);
    if outcome.is_ok() && fs::rename(&scratch, name).is_ok() {
        return Ok(name.to_owned());
    }
    // It failed, or somebody was quicker.
    let _ = fs::remove_dir_all(&scratch);
    outcome.map(|()| name.to_owned())
}

fn compile(scratch: &Path, sources: &[PathBuf], compiler: &[OsString]) -> Result<(), String> {
    let output = Command::new(&compiler[0])
        .args(&compiler[1..])
        .arg("-c")
        .args(sources)
        .current_dir(scratch)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            format!(
                "the compiler {} cannot be started: {error}",
                compiler[0].display()
            )
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{} does not compile the modules mpi and mpi_f08 ({}):\n{said}",
            compiler[0].display(),
            output.status
        ));
    }
    let files = fs::read_dir(scratch).map_err(|error| error.to_string())?;
    for file in files.flatten() {
        if file.path().extension().is_some_and(|ending| ending == "o") {
            let _ = fs::remove_file(file.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_shows_the_version() {
        let name = name_of("GNU Fortran (Debian 12.2.0-14) 12.2.0", 0xabc);
        assert_eq!(name, "GNU_Fortran_Debian_12.2.0_14_12.2.0-0000000000000abc");
        assert_eq!(name_of("", 1), "-0000000000000001");
    }

    #[test]
    fn the_cache_is_where_the_user_says() {
        let prefix = Path::new("/opt/weft");
        let home = |name: &str| (name == "HOME").then(|| "/home/me".into());
        let both = |name: &str| match name {
            "XDG_CACHE_HOME" => Some("/var/me".into()),
            name => home(name),
        };
        let own = PathBuf::from("/opt/weft/lib/fortran");
        let cache = |path: &str| vec![own.clone(), PathBuf::from(path)];
        assert_eq!(
            folders(prefix, &home),
            cache("/home/me/.cache/weft/fortran")
        );
        assert_eq!(folders(prefix, &both), cache("/var/me/weft/fortran"));
        assert_eq!(folders(prefix, &|_| None), [own]);
    }

    /// A shell script is the compiler: it makes a module of each source.
    #[test]
    fn modules_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let (prefix, log) = (folder.path(), folder.path().join("log"));
        fs::create_dir_all(prefix.join("include")).unwrap();
        for source in SOURCES {
            fs::write(prefix.join("include").join(source), source).unwrap();
        }
        let script = prefix.join("fc");
        let text = format!(
            "case $1 in --version) echo Script 1.0;; *) echo \"$@\" >> {}; touch mpi.mod mpi.o;; esac",
            log.display()
        );
        fs::write(&script, text).unwrap();
        let compiler = ["sh".into(), script.into_os_string()];
        let made = of(prefix, &compiler).unwrap();
        assert!(made.starts_with(prefix.join("lib/fortran")), "{made:?}");
        assert!(made.join("mpi.mod").exists() && !made.join("mpi.o").exists());
        assert_eq!(of(prefix, &compiler).unwrap(), made);
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 1);
        // Other sources, other modules.
        fs::write(prefix.join("include/mpi.f90"), "newer").unwrap();
        assert_ne!(of(prefix, &compiler).unwrap(), made);
    }
}
