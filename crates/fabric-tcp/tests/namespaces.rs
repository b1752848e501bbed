//! Two hosts: network namespaces joined by a veth, each with a thread of its own. A link that is down for a
//! while loses and doubles nothing; one that stays down is an error; a narrow one is only slow.
//!
//! Needs the right to make namespaces (and `ip`, `tc`); without that right the tests say so and pass.

#![allow(missing_docs)]

mod common;

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weft_fabric::{Fabric, HEAD, Peer};
use weft_fabric_tcp::{Card, Config, Listen, Opening, Tcp};
use weft_secure::Key;

/// Runs `ip` or `tc` in the namespace of this thread.
fn run(line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split(' ').collect();
    let done = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{line}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{line}: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )),
    }
}

fn enter_own_namespace() -> Result<(), String> {
    // SAFETY: only this thread moves, and only its view of the network changes; it opens its sockets
    // after that and shares no descriptor with threads of another namespace.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
        .map_err(|error| format!("no network namespace can be made: {error}"))
}

/// The arguments of a rank: its endpoint, and a function that changes the link of host 0.
type Part = fn(Tcp, u32, &dyn Fn(&str) -> Result<(), String>);

/// Plays `part` on two hosts. False if that is not possible here.
fn on_two_hosts(change: fn(&mut Config), part: Part) -> bool {
    let (to_first, first_hears) = mpsc::channel::<i32>();
    let (to_second, second_hears) = mpsc::channel::<Result<(), String>>();
    let (card_of_first, first_card) = mpsc::channel::<Card>();
    let (card_of_second, second_card) = mpsc::channel::<Card>();
    let host = move |rank: u32| -> Result<Opening, String> {
        run("ip link set lo up")?;
        run(&format!(
            "ip address add 10.77.0.{}/24 dev veth{rank}",
            rank + 1
        ))?;
        run(&format!("ip link set veth{rank} up"))?;
        let mut config = Config::new(rank, 2, Key::from_bytes(common::KEY));
        change(&mut config);
        config.listen = Listen::At(vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, rank as u8 + 1))]);
        Opening::new(config).map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(move || -> Result<(), String> {
            let ready = enter_own_namespace().and_then(|()| {
                let other = first_hears.recv().map_err(|_| "no second host")?;
                run(&format!(
                    "ip link add veth0 type veth peer name veth1 netns {other}"
                ))
            });
            let opened = ready.clone().and_then(|()| host(0));
            let _ = to_second.send(ready.and(opened.as_ref().map(|_| ()).map_err(Clone::clone)));
            let opening = opened?;
            let _ = card_of_first.send(opening.card().clone());
            let cards = vec![
                opening.card().clone(),
                second_card.recv().map_err(|_| "gone")?,
            ];
            let tcp = opening.join(cards).map_err(|error| error.to_string())?;
            part(tcp, 0, &run);
            Ok(())
        });
        let second = scope.spawn(move || -> Result<(), String> {
            enter_own_namespace()?;
            // SAFETY-free: the number of this thread, by which its namespace is found.
            let _ = to_first.send(rustix::thread::gettid().as_raw_nonzero().get());
            second_hears.recv().map_err(|_| "gone")??;
            let opening = host(1)?;
            let cards = vec![
                first_card.recv().map_err(|_| "gone")?,
                opening.card().clone(),
            ];
            let _ = card_of_second.send(opening.card().clone());
            let tcp = opening.join(cards).map_err(|error| error.to_string())?;
            part(tcp, 1, &run);
            Ok(())
        });
        let ends = [
            first.join().expect("host 0"),
            second.join().expect("host 1"),
        ];
        for end in &ends {
            if let Err(reason) = end {
                println!("not tried here: {reason}");
            }
        }
        ends.iter().all(Result::is_ok)
    })
}

fn talk(tcp: Tcp, _: u32, _: &dyn Fn(&str) -> Result<(), String>) {
    common::converse(Box::new(tcp), 200, 4, 200_000);
}

#[test]
fn ranks_of_two_hosts_talk() {
    on_two_hosts(|_| (), talk);
    on_two_hosts(|config| config.seal = true, talk);
}

/// The link goes down three times for a while, in the middle of everything.
#[test]
fn a_link_that_comes_back_loses_and_doubles_nothing() {
    on_two_hosts(
        |config| config.patience = Duration::from_secs(20),
        |tcp, rank, run| {
            if rank == 1 {
                return common::converse(Box::new(tcp), 6000, 60, 1_000_000);
            }
            std::thread::scope(|scope| {
                let talking = scope.spawn(|| common::converse(Box::new(tcp), 6000, 60, 1_000_000));
                for pause in [50, 300, 700] {
                    // This waits for nothing: how long the link is up and down is what is tested.
                    std::thread::sleep(Duration::from_millis(60));
                    if talking.is_finished() {
                        break;
                    }
                    run("ip link set veth0 down").expect("it is there");
                    std::thread::sleep(Duration::from_millis(pause));
                    run("ip link set veth0 up").expect("it is there");
                }
                talking.join().expect("all is right");
            });
        },
    );
}

/// A narrow link: everything arrives.
#[test]
fn a_narrow_link_is_only_slow() {
    on_two_hosts(
        |_| (),
        |tcp, rank, run| {
            let narrow = "tc qdisc add dev veth0 root tbf rate 200mbit burst 64kb latency 20ms";
            if rank == 0 && run(narrow).is_err() {
                println!("no token bucket here: tried at full speed");
            }
            common::converse(Box::new(tcp), 300, 6, 500_000);
        },
    );
}

/// A link that stays down is an error that names the host, after the set time.
#[test]
fn a_link_that_stays_down_is_an_error() {
    on_two_hosts(
        |config| config.patience = Duration::from_secs(2),
        |mut tcp, rank, run| {
            let mut recorder = common::Recorder::default();
            let other = Peer(1 - rank);
            let start = Instant::now();
            assert!(tcp.try_send(other, &[0; HEAD], b"hello").is_ok());
            while recorder.inbox.messages() == 0 {
                tcp.poll(&mut recorder, 8);
                assert!(start.elapsed() < Duration::from_secs(20), "never connected");
            }
            // Both have received from each other before the link goes.
            assert!(tcp.try_send(other, &[0; HEAD], b"again").is_ok());
            while recorder.inbox.messages() == 1 {
                tcp.poll(&mut recorder, 8);
                assert!(
                    start.elapsed() < Duration::from_secs(20),
                    "never heard again"
                );
            }
            if rank == 0 {
                run("ip link set veth0 down").expect("it is there");
            }
            let down = Instant::now();
            let lost = loop {
                tcp.poll(&mut recorder, 8);
                if let Some(reason) = recorder.lost.clone() {
                    break reason;
                }
                let ticket = tcp.bell().prepare();
                tcp.bell().wait(ticket, Some(Duration::from_millis(50)));
                assert!(down.elapsed() < Duration::from_secs(30), "never given up");
            };
            println!("rank {rank} after {:?}: {lost}", down.elapsed());
            assert!(lost.contains("host"), "{lost}");
        },
    );
}
