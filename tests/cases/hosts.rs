//! C programs of `tests/programs` as ranks of launchers other than ours, and on several hosts.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use network::Network;
use weft_tests::{build, installation, root, run};

const LIMIT: Duration = Duration::from_secs(60);

/// The programs that say how many ranks they had, with what they are given.
const PROGRAMS: [(&str, &str); 4] = [
    ("ring", "20"),
    ("point_to_point", ""),
    ("communicators", ""),
    ("collectives", ""),
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

/// Hydra's launcher, where `cargo xtask peers` puts it.
fn hydra() -> Option<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let found = target.join("peers/mpich/bin/mpiexec.hydra");
    if !found.exists() {
        println!(
            "skipped: there is no {} (cargo xtask peers)",
            found.display()
        );
        return None;
    }
    Some(found)
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

/// Hydra asks this to start something on a host: the namespace of that name.
const REACH: &str = "#!/bin/sh\nhost=$1; shift\nexec ip netns exec $host sh -c \"$*\"\n";

#[test]
fn under_hydra_on_several_hosts() {
    let Some(hydra) = hydra() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    let reach = network.file("reach");
    std::fs::write(&reach, REACH).expect("writes");
    std::fs::set_permissions(&reach, PermissionsExt::from_mode(0o755)).expect("ours");
    let hosts: Vec<String> = network
        .hosts
        .iter()
        .map(|host| format!("{host}:4"))
        .collect();
    for (name, argument) in PROGRAMS {
        let mut start = network.on(0, &hydra.to_string_lossy());
        start
            .args([
                "-launcher",
                "rsh",
                "-localhost",
                &network.address(0),
                "-launcher-exec",
            ])
            .arg(&reach)
            .args(["-hosts", &hosts.join(","), "-n", "8"]);
        passes(name, argument, 8, &mut start);
    }
}

#[test]
fn on_two_and_on_four_hosts() {
    let launcher = installation().join("bin/mpiexec");
    for count in [2, 4] {
        let Some(network) = Network::new(count) else {
            return;
        };
        let each = 8 / count;
        let hosts: Vec<String> = network
            .hosts
            .iter()
            .map(|host| format!("{host}:{each}"))
            .collect();
        for (name, argument) in PROGRAMS {
            let mut start = network.on(0, &launcher.to_string_lossy());
            start.args([
                "--launch-command",
                "ip netns exec",
                "--hosts",
                &hosts.join(","),
            ]);
            passes(name, argument, 8, &mut start);
        }
    }
}
