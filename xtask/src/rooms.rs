//! The rooms, as the pages describe them: their order from the table of ARCHITECTURE.md, and which may
//! contain `unsafe` from the table of CONTRIBUTING.md. So the checks enforce what readers read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The contents of the pages about the rooms.
#[derive(Debug)]
pub struct Rooms {
    /// From the bottom to the top: each may use the rooms before it.
    pub order: Vec<String>,
    /// Places that may contain `unsafe`: a room, or a file or folder of one (relative to its crate).
    unsafe_places: Vec<(String, Option<String>)>,
}

impl Rooms {
    /// Reads both pages.
    pub fn read(root: &Path) -> Result<Self> {
        let page = |name: &str| {
            fs::read_to_string(root.join(name)).with_context(|| format!("reading {name}"))
        };
        Self::parse(&page("ARCHITECTURE.md")?, &page("CONTRIBUTING.md")?)
    }

    fn parse(architecture: &str, contributing: &str) -> Result<Self> {
        let order: Vec<String> = first_cells(architecture, "room")
            .iter()
            .filter_map(|cell| words_in_backquotes(cell).into_iter().next())
            .collect();
        if order.is_empty() {
            bail!(
                "ARCHITECTURE.md has no table whose first column is called room: it gives the order of the rooms"
            );
        }
        let places: Vec<String> = first_cells(contributing, "may hold `unsafe`")
            .iter()
            .flat_map(|cell| words_in_backquotes(cell))
            .collect();
        if places.is_empty() {
            bail!(
                "CONTRIBUTING.md has no table whose first column is called may hold `unsafe`: it says which rooms do"
            );
        }
        let mut unsafe_places = Vec::new();
        for place in places {
            let (room, inside) = match place.split_once('/') {
                None => (place.clone(), None),
                Some((room, inside)) => (room.to_owned(), Some(inside.to_owned())),
            };
            if !order.contains(&room) {
                bail!("CONTRIBUTING.md lets {place} hold unsafe; there is no room {room}");
            }
            unsafe_places.push((room, inside));
        }
        Ok(Self {
            order,
            unsafe_places,
        })
    }

    /// The position of a room in the order; `None` if the page does not list it.
    pub fn floor(&self, room: &str) -> Option<usize> {
        self.order.iter().position(|other| other == room)
    }

    /// Whether a file of a room (relative to its `src`) may contain `unsafe`.
    pub fn may_hold_unsafe(&self, room: &str, file: &str) -> bool {
        self.unsafe_places.iter().any(|(other, inside)| {
            other == room
                && inside
                    .as_ref()
                    .is_none_or(|inside| file == inside || is_below(file, inside))
        })
    }

    /// Places of the table that match no file: the page would list something that does not exist.
    pub fn missing_places(&self, root: &Path) -> Vec<String> {
        self.unsafe_places
            .iter()
            .filter_map(|(room, inside)| Some((room, inside.as_ref()?)))
            .filter(|(room, inside)| !root.join("crates").join(room).join("src").join(inside).exists())
            .map(|(room, inside)| format!("CONTRIBUTING.md lets {room}/{inside} hold unsafe, and crates/{room}/src/{inside} does not exist"))
            .collect()
    }
}

fn is_below(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder.trim_end_matches('/'))
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The first cells of the rows of the first Markdown table whose first column has that title.
fn first_cells(page: &str, title: &str) -> Vec<String> {
    let first = |line: &str| -> Option<String> {
        Some(
            line.trim()
                .strip_prefix('|')?
                .split('|')
                .next()?
                .trim()
                .to_owned(),
        )
    };
    page.lines()
        .skip_while(|line| first(line).as_deref() != Some(title))
        .skip(2)
        .map_while(first)
        .collect()
}

fn words_in_backquotes(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// All Rust files of a folder and its subfolders, sorted. A room without such a folder is compiled from the
/// code of another one.
pub fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !folder.exists() && folder.with_file_name("Cargo.toml").exists() {
        return Ok(files);
    }
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The root folder of the workspace.
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

    const ARCHITECTURE: &str = "\n| room | what |\n|---|---|\n| [`atomic`](crates/atomic) | door |\n| `mpi` | MPI |\n\n| `x` | no row |\n";

    #[test]
    fn the_tables_of_the_pages_are_read() {
        let contributing = "| may hold `unsafe` | for what |\n|---|---|\n| `atomic` | cells |\n| `mpi/op`, `mpi/buffer.rs` | memory |\n";
        let rooms = Rooms::parse(ARCHITECTURE, contributing).unwrap();
        assert_eq!(rooms.order, ["atomic", "mpi"]);
        assert!(rooms.may_hold_unsafe("atomic", "any/file.rs"));
        assert!(rooms.may_hold_unsafe("mpi", "op/user.rs"));
        assert!(rooms.may_hold_unsafe("mpi", "buffer.rs"));
        assert!(!rooms.may_hold_unsafe("mpi", "operation.rs"));
        assert!(!rooms.may_hold_unsafe("mpi", "lib.rs"));
    }

    #[test]
    fn a_page_without_its_table_is_an_error() {
        let error = Rooms::parse("no table", "").unwrap_err().to_string();
        assert!(error.contains("ARCHITECTURE.md"), "{error}");
        let strange = "| may hold `unsafe` | |\n|---|---|\n| `attic` | |\n";
        let error = Rooms::parse(ARCHITECTURE, strange).unwrap_err().to_string();
        assert!(error.contains("attic"), "{error}");
    }
}
