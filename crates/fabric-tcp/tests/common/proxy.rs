//! Proxy between two ranks: passes bytes on, cuts, changes them, or stays silent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use weft_atomic::{AtomicBool, AtomicU64, Ordering};

/// The action on each connection.
#[derive(Clone, Copy)]
pub enum Harm {
    /// Cut after a random number of bytes, at most `most`, `times` times in all.
    Cut { seed: u64, most: u64, times: u64 },
    /// One bit is changed after `after` bytes.
    Flip { after: u64 },
    /// Passed on in pieces of random size, with pauses: late, slow, and never one frame at a time.
    Drip { seed: u64 },
    /// Connections are accepted, and nothing is said.
    Silence,
    /// Connections are accepted and closed.
    Slam,
}

/// Listens until it is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    pub cuts: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub fn new(to: SocketAddr, harm: Harm) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is left");
        Self::at(listener, to, harm)
    }

    pub fn at(listener: TcpListener, to: SocketAddr, harm: Harm) -> Self {
        let address = listener.local_addr().expect("bound");
        let (cuts, ends) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (counted, over) = (cuts.clone(), ends.clone());
        let thread = std::thread::spawn(move || serve(&listener, to, harm, &counted, &over));
        Self {
            address,
            cuts,
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    listener: &TcpListener,
    to: SocketAddr,
    harm: Harm,
    cuts: &Arc<AtomicU64>,
    over: &Arc<AtomicBool>,
) {
    let mut state = match harm {
        Harm::Cut { seed, .. } => seed | 1,
        _ => 1,
    };
    let mut silent = Vec::new();
    while let Ok((near, _)) = listener.accept() {
        if over.load(Ordering::SeqCst) {
            return;
        }
        match harm {
            Harm::Slam => continue,
            Harm::Silence => {
                silent.push(near);
                continue;
            }
            _ => {}
        }
        let Ok(far) = TcpStream::connect(to) else {
            continue;
        };
        next(&mut state);
        let budget = match harm {
            Harm::Cut { most, times, .. } if cuts.load(Ordering::SeqCst) < times => state % most,
            Harm::Flip { after } => after,
            _ => u64::MAX,
        };
        let left = Arc::new(AtomicU64::new(budget));
        let copies = |stream: &TcpStream| stream.try_clone().expect("descriptors are left");
        for (mut from, mut into) in [(copies(&near), copies(&far)), (far, near)] {
            let (left, cuts) = (left.clone(), cuts.clone());
            std::thread::spawn(move || pass(&mut from, &mut into, harm, &left, &cuts));
        }
    }
}

/// The next number of a pseudo-random sequence.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Writes in pieces, with pauses.
fn drip(bytes: &[u8], into: &mut TcpStream, state: &mut u64) -> std::io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = if next(state).is_multiple_of(4) {
            16
        } else {
            4096
        };
        let (piece, later) = rest.split_at((1 + next(state) as usize % most).min(rest.len()));
        into.write_all(piece)?;
        rest = later;
        if next(state).is_multiple_of(16) {
            // This waits for nothing: the delay is what is tested.
            std::thread::sleep(Duration::from_micros(next(state) % 2000));
        }
    }
    Ok(())
}

/// Passes bytes on until the connection ends or must end.
fn pass(
    from: &mut TcpStream,
    into: &mut TcpStream,
    harm: Harm,
    left: &AtomicU64,
    cuts: &AtomicU64,
) {
    let mut state = match harm {
        Harm::Drip { seed } => seed | 1,
        _ => 1,
    };
    let mut bytes = [0; 10_000];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let before = left.load(Ordering::SeqCst);
        let now = (count as u64).min(before) as usize;
        left.fetch_sub(now as u64, Ordering::SeqCst);
        match harm {
            Harm::Cut { .. } if now < count => {
                let _ = into.write_all(&bytes[..now]);
                cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
            Harm::Flip { .. } if before > 0 && now < count => bytes[now] ^= 0x10,
            _ => {}
        }
        let written = match harm {
            Harm::Drip { .. } => drip(&bytes[..count], into, &mut state),
            _ => into.write_all(&bytes[..count]),
        };
        if written.is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = into.shutdown(Shutdown::Both);
}
