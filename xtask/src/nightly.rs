//! The nightly compiler, which Miri, sanitizers and fuzzing need, and its components.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The platform, passed to cargo so that programs that run during the build do not get the flags of those
/// that are built.
pub const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Whether a nightly compiler is installed; if not, why.
pub fn installed() -> Result<(), String> {
    if quietly("cargo", &["+nightly", "--version"]) {
        return Ok(());
    }
    Err("there is no nightly toolchain (rustup toolchain install nightly)".into())
}

/// Miri and the source of the standard library, added if need be.
pub fn with_miri() -> Result<(), String> {
    with("miri", || {
        quietly("cargo", &["+nightly", "miri", "--version"])
    })?;
    with_source()
}

/// The source of the standard library, added if need be.
pub fn with_source() -> Result<(), String> {
    with("rust-src", || {
        let lock = "lib/rustlib/src/rust/library/Cargo.lock";
        print("sysroot").is_some_and(|folder| folder.join(lock).exists())
    })
}

/// The output of `rustc --print`; `None` without a compiler.
pub fn print(what: &str) -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(["+nightly", "--print", what])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.trim().into())
}

fn with(component: &str, found: impl Fn() -> bool) -> Result<(), String> {
    installed()?;
    let add = ["component", "add", "--toolchain", "nightly", component];
    if found() || (quietly("rustup", &add) && found()) {
        return Ok(());
    }
    Err(format!("rustup {} does not succeed", add.join(" ")))
}

/// Whether a command succeeds; its output is not shown.
pub fn quietly(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
