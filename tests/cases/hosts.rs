//! C programs of `tests/programs` as ranks of launchers other than ours, and on several hosts.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use network::Network;
use weft_tests::{PROGRAMS, build, installation, passes, processes_of, root, run, scratch};

const LIMIT: Duration = Duration::from_secs(60);

/// Programs of which our own launcher can start all that they need, and no other.
const OURS: [(&str, &str); 2] = [("ports", ""), ("spawn", "")];

/// Hydra's launcher, if it is there.
fn hydra() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    network::hydra(&target.map_or_else(|| root().join("target"), PathBuf::from))
}

#[test]
fn under_hydra() {
    let Some(hydra) = hydra() else {
        return;
    };
    for (name, argument) in PROGRAMS {
        passes(name, argument, 4, Command::new(&hydra).args(["-n", "4"]));
    }
}

/// A program that no other test runs.
fn copy_of(name: &str, of: &str) -> PathBuf {
    let built = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
    let copy = scratch(of).join(name);
    std::fs::copy(built, &copy).expect("copies");
    copy
}

/// A launcher of ours is started when it is needed, by whichever rank, and nothing is left of it.
#[test]
fn processes_that_start_others_under_hydra() {
    let Some(hydra) = hydra() else {
        return;
    };
    for (name, argument) in [
        ("spawn", ""),
        ("spawn", "20"),
        ("ports", ""),
        ("spawn_beginnings", ""),
    ] {
        let program = copy_of(name, "hydra-others");
        for ranks in [1, 2, 4] {
            let start = &mut Command::new(&hydra);
            start.args(["-n", &ranks.to_string()]).arg(&program);
            let ended = run(
                start.args((!argument.is_empty()).then_some(argument)),
                LIMIT,
            );
            ended.expect_success();
            let ok = format!("{name}: ok with {ranks} rank");
            assert!(ended.out.contains(&ok), "{ended:?}");
            assert_eq!(processes_of(&program), [0; 0], "{ended:?}");
        }
    }
}

/// As the standard says who is connected (MPI 5.0, section 11.10.4). How the ranks end, their own launcher says.
#[test]
fn who_dies_with_whom_under_hydra() {
    let Some(hydra) = hydra() else {
        return;
    };
    let program = copy_of("spawn_deaths", "hydra-deaths");
    for (what, well, said) in [
        // What is said last Hydra may end without reading.
        ("connected", false, ""),
        ("independent", true, "the job goes on without its world"),
        (
            "aborting",
            true,
            "called MPI_Abort with code 7; the job goes on",
        ),
        ("killed", false, ""),
        ("without", false, ""),
    ] {
        let mut command = Command::new(&hydra);
        command.args(["-n", "2"]).arg(&program).arg(what);
        let ended = run(&mut command, LIMIT);
        assert_eq!(ended.code() == Some(0), well, "{what}: {ended:?}");
        assert!(ended.err.contains(said), "{what}: {ended:?}");
        assert_eq!(processes_of(&program), [0; 0], "{what}: {ended:?}");
    }
}

/// What cannot be is refused, with what to do instead.
#[test]
fn spawning_under_hydra_over_tcp_is_refused() {
    let Some(hydra) = hydra() else {
        return;
    };
    let program = build("tests/programs/spawn.c", &["-pthread"]);
    let mut command = Command::new(&hydra);
    command.env("WEFT_FABRIC", "tcp").args(["-n", "2"]);
    // Hydra may end before it has passed on what an aborting rank says, so the ranks write it themselves.
    let heard = scratch("hydra-over-tcp").join("said");
    command.args(["sh", "-c", "exec \"$0\" 2>> \"$1\""]);
    let ended = run(command.arg(&program).arg(&heard), LIMIT);
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    let heard = std::fs::read_to_string(&heard).expect("the ranks have written");
    for said in ["MPI_ERR_SPAWN", "WEFT_FABRIC=tcp"] {
        assert!(heard.contains(said), "{heard} {ended:?}");
    }
}

