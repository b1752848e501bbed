//! Programs that were built elsewhere, with the compiler wrappers and headers of MPICH, for the standard ABI and for MPICH's own, and with
//! those of Open MPI: they run on Weft unchanged.
#![allow(missing_docs)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use weft_tests::{Ended, installation, root, run, scratch, tool};

/// MPICH as a package of the Python registry, as `cargo xtask peers` installs it.
fn mpich() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from);
        let prefix = target.join("peers/mpich");
        if !prefix.join("bin/mpicc_abi").exists() {
            let made = Command::new(env!("CARGO"))
                .args(["run", "--quiet", "--package", "xtask", "--"])
                .args(["peers", "--only", "mpich"])
                .current_dir(root())
                .status()
                .expect("cargo can be started");
            assert!(made.success(), "cargo xtask peers --only mpich: {made}");
        }
        prefix
    })
}

/// Builds a program with MPICH's wrapper for the standard ABI.
fn build(name: &str) -> PathBuf {
    build_with("mpicc_abi", name)
}

/// Builds a program with a wrapper of MPICH.
fn build_with(wrapper: &str, name: &str) -> PathBuf {
    let program = scratch(&format!("foreign-{wrapper}")).join(name);
    build_by(&mpich().join("bin").join(wrapper), name, &[], &program);
    program
}

