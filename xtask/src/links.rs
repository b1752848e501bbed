//! `cargo xtask links`: checks the links of the pages, and the paths of source files that they name. Each must lead to
//! a file, so that no page points to a file that was moved or removed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::rooms::root;

/// Endings of files that pages name in backquotes.
const SOURCES: [&str; 9] = ["rs", "c", "h", "hpp", "toml", "md", "py", "pml", "js"];

/// Checks all pages and lists the targets that do not exist.
pub fn check() -> Result<()> {
    let root = root()?;
    let mut pages = Vec::new();
    find_pages(&root, &mut pages)?;
    let (mut dangling, mut checked) = (Vec::new(), 0);
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let folder = page.parent().context("a page in a folder")?;
        for (line, target) in targets(&text) {
            checked += 1;
            if !leads_somewhere(&target, folder, &root) {
                let page = page.strip_prefix(&root)?.display();
                dangling.push(format!("{page}:{line} {target}"));
            }
        }
    }
    if dangling.is_empty() {
        println!(
            "links: {checked} links and paths of {} pages, each leads to a file",
            pages.len()
        );
        return Ok(());
    }
    bail!(
        "{} links and paths lead nowhere:\n  {}",
        dangling.len(),
        dangling.join("\n  ")
    )
}

/// The pages of the project, without built files and folders of tools.
fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "report"].contains(&&*name) {
                find_pages(&path, pages)?;
            }
        } else if name.ends_with(".md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(())
}

/// The targets of a page: links within the project, and paths of source files in backquotes, each with its
/// line.
fn targets(text: &str) -> Vec<(usize, Target)> {
    let mut found = Vec::new();
    // A path that is the text of a link is only a name for the target of the link.
    let mut in_link = false;
    for (event, range) in
        Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES).into_offset_iter()
    {
        let target = match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                in_link = true;
                let file = dest_url.split('#').next().unwrap_or_default();
                let elsewhere =
                    file.is_empty() || file.contains("://") || file.starts_with("mailto:");
                (!elsewhere).then(|| Target::Link(file.to_owned()))
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                in_link = false;
                None
            }
            Event::Code(code) if !in_link && is_source_path(&code) => {
                Some(Target::Path(code.into_string()))
            }
            _ => None,
        };
        if let Some(target) = target {
            let line = text[..range.start].matches('\n').count() + 1;
            found.push((line, target));
        }
    }
    found
}

/// Something that a page points to.
#[derive(Debug, PartialEq)]
enum Target {
    /// A link, relative to the page.
    Link(String),
    /// A path in backquotes: from the root, from `crates`, or from the sources of a room.
    Path(String),
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Link(to) => write!(out, "({to})"),
            Self::Path(to) => write!(out, "`{to}`"),
        }
    }
}

fn is_source_path(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    code.contains('/')
        && code.chars().all(plain)
        && !code.starts_with(['/', '.'])
        && SOURCES
            .iter()
            .any(|ending| code.rsplit_once('.').is_some_and(|(_, end)| end == *ending))
}

fn leads_somewhere(target: &Target, folder: &Path, root: &Path) -> bool {
    match target {
        Target::Link(to) => folder.join(to).exists(),
        Target::Path(to) => {
            let in_room = to
                .split_once('/')
                .map(|(room, rest)| root.join("crates").join(room).join("src").join(rest));
            folder.join(to).exists()
                || root.join(to).exists()
                || root.join("crates").join(to).exists()
                || in_room.is_some_and(|path| path.exists())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_paths_are_found_and_the_rest_is_not() {
        let page = "See [`b/c.rs`](a/b.md#part) and [that](https://example.org).\n\n\
                    | a | b |\n|---|---|\n| `sys/src/poll.rs` | `./program`, `cargo run`, `a/b` |\n";
        assert_eq!(
            targets(page),
            [
                (1, Target::Link("a/b.md".to_owned())),
                (5, Target::Path("sys/src/poll.rs".to_owned())),
            ]
        );
    }

    #[test]
    fn what_is_gone_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let src = root.path().join("crates/sys/src");
        fs::create_dir_all(&src).unwrap();
        fs::write(src.join("poll.rs"), "").unwrap();
        let leads =
            |path: &str| leads_somewhere(&Target::Path(path.to_owned()), root.path(), root.path());
        assert!(
            leads("crates/sys/src/poll.rs") && leads("sys/src/poll.rs") && leads("sys/poll.rs")
        );
        assert!(!leads("sys/src/gone.rs"));
    }
}
