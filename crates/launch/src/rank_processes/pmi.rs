//! PMI version 1, served to a rank that asks for it: a program with MPICH's library, linked statically or loaded by
//! itself, is then a rank of a job of that library.
//!
//! ```text
//!   rank ── PMI_FD, one line for each question ──▶ Connection ── Request ──▶ Store ── Meaning ──▶ RankProcesses
//!        ◀── one line for each answer ──────────────────────────┘
//! ```
//!
//! The messages of such a rank mean the same as those of Weft's ranks over their control socket: values that are
//! exchanged at a fence, also between hosts, the beginning and the end of MPI, an abort. A value is stored with its name
//! inside Weft's value, since names of PMI are those of the whole job.
//!
//! | command | meaning |
//! |---|---|
//! | `init`, `finalize`, `abort` | the rank's state in MPI |
//! | `put`, `barrier_in`, `get` | an exchange of values; `PMI_process_mapping` says which ranks share a host |
//! | `spawn`, `publish_name`, … | refused |
//!
//! Lines come from a process that may be broken or hostile: they are bounded, and after an invalid one the connection
//! closes. A rank sends one line and waits for the answer; a rank that does not read its answers loses the connection.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use weft_sys::random;

use super::share::OtherHosts;
use super::spawn::RankNumbers;
use crate::bootstrap::HostMap;
use crate::bootstrap::pmi::line::{LONGEST, PmiLine};
use crate::control::{Notice, VALUE_LIMIT};
use crate::exchange::{Exchange, PublishedValue};

/// Longest name and longest value, as they are announced: with the zero at their ends, as C counts them.
const NAMES: usize = 128;
const VALUES: usize = 2048;
const _: () = assert!(NAMES + VALUES <= VALUE_LIMIT);
/// What names of values begin with that came by PMI.
const PREFIX: &str = "pmi.";
/// Which ranks share a host.
const MAPPING: &str = "PMI_process_mapping";
/// Lines of one rank that are read before others get their turn.
pub const AT_ONCE: usize = 64;

/// A question of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Request {
    Begin {
        version: Option<u32>,
    },
    Limits,
    Appnum,
    Universe,
    StoreName,
    Put {
        name: String,
        value: String,
    },
    Get {
        name: String,
    },
    Barrier,
    Finalize,
    Abort {
        code: i32,
    },
    /// Nothing that is served: what the answer is called.
    Other {
        answer: &'static str,
    },
    /// A part of something longer, or what needs no answer.
    Nothing,
}

/// What a question means beside its answer.
#[derive(PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Nothing.
    Nothing,
    /// The rank has told this about itself.
    Notice(Notice),
    /// It has come to a fence; it is answered when it may [leave](Connection::leave_barrier).
    Barrier,
}

/// The connection of a rank.
#[derive(Debug)]
pub struct Connection {
    /// `None` once it is closed.
    stream: Option<File>,
    /// Read and not yet used.
    held: Vec<u8>,
    /// Within a command of several lines: how many of them follow.
    command: Option<Spawn>,
    /// It waits at a barrier.
    at_barrier: bool,
    /// How many values it has put.
    values: usize,
}

/// What is said of commands to start processes, each of several lines.
#[derive(Debug, Default)]
struct Spawn {
    total: Option<u32>,
    number: Option<u32>,
}

