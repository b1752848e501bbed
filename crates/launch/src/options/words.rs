//! Words of a command line that are not read yet: those of files of arguments stand where the files are named.
//!
//! *Invariant:* words are taken from the front alone, so that a file is over once no more words are left than stand behind it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The words that are not read yet.
pub(super) struct Words {
    left: std::vec::IntoIter<OsString>,
    /// The files of arguments that were read.
    files: Vec<ArgumentsFile>,
}

struct ArgumentsFile {
    /// Number of words that stand behind it.
    behind: usize,
    /// Its option and its name.
    shown: String,
}

impl Words {
    pub(super) fn new(words: &[OsString]) -> Self {
        Self {
            left: Vec::from(words).into_iter(),
            files: Vec::new(),
        }
    }

    /// Takes the next word.
    pub(super) fn take(&mut self) -> Option<OsString> {
        self.left.next()
    }

    /// The next word, which stays.
    pub(super) fn peek(&self) -> Option<&OsStr> {
        self.left.as_slice().first().map(OsString::as_os_str)
    }

    /// Puts the words of a file of arguments in front; `option` names it.
    pub(super) fn insert_file(&mut self, option: &str, path: &Path) -> Result<(), String> {
        let shown = format!("{option} {}", path.display());
        if self.files.len() >= MOST_FILES {
            return Err(format!(
                "{shown}: more than {MOST_FILES} files of arguments; does one name itself?"
            ));
        }
        let mut words = arguments_of(option, path)?;
        self.files.push(ArgumentsFile {
            behind: self.left.len(),
            shown,
        });
        words.extend(&mut self.left);
        self.left = words.into_iter();
        Ok(())
    }

    /// Takes the words of a program, up to the next colon. `first` is the word that was taken before: the program, or `--`
    /// before it.
    pub(super) fn take_program(&mut self, first: OsString) -> Result<Vec<OsString>, String> {
        let mut words: Vec<_> = Some(first)
            .filter(|first| first != "--")
            .into_iter()
            .collect();
        // The innermost file that is not over.
        let open = self
            .files
            .iter()
            .filter(|file| file.behind <= self.left.len());
        let file = open.max_by_key(|file| file.behind);
        let mut more = false;
        while let Some(word) = self.left.next() {
            if word == ":" {
                more = true;
                break;
            }
            if let Some(file) = file.filter(|file| self.left.len() < file.behind) {
                let file = &file.shown;
                return Err(format!(
                    "the last program of {file} ends with that file, but '{}' follows; put options before {file}, \
                     and further programs behind ':'",
                    word.display()
                ));
            }
            words.push(word);
        }
        if words.first().is_none_or(|first| first == ":") {
            return Err("there is no program before ':' in the command line".into());
        }
        if more && self.peek().is_none() {
            return Err("there is no program after the last ':'".into());
        }
        Ok(words)
    }
}

/// Files of arguments that one command line may read, those counted that they name themselves.
const MOST_FILES: usize = 64;

/// The words of a file of arguments: a program with its options in each line, split as by a shell. Empty lines and text after
/// a `#` are ignored.
fn arguments_of(option: &str, path: &Path) -> Result<Vec<OsString>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{option}: {shown} cannot be read: {error}"))?;
    let mut words: Vec<OsString> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let found = shlex::split(line).ok_or_else(|| {
            let number = number + 1;
            format!("{option}: line {number} of {shown} ends within quotes, or with a backslash")
        })?;
        if !found.is_empty() {
            let colon = (!words.is_empty() && found[0] != ":").then(|| ":".into());
            words.extend(colon);
            words.extend(found.into_iter().map(OsString::from));
        }
    }
    match words.is_empty() {
        true => Err(format!("{option}: {shown} has no program")),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_program_ends_with_its_colon_and_with_its_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "# nothing\nsh -c 'a b'\n\nls\n").expect("writes");
        let mut left = Words::new(&words("after : ls"));
        left.insert_file("--app", file.path()).expect("read");
        let first = left.take().expect("the program of the file");
        assert_eq!(
            left.take_program(first).expect("its words"),
            ["sh", "-c", "a b"]
        );
        let first = left.take().expect("the second program");
        let error = left.take_program(first).expect_err("a word follows");
        assert!(error.contains("'after' follows"), "{error}");
    }

    #[test]
    fn a_program_is_missing_before_and_after_a_colon() {
        for (line, said) in [
            (": ls", "before ':'"),
            ("-- : ls", "before ':'"),
            ("ls :", "after"),
        ] {
            let mut left = Words::new(&words(line));
            let first = left.take().expect("a word");
            let error = left.take_program(first).expect_err(line);
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_file_that_names_itself_comes_to_an_end() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "ls").expect("writes");
        let mut left = Words::new(&[]);
        for _ in 0..MOST_FILES {
            left.insert_file("--app", file.path()).expect("one more");
        }
        let error = left
            .insert_file("--app", file.path())
            .expect_err("too many");
        assert!(error.contains("name itself"), "{error}");
    }
}