/// Builds a program with a wrapper, and with further arguments of the compiler.
fn build_by(wrapper: &Path, name: &str, more: &[&str], program: &Path) {
    let output = Command::new(wrapper)
        .args(["-std=gnu11", "-g", "-O1", "-pthread", "-w"])
        .args(more)
        .arg(root().join(format!("tests/programs/{name}.c")))
        .arg("-o")
        .arg(program)
        .output()
        .expect("the wrapper can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    let wrapper = wrapper.display();
    assert!(output.status.success(), "{wrapper} {name}.c:\n{said}");
}

/// Runs it under Weft's launcher, with Weft's library instead of the one with which it was built.
fn on_weft(ranks: u32, program: &Path) -> Ended {
    let mut command = tool("mpiexec");
    command
        .args(["-n", &ranks.to_string()])
        .arg(program)
        .env("LD_LIBRARY_PATH", installation().join("lib"));
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    ended
}

#[test]
fn the_same_file_runs_on_either() {
    let program = build("identity");
    let built = std::fs::read(&program).expect("it was built");
    let mut command = Command::new(mpich().join("bin/mpiexec"));
    command.args(["-n", "2"]).arg(&program);
    let there = run(&mut command, Duration::from_secs(60));
    there.expect_success();
    assert!(there.out.contains("on: MPICH"), "{there:?}");
    let here = on_weft(3, &program);
    assert!(here.out.contains("on: Weft"), "{here:?}");
    assert!(here.out.contains("identity: ok with 3 ranks"), "{here:?}");
    assert!(
        std::fs::read(&program).expect("it is there") == built,
        "the file has not changed"
    );
}

#[test]
fn all_that_a_program_may_call() {
    for (name, ranks) in [
        ("point_to_point", 2),
        ("communicators", 4),
        ("collectives", 4),
        ("intercommunicators", 3),
        ("topologies", 4),
        ("requests", 2),
    ] {
        let ended = on_weft(ranks, &build(name));
        let end = format!(": ok with {ranks} ranks");
        assert!(ended.out.contains(&end), "{name}: {ended:?}");
    }
}

/// Runs a program of MPICH's own ABI, with no variable in the environment that points to either library.
fn on_weft_as_it_is(ranks: u32, program: &Path) -> Ended {
    on_weft_with(ranks, program, &[])
}

fn on_weft_with(ranks: u32, program: &Path, arguments: &[&Path]) -> Ended {
    let mut command = tool("mpiexec");
    command
        .args(["-n", &ranks.to_string()])
        .arg(program)
        .args(arguments)
        .env_remove("LD_LIBRARY_PATH");
    run(&mut command, Duration::from_secs(60))
}

/// The wrapper writes the folder of MPICH's library into the program; ours has precedence.
#[test]
fn a_program_of_mpichs_own_abi_runs_on_either() {
    let program = build_with("mpicc", "identity");
    let mut command = Command::new(mpich().join("bin/mpiexec"));
    command.args(["-n", "2"]).arg(&program);
    let there = run(&mut command, Duration::from_secs(60));
    there.expect_success();
    assert!(there.out.contains("on: MPICH"), "{there:?}");
    let here = on_weft_as_it_is(3, &program);
    here.expect_success();
    assert!(here.out.contains("on: Weft"), "{here:?}");
    assert!(here.out.contains("identity: ok with 3 ranks"), "{here:?}");
}

#[test]
fn all_that_a_program_of_mpichs_own_abi_may_call() {
    expect_all_calls("foreign-files", |name| build_with("mpicc", name));
}

/// Programs that call most of MPI, built as `build` does; a folder for their files.
fn expect_all_calls(folder: &str, build: impl Fn(&str) -> PathBuf) {
    for (name, ranks) in [
        ("point_to_point", 2),
        ("communicators", 4),
        ("collectives", 4),
        ("intercommunicators", 3),
        ("topologies", 4),
        ("requests", 2),
        ("one_sided", 3),
        ("files", 3),
        ("threads", 2),
    ] {
        let folder = scratch(folder);
        let arguments: &[&Path] = if name == "files" { &[&folder] } else { &[] };
        let ended = on_weft_with(ranks, &build(name), arguments);
        ended.expect_success();
        let end = format!(": ok with {ranks} ranks");
        assert!(ended.out.contains(&end), "{name}: {ended:?}");
    }
}

/// Handles, callbacks and numbers that differ between the two ABIs, one by one.
#[test]
fn what_differs_between_the_abis() {
    for ranks in [1, 3] {
        let ended = on_weft_as_it_is(ranks, &build_with("mpicc", "foreign_abi"));
        ended.expect_success();
        let end = format!("foreign_abi: ok with {ranks} ranks");
        assert!(ended.out.contains(&end), "{ended:?}");
    }
}

/// An address in the library between the program and ours is not a place in the program.
#[test]
fn a_mistake_is_told_with_its_place() {
    let mut command = tool("mpiexec");
    command
        .args(["-n", "1"])
        .arg(build_with("mpicc", "foreign_abi"))
        .arg("mistake")
        .env_remove("LD_LIBRARY_PATH");
    let ended = run(&mut command, Duration::from_secs(60));
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    let place = ended
        .err
        .lines()
        .find(|line| line.trim_start().starts_with("place"));
    let place = place.unwrap_or_default();
    assert!(place.contains("foreign_abi"), "{ended:?}");
    assert!(
        ended.err.contains("MPI_ERR_RANK") && ended.err.contains("4711"),
        "{ended:?}"
    );
}

/// The calls that the program makes are counted, at its lines.
#[test]
fn a_profile_counts_the_calls_of_the_program() {
    let mut command = tool("mpiexec");
    command
        .args(["-n", "2", "--profile"])
        .arg(build_with("mpicc", "counted"))
        .env_remove("LD_LIBRARY_PATH");
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    weft_tests::expect_counted(&ended, "counted.c", [("MPI_Send", 10), ("MPI_Recv", 12)]);
}

/// Builds a program that runs with MPICH's own library, wherever the dynamic linker would look for it
/// otherwise.
fn build_for_its_own(name: &str) -> PathBuf {
    build_for_library_of(mpich(), name)
}

/// Builds a program that runs with the library of an installation, wherever the dynamic linker would look for it otherwise.
fn build_for_library_of(prefix: &Path, name: &str) -> PathBuf {
    let library = prefix.join("lib");
    let folder = prefix.file_name().expect("it has a name").display();
    let program = scratch(&format!("foreign-first-{folder}")).join(name);
    let output = Command::new("cc")
        .args(["-std=gnu11", "-pthread", "-I"])
        .arg(prefix.join("include"))
        .arg(root().join(format!("tests/programs/{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .arg(format!(
            "-Wl,--disable-new-dtags,-rpath,{}",
            library.display()
        ))
        .arg("-lmpi")
        .output()
        .expect("cc can be started");
    assert!(output.status.success(), "{output:?}");
    program
}

/// MPICH's library asks our launcher for its job through PMI: its ranks are one job, in every way to end.
#[test]
fn a_program_over_the_library_of_mpich_is_one_job() {
    let identity = on_weft_as_it_is(3, &build_for_its_own("identity"));
    identity.expect_success();
    assert!(identity.out.contains("on: MPICH"), "{identity:?}");
    assert!(identity.out.contains(": ok with 3 ranks"), "{identity:?}");
    for said in ["libmpi.so.12", "DT_RPATH", "PMI"] {
        assert_eq!(identity.err.matches(said).count(), 1, "{identity:?}");
    }
    let program = build_for_its_own("job_ends");
    for (end, code, said) in [
        ("well", 0, "ok with 4 ranks"),
        ("code", 5, "rank 3"),
        ("abort", 7, "rank 3"),
        ("kill", 137, "rank 3"),
    ] {
        let ended = on_weft_with(4, &program, &[Path::new(end)]);
        assert_eq!(ended.code(), Some(code), "{end}: {ended:?}");
        let all = format!("{}{}", ended.out, ended.err);
        assert!(all.contains(said), "{end}: {ended:?}");
    }
}

/// Starting processes is refused, and the launcher says so.
#[test]
fn a_program_over_the_library_of_mpich_starts_no_processes() {
    let ended = on_weft_as_it_is(1, &build_for_its_own("spawn"));
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    let said =
        "rank 0 runs over another library of MPI, and has asked this launcher to start processes";
    assert_eq!(ended.err.matches(said).count(), 1, "{ended:?}");
}

/// Open MPI as a package of the Python registry; prints a message if it is missing.
fn library_of_open_mpi() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), PathBuf::from);
    let places =
        ["peers", "foreign"].map(|folder| target.join(folder).join("openmpi/lib/libmpi.so.40"));
    let Some(library) = places.iter().find(|library| library.exists()) else {
        println!("skipped: there is no Open MPI in target/foreign (cargo xtask test installs it)");
        return None;
    };
    // As the kernel shows it.
    Some(library.canonicalize().expect("it is there"))
}