impl Connection {
    /// Over our end of a socket, which does not wait.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            stream: Some(File::from(socket)),
            held: Vec::new(),
            command: None,
            at_barrier: false,
            values: 0,
        }
    }

    /// What to wait for.
    pub fn stream(&self) -> Option<&File> {
        self.stream.as_ref()
    }

    /// Reads what has come.
    pub fn read(&mut self) {
        let mut bytes = [0; 4096];
        while self.held.len() <= LONGEST
            && let Some(stream) = &mut self.stream
        {
            match stream.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.stream = None,
                Ok(count) => self.held.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// The next thing that it asks, of what was read; `None` if there is no whole line, or none any more.
    fn next(&mut self) -> Option<Request> {
        let Some(end) = self.held.iter().position(|&byte| byte == b'\n') else {
            if self.held.len() > LONGEST {
                self.close();
            }
            return None;
        };
        let line: Vec<u8> = self.held.drain(..=end).collect();
        let request = self.understand(&line);
        if request.is_none() {
            self.close();
        }
        request
    }

    fn close(&mut self) {
        self.stream = None;
        self.held.clear();
    }

    fn understand(&mut self, line: &[u8]) -> Option<Request> {
        let text = std::str::from_utf8(line).ok()?.trim_end_matches('\n');
        if text == "mcmd=spawn" {
            self.command = Some(Spawn::default());
            return Some(Request::Nothing);
        }
        if let Some(spawn) = &mut self.command {
            if text == "endcmd" {
                let whole = spawn.number >= spawn.total;
                self.command = None;
                let answer = "spawn_result";
                return Some(if whole {
                    Request::Other { answer }
                } else {
                    Request::Nothing
                });
            }
            if let Some(total) = text.strip_prefix("totspawns=") {
                spawn.total = total.parse().ok();
            }
            if let Some(number) = text.strip_prefix("spawnssofar=") {
                spawn.number = number.parse().ok();
            }
            return Some(Request::Nothing);
        }
        if text.starts_with("cmd=abort") {
            // What follows may be a text of the program.
            let code = text
                .split(' ')
                .find_map(|word| word.strip_prefix("exitcode="));
            let code = code.and_then(|code| code.parse().ok()).unwrap_or(1);
            return Some(Request::Abort { code });
        }
        let line = PmiLine::parse(line).ok()?;
        let field = |name| line.get(name).unwrap_or_default().to_owned();
        let other = |answer| Request::Other { answer };
        Some(match line.command() {
            "init" => Request::Begin {
                version: line.number("pmi_version"),
            },
            "get_maxes" => Request::Limits,
            "get_appnum" => Request::Appnum,
            "get_universe_size" => Request::Universe,
            "get_my_kvsname" => Request::StoreName,
            "put" => Request::Put {
                name: field("key"),
                value: field("value"),
            },
            "get" => Request::Get { name: field("key") },
            "barrier_in" => Request::Barrier,
            "finalize" => Request::Finalize,
            "publish_name" => other("publish_result"),
            "unpublish_name" => other("unpublish_result"),
            "lookup_name" => other("lookup_result"),
            "spawn" => other("spawn_result"),
            "create_kvs" => other("newkvs"),
            "getbyidx" => other("getbyidx_results"),
            _ => return None,
        })
    }

    fn answer(&mut self, line: &PmiLine) {
        if let Some(stream) = &mut self.stream {
            let bytes = line.encode();
            if !matches!(stream.write(&bytes), Ok(count) if count == bytes.len()) {
                self.close();
            }
        }
    }

    /// A value as ranks exchange it, under a name of its own; `None` if it is longer than was announced.
    fn published(&mut self, rank: u32, name: &str, value: &str) -> Option<PublishedValue> {
        if name.is_empty() || name.len() >= NAMES || value.len() >= VALUES {
            return None;
        }
        self.values += 1;
        Some(PublishedValue {
            rank,
            name: format!("{PREFIX}{}", self.values - 1),
            value: format!("{name}={value}").into_bytes(),
        })
    }

    /// Lets the rank go on that waits at a barrier. False if it does not.
    pub fn leave_barrier(&mut self) -> bool {
        let waits = std::mem::take(&mut self.at_barrier);
        if waits {
            self.answer(&PmiLine::new("barrier_out").with("rc", 0));
        }
        waits
    }
}

/// The values that ranks have put, and the answers to what they ask.
#[derive(Debug)]
pub struct Store {
    /// What it is called: another name for each job, which MPICH gives to its files in `/dev/shm`.
    name: String,
    /// Which ranks share a host.
    mapping: String,
    values: HashMap<String, String>,
    refusal_told: bool,
}

impl Store {
    /// Of a job of so many ranks, whose hosts know the same of it, if it has several.
    ///
    /// # Errors
    /// If the kernel has no randomness.
    pub fn new(size: u32, others: Option<&OtherHosts>) -> io::Result<Self> {
        let name = match others {
            Some(others) => {
                // No way back to the key; and ranks, who see this, may ask for that.
                let mut hasher = DefaultHasher::new();
                others.key.as_bytes().hash(&mut hasher);
                hasher.finish()
            }
            None => u64::from_ne_bytes(random::bytes()?),
        };
        let hosts = others.and_then(|others| HostMap::decode(&others.map, size));
        Ok(Self {
            name: format!("weft_{name:016x}"),
            mapping: mapping(&hosts.unwrap_or_else(|| HostMap::single(size, "here"))),
            values: HashMap::new(),
            refusal_told: false,
        })
    }

    /// Keeps a value that was exchanged, if it came by PMI.
    pub fn keep(&mut self, value: &PublishedValue) {
        if value.name.starts_with(PREFIX)
            && let Ok(text) = std::str::from_utf8(&value.value)
            && let Some((name, value)) = text.split_once('=')
        {
            self.values.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Answers the next thing that a rank asks, of what was [read](Connection::read); `None` if nothing is left. Values
    /// that it puts go to the exchange.
    pub fn serve(
        &mut self,
        connection: &mut Connection,
        numbers: RankNumbers,
        exchange: &mut Exchange,
    ) -> Option<Meaning> {
        let mut meaning = Meaning::Nothing;
        let answer = match connection.next()? {
            Request::Begin { version } => {
                let is_ours = version == Some(1);
                if is_ours {
                    meaning = Meaning::Notice(Notice::Initialised);
                }
                PmiLine::new("response_to_init")
                    .with("rc", if is_ours { 0 } else { -1 })
                    .with("pmi_version", 1)
                    .with("pmi_subversion", 1)
            }
            Request::Limits => PmiLine::new("maxes")
                .with("rc", 0)
                .with("kvsname_max", NAMES)
                .with("keylen_max", NAMES)
                .with("vallen_max", VALUES),
            Request::Appnum => PmiLine::new("appnum")
                .with("rc", 0)
                .with("appnum", numbers.appnum),
            Request::Universe => PmiLine::new("universe_size")
                .with("rc", 0)
                .with("size", numbers.size),
            Request::StoreName => PmiLine::new("my_kvsname")
                .with("rc", 0)
                .with("kvsname", &self.name),
            Request::Put { name, value } => {
                let published = connection.published(numbers.number(), &name, &value);
                let taken = published.is_some_and(|published| {
                    self.values.insert(name, value);
                    exchange.put(published)
                });
                result("put_result", taken)
            }
            Request::Get { name } => {
                let value = match name.as_str() {
                    MAPPING => Some(&self.mapping),
                    _ => self.values.get(&name),
                };
                match value {
                    Some(value) => result("get_result", true).with("value", value),
                    None => result("get_result", false).with("msg", "key_not_found"),
                }
            }
            Request::Barrier => {
                connection.at_barrier = true;
                return Some(Meaning::Barrier);
            }
            Request::Finalize => {
                meaning = Meaning::Notice(Notice::Finalised);
                PmiLine::new("finalize_ack").with("rc", 0)
            }
            Request::Abort { code } => {
                let text = String::new();
                return Some(Meaning::Notice(Notice::Abort { code, text }));
            }
            Request::Other { answer } => {
                self.tell_refusal(numbers.number());
                result(answer, false).with("msg", NOT_SERVED)
            }
            Request::Nothing => return Some(Meaning::Nothing),
        };
        connection.answer(&answer);
        Some(meaning)
    }

    /// The library says no more than that it was refused; the launcher says why, once.
    fn tell_refusal(&mut self, rank: u32) {
        if !std::mem::replace(&mut self.refusal_told, true) {
            crate::user_output::tell(format_args!(
                "weft: rank {rank} runs over another library of MPI, and has asked this launcher to start processes, or for ports and \
                 names: programs over Weft's library get that, others what a job needs to come together. Run it over Weft's \
                 library, or under the launcher of its own"
            ));
        }
    }
}

/// Which ranks share a host, in the form of PMI: for each run of ranks the host, how many hosts, and how many ranks on each.
fn mapping(hosts: &HostMap) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in 0..hosts.size() {
        let host = hosts.host(rank);
        match runs.last_mut() {
            Some((last, count)) if *last == host => *count += 1,
            _ => runs.push((host, 1)),
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|(host, count)| format!("({host},1,{count})"))
        .collect();
    format!("(vector,{})", runs.join(","))
}

/// Why something is not served.
const NOT_SERVED: &str = "not_served_by_the_mpiexec_of_Weft_to_other_libraries_of_MPI";

fn result(command: &str, went_well: bool) -> PmiLine {
    let line = PmiLine::new(command).with("rc", if went_well { 0 } else { -1 });
    if went_well {
        line.with("msg", "success")
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(text: &str) -> Vec<Option<Request>> {
        let (ours, _) = weft_sys::descriptor::socket_pair(weft_sys::descriptor::Carries::Bytes)
            .expect("sockets");
        let mut connection = Connection::new(ours);
        let lines = text.split_inclusive('\n');
        lines
            .map(|line| connection.understand(line.as_bytes()))
            .collect()
    }

    #[test]
    fn a_command_of_several_lines_is_answered_once() {
        let one = |number| {
            format!(
                "mcmd=spawn\nnprocs=2\nexecname=E\ntotspawns=2\nspawnssofar={number}\nargcnt=0\nendcmd\n"
            )
        };
        let said = understood(&format!("{}{}", one(1), one(2)));
        let answered: Vec<_> = (0..said.len())
            .filter(|&line| said[line] != Some(Request::Nothing))
            .collect();
        assert_eq!(answered, [13]);
        let answer = "spawn_result";
        assert_eq!(said[13], Some(Request::Other { answer }));
    }

    #[test]
    fn what_is_no_line_is_not_understood() {
        for text in ["hello\n", "cmd=dance\n", "cmd=put key\n"] {
            assert_eq!(understood(text), [None], "{text}");
        }
        let code = 7;
        assert_eq!(
            understood("cmd=abort exitcode=7 message=of the program\n"),
            [Some(Request::Abort { code })]
        );
    }

    #[test]
    fn ranks_are_mapped_to_hosts() {
        assert_eq!(mapping(&HostMap::single(3, "a")), "(vector,(0,1,3))");
        let two = [0, 0, 1, 0].map(|host| (host, "x".to_owned()));
        let expected = "(vector,(0,1,2),(1,1,1),(0,1,1))";
        assert_eq!(mapping(&HostMap::group(two)), expected);
    }
}
