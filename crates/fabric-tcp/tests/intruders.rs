//! Ten thousand connections of strangers while two ranks talk: garbage, half-open, recordings, another key,
//! slow ones. The ranks' data stay right, and everybody is counted.

#![allow(missing_docs)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::{Recorder, both, config, join, offer, openings, with_offers};
use weft_atomic::{AtomicBool, AtomicU64, Ordering};
use weft_fabric::{Fabric, HEAD, Peer, Posted};
use weft_fabric_tcp::wire::Hello;
use weft_fabric_tcp::{Card, Listen, Opening, Tcp};
use weft_secure::{FIRST, Handshake, Key, THIRD};

const EACH: usize = 2000;

/// Listens as rank 1 would and records what the first caller sends.
fn tap(to: SocketAddr) -> (SocketAddr, std::thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is left");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().expect("a caller");
        let mut far = TcpStream::connect(to).expect("rank 1 listens");
        let mut said = vec![0; FIRST];
        near.read_exact(&mut said).expect("the first message");
        far.write_all(&said).expect("passed on");
        let mut answer = vec![0; weft_secure::SECOND];
        far.read_exact(&mut answer).expect("the second message");
        near.write_all(&answer).expect("passed on");
        let mut third = vec![0; THIRD];
        near.read_exact(&mut third).expect("the third message");
        // The path ends here: rank 1 never receives it.
        said.extend(third);
        said
    });
    (address, thread)
}

/// The message of a rank 0 with the right key to this rank 1.
fn record(cards: &[Card; 2], listener: &mut Tcp) -> Vec<u8> {
    let (tapped, recorder) = tap(cards[1].offers[0].address);
    let through = with_offers(&cards[1], vec![offer("tapped", tapped)]);
    let mut caller = Opening::new(config(0))
        .expect("loopback is there")
        .join(vec![cards[0].clone(), through])
        .expect("two cards");
    let first = caller.try_send(Peer(1), &[0; HEAD], &[]);
    assert_eq!(first, Ok(Posted::Done));
    while !recorder.is_finished() {
        for one in [&mut caller, &mut *listener] {
            one.poll(&mut Recorder::default(), 16);
        }
        std::thread::yield_now();
    }
    caller.die();
    recorder.join().expect("it has heard a handshake")
}

fn connect(to: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .ok()?;
    Some(stream)
}

/// Does one hostile thing.
fn attack(kind: usize, to: SocketAddr, recorded: &[u8], held: &Mutex<Vec<TcpStream>>) {
    let Some(mut stream) = connect(to) else {
        return;
    };
    match kind {
        // Garbage, more than a handshake.
        0 => drop(stream.write_all(&[0xA5; 4096])),
        // Sends nothing and stays: a bounded number of them at a time.
        1 => {
            let mut held = held.lock().expect("no panic");
            held.push(stream);
            if held.len() > 200 {
                held.remove(0);
            }
        }
        // A recording of a real handshake.
        2 => {
            let _ = stream.write_all(recorded);
            let _ = stream.read(&mut [0; 16]);
        }
        // A handshake with another key.
        3 => {
            let key = Key::from_bytes([1; Key::BYTES]);
            let hello = Hello {
                rank: 0,
                target: 1,
                generation: 0,
                incarnation: 0,
                target_incarnation: 0,
            };
            let mut handshake = Handshake::initiator(&key, "fabric plain", &hello.emit());
            let _ = stream.write_all(&handshake.take_outgoing());
        }
        // A few bytes, then away.
        _ => drop(stream.write_all(b"GET / HTTP/1.1\r\n\r\n")),
    }
}

