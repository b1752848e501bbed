//! The commands of the user's guide (`docs/guide`) do what their page says: each page is run as a script.
//!
//! ```text
//!   ```c NAME, py   a file of this name; ```f90 as well
//!   ```sh           commands that succeed
//!   ```sh fails     commands that fail
//!   ```sh mpi4py    commands that succeed where mpi4py is installed
//!   ```sh gfortran  commands that succeed where that compiler is installed
//!   ```text, rust   not for here: code in Rust is tested as documentation of the library
//! ```
#![allow(missing_docs)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use weft_tests::{installation, run};

/// Runs the commands of a page; returns how many there were.
fn follow(page: &Path, folder: &Path) -> usize {
    let text = fs::read_to_string(page).expect("a page");
    let mut lines = text.lines();
    let mut commands = 0;
    let path = format!(
        "{}:{}",
        installation().join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let block = block.join("\n") + "\n";
        let (kind, rest) = kind.split_once(' ').unwrap_or((kind, ""));
        match kind {
            "c" | "py" | "f90" => fs::write(folder.join(rest), block).expect("written"),
            "sh" if rest == "mpi4py" && !with_mpi4py() => {
                println!("skipped, as mpi4py is not installed: {block}");
            }
            "sh" if rest == "gfortran" && Command::new(rest).arg("--version").output().is_err() => {
                println!("skipped, as gfortran is not installed: {block}");
            }
            "sh" => {
                commands += 1;
                let mut shell = Command::new("sh");
                shell.args(["-e", "-c", &block]).env("PATH", &path);
                let ended = run(shell.current_dir(folder), Duration::from_secs(60));
                let page = page.display();
                let well = ended.code() == Some(0);
                assert_eq!(well, rest != "fails", "{page}: {block}{ended:?}");
            }
            "text" | "rust" | "rust,no_run" => {}
            other => panic!("{}: a block of kind '{other}'", page.display()),
        }
    }
    commands
}

/// Whether programs of Python can use MPI here.
fn with_mpi4py() -> bool {
    let mut python = Command::new("python3");
    // Isolated, because the folder of its tests, beside this file, has the same name.
    python.args(["-I", "-c", "import mpi4py"]);
    python.output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide");
    let mut commands = 0;
    for page in fs::read_dir(&guide).expect("the guide") {
        let page = page.expect("a page").path();
        let folder = tempfile::tempdir().expect("a folder");
        commands += follow(&page, folder.path());
    }
    assert!(commands > 10, "only {commands} commands were found");
}

/// Each page is in the list of contents.
#[test]
fn the_guide_lists_its_pages() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide");
    let contents = fs::read_to_string(guide.join("../SUMMARY.md")).expect("the list");
    for page in fs::read_dir(&guide).expect("the guide") {
        let name = page
            .expect("a page")
            .file_name()
            .into_string()
            .expect("text");
        assert!(
            contents.contains(&format!("(guide/{name})")),
            "{name} is not listed"
        );
    }
}
