//! Program of one library's component: a resident process that answers requests over a socket, its standard
//! input and output. Ours is this program itself; the others are built by `cargo xtask peers`, or from a
//! prefix that the user names.

use crate::results::Role;
use anyhow::{Context, Result, anyhow, bail};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest time that a program may take to say hello.
const START: Duration = Duration::from_secs(20);

/// The source of the program for a build that the user names, embedded so that an installed `weft` needs no
/// source tree.
const ARGOBOTS: [(&str, &str); 3] = [
    ("peer.hpp", include_str!("../peers/peer.hpp")),
    ("threads.hpp", include_str!("../peers/threads.hpp")),
    ("argobots.cpp", include_str!("../peers/argobots.cpp")),
];

/// Why a program gave no samples.
#[derive(Debug)]
pub enum AskError {
    /// It does not start, or does not say hello.
    Start(anyhow::Error),
    /// It did not answer in time. Asking again means waiting again.
    NoAnswer {
        /// How long the wait was.
        limit: Duration,
        /// The last that it wrote to standard error, as the end of a sentence.
        said: String,
    },
    /// It has ended.
    Ended {
        /// The last that it wrote to standard error, as the end of a sentence.
        said: String,
    },
    /// It refused the request, in its own words.
    Refused(String),
    /// Its answer is malformed.
    Malformed(String),
    /// Its socket failed.
    Socket(std::io::Error),
}

impl std::error::Error for AskError {}

impl fmt::Display for AskError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(out, "{error:#}"),
            Self::NoAnswer { limit, said } => write!(out, "no answer within {limit:?}{said}"),
            Self::Ended { said } => write!(out, "the program ended{said}"),
            Self::Refused(why) => write!(out, "{why}"),
            Self::Malformed(what) => write!(out, "{what}"),
            Self::Socket(error) => write!(out, "the socket of the program failed: {error}"),
        }
    }
}

/// One program: its location, and the process that runs it, started by the first request and again after a
/// failed one.
pub struct Program {
    stem: String,
    role: Role,
    path: PathBuf,
    arguments: Vec<&'static str>,
    running: Option<Running>,
}

/// While it runs.
struct Running {
    child: Child,
    socket: BufReader<UnixStream>,
    log: File,
}

impl Program {
    /// This program itself, with Weft's components.
    pub fn ours() -> Program {
        Program {
            stem: "weft".into(),
            role: Role::Ours,
            // The running program itself, even if its file has been replaced.
            path: "/proc/self/exe".into(),
            arguments: vec!["bench", "--serve-components"],
            running: None,
        }
    }

    /// This program itself, attacking a job.
    pub fn intruders() -> Program {
        Program {
            stem: "intruders".into(),
            role: Role::Device,
            path: "/proc/self/exe".into(),
            arguments: vec!["bench", "--serve-intruders"],
            running: None,
        }
    }

    /// The program of a compared library.
    pub fn peer(path: &Path) -> Option<Program> {
        Some(Program {
            stem: path.file_name()?.to_str()?.to_string(),
            role: Role::Peer,
            path: path.to_path_buf(),
            arguments: Vec::new(),
            running: None,
        })
    }

    /// The programs that `cargo xtask peers` built in a folder, in the order of their names.
    pub fn peers_in(folder: &Path) -> Vec<Program> {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.is_file() && path.extension().is_none());
        paths.sort();
        paths
            .iter()
            .filter_map(|path| Program::peer(path))
            .collect()
    }

    /// Builds the program for Argobots with the library under a prefix, in a folder of `work`.
    ///
    /// # Errors
    /// If the prefix holds no installed Argobots, or the compiler (`c++`) is missing or refuses.
    pub fn argobots(prefix: &Path, work: &Path) -> Result<Program> {
        let prefix = prefix
            .canonicalize()
            .with_context(|| format!("argobots: there is no folder {}", prefix.display()))?;
        if !prefix.join("include/abt.h").exists() {
            bail!(
                "argobots: {} has no include/abt.h; give the prefix of an installed Argobots",
                prefix.display()
            );
        }
        let folder = work.join("argobots-program");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        for (file, text) in ARGOBOTS {
            std::fs::write(folder.join(file), text)
                .with_context(|| format!("cannot write to {}", folder.display()))?;
        }
        let library = ["lib", "lib64"]
            .map(|name| prefix.join(name))
            .into_iter()
            .find(|folder| folder.exists())
            .unwrap_or_else(|| prefix.join("lib"));
        let built = Command::new("c++")
            .current_dir(&folder)
            .args(["-std=c++17", "-O3", "-o", "argobots", "argobots.cpp"])
            .arg("-I")
            .arg(prefix.join("include"))
            .arg("-L")
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", library.display()))
            .args(["-labt", "-lpthread"])
            .stdin(Stdio::null())
            .output()
            .context("argobots: cannot start c++; install a C++ compiler")?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            let first: Vec<&str> = said.lines().take(12).collect();
            bail!("argobots: its program is not built:\n{}", first.join("\n"));
        }
        Program::peer(&folder.join("argobots")).context("argobots: its path is no text")
    }

    /// Which it is: `weft`, or the stem of its source in `crates/bench/peers`.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Ours or a peer.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Samples that a request asks for, in nanoseconds per operation. A program that failed is ended, and
    /// started again by the next request.
    ///
    /// # Errors
    /// See [`AskError`]; [`AskError::NoAnswer`] after `limit`.
    pub fn ask(&mut self, request: &str, limit: Duration) -> Result<Vec<f64>, AskError> {
        let answer = self.exchange(request, limit);
        if answer.is_err() {
            self.stop();
        }
        let answer = answer?;
        let mut words = answer.split_whitespace();
        let figure = |word: &str| {
            word.parse()
                .map_err(|error| AskError::Malformed(format!("{word} is no figure: {error}")))
        };
        match words.next() {
            Some("ok") => words.map(figure).collect(),
            Some("error") => {
                let why = answer.trim_start_matches("error").trim();
                Err(AskError::Refused(why.to_owned()))
            }
            _ => Err(AskError::Malformed(format!("not an answer: {answer:?}"))),
        }
    }

    /// Starts the program, if it does not run; the first request would do so, too.
    ///
    /// # Errors
    /// [`AskError::Start`], or it said nothing in time.
    pub fn start(&mut self) -> Result<(), AskError> {
        self.running().map(|_| ())
    }

    fn running(&mut self) -> Result<&mut Running, AskError> {
        Ok(match &mut self.running {
            Some(running) => running,
            none => none.insert(Running::start(&self.path, &self.arguments)?),
        })
    }

    fn exchange(&mut self, request: &str, limit: Duration) -> Result<String, AskError> {
        let running = self.running()?;
        if writeln!(running.socket.get_mut(), "{request}").is_err() {
            return Err(running.ended());
        }
        running.line(limit)
    }

    /// Ends the program, if it runs.
    pub fn stop(&mut self) {
        self.running = None;
    }
}

