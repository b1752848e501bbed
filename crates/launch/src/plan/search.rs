//! Search for the file of a program, as shells do it: a path is taken from the folder in which the program runs; a bare name is
//! looked up in the folders of the search path, and then in that folder, as other launchers do.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::PlanError;

/// The folders of a program that is searched for.
pub(super) struct ProgramSearch {
    /// Where the program runs.
    base: PathBuf,
    /// The search path. An empty entry, and a relative one, are meant from `base`.
    folders: Vec<PathBuf>,
}

impl ProgramSearch {
    /// For a program that runs in this folder (or in the current one), by this search path (or the system's).
    pub(super) fn new(folder: Option<&Path>, path: Option<&OsString>) -> Self {
        let base = match env::current_dir() {
            Ok(here) => folder.map_or(here.clone(), |folder| here.join(folder)),
            Err(_) => folder.map_or(PathBuf::from("."), Path::to_path_buf),
        };
        let system = || vec!["/usr/bin".into(), "/bin".into()];
        let folders = path.map_or_else(system, |path| env::split_paths(path).collect());
        Self { base, folders }
    }

    /// The file of the program of this name.
    pub(super) fn find(&self, name: &OsStr) -> Result<PathBuf, PlanError> {
        if name.as_bytes().contains(&b'/') {
            let file = self.base.join(name);
            return match check(&file) {
                Ok(()) => Ok(file),
                Err(obstacle) => Err(obstacle.error(name, &file)),
            };
        }
        let mut refused = None;
        let last = PathBuf::new();
        for folder in self.folders.iter().chain([&last]) {
            let file = self.base.join(folder).join(name);
            match check(&file) {
                Ok(()) => return Ok(file),
                Err(Obstacle::Missing) => {}
                Err(obstacle) => refused = refused.or(Some((obstacle, file))),
            }
        }
        Err(match refused {
            Some((obstacle, file)) => obstacle.error(name, &file),
            None => self.nowhere(name),
        })
    }

    fn nowhere(&self, name: &OsStr) -> PlanError {
        let name = name.display();
        let text = format!(
            "there is no program {name}: neither in the search path (PATH) nor in {}; write where it is, for example ./{name}",
            self.base.display()
        );
        PlanError { code: 127, text }
    }
}

/// The search path that begins with folders which were named for one program.
pub(super) fn path_beginning_with(
    first: Option<OsString>,
    path: Option<&OsString>,
) -> Option<OsString> {
    match (first.filter(|first| !first.is_empty()), path) {
        (Some(mut first), Some(path)) => {
            first.push(":");
            first.push(path);
            Some(first)
        }
        (first, path) => first.or_else(|| path.cloned()),
    }
}

/// Why a file cannot be executed.
enum Obstacle {
    Missing,
    Folder,
    NotExecutable,
    Other(io::Error),
}

impl Obstacle {
    /// The error of a program, by the name that was written, whose file this is.
    fn error(self, name: &OsStr, file: &Path) -> PlanError {
        let is_line = file
            .file_name()
            .is_some_and(|name| name.as_bytes().contains(&b' '));
        let remedy = match is_line {
            true => "; its arguments are words of their own, without quotes around all",
            false => "",
        };
        let (name, file) = (name.display(), file.display());
        let text = match &self {
            Self::Missing => format!(
                "the program {name} does not exist: there is no file {file}; build it, or write another path{remedy}"
            ),
            Self::Folder => {
                format!(
                    "the program {name} cannot be executed: {file} is a folder; name a file in it"
                )
            }
            Self::NotExecutable => format!(
                "the program {name} cannot be executed: {file} is not executable; make it so: chmod +x {file}"
            ),
            Self::Other(reason) => {
                format!("the program {name} cannot be executed: {file}: {reason}")
            }
        };
        let code = match self {
            Self::Missing => 127,
            Self::Folder | Self::NotExecutable | Self::Other(_) => 126,
        };
        PlanError { code, text }
    }
}

fn check(file: &Path) -> Result<(), Obstacle> {
    match file.metadata() {
        Err(reason) => match reason.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Err(Obstacle::Missing),
            _ => Err(Obstacle::Other(reason)),
        },
        Ok(found) if found.is_dir() => Err(Obstacle::Folder),
        Ok(_) => rustix::fs::access(file, Access::EXEC_OK).map_err(|_| Obstacle::NotExecutable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_is_told_apart() {
        for (name, code, said) in [
            ("/no/such/program", 127, "/no/such/program"),
            ("no-such-program", 127, "for example ./no-such-program"),
            ("/etc/passwd", 126, "chmod +x"),
            ("/etc", 126, "is a folder"),
            ("/etc/passwd/x", 127, "does not exist"),
        ] {
            let error = ProgramSearch::new(None, None).find(OsStr::new(name));
            let error = error.expect_err("cannot run");
            assert_eq!(error.code, code, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_named_only_if_no_other_can() {
        let path = |path: &str| ProgramSearch::new(None, Some(&path.into()));
        let (etc, name) = (Path::new("/etc"), OsStr::new("passwd"));
        let error = path("/no/such/folder:/etc").find(name).expect_err("a file");
        assert_eq!(error.code, 126, "{error}");
        let here = ProgramSearch::new(Some(etc), Some(&"/none".into()));
        assert_eq!(here.find(name).expect_err("a file").code, 126);
        assert_eq!(
            path("/etc:/bin").find(OsStr::new("sh")).expect("there"),
            Path::new("/bin/sh")
        );
    }

    #[test]
    fn folders_that_were_named_come_first() {
        let path = |first: &str, path: Option<&str>| {
            path_beginning_with(Some(first.into()), path.map(OsString::from).as_ref())
        };
        assert_eq!(path("/a", Some("/b")), Some("/a:/b".into()));
        assert_eq!(path("", Some("/b")), Some("/b".into()));
        assert_eq!(path("/a", None), Some("/a".into()));
        assert_eq!(path("", None), None);
    }
}