/// Questions and answers until it is time to end.
fn talk(fabric: Box<dyn weft_fabric::Fabric>, ends: &AtomicBool) {
    const LAST: weft_fabric::SyncKey = weft_fabric::SyncKey(1);
    let mut player = weft_fabric::conformance::Player::new(fabric);
    let (me, other) = (player.me(), 1 - player.me());
    let mut number = 0;
    loop {
        if me == 0 {
            if ends.load(Ordering::SeqCst) {
                player.signal(other, LAST);
                break;
            }
            player.send(other, number, 40);
            player.await_messages(number as usize + 1);
        } else {
            player.repeat("a question, or the end", |player| {
                player.inbox.messages() as u64 > number
                    || player.fabric.signals(weft_fabric::Peer(0), LAST) > 0
            });
            if player.inbox.messages() as u64 == number {
                break;
            }
            player.send(other, number, 40);
        }
        number += 1;
    }
    player.inbox.check(other, number, |_| 40);
    assert!(number > 100, "the ranks were kept from talking");
    player.repeat("all to be handed over", |player| player.fabric.is_flushed());
}

#[test]
fn ten_thousand_intruders_change_nothing() {
    let openings = openings(|_| ());
    let cards = openings.each_ref().map(|one| one.card().clone());
    let addresses = cards.each_ref().map(|card| card.offers[0].address);
    let mut pair = join(openings, [cards.to_vec(), cards.to_vec()]);
    let recorded = record(&cards, &mut pair[1]);
    let counted = pair.each_ref().map(|one| one.refusals());
    let done = AtomicU64::new(0);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let talking = scope.spawn(|| {
            both(pair, |fabric| talk(fabric, &ends));
        });
        let held = Mutex::new(Vec::new());
        let start = Instant::now();
        for number in 0..5 * EACH {
            attack(number % 5, addresses[1], &recorded, &held);
            done.fetch_add(1, Ordering::SeqCst);
            if start.elapsed() > Duration::from_secs(40) {
                break;
            }
        }
        ends.store(true, Ordering::SeqCst);
        talking.join().expect("the ranks are right");
    });
    let turned_away = counted[1].all();
    println!("{} attacks; {}", done.load(Ordering::SeqCst), counted[1]);
    // The last ones may not have been looked at.
    assert!(
        turned_away as usize > 4 * EACH,
        "only {turned_away} were counted"
    );
}

/// Connects without a pause and stays, sending nothing or half of a first message, until it is over. Returns
/// how many connections were made.
fn flood(to: SocketAddr, over: &AtomicBool) -> u64 {
    let mut held = std::collections::VecDeque::new();
    let mut made = 0;
    while !over.load(Ordering::SeqCst) {
        let Some(mut stream) = connect(to) else {
            continue;
        };
        if made % 2 == 0 {
            let _ = stream.write_all(&[7; FIRST / 2]);
        }
        made += 1;
        held.push_back(stream);
        if held.len() > 500 {
            held.pop_front();
        }
    }
    made
}

/// Members get in while the flood lasts. How soon is printed; the bound is shown in virtual time, by
/// `simulated::crowd`.
#[test]
fn members_get_in_while_a_flood_lasts() {
    const MEMBERS: u32 = 8;
    let mut ranks = Tcp::group(1 + MEMBERS, |_| ()).expect("loopback is there");
    let to = listening_at(&ranks);
    let over = AtomicBool::new(false);
    let start = Instant::now();
    let mut took = Vec::new();
    let made = std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(to, &over));
        let mut recorder = Recorder::default();
        let mut called = Vec::new();
        while took.len() < MEMBERS as usize && start.elapsed() < Duration::from_secs(30) {
            let due = Duration::from_millis(100 * (called.len() as u64 + 3));
            if called.len() < MEMBERS as usize && start.elapsed() > due {
                let rank = called.len() + 1;
                let sent = ranks[rank].try_send(Peer(0), &[rank as u8; HEAD], &[]);
                assert_eq!(sent, Ok(Posted::Done));
                called.push(Instant::now());
            }
            let mut other = Recorder::default();
            ranks[1..].iter_mut().for_each(|one| {
                one.poll(&mut other, 16);
            });
            ranks[0].poll(&mut recorder, 16);
            let heard = |rank: &usize| recorder.inbox.of(*rank).count() > 0;
            for rank in (took.len() + 1..=called.len()).take_while(heard) {
                took.push(called[rank - 1].elapsed());
            }
        }
        over.store(true, Ordering::SeqCst);
        flooding.join().expect("no panic")
    });
    let rate = made as f64 / start.elapsed().as_secs_f64();
    println!(
        "{made} connections of intruders, {rate:.0} a second; members: {took:.1?}; {}",
        ranks[0].refusals()
    );
    assert_eq!(took.len(), MEMBERS as usize, "not all members got in");
}

