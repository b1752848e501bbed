//! Work of the clients that a description starts: echo, and what the experiments ask for.

use std::io;

use serde::{Deserialize, Serialize};
use smoltcp::iface::SocketHandle;
use smoltcp::wire::{IpAddress, IpEndpoint, Ipv4Address};

use super::Stack;
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::plan::{ECHO_PORT, FAR, UNASKED_PORT};
use crate::stage::Stage;

/// The work of a client over UDP. All of them echo TCP on the same port.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Work {
    /// Sends back whatever comes.
    Echo,
    /// Answers one of `every` datagrams.
    ReceiveMostly {
        /// Datagrams for one answer.
        every: u32,
    },
    /// Sends `times` datagrams for each one that arrives.
    TransmitMostly {
        /// Answers to one datagram.
        times: u32,
    },
    /// Sends by itself, at a rate of payload in bits per second.
    TransmitInitiated {
        /// The rate.
        bits: u64,
    },
    /// Copies and sums each datagram `rounds` times before it sends it back.
    ComputeHeavy {
        /// How often.
        rounds: u32,
    },
}

/// A client that a description gives work.
pub struct Client {
    stack: Stack,
    work: Work,
    udp: Option<SocketHandle>,
    tcp: Vec<SocketHandle>,
    count: u64,
    /// Answers that are still to be sent, and their destination.
    unanswered: Option<(u32, IpEndpoint, usize)>,
    began: Option<u64>,
    sent: u64,
    scratch: Box<[u8; 2048]>,
    sum: u64,
    deadline: Option<u64>,
}

/// TCP connections at a time.
const CONNECTIONS: usize = 4;

impl Client {
    /// A client that does `work`.
    #[must_use]
    pub fn new(mut stack: Stack, work: Work) -> Self {
        let udp = stack.udp(ECHO_PORT);
        let tcp = (0..CONNECTIONS).map(|_| stack.tcp()).collect();
        Self {
            stack,
            work,
            udp,
            tcp,
            count: 0,
            unanswered: None,
            began: None,
            sent: 0,
            scratch: Box::new([0; 2048]),
            sum: 0,
            deadline: None,
        }
    }

    fn datagrams(&mut self, now: u64) -> bool {
        let Some(handle) = self.udp else {
            return false;
        };
        let socket = self.stack.udp_socket(handle);
        let mut moved = false;
        loop {
            if let Some((left, to, length)) = &mut self.unanswered {
                while *left > 0 && socket.can_send() {
                    if socket.send_slice(&self.scratch[..*length], *to).is_err() {
                        break;
                    }
                    *left -= 1;
                    moved = true;
                }
                if *left > 0 {
                    return moved;
                }
                self.unanswered = None;
            }
            if !socket.can_send() {
                return moved;
            }
            let Ok((length, from)) = socket.recv_slice(&mut self.scratch[..]) else {
                break;
            };
            moved = true;
            self.count += 1;
            let answers = match self.work {
                Work::Echo => 1,
                Work::ReceiveMostly { every } => {
                    u32::from(self.count.is_multiple_of(u64::from(every.max(1))))
                }
                Work::TransmitMostly { times } => times,
                Work::TransmitInitiated { .. } => 0,
                Work::ComputeHeavy { rounds } => {
                    self.sum ^= compute(&self.scratch[..length], rounds);
                    1
                }
            };
            if answers > 0 {
                self.unanswered = Some((answers, from.endpoint, length));
            }
        }
        if let Work::TransmitInitiated { bits } = self.work {
            moved |= self.initiate(now, bits, handle);
        }
        moved
    }

    fn initiate(&mut self, now: u64, bits: u64, handle: SocketHandle) -> bool {
        const PAYLOAD: usize = 1472;
        let began = *self.began.get_or_insert(now);
        let socket = self.stack.udp_socket(handle);
        let to = IpEndpoint::new(IpAddress::Ipv4(Ipv4Address::from(FAR.ip)), UNASKED_PORT);
        let passed = u128::from(now.saturating_sub(began));
        let due = passed * u128::from(bits) / (8 * PAYLOAD as u128) / 1_000_000_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        // Datagrams that could not be sent for lack of buffers are made up later only to a limit.
        self.sent = self.sent.max(due.saturating_sub(256));
        let mut moved = false;
        while self.sent < due && socket.can_send() {
            if socket.send_slice(&self.scratch[..PAYLOAD], to).is_err() {
                break;
            }
            self.sent += 1;
            moved = true;
        }
        let each = 8 * PAYLOAD as u128 * 1_000_000_000 / u128::from(bits.max(1));
        let next = u128::from(self.sent + 1) * each;
        self.deadline = Some(began.saturating_add(u64::try_from(next).unwrap_or(u64::MAX)));
        moved
    }

    fn streams(&mut self) -> bool {
        let mut moved = false;
        for &handle in &self.tcp {
            let socket = self.stack.tcp_socket(handle);
            if !socket.is_open() {
                // Fails for port 0 only.
                let _ = socket.listen(ECHO_PORT);
            }
            while socket.can_recv() && socket.can_send() {
                let room = socket.send_capacity() - socket.send_queue();
                let scratch = &mut self.scratch[..];
                let most = room.min(scratch.len());
                match socket.recv_slice(&mut scratch[..most]) {
                    Ok(count) if count > 0 => {
                        moved = true;
                        // There is room, as asked above.
                        let _ = socket.send_slice(&scratch[..count]);
                    }
                    _ => break,
                }
            }
            // The other side has finished, and has all its bytes back.
            if !socket.may_recv() && socket.may_send() && !socket.can_recv() {
                socket.close();
                moved = true;
            }
        }
        moved
    }
}

/// Copies and sums: work on a whole packet.
fn compute(bytes: &[u8], rounds: u32) -> u64 {
    let mut sum = 0u64;
    let mut copy = [0u8; 2048];
    for round in 0..rounds {
        let length = bytes.len().min(copy.len());
        copy[..length].copy_from_slice(&bytes[..length]);
        copy[0] ^= round as u8;
        for pair in std::hint::black_box(&copy[..length]).chunks_exact(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
    }
    std::hint::black_box(sum)
}

impl Stage for Client {
    fn step(&mut self, now: u64, counters: &mut [Counters]) -> bool {
        let mut moved = self.stack.poll(now);
        moved |= self.datagrams(now);
        moved |= self.streams();
        moved |= self.stack.send(now, counters);
        let own = self.deadline.take();
        if let (Some(own), Work::TransmitInitiated { .. }) = (own, self.work) {
            self.deadline = Some(own);
        }
        let stack = self.stack.poll_at(now);
        self.deadline = match (self.deadline, stack) {
            (Some(one), Some(other)) => Some(one.min(other.max(now + 1_000))),
            (one, other) => one.or(other.map(|other| other.max(now + 1_000))),
        };
        moved
    }

    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        self.stack.reattach(change, counters)
    }

    fn is_ahead(&mut self) -> bool {
        self.stack.is_ahead()
    }

    fn announce(&mut self) -> bool {
        self.stack.announce()
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }
}
