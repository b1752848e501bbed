//! Jobs on several hosts: network namespaces, reached by ssh and by another command. Jobs with hosts that join
//! are in [`joined`](crate::joined).

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::harness::{Running, child_of, rank, signal, weft};
use crate::network::Network;
use crate::network_job::{ended, expected, job, join, token};

fn words<'a>(first: &'a [String], rest: &[&'a str]) -> Vec<&'a str> {
    first
        .iter()
        .map(String::as_str)
        .chain(rest.iter().copied())
        .collect()
}

#[test]
fn ranks_on_several_hosts_are_one_job() {
    for count in [2, 4] {
        let Some(network) = Network::new(count) else {
            return;
        };
        let start = network.everywhere(8 / count);
        let rank = rank();
        let ended = job(&network, &words(&start, &[&rank, "exchange"])).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.sorted(), expected(count), "{ended:?}");
        // Ranks that do not know our protocol, and use PMI.
        let unaware = "env -u WEFT_RANK -u WEFT_JOB_FD -u WEFT_JOB";
        let unaware: Vec<_> = unaware.split(' ').chain([&*rank, "exchange"]).collect();
        let ended = job(&network, &words(&start, &unaware)).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.sorted(), expected(count), "{ended:?}");
        // Every rank is on its host.
        let ended = job(
            &network,
            &words(&start, &["-l", "readlink", "/proc/self/ns/net"]),
        )
        .run();
        let mut places: Vec<_> = ended
            .out
            .lines()
            .filter_map(|line| line.split_once("] "))
            .map(|(_, place)| place)
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(
            (ended.out.lines().count(), places.len()),
            (8, count),
            "{ended:?}"
        );
    }
}

/// Ranks are dealt one to each host, repeatedly: neighbours are on different hosts, and the job works like
/// any other.
#[test]
fn ranks_may_be_dealt_to_hosts() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let start = network.everywhere(4);
    let dealt = ["--map-by", "node"];
    let rank = rank();
    let exchange = words(&start, &[dealt[0], dealt[1], &rank, "exchange"]);
    let ended = job(&network, &exchange).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let look = [dealt[0], dealt[1], "-l", "readlink", "/proc/self/ns/net"];
    let ended = job(&network, &words(&start, &look)).run();
    let mut lines: Vec<_> = ended.out.lines().collect();
    lines.sort_unstable();
    let place = |rank: usize| lines[rank].split_once("] ").map(|(_, place)| place);
    for rank in 0..6 {
        assert_eq!(place(rank), place(rank + 2), "{lines:?}");
        assert_ne!(place(rank), place(rank + 1), "{lines:?}");
    }
}

#[test]
fn over_a_secure_shell() {
    let Some(mut network) = Network::new(2) else {
        return;
    };
    let Some(command) = network.servers() else {
        return;
    };
    let rank = rank();
    let hosts = format!("{}:4,{}:4", network.address(0), network.address(1));
    let start = ["--launch-command", &command, "--hosts", &hosts];
    let ended = job(&network, &[&start[..], &[&rank, "exchange"]].concat()).run_elsewhere();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.sorted(), expected(2));
    // In the current folder.
    let folder = std::fs::canonicalize(network.file(".")).expect("it is there");
    let mut where_am_i = job(&network, &[&start[..], &["-l", "pwd"]].concat());
    where_am_i.command.current_dir(&folder);
    let ended = where_am_i.run_elsewhere();
    let expected: Vec<_> = (0..8)
        .map(|rank| format!("[{rank}] {}", folder.display()))
        .collect();
    assert_eq!(ended.sorted(), expected, "{ended:?}");
    let ended = job(
        &network,
        &[&start[..], &["-wdir", "/proc/self", "pwd"]].concat(),
    )
    .run_elsewhere();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    // The keys are visible nowhere.
    let mut running = job(&network, &[&start[..], &[&rank, "wait"]].concat()).start();
    let mut heard = 0;
    while heard < 8 {
        heard += running.hear("waiting\n").matches("waiting\n").count();
    }
    let agents = with_words(&format!("{} agent", weft().display()));
    let members = running.members();
    let all: Vec<u32> = members
        .iter()
        .map(|member| member.id)
        .chain(agents)
        .collect();
    assert!(all.len() > 12, "{all:?}");
    for id in all {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
            let mut words = bytes.split(|byte| !byte.is_ascii_hexdigit());
            assert!(!words.any(|word| word.len() >= 64), "{file} of {id}");
        }
    }
    drop(running);
    let nowhere = format!("{},10.91.0.99", network.address(0));
    let command = format!("{command} -o ConnectTimeout=1");
    let ended = job(
        &network,
        &[
            "--launch-command",
            &command,
            "--hosts",
            &nowhere,
            &rank,
            "wait",
        ],
    )
    .run_elsewhere();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended
            .last()
            .starts_with("weft: host 10.91.0.99 cannot be reached: ssh: connect to host"),
        "{ended:?}"
    );
}

