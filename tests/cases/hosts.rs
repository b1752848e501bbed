//! C programs of `tests/programs` as ranks of launchers other than ours, and on several hosts.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use network::Network;
use weft_tests::{build, installation, root, run};

const LIMIT: Duration = Duration::from_secs(60);

/// Programs of which our own launcher can start all that they need, and no other.
const OURS: [(&str, &str); 1] = [("ports", "hosts")];

/// The programs that say how many ranks they had, with what they are given.
const PROGRAMS: [(&str, &str); 5] = [
    ("ring", "20"),
    ("point_to_point", ""),
    ("communicators", ""),
    ("collectives", ""),
    ("one_sided", ""),
];

fn passes(name: &str, argument: &str, ranks: u32, start: &mut Command) {
    let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
    start
        .arg(program)
        .args((!argument.is_empty()).then_some(argument));
    let ended = run(start, LIMIT);
    ended.expect_success();
    assert!(
        ended.out.contains(&format!(": ok with {ranks} ranks")),
        "{name}: {ended:?}"
    );
}

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
        for (name, argument) in PROGRAMS {
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
