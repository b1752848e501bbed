//! The port through which `weft join` comes in.
//!
//! Who connects is nobody until it has proved the token: at most a few at a time are waited for, each
//! for a short time, and none delays another.

use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::poll::{Entry, Interest};

use super::link::{Link, Meeting};

/// How long somebody may take to prove the token.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many may be at it; one more pushes out the oldest.
const AT_ONCE: usize = 64;

/// A port, and those who have knocked.
#[derive(Debug)]
pub struct Reception {
    listener: TcpListener,
    key: Key,
    guests: Vec<Meeting>,
    /// How many were turned away.
    pub turned_away: u64,
}

impl Reception {
    /// Listens there.
    ///
    /// # Errors
    /// If that is no address of this host, or the port is taken.
    pub fn open(listen: &str, key: Key) -> io::Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "--listen {listen}: {error}; ADDRESS:PORT was expected, with an address of this \
                     host (0.0.0.0 and [::] mean all of them, port 0 any)"
                ),
            )
        };
        let addresses: Vec<_> = listen
            .to_socket_addrs()
            .map_err(|error| wrong(&error))?
            .collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(|error| wrong(&error))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            key,
            guests: Vec::new(),
            turned_away: 0,
        })
    }

    /// Where it listens, with the port that was chosen.
    pub fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.map_or_else(|_| "?".into(), |address| address.to_string())
    }

    /// What to wait for: first the port, then the guests.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let port = std::iter::once(Entry::new(&self.listener, Interest::Read));
        port.chain(self.guests.iter().map(Meeting::reading))
    }

    /// When the patience with somebody ends.
    pub fn next_look(&self) -> Option<Instant> {
        self.guests.iter().map(|guest| guest.deadline).min()
    }

    /// Goes on with those who are ready (as [`entries`](Self::entries) counts them), and answers those
    /// who have proved the token.
    pub fn proceed(&mut self, ready: &[bool], now: Instant, silence: Duration) -> Vec<Link> {
        let mut met = Vec::new();
        let mut kept = Vec::new();
        for (index, mut guest) in std::mem::take(&mut self.guests).into_iter().enumerate() {
            let outcome = if ready.get(index + 1) == Some(&true) {
                guest.proceed()
            } else {
                Ok(None)
            };
            match outcome {
                Ok(Some(channel)) => match guest.link(channel, silence) {
                    Ok(link) => met.push(link),
                    Err(_) => self.turned_away += 1,
                },
                Ok(None) if now < guest.deadline => kept.push(guest),
                Ok(None) | Err(_) => self.turned_away += 1,
            }
        }
        self.guests = kept;
        if ready.first() == Some(&true) {
            self.admit();
        }
        met
    }

    fn admit(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.guests.len() == AT_ONCE {
                self.guests.remove(0);
                self.turned_away += 1;
            }
            // Small messages, each of which somebody waits for.
            let _ = stream.set_nodelay(true);
            let Ok(other) = stream.try_clone() else {
                continue;
            };
            let (input, output) = (OwnedFd::from(stream), OwnedFd::from(other));
            match Meeting::expect(&self.key, input, output, PATIENCE) {
                Ok(guest) => self.guests.push(guest),
                Err(_) => self.turned_away += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;
    use weft_sys::poll;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn who_knows_the_token_comes_in_past_any_number_of_strangers() {
        let key = Key::random().expect("random");
        let mut reception = Reception::open("127.0.0.1:0", key.clone()).expect("a port");
        let address = reception.address();
        let mut strangers: Vec<TcpStream> = (0..AT_ONCE + 10)
            .map(|_| TcpStream::connect(&address).expect("listens"))
            .collect();
        let _ = strangers[70].write_all(b"GET / HTTP/1.1\r\n\r\n");
        let _ = strangers[71].write_all(&[7; 4096]);
        let member = std::thread::spawn(move || {
            let stream = TcpStream::connect(address).expect("listens");
            let other = stream.try_clone().expect("descriptors are left");
            Meeting::begin(&key, stream.into(), other.into(), LONG)?.wait(LONG)
        });
        let mut met = Vec::new();
        while met.is_empty() {
            let mut entries: Vec<_> = reception.entries().collect();
            poll::wait(&mut entries, Some(LONG)).expect("polls");
            let ready: Vec<bool> = entries.iter().map(Entry::is_ready).collect();
            drop(entries);
            met = reception.proceed(&ready, Instant::now(), LONG);
        }
        assert!(member.join().expect("no panic").is_ok());
        assert!(reception.turned_away > 10);
    }

    #[test]
    fn what_is_no_address_of_ours_is_refused() {
        let key = Key::random().expect("random");
        for listen in ["192.0.2.1:0", "7000"] {
            let error = Reception::open(listen, key.clone()).expect_err(listen);
            assert!(error.to_string().contains("ADDRESS:PORT"), "{error}");
        }
    }
}
