//! `mpi.h` and the exported symbols, seen by compilers and linkers.

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

/// Compiles `source` with these arguments; panics with the compiler's messages.
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

/// The header without the library-specific part at its end: Fortran's handles, and MPI 1.
fn of_the_abi(header: &str) -> &str {
    let (part, _) = header
        .split_once("/* Handles of Fortran")
        .expect("they stand at the end");
    part
}

/// Lines that declare functions of the ABI.
fn prototypes(header: &str) -> Vec<&str> {
    of_the_abi(header)
        .lines()
        .filter(|line| {
            line.ends_with(");") && !line.starts_with("typedef") && !line.starts_with('#')
        })
        .filter(|line| is_function(name(line)))
        .collect()
}

/// Whether this is the name of a function of MPI, or of an extension.
fn is_function(name: &str) -> bool {
    let name = name.strip_prefix('P').unwrap_or(name);
    name.starts_with("MPI_") || name.starts_with("MPIX_")
}

/// Names of functions in a prototype or a symbol table.
fn name(prototype: &str) -> &str {
    let head = prototype.split('(').next().unwrap_or_default();
    head.rsplit([' ', '*']).next().unwrap_or_default()
}

/// Names of constants of the ABI: enumerators and macros.
fn constants(header: &str) -> Vec<&str> {
    let header = of_the_abi(header);
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

/// The parts of the Fortran side that FFTW, SCOTCH and the crate `mpi` use, and those of programs older than
/// MPI 3.
const CONVERSIONS: &str = r#"
#include <mpi.h>
#define BOTH(Kind, Handle) \
    static Handle again_##Kind(Handle handle) { MPI_Fint number = MPI_##Kind##_c2f(handle); return MPI_##Kind##_f2c(number); }
BOTH(Comm, MPI_Comm)
BOTH(Errhandler, MPI_Errhandler)
BOTH(File, MPI_File)
BOTH(Group, MPI_Group)
BOTH(Info, MPI_Info)
BOTH(Message, MPI_Message)
BOTH(Op, MPI_Op)
BOTH(Request, MPI_Request)
BOTH(Session, MPI_Session)
BOTH(Type, MPI_Datatype)
BOTH(Win, MPI_Win)
int main(void) {
    MPI_Status status, other;
    MPI_Fint fortran[MPI_F_STATUS_SIZE];
    MPI_F08_status modern;
    MPI_Fint *ignored = MPI_F_STATUS_IGNORE, *all = MPI_F_STATUSES_IGNORE;
    MPI_F08_status *none = MPI_F08_STATUS_IGNORE, *nothing = MPI_F08_STATUSES_IGNORE;
    int wrong = 0;
    wrong += again_Comm(MPI_COMM_WORLD) != MPI_COMM_WORLD;
    wrong += again_Errhandler(MPI_ERRORS_RETURN) != MPI_ERRORS_RETURN;
    wrong += again_File(MPI_FILE_NULL) != MPI_FILE_NULL;
    wrong += again_Group(MPI_GROUP_EMPTY) != MPI_GROUP_EMPTY;
    wrong += again_Info(MPI_INFO_ENV) != MPI_INFO_ENV;
    wrong += again_Message(MPI_MESSAGE_NO_PROC) != MPI_MESSAGE_NO_PROC;
    wrong += again_Op(MPI_SUM) != MPI_SUM;
    wrong += again_Request(MPI_REQUEST_NULL) != MPI_REQUEST_NULL;
    wrong += again_Session(MPI_SESSION_NULL) != MPI_SESSION_NULL;
    wrong += again_Type(MPI_DOUBLE) != MPI_DOUBLE;
    wrong += again_Win(MPI_WIN_NULL) != MPI_WIN_NULL;
    wrong += PMPI_Comm_f2c(PMPI_Comm_c2f(MPI_COMM_SELF)) != MPI_COMM_SELF;
    wrong += ignored != 0 || all != 0 || none != 0 || nothing != 0;
    status.MPI_SOURCE = 1, status.MPI_TAG = 2, status.MPI_ERROR = 3, status.MPI_internal[4] = 4;
    status.MPI_internal[0] = status.MPI_internal[1] = status.MPI_internal[2] = status.MPI_internal[3] = 0;
    wrong += MPI_Status_c2f(&status, fortran) != MPI_SUCCESS;
    wrong += fortran[MPI_F_SOURCE] != 1 || fortran[MPI_F_TAG] != 2 || fortran[MPI_F_ERROR] != 3;
    wrong += MPI_Status_f2f08(fortran, &modern) != MPI_SUCCESS || modern.MPI_TAG != 2;
    wrong += MPI_Status_f082c(&modern, &other) != MPI_SUCCESS || other.MPI_internal[4] != 4;
    wrong += MPI_Status_c2f08(&other, &modern) != MPI_SUCCESS;
    wrong += MPI_Status_f082f(&modern, fortran) != MPI_SUCCESS || MPI_Status_f2c(fortran, &other) != MPI_SUCCESS;
    wrong += MPI_Status_f2c(MPI_F_STATUS_IGNORE, &other) == MPI_SUCCESS;
#ifdef WEFT_MPI1
    {
        int lengths[4] = {1, 1, 2, 1}, count, integers, addresses, types, combiner;
        MPI_Aint places[4] = {-8, 0, 8, 64}, bound, address;
        MPI_Datatype parts[4], type, inner;
        MPI_Errhandler handler = MPI_ERRORS_RETURN;
        MPI_Handler_function *function = 0;
        parts[0] = MPI_LB, parts[1] = MPI_INT, parts[2] = MPI_DOUBLE, parts[3] = MPI_UB;
        MPI_Init(0, 0);
        wrong += MPI_Errhandler_set(MPI_COMM_WORLD, handler) || MPI_Errhandler_get(MPI_COMM_WORLD, &handler);
        wrong += MPI_Errhandler_create(function, &handler) == MPI_SUCCESS;
        wrong += MPI_Type_struct(4, lengths, places, parts, &type) != MPI_SUCCESS;
        wrong += MPI_Type_lb(type, &bound) || bound != -8;
        wrong += MPI_Type_ub(type, &bound) || bound != 64;
        wrong += MPI_Type_extent(type, &bound) || bound != 72;
        wrong += MPI_Type_size(type, &count) || count != 20;
        MPI_Type_free(&type);
        wrong += MPI_Type_struct(3, lengths, places, parts, &type) != MPI_SUCCESS;
        wrong += MPI_Type_ub(type, &bound) || bound != 24;
        MPI_Type_free(&type);
        wrong += MPI_Type_struct(2, lengths + 1, places + 1, parts + 1, &type) != MPI_SUCCESS;
        wrong += MPI_Type_extent(type, &bound) || bound != 24;
        wrong += MPI_Type_hvector(2, 1, 32, type, &inner) || MPI_Type_extent(inner, &bound) || bound != 56;
        MPI_Type_free(&inner);
        wrong += MPI_Type_hindexed(2, lengths + 1, places + 2, type, &inner) != MPI_SUCCESS;
        wrong += MPI_Type_get_envelope(inner, &integers, &addresses, &types, &combiner) != MPI_SUCCESS;
        wrong += combiner == MPI_COMBINER_HINDEXED_INTEGER || combiner == MPI_COMBINER_HVECTOR_INTEGER ||
                 combiner == MPI_COMBINER_STRUCT_INTEGER;
        MPI_Type_free(&inner);
        MPI_Type_free(&type);
        wrong += MPI_Address(&wrong, &address) || address != (MPI_Aint)&wrong;
        MPI_Finalize();
    }
#endif
    return wrong;
}
"#;

#[test]
fn handles_and_statuses_of_fortran_and_names_of_mpi_1() {
    let folder = scratch("conversions");
    for alias in ["libmpi_abi.so", "libmpi_abi.so.1"] {
        let link = folder.join(alias);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(build_folder().join("deps/libmpi_abi.so"), link)
            .expect("a link");
    }
    let include = format!("-I{}", include_folder().display());
    let search = format!("-L{}", folder.display());
    let run_path = format!("-Wl,-rpath,{}", folder.display());
    for (compiler, standard, file) in [("cc", "-std=c99", "a.c"), ("c++", "-std=c++11", "b.cc")] {
        for old in [false, true] {
            let (source, program) = (folder.join(file), folder.join("program"));
            fs::write(&source, CONVERSIONS).unwrap();
            let output = Command::new(compiler)
                .args([
                    standard,
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-pedantic",
                    &include,
                ])
                .args(old.then_some("-DWEFT_MPI1"))
                .arg(&source)
                .args(["-o".as_ref(), program.as_os_str()])
                .args([&search, &run_path, "-lmpi_abi"])
                .output()
                .expect("a compiler");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler}, {old}: {said}");
            let ended = Command::new(&program).status().expect("our own program");
            assert_eq!(
                ended.code(),
                Some(0),
                "checks that do not hold: {compiler}, {old}"
            );
        }
    }
}

#[test]
fn all_functions_are_declared_and_exported() {
    let header = header();
    let declared: BTreeSet<&str> = prototypes(&header).into_iter().map(name).collect();
    let extensions = declared.iter().filter(|name| name.contains("MPIX_"));
    assert_eq!(extensions.count(), 2 * 10, "those of fault tolerance");
    assert_eq!(
        declared.len(),
        2 * (664 + 10),
        "the ABI has 664 functions under two names each"
    );
    // Beside this program: a whole build also puts it one folder up, a test run may not.
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
        .filter(|symbol| is_function(symbol))
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
