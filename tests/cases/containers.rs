//! The image of `packaging/container`, and two containers of it as two hosts, without privileges: built by the recipe's own steps, but from
//! an empty image (`FROM scratch`) with the files of this system that a program needs, because a test has no registry of images and no
//! network.
//!
//! A user without privileges runs it as is; `root` becomes the first user with subordinate ids
//! (`/etc/subuid`).
#![allow(missing_docs)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weft_tests::{Ended, build, installation, root, run};

const LIMIT: Duration = Duration::from_secs(120);

/// The user who runs containers, and the folder of their files.
struct Podman {
    folder: tempfile::TempDir,
    /// The command to become that user; empty if we are that user.
    becoming: Vec<String>,
    /// Options for podman itself.
    options: Vec<&'static str>,
}

impl Podman {
    /// `None`, with a message, where containers cannot be run.
    fn find() -> Option<Self> {
        if Command::new("podman").arg("--version").output().is_err() {
            println!(
                "skipped: there is no podman (apt-get install podman runc uidmap slirp4netns)"
            );
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let is_root = fs::metadata("/proc/self").is_ok_and(|us| us.uid() == 0);
        let mut becoming = Vec::new();
        if is_root {
            let ids = fs::read_to_string("/etc/subuid").unwrap_or_default();
            let Some(user) = ids.lines().find_map(|line| line.split(':').next()) else {
                println!(
                    "skipped: no user has subordinate ids (/etc/subuid), as containers without rights need them"
                );
                return None;
            };
            becoming = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
                .map(str::to_owned)
                .to_vec();
            let given = Command::new("chown").arg(user).arg(folder.path()).status();
            assert!(given.expect("chown").success());
        }
        let podman = Self {
            folder,
            becoming,
            options: Vec::new(),
        };
        podman.configured()
    }

    /// Chooses a runtime that works here, and a network that containers can have.
    fn configured(mut self) -> Option<Self> {
        let context = self.folder.path().join("nothing");
        fs::create_dir(&context).expect("a folder");
        install_program(Path::new("/bin/true"), &context);
        fs::write(context.join("Containerfile"), "FROM scratch\nCOPY . /\n").expect("written");
        let image = context.display().to_string();
        let build = ["build", "-q", "-t", "nothing", &image];
        let try_it = ["run", "--rm", "--network", "hosts", "nothing", "/bin/true"];
        let mut reason = self.refusal(&["network", "create", "hosts"]);
        if reason.is_none() {
            for runtime in ["crun", "runc"] {
                self.options = vec!["--runtime", runtime];
                reason = self.refusal(&build).or_else(|| self.refusal(&try_it));
                if reason.is_none() {
                    return Some(self);
                }
            }
        }
        let reason = reason.unwrap_or_default();
        println!("skipped: containers without rights cannot be run here: {reason}");
        None
    }

    /// The message of podman if it refuses this command.
    fn refusal(&self, words: &[&str]) -> Option<String> {
        let ended = self.run(words);
        let said = || format!("podman {}: {}", words[0], ended.err.trim());
        (ended.code() != Some(0)).then(said)
    }

    /// A command, run as that user.
    fn command(&self, program: &Path) -> Command {
        let home = self.folder.path();
        let mut words: Vec<&std::ffi::OsStr> = self.becoming.iter().map(AsRef::as_ref).collect();
        words.push(program.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(home);
        command.env("HOME", home).env("XDG_RUNTIME_DIR", home);
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = self.command(Path::new("podman"));
        run(command.args(&self.options).args(words), LIMIT)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // The folder contains files of other users.
        let _ = self.run(&["system", "reset", "--force"]);
    }
}

/// Copies a program and the libraries that it needs into the future root folder of an image.
fn install_program(program: &Path, image: &Path) {
    install_file(program, image);
    install_libraries_of(program, image);
}

fn install_libraries_of(program: &Path, image: &Path) {
    let listed = Command::new("ldd").arg(program).output().expect("ldd");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let words = listed.split_whitespace();
    let libraries = words.filter(|word| word.starts_with('/'));
    libraries.for_each(|library| install_file(Path::new(library), image));
}

/// Copies a file to the same path.
fn install_file(file: &Path, image: &Path) {
    let to = image.join(file.strip_prefix("/").expect("absolute"));
    fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
    let _ = fs::remove_file(&to);
    fs::copy(file, &to).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// Copies everything in a folder, with links as links.
fn copy_tree(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    let copied = copy.args(["-a"]).arg(from).arg(to).status();
    assert!(copied.expect("cp").success());
}

/// The folder from which the recipe is built, together with a system of a few files: the recipe's own steps
/// except for those that need a network.
fn context(podman: &Podman) -> PathBuf {
    let context = podman.folder.path().join("context");
    copy_tree(installation(), &context);
    // Without debugging symbols: unprivileged storage copies everything for each container.
    let binaries = ["bin/weft", "lib/libmpi_abi.so.1", "lib/libmpi.so.12"];
    let strip = Command::new("strip")
        .args(binaries)
        .current_dir(&context)
        .status();
    assert!(strip.expect("strip").success());
    let recipe = root().join("packaging/container/Containerfile");
    let recipe = fs::read_to_string(recipe).expect("a recipe");
    let (_, steps) = recipe
        .split_once("\nCOPY ")
        .expect("copies the installation");
    let steps = format!("FROM scratch\nCOPY system /\nCOPY {steps}");
    fs::write(context.join("Containerfile"), steps).expect("written");
    let system = context.join("system");
    for program in ["/bin/sh", "/bin/sleep"] {
        install_program(&Path::new(program).canonicalize().expect(program), &system);
    }
    let bin = system.join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    // The file of the shell, under the name `sh`.
    let shell = Path::new("/bin/sh").canonicalize().expect("a shell");
    if !bin.join("sh").exists() {
        std::os::unix::fs::symlink(shell, bin.join("sh")).expect("a link");
    }
    install_libraries_of(&installation().join("bin/weft"), &system);
    let job = build("tests/programs/job_ends.c", &["-pthread"]);
    fs::copy(job, system.join("bin/job_ends")).expect("copies");
    for folder in ["tmp", "proc", "sys", "dev", "etc"] {
        fs::create_dir_all(system.join(folder)).expect("a folder");
    }
    let given = Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(&context)
        .status();
    assert!(given.expect("chmod").success());
    context
}

#[test]
fn two_containers_without_rights_are_two_hosts() {
    let Some(podman) = Podman::find() else {
        return;
    };
    // The folder contains the launcher, at another path than in the containers; only the containers contain
    // the program.
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(podman.folder.path(), permissions).expect("ours");
    let context = context(&podman);
    let image = context.display().to_string();
    podman
        .run(&["build", "-q", "--layers=false", "-t", "weft", &image])
        .expect_success();
    // Ranks in one container need nothing, and no network.
    let alone = [
        "run",
        "--rm",
        "--network",
        "none",
        "weft",
        "mpiexec",
        "-n",
        "4",
        "/bin/job_ends",
    ];
    let ended = podman.run(&alone);
    ended.expect_success();
    assert!(ended.out.contains("job_ends: ok with 4 ranks"), "{ended:?}");
    for name in ["a", "b"] {
        let words = [
            "run",
            "-d",
            "--network",
            "hosts",
            "--name",
            name,
            "weft",
            "sleep",
            "1000",
        ];
        podman.run(&words).expect_success();
    }
    let reach = format!("podman {} exec -i", podman.options.join(" "));
    for (end, code) in [
        ("well", 0),
        ("code", 5),
        ("abort", 7),
        ("kill", 137),
        ("unasked", 137),
    ] {
        let mut start = podman.command(&context.join("bin/mpiexec"));
        start.args(["-v", "--launch-command", &reach, "--hosts", "a:2,b:2"]);
        start.args(["--remote-prefix", "/opt/weft", "-wdir", "/"]);
        let ended = run(start.args(["/bin/job_ends", end]), LIMIT);
        assert_eq!(ended.code(), Some(code), "{end}: {ended:?}");
        let done = ended.out.contains("job_ends: ok with 4 ranks");
        assert!(done || end != "well", "{ended:?}");
        for (host, ranks) in [("a", "0, 1"), ("b", "2, 3")] {
            let here =
                |line: &str| line.contains(host) && line.ends_with(&format!("for ranks {ranks}"));
            assert!(ended.err.lines().any(here), "{end}: {ended:?}");
        }
    }
}
