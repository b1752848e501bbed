//! Calls of a program in Rust, which this code is part of: its crates are distinguished from ours by their
//! names.

use std::ffi::c_void;
use std::path::Path;

use super::{FRAMES, file_name, own_code};

/// Crates that do not belong to the program, by the beginnings of their function names.
const NOT_THE_PROGRAM: [&str; 5] = ["weft::", "weft_", "std::", "core::", "alloc::"];

/// The function that calls the program of a rank that is a thread, and finalizes MPI after it.
const RANK: &str = "weft::mpi::ranks::as_rank";

/// The frames of a thread that is in a call of this library, which is part of the program.
#[derive(Debug)]
pub struct RustCall(Vec<usize>);

impl RustCall {
    /// The call of the caller; `None` if this code is in a shared library.
    #[must_use]
    pub fn of_caller() -> Option<Self> {
        if own_code().is_some() {
            return None;
        }
        let mut frames = Vec::new();
        backtrace::trace(|frame| {
            frames.push(frame.ip() as usize);
            frames.len() < FRAMES
        });
        Some(Self(frames))
    }

    /// The function that the program has called, `receive`, and the place: `ring.rs:12 (main)`. Empty where
    /// debug information, which this reads, does not say.
    #[must_use]
    pub fn name_and_place(&self) -> (String, String) {
        let (mut call, mut place) = (String::new(), None);
        for frame in &self.0 {
            backtrace::resolve(*frame as *mut c_void, |symbol| {
                let Some(name) = symbol.name().filter(|_| place.is_none()) else {
                    return;
                };
                let name = format!("{name:#}");
                if name.ends_with(RANK) {
                    // The program has returned.
                    (call, place) = (String::new(), Some(String::new()));
                    return;
                }
                if is_public(&name) {
                    call = last_part(&name).to_owned();
                }
                // The function that the program calls is the first of ours.
                let file = symbol.filename();
                if call.is_empty() || is_not_the_program(&name) || file.is_some_and(is_library) {
                    return;
                }
                let file = file.map(|file| file.to_string_lossy());
                place = Some(match file.zip(symbol.lineno()) {
                    Some((file, line)) => format!("{}:{line} ({name})", file_name(&file)),
                    None => name,
                });
            });
            if place.is_some() {
                break;
            }
        }
        (call, place.unwrap_or_default())
    }
}

/// The name of a function without the notation for methods of a type.
fn path(name: &str) -> &str {
    name.trim_start_matches(['<', '&', '('])
        .trim_start_matches("impl ")
}

fn is_not_the_program(name: &str) -> bool {
    NOT_THE_PROGRAM
        .iter()
        .any(|one| path(name).starts_with(one))
}

/// Modules whose functions programs call.
const PUBLIC: [&str; 4] = [
    "weft::mpi::",
    "weft_service::ends::",
    "weft_service::node::",
    "weft_service::server::",
];

/// Whether a file belongs to a crate of ours, or to Rust itself: what is generic and was inlined has a name without its crate.
fn is_library(file: &Path) -> bool {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let of_ours = crates.and_then(|crates| file.strip_prefix(crates).ok());
    let is_ours = of_ours.is_some_and(|file| file.iter().nth(1) == Some("src".as_ref()));
    is_ours || file.starts_with("/rustc")
}

/// Whether it is one of the functions that programs call.
fn is_public(name: &str) -> bool {
    let path = path(name);
    PUBLIC.iter().any(|module| path.starts_with(module)) && !name.ends_with("{{closure}}")
}

/// The function's own name.
fn last_part(name: &str) -> &str {
    let name = name
        .strip_suffix('>')
        .and_then(|name| name.rsplit_once("::<"))
        .map_or(name, |(name, _)| name);
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_libraries() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let crates = crates.canonicalize().expect("a folder");
        assert!(is_library(&crates.join("service/src/server.rs")));
        assert!(is_library(Path::new(
            "/rustc/59807616/library/core/src/iter.rs"
        )));
        assert!(!is_library(&crates.join("weft/examples/heat.rs")));
        assert!(!is_library(Path::new("/home/me/heat/src/main.rs")));
    }

    #[test]
    fn names_of_functions() {
        let method = "weft::mpi::p2p::<impl weft::mpi::communicator::PointToPoint>::receive";
        assert!(is_public(method) && is_not_the_program(method));
        assert_eq!(last_part(method), "receive");
        assert!(is_public("<weft::mpi::request::Request<R>>::wait"));
        assert!(is_public("<weft_service::ends::Inbox>::read"));
        assert!(!is_public(
            "weft_service::mailbox::read::<impl weft_service::mailbox::Mailboxes>::poll_read"
        ));
        assert_eq!(
            last_part("weft::mpi::request::Request<R>::wait::<u8>"),
            "wait"
        );
        assert!(!is_not_the_program("heat::exchange::{{closure}}"));
        assert!(is_not_the_program(
            "<core::pin::Pin<P> as core::future::future::Future>::poll"
        ));
    }
}
