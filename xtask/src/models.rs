//! `cargo xtask models`: checks the models of `models/` in Spin. Each is checked as it is, and once more
//! without the mechanism that it is about: then an error must be found, or the model proves nothing.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::rooms::root;

/// A model, and the macro that removes the mechanism that it is about.
const MODELS: &[(&str, &str)] = &[
    ("doorbell", "UNSETTLED"),
    ("queue", "NO_FENCE"),
    ("reattachment", "NO_NOTIFY"),
];

/// Whether models can be checked here; if not, why.
pub fn possible() -> Result<(), String> {
    for (program, argument) in [("spin", "-V"), ("cc", "--version")] {
        let found = Command::new(program).arg(argument).output();
        if !found.is_ok_and(|output| output.status.success()) {
            return Err(format!(
                "{program} is not installed (apt-get install {program})"
            ));
        }
    }
    Ok(())
}

/// Checks all models.
pub fn check() -> Result<()> {
    possible().map_err(anyhow::Error::msg)?;
    for (model, without) in MODELS {
        let (states, errors) = explore(model, None)?;
        ensure!(errors == 0, "models/{model}.pml: {errors} errors");
        println!("{model}: {states} states, no errors");
        let (states, errors) = explore(model, Some(without))?;
        ensure!(
            errors > 0,
            "models/{model}.pml finds nothing with {without}: it proves nothing"
        );
        println!("{model} with {without}: an error within {states} states, as it must be");
    }
    Ok(())
}

/// The number of states that were searched, and the number of errors that were found.
fn explore(model: &str, without: Option<&str>) -> Result<(u64, u64)> {
    let root = root()?;
    let folder = root.join("target/models").join(without.unwrap_or(model));
    std::fs::create_dir_all(&folder)?;
    let run = |command: &mut Command| -> Result<String> {
        let output = command.current_dir(&folder).output();
        let output = output.with_context(|| format!("cannot start {command:?}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!(
                "{command:?}: {said}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(said)
    };
    let mut spin = Command::new("spin");
    spin.args(without.map(|word| format!("-D{word}")));
    run(spin
        .arg("-a")
        .arg(root.join("models").join(format!("{model}.pml"))))?;
    run(Command::new("cc").args(["-O2", "-w", "-o", "pan", "pan.c"]))?;
    let mut pan = Command::new("./pan");
    // Deep enough for every model; if it is not, pan says so.
    let said = run(pan.arg("-m1000000"))?;
    ensure!(
        !said.contains("max search depth too small"),
        "models/{model}.pml: not all states were looked at: {said}"
    );
    let number = |after: &str, before: bool| -> Result<u64> {
        let line = said.lines().find(|line| line.contains(after));
        let line = line.with_context(|| format!("no {after:?} in what pan says: {said}"))?;
        let part = match before {
            true => line.split(after).next(),
            false => line.split(after).nth(1),
        };
        let words = part.unwrap_or_default().split_whitespace();
        let found = if before {
            words.last()
        } else {
            words.take(1).last()
        };
        let found = found.with_context(|| format!("no number in {line:?}"))?;
        Ok(found.parse()?)
    };
    Ok((number("states, stored", true)?, number("errors:", false)?))
}
