//! The load generator over ordinary sockets: flows sent from the host's own stack, for a veth or a real
//! network. [`Generator`](crate::Generator) sends the same flows from the far end of a virtual wire.
//!
//! All due datagrams are sent in one system call, and all that have arrived are taken in one. The time in a
//! datagram is that at which it was due, so a late generator appears as latency, not as a lower load.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use weft_net::plan::{self, ECHO_PORT, UNASKED_PORT};
use weft_sys::datagram::{BATCH, Batch};
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::{clock, cores};

use crate::flow::Flow;
use crate::payload::{self, FILL};
use crate::report::FlowReport;

struct Running {
    flow: Flow,
    to: SocketAddrV4,
    socket: UdpSocket,
    next: u64,
}

impl Running {
    /// Receives what has arrived; true if there was anything.
    fn receive(&self, batch: &mut Batch, began: u64, report: &mut FlowReport) -> bool {
        // An error belongs to an earlier send, to a client that is not up: that datagram is lost.
        let count = batch.receive(&self.socket).unwrap_or(0);
        if count == 0 {
            return false;
        }
        let now = clock::monotonic();
        let in_load = now - began <= self.flow.until;
        for index in 0..count {
            report.count_arrival(batch.datagram(index).0, now, in_load);
        }
        true
    }

    /// Sends what is due; true if there was anything.
    fn send(&mut self, batch: &mut Batch, began: u64, report: &mut FlowReport) -> bool {
        let passed = clock::monotonic() - began;
        let length = self.flow.payload();
        let mut count = 0;
        while self.next <= passed && self.next < self.flow.until && count < BATCH {
            let bytes = batch.prepare(count, length);
            bytes[payload::SMALLEST..].fill(FILL);
            payload::write(bytes, report.sent(), began + self.next);
            report.count_sent();
            count += 1;
            self.next = self.flow.due(report.sent());
        }
        if count > 0 {
            // Datagrams that do not fit into the host's queue are lost like any others.
            let _ = batch.send(&self.socket, count);
        }
        count > 0
    }
}

/// Runs the flows until the last has ended and nothing has arrived for `patience`. `to` gives the address of
/// a flow's client: [`client_address`] for clients of a system. Unasked datagrams of clients are counted too
/// if their port ([`UNASKED_PORT`]) is free.
///
/// # Errors
/// If a socket cannot be made or connected.
pub fn run(
    flows: &[Flow],
    to: impl Fn(usize) -> SocketAddrV4,
    patience: Duration,
) -> io::Result<Vec<FlowReport>> {
    // A microsecond: at the usual fifty, datagrams due in between would be sent in bursts.
    cores::set_timer_slack(Duration::from_micros(1))?;
    let mut running = Vec::new();
    for flow in flows {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let to = to(flow.client);
        socket.connect(to)?;
        running.push(Running {
            flow: *flow,
            to,
            socket,
            next: flow.first(),
        });
    }
    let unasked = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, UNASKED_PORT)).ok();
    let mut reports: Vec<FlowReport> = flows.iter().map(|_| FlowReport::new()).collect();
    let end = flows.iter().map(|flow| flow.until).max().unwrap_or(0);
    let began = clock::monotonic();
    let mut heard = began;
    let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let mut batch = Batch::new();
    loop {
        let mut soonest = u64::MAX;
        let mut moved = false;
        for (flow, report) in running.iter_mut().zip(&mut reports) {
            let came = flow.receive(&mut batch, began, report);
            let went = flow.send(&mut batch, began, report);
            if came {
                heard = clock::monotonic();
            }
            moved |= came | went;
            if flow.next < flow.flow.until {
                soonest = soonest.min(began + flow.next);
            }
        }
        let now = clock::monotonic();
        if let Some(socket) = &unasked
            && now - began <= end
        {
            moved |= count_unasked(&mut batch, socket, &running, &mut reports);
        }
        let left = end.saturating_sub(now - began);
        if soonest == u64::MAX && left == 0 {
            let complete = reports.iter().all(|report| report.lost() == 0);
            if complete || now.saturating_sub(heard) > patience {
                return Ok(reports);
            }
        }
        if !moved {
            let limit = soonest
                .saturating_sub(now)
                .min(if left > 0 { left } else { patience });
            let mut entries: Vec<PollFd<'_>> = running
                .iter()
                .map(|flow| &flow.socket)
                .chain(&unasked)
                .map(|socket| PollFd::new(socket, Interest::Read))
                .collect();
            poll::wait(&mut entries, Some(Duration::from_nanos(limit)))?;
        }
    }
}

/// Counts what clients have sent unasked; true if there was anything.
fn count_unasked(
    batch: &mut Batch,
    socket: &UdpSocket,
    running: &[Running],
    reports: &mut [FlowReport],
) -> bool {
    let count = batch.receive(socket).unwrap_or(0);
    for index in 0..count {
        let (bytes, from) = batch.datagram(index);
        let flow = running.iter().position(|flow| flow.to == from);
        if let Some(report) = flow.and_then(|flow| reports.get_mut(flow)) {
            report.count_unasked(bytes.len());
        }
    }
    count > 0
}

/// Waits until each client has answered a datagram, so that a load finds addresses resolved and components
/// started. Returns those that did not within `patience`.
///
/// # Errors
/// If a socket cannot be made or connected.
pub fn await_answers(
    flows: &[Flow],
    to: impl Fn(usize) -> SocketAddrV4,
    patience: Duration,
) -> io::Result<Vec<usize>> {
    const AGAIN: Duration = Duration::from_millis(20);
    let until = clock::deadline_after(patience);
    let mut silent = Vec::new();
    for flow in flows {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(to(flow.client))?;
        let mut answer = [0; 64];
        while let Err(error) = socket.recv(&mut answer) {
            if clock::monotonic() >= until {
                silent.push(flow.client);
                break;
            }
            let _ = socket.send(&[FILL; 24]);
            let mut answered = [PollFd::new(&socket, Interest::Read)];
            // Refused: nobody listens yet, and the next refusal would end a wait for answers at once.
            let refused = error.kind() != io::ErrorKind::WouldBlock;
            let entries = if refused { &mut [][..] } else { &mut answered };
            poll::wait(entries, Some(AGAIN))?;
        }
    }
    Ok(silent)
}

/// The address of a client of a system.
#[must_use]
pub fn client_address(client: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(plan::ip(client)), ECHO_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Pattern;

    #[test]
    fn replies_of_a_plain_echo_are_counted() {
        let echo = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let port = echo.local_addr().expect("bound").port();
        echo.set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        let server = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            for _ in 0..50 {
                let Ok((length, from)) = echo.recv_from(&mut buffer) else {
                    return;
                };
                let _ = echo.send_to(&buffer[..length], from);
            }
        });
        let flow = Flow {
            client: 0,
            bits: 50 * 1472 * 8 * 20,
            payload: 1472,
            from: 0,
            until: 50_000_000,
            pattern: Pattern::Steady,
        };
        let to = |_| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let reports = run(&[flow], to, Duration::from_secs(10)).expect("runs");
        assert_eq!((reports[0].sent(), reports[0].replies()), (50, 50));
        assert_eq!(reports[0].corrupt(), 0);
        server.join().expect("ends");
    }
}
