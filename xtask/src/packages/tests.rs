//! Packages, tested with the tools that are installed.

use super::*;

/// Runs the module file as Environment Modules would, if Tcl is installed.
#[test]
fn a_module_names_the_installation_that_it_lies_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().canonicalize().expect("it is there");
    lay_out(&prefix).expect("laid out");
    let file = prefix.join("share/modulefiles/weft").join(VERSION);
    let script = prefix.join("ask.tcl");
    let commands = "foreach name {module-whatis conflict prepend-path} { proc $name args \"puts {$name}; puts \\$args\" }\n";
    let place = format!("set ModulesCurrentModulefile {{{}}}\n", file.display());
    let text = format!("{commands}{place}source $ModulesCurrentModulefile\n");
    fs::write(&script, text).expect("written");
    let Ok(asked) = Command::new("tclsh").arg(&script).output() else {
        return;
    };
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(asked.status.success(), "{asked:?}");
    for (name, place) in [
        ("PATH", "bin"),
        ("LD_LIBRARY_PATH", "lib"),
        ("CMAKE_PREFIX_PATH", ""),
    ] {
        let wanted = format!("{name} {}", prefix.join(place).display());
        let wanted = wanted.trim_end_matches('/');
        assert!(said.lines().any(|line| line == wanted), "{wanted}: {said}");
    }
}

/// Spack itself is not run, because it is not in any registry. Checked instead: its recipe is where Spack 1.0 and later look for one,
/// requires the compiler that the workspace requires, and contains the steps that Spack has to execute.
#[test]
fn the_recipe_of_spack_does_what_spack_wants() {
    let root = root().expect("a workspace");
    let repository = root.join("packaging/spack/spack_repo/weft");
    let about = fs::read_to_string(repository.join("repo.yaml")).expect("a repository");
    for line in ["repo:", "  namespace: weft", "  api: v2.0"] {
        assert!(about.lines().any(|there| there == line), "{about}");
    }
    let workspace = fs::read_to_string(root.join("Cargo.toml")).expect("a workspace");
    let mut lines = workspace.lines();
    let version = lines.find(|line| line.starts_with("rust-version"));
    let version = version.and_then(|line| line.split('"').nth(1));
    let version = version.expect("a version");
    let asked = Command::new("python3")
        .arg(root.join("xtask/src/packages/ask_spack.py"))
        .arg(repository.join("packages/weft/package.py"))
        .arg("/prefix")
        .output();
    let Ok(asked) = asked else {
        println!("skipped: there is no python3");
        return;
    };
    let told = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(asked.status.success(), "{asked:?}");
    for line in [
        &*format!("depends_on rust@{version}:"),
        "provides mpi@:5.0",
        "cargo run --release --package xtask -- dist --prefix /prefix",
        "env.set MPICC /prefix/bin/mpicc",
        "spec mpicc /prefix/bin/mpicc",
        "spec mpifc /prefix/bin/mpifort",
        "libs libmpi_abi /prefix/lib",
    ] {
        assert!(told.lines().any(|there| there == line), "{line}: {told}");
    }
}

/// All files from which the image is made are in an installation.
#[test]
fn the_image_runs_what_is_installed() {
    let root = root().expect("a workspace");
    let image =
        fs::read_to_string(root.join("packaging/container/Containerfile")).expect("a recipe");
    let steps = [
        "FROM ",
        "COPY . /opt/weft",
        "ENV PATH=/opt/weft/bin:$PATH",
        "RUN [\"mpiexec\"",
    ];
    let places = steps.map(|step| image.find(&format!("\n{step}")).expect(step));
    assert!(places.is_sorted(), "{image}");
}