impl Running {
    fn start(path: &Path, arguments: &[&str]) -> Result<Running, AskError> {
        let mut running = Running::spawn(path, arguments).map_err(AskError::Start)?;
        let hello = running.line(START)?;
        if !hello.starts_with("hello ") {
            return Err(AskError::Start(anyhow!(
                "{} does not say hello but {hello:?}",
                path.display()
            )));
        }
        Ok(running)
    }

    fn spawn(path: &Path, arguments: &[&str]) -> Result<Running> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
        let log = tempfile::tempfile().context("no temporary file")?;
        let child = Command::new(path)
            .args(arguments)
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(log.try_clone()?)
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        Ok(Running {
            child,
            socket: BufReader::new(ours),
            log,
        })
    }

    /// The next line that it writes.
    fn line(&mut self, limit: Duration) -> Result<String, AskError> {
        let socket = self.socket.get_ref();
        socket
            .set_read_timeout(Some(limit))
            .map_err(AskError::Socket)?;
        let mut line = String::new();
        match self.socket.read_line(&mut line) {
            Ok(0) => Err(self.ended()),
            Ok(_) => Ok(line),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let said = said(&self.log);
                Err(AskError::NoAnswer { limit, said })
            }
            Err(error) => Err(AskError::Socket(error)),
        }
    }

    fn ended(&self) -> AskError {
        AskError::Ended {
            said: said(&self.log),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It keeps nothing that would be lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last that a program wrote to standard error.
fn said(log: &File) -> String {
    let mut text = vec![0; 2000];
    let length = log.metadata().map_or(0, |data| data.len());
    let read = log.read_at(&mut text, length.saturating_sub(2000));
    text.truncate(read.unwrap_or(0));
    let text = String::from_utf8_lossy(&text);
    match text.trim() {
        "" => String::new(),
        text => format!("; it said: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> (tempfile::TempDir, Program) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("script");
        std::fs::write(&path, text).expect("script");
        let mut program = Program::peer(&path).expect("a name");
        // Read by the shell: to execute a file just written fails while another test's child, forked in
        // between, still has it open for writing.
        program.path = "/bin/sh".into();
        program.arguments = vec![path.display().to_string().leak()];
        (folder, program)
    }

    #[test]
    fn a_program_answers_fails_and_is_started_again() {
        let (_folder, mut program) = script(
            "echo hello script 1\nwhile read line; do case $line in good) echo ok 1.5 2;; bad) echo error no such verb;; *) echo oh >&2; exit 3;; esac; done",
        );
        let limit = Duration::from_secs(10);
        assert_eq!(program.ask("good", limit).expect("samples"), [1.5, 2.0]);
        let error = program.ask("bad", limit).expect_err("refused");
        assert_eq!(error.to_string(), "no such verb");
        let error = program.ask("end", limit).expect_err("ended").to_string();
        assert!(error.contains("ended") && error.contains("oh"), "{error}");
        assert_eq!(program.ask("good", limit).expect("again"), [1.5, 2.0]);
    }

    #[test]
    fn one_that_says_nothing_is_given_up() {
        let (_folder, mut program) = script("echo hello script 1\nread line\nread line");
        let error = program.ask("good", Duration::from_millis(50));
        assert!(error.expect_err("late").to_string().contains("no answer"));
    }

    #[test]
    fn a_prefix_without_argobots_is_named() {
        let folder = tempfile::tempdir().expect("folder");
        let error = Program::argobots(folder.path(), folder.path()).err();
        assert!(error.expect("refused").to_string().contains("abt.h"));
    }
}
