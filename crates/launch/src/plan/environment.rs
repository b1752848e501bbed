//! Environment of a program: variables of the launcher that it inherits, those that were set for it, and where it finds the
//! MPI libraries of this installation.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::search::path_beginning_with;
use crate::bootstrap::{self, foreign_variables};
use crate::options::{Inherit, ProgramLine};

/// Where the dynamic linker looks before the places that stand in a program.
pub(super) const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The environment of a program. `prefix` is where Weft is installed on the other hosts that run it, if not where it is here.
pub(super) fn of(line: &ProgramLine, prefix: Option<&Path>) -> BTreeMap<OsString, OsString> {
    let ours = env::vars_os().filter(|(name, _)| inherits(&line.inherit, name));
    let mut found: BTreeMap<_, _> = ours.collect();
    // A program that was built elsewhere against the same ABI is to find our library.
    let prefix = prefix.map(|prefix| prefix.join("lib"));
    for folder in prefix.into_iter().chain(our_libraries()) {
        let before = found.remove(OsStr::new(LIBRARY_PATH));
        let before = before.filter(|before| !before.is_empty());
        let path = path_beginning_with(Some(folder.into()), before.as_ref());
        found.extend(path.map(|path| (LIBRARY_PATH.into(), path)));
    }
    found.extend(line.variables.iter().cloned());
    found
}

/// Whether a program gets this variable of the launcher. It never gets what launchers tell their ranks, unless it is named.
fn inherits(inherit: &Inherit, name: &OsStr) -> bool {
    match inherit {
        Inherit::All => {
            let name = name.to_string_lossy();
            !name.starts_with("WEFT_JOB")
                && !bootstrap::VARIABLES.contains(&&*name)
                && !foreign_variables(&name)
        }
        Inherit::Only(names) => names.iter().any(|known| known == name),
    }
}

/// The folder with the MPI libraries of the installation that this launcher is part of.
pub(super) fn our_libraries() -> Option<PathBuf> {
    libraries_of(&env::current_exe().ok()?)
}

/// The folder with the MPI libraries of the installation that a launcher is part of.
fn libraries_of(launcher: &Path) -> Option<PathBuf> {
    let folder = launcher.parent()?.parent()?.join("lib");
    folder.join("libmpi_abi.so.1").exists().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_library_of_an_installation_is_found_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let launcher = folder.path().join("bin/weft");
        assert_eq!(libraries_of(&launcher), None);
        fs::create_dir(folder.path().join("lib")).expect("makes");
        fs::write(folder.path().join("lib/libmpi_abi.so.1"), "").expect("writes");
        assert_eq!(libraries_of(&launcher), Some(folder.path().join("lib")));
    }

    #[test]
    fn variables_are_set_and_cut() {
        let line = ProgramLine {
            inherit: Inherit::Only(vec!["PATH".into()]),
            variables: vec![("A".into(), "1".into()), ("A".into(), "2".into())],
            ..ProgramLine::default()
        };
        let environment = of(&line, None);
        assert_eq!(environment.get(OsStr::new("A")), Some(&OsString::from("2")));
        assert!(environment.len() <= 2);
    }

    #[test]
    fn libraries_of_the_other_hosts_are_looked_for() {
        let line = ProgramLine {
            inherit: Inherit::Only(Vec::new()),
            ..ProgramLine::default()
        };
        let environment = of(&line, Some(Path::new("/nowhere/weft")));
        let path = environment.get(OsStr::new(LIBRARY_PATH)).expect("set");
        let folders: Vec<_> = env::split_paths(path).collect();
        assert!(folders.contains(&"/nowhere/weft/lib".into()), "{folders:?}");
    }
}