/// pkg-config and CMake, if they are installed, find an installation at its new place after it was moved.
#[test]
fn other_tools_find_an_installation_where_it_lies() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("prefix");
    lay_out(&prefix).expect("laid out");
    for (_, file) in FILES {
        let file = prefix.join(file.replace("@VERSION@", VERSION));
        let text = fs::read_to_string(&file).expect("it is there");
        assert!(!text.contains("@VERSION@"), "{}", file.display());
    }
    let moved = folder.path().join("moved");
    fs::rename(&prefix, &moved).expect("moved");
    let pkg_config = Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig"))
        .args(["--cflags", "--libs", "weft"])
        .output();
    if let Ok(found) = pkg_config {
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        assert!(
            text.contains("-lmpi_abi") && text.contains("moved"),
            "{found:?}"
        );
    }
    let project = folder.path().join("project");
    fs::create_dir(&project).expect("a folder");
    let list = "cmake_minimum_required(VERSION 3.13)\nproject(x NONE)\nfind_package(Weft REQUIRED)\n\
                get_target_property(where Weft::MPI IMPORTED_LOCATION)\nmessage(STATUS \"at ${where}\")\n";
    fs::write(project.join("CMakeLists.txt"), list).expect("written");
    let cmake = Command::new("cmake")
        .arg(format!("-DCMAKE_PREFIX_PATH={}", moved.display()))
        .args(["-S", ".", "-B", "build"])
        .current_dir(&project)
        .output();
    if let Ok(found) = cmake {
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        let place = moved.join("lib/libmpi_abi.so.1");
        assert!(
            text.contains(&format!("at {}", place.display())),
            "{found:?}"
        );
    }
}

/// Every option that --help shows has its line in the manual and its word in the completions.
#[test]
fn pages_and_completions_have_all_options() {
    let folder = tempfile::tempdir().expect("a folder");
    lay_out(folder.path()).expect("laid out");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let manual = read("share/man/man1/mpiexec.1");
    for wrapper in ["mpicxx", "mpifort"] {
        assert_eq!(
            read(&format!("share/man/man1/{wrapper}.1")),
            ".so man1/mpicc.1\n"
        );
    }
    assert!(read("share/man/man1/mpicc.1").contains("OMPI_CC"));
    let bash = read("share/bash-completion/completions/mpiexec");
    let (zsh, fish) = (
        read("share/zsh/site-functions/_mpiexec"),
        read("share/fish/vendor_completions.d/mpiexec.fish"),
    );
    for option in ["bind-to", "timeout", "hosts", "tag-output"] {
        assert!(manual.contains(&roff(&format!("--{option}"))), "{option}");
        assert!(bash.contains(&format!("--{option}")), "{option}");
        assert!(zsh.contains(&format!("'--{option}[")), "{option}");
        assert!(fish.contains(&format!("-l '{option}'")), "{option}");
    }
    if let Ok(read) = Command::new("bash")
        .arg("-n")
        .arg(
            folder
                .path()
                .join("share/bash-completion/completions/mpiexec"),
        )
        .status()
    {
        assert!(read.success(), "{bash}");
    }
}

/// What bash offers for a line whose last word is incomplete.
fn offered_by_bash(completions: &Path, words: &[&str]) -> Vec<String> {
    let script = "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  case $1 in weft) _weft ;; *) _weft_$1 ;; esac; \
                  for one in \"${COMPREPLY[@]}\"; do echo \"$one\"; done";
    let said = Command::new("bash")
        .args(["-c", script])
        .arg(completions)
        .arg(completions.file_name().expect("the command"))
        .args(words)
        .output()
        .expect("bash is there");
    assert!(said.status.success(), "{said:?}");
    let said = String::from_utf8(said.stdout).expect("text");
    let mut offered: Vec<String> = said.lines().map(str::to_owned).collect();
    // For bash a folder is a file and also a possible command, but it is shown once.
    offered.dedup();
    offered
}

