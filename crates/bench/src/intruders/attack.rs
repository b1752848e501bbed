//! Hostile connections at a steady rate: one of five kinds in turn.

use anyhow::{Context, Result, anyhow};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_atomic::{AtomicBool, Ordering};
use weft_secure::{Handshake, Key};

/// Connections that intruders hold open at a time, and those of them that send slowly.
const HELD: usize = 200;
const SLOW: usize = 32;
/// Connections that the intruders' own port holds: as many as a rank does at most.
const CROWD: usize = 64;
/// Longest time that one connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(1);

/// An attack that is under way.
pub(super) struct Attack {
    stops: Arc<AtomicBool>,
    thread: JoinHandle<Tally>,
}

/// Tally of an attack.
#[derive(Default)]
pub(super) struct Tally {
    pub made: u64,
    pub refused: u64,
    pub seconds: f64,
}

impl Attack {
    /// Begins to connect `rate` times a second to these ports in turn; to a port of its own if there are
    /// none. `recorded` is what a member once sent there; if empty, garbage is sent instead.
    ///
    /// # Errors
    /// If no port is left for the intruders' own.
    pub fn begin(rate: u32, at: Vec<SocketAddr>, recorded: Vec<u8>) -> Result<Attack> {
        let own = if at.is_empty() {
            let listener = TcpListener::bind("127.0.0.1:0").context("no port is left")?;
            listener.set_nonblocking(true)?;
            Some(listener)
        } else {
            None
        };
        let at = match &own {
            Some(listener) => vec![listener.local_addr()?],
            None => at,
        };
        let gap = Duration::from_secs(1) / rate.max(1);
        let stops = Arc::new(AtomicBool::new(false));
        let told = stops.clone();
        let thread = std::thread::spawn(move || {
            let mut intruders = Callers::new(at, own, recorded);
            let start = Instant::now();
            let mut turn = 0;
            while !told.load(Ordering::Relaxed) {
                let due = start + gap * turn;
                match due.checked_duration_since(Instant::now()) {
                    // The thread is woken early when the attack ends.
                    Some(early) => std::thread::park_timeout(early),
                    None => {
                        intruders.come(turn as usize);
                        turn += 1;
                    }
                }
            }
            intruders.tally.seconds = start.elapsed().as_secs_f64();
            intruders.tally
        });
        Ok(Attack { stops, thread })
    }

    /// Ends it.
    ///
    /// # Errors
    /// If the attacking thread panicked.
    pub fn end(self) -> Result<Tally> {
        self.stops.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the attacking thread panicked"))
    }
}

struct Callers {
    at: Vec<SocketAddr>,
    own: Option<TcpListener>,
    guests: VecDeque<TcpStream>,
    recorded: Vec<u8>,
    /// First message of a handshake with another key.
    wrong: Vec<u8>,
    held: VecDeque<TcpStream>,
    /// Connections on which one byte is sent at a time, and how many were sent.
    slow: VecDeque<(TcpStream, usize)>,
    tally: Tally,
}

impl Callers {
    fn new(at: Vec<SocketAddr>, own: Option<TcpListener>, recorded: Vec<u8>) -> Self {
        let key = Key::from_bytes([1; Key::BYTES]);
        let recorded = if recorded.is_empty() {
            vec![0x5A; weft_secure::FIRST + weft_secure::THIRD]
        } else {
            recorded
        };
        Self {
            at,
            own,
            guests: VecDeque::new(),
            recorded,
            wrong: Handshake::initiator(&key, "fabric plain", &[0; 16]).take_outgoing(),
            held: VecDeque::new(),
            slow: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// One more intruder connects and acts; one of the slow ones sends its next byte. Failures to send are
    /// ignored.
    fn come(&mut self, number: usize) {
        let kind = number % 5;
        // Each kind comes to each port.
        let to = self.at[number / 5 % self.at.len()];
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Ok(stream) => {
                let _ = stream.set_nonblocking(true);
                self.tally.made += 1;
                self.act(kind, stream);
            }
            Err(_) => self.tally.refused += 1,
        }
        if let Some((mut stream, said)) = self.slow.pop_front()
            && stream.write(&self.recorded[said..=said]).is_ok()
            && said + 1 < self.recorded.len()
        {
            self.slow.push_back((stream, said + 1));
        }
        self.receive();
    }

    fn act(&mut self, kind: usize, mut stream: TcpStream) {
        match kind {
            // Garbage, more than a handshake, and away.
            0 => drop(stream.write(&[0xA5; 4096])),
            // Sends nothing, and stays.
            1 => keep(&mut self.held, stream, HELD),
            // A recording of a real handshake.
            2 => {
                let _ = stream.write(&self.recorded);
                keep(&mut self.held, stream, HELD);
            }
            // A handshake with another key.
            3 => {
                let _ = stream.write(&self.wrong);
                keep(&mut self.held, stream, HELD);
            }
            // A byte now and then.
            _ => keep(&mut self.slow, (stream, 0), SLOW),
        }
    }

    /// The intruders' own port: connections are held unread, and dropped when there are many.
    fn receive(&mut self) {
        while let Some(Ok((guest, _))) = self.own.as_ref().map(TcpListener::accept) {
            keep(&mut self.guests, guest, CROWD);
        }
    }
}

/// Adds one; the oldest is dropped when there are too many.
fn keep<T>(all: &mut VecDeque<T>, one: T, most: usize) {
    if all.len() == most {
        all.pop_front();
    }
    all.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intruders_come_at_the_rate_and_go() {
        for elsewhere in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is left");
            let at = if elsewhere {
                Vec::new()
            } else {
                vec![listener.local_addr().expect("bound")]
            };
            let attack = Attack::begin(2000, at, b"recorded".to_vec()).expect("begins");
            std::thread::sleep(Duration::from_millis(50));
            let tally = attack.end().expect("ends");
            assert!(tally.made > 0, "nobody came");
            assert!(
                tally.made as f64 <= 2000.0 * tally.seconds + 1.0,
                "too many came"
            );
            assert_eq!(tally.refused, 0);
        }
    }

    #[test]
    fn each_kind_is_held_in_bounds() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is left");
        listener.set_nonblocking(true).expect("sets");
        let at = vec![listener.local_addr().expect("bound")];
        let mut intruders = Callers::new(at, Some(listener), b"recorded".to_vec());
        for number in 0..600 {
            intruders.come(number);
        }
        assert_eq!((intruders.tally.made, intruders.tally.refused), (600, 0));
        assert_eq!(intruders.held.len(), HELD);
        assert!(intruders.slow.len() <= SLOW && !intruders.slow.is_empty());
        assert_eq!(intruders.guests.len(), CROWD);
    }
}
