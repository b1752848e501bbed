//! Connection to a launcher that speaks PMI: values of ranks in the launcher's store, and a lifeline while nothing is asked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use weft_sys::lifeline;

use super::OVER;
use super::client::{Client, Limits};
use super::line::PmiLine;
use super::others::Store;
use super::watch;
use crate::bootstrap::{BootstrapError, VALUE_LIMIT};
use crate::hex::{hex, unhex};

/// Most pieces of a value, where a launcher takes the shortest values that [`Client::begin`] allows.
const PIECES: usize = 2 * VALUE_LIMIT / 23 + 1;

/// The way to the launcher.
///
/// *Invariant:* while it is a lifeline, nothing is asked over it: an answer would be taken for its end.
#[derive(Debug)]
pub struct Connection {
    client: Client<UnixStream>,
    /// What the launcher calls the store of this job.
    store: String,
    limits: Limits,
    /// It is a lifeline.
    tied: bool,
    /// MPI was finalised, and the launcher told so: nothing can be asked any more.
    over: bool,
}

impl Connection {
    /// Begins to speak with the launcher at the other end. Also which of the programs this process runs.
    ///
    /// # Errors
    /// If it does not answer as such a launcher does.
    pub fn begin(socket: UnixStream) -> Result<(Self, u32), BootstrapError> {
        let mut client = Client::new(socket);
        let limits = client.begin()?;
        let answer = client.request(&PmiLine::new("get_appnum"), "appnum")?;
        let appnum = answer.number("appnum").unwrap_or(0);
        let answer = client.request(&PmiLine::new("get_my_kvsname"), "my_kvsname")?;
        let connection = Self {
            client,
            store: answer.get("kvsname").unwrap_or("").to_owned(),
            limits,
            tied: false,
            over: false,
        };
        Ok((connection, appnum))
    }

    /// Makes it a lifeline, unless nothing can be asked any more.
    ///
    /// # Errors
    /// If the launcher has ended already.
    pub fn tie(&mut self) -> io::Result<()> {
        if !self.tied && !self.over {
            lifeline::tie_after_answer(&self.client)?;
            self.tied = true;
        }
        Ok(())
    }

    /// Asks the launcher something. Meanwhile it is no lifeline.
    ///
    /// # Errors
    /// If MPI was finalised, or the launcher is gone.
    pub fn talk<T>(
        &mut self,
        what: impl FnOnce(&mut Self) -> Result<T, BootstrapError>,
    ) -> Result<T, BootstrapError> {
        if self.over {
            return Err(BootstrapError::new(OVER));
        }
        let system = |error: io::Error| BootstrapError::new(error.to_string());
        let tied = std::mem::take(&mut self.tied);
        if tied {
            lifeline::untie(&self.client).map_err(system)?;
        }
        let answer = what(self);
        if tied {
            self.tie().map_err(system)?;
        }
        answer
    }

    /// Has the launcher end the job, and asks nothing after that.
    ///
    /// # Errors
    /// If the launcher is gone.
    pub fn abort(&mut self, code: i32) -> Result<(), BootstrapError> {
        self.over = true;
        self.client.say(&abort_line(code))
    }

    /// MPI is finalised, and the launcher told so.
    ///
    /// # Errors
    /// If the launcher is gone.
    pub fn finalise(&mut self) -> Result<(), BootstrapError> {
        self.over = true;
        let line = PmiLine::new("finalize");
        self.client.request(&line, "finalize_ack").map(drop)
    }

    /// Has the launcher end the job because a rank was lost; the connection stays a lifeline: the launcher may be gone,
    /// and this rank with it. No effect after finalising.
    pub fn report_loss(&mut self, lost: &str) {
        if !self.over {
            crate::user_output::tell(format_args!("weft: {lost}"));
            watch::wait_for_output_readers();
            let _ = self.client.say(&abort_line(1));
        }
    }

    fn put_text(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        if key.len() > self.limits.name || value.len() > self.limits.value {
            return Err(BootstrapError::new(format!(
                "the launcher takes names of {} and values of {} bytes; '{key}' needs {} and {}",
                self.limits.name,
                self.limits.value,
                key.len(),
                value.len()
            )));
        }
        let line = PmiLine::new("put")
            .with("kvsname", &self.store)
            .with("key", key)
            .with("value", value);
        self.client.request(&line, "put_result").map(drop)
    }

