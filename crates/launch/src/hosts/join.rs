//! Commands that become an agent: `weft agent` and `weft join`.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::poll;

use super::agent::{self, AgentExit};
use super::dial::dial;
use super::handshake::LinkHandshake;
use super::link::{Link, LinkError, Streams};
use super::listen_addresses;
use super::message::{Hello, MARK, RELEASE};
use super::token;
use crate::adoption::AdoptedHost;
use crate::bootstrap::name_of_this_host;
use crate::options::{CommandLine, ProgramLine};
use crate::plan::{self, Program};
use crate::{guard, signals};

/// How long a connection, and the proof of the key, may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Silence that means life until the head has said what the user wants.
const SILENCE: Duration = Duration::from_secs(60);

/// How much earlier than the head those who join may come, and how often they ask meanwhile.
const EARLY: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(50);
/// How long is waited after each time that the head has closed the connection before the token was proved.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(200),
    Duration::ZERO,
];
/// Exit code for a command line that cannot be understood.
const USAGE: u8 = 2;

const HELP: &str = "\
Brings ranks into a job that waits for them (weft run --listen ADDRESS:PORT -n N).

Usage: weft join [OPTIONS] HOST:PORT [PROGRAM [ARGUMENTS…]]

  --token TOKEN       what the waiting job has printed: 64 hexadecimal digits
  --token-file FILE   a file that holds it, - for standard input: others on this host can see the
                      words of a command, but not these
  -n N                how many ranks to bring in (default 1)
  -h, --help          this text

Without a program the ranks run the one that the job names. Ends when the job ends, with its exit code.
";

fn hello(ranks: u32, program: bool) -> Hello {
    Hello {
        release: RELEASE,
        host: name_of_this_host(),
        ranks,
        program,
        adopted: Vec::new(),
    }
}

/// `weft agent`: started by the head of a job, over a command such as ssh. Not for people.
pub fn agent() -> ExitCode {
    match serve() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            crate::user_output::tell(format_args!("weft agent: {error}"));
            ExitCode::from(1)
        }
    }
}

