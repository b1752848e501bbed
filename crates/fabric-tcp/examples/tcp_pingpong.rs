//! Cost of this fabric over bare sockets: bursts of both in turn, in one process, on loopback.
//!
//! ```text
//! cargo run --release -p weft-fabric-tcp --example tcp_pingpong
//! ```
//!
//! Prints, for each thing measured, the smallest and the median burst of each kind and the ratios. The
//! smallest burst leaves out what a busy machine adds. Take figures for claims from `weft bench`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use weft_fabric::{
    Fabric, HEAD, Head, Operation, Peer, Posted, Region, Result, Rights, SharedBytes, Sink,
    SyncKey, Token, Uses,
};
use weft_fabric_tcp::Tcp;

const BURSTS: usize = 40;
const TURNS: usize = 500;
const BULK: usize = 1 << 20;
const MOVES: usize = 20;

#[derive(Default)]
struct Count {
    messages: usize,
    transferred: usize,
    token: u64,
}

impl Sink for Count {
    fn message(&mut self, _: Peer, head: &Head, data: SharedBytes<'_>) {
        let mut bytes = [0; 64];
        data.copy_to(&mut bytes);
        self.token = u64::from_le_bytes(head[..8].try_into().unwrap_or_default());
        self.messages += 1;
    }
    fn transfer_completed(&mut self, _: Operation, result: Result<()>) {
        assert_eq!(result, Ok(()));
        self.transferred += 1;
    }
    fn lost(&mut self, peer: Peer, reason: &str) {
        panic!("{peer}: {reason}");
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

/// Nanoseconds of one message, one way.
fn fabric_burst(pair: &mut [Tcp; 2]) -> f64 {
    let start = Instant::now();
    let [left, right] = pair;
    std::thread::scope(|scope| {
        scope.spawn(|| turns(right, Peer(0), false));
        turns(left, Peer(1), true);
    });
    start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64
}

fn turns(fabric: &mut Tcp, other: Peer, first: bool) {
    let mut count = Count::default();
    for turn in 0..TURNS {
        if !first {
            while count.messages <= turn {
                fabric.poll(&mut count, 8);
            }
        }
        assert_eq!(
            fabric.try_send(other, &[0; HEAD], &[0; 8]),
            Ok(Posted::Done)
        );
        if first {
            while count.messages <= turn {
                fabric.poll(&mut count, 8);
            }
        }
    }
}

fn raw_burst(pair: &mut [TcpStream; 2], size: usize) -> f64 {
    let start = Instant::now();
    let [left, right] = pair;
    std::thread::scope(|scope| {
        scope.spawn(|| raw_turns(right, size, false));
        raw_turns(left, size, true);
    });
    start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64
}

fn raw_turns(stream: &mut TcpStream, size: usize, first: bool) {
    let mut bytes = vec![0; size];
    for _ in 0..TURNS {
        if first {
            stream.write_all(&bytes).expect("room");
        }
        let mut done = 0;
        while done < size {
            match stream.read(&mut bytes[done..]) {
                Ok(count) => done += count,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
        if !first {
            stream.write_all(&bytes).expect("room");
        }
    }
}

/// Nanoseconds of one transfer of [`BULK`] bytes, read by the right one.
fn fabric_bulk(pair: &mut [Tcp; 2], from: Region, into: Region) -> f64 {
    let [left, right] = pair;
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = Count::default();
            while count.messages == 0 {
                right.poll(&mut count, 8);
            }
            let token = Token(count.token);
            for turn in 0..MOVES {
                let posted = right.get(Peer(0), token, 0, into, Operation(1));
                assert_eq!(posted, Ok(Posted::Pending));
                while count.transferred <= turn {
                    right.poll(&mut count, 8);
                }
            }
            assert_eq!(right.try_send(Peer(0), &[0; HEAD], &[]), Ok(Posted::Done));
        });
        let granted = left.grant(from, Some(Peer(1)), Rights::Read, Uses::Many);
        let token = granted.expect("fits");
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&token.0.to_le_bytes());
        assert_eq!(left.try_send(Peer(1), &head, &[]), Ok(Posted::Done));
        let mut count = Count::default();
        while count.messages == 0 {
            left.poll(&mut count, 8);
        }
        left.revoke(token);
    });
    start.elapsed().as_nanos() as f64 / MOVES as f64
}

fn raw_bulk(pair: &mut [TcpStream; 2], bytes: &[u8], into: &mut [u8]) -> f64 {
    let [left, right] = pair;
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..MOVES {
                let mut done = 0;
                while done < bytes.len() {
                    match left.write(&bytes[done..]) {
                        Ok(count) => done += count,
                        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                    }
                }
            }
        });
        for _ in 0..MOVES {
            let mut done = 0;
            while done < into.len() {
                match right.read(&mut into[done..]) {
                    Ok(count) => done += count,
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                }
            }
        }
    });
    start.elapsed().as_nanos() as f64 / MOVES as f64
}

fn report(what: &str, unit: f64, raw: &mut [f64], kinds: &mut [(&str, Vec<f64>)]) {
    let sorted = |samples: &mut [f64]| {
        samples.sort_by(f64::total_cmp);
        (samples[0] / unit, samples[samples.len() / 2] / unit)
    };
    let (least, middle) = sorted(raw);
    println!("{what}: raw {least:.2} / {middle:.2}");
    for (name, samples) in kinds {
        let (own, half) = sorted(samples);
        println!(
            "  {name}: {own:.2} / {half:.2}  ratio {:.2} / {:.2}",
            own / least,
            half / middle
        );
    }
}

fn pair_of(seal: bool) -> [Tcp; 2] {
    let group = Tcp::group(2, |config| config.seal = seal).expect("loopback is there");
    group.try_into().unwrap_or_else(|_| panic!("two"))
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is left");
    let left = TcpStream::connect(listener.local_addr().expect("bound")).expect("listens");
    let (right, _) = listener.accept().expect("connected");
    let mut raw = [left, right];
    for stream in &raw {
        stream.set_nodelay(true).expect("TCP");
        stream.set_nonblocking(true).expect("a socket");
    }
    let (mut plain, mut sealed) = (pair_of(false), pair_of(true));
    let (mut bare, mut one, mut two) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BURSTS {
        bare.push(raw_burst(&mut raw, 8));
        one.push(fabric_burst(&mut plain));
        two.push(fabric_burst(&mut sealed));
    }
    let mut kinds = [("plain", one), ("encrypted", two)];
    report(
        "8 B one way [µs], least / median",
        1e3,
        &mut bare,
        &mut kinds,
    );
    let source = Box::leak(vec![1u8; BULK].into_boxed_slice());
    let target = Box::leak(vec![0u8; BULK].into_boxed_slice());
    // SAFETY: leaked, and used by one transfer at a time; not otherwise until the end.
    let (from, into) = unsafe {
        (
            Region::new(source.as_mut_ptr(), BULK),
            Region::new(target.as_mut_ptr(), BULK),
        )
    };
    let bytes = vec![1u8; BULK];
    let mut room = vec![0u8; BULK];
    let (mut bare, mut one, mut two) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BURSTS {
        bare.push(raw_bulk(&mut raw, &bytes, &mut room));
        one.push(fabric_bulk(&mut plain, from, into));
        two.push(fabric_bulk(&mut sealed, from, into));
    }
    let mut kinds = [("plain", one), ("encrypted", two)];
    report("1 MiB [µs], least / median", 1e3, &mut bare, &mut kinds);
}