    fn get_text(&mut self, key: &str) -> Result<Option<String>, BootstrapError> {
        let line = PmiLine::new("get")
            .with("kvsname", &self.store)
            .with("key", key);
        let answer = self.client.ask(&line, "get_result")?;
        Ok(match answer.get("rc") {
            None | Some("0") => answer.get("value").map(str::to_owned),
            Some(_) => None,
        })
    }
}

impl Store for Connection {
    fn put(&mut self, rank: u32, name: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let text = hex(value);
        // A value that is longer than the launcher takes goes in pieces: name.0, name.1, …
        let pieces = text.as_bytes().chunks(self.limits.value - 8);
        let count = pieces.len().max(1);
        for (index, piece) in pieces.enumerate() {
            let head = if index == 0 {
                format!("{count}:")
            } else {
                String::new()
            };
            let piece = String::from_utf8_lossy(piece);
            self.put_text(&key_of(rank, name, index), &format!("{head}{piece}"))?;
        }
        if text.is_empty() {
            self.put_text(&key_of(rank, name, 0), "1:")?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.client
            .request(&PmiLine::new("barrier_in"), "barrier_out")
            .map(drop)
    }

    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let wrong = || {
            BootstrapError::new(format!(
                "the value '{name}' of rank {rank}, as the launcher keeps it, is not what Weft puts \
                 there: all ranks must use the same release of Weft"
            ))
        };
        let Some(first) = self.get_text(&key_of(rank, name, 0))? else {
            return Ok(None);
        };
        let (count, text) = first.split_once(':').ok_or_else(wrong)?;
        let count: usize = count.parse().map_err(|_| wrong())?;
        // Another rank wrote it, which may be broken.
        if count > PIECES {
            return Err(wrong());
        }
        let mut text = text.to_owned();
        for index in 1..count {
            if text.len() > 2 * VALUE_LIMIT {
                return Err(wrong());
            }
            let piece = self.get_text(&key_of(rank, name, index))?;
            text.push_str(&piece.ok_or_else(wrong)?);
        }
        let value = unhex(&text).filter(|value| value.len() <= VALUE_LIMIT);
        value.map(Some).ok_or_else(wrong)
    }

    fn launcher(&self) -> Option<BorrowedFd<'_>> {
        Some(self.client.as_fd())
    }
}

/// How the launcher's store calls a value of a rank.
fn key_of(rank: u32, name: &str, piece: usize) -> String {
    match piece {
        0 => format!("weft-{name}-{rank}"),
        piece => format!("weft-{name}-{rank}.{piece}"),
    }
}

fn abort_line(code: i32) -> PmiLine {
    PmiLine::new("abort").with("exitcode", code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};

    /// A value that another rank has put there by itself: no value makes us ask without end.
    #[test]
    fn a_forged_value_is_refused() {
        for (first, rest) in [
            ("99999999999:", ""),
            ("18446744073709551615:", "00"),
            ("358:", &"0".repeat(1000)),
            ("357:", "zz"),
            ("-1:", ""),
            ("no number", ""),
        ] {
            let (ours, launcher) = UnixStream::pair().expect("descriptors are left");
            let mut connection = Connection {
                client: Client::new(ours),
                store: "kvs".into(),
                limits: Limits {
                    name: 63,
                    value: 1023,
                },
                tied: false,
                over: false,
            };
            let answering = std::thread::scope(|scope| {
                let answers = scope.spawn(|| {
                    let (mut reader, mut launcher) = (BufReader::new(&launcher), &launcher);
                    let mut asked = 0;
                    let mut line = String::new();
                    while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
                        let value = if asked == 0 { first } else { rest };
                        let answer = format!("cmd=get_result rc=0 value={value}\n");
                        if launcher.write_all(answer.as_bytes()).is_err() {
                            break;
                        }
                        asked += 1;
                        line.clear();
                    }
                    asked
                });
                let refused = connection.get(3, "card");
                drop(connection);
                assert!(refused.is_err(), "{first}: {refused:?}");
                answers.join().expect("no panic")
            });
            assert!(answering <= PIECES, "{first}: asked {answering} times");
        }
    }
}