/// Where it is installed.
fn open_mpi() -> Option<PathBuf> {
    let library = library_of_open_mpi()?;
    Some(library.parent()?.parent()?.to_owned())
}

/// Builds a program with Open MPI's wrapper: `kind` says where the compiler lets the program be.
fn build_of_open_mpi(prefix: &Path, kind: &[&str], name: &str) -> PathBuf {
    let program = scratch(&format!("foreign-open-mpi{}", kind.concat())).join(name);
    build_by(&prefix.join("bin/mpicc"), name, kind, &program);
    program
}

/// At a fixed address: the program has copies of the objects of the library whose addresses are the handles.
const FIXED: &[&str] = &["-no-pie", "-fno-pic"];
const ANYWHERE: &[&str] = &["-pie", "-fPIE"];

/// The wrapper writes the folder of Open MPI's library into the program; ours has precedence.
#[test]
fn a_program_of_open_mpi_runs_on_either() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    for kind in [FIXED, ANYWHERE] {
        let program = build_of_open_mpi(&prefix, kind, "identity");
        let mut command = Command::new(prefix.join("bin/mpiexec"));
        command
            .args(["--allow-run-as-root", "--oversubscribe", "-n", "2"])
            .arg(&program);
        let there = run(&mut command, Duration::from_secs(60));
        there.expect_success();
        assert!(there.out.contains("on: Open MPI"), "{there:?}");
        let here = on_weft_as_it_is(3, &program);
        here.expect_success();
        assert!(here.out.contains("on: Weft"), "{here:?}");
        assert!(here.out.contains("identity: ok with 3 ranks"), "{here:?}");
        assert_eq!(here.err, "");
    }
}

#[test]
fn all_that_a_program_of_open_mpi_may_call() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    expect_all_calls("foreign-files-open-mpi", |name| {
        build_of_open_mpi(&prefix, ANYWHERE, name)
    });
}

/// Handles, callbacks and numbers that differ between the two ABIs, and all constants of Open MPI's header.
#[test]
fn what_differs_in_the_abi_of_open_mpi() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    for kind in [FIXED, ANYWHERE] {
        for ranks in [1, 3] {
            let ended = on_weft_as_it_is(ranks, &build_of_open_mpi(&prefix, kind, "foreign_abi"));
            ended.expect_success();
            let end = format!("foreign_abi: ok with {ranks} ranks");
            assert!(ended.out.contains(&end), "{ended:?}");
        }
    }
}

/// As the libraries for C++ do it, which programs in C++ refer to whether or not they use MPI's old binding. All names are there at the start.
#[test]
fn functions_in_cxx_are_called_as_the_libraries_for_cxx_do() {
    let kind = ["-rdynamic", "-Wl,-z,now"];
    let (name, folder) = ("cxx_callbacks", scratch("foreign-cxx"));
    let of_mpich = folder.join("of-mpich");
    build_by(&mpich().join("bin/mpicc"), name, &kind, &of_mpich);
    let mut built = vec![of_mpich];
    if let Some(prefix) = open_mpi() {
        let of_open_mpi = folder.join("of-open-mpi");
        build_by(&prefix.join("bin/mpicc"), name, &kind, &of_open_mpi);
        built.push(of_open_mpi);
    }
    for program in built {
        for ranks in [1, 3] {
            let ended = on_weft_as_it_is(ranks, &program);
            ended.expect_success();
            let end = format!("cxx_callbacks: ok with {ranks} ranks");
            assert!(ended.out.contains(&end), "{ended:?}");
        }
    }
}