/// Where rank 0 of a group listens.
fn listening_at(ranks: &[Tcp]) -> SocketAddr {
    ranks[0].offers()[0].address
}

/// The variable that tells this test program that it runs as a child of itself.
const CHILD: &str = "WEFT_TEST_WITHOUT_DESCRIPTORS";

/// A rank without descriptors sleeps although somebody calls, and accepts the callers when descriptors are
/// free again. It runs in a process of its own, because the limit is that of a whole process.
#[test]
fn a_rank_without_descriptors_sleeps() {
    if std::env::var_os(CHILD).is_some() {
        return without_descriptors();
    }
    let test = "a_rank_without_descriptors_sleeps";
    let us = std::env::current_exe().expect("this program");
    let child = std::process::Command::new(us)
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(CHILD, "1")
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{said}");
    assert!(said.contains("slept"), "{said}");
}

fn without_descriptors() {
    let mut pair = Tcp::group(2, |_| ()).expect("loopback is there");
    let to = listening_at(&pair);
    // The callers have their descriptors before all are gone.
    let intruders: Vec<TcpStream> = (0..5).filter_map(|_| connect(to)).collect();
    assert_eq!(intruders.len(), 5);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let mut few = limit;
    few.current = Some(64);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).expect("less is allowed");
    let file = || std::fs::File::open("/dev/null").ok();
    let all: Vec<std::fs::File> = std::iter::from_fn(file).collect();
    let bell = pair[0].bell();
    let (mut recorder, mut wakes) = (Recorder::default(), 0);
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        pair[0].poll(&mut recorder, 16);
        let ticket = bell.prepare();
        if pair[0].poll(&mut recorder, 16) > 0 {
            bell.cancel(ticket);
        } else {
            bell.wait(ticket, Some(Duration::from_millis(250)));
        }
        wakes += 1;
    }
    // Every 100 ms it asks again; a rank that does not sleep loops some hundred thousand times.
    assert!(wakes < 100, "woken {wakes} times");
    eprintln!("slept, and was woken {wakes} times");
    drop(all);
    let sent = pair[1].try_send(Peer(0), &[7; HEAD], &[]);
    assert_eq!(sent, Ok(Posted::Done));
    let end = Instant::now() + Duration::from_secs(20);
    while recorder.inbox.messages() == 0 && Instant::now() < end {
        for one in &mut pair {
            one.poll(&mut recorder, 16);
        }
    }
    assert_eq!(recorder.inbox.messages(), 1);
}

/// Where the network of this process has listeners, as `/proc` shows it: address and port in hexadecimal.
fn listening() -> Vec<(String, u16)> {
    let mut found = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let listens = fields.get(3) == Some(&"0A");
            let place = fields.get(1).and_then(|field| field.split_once(':'));
            if let (true, Some((address, port))) = (listens, place) {
                let port = u16::from_str_radix(port, 16).expect("a port");
                found.push((address.to_owned(), port));
            }
        }
    }
    found
}

/// Ranks listen only at addresses that are offered, never at the wildcard address.
#[test]
fn nobody_listens_on_all_addresses() {
    for listen in [Listen::Interfaces, Listen::Loopback] {
        let mut config = config(0);
        config.listen = listen;
        let opening = Opening::new(config).expect("an address is there");
        let offers = &opening.card().offers;
        let offered = |port| offers.iter().any(|offer| offer.address.port() == port);
        let ours: Vec<_> = listening()
            .into_iter()
            .filter(|(_, port)| offered(*port))
            .collect();
        assert!(!offers.is_empty() && ours.len() >= offers.len(), "{ours:?}");
        let all = |address: &str| address.bytes().all(|digit| digit == b'0');
        assert!(!ours.iter().any(|(address, _)| all(address)), "{ours:?}");
    }
}
