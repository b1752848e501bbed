//! Tests with a library that a sanitizer watches. `cargo xtask sanitize` lays out such an installation and
//! says in variables where it is; every test program can then run with it.
//!
//! The C programs are compiled with the same sanitizer and linked with the run-time library of the Rust
//! compiler: two of them, of two compilers, cannot live in one process. The calls that compilers put into a
//! program are the same for all.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Exit code of a process of which there was a report.
pub const REPORTED: i32 = 66;

/// What watches the library.
#[derive(Debug)]
pub struct Sanitizer {
    /// As compilers call it: `address`, `thread`.
    pub name: String,
    /// The installation.
    pub(crate) prefix: PathBuf,
    runtime: PathBuf,
}

impl Sanitizer {
    /// The one that the variables name, if any.
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

    /// Options for `mpicc` that link a program. Whoever calls the run-time library finds it in the program.
    #[must_use]
    pub fn linking(&self) -> Vec<String> {
        let runtime = self.runtime.display();
        let all = format!(
            "-rdynamic -Wl,--whole-archive,{runtime},--no-whole-archive -lm -ldl -lpthread -lrt -lgcc_s"
        );
        all.split(' ').map(str::to_owned).collect()
    }
}

/// Whether it is races between the threads of a process that are looked for.
#[must_use]
pub fn looks_for_races() -> bool {
    Sanitizer::of_this_run().is_some_and(|watched| watched.name == "thread")
}

/// Which of these cases of a program are run: all; but where races between the threads of a process are looked for, and the program
/// starts no thread, the last one alone. Only threads of the library can race there, and these are the same ones in all cases.
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

/// By what it includes: of threads, or of the fibers of Weft, which have threads below them.
fn starts_threads(source: &Path) -> bool {
    let text = std::fs::read_to_string(source).expect("the program is there");
    ["pthread.h", "threads.h", "weft.h"]
        .iter()
        .any(|header| text.contains(header))
}

/// The most ranks that a test should start: watched programs take several times the time and memory.
#[must_use]
pub fn most_ranks() -> u32 {
    match Sanitizer::of_this_run() {
        Some(_) => 4,
        None => u32::MAX,
    }
}
