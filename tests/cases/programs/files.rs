//! Files of MPI, also on a disk that is full.

use std::process::Command;
use std::time::Duration;

use weft_tests::{build, run, tool};

use super::{Folder, passes};

#[test]
fn files() {
    let folder = Folder::new("files");
    passes("files", &[1, 2, 3, 4], &[folder.name()]);
}

/// A file system of half a megabyte, which is visible only to this job.
#[test]
fn files_on_a_full_disk() {
    let program = build("tests/programs/files.c", &["-pthread"]);
    let folder = Folder::new("full-disk");
    for ranks in ["1", "3"] {
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs -o size=512k weft \"$1\" && shift && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script, "sh", folder.name()]);
        command.arg(tool("mpiexec").get_program());
        command.args(["--timeout=60", "-n", ranks]).arg(&program);
        command.args([folder.name(), "full"]);
        let ended = run(&mut command, Duration::from_secs(70));
        ended.expect_success();
        assert!(ended.out.contains("files: ok"), "{ended:?}");
    }
}