#[test]
fn a_program_of_open_mpi_is_told_its_places() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let program = build_of_open_mpi(&prefix, ANYWHERE, "foreign_abi");
    let ended = on_weft_with(1, &program, &[Path::new("mistake")]);
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    let mut lines = ended.err.lines();
    let place = lines.find(|line| line.trim_start().starts_with("place"));
    assert!(
        place.is_some_and(|line| line.contains("foreign_abi")),
        "{ended:?}"
    );
    let mut command = tool("mpiexec");
    command
        .args(["-n", "2", "--profile"])
        .arg(build_of_open_mpi(&prefix, ANYWHERE, "counted"))
        .env_remove("LD_LIBRARY_PATH");
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    weft_tests::expect_counted(&ended, "counted.c", [("MPI_Send", 10), ("MPI_Recv", 12)]);
}

/// One that insists on Open MPI's own library is not alone in silence: it does not start.
#[test]
fn a_program_over_the_library_of_open_mpi_is_refused() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let ended = on_weft_as_it_is(2, &build_for_library_of(&prefix, "identity"));
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    for said in ["libmpi.so.40", "DT_RPATH", "the mpiexec of Open MPI"] {
        assert!(ended.err.contains(said), "{ended:?}");
    }
}

/// A script that loads Open MPI's library itself: no launcher can make its ranks one job, so there must be a
/// message.
#[test]
fn ranks_that_load_the_library_of_open_mpi_are_not_alone_in_silence() {
    let Some(library) = library_of_open_mpi() else {
        return;
    };
    let program = "import ctypes, sys, time; ctypes.CDLL(sys.argv[1]); print('loaded', flush=True); time.sleep(2)";
    let start = |ranks: &str| {
        let mut command = tool("mpiexec");
        command.args(["-n", ranks, "python3", "-c", program]);
        run(command.arg(&library), Duration::from_secs(60))
    };
    let ended = start("2");
    ended.expect_success();
    let said = format!("{}, the library of Open MPI", library.display());
    assert_eq!(ended.err.matches(&said).count(), 1, "{ended:?}");
    assert_eq!(start("1").err, "", "one is right to be alone");
    // A rank that is a script, which has the program started.
    let within = |before: &str| {
        let script = format!("{before} python3 -c \"$0\" \"$1\"; true");
        let mut command = tool("mpiexec");
        command.args(["-n", "2", "sh", "-c", &script, program]);
        run(command.arg(&library), Duration::from_secs(60))
    };
    let ended = within("");
    ended.expect_success();
    assert_eq!(
        ended.err.matches("a program of rank").count(),
        1,
        "{ended:?}"
    );
    assert_eq!(ended.err.matches(&said).count(), 1, "{ended:?}");
    // Agents look at the ranks of their hosts, which are this one under two names.
    let command = weft_tests::scratch("foreign-hosts").join("reach");
    std::fs::write(&command, "#!/bin/sh\nshift\nexec sh -c \"$*\"\n").expect("written");
    std::fs::set_permissions(&command, PermissionsExt::from_mode(0o755)).expect("allowed");
    let mut launcher = tool("mpiexec");
    launcher.arg("--launch-command").arg(&command);
    launcher.args(["--hosts", "a,b", "python3", "-c", program]);
    let ended = run(launcher.arg(&library), Duration::from_secs(60));
    ended.expect_success();
    for told in ["a: rank 0 has loaded", "b: rank 1 has loaded"] {
        assert_eq!(ended.err.matches(told).count(), 1, "{ended:?}");
    }
    // One that a launcher of Open MPI has started there is not alone.
    assert_eq!(within("PMIX_NAMESPACE=its").err, "");
}

/// For a program in Python, the lines of Python are reported: with the interpreter in the path, and with
/// others if they are named.
#[test]
fn lines_of_python_are_told() {
    let others = std::env::var("WEFT_TEST_PYTHONS").unwrap_or_default();
    let program = root().join("tests/programs/lines.py");
    let said_by = |python: &str, mistake: &str| {
        let mut command = tool("mpiexec");
        command.args(["-n", "2", python]).arg(&program).arg(mistake);
        let ended = run(&mut command, Duration::from_secs(60));
        assert_ne!(ended.code(), Some(0), "{python} {mistake}");
        ended.err
    };
    for python in ["python3"].into_iter().chain(others.split_whitespace()) {
        let said = said_by(python, "stuck");
        for rank in 0..2 {
            let line = format!("rank {rank}: MPI_Recv for a message from rank {}", 1 - rank);
            let told = said.lines().find(|told| told.contains(&line));
            let told = told.unwrap_or_else(|| panic!("{python}: {said}"));
            assert!(
                told.ends_with("at lines.py:14 (exchange)"),
                "{python}: {told}"
            );
        }
        let said = said_by(python, "wrong");
        let place = said
            .lines()
            .find(|line| line.trim_start().starts_with("place"));
        let place = place.unwrap_or_else(|| panic!("{python}: {said}"));
        assert!(place.ends_with("lines.py:18 (send)"), "{python}: {place}");
    }
}
