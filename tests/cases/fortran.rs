//! Programs in Fortran, compiled by the installation's `mpifort` and run by its `mpiexec`. Without a Fortran compiler nothing is
//! tested, and a message says so.
#![allow(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use weft_tests::{Ended, installation, root, run, scratch, tool};

/// Whether the compiler that `mpifort` calls is installed.
fn is_there() -> bool {
    let asked = Command::new("gfortran")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let there = asked.is_ok_and(|status| status.success());
    if !there {
        eprintln!("skipped: there is no gfortran");
    }
    there
}

/// Compiles a program of `tests/programs/fortran`.
fn build(wrapper: &str, source: &str) -> PathBuf {
    build_with(wrapper, source, &[])
}

fn build_with(wrapper: &str, source: &str, flags: &[&str]) -> PathBuf {
    let folder = scratch(&format!("fortran-{source}{}", flags.concat()));
    let program = folder.join("program");
    let output = tool(wrapper)
        .args(["-g", "-O1", "-o"])
        .arg(&program)
        .arg(root().join("tests/programs/fortran").join(source))
        .args(flags)
        .current_dir(&folder)
        .output()
        .expect("the wrapper can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{wrapper} {source}:\n{said}");
    program
}

fn job(ranks: u32, wrapper: &str, source: &str, arguments: &[&str]) -> Ended {
    let mut command = tool("mpiexec");
    command
        .args(["-n", &ranks.to_string()])
        .arg(build(wrapper, source))
        .args(arguments);
    run(&mut command, Duration::from_secs(60))
}

#[test]
fn each_binding_carries_messages() {
    if !is_there() {
        return;
    }
    for (wrapper, source, said) in [
        ("mpif77", "ring_mpif.f", "mpif.h ok"),
        ("mpif90", "ring_mpi.f90", "ok"),
        ("mpifort", "ring_f08.f90", "f08 ok"),
    ] {
        let ended = job(3, wrapper, source, &[]);
        ended.expect_success();
        assert!(ended.out.contains(said), "{source}: {}", ended.out);
    }
}

#[test]
fn chapters_of_the_standard_are_there() {
    if !is_there() {
        return;
    }
    let file = scratch("fortran-file").join("file");
    let ended = job(4, "mpifort", "breadth.f90", &[&file.to_string_lossy()]);
    ended.expect_success();
    assert!(ended.out.contains("breadth ok"), "{}", ended.out);
}

#[test]
fn attributes_have_callbacks_and_buffers_come_back() {
    if !is_there() {
        return;
    }
    for (source, said) in [
        ("attributes.f90", "attributes ok"),
        ("attributes_old.f90", "old ok"),
    ] {
        let ended = job(2, "mpifort", source, &[]);
        ended.expect_success();
        assert!(ended.out.contains(said), "{source}: {}", ended.out);
    }
}

#[test]
fn callbacks_of_all_kinds_are_called() {
    if !is_there() {
        return;
    }
    for (source, said) in [
        ("representation.f90", "representation ok"),
        ("handlers.f90", "handlers ok"),
    ] {
        let file = scratch(&format!("fortran-file-{source}")).join("file");
        let ended = job(1, "mpifort", source, &[&file.to_string_lossy()]);
        ended.expect_success();
        assert!(ended.out.contains(said), "{source}: {}", ended.out);
    }
}

/// Such a program has its own addresses for the procedures that mean "no conversion".
#[test]
fn a_program_at_a_fixed_place_registers_a_representation() {
    if !is_there() {
        return;
    }
    let file = scratch("fortran-file-fixed").join("file");
    let flags = ["-no-pie", "-fno-pic"];
    let mut command = tool("mpiexec");
    command.args(["-n", "1"]);
    command.arg(build_with("mpifort", "representation.f90", &flags));
    let ended = run(command.arg(&file), Duration::from_secs(60));
    ended.expect_success();
    assert!(ended.out.contains("representation ok"), "{}", ended.out);
}