#[test]
fn ends_of_every_kind_are_those_of_a_job_on_one_host() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let start = network.everywhere(2);
    let rank = rank();
    for (program, code, last) in [
        (
            &[&*rank, "leave", "3", "7"][..],
            7,
            "weft: rank 3 on HOST failed first: exited with code 7 before MPI_Finalize; 3 other ranks were ended",
        ),
        (
            &[&rank, "abort", "2", "5", "no luck"],
            5,
            "weft: rank 2 on HOST failed first: called MPI_Abort with code 5: no luck; 3 other ranks were ended",
        ),
        (
            &[&rank, "abort-by-fabric", "3", "6"],
            6,
            "weft: rank 3 on HOST failed first: called MPI_Abort with code 6; 3 other ranks were ended",
        ),
        (
            &[&rank, "kill", "2", "11"],
            139,
            "weft: rank 2 on HOST failed first: killed by signal 11 (SIGSEGV) before MPI_Finalize; 3 other ranks were ended",
        ),
    ] {
        let ended = job(&network, &words(&start, program)).run();
        // All of these ranks are on the second host.
        let last = last.replace("HOST", &network.hosts[1]);
        assert_eq!(
            (ended.code(), ended.last()),
            (Some(code), &*last),
            "{ended:?}"
        );
    }
    let ended = job(&network, &words(&start, &["/no/such/program"])).run();
    assert_eq!(ended.code(), Some(127), "{ended:?}");
    let late = words(&start, &[&rank, "wait"]);
    let ended = job(&network, &[&["--timeout", "0.5"][..], &late].concat()).run();
    assert_eq!(ended.code(), Some(124), "{ended:?}");
}

#[test]
fn input_and_output_pass_between_hosts() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let start = network.everywhere(2);
    let rank = rank();
    let input = network.file("input");
    let text: String = (0..50_000).map(|line| format!("line {line}\n")).collect();
    std::fs::write(&input, &text).expect("writes");
    let ended = job(&network, &words(&start, &["cat"])).input(&input).run();
    assert_eq!(ended.code(), Some(0));
    assert!(
        ended.out == text,
        "{} of {} bytes",
        ended.out.len(),
        text.len()
    );
    // Input that is not read delays nothing.
    let huge = network.file("huge");
    std::fs::write(&huge, vec![b'x'; 8 << 20]).expect("writes");
    let ended = job(&network, &words(&start, &[&rank, "exchange"]))
        .input(&huge)
        .run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    // Output comes in whole lines, those of each rank in order.
    let ended = job(&network, &words(&start, &[&rank, "burst", "5000"])).run();
    assert_eq!(ended.code(), Some(0), "{}", ended.error);
    let mut next = [0; 4];
    for line in ended.out.lines() {
        let mut parts = line.trim_matches(['<', '>']).split(' ');
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        let (from, count) = (number().expect("a rank"), number().expect("a line"));
        assert_eq!(count, next[from], "{line}");
        next[from] += 1;
    }
    assert_eq!(next, [5000; 4]);
}

#[test]
fn signals_and_readers_that_leave_end_the_job_there_too() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let start = network.everywhere(2);
    let rank = rank();
    let mut running = job(&network, &words(&start, &[&rank, "wait"])).start();
    let mut heard = 0;
    while heard < 4 {
        heard += running.hear("waiting\n").matches("waiting\n").count();
    }
    signal(running.frontend(), libc::SIGINT);
    let ended = running.end();
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    // Each rank writes until its output has no reader.
    let mut running = job(&network, &words(&start, &["yes"])).start();
    running.hear("y\n");
    drop(running.child.stdout.take());
    let ended = running.end();
    assert_eq!(ended.code(), Some(128 + 13), "{ended:?}");
    assert!(ended.last().contains("SIGPIPE"), "{ended:?}");
}

/// Waits until that many ranks have printed that they wait.
fn until_waiting(running: &mut Running, ranks: usize) {
    let mut heard = 0;
    while heard < ranks {
        heard += running.hear("waiting\n").matches("waiting\n").count();
    }
}

