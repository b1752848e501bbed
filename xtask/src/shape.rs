//! `cargo xtask shape`: signs of types and files that may need splitting. Nothing here fails: the list is for
//! the reader, who decides.

mod circles;
mod pages;
mod structs;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::rooms::{Rooms, root, sources};

/// What to print.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only this room.
    room: Option<String>,
    /// The counts alone.
    #[arg(long)]
    counts: bool,
}

/// A source file of a crate that is not for tests only.
pub struct Source {
    /// Relative to the crate's `src`.
    pub path: PathBuf,
    /// Lines.
    pub lines: usize,
    /// Its syntax tree.
    pub syntax: syn::File,
}

/// A longer file is listed.
const LINES: usize = 600;

/// Prints all signs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = root()?;
    let words = words::Words::read(&root)?;
    let mut signs: [(&str, Vec<String>); 6] = [
        ("circles of three files or more", Vec::new()),
        (
            "types whose fields other files see, and that are not plain data",
            Vec::new(),
        ),
        ("types of more than a dozen fields", Vec::new()),
        ("files of more than 600 lines", Vec::new()),
        ("names that tables/words.toml replaces", Vec::new()),
        ("module pages that do not begin with a noun", Vec::new()),
    ];
    for room in Rooms::read(&root)?.order {
        if arguments.room.as_ref().is_some_and(|only| *only != room) {
            continue;
        }
        let read = read(&root.join("crates").join(&room).join("src"))?;
        let [circles, open, wide, long, named, pages] = &mut signs;
        circles.1.extend(
            circles::of(&read)
                .iter()
                .map(|files| format!("{room} ({}): {}", files.len(), files.join(", "))),
        );
        for source in &read {
            let at = |line: usize| format!("crates/{room}/src/{}:{line}", source.path.display());
            for found in structs::of(&source.syntax) {
                if found.fields > structs::MANY {
                    wide.1.push(format!(
                        "{} {} has {} fields",
                        at(found.line),
                        found.name,
                        found.fields
                    ));
                }
                if found.open > 0 && found.changes_itself {
                    open.1.push(format!(
                        "{} {} shows {} of {} fields",
                        at(found.line),
                        found.name,
                        found.open,
                        found.fields
                    ));
                }
            }
            if source.lines > LINES {
                long.1.push(format!("{} has {} lines", at(1), source.lines));
            }
            pages.1.extend(
                pages::not_a_noun(&source.syntax)
                    .map(|beginning| format!("{} {beginning} …", at(1))),
            );
            named.1.extend(
                words
                    .in_file(&room, &source.syntax)
                    .into_iter()
                    .map(|(line, name, instead)| format!("{} {name}: {instead}", at(line))),
            );
        }
    }
    for (title, found) in &signs {
        println!("{:>4}  {title}", found.len());
        if !arguments.counts {
            found.iter().for_each(|sign| println!("      {sign}"));
        }
    }
    Ok(())
}

/// The files of a crate that are neither generated nor tests.
fn read(src: &Path) -> Result<Vec<Source>> {
    let mut read = Vec::new();
    for file in sources(src)? {
        let path = file.strip_prefix(src)?.to_path_buf();
        let made = path.starts_with("generated");
        let tests = path.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "tests" || part == "tests.rs" || part == "models.rs" || part == "conformance"
        });
        if made || tests {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        read.push(Source {
            lines: text.lines().count(),
            syntax: syn::parse_file(&text)
                .with_context(|| format!("parsing {}", file.display()))?,
            path,
        });
    }
    Ok(read)
}
