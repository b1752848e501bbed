//! Tests with a library under a sanitizer. `cargo xtask sanitize` makes such an installation and passes its
//! place in variables; every test program can then run with it.
//!
//! The C programs are compiled with the same sanitizer and linked with the run-time library of the Rust
//! compiler: one process cannot contain the run-time libraries of two compilers. All compilers insert the
//! same calls into a program.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Exit code of a process for which the sanitizer has reported something.
pub const REPORTED: i32 = 66;

/// The sanitizer of the library.
#[derive(Debug)]
pub struct Sanitizer {
    /// Its name in compilers: `address`, `thread`.
    pub name: String,
    /// The installation.
    pub(crate) prefix: PathBuf,
    runtime: PathBuf,
}

impl Sanitizer {
    /// The sanitizer that the variables name, if any.
    ///
    /// # Panics
    /// If only some of them are set.
    #[must_use]
    pub fn of_this_run() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Sanitizer>> = OnceLock::new();
        let variable = |name| std::env::var(format!("WEFT_TEST_{name}")).ok();
        let found = FOUND.get_or_init(|| {
            let name = variable("SANITIZER")?;
            let path = |name| {
                let found = variable(name).map(PathBuf::from);
                found.unwrap_or_else(|| {
                    panic!("WEFT_TEST_{name} is not set; cargo xtask sanitize sets it")
                })
            };
            Some(Sanitizer {
                name,
                prefix: path("PREFIX"),
                runtime: path("RUNTIME"),
            })
        });
        found.as_ref()
    }

    /// Options for `mpicc` that compile.
    #[must_use]
    pub fn compiling(&self) -> [String; 2] {
        [format!("-fsanitize={}", self.name), "-g1".to_owned()]
    }

    /// Options for `mpicc` that link a program. All callers of the run-time library find it in the program.
    #[must_use]
    pub fn linking(&self) -> Vec<String> {
        let runtime = self.runtime.display();
        let all = format!(
            "-rdynamic -Wl,--whole-archive,{runtime},--no-whole-archive -lm -ldl -lpthread -lrt -lgcc_s"
        );
        all.split(' ').map(str::to_owned).collect()
    }
}

/// Whether the sanitizer searches for races between the threads of a process.
#[must_use]
pub fn looks_for_races() -> bool {
    Sanitizer::of_this_run().is_some_and(|watched| watched.name == "thread")
}

/// The cases of a program that are run: all; but if the sanitizer searches for races between the threads of a process, and the
/// program starts no thread, only the last one. Only threads of the library can race there, and these are the same in all cases.
///
/// # Panics
/// If there is no such program.
#[must_use]
pub fn telling<'a, Case>(source: &Path, cases: &'a [Case]) -> &'a [Case] {
    if !looks_for_races() || starts_threads(source) {
        return cases;
    }
    &cases[cases.len().saturating_sub(1)..]
}

/// Decided by its includes: headers of threads, or of the fibers of Weft, which use threads.
fn starts_threads(source: &Path) -> bool {
    let text = std::fs::read_to_string(source).expect("the program is there");
    ["pthread.h", "threads.h", "weft.h"]
        .iter()
        .any(|header| text.contains(header))
}

/// The most ranks that a test should start: under a sanitizer, programs take several times the time and
/// memory.
#[must_use]
pub fn most_ranks() -> u32 {
    match Sanitizer::of_this_run() {
        Some(_) => 4,
        None => u32::MAX,
    }
}