#[test]
fn addresses_are_integers_or_pointers() {
    if !is_there() {
        return;
    }
    let ended = job(3, "mpifort", "addresses.f90", &[]);
    ended.expect_success();
    assert!(ended.out.contains("addresses ok"), "{}", ended.out);
}

#[test]
fn old_programs_find_what_was_removed() {
    if !is_there() {
        return;
    }
    let ended = job(1, "mpif77", "removed.f", &[]);
    ended.expect_success();
    assert!(ended.out.contains("removed ok"), "{}", ended.out);
}

/// Compiles a program like the wrappers of an implementation (`mpich`, which Intel MPI is like; `openmpi`): with an `mpif.h` of its ABI, and linked with
/// libraries of its names. Module `mpi` consists of that file.
fn build_for(implementation: &str, source: &str, libraries: &[&str]) -> PathBuf {
    let folder = scratch(&format!("fortran-{implementation}-{source}"));
    let sources = root().join("tests/programs/fortran");
    let module = folder.join("mpi.f");
    let text = "      module mpi\n      include 'mpif.h'\n      end module\n";
    std::fs::write(&module, text).expect("the folder can be written");
    let program = folder.join("program");
    let output = Command::new("gfortran")
        // Arguments of any type, as every program with mpif.h has them.
        .args(["-g", "-O1", "-w", "-fallow-argument-mismatch", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(sources.join(implementation))
        .arg(&module)
        .arg(sources.join(source))
        .arg("-L")
        .arg(installation().join("lib"))
        .args(["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"])
        .args(libraries.iter().map(|library| format!("-l:{library}")))
        .current_dir(&folder)
        .output()
        .expect("the compiler can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}:\n{said}");
    program
}

#[test]
fn addresses_with_a_meaning_keys_and_arrays_of_handles_have_the_form_of_the_binding() {
    if !is_there() {
        return;
    }
    let ended = job(3, "mpif90", "sentinels.f90", &[]);
    ended.expect_success();
    assert!(ended.out.contains("sentinels ok"), "{}", ended.out);
}

/// By the names that MPICH and Intel MPI give the libraries, and by those of Debian and Ubuntu.
#[test]
fn programs_of_mpich_run_as_they_are() {
    if !is_there() {
        return;
    }
    let names = ["libmpifort.so.12", "libmpi.so.12"];
    // Libraries of these names are empty and only need the real one, which is where the linker does not look.
    let of_debian = [
        "libmpichfort.so.12",
        "libmpich.so.12",
        "libmpifort.so.12",
        "libmpi.so.12",
    ];
    for (source, said, libraries) in [
        ("ring_mpif.f", "mpif.h ok", &names[..]),
        ("ring_mpi.f90", "mpi ok", &of_debian[..]),
        ("sentinels.f90", "sentinels ok", &names[..]),
        ("breadth.f90", "breadth ok", &of_debian[..]),
        ("attributes_old.f90", "old ok", &names[..]),
        ("addresses.f90", "addresses ok", &names[..]),
        ("removed.f", "removed ok", &names[..]),
    ] {
        expect_runs("mpich", source, said, libraries);
    }
}

/// MPICH as Debian and Ubuntu package it, with the modules that its mpifort compiles with, unpacked into a folder of the target directory. If it cannot be had,
/// or this compiler cannot read the modules, a message says so.
fn mpich_of_debian() -> Option<&'static [PathBuf; 2]> {
    static FOLDERS: OnceLock<Option<[PathBuf; 2]>> = OnceLock::new();
    let found = FOLDERS.get_or_init(|| {
        let folder = scratch("mpich-of-debian");
        let within = |folder: &Path| {
            let all = std::fs::read_dir(folder.join("usr/include")).ok()?;
            let include = all.flatten().map(|one| one.path().join("mpich"));
            let include = include.into_iter().find(|one| one.join("mpi_f08.mod").exists())?;
            let triple = include.parent()?.file_name()?;
            let libraries = folder.join("usr/lib").join(triple);
            Some([include, libraries])
        };
        if within(&folder).is_none() {
            let script = "apt-get -o Acquire::Retries=0 -o Acquire::http::Timeout=20 download libmpich-dev libmpich12 && for package in *.deb; do dpkg -x \"$package\" . || exit; done";
            let _ = Command::new("sh")
                .args(["-c", script])
                .current_dir(&folder)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
        within(&folder)
    });
    if found.is_none() {
        eprintln!("skipped: apt-get download has no libmpich-dev with mpi_f08.mod");
    }
    found.as_ref()
}

/// Compiles a program with the modules of MPICH's `mpi_f08`, whose procedures get descriptors, and links it with MPICH's libraries. `None` if there are none,
/// or gfortran is not the one that they were made with, which a message says.
fn build_with_modules_of_mpich(source: &str, flags: &[&str]) -> Option<PathBuf> {
    let [include, libraries] = mpich_of_debian().filter(|_| is_there())?;
    let folder = scratch(&format!("fortran-of-mpich-{source}{}", flags.concat()));
    let program = folder.join("program");
    let output = Command::new("gfortran")
        .arg("-g")
        .args(flags)
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&program)
        .arg(root().join("tests/programs/fortran").join(source))
        .arg("-L")
        .arg(libraries)
        .arg("-Wl,--allow-shlib-undefined")
        .args(["-l:libmpichfort.so.12", "-l:libmpich.so.12"])
        .current_dir(&folder)
        .output()
        .expect("the compiler can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Cannot read module file") {
        eprintln!("skipped: gfortran is not that of the package:\n{said}");
        return None;
    }
    assert!(output.status.success(), "{source} {flags:?}:\n{said}");
    Some(program)
}

#[test]
fn programs_of_mpichs_mpi_f08_run_as_they_are() {
    for (ranks, source, flags, said) in [
        ("3", "f08_of_mpich.f90", &["-O1"][..], "f08 of mpich ok"),
        ("2", "f08_of_mpich.f90", &["-O2"], "f08 of mpich ok"),
        // The program has copies of the library's variables.
        (
            "3",
            "f08_of_mpich.f90",
            &["-O1", "-no-pie", "-fno-pic"],
            "f08 of mpich ok",
        ),
        ("3", "ring_f08.f90", &["-O1"], "f08 ok"),
        ("4", "breadth.f90", &["-O1"], "breadth ok"),
        ("1", "handlers.f90", &["-O1"], "handlers ok"),
        ("1", "spawn.f90", &["-O1"], "spawn ok"),
    ] {
        let Some(program) = build_with_modules_of_mpich(source, flags) else {
            return;
        };
        let mut command = tool("mpiexec");
        command.args(["-n", ranks, "--universe", "4"]).arg(&program);
        // Of programs that start themselves, an argument would be one too many.
        if source != "spawn.f90" {
            command.arg(program.with_file_name("file"));
        }
        let ended = run(&mut command, Duration::from_secs(60));
        ended.expect_success();
        assert!(ended.out.contains(said), "{source} {flags:?}: {ended:?}");
    }
}

/// The library between the program and MPI is not a place of the program.
#[test]
fn a_deadlock_of_a_program_of_mpich_names_its_lines() {
    let Some(program) = build_with_modules_of_mpich("stuck.f90", &["-O1"]) else {
        return;
    };
    let mut command = tool("mpiexec");
    let ended = run(
        command.args(["-n", "2"]).arg(program),
        Duration::from_secs(60),
    );
    assert_ne!(ended.code(), Some(0));
    for said in ["deadlock", "MPI_Recv", "stuck.f90:8 (stuck)"] {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }
}

/// What a library defines, and the size of each variable.
fn defined(library: &Path) -> BTreeMap<String, String> {
    let listed = Command::new("nm")
        .args(["-DS", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm can be started");
    assert!(listed.status.success(), "nm {}", library.display());
    let listed = String::from_utf8_lossy(&listed.stdout);
    let lines = listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (size, kind, name) = (words.nth(1)?, words.next()?, words.next()?);
        let size = if kind == "T" { "" } else { size };
        let name = name.split('@').next().unwrap_or(name);
        Some((name.to_owned(), size.to_owned()))
    });
    lines.collect()
}

/// What MPICH's library has for the modules `mpi_f08` and `mpi`, and this one does not: internals, and extensions for graphics cards.
/// docs/mpich-abi.md lists them.
const NOT_THERE: [&str; 4] = [
    "__mpi_c_interface_glue_MOD_",
    "__mpi_c_interface_types_MOD_",
    "mpix_gpu_query_",
    "mpix_query_",
];

#[test]
fn all_names_of_mpichs_mpi_f08_are_there() {
    let lib = installation().join("lib");
    let mut ours = defined(&lib.join("libmpi.so.12"));
    ours.extend(defined(&lib.join("libmpifort.so.12")));
    // Names that have changed after MPICH 4.0.
    for name in [
        "mpi_send_c_f08ts_",
        "pmpir_send_c_f08ts_",
        "mpi_type_size_c_f08_",
        "pmpir_type_size_c_f08_",
        "__mpi_f08_link_constants_MOD_mpi_bottom",
        "__mpi_f08_link_constants_MOD_mpi_in_place",
        "__mpi_f08_link_constants_MOD_mpi_buffer_automatic",
        "__mpi_f08_link_constants_MOD_mpi_status_ignore",
        "__mpi_f08_link_constants_MOD_mpi_statuses_ignore",
        "__mpi_f08_types_MOD_pmpi_status_f082f",
    ] {
        assert!(ours.contains_key(name), "{name}");
    }
    let Some([_, libraries]) = mpich_of_debian() else {
        return;
    };
    let theirs = defined(&libraries.join("libmpichfort.so.12"));
    let wanted = |name: &str| {
        let plain = name.trim_start_matches('p').replace("mpixr_", "mpix_");
        (name.contains("f08") || name.contains("F08") || name.contains("_MOD_"))
            && !NOT_THERE.iter().any(|one| plain.starts_with(one))
    };
    let theirs: Vec<_> = theirs.iter().filter(|(name, _)| wanted(name)).collect();
    assert!(theirs.len() > 1200, "{} names", theirs.len());
    // A variable of another size cannot be copied into a program.
    let missing: Vec<_> = theirs
        .iter()
        .filter(|(name, size)| ours.get(*name) != Some(*size))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn programs_of_open_mpi_run_as_they_are() {
    if !is_there() {
        return;
    }
    for (source, said) in [
        ("ring_mpif.f", "mpif.h ok"),
        ("ring_mpi.f90", "mpi ok"),
        ("sentinels.f90", "sentinels ok"),
        ("breadth.f90", "breadth ok"),
        ("attributes_old.f90", "old ok"),
        ("addresses.f90", "addresses ok"),
        ("removed.f", "removed ok"),
    ] {
        let libraries = ["libmpi_mpifh.so.40", "libmpi.so.40"];
        expect_runs("openmpi", source, said, &libraries);
    }
}

/// Three ranks of a program that was built for another implementation.
fn expect_runs(implementation: &str, source: &str, said: &str, libraries: &[&str]) {
    let file = scratch(&format!("fortran-{implementation}-file-{source}")).join("file");
    let mut command = tool("mpiexec");
    command.args(["-n", "3"]);
    command
        .arg(build_for(implementation, source, libraries))
        .arg(&file);
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    assert!(ended.out.contains(said), "{source}: {}", ended.out);
}

#[test]
fn a_deadlock_names_the_lines_of_the_program() {
    if !is_there() {
        return;
    }
    let ended = job(2, "mpifort", "stuck.f90", &[]);
    assert_ne!(ended.code(), Some(0));
    for said in ["deadlock", "MPI_Recv", "stuck.f90:8 (stuck)"] {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }
}

/// Linker names of the procedures that a module declares.
fn declared(module: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_abstract = false;
    for line in module.lines() {
        // A procedure of the library without an interface; arguments are indented further.
        let outside = line
            .strip_prefix("  external :: ")
            .or_else(|| Some(line.strip_prefix("  procedure(")?.split_once(":: ")?.1));
        let line = line.trim();
        match line {
            "abstract interface" => is_abstract = true,
            "end interface" => is_abstract = false,
            _ => {}
        }
        let procedure = ["subroutine ", "function ", "elemental logical function "];
        let inside = procedure.iter().find_map(|word| line.strip_prefix(word));
        let named = inside.or(outside);
        let Some(named) = named.filter(|_| !is_abstract) else {
            continue;
        };
        names.push(match line.split_once("name=\"") {
            Some((_, bound)) => bound.trim_end_matches("\")").to_owned(),
            None => {
                let name = named.split('(').next().unwrap_or(named);
                format!("{}_", name.to_lowercase())
            }
        });
    }
    names
}

#[test]
fn what_the_modules_declare_is_there() {
    let installed = tool("mpifort");
    let installed = PathBuf::from(installed.get_program());
    let installed = installed.ancestors().nth(2).expect("an installation");
    let library = installed.join("lib/libmpi_fortran.so.1");
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library)
        .output()
        .expect("nm can be started");
    assert!(listed.status.success(), "nm {}", library.display());
    let listed = String::from_utf8_lossy(&listed.stdout);
    let there: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    for (module, least) in [("mpi.f90", 900), ("mpi_f08.f90", 1100)] {
        let folder = root().join("crates/abi-fortran/modules");
        let text = std::fs::read_to_string(folder.join(module)).expect("a module");
        let declared = declared(&text);
        assert!(
            declared.len() >= least,
            "{module} declares {} procedures",
            declared.len()
        );
        let missing: Vec<_> = declared
            .iter()
            .filter(|name| !there.contains(name.as_str()))
            .collect();
        assert!(missing.is_empty(), "{module} declares {missing:?}");
    }
}

#[test]
fn a_program_starts_others_by_padded_texts() {
    if !is_there() {
        return;
    }
    let mut command = tool("mpiexec");
    command
        .args(["-n", "1", "--universe", "4"])
        .arg(build("mpifort", "spawn.f90"));
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    assert!(ended.out.contains("spawn ok"), "{}", ended.out);
}

#[test]
fn what_is_written_after_the_call_is_read() {
    if !is_there() {
        return;
    }
    let ended = job(1, "mpifort", "late.f90", &[]);
    ended.expect_success();
    assert!(ended.out.contains("late ok"), "{}", ended.out);
}

#[test]
fn a_profile_names_the_lines_of_the_program() {
    if !is_there() {
        return;
    }
    let mut command = tool("mpiexec");
    command
        .args(["-n", "2", "--profile"])
        .arg(build("mpifort", "counted.f90"));
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    weft_tests::expect_counted(&ended, "counted.f90", [("MPI_Send", 9), ("MPI_Recv", 11)]);
}

#[test]
fn an_error_names_the_line_of_the_program() {
    if !is_there() {
        return;
    }
    let ended = job(1, "mpifort", "wrong_rank.f90", &[]);
    assert_ne!(ended.code(), Some(0));
    for said in ["MPI_Send", "77", "wrong_rank.f90:7 (wrong_rank)"] {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }
}

/// Entry points that examine a communicator first leave it to the call of the program to report that it is
/// not valid, once.
#[test]
fn what_is_no_communicator_is_told_by_the_call() {
    if !is_there() {
        return;
    }
    for (call, name) in [
        ("spawn", "MPI_Comm_spawn"),
        ("multiple", "MPI_Comm_spawn_multiple"),
        ("alltoallw", "MPI_Alltoallw"),
        ("neighbor", "MPI_Neighbor_alltoallw"),
    ] {
        let ended = job(1, "mpifort", "wrong_comm.f90", &[call]);
        assert_ne!(ended.code(), Some(0), "{call}");
        for said in [name, "MPI_COMM_NULL", "wrong_comm.f90:"] {
            assert!(ended.err.contains(said), "{call}: {said}: {}", ended.err);
        }
        let handled = job(1, "mpifort", "wrong_comm.f90", &[call, "returns"]);
        handled.expect_success();
        let said = "errors 1";
        assert!(handled.out.contains(said), "{call}: {}", handled.out);
    }
}
