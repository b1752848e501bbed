//! Jobs whose hosts join: agents that connect to the one port of the head, and prove that they know its
//! token.

use std::process::{Child, Stdio};

use crate::harness::{Running, child_of, rank, signal};
use crate::network::Network;
use crate::network_job::{ended, expected, job, join, token};

#[test]
fn any_host_that_knows_the_token_joins_through_one_port() {
    let Some(network) = Network::new(4) else {
        return;
    };
    // All other ports are closed.
    for host in 0..4 {
        let rules = [
            "-A INPUT -p tcp --dport 7000 -j ACCEPT",
            "-A INPUT -p tcp --syn -j DROP",
        ];
        for rule in rules {
            let mut command = network.on(host, "iptables");
            let set = command.args(rule.split(' ')).stderr(Stdio::null()).status();
            if !set.is_ok_and(|status| status.success()) {
                println!("there is no iptables here: with all ports open");
            }
        }
    }
    let address = format!("{}:7000", network.address(0));
    let rank = rank();
    let mut running = job(
        &network,
        &["-n", "8", "--listen", &address, &rank, "exchange"],
    )
    .start();
    let token = token(&mut running);
    // A client without the token, and one that only connects.
    let wrong = "0".repeat(64);
    let (code, _, error) = ended(join(&network, 1, &["--token", &wrong, &address]));
    assert_eq!(code, Some(1));
    assert!(error.contains("is it the token of this job?"), "{error}");
    // Hosts with a program of their own, and with that of the job.
    let file = network.file("token");
    std::fs::write(&file, format!("{token}\n")).expect("writes");
    let file = file.display().to_string();
    let joined: Vec<Child> = (0..4)
        .map(|host| match host {
            0 => join(
                &network,
                host,
                &["--token", &token, "-n", "2", &address, &rank, "exchange"],
            ),
            _ => join(
                &network,
                host,
                &["--token-file", &file, "-n", "2", &address],
            ),
        })
        .collect();
    let head = running.end();
    assert_eq!(head.code(), Some(0), "{head:?}");
    let mut lines: Vec<_> = head.sorted();
    lines.retain(|line| line.contains("heard all"));
    assert_eq!(lines, expected(4), "{head:?}");
    assert!(
        head.error.contains("connections were turned away"),
        "{head:?}"
    );
    for child in joined {
        assert_eq!(ended(child), (Some(0), String::new(), String::new()));
    }
}

#[test]
fn joined_hosts_end_with_the_code_of_the_job() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let address = format!("{}:7000", network.address(0));
    let rank = rank();
    let mut running = job(&network, &["-n", "2", "--listen", &address]).start();
    let token = token(&mut running);
    let without = ended(join(&network, 1, &["--token", &token, &address]));
    assert_eq!(without.0, Some(1), "neither names a program: {without:?}");
    let joined = [0, 1].map(|host| {
        join(
            &network,
            host,
            &["--token", &token, &address, &rank, "abort", "1", "9"],
        )
    });
    let head = running.end();
    assert_eq!(head.code(), Some(9), "{head:?}");
    assert!(
        head.error.contains("is sent away: it names no program"),
        "{head:?}"
    );
    for child in joined {
        assert_eq!(ended(child).0, Some(9));
    }
    let nobody = ended(join(&network, 1, &["--token", &token, &address, "true"]));
    assert_eq!(nobody.0, Some(1));
    assert!(nobody.2.contains("no job answers"), "{nobody:?}");
}

/// The last message of a host is that its ranks have ended, not that none of them sleeps any more.
#[test]
fn a_host_whose_ranks_end_first_waits_for_the_others() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let address = format!("{}:7000", network.address(0));
    let rank = rank();
    let words = ["-n", "2", "--universe", "2", "--listen", &address];
    let mut running = job(&network, &[&words[..], &[&rank, "doze"]].concat()).start();
    let token = token(&mut running);
    let joined = [0, 1].map(|host| join(&network, host, &["--token", &token, &address]));
    let head = running.end();
    assert_eq!(head.code(), Some(0), "{head:?}");
    for child in joined {
        assert_eq!(ended(child), (Some(0), String::new(), String::new()));
    }
}

#[test]
fn a_host_that_is_cut_off_is_lost_and_one_that_comes_back_is_not() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let address = format!("{}:7000", network.address(0));
    let rank = rank();
    for (heartbeat, back) in [("1", false), ("20", true)] {
        let words = [
            "-n",
            "2",
            "--heartbeat",
            heartbeat,
            "--listen",
            &address,
            &rank,
        ];
        let doing = if back { "ask" } else { "wait" };
        let mut job = job(&network, &[&words[..], &[doing]].concat());
        job.command.stdin(Stdio::piped());
        let mut running = job.start();
        let token = token(&mut running);
        let joined = [0, 1].map(|host| join(&network, host, &["--token", &token, &address]));
        let said = if back { "name? " } else { "waiting\n" };
        running.hear(said);
        network.set_line(1, false);
        if back {
            network.set_line(1, true);
            drop(running.child.stdin.take());
        }
        let head = running.end();
        let codes = joined.map(|child| ended(child).0);
        network.set_line(1, true);
        if back {
            assert_eq!((head.code(), codes), (Some(0), [Some(0); 2]), "{head:?}");
        } else {
            assert_eq!(head.code(), Some(1), "{head:?}");
            assert!(
                head.last().contains("nothing was heard for 1 s"),
                "{head:?}"
            );
            assert_eq!(codes[1], Some(1));
        }
    }
}

#[test]
fn a_host_that_hears_the_beginning_and_the_end_at_once_does_both() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let address = format!("{}:7000", network.address(0));
    let rank = rank();
    // During this test, no message is sent only to show that a host is alive.
    let words = ["-v", "-n", "2", "--heartbeat", "100", "--listen", &address];
    let mut running = job(
        &network,
        &[&words[..], &[&rank, "leave", "1", "3"]].concat(),
    )
    .start();
    let token = token(&mut running);
    let joins = |host| join(&network, host, &["--token", &token, &address]);
    let until = |running: &mut Running, text: &str| while !running.said().contains(text) {};
    let first = joins(0);
    until(&mut running, "is here, for ranks 0");
    let agent = child_of(first.id());
    signal(agent, libc::SIGSTOP);
    let second = joins(1);
    until(&mut running, "rank 1 exited with code 3");
    signal(agent, libc::SIGCONT);
    let head = running.end();
    assert_eq!(head.code(), Some(3), "{head:?}");
    assert!(!head.error.contains("was told to end"), "{head:?}");
    assert!(head.last().contains("1 other rank was ended"), "{head:?}");
    assert_eq!([first, second].map(|child| ended(child).0), [Some(3); 2]);
}
