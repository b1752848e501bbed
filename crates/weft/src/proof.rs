//! Proof that one rank can read another's memory here, or that it cannot: tried with two processes, since
//! what the system permits towards a child or towards oneself says little about two siblings.
//!
//! ```text
//!   weft info ──▶ one: keeps a secret, says where ──▶ other: reads it there
//! ```

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};

use weft_sys::attach::{self, Remote};
use weft_sys::{Availability, Mapping, process, random};

/// The subcommand under which this program plays one of the two. Not for users.
pub const HIDDEN: &str = "prove-attach";

/// Plays one of the two.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let played = match &words[..] {
        [role] if role == "keep" => keep(),
        [role, process, address, secret] if role == "read" => read(process, address, secret),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is for weft info only",
        )),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Keeps a secret until standard input ends.
fn keep() -> io::Result<()> {
    process::permit_attach()?;
    let memory = Mapping::private(4096)?;
    let secret = random::bytes::<16>()?;
    for (word, at) in secret.as_chunks::<8>().0.iter().zip([0, 8]) {
        if let Some(place) = memory.atomic_u64(at) {
            place.store(
                u64::from_ne_bytes(*word),
                std::sync::atomic::Ordering::SeqCst,
            );
        }
    }
    let address = memory.as_ptr().addr();
    println!(
        "{} {address} {:032x}",
        process::id(),
        u128::from_be_bytes(secret)
    );
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Reads the secret there; fails with the reason if it cannot.
fn read(process: &str, address: &str, secret: &str) -> io::Result<()> {
    let wrong = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let at = Remote {
        process: process.parse().map_err(wrong)?,
        address: address.parse().map_err(wrong)?,
    };
    let secret = u128::from_str_radix(secret, 16)
        .map_err(wrong)?
        .to_be_bytes();
    match attach::proves(at, secret) {
        Availability::Available => Ok(()),
        Availability::NotAvailable { reason } => Err(io::Error::other(reason)),
    }
}

/// Tries it.
pub fn between_siblings() -> Availability {
    match attempt() {
        Ok(answer) => answer,
        Err(error) => Availability::not(format!("could not be tried: {error}")),
    }
}

fn start(words: &[&str]) -> io::Result<Child> {
    // By this name it is found also if its file was replaced meanwhile.
    Command::new("/proc/self/exe")
        .arg(HIDDEN)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

fn attempt() -> io::Result<Availability> {
    let mut keeper = start(&["keep"])?;
    let mut line = String::new();
    if let Some(output) = keeper.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut arguments = vec!["read"];
    arguments.extend(&words);
    let output = start(&arguments)?.wait_with_output()?;
    // Closes its standard input, which ends it.
    keeper.stdin.take();
    keeper.wait()?;
    if output.status.success() {
        return Ok(Availability::Available);
    }
    let reason = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Availability::not(reason))
}
