//! Messages of wrong calls and the end of the job, seen from outside: the class as exit code, and a block
//! that names the call, the argument, what was expected, what was found, and a remedy.

use std::path::{Path, PathBuf};
use std::process::Command;

fn build_folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program
        .parent()
        .and_then(Path::parent)
        .expect("a folder above")
        .to_owned()
}

/// The program `faults.c`, built once for a test.
fn program(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = build_folder();
    // A folder with the library under the name with which programs are linked.
    let folder = build
        .join("faults-test")
        .join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    for alias in ["libmpi_abi.so", "libmpi_abi.so.1"] {
        let link = folder.join(alias);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(build.join("deps/libmpi_abi.so"), link).expect("a link");
    }
    let program = folder.join("faults");
    let output = Command::new("cc")
        .arg("-w")
        .arg("-g")
        .arg(format!("-I{}", here.join("include").display()))
        .arg(here.join("tests/faults.c"))
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", folder.display()))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-lmpi_abi")
        .output()
        .expect("a compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// Case, exit code, words that the block must contain.
const CASES: [(u32, i32, &[&str]); 18] = [
    (1, 16, &["MPI_Comm_rank", "not initialised", "MPI_Init"]),
    (
        2,
        6,
        &[
            "0 of 1",
            "MPI_Send on MPI_COMM_WORLD",
            "faults.c:",
            "(main)",
            "MPI_ERR_RANK",
            "dest",
            "0 to 0",
            "17",
            "MPI_Comm_size",
        ],
    ),
    (3, 1, &["MPI_ERR_BUFFER", "buf", "null pointer"]),
    (4, 2, &["MPI_ERR_COUNT", "count", "0 or more", "-1", "_c"]),
    (5, 3, &["MPI_ERR_TYPE", "datatype", "MPI_DATATYPE_NULL"]),
    (
        6,
        4,
        &["MPI_ERR_TAG", "tag", "0 to 1073741823", "-5", "MPI_TAG_UB"],
    ),
    (7, 5, &["MPI_ERR_COMM", "comm", "MPI_COMM_NULL"]),
    (8, 3, &["MPI_ERR_TYPE", "not committed", "MPI_Type_commit"]),
    (
        9,
        7,
        &[
            "MPI_Wait",
            "MPI_ERR_REQUEST",
            "not live",
            "MPI_REQUEST_NULL",
        ],
    ),
    (10, 8, &["MPI_Bcast", "MPI_ERR_ROOT", "root", "9"]),
    (11, 10, &["MPI_Allreduce", "MPI_ERR_OP", "MPI_OP_NULL"]),
    (12, 13, &["MPI_ERR_ARG", "rank", "null pointer"]),
    (
        13,
        26,
        &["MPI_Win_create", "MPI_ERR_DISP", "0 bytes", "at least 1"],
    ),
    (
        14,
        15,
        &[
            "MPI_Recv on MPI_COMM_SELF",
            "MPI_ERR_TRUNCATE",
            "16 bytes",
            "4 bytes",
            "larger count",
        ],
    ),
    (
        15,
        5,
        &["MPI_Comm_size", "MPI_ERR_COMM", "not live", "freed"],
    ),
    (16, 5, &["MPI_ERR_COMM", "address", "header"]),
    (17, 16, &["MPI_Comm_rank", "finalised"]),
    (18, 7, &["MPI_Start", "MPI_ERR_REQUEST", "under way"]),
];

#[test]
fn each_fault_names_call_argument_and_remedy() {
    let program = program("fatal");
    for (case, code, words) in CASES {
        let output = Command::new(&program)
            .arg(case.to_string())
            .output()
            .expect("our own program");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "case {case} said: {said}");
        for word in words {
            assert!(
                said.contains(word),
                "case {case} does not say \"{word}\": {said}"
            );
        }
    }
}

#[test]
fn a_right_program_comes_through() {
    let output = Command::new(program("right"))
        .output()
        .expect("our own program");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.stdout, b"came through\n");
}
