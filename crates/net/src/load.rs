//! The load generator over ordinary sockets: the flows of [`crate::wire::Generator`], sent from the
//! host's own stack, for a veth or a real network.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use weft_sys::clock;
use weft_sys::poll::{self, Entry, Interest};

use crate::plan::{self, ECHO_PORT};
use crate::wire::{Flow, FlowReport, Pattern, interval, write_payload};

struct Running {
    flow: Flow,
    socket: UdpSocket,
    next: u64,
    last: u64,
    payload: Vec<u8>,
}

/// Runs the flows until the last has ended and nothing has come for `patience`. `to`: where the
/// client of a flow is reached; [`client_address`] for those of a system.
///
/// # Errors
/// If a socket cannot be made or connected.
pub fn run(
    flows: &[Flow],
    to: impl Fn(usize) -> SocketAddrV4,
    patience: Duration,
) -> io::Result<Vec<FlowReport>> {
    let mut running = Vec::new();
    for flow in flows {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(to(flow.client))?;
        socket.set_nonblocking(true)?;
        running.push(Running {
            flow: *flow,
            socket,
            next: if flow.bits == 0 { u64::MAX } else { flow.from },
            last: 0,
            payload: vec![crate::wire::FILL; flow.payload.clamp(24, 1472)],
        });
    }
    let mut reports: Vec<FlowReport> = flows.iter().map(|_| FlowReport::new()).collect();
    let began = clock::monotonic();
    let mut heard = began;
    let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let mut buffer = [0; 2048];
    loop {
        let mut soonest = u64::MAX;
        let mut moved = false;
        for (flow, report) in running.iter_mut().zip(&mut reports) {
            for _ in 0..64 {
                let Ok(length) = flow.socket.recv(&mut buffer) else {
                    break;
                };
                let now = clock::monotonic();
                heard = now;
                moved = true;
                let bytes = (report.bytes, report.unasked_bytes);
                report.count(&buffer[..length], now, &mut flow.last);
                if now - began > flow.flow.until {
                    // A reply, but no throughput: the load has ended.
                    (report.bytes, report.unasked_bytes) = bytes;
                }
            }
            let passed = clock::monotonic() - began;
            let mut burst = 0;
            while flow.next <= passed && flow.next < flow.flow.until && burst < 64 {
                // The time at which it was due: a generator that is late shows as latency.
                write_payload(&mut flow.payload, report.sent, began + flow.next);
                // A frame that the host's own queue has no room for is lost as any other.
                let _ = flow.socket.send(&flow.payload);
                report.sent += 1;
                burst += 1;
                moved = true;
                let group = match flow.flow.pattern {
                    Pattern::Steady => 1,
                    Pattern::Bursts(size) => u64::from(size.max(1)),
                };
                let due = report.sent / group * group;
                flow.next = flow.flow.from + (due as f64 * interval(&flow.flow)) as u64;
            }
            if flow.next < flow.flow.until {
                soonest = soonest.min(began + flow.next);
            }
        }
        let now = clock::monotonic();
        if soonest == u64::MAX {
            let complete = reports.iter().all(|report| report.replies >= report.sent);
            if complete || now.saturating_sub(heard.max(began)) > patience {
                return Ok(reports);
            }
        }
        if !moved {
            let limit = soonest.saturating_sub(now).min(patience);
            let mut entries: Vec<Entry<'_>> = running
                .iter()
                .map(|flow| Entry::new(&flow.socket, Interest::Read))
                .collect();
            poll::wait(&mut entries, Some(Duration::from_nanos(limit)))?;
        }
    }
}

/// Where the client of a system is reached.
#[must_use]
pub fn client_address(client: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(plan::ip(client)), ECHO_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((reports[0].sent, reports[0].replies), (50, 50));
        assert_eq!(reports[0].corrupt, 0);
        server.join().expect("ends");
    }
}
