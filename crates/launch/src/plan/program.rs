//! Program of a job: the file to execute, its arguments, folder and environment, which all of its ranks have in common.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::libraries::Libraries;
use super::search::{ProgramSearch, path_beginning_with};
use super::{PlanError, environment};
use crate::bootstrap::Names;
use crate::job_request::SpawnProgram;
use crate::options::ProgramLine;

/// One program with all that its ranks have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The file to execute.
    pub executable: PathBuf,
    /// Its name as written, and its arguments. Empty for hosts that join and bring their own.
    pub words: Vec<OsString>,
    /// The folder in which it runs; `None` for the current one.
    pub folder: Option<PathBuf>,
    /// Its environment, without the variables that give a rank its number.
    pub environment: BTreeMap<OsString, OsString>,
    /// Number of ranks that run it.
    pub ranks: u32,
}

impl Program {
    /// The program of a line. If Weft is installed under this `prefix` on other hosts, they may be the only ones to have the
    /// program and its folder.
    pub(super) fn of_line(line: ProgramLine, prefix: Option<&Path>) -> Result<Self, PlanError> {
        let ranks = line.ranks.unwrap_or(1);
        let Some(name) = line.words.first() else {
            return Ok(Self {
                executable: PathBuf::new(),
                words: Vec::new(),
                folder: None,
                environment: BTreeMap::new(),
                ranks,
            });
        };
        if prefix.is_none() {
            check_folder(line.folder.as_deref(), name, "-wdir")?;
        }
        let environment = environment::of(&line, prefix);
        let executable = match prefix {
            Some(_) if Path::new(name).is_absolute() => PathBuf::from(name),
            _ => {
                let path = environment.get(OsStr::new("PATH"));
                let path = path_beginning_with(line.search, path);
                ProgramSearch::new(line.folder.as_deref(), path.as_ref()).find(name)?
            }
        };
        Ok(Self {
            executable,
            folder: line.folder,
            environment,
            ranks,
            words: line.words,
        })
    }

    /// A program that another one starts. `environment` is that of the program that starts it.
    ///
    /// # Errors
    /// As for [`make`](super::make).
    pub(crate) fn started_later(
        asked: &SpawnProgram,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<Self, PlanError> {
        let words = asked.words.iter().cloned();
        let words: Vec<_> = words.map(OsString::from_vec).collect();
        if words.is_empty() {
            return Err(PlanError::request(
                "a program without a name was to be started; name one".into(),
            ));
        }
        let folder = PathBuf::from(OsString::from_vec(asked.folder.clone()));
        let path = asked.path.clone().map(OsString::from_vec);
        // That of the program that asks is not inherited.
        let mut environment = environment.clone();
        environment.remove(OsStr::new(Names::ERROR_HANDLER));
        let handler = asked.error_handler.as_ref();
        environment.extend(handler.map(|name| (Names::ERROR_HANDLER.into(), name.into())));
        check_folder(Some(&folder), &words[0], "wdir")?;
        let path = path_beginning_with(path, environment.get(OsStr::new("PATH")));
        let program = Self {
            executable: ProgramSearch::new(Some(&folder), path.as_ref()).find(&words[0])?,
            words,
            folder: Some(folder),
            environment,
            ranks: 0,
        };
        Libraries::Ours.check(&program)?;
        Ok(program)
    }

    /// The network by which the program is to reach others of its host, too, if one was named.
    pub(super) fn network(&self) -> Option<&OsStr> {
        let named = self.environment.get(OsStr::new("WEFT_FABRIC"))?;
        (!named.is_empty() && named != "auto").then_some(named)
    }
}

/// Refuses a folder that is not there. `option` is how it was asked for.
fn check_folder(folder: Option<&Path>, program: &OsStr, option: &str) -> Result<(), PlanError> {
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(PlanError::request(format!(
            "there is no folder {} for the program {} to run in ({option})",
            folder.display(),
            program.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> ProgramLine {
        ProgramLine {
            words: words.iter().map(OsString::from).collect(),
            ..ProgramLine::default()
        }
    }

    fn program(line: ProgramLine) -> Result<Program, PlanError> {
        Program::of_line(line, None)
    }

    #[test]
    fn programs_are_found_by_path_and_by_name() {
        let executable = |line| program(line).expect("there").executable;
        assert_eq!(executable(line(&["/bin/sh"])), Path::new("/bin/sh"));
        let found = program(line(&["sh", "-c", ":"])).expect("there");
        assert!(found.executable.is_absolute() && found.executable.ends_with("sh"));
        assert_eq!(found.words[0], "sh");
        let mut inside = line(&["./sh"]);
        inside.folder = Some("/bin".into());
        assert_eq!(executable(inside), Path::new("/bin/./sh"));
        let mut bare = line(&["sh"]);
        bare.folder = Some("/bin".into());
        bare.variables = vec![("PATH".into(), "/nowhere".into())];
        let mut searched = bare.clone();
        (searched.folder, searched.search) = (None, Some("/none:/bin".into()));
        assert_eq!(executable(searched), Path::new("/bin/sh"));
        assert_eq!(executable(bare), Path::new("/bin/sh"));
    }

    #[test]
    fn a_folder_that_is_not_there_is_refused() {
        let mut line = line(&["sh"]);
        line.folder = Some("/no/such/folder".into());
        let error = program(line).expect_err("no folder");
        assert_eq!(error.code, 2, "{error}");
        assert!(error.to_string().contains("-wdir"), "{error}");
    }

    #[test]
    fn a_program_of_hosts_with_a_prefix_of_their_own_is_not_looked_for_here() {
        let prefix = Some(Path::new("/nowhere/weft"));
        let found = Program::of_line(line(&["/nowhere/a", "b"]), prefix);
        let found = found.expect("it is not looked for");
        assert_eq!(found.executable, Path::new("/nowhere/a"));
        assert!(Program::of_line(line(&["no-such-program"]), prefix).is_err());
    }

    #[test]
    fn a_command_line_in_quotes_is_explained() {
        for (name, explained) in [("./none --fast", true), ("./none", false)] {
            let error = program(line(&[name])).expect_err("there is none");
            let said = error.to_string().contains("words of their own");
            assert_eq!(said, explained, "{error}");
        }
    }

    #[test]
    fn an_error_handler_is_not_inherited_by_programs_that_are_started_later() {
        let mut first = line(&["/bin/sh"]);
        first.variables = vec![(Names::ERROR_HANDLER.into(), "mpi_errors_return".into())];
        let first = program(first).expect("there");
        for handler in [None, Some("mpi_errors_abort".to_owned())] {
            let asked = SpawnProgram {
                words: vec![b"/bin/sh".to_vec()],
                counts: vec![1],
                folder: b"/".to_vec(),
                path: None,
                host: None,
                error_handler: handler.clone(),
            };
            let later = Program::started_later(&asked, &first.environment).expect("there");
            let found = later.environment.get(OsStr::new(Names::ERROR_HANDLER));
            assert_eq!(found, handler.map(OsString::from).as_ref());
        }
    }
}