fn serve() -> io::Result<u8> {
    let (input, output) = (io::stdin(), io::stdout());
    let input: OwnedFd = input.as_fd().try_clone_to_owned()?;
    let output: OwnedFd = output.as_fd().try_clone_to_owned()?;
    let mut out = std::fs::File::from(output);
    out.write_all(MARK)?;
    // Byte by byte: what follows the line belongs to the handshake.
    let mut text = Vec::new();
    let mut reader = std::fs::File::from(input);
    let mut byte = [0];
    while reader.read(&mut byte)? == 1 && byte[0] != b'\n' {
        text.push(byte[0]);
        if text.len() > 2 * Key::BYTES {
            break;
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let key: Key = text.parse().map_err(|_| {
        io::Error::other(
            "this command is started by mpiexec --hosts, which sends a key; to bring in ranks by hand: weft join",
        )
    })?;
    let (reader, out) = (OwnedFd::from(reader), OwnedFd::from(out));
    guard::run(false, move |liveness, _| {
        let met = Streams::two(reader, out)
            .map_err(LinkError::from)
            .and_then(|streams| LinkHandshake::expect(&key, streams, PATIENCE)?.wait(SILENCE));
        let head = "the head of the job";
        finish(met, liveness, (hello(0, false), None), None, head)
    })
}

/// Becomes the agent of a host whose ranks another launcher has started: joins the head, which listens there, and answers the exit
/// code. What later processes run has the environment of `own`.
///
/// # Errors
/// If the processes cannot be made.
pub(crate) fn join_adopted(
    head: &str,
    adopted: AdoptedHost,
    own: Option<Program>,
) -> io::Result<u8> {
    let key = adopted.others.key.clone();
    let addresses = listen_addresses::parse(head).unwrap_or_default();
    guard::run(false, move |liveness, _| match dial(&key, &addresses) {
        Ok(link) => {
            let ranks = adopted.ranks.clone();
            let hello = Hello {
                adopted: ranks,
                ..hello(0, true)
            };
            let head = "the launcher of the job";
            finish(Ok(link), liveness, (hello, own), Some(adopted), head)
        }
        Err(tried) => {
            adopted.refuse(format!(
                "the launcher beside rank 0 is not reached from here: {tried}"
            ));
            1
        }
    })
}

/// Serves the head over a link, and answers the exit code. `brings`: what it is told, and the program that ranks run, or whose
/// environment they have, if not that of the head.
fn finish(
    met: Result<Link, LinkError>,
    liveness: OwnedFd,
    brings: (Hello, Option<Program>),
    adopted: Option<AdoptedHost>,
    head: &str,
) -> u8 {
    let served = match met {
        Ok(link) => agent::run(link, liveness, brings, adopted),
        Err(error) => {
            crate::user_output::tell(format_args!("weft: {head}: {error}"));
            return 1;
        }
    };
    match served {
        Ok(AgentExit::Over(code)) => code,
        Ok(AgentExit::Ended(None)) => 1,
        Ok(AgentExit::Ended(Some(signal))) => {
            let name = signals::name(signal);
            crate::user_output::tell(format_args!(
                "weft: ended by signal {signal} ({name}); the ranks here were ended"
            ));
            u8::try_from(128 + signal).unwrap_or(1)
        }
        Ok(AgentExit::HeadLost(error)) => {
            crate::user_output::tell(format_args!(
                "weft: {head} is lost, and all ranks here were ended: {error}"
            ));
            1
        }
        Err(error) => {
            crate::user_output::tell(format_args!(
                "weft: the ranks of this host cannot be attended to: {error}"
            ));
            1
        }
    }
}

/// What `weft join` was asked.
#[derive(Debug)]
struct Asked {
    token: Key,
    ranks: u32,
    head: String,
    words: Vec<OsString>,
}

/// `weft join` with the words that follow. Must be called before the process has a second thread.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let help = words
        .iter()
        .take_while(|word| word.to_string_lossy().starts_with('-'));
    if words.is_empty()
        || help
            .into_iter()
            .any(|word| word == "-h" || word == "--help")
    {
        let code = crate::user_output::answer(HELP);
        return ExitCode::from(if words.is_empty() { USAGE } else { code });
    }
    match read(words).and_then(join) {
        Ok(code) => ExitCode::from(code),
        Err((code, text)) => {
            crate::user_output::tell(format_args!("weft: {text}"));
            ExitCode::from(code)
        }
    }
}

fn read(words: Vec<OsString>) -> Result<Asked, (u8, String)> {
    let usage = |text: String| (USAGE, text);
    let (mut found, mut ranks) = (None, 1);
    let mut words = words.into_iter();
    let head = loop {
        let Some(word) = words.next() else {
            return Err(usage(
                "weft join needs the address that the waiting job has printed: HOST:PORT".into(),
            ));
        };
        let text = word.to_string_lossy().into_owned();
        let (name, mut attached) = match text.split_once('=') {
            Some((name, value)) if name.starts_with('-') => {
                (name.to_owned(), Some(OsString::from(value)))
            }
            _ => (text.clone(), None),
        };
        let mut value = || {
            let value = attached.take().or_else(|| words.next());
            value.ok_or_else(|| usage(format!("{name} needs a value; see weft join --help")))
        };
        match &*name {
            "--token" | "-token" => {
                let text = value()?.to_string_lossy().into_owned();
                let key = text
                    .parse::<Key>()
                    .map_err(|error| usage(format!("--token: {error}")))?;
                found = Some(key);
            }
            "--token-file" | "-token-file" => {
                let key =
                    token::obtain(Some(&value()?)).map_err(|error| usage(error.to_string()))?;
                found = Some(key);
            }
            "-n" | "-np" | "--n" | "--np" => {
                let text = value()?;
                let number = text.to_str().and_then(|text| text.parse().ok());
                ranks = number
                    .filter(|number| (1..10_000).contains(number))
                    .ok_or_else(|| {
                        usage(format!(
                            "-n needs the number of ranks, but was given '{}'",
                            text.display()
                        ))
                    })?;
            }
            option if option.starts_with('-') => {
                return Err(usage(format!(
                    "weft join has no option {option}; see weft join --help"
                )));
            }
            _ => break text,
        }
    };
    let token = found.ok_or_else(|| {
        usage("weft join needs the token that the waiting job has printed: --token TOKEN".into())
    })?;
    Ok(Asked {
        token,
        ranks,
        head,
        words: words.collect(),
    })
}

fn join(asked: Asked) -> Result<u8, (u8, String)> {
    let Asked {
        token,
        ranks,
        head,
        words,
    } = asked;
    // Found before anybody is told that ranks are coming.
    let mut own = None;
    if !words.is_empty() {
        let program = ProgramLine {
            words,
            ranks: Some(ranks),
            ..ProgramLine::default()
        };
        let line = CommandLine {
            programs: vec![program],
            ..CommandLine::default()
        };
        let plan = plan::make(line).map_err(|error| (error.code, error.to_string()))?;
        own = plan.programs.into_iter().next();
    }
    let stream = connect(&head, EARLY).map_err(|text| (1, text))?;
    let ended = guard::run(false, move |liveness, _| {
        let met = meet(stream, &token, &head).map_err(|error| match error {
            // It does not say why, to a stranger.
            LinkError::Closed => LinkError::Broken(
                "it has closed the connection before the token was proved: is it the token of this job?"
                    .into(),
            ),
            LinkError::Late => LinkError::Broken(format!(
                "whoever listens there has not answered as a waiting job of Weft does within {} s: is it the address that the job has printed?",
                PATIENCE.as_secs()
            )),
            error => error,
        });
        let hello = hello(ranks, own.is_some());
        finish(met, liveness, (hello, own), None, &head)
    });
    ended.map_err(|error| (1, error.to_string()))
}

/// Proves the token over this stream. A head beside which many strangers knock may have closed it before it has
/// heard us: then over other ones, after pauses.
fn meet(stream: TcpStream, token: &Key, head: &str) -> Result<Link, LinkError> {
    let mut next = Some(stream);
    for pause in PAUSES {
        let stream = match next.take() {
            Some(stream) => stream,
            // Its port was open before: what it has said then counts. If it refuses now it has ended.
            None => connect(head, Duration::ZERO).map_err(|_| LinkError::Closed)?,
        };
        let met = LinkHandshake::begin(token, Streams::one(stream.into())?, PATIENCE)
            .and_then(|handshake| handshake.wait(SILENCE));
        match met {
            Err(LinkError::Closed) => poll::wait(&mut [], Some(pause))?,
            met => return met,
        };
    }
    Err(LinkError::Closed)
}

/// Connects to the first address of the head that answers. Those who join may come a little before the head
/// listens: for as long as `early` a refusal is asked again.
fn connect(head: &str, early: Duration) -> Result<TcpStream, String> {
    let addresses: Vec<_> = head
        .to_socket_addrs()
        .map_err(|error| {
            format!("{head} is no address of a waiting job: {error}; HOST:PORT was expected, as it has printed")
        })?
        .collect();
    let until = Instant::now() + early;
    loop {
        let mut refused = false;
        let mut tried = Vec::new();
        for address in &addresses {
            match TcpStream::connect_timeout(address, PATIENCE) {
                Ok(stream) => {
                    // Small messages, each of which somebody waits for.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => {
                    refused |= error.kind() == ErrorKind::ConnectionRefused;
                    tried.push(format!("{address}: {error}"));
                }
            }
        }
        if !refused || Instant::now() >= until {
            return Err(format!(
                "no job answers at {head} ({}): is it waiting (weft run --listen) for more ranks still, and is the port open to this host?",
                tried.join("; ")
            ));
        }
        let _ = poll::wait(&mut [], Some(AGAIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        let words = line.split_whitespace().map(OsString::from).collect();
        read(words).map_err(|(_, text)| text)
    }

    #[test]
    fn the_words_of_join_are_understood() {
        let token = "7f".repeat(32);
        let found = asked(&format!("--token={token} -n 3 head:7000 prog -n 1")).expect("complete");
        assert_eq!((found.ranks, &*found.head), (3, "head:7000"));
        assert_eq!(found.words, ["prog", "-n", "1"]);
        assert_eq!(found.token.to_text(), token);
        for (line, said) in [
            ("head:7000", "--token"),
            ("--token x head:7000", "--token"),
            ("--token", "needs a value"),
            ("-n 0 head:7000", "number of ranks"),
            ("--no head:7000", "no option"),
            ("--token-file /no/such/file head:7000", "/no/such/file"),
            (&format!("--token {token}"), "HOST:PORT"),
        ] {
            let error = asked(line).expect_err(line);
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
