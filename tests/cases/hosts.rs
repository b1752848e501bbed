//! C programs of `tests/programs` as ranks of launchers other than ours, and on several hosts.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use network::Network;
use weft_sys::process;
use weft_tests::{
    PROGRAMS, build, check_sessions_beside, installation, passes, processes_of, root, run, scratch,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Programs whose further processes only our own launcher can start.
const OURS: [(&str, &str); 2] = [("ports", ""), ("spawn", "")];

/// How a rank ends its sessions beside others that call `MPI_Init`: see `sessions_beside.c`.
const ENDS_OF_SESSIONS: [&str; 8] = [
    "early", "late", "stays", "returns", "meets", "awaits", "met", "alone",
];

/// Hydra's launcher, if it is installed.
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

/// Whichever rank needs a launcher of ours first starts it, and it does not outlive the job.
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

/// According to which processes the standard calls connected (MPI 5.0, section 11.10.4). The launcher of the
/// ranks reports how they end.
#[test]
fn a_death_ends_connected_processes_only_under_hydra() {
    let Some(hydra) = hydra() else {
        return;
    };
    let program = copy_of("spawn_deaths", "hydra-deaths");
    for (what, well, said) in [
        // Hydra may end without reading the last message.
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

/// What is impossible is refused, with a message that says what to do instead.
#[test]
fn spawning_under_hydra_over_tcp_is_refused() {
    let Some(hydra) = hydra() else {
        return;
    };
    let program = build("tests/programs/spawn.c", &["-pthread"]);
    let mut command = Command::new(&hydra);
    command.env("WEFT_FABRIC", "tcp").args(["-n", "2"]);
    // Hydra may end before it has passed on the message of an aborting rank, so the ranks write it to a file
    // themselves.
    let heard = scratch("hydra-over-tcp").join("said");
    command.args(["sh", "-c", "exec \"$0\" 2>> \"$1\""]);
    let ended = run(command.arg(&program).arg(&heard), LIMIT);
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    let heard = std::fs::read_to_string(&heard).expect("the ranks have written");
    for said in ["MPI_ERR_SPAWN", "WEFT_FABRIC=tcp"] {
        assert!(heard.contains(said), "{heard} {ended:?}");
    }
}

/// The processes that run on a host of a network.
fn processes_on(host: &str) -> Vec<u32> {
    let all = Command::new("ip").args(["netns", "pids", host]).output();
    let all = String::from_utf8(all.expect("ip").stdout).expect("numbers");
    let numbers = all.lines().map(|line| line.trim().parse());
    numbers.collect::<Result<_, _>>().expect("numbers")
}

/// Waits until nothing runs on any host of a network, and fails with a list of the processes if that takes
/// long.
fn nothing_is_left_on(network: &Network, of: &str) {
    let begun = Instant::now();
    loop {
        let hosts = network.hosts.iter();
        let left: Vec<u32> = hosts.flat_map(|host| processes_on(host)).collect();
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{of}: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Each host gets a launcher of ours when a rank first needs one, and none outlives the job.
#[test]
fn processes_that_start_others_under_hydra_on_several_hosts() {
    let Some(hydra) = hydra() else {
        return;
    };
    for (count, each) in [(2, 1), (2, 2), (3, 2)] {
        let Some(network) = Network::new(count) else {
            return;
        };
        for (name, argument) in [
            ("spawn", ""),
            ("spawn", "20"),
            ("ports", ""),
            ("spawn_beginnings", ""),
        ] {
            // Its ranks 0 and 1 also connect by loopback.
            if name == "ports" && each == 1 {
                continue;
            }
            let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
            let mut start = network.hydra(&hydra, each);
            start.arg(&program);
            let argument = (!argument.is_empty()).then_some(argument);
            let ended = run(start.args(argument), LIMIT);
            ended.expect_success();
            let ok = format!("{name}: ok with {} rank", count * each);
            assert!(ended.out.contains(&ok), "{ended:?}");
            nothing_is_left_on(&network, name);
        }
    }
}

/// Ranks that compute or sleep outside of MPI do not delay the others; nor does it matter if all of them ask
/// at the same moment.
#[test]
fn processes_are_started_past_ranks_outside_of_mpi_under_hydra() {
    let Some(hydra) = hydra() else {
        return;
    };
    let Some(network) = Network::new(3) else {
        return;
    };
    let program = build("tests/programs/spawn_away.c", &["-pthread"]);
    for each in [1, 2] {
        let done = network.file(&format!("done{each}"));
        let mut start = network.hydra(&hydra, each);
        let ended = run(start.arg(&program).arg(&done), LIMIT);
        ended.expect_success();
        assert!(ended.out.contains("spawn_away: ok with"), "{ended:?}");
        nothing_is_left_on(&network, "spawn_away");
    }
}

/// The names of hosts are the names of their systems.
#[test]
fn on_hosts_that_are_named_under_hydra() {
    let Some(hydra) = hydra() else {
        return;
    };
    let Some(network) = Network::new(3) else {
        return;
    };
    let program = build("tests/programs/spawn_hosts.c", &["-pthread"]);
    let mut start = network.hydra_on_named(&hydra, 1);
    let ended = run(start.arg(&program).args(&network.hosts), LIMIT);
    ended.expect_success();
    assert!(ended.out.contains(": ok with 3 ranks"), "{ended:?}");
    nothing_is_left_on(&network, "spawn_hosts");
}

/// As on one host; no process is left on any host.
#[test]
fn a_death_ends_connected_processes_only_under_hydra_on_two_hosts() {
    let Some(hydra) = hydra() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    for each in [1, 2] {
        for (what, well, said) in [
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
            let mut command = network.hydra(&hydra, each);
            let ended = run(command.arg(&program).arg(what), LIMIT);
            assert_eq!(ended.code() == Some(0), well, "{what}: {ended:?}");
            assert!(ended.err.contains(said), "{what}: {ended:?}");
            nothing_is_left_on(&network, what);
        }
    }
}

/// This holds for every launcher, ours or theirs, on every host.
#[test]
fn nothing_is_left_when_a_launcher_is_killed_under_hydra() {
    let Some(hydra) = hydra() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    let launchers = |host: usize| -> Vec<u32> {
        let all = std::fs::read_dir("/proc").expect("mounted").flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |process: &u32| {
            let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("adopt\0--detached") && network.host_of(*process) == Some(host)
        };
        numbers.filter(is_ours).collect()
    };
    // On the first host there are the head and an agent, on the other one an agent; each consists of two
    // processes.
    let victims: [(usize, usize); 6] = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)];
    for victim in victims.map(Some).into_iter().chain([None]) {
        let mut command = network.hydra(&hydra, 1);
        command.arg(&program).arg("waiting");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut running = command.stderr(Stdio::null()).spawn().expect("starts");
        let mut out = BufReader::new(running.stdout.take().expect("piped"));
        for _ in 0..2 {
            let mut line = String::new();
            out.read_line(&mut line).expect("readable");
            assert_eq!(line, "waiting\n", "{victim:?}");
        }
        let found = [0, 1].map(launchers);
        assert_eq!(found.each_ref().map(Vec::len), [4, 2], "{found:?}");
        let process = match victim {
            Some((host, index)) => found[host][index],
            None => running.id(),
        };
        let kill = Command::new("kill")
            .args(["-9", &process.to_string()])
            .status();
        assert!(kill.expect("kill").success());
        let status = running.wait().expect("ours");
        assert!(!status.success(), "{victim:?}: {status}");
        nothing_is_left_on(&network, &format!("{victim:?}"));
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
fn files_of_output_are_named_by_hosts() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let launcher = installation().join("bin/mpiexec");
    let mut start = network.on(0, &launcher.to_string_lossy());
    start.args(network.everywhere(2)).arg("-outfile-pattern");
    start.arg(network.file("%h-%p-%r")).args(["echo", "here"]);
    run(&mut start, LIMIT).expect_success();
    for rank in 0..4 {
        let host = rank / 2;
        let name = format!("{}-{host}-{rank}", network.hosts[host]);
        let said = std::fs::read_to_string(network.file(&name)).expect(&name);
        assert_eq!(said, "here\n");
    }
}

/// Messages between ranks that share memory have less room than those of a rank that is alone on its host.
#[test]
fn on_hosts_with_different_numbers_of_ranks() {
    let launcher = installation().join("bin/mpiexec");
    for numbers in [&[1, 4][..], &[3, 2, 1]] {
        let Some(network) = Network::new(numbers.len()) else {
            return;
        };
        let ranks = numbers.iter().sum();
        for (name, argument) in PROGRAMS {
            let mut start = network.on(0, &launcher.to_string_lossy());
            start.args(network.so_many(numbers));
            passes(name, argument, ranks, &mut start);
        }
    }
}

/// The rank is on the host of the launcher or on another one, alone or beside others; it ends before the others reach `MPI_Finalize`,
/// or while they are in it, or continues without MPI until they have ended.
#[test]
fn nobody_waits_at_the_end_for_a_rank_of_any_host_that_uses_sessions_only() {
    let launcher = installation().join("bin/mpiexec");
    for (count, each) in [(2, 1), (2, 2), (3, 1)] {
        let Some(network) = Network::new(count) else {
            return;
        };
        check_ends_of_sessions(&network, count * each, || {
            let mut start = network.on(0, &launcher.to_string_lossy());
            start.arg("--timeout=40").args(network.everywhere(each));
            start
        });
    }
}

/// The first and the last rank end their sessions beside the others, in each way.
fn check_ends_of_sessions(network: &Network, ranks: usize, launcher: impl Fn() -> Command) {
    let program = build("tests/programs/sessions_beside.c", &[]);
    for who in [0, ranks - 1] {
        for what in ENDS_OF_SESSIONS {
            let file = network.file(&format!("{what}{who}"));
            let mut start = launcher();
            start.env("WHO", who.to_string());
            let ended = run(start.arg(&program).arg(what).arg(&file), LIMIT);
            check_sessions_beside(&ended, ranks as u32, &format!("{what}, rank {who}"));
        }
    }
}

/// The same with ranks that Hydra has started, which informs nobody: the rank informs those of other hosts
/// itself.
#[test]
fn nobody_waits_at_the_end_under_hydra_for_a_rank_that_uses_sessions_only() {
    let (Some(hydra), Some(network)) = (hydra(), Network::new(2)) else {
        return;
    };
    check_ends_of_sessions(&network, 4, || network.hydra(&hydra, 2));
}

/// Processes that a program starts, on hosts that it names.
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

/// The slots of processes that have ended are reused, on each host.
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

/// As on one host (MPI 5.0, section 11.10.4); no process is left on any host.
#[test]
fn a_death_ends_connected_processes_only_on_two_hosts() {
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
            let left = processes_on(host);
            assert!(left.is_empty(), "{what}: {left:?}");
        }
    }
}

/// Ranks of the other host lose a rank before their launcher learns that the job is to end: the user has
/// ended it, and no loss is reported.
#[test]
fn a_host_that_is_lost_after_the_job_was_ended_is_no_error() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/barriers.c", &["-pthread"]);
    let mut start = network.on(0, &launcher.to_string_lossy());
    start.arg("--timeout=30").args(network.everywhere(1));
    let mut head = start
        .arg(&program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let out = head.stdout.take().expect("piped");
    let heard = BufReader::new(out).read_line(&mut line);
    assert_eq!((heard.expect("reads"), &*line), (6, "ready\n"));
    let mut others = processes_on(&network.hosts[1]);
    others.retain(|id| {
        let name = std::fs::read_to_string(format!("/proc/{id}/comm"));
        name.is_ok_and(|name| name.starts_with("weft"))
    });
    assert!(!others.is_empty(), "the launcher of the other host");
    let signal_others = |number| {
        for id in &others {
            let _ = process::signal(*id, number);
        }
    };
    signal_others(process::SIGSTOP);
    process::signal(head.id(), process::SIGTERM).expect("it runs");
    // Long enough for the rank there to lose the other one.
    std::thread::sleep(Duration::from_millis(200));
    signal_others(process::SIGCONT);
    let ended = head.wait_with_output().expect("ends");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !err.contains("MPI error") && err.contains("signal 15"),
        "{err}"
    );
}

#[test]
fn of_hosts_that_join() {
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
            // They may start a little before the head.
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
