//! Fibers of two ranks in one program: a ring, then an echo server with a fiber for each client.
//!
//! ```text
//! cargo run --release -p weft --example fibers -- 100000
//! ```

use std::sync::Arc;
use std::time::Instant;

use weft::fiber::{self, Config, Runtime};
use weft_fabric_local::Local;
use weft_mpi::datatype::Basic;
use weft_mpi::{Buffer, Comm, Process, SendMode, Source, TagPattern, Target};

fn send(comm: &Comm, to: u32, tag: usize, value: &mut u64) {
    // SAFETY: the number outlives the call, which is blocking.
    let buffer = unsafe { Buffer::new((&raw mut *value).cast(), 8, Basic::Byte.datatype()) };
    comm.send(SendMode::Standard, buffer, Target::Rank(to), tag as i32)
        .expect("the other rank is there");
}

fn receive(comm: &Comm, from: u32, tag: usize) -> u64 {
    let mut value = 0u64;
    // SAFETY: as for `send`.
    let buffer = unsafe { Buffer::new((&raw mut value).cast(), 8, Basic::Byte.datatype()) };
    comm.recv(buffer, Source::Rank(from), TagPattern::Exact(tag as i32))
        .expect("eight bytes fit");
    value
}

/// Runs `part` as so many fibers, and waits for all.
fn fibers(count: usize, part: impl Fn(usize) + Clone + Send + 'static) {
    let all: Vec<_> = (0..count)
        .map(|number| {
            let part = part.clone();
            fiber::spawn(move || part(number))
        })
        .collect();
    for fiber in all {
        fiber.join().expect("no fiber panics");
    }
}

/// The token visits fiber 0 of rank 0, fiber 0 of rank 1, fiber 1 of rank 0, and so on.
fn ring(comm: Arc<Comm>, count: usize) {
    let (me, other) = (comm.rank(), 1 - comm.rank());
    fibers(count, move |number| {
        let next = if me == 0 {
            number
        } else {
            (number + 1) % count
        };
        let first = me == 0 && number == 0;
        if first {
            send(&comm, other, next, &mut 0);
        }
        let mut token = receive(&comm, other, number) + 1;
        if first {
            println!("the token has passed {token} fibers");
        } else {
            send(&comm, other, next, &mut token);
        }
    });
}

/// Rank 0 serves, rank 1 asks.
fn echo(comm: Arc<Comm>, clients: usize) {
    let (me, other) = (comm.rank(), 1 - comm.rank());
    let began = Instant::now();
    fibers(clients, move |client| {
        if me == 0 {
            let mut asked = receive(&comm, other, client);
            send(&comm, other, client, &mut asked);
        } else {
            let mut question = client as u64 * 3;
            send(&comm, other, client, &mut question);
            assert_eq!(receive(&comm, other, client), client as u64 * 3);
        }
    });
    if me == 0 {
        let each = began.elapsed().as_nanos() / clients as u128;
        println!("{clients} clients had their echo, {each} ns each");
    }
}

fn main() {
    let clients = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(100_000);
    std::thread::scope(|scope| {
        for endpoint in Local::group(2) {
            scope.spawn(move || {
                let process = Process::new(Box::new(endpoint));
                // The rank's own thread is the worker of its fibers.
                let config = Config {
                    workers: 1,
                    ..Config::default()
                };
                Runtime::run(config, || {
                    ring(process.world(), 1000);
                    echo(process.world(), clients);
                })
                .expect("memory for the tables of fibers");
                process.finish().expect("both ranks end");
            });
        }
    });
}
