//! `cargo xtask documentation`: the pages of all rooms, those of private items too, as modules speak of them; a link that leads nowhere
//! fails.
//!
//! What rustdoc has to know of each room is what the lints leave behind: they check it with the compiler of clippy, and cargo does not
//! check it again by another one if that is named.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::cargo;
use crate::rooms::root;

/// What `cargo clippy … -- -D warnings` tells its compiler. With another value everything is checked once more.
const LINTS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Makes them.
pub fn make() -> Result<()> {
    let mut doc = cargo();
    doc.current_dir(root()?)
        .args(["doc", "--workspace", "--no-deps"])
        .args(["--document-private-items", "--quiet"])
        .env(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        );
    if let Some(compiler) = of_the_lints() {
        doc.env("RUSTC_WORKSPACE_WRAPPER", compiler)
            .env("CLIPPY_ARGS", LINTS);
    }
    let status = doc.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo doc ended badly ({status})");
    }
    Ok(())
}

/// Clippy's compiler, by the name by which `cargo clippy` starts it.
fn of_the_lints() -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let compiler = sysroot.join("bin/clippy-driver");
    compiler.exists().then_some(compiler)
}