#[test]
fn bash_offers_what_a_value_may_be() {
    let folder = tempfile::tempdir().expect("a folder");
    lay_out(folder.path()).expect("laid out");
    let completions = folder
        .path()
        .join("share/bash-completion/completions/mpiexec");
    let offered = |words: &[&str]| offered_by_bash(&completions, words);
    assert_eq!(offered(&["--encr"]), ["--encrypt"]);
    assert_eq!(offered(&["--fabric", ""]), ["auto", "tcp", "ofi"]);
    assert_eq!(offered(&["-on-death", "re"]), ["report", "restart"]);
    assert_eq!(offered(&["--on-death", "=", "e"]), ["end"]);
    assert_eq!(offered(&["--on-death", "="]), ["end", "report", "restart"]);
    assert!(offered(&["-n", ""]).is_empty(), "a number");
    let commands = offered(&["--launch-command", "bas"]);
    assert!(commands.contains(&"bash".to_owned()), "{commands:?}");
    let shared = folder.path().join("sh");
    let shared = shared.to_str().expect("text");
    assert_eq!(offered(&["--wdir", shared]), [format!("{shared}are")]);
    assert_eq!(offered(&["-n", "2", shared]), [format!("{shared}are")]);
}

#[test]
fn bash_offers_commands_of_weft() {
    let folder = tempfile::tempdir().expect("a folder");
    lay_out(folder.path()).expect("laid out");
    let completions = folder.path().join("share/bash-completion/completions/weft");
    let offered = |words: &[&str]| offered_by_bash(&completions, words);
    assert_eq!(offered(&["st"]), ["stacks"]);
    assert_eq!(offered(&["help", "t"]), ["top"]);
    assert_eq!(offered(&["run", "--encr"]), ["--encrypt"]);
    assert_eq!(offered(&["top", "--i"]), ["--interval"]);
    assert_eq!(offered(&["join", "--token-"]), ["--token-file"]);
}

/// What dpkg says of a package of files that are no programs: on what it depends, and that nothing of it may be changed by others.
#[test]
fn a_package_of_debian_names_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let built = folder.path().join("built");
    for (name, bytes) in [
        ("bin/weft", &b"\0GLIBC_2.17\0GLIBC_PRIVATE\0"[..]),
        ("lib/libmpi_abi.so.1", b"\0GLIBC_2.9\0GLIBC_2.34.1\0"),
    ] {
        let path = built.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    std::os::unix::fs::symlink("weft", built.join("bin/mpicc")).expect("made");
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        println!("skipped: there is no dpkg-deb");
        return;
    }
    let package = pack(&built, folder.path()).expect("packed");
    let ask = |option: &str| {
        output(Command::new("dpkg-deb").arg(option).arg(&package)).expect("a package")
    };
    let fields = ask("--field");
    for line in ["Depends: libc6 (>= 2.34), libgcc-s1", "Installed-Size: "] {
        assert!(
            fields.lines().any(|there| there.starts_with(line)),
            "{line}: {fields}"
        );
    }
    let listed = ask("--contents");
    for (mode, name) in [
        ("drwxr-xr-x root/root", "./"),
        ("-rwxr-xr-x root/root", "./opt/weft/bin/weft"),
        ("lrwxrwxrwx root/root", "./opt/weft/bin/mpicc -> weft"),
        ("-rw-r--r-- root/root", "./opt/weft/lib/libmpi_abi.so.1"),
        ("-rw-r--r-- root/root", "./usr/share/doc/weft/copyright"),
        ("-rw-r--r-- root/root", "./usr/share/doc/weft/NEWS.gz"),
        ("-rw-r--r-- root/root", "./usr/share/doc/weft/changelog.gz"),
    ] {
        let is_it = |line: &str| line.starts_with(mode) && line.ends_with(name);
        assert!(listed.lines().any(is_it), "{mode} {name}: {listed}");
    }
    let unpacked = folder.path().join("unpacked");
    output(
        Command::new("dpkg-deb")
            .arg("-R")
            .arg(&package)
            .arg(&unpacked),
    )
    .expect("unpacked");
    let sums = fs::read_to_string(unpacked.join("DEBIAN/md5sums")).expect("there");
    assert!(sums.contains("  opt/weft/bin/weft\n"), "{sums}");
    output(
        Command::new("md5sum")
            .args(["--check", "--quiet", "DEBIAN/md5sums"])
            .current_dir(&unpacked),
    )
    .expect("all sums are right");
}
