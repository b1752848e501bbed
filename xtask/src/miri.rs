//! `cargo xtask miri`: runs `cargo +nightly miri test` without building C code, which Miri cannot run.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ciphers::Ciphers;
use crate::dist::from_shell;
use crate::nightly;
use crate::rooms::root;

/// What to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// As `cargo miri test` takes them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the tests.
pub fn run(arguments: &Arguments) -> Result<()> {
    nightly::with_miri().map_err(anyhow::Error::msg)?;
    let mut cargo = Command::new("cargo");
    from_shell(&mut cargo);
    cargo
        .current_dir(root()?)
        .args(["+nightly", "miri", "test"]);
    Ciphers::are_built(&mut cargo)?;
    let status = cargo
        .args(&arguments.arguments)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo miri test ended badly ({status})");
    }
    Ok(())
}
