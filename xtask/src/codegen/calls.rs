//! Functions that are implemented: those for which `crates/abi/src/calls/` has a function.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::table::{Function, Tables};

/// Calls found in the sources, as (group, name in lower case).
pub struct Calls(BTreeSet<(String, String)>);

impl Calls {
    /// Searches `folder/<group>.rs` and `folder/<group>/*.rs` for public functions.
    pub fn find(folder: &Path) -> Result<Self> {
        let mut found = BTreeSet::new();
        if !folder.exists() {
            return Ok(Self(found));
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let group = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let files = if path.is_dir() {
                fs::read_dir(&path)?
                    .map(|entry| entry.map(|entry| entry.path()))
                    .collect::<Result<Vec<_>, _>>()?
            } else {
                vec![path]
            };
            for file in files {
                for name in public_functions(&fs::read_to_string(file)?) {
                    found.insert((group.clone(), name));
                }
            }
        }
        Ok(Self(found))
    }

    /// Whether a function of a group is implemented. One that returns no error code cannot report that it is
    /// missing: without it the code does not compile.
    pub fn has(&self, group: &str, function: &Function) -> bool {
        let home = function.call_group(group).to_owned();
        function.returns.is_some() || self.0.contains(&(home, function.call()))
    }

    /// Every public function of a group must be a function of the standard: otherwise, a typing error would
    /// silently leave the call unimplemented.
    pub fn check(&self, tables: &Tables) -> Result<()> {
        for (group, name) in &self.0 {
            let known = tables
                .groups
                .get(group)
                .is_some_and(|rows| rows.iter().any(|row| row.call() == *name));
            if !known {
                bail!(
                    "crates/abi/src/calls/{group}: `pub fn {name}` is no function of tables/functions/{group}.toml; \
                     correct the name, or make it `pub(crate)` if it is a helper"
                );
            }
        }
        Ok(())
    }
}

fn public_functions(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub ")?;
        let rest = rest
            .strip_prefix("unsafe ")
            .unwrap_or(rest)
            .strip_prefix("fn ")?;
        let end = rest.find(['(', '<'])?;
        Some(rest[..end].to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_functions_at_the_margin_count() {
        let text = "pub fn send(\nfn helper() {}\n    pub fn inner() {}\npub unsafe fn recv<'a>(\npub(crate) fn x()";
        let found: Vec<String> = public_functions(text).collect();
        assert_eq!(found, ["send", "recv"]);
    }
}
