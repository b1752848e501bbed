//! Installed launcher: found beside the library that this process has loaded, beside this program, or in `PATH`.

use std::env;
use std::path::PathBuf;

/// The name of the command.
const COMMAND: &str = "weft";
const LIBRARY: &str = "/libmpi_abi.so";

/// The launcher of this installation: beside the library that this process has loaded, beside this program, or in `PATH`.
pub fn find_launcher() -> Option<PathBuf> {
    let is_there = |path: &PathBuf| path.is_file();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let libraries = maps.lines().filter_map(|line| {
        let path = &line[line.find('/')?..];
        path.contains(LIBRARY).then(|| PathBuf::from(path))
    });
    let installed = |library: PathBuf| Some(library.parent()?.parent()?.join("bin").join(COMMAND));
    let beside_library = libraries.filter_map(installed).find(is_there);
    let beside_program = || {
        let program = env::current_exe().ok()?;
        Some(program.parent()?.join(COMMAND)).filter(is_there)
    };
    let in_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path)
            .map(|folder| folder.join(COMMAND))
            .find(is_there)
    };
    beside_library.or_else(beside_program).or_else(in_path)
}
