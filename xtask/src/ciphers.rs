//! The C code of aws-lc, which neither Miri nor a sanitizer looks into: as the debug build has it, so as not to be built once more for
//! each, nor for an installation that is only tested.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::dist::target;
use crate::nightly::PLATFORM;
use crate::rooms::root;

/// What its build script said in the debug build.
pub struct Ciphers {
    /// As its manifest calls what it links.
    links: String,
    /// What its build script told cargo.
    told: Vec<(String, String)>,
}

impl Ciphers {
    /// Tells a cargo for this platform that they are built, if they are.
    pub fn are_built(cargo: &mut Command) -> Result<()> {
        if let Some(ciphers) = Self::built_for_tests(&target(&root()?)) {
            for setting in ciphers.instead_of_building() {
                cargo.args(["--config", &setting]);
            }
        }
        Ok(())
    }

    /// Those of the debug build in this target folder, if there are any.
    fn built_for_tests(target: &Path) -> Option<Self> {
        let folders = fs::read_dir(target.join("debug/build")).ok()?;
        let outputs = folders.filter_map(|folder| {
            let folder = folder.ok()?;
            let is_it = folder
                .file_name()
                .to_string_lossy()
                .starts_with("aws-lc-sys-");
            let output = folder.path().join("output");
            let built = output.metadata().ok()?.modified().ok()?;
            is_it.then_some((built, output))
        });
        let (_, newest) = outputs.max()?;
        let found = Self::told(&fs::read_to_string(newest).ok()?)?;
        found.is_the_locked_version().then_some(found)
    }

    /// From the output of its build script.
    fn told(output: &str) -> Option<Self> {
        let told = output.lines().filter_map(|line| {
            let (key, value) = line.strip_prefix("cargo:")?.split_once('=')?;
            let is_for_later = key.starts_with("rerun-if") || key == "warning";
            (!is_for_later && key != "rustc-check-cfg").then(|| (key.to_owned(), value.to_owned()))
        });
        let told: Vec<(String, String)> = told.collect();
        let library = told.iter().find(|(key, _)| key == "rustc-link-lib")?;
        let links = library
            .1
            .strip_prefix("static=")?
            .strip_suffix("_crypto")?
            .to_owned();
        Some(Self { links, told })
    }

    fn is_the_locked_version(&self) -> bool {
        let lock = root().and_then(|root| Ok(fs::read_to_string(root.join("Cargo.lock"))?));
        lock.is_ok_and(|lock| {
            let mut lines = lock
                .lines()
                .skip_while(|line| *line != "name = \"aws-lc-sys\"");
            let version = lines.nth(1).and_then(|line| line.split('"').nth(1));
            version.is_some_and(|version| {
                self.links == format!("aws_lc_{}", version.replace('.', "_"))
            })
        })
    }

    /// Configuration of cargo with which it takes what was told instead of running the build script.
    fn instead_of_building(&self) -> Vec<String> {
        let mut lists: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut values = Vec::new();
        for (key, value) in &self.told {
            match key.starts_with("rustc-") {
                true => lists.entry(key).or_default().push(format!("{value:?}")),
                false => values.push((key.as_str(), format!("{value:?}"))),
            }
        }
        values.extend(
            lists
                .iter()
                .map(|(key, list)| (*key, format!("[{}]", list.join(", ")))),
        );
        values
            .iter()
            .map(|(key, value)| format!("target.{PLATFORM}.{}.{key} = {value}", self.links))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_script_told_is_configuration() {
        let output = "cargo:rustc-cfg=universal\nCC = None\ncargo:rerun-if-env-changed=CC\ncargo:include=/a/include\n\
            cargo:rustc-link-search=native=/a\ncargo:rustc-link-lib=static=aws_lc_1_2_3_crypto\ncargo:system_libs=\n";
        let ciphers = Ciphers::told(output).expect("a library");
        assert_eq!(ciphers.links, "aws_lc_1_2_3");
        let expected = [
            "include = \"/a/include\"",
            "system_libs = \"\"",
            "rustc-cfg = [\"universal\"]",
            "rustc-link-lib = [\"static=aws_lc_1_2_3_crypto\"]",
            "rustc-link-search = [\"native=/a\"]",
        ];
        let expected = expected.map(|line| format!("target.{PLATFORM}.aws_lc_1_2_3.{line}"));
        assert_eq!(ciphers.instead_of_building(), expected);
        assert!(Ciphers::told("cargo:rustc-cfg=universal\n").is_none());
    }
}
