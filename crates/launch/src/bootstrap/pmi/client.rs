//! Conversation with a launcher that speaks PMI version 1: one question, one answer.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use super::super::BootstrapError;
use super::line::{LONGEST, PmiLine, shown};

/// A connection to the launcher.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    /// Read and not yet used.
    held: Vec<u8>,
}

/// Limits of the launcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest name of a value, in bytes.
    pub name: usize,
    /// Longest value, in bytes.
    pub value: usize,
}

/// Something went wrong between the launcher and us.
fn failed(what: impl std::fmt::Display) -> BootstrapError {
    BootstrapError::new(format!(
        "the launcher that started this process (PMI version 1) cannot be understood: {what}. If the \
         program is started by another program in between, that may have taken the connection; \
         otherwise start it with Weft's mpiexec"
    ))
}

impl<S: Read + Write> Client<S> {
    /// Over this stream, to which calls wait.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            held: Vec::new(),
        }
    }

    /// Says a line that has no answer.
    ///
    /// # Errors
    /// If the launcher is gone.
    pub fn say(&mut self, line: &PmiLine) -> Result<(), BootstrapError> {
        self.stream
            .write_all(&line.encode())
            .map_err(|error| failed(format_args!("'{}' cannot be sent: {error}", line.command())))
    }

    /// Says a line and waits for the answer, which must be this one.
    ///
    /// # Errors
    /// If the launcher is gone, or answers something else.
    pub fn ask(&mut self, line: &PmiLine, expected: &str) -> Result<PmiLine, BootstrapError> {
        self.say(line)?;
        let answer = self.hear()?;
        if answer.command() != expected {
            return Err(failed(format_args!(
                "to '{}' it answered '{}', where '{expected}' was expected",
                line.command(),
                shown(&answer.to_string()),
            )));
        }
        Ok(answer)
    }

    /// As [`ask`](Self::ask); the answer must also say that it went well.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and if it says otherwise.
    pub fn request(&mut self, line: &PmiLine, expected: &str) -> Result<PmiLine, BootstrapError> {
        let answer = self.ask(line, expected)?;
        match answer.get("rc") {
            None | Some("0") => Ok(answer),
            Some(_) => Err(failed(format_args!(
                "it refused '{}': '{}'",
                line.command(),
                shown(&answer.to_string())
            ))),
        }
    }

    fn hear(&mut self) -> Result<PmiLine, BootstrapError> {
        loop {
            if let Some(end) = self.held.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                return PmiLine::parse(&line).map_err(failed);
            }
            if self.held.len() >= LONGEST {
                return Err(failed(format_args!(
                    "it sent {} bytes without the end of a line",
                    self.held.len()
                )));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(failed("it has closed the connection")),
                Ok(count) => self.held.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(format_args!("nothing can be read: {error}"))),
            }
        }
    }

    /// Begins: version, limits.
    ///
    /// # Errors
    /// If the launcher speaks another version, or is gone.
    pub fn begin(&mut self) -> Result<Limits, BootstrapError> {
        let hello = PmiLine::new("init")
            .with("pmi_version", 1)
            .with("pmi_subversion", 1);
        let answer = self.request(&hello, "response_to_init")?;
        if answer.get("pmi_version") != Some("1") {
            return Err(failed(format_args!(
                "it speaks another version of PMI: '{}'",
                shown(&answer.to_string())
            )));
        }
        let maxes = self.request(&PmiLine::new("get_maxes"), "maxes")?;
        let limit = |name| maxes.number::<usize>(name).filter(|&most| most >= 32);
        match (limit("keylen_max"), limit("vallen_max")) {
            (Some(name), Some(value)) => Ok(Limits {
                // Room for the zero with which C ends a text.
                name: name - 1,
                value: value.min(LONGEST / 2) - 1,
            }),
            _ => Err(failed(format_args!(
                "its limits are '{}'",
                shown(&maxes.to_string())
            ))),
        }
    }
}

impl<S: AsFd> AsFd for Client<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A launcher made of a text, for tests and fuzzing: it answers with these bytes, whatever is asked.
#[derive(Debug, Default)]
pub struct Scripted {
    /// What is left of the answers.
    answers: VecDeque<u8>,
    asked: Vec<u8>,
}

impl Scripted {
    /// Answers these bytes.
    #[must_use]
    pub fn new(answers: &[u8]) -> Self {
        Self {
            answers: answers.iter().copied().collect(),
            asked: Vec::new(),
        }
    }
}

impl Read for Scripted {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.answers.read(bytes)
    }
}

impl Write for Scripted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.asked.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(text: &str) -> Client<Scripted> {
        Client::new(Scripted::new(text.as_bytes()))
    }

    #[test]
    fn a_conversation_as_hydra_has_it() {
        let mut client = answering(
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n\
             cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n\
             cmd=barrier_out tag=0\n",
        );
        let limits = client.begin().expect("version 1");
        assert_eq!((limits.name, limits.value), (63, 1023));
        client
            .request(&PmiLine::new("barrier_in"), "barrier_out")
            .expect("no rc is no refusal");
        let asked = String::from_utf8_lossy(&client.stream.asked).into_owned();
        assert_eq!(
            asked,
            "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=barrier_in\n"
        );
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for (text, said) in [
            ("", "closed"),
            (
                "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
                "another version",
            ),
            ("cmd=response_to_init rc=1 pmi_version=1\n", "refused"),
            ("cmd=maxes rc=0\n", "was expected"),
            ("hello\n", "without a name"),
            (
                "cmd=response_to_init rc=0 pmi_version=1\ncmd=maxes rc=0 keylen_max=1 vallen_max=1\n",
                "limits",
            ),
        ] {
            let error = answering(text).begin().expect_err(text).to_string();
            assert!(error.contains(said) && error.contains("mpiexec"), "{error}");
        }
        let endless = "x".repeat(LONGEST + 5000);
        let error = answering(&endless).begin().expect_err("too long");
        assert!(error.to_string().contains("without the end"), "{error}");
    }
}
