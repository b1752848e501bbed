//! Options: the spellings on the command line of `mpiexec`, and what was requested.
//!
//! The spellings are in `tables/options.toml`, which is compiled in. Reading has two steps: [`Table::read`] turns words
//! into a [`CommandLine`]; [`crate::plan`] turns that into a plan.
//!
//! ```text
//!   Words ── a word ──▶ Table: which option is it? ──▶ Requests: what follows ── finish ──▶ CommandLine
//!     ▲                          │
//!     └── a file of arguments ───┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `command_line` | the result |
//! | `words` | words that are not read yet |
//! | `table` | the options, and the help |
//! | `requests` | what the words so far ask for |
//! | `values`, `host_list`, `output` | the values of options |
//! | `cores`, `host_request` | options about cores and hosts, with their consequences |

mod command_line;
mod cores;
mod host_list;
mod host_request;
mod output;
mod requests;
mod table;
mod values;
mod words;

pub use command_line::{CommandLine, Inherit, Input, OnDeadlock, OnDeath, ProgramLine};
pub(crate) use host_list::hosts_in_text;
pub use output::{OutputRequest, RankPlace};
pub use table::Table;
pub(crate) use values::on_deadlock;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::allocation::Found;
use requests::Requests;
use table::{Effect, WrittenOption};
use words::Words;

impl Table {
    /// Reads the words after the name of the launcher, for a process that no scheduler has started. Errors are sentences
    /// for the user.
    ///
    /// # Errors
    /// See [`read_within`](Self::read_within).
    pub fn read(&self, words: &[OsString]) -> Result<CommandLine, String> {
        self.read_within(words, &|| Found::Nothing)
    }

    /// Reads the words after the name of the launcher. `find` returns the allocation of a scheduler, and is called only
    /// if it is needed. Errors are sentences for the user.
    ///
    /// # Errors
    /// If an option is unknown or lacks its value, a value cannot be understood, or there is no program.
    pub fn read_within(
        &self,
        words: &[OsString],
        find: &dyn Fn() -> Found,
    ) -> Result<CommandLine, String> {
        let mut words = Words::new(words);
        let mut requests = Requests::default();
        while let Some(word) = words.take() {
            if !is_option(&word) {
                requests.add_program(words.take_program(word)?);
                continue;
            }
            let option = self.find(&word)?;
            let values = self.take_values(&option, &mut words)?;
            if option.row.does == Effect::Arguments {
                words.insert_file(&option.name, Path::new(&values[0]))?;
                continue;
            }
            requests.apply(&option, &values)?;
            if let Some(line) = requests.shown() {
                return Ok(line);
            }
        }
        requests.finish(find)
    }

    /// The values of an option: behind `=`, implied, or the next words.
    fn take_values(
        &self,
        option: &WrittenOption<'_>,
        words: &mut Words,
    ) -> Result<Vec<OsString>, String> {
        let row = option.row;
        let mut values = Vec::with_capacity(row.takes);
        values.extend(option.attached.clone());
        values.extend(row.meant.as_ref().map(OsString::from));
        while values.len() < row.takes {
            // A value that others let one leave out.
            let may_lack = row.does == Effect::Ignored && row.takes == 1;
            if may_lack && words.peek().is_some_and(|next| self.has(next)) {
                break;
            }
            let missing = match row.takes - values.len() {
                1 => "a value, and none follows",
                _ => "two values, and none follows",
            };
            values.push(words.take().ok_or_else(|| {
                let name = &option.name;
                format!("{name} needs {missing}; see --help")
            })?);
        }
        Ok(values)
    }
}

/// Whether a word is an option, and not a program or what stands before one.
fn is_option(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"-") && word != "-" && word != "--"
}

#[cfg(test)]
mod tests;
