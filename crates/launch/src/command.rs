//! `mpiexec`, from its arguments to its exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::allocation::{self, ThisProcess};
use crate::job;
use crate::options::Table;
use crate::plan;
use crate::user_output;

/// Exit code for a command line that cannot be understood.
const USAGE: u8 = 2;

/// Runs the launcher, called `name`, with the arguments after its name. Must be called before the process has a second
/// thread.
pub fn main(name: &str, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    user_output::outlive_full_files();
    let words: Vec<OsString> = arguments.into_iter().collect();
    ExitCode::from(run(name, &words))
}

fn run(name: &str, words: &[OsString]) -> u8 {
    let table = Table::of_this_program();
    if words.is_empty() {
        user_output::tell(table.help(name).trim_end());
        return USAGE;
    }
    let find = || allocation::find(&ThisProcess);
    let line = match table.read_within(words, &find) {
        Ok(line) => line,
        Err(error) => {
            user_output::tell(format_args!("weft: {error}"));
            return USAGE;
        }
    };
    if line.help {
        return user_output::answer(table.help(name));
    }
    if line.version {
        let version = env!("CARGO_PKG_VERSION");
        return user_output::answer(format_args!("{name} (Weft) {version}, MPI 5.0\n"));
    }
    if !line.quiet {
        for note in &line.ignored {
            user_output::tell(format_args!("weft: {note}"));
        }
    }
    if let (true, Some(origin)) = (line.verbose, &line.origin) {
        user_output::tell(format_args!("weft: hosts of {origin}"));
    }
    let plan = match plan::make(line) {
        Ok(plan) => plan,
        Err(error) => {
            user_output::tell(format_args!("weft: {error}"));
            return error.code;
        }
    };
    match job::run(&plan) {
        Ok(code) => code,
        Err(error) => {
            user_output::tell(format_args!("weft: the job could not be started: {error}"));
            1
        }
    }
}