#[test]
fn under_hydra_on_several_hosts() {
    let Some(hydra) = hydra() else {
        return;
    };
    for count in [2, 4] {
        let Some(network) = Network::new(count) else {
            return;
        };
        for (name, argument) in PROGRAMS {
            passes(name, argument, 8, &mut network.hydra(&hydra, 8 / count));
        }
    }
}

#[test]
fn on_two_and_on_four_hosts() {
    let launcher = installation().join("bin/mpiexec");
    for count in [2, 4] {
        let Some(network) = Network::new(count) else {
            return;
        };
        for (name, argument) in PROGRAMS.into_iter().chain(OURS) {
            let mut start = network.on(0, &launcher.to_string_lossy());
            start.args(network.everywhere(8 / count));
            passes(name, argument, 8, &mut start);
        }
    }
}

/// Processes that are started from within a program, on hosts that it names.
#[test]
fn on_hosts_that_are_named() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = Network::new(3) else {
        return;
    };
    let program = build("tests/programs/spawn_hosts.c", &["-pthread"]);
    for room in [None, Some("--universe=7")] {
        let mut start = network.on(0, &launcher.to_string_lossy());
        start.args(room).args(network.everywhere(1));
        let ended = run(start.arg(&program).args(&network.hosts), LIMIT);
        ended.expect_success();
        assert!(ended.out.contains(": ok with 3 ranks"), "{ended:?}");
    }
}

/// Places of processes that have ended are used again, on each host.
#[test]
fn one_after_the_other_on_two_hosts() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/spawn.c", &["-pthread"]);
    let mut start = network.on(0, &launcher.to_string_lossy());
    start.arg("--universe=5").args(network.everywhere(1));
    let ended = run(start.arg(&program).arg("60"), LIMIT);
    ended.expect_success();
    assert!(ended.out.contains("spawn: ok with 2 ranks"), "{ended:?}");
}

/// As on one host (MPI 5.0, section 11.10.4); nothing is left on any.
#[test]
fn who_dies_with_whom_on_two_hosts() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    for (what, code, said) in [
        ("connected", 128 + 9, "rank 1 of spawned world 1"),
        ("independent", 128 + 9, "the job goes on without its world"),
        (
            "aborting",
            7,
            "called MPI_Abort with code 7; the job goes on",
        ),
        ("without", 1, "without MPI_Init"),
    ] {
        let mut start = network.on(0, &launcher.to_string_lossy());
        start.arg("--timeout=30").args(network.everywhere(1));
        let ended = run(start.arg(&program).arg(what), LIMIT);
        assert_eq!(ended.code(), Some(code), "{what}: {ended:?}");
        assert!(ended.err.contains(said), "{what}: {ended:?}");
        let goes_on = ended.out.contains("spawn_deaths: ok with 2 ranks");
        assert_eq!(goes_on, said.contains("goes on"), "{what}: {ended:?}");
        for host in &network.hosts {
            let left = Command::new("ip").args(["netns", "pids", host]).output();
            let left = left.expect("ip").stdout;
            assert!(
                left.is_empty(),
                "{what}: {}",
                String::from_utf8_lossy(&left)
            );
        }
    }
}

#[test]
fn of_those_who_join() {
    let weft = installation().join("bin/weft").display().to_string();
    for count in [2, 4] {
        let Some(network) = Network::new(count) else {
            return;
        };
        let address = format!("{}:7000", network.address(0));
        let file = network.file("token");
        std::fs::write(&file, "0123456789abcdef".repeat(4)).expect("writes");
        let file = file.display().to_string();
        for (name, argument) in PROGRAMS.into_iter().chain(OURS) {
            let each = (8 / count).to_string();
            let join = |host| {
                network
                    .on(host, &weft)
                    .args(["join", "--token-file", &file, "-n", &each, &address])
                    .stdin(Stdio::null())
                    .spawn()
                    .expect("starts")
            };
            let _ = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
            // They may come a little before the head.
            let joined: Vec<Child> = (0..count).map(join).collect();
            let mut head = network.on(0, &weft);
            head.args([
                "run",
                "-n",
                "8",
                "--token-file",
                &file,
                "--listen",
                &address,
            ]);
            passes(name, argument, 8, &mut head);
            for mut child in joined {
                assert!(child.wait().expect("ours").success());
            }
        }
    }
}