#[test]
fn the_first_failure_of_several_hosts_is_named() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let rank = rank();
    let start = network.everywhere(2);
    let (first, second) = (&network.hosts[0], &network.hosts[1]);
    let lost = |host, ranks, why: &str| {
        format!(
            "weft: host {host} failed first: it is lost with ranks {ranks}: {why}; 2 other ranks were ended"
        )
    };
    let closed = "the connection was closed";
    let told = "Weft was ended there by signal 15 (SIGTERM)";
    let ended_all =
        "weft: the supervisor of the job was killed by signal 9 (SIGKILL); all ranks were ended";
    for (host, name, number, code, last) in [
        (
            0,
            "weft-supervisor",
            libc::SIGKILL,
            1,
            lost(first, "0, 1", closed),
        ),
        (
            1,
            "weft-supervisor",
            libc::SIGKILL,
            1,
            lost(second, "2, 3", closed),
        ),
        (
            1,
            "weft-supervisor",
            libc::SIGTERM,
            1,
            lost(second, "2, 3", told),
        ),
        (1, "weft", libc::SIGKILL, 1, lost(second, "2, 3", closed)),
        (0, "head", libc::SIGKILL, 137, ended_all.to_owned()),
    ] {
        let mut running = job(&network, &words(&start, &[&rank, "wait"])).start();
        until_waiting(&mut running, 4);
        let head = child_of(running.frontend());
        let victim = match name {
            "head" => head,
            _ => {
                let members = running.members();
                let mut found = members.iter().filter(|member| {
                    member.name == name
                        && ![head, running.frontend()].contains(&member.id)
                        && network.host_of(member.id) == Some(host)
                });
                found.next().expect("it runs").id
            }
        };
        signal(victim, number);
        let ended = running.end();
        assert_eq!(
            (ended.code(), ended.last()),
            (Some(code), &*last),
            "{ended:?}"
        );
    }
    // Also to agents that have joined.
    let address = format!("{}:7000", network.address(0));
    let mut running = job(&network, &["-n", "2", "--listen", &address, &rank, "wait"]).start();
    let token = token(&mut running);
    let joined = [0, 1].map(|host| join(&network, host, &["--token", &token, &address]));
    until_waiting(&mut running, 2);
    signal(child_of(running.frontend()), libc::SIGKILL);
    let head = running.end();
    assert_eq!(
        (head.code(), head.last()),
        (Some(137), ended_all),
        "{head:?}"
    );
    for child in joined {
        let (code, _, error) = ended(child);
        let said = format!("weft: {address} is lost, and all ranks here were ended: {closed}\n");
        assert_eq!((code, error), (Some(1), said));
    }
    let mut running = job(&network, &["-n", "2", "--listen", &address, &rank, "wait"]).start();
    let token = self::token(&mut running);
    let [first, second] = [0, 1].map(|host| join(&network, host, &["--token", &token, &address]));
    until_waiting(&mut running, 2);
    signal(second.id(), libc::SIGINT);
    let head = running.end();
    assert!(
        head.last()
            .contains("Weft was ended there by signal 2 (SIGINT)"),
        "{head:?}"
    );
    assert!(head.last().ends_with("1 other rank was ended"), "{head:?}");
    let (code, _, error) = ended(second);
    let said = "weft: ended by signal 2 (SIGINT); the ranks here were ended\n";
    assert_eq!((head.code(), code, &*error), (Some(1), Some(130), said));
    assert_eq!(ended(first).0, Some(1));
}

#[test]
fn what_cannot_begin_says_why_and_has_ended_nobody() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let here = format!("{}:1,nowhere:1", network.hosts[0]);
    let rank = rank();
    for (words, first, then) in [
        (
            &["--launch-command", "ip netns exec", "--hosts", &here][..],
            "weft: host nowhere cannot be reached: ",
            "this must work from here, and ask nothing: ip netns exec nowhere /",
        ),
        (
            &["--hosts", "kn,"],
            "weft: host kn cannot be reached: ",
            "ask nothing: ssh ",
        ),
        (
            &["--listen", "192.0.2.1:7000"],
            "weft: --listen 192.0.2.1:7000: ",
            "ADDRESS:PORT was expected",
        ),
        (
            &["--timeout", "0.2", "--listen", "127.0.0.1:0"],
            "weft: not all hosts had come within 0.2 s (--timeout)",
            "no rank was started",
        ),
    ] {
        let ended = job(&network, &[words, &["-n", "2", &rank, "wait"]].concat()).run();
        let last = ended.last();
        assert!(last.starts_with(first) && last.contains(then), "{ended:?}");
        assert!(!last.contains("ended"), "{ended:?}");
    }
}

/// The living processes whose command line contains this.
fn with_words(words: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc")
        .expect("/proc is there")
        .flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let dead = stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'));
        !dead
            && String::from_utf8_lossy(&line)
                .replace('\0', " ")
                .contains(words)
    })
    .collect()
}

#[test]
fn an_agent_without_a_head_says_what_starts_it() {
    let mut child = Command::new(weft())
        .arg("agent")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let errors = child.stderr.take().expect("piped");
    BufReader::new(errors).read_line(&mut line).expect("reads");
    assert!(line.contains("weft join"), "{line}");
    assert!(!child.wait().expect("ours").success());
}
