//! Two jobs whose hosts are network namespaces.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use weft_tests::run;

use super::network::Network;
use super::{
    LIMIT, a_loss_while_connecting_is_heard_of, beside, both_pass, job, meeting_place, they_share,
};

/// The same command, run on a host.
fn on(network: &Network, host: usize, command: &Command) -> Command {
    let mut there = network.on(host, &command.get_program().to_string_lossy());
    there.args(command.get_args());
    there
}

#[test]
fn two_jobs_on_two_hosts_use_what_they_have_in_common() {
    let Some(network) = Network::new(2) else {
        return;
    };
    for (options, serving, asking) in [(&[][..], 1, 1), (&[], 2, 3), (&["--encrypt"], 3, 2)] {
        let file = meeting_place();
        let serve = job(options, serving, &["serve", &file, "2"]);
        let ask = job(&[], asking, &["ask", &file, "2"]);
        let (serve, ask) = (on(&network, 0, &serve), on(&network, 1, &ask));
        both_pass(serve, ask, (serving, asking));
    }
}

#[test]
fn a_job_on_two_hosts_and_one_on_a_third() {
    let Some(network) = Network::new(3) else {
        return;
    };
    let hosts = format!("{}:2,{}:1", network.hosts[0], network.hosts[1]);
    let options = ["--launch-command", "ip netns exec", "--hosts", &hosts];
    let wide = |words: &[&str]| on(&network, 0, &job(&options, 3, words));
    let narrow = |words: &[&str]| on(&network, 2, &job(&[], 2, words));
    let file = meeting_place();
    let (serve, ask) = (["serve", &file, "1"], ["ask", &file, "1"]);
    both_pass(wide(&serve), narrow(&ask), (3, 2));
    let file = meeting_place();
    let (serve, ask) = (["serve", &file, "1"], ["ask", &file, "1"]);
    both_pass(narrow(&serve), wide(&ask), (2, 3));
}

#[test]
fn the_root_of_who_connects_to_another_host_hears_of_a_loss_in_its_group() {
    let Some(network) = Network::new(2) else {
        return;
    };
    a_loss_while_connecting_is_heard_of(|host, command| on(&network, host, &command));
}

/// A process that has the name without its secret gets no answer, and the accepting one continues.
#[test]
fn a_port_of_another_host_admits_callers_that_prove_its_key() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let file = meeting_place();
    let serve = job(&[], 2, &["serve", &file, "1"]);
    let serve = beside(on(&network, 0, &serve));
    let name = loop {
        match std::fs::read_to_string(&file) {
            Ok(name) => break name,
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    };
    let (place, door) = name.split_once('/').expect("other hosts can come");
    let (key, addresses) = door.split_once('/').expect("where");
    let other = key.replace(|digit: char| digit != '0', "0");
    let wrong = format!("{place}/{other}/{addresses}");
    let wrong = job(&[], 2, &["wrong", &wrong]);
    let ended = run(&mut on(&network, 1, &wrong), LIMIT);
    ended.expect_success();
    assert!(ended.out.contains("nobody is found there"), "{ended:?}");
    assert!(!ended.out.contains(&other), "{ended:?}");
    // The right name still works.
    let ask = job(&[], 1, &["ask", &file, "1"]);
    run(&mut on(&network, 1, &ask), LIMIT).expect_success();
    serve.join().expect("it has run").expect_success();
}

#[test]
fn a_host_that_cannot_be_reached_is_an_error_with_a_reason() {
    let Some(network) = Network::new(3) else {
        return;
    };
    network.set_line(2, false);
    let user = weft_sys::process::user();
    let key = "0123456789abcdef".repeat(4);
    for (address, reason) in [
        (network.address(1), "refused"),
        (network.address(2), "10.91.0.3:4000"),
        ("192.0.2.1".to_owned(), "unreachable"),
    ] {
        let name = format!("weft:0123456789abcdef:0:1:{user}@elsewhere/{key}/4000,{address}");
        let wrong = job(&[], 2, &["wrong", &name]);
        let ended = run(&mut on(&network, 0, &wrong), LIMIT);
        ended.expect_success();
        assert!(ended.out.contains(reason), "{name}: {ended:?}");
        assert!(ended.out.contains("does not let"), "{name}: {ended:?}");
        assert!(!ended.out.contains(&key), "{ended:?}");
    }
}

#[test]
fn a_network_port_is_open_only_while_a_port_is() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let doors = job(&[], 1, &["doors"]);
    let ended = run(&mut on(&network, 0, &doors), LIMIT);
    ended.expect_success();
}

/// A socket in the file system connects across network namespaces, like a network socket.
#[test]
fn processes_of_two_hosts_join_by_a_socket() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let file = meeting_place();
    let serve = on(&network, 0, &job(&[], 1, &["join-serve", &file]));
    let ask = on(&network, 1, &job(&[], 1, &["join-ask", &file]));
    both_pass(serve, ask, (1, 1));
}

/// The processes of the other job end, or its host is cut off.
#[test]
fn a_job_learns_that_one_on_another_host_is_gone() {
    use std::io::Read;
    let Some(network) = Network::new(2) else {
        return;
    };
    for is_cut in [false, true] {
        let file = meeting_place();
        let mourn = beside(on(&network, 0, &job(&[], 2, &["mourn", &file])));
        let mut stay = on(&network, 1, &job(&[], 2, &["stay", &file]))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut heard = [0; 9];
        let said = stay.stdout.as_mut().expect("piped").read_exact(&mut heard);
        said.expect("it connects");
        if is_cut {
            network.set_line(1, false);
        } else {
            stay.kill().expect("our child");
        }
        let ended = mourn.join().expect("it has run");
        let _ = stay.kill();
        stay.wait().expect("our child");
        network.set_line(1, true);
        ended.expect_success();
        let lost = "a process of another job is lost";
        assert!(ended.out.contains(lost), "{ended:?}");
    }
}

#[test]
fn two_jobs_on_two_hosts_share_windows_and_files() {
    let Some(network) = Network::new(2) else {
        return;
    };
    for what in ["windows", "files", "threads"] {
        they_share(what, |side, command| on(&network, side, command));
    }
}
