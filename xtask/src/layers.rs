//! `cargo xtask layers`: rooms depend only on rooms above them in the list of `ARCHITECTURE.md`, and
//! `unsafe` stands only in the rooms that may hold it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The rooms from the bottom of the building to the top: each may use those before it.
const ROOMS: &[&str] = &[
    "atomic",
    "sys",
    "fiber",
    "secure",
    "pool",
    "matching",
    "fabric",
    "fabric-sim",
    "fabric-local",
    "fabric-shm",
    "fabric-tcp",
    "mpi",
    "service",
    "launch",
    "abi",
    "net",
    "bench",
    "weft",
];

/// Rooms that hold no `unsafe` at all, and single modules that may where the room may not.
const SAFE: &[(&str, &[&str])] = &[
    ("fabric-tcp", &[]),
    ("secure", &[]),
    ("fabric", &["src/conformance/memory.rs"]),
    ("fabric-sim", &[]),
    (
        "mpi",
        &[
            "src/buffer.rs",
            "src/datatype/copying.rs",
            "src/coll/blocks.rs",
            "src/op/",
        ],
    ),
    ("service", &["src/memory.rs"]),
    ("launch", &[]),
    ("bench", &[]),
    ("weft", &[]),
    (
        "matching",
        &["src/concurrent/memory.rs", "src/concurrent/models.rs"],
    ),
];

/// Checks both and lists every breach.
pub fn check() -> Result<()> {
    let root = root()?;
    let mut breaches = Vec::new();
    for (floor, room) in ROOMS.iter().enumerate() {
        let manifest = root.join("crates").join(room).join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("reading {}", manifest.display()))?;
        for used in dependencies(&text) {
            match ROOMS.iter().position(|other| *other == used) {
                Some(place) if place < floor => {}
                Some(_) => {
                    breaches.push(format!("crates/{room} uses {used}, which stands above it"))
                }
                None => breaches.push(format!(
                    "crates/{room} uses weft-{used}, which is no room of the list"
                )),
            }
        }
    }
    for entry in fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !ROOMS.contains(&name.as_str()) {
            breaches.push(format!(
                "crates/{name} is not in the list of rooms (xtask/src/layers.rs)"
            ));
        }
    }
    for (room, allowed) in SAFE {
        let home = root.join("crates").join(room);
        for file in sources(&home.join("src"))? {
            let inside = file
                .strip_prefix(&home)
                .unwrap_or(&file)
                .to_string_lossy()
                .replace('\\', "/");
            // Tests may make buffers of their own memory.
            if inside.ends_with("tests.rs")
                || inside.contains("/tests/")
                || allowed.iter().any(|prefix| inside.starts_with(prefix))
            {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                let holds = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                    .iter()
                    .any(|word| code.contains(word));
                if holds {
                    breaches.push(format!(
                        "crates/{room}/{inside}:{} holds unsafe code; this room may not",
                        number + 1
                    ));
                }
            }
        }
    }
    if breaches.is_empty() {
        println!(
            "layers: {} rooms, each uses only rooms below it; unsafe stands only where it may",
            ROOMS.len()
        );
        return Ok(());
    }
    bail!(
        "{} breaches of the layers:\n  {}",
        breaches.len(),
        breaches.join("\n  ")
    )
}

/// The rooms that a manifest names, those for tests left out.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut counted = false;
    let mut rooms = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.trim().strip_prefix('[') {
            counted = section.contains("dependencies") && !section.contains("dev-dependencies");
        } else if counted && let Some(name) = line.trim().strip_prefix("weft-") {
            rooms.push(name.split(['.', ' ', '=']).next().unwrap_or("").to_owned());
        }
    }
    rooms
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// The folder of the workspace.
pub fn root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    Ok(here
        .parent()
        .context("xtask stands in the workspace")?
        .to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_for_tests_do_not_count() {
        let manifest = "[dependencies]\nweft-sys.workspace = true\nlibc = \"1\"\n[dev-dependencies]\nweft-mpi.workspace = true\n";
        assert_eq!(dependencies(manifest), ["sys"]);
    }

    #[test]
    fn the_tree_keeps_its_layers() {
        check().unwrap();
    }
}
