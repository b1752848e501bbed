//! `mpi.h` and the exported symbols, as compilers and linkers see them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn header() -> String {
    let path = include_folder().join("mpi.h");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn include_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The folder that cargo builds into, two above this program.
fn build_folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program
        .parent()
        .and_then(Path::parent)
        .expect("a folder above")
        .to_owned()
}

/// A folder for what a test writes.
fn scratch(name: &str) -> PathBuf {
    let folder = build_folder()
        .join("header-test")
        .join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder of our own");
    folder
}

/// Compiles `source` with these arguments; panics with what the compiler says.
fn compile(compiler: &str, arguments: &[&str], source: &Path) {
    let output = Command::new(compiler)
        .args(arguments)
        .arg(source)
        .output()
        .expect("a compiler");
    assert!(
        output.status.success(),
        "{compiler} {arguments:?} {}: {}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Lines that declare functions.
fn prototypes(header: &str) -> Vec<&str> {
    header
        .lines()
        .filter(|line| {
            line.ends_with(");") && !line.starts_with("typedef") && !line.starts_with('#')
        })
        .filter(|line| line.contains(" MPI_") || line.contains(" PMPI_"))
        .collect()
}

/// Names of functions that a prototype or a symbol table speaks of.
fn name(prototype: &str) -> &str {
    let head = prototype.split('(').next().unwrap_or_default();
    head.rsplit([' ', '*']).next().unwrap_or_default()
}

/// Names of constants: enumerators and macros.
fn constants(header: &str) -> Vec<&str> {
    let enumerators = header.lines().filter_map(|line| {
        line.strip_prefix("    MPI_")?
            .split_once(" = ")
            .map(|_| line)
    });
    let enumerators = enumerators.map(|line| line.trim().split(' ').next().unwrap_or_default());
    let macros = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .filter(|rest| {
            rest.starts_with("MPI_") && rest.contains(' ') && !rest.starts_with("MPI_H_")
        })
        .map(|rest| rest.split(' ').next().unwrap_or_default());
    enumerators.chain(macros).collect()
}

#[test]
fn c_and_cxx_accept_the_header() {
    let folder = scratch("accept");
    let include = format!("-I{}", include_folder().display());
    for (compiler, standard, file) in [
        ("cc", "-std=c99", "a.c"),
        ("cc", "-std=c11", "b.c"),
        ("c++", "-std=c++11", "c.cc"),
        ("c++", "-std=c++17", "d.cc"),
    ] {
        let source = folder.join(file);
        fs::write(
            &source,
            "#include <mpi.h>\n#include <mpi.h>\nint main(void) { return MPI_SUCCESS; }\n",
        )
        .unwrap();
        compile(
            compiler,
            &[
                standard,
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-fsyntax-only",
                &include,
            ],
            &source,
        );
    }
}

#[test]
fn all_functions_are_declared_and_exported() {
    let header = header();
    let declared: BTreeSet<&str> = prototypes(&header).into_iter().map(name).collect();
    assert_eq!(
        declared.len(),
        2 * 664,
        "the ABI has 664 functions under two names each"
    );
    // Beside this program: a whole build puts it one folder up as well, a test run need not.
    let library = build_folder().join("deps/libmpi_abi.so");
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library)
        .output()
        .expect("nm");
    assert!(
        output.status.success(),
        "nm {}: {}",
        library.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let symbols = String::from_utf8_lossy(&output.stdout).into_owned();
    let exported: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|symbol| symbol.starts_with("MPI_") || symbol.starts_with("PMPI_"))
        .collect();
    let missing: Vec<_> = declared.difference(&exported).collect();
    assert!(
        missing.is_empty(),
        "{} does not export {missing:?}",
        library.display()
    );
    let more: Vec<_> = exported.difference(&declared).collect();
    assert!(
        more.is_empty(),
        "{} exports {more:?}, which mpi.h does not declare",
        library.display()
    );
    let output = Command::new("readelf")
        .arg("-d")
        .arg(&library)
        .output()
        .expect("readelf");
    let dynamic = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        dynamic.contains("[libmpi_abi.so.1]"),
        "the name that programs ask for: {dynamic}"
    );
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// Functions whose types differ from the reference on purpose: an erratum to MPI 5.0 gives them `int`
/// counts and a `_c` form.
const BY_ERRATUM: [&str; 2] = ["Psend_init", "Precv_init"];

/// The header of another implementation of the ABI, if `cargo xtask peers` has installed it.
fn reference() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    let peers = [root.join("target/peers"), build_folder().join("../peers")];
    peers.iter().find_map(|folder| find(folder, "mpi_abi.h", 5))
}

fn find(folder: &Path, file: &str, depth: usize) -> Option<PathBuf> {
    let direct = folder.join(file);
    if direct.is_file() {
        return Some(direct);
    }
    if depth == 0 {
        return None;
    }
    let folders = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().is_dir());
    folders
        .into_iter()
        .find_map(|entry| find(&entry.path(), file, depth - 1))
}

#[test]
fn types_are_those_of_another_implementation() {
    let Some(reference) = reference() else {
        eprintln!("no other header here: `cargo xtask peers` installs one");
        return;
    };
    let folder = scratch("types");
    let ours = header();
    let mut source = format!("#include \"{}\"\n", reference.display());
    for prototype in prototypes(&ours) {
        if !BY_ERRATUM.iter().any(|base| prototype.contains(base)) {
            source.push_str(prototype);
            source.push('\n');
        }
    }
    let file = folder.join("again.c");
    fs::write(&file, source).unwrap();
    compile("cc", &["-Wall", "-Werror", "-fsyntax-only"], &file);
}

#[test]
fn constants_are_those_of_another_implementation() {
    let Some(reference) = reference() else {
        eprintln!("no other header here: `cargo xtask peers` installs one");
        return;
    };
    let folder = scratch("constants");
    let ours = header();
    let names = constants(&ours);
    assert!(
        names.len() > 350,
        "only {} constants found in mpi.h",
        names.len()
    );
    let values = |header: &str, name: &str| {
        let mut source = format!("#include {header}\n#include <stdio.h>\nint main(void) {{\n");
        for name in &names {
            source.push_str(&format!(
                "    printf(\"{name} %lld\\n\", (long long)(intptr_t)({name}));\n"
            ));
        }
        source.push_str("    return 0;\n}\n");
        let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
        fs::write(&file, source).unwrap();
        let include = format!("-I{}", include_folder().display());
        compile(
            "cc",
            &[
                "-w",
                &include,
                "-o",
                program.to_str().expect("a plain path"),
            ],
            &file,
        );
        let output = Command::new(&program).output().expect("our own program");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let theirs = values(&format!("\"{}\"", reference.display()), "theirs");
    for (our, their) in values("<mpi.h>", "ours").lines().zip(theirs.lines()) {
        assert_eq!(our, their);
    }
}
