//! One measurement of a system: so much load for so long, and what came of it.
//!
//! The system runs as threads (or as one thread) of the measuring process, with the same components
//! and the same memory as in processes. Load comes from the far end of a virtual wire, or through a
//! veth from the host's own stack.

use std::io;
use std::net::UdpSocket;
use std::sync::PoisonError;
use std::time::Duration;

use weft_sys::netns::NetworkNamespace;
use weft_sys::{clock, usage};

use crate::description::Description;
use crate::load;
use crate::system::{Id, System, Tap, Threads};
use crate::wire::{Access, Flow, FlowReport, Generator, Pattern, Shape, Veth};

/// On which wire, and against what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ground {
    /// The virtual wire of 1 Gbit/s.
    Virtual,
    /// A veth, read by the best driver that works.
    Veth,
    /// The far end of a veth with a plain socket program instead of the system.
    Sockets,
}

/// What is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The system.
    pub description: Description,
    /// Mbit/s of payload towards each client, in order.
    pub rates: Vec<u64>,
    /// Where.
    pub ground: Ground,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// By client.
    pub reports: Vec<FlowReport>,
    /// How long load was sent, in seconds.
    pub seconds: f64,
    /// By client: frames handed to it.
    pub handled: Vec<u64>,
    /// Processor time of each component, in seconds.
    pub components: Vec<(String, f64)>,
    /// Processor time of the whole process, generator included, in seconds.
    pub process: f64,
    /// Busy part of each core of the machine, 0 to 1: of all programs.
    pub cores: Vec<f64>,
}

impl Measured {
    /// Mbit/s of payload that came back from a client, or was sent by it unasked.
    #[must_use]
    pub fn rate(&self, client: usize) -> f64 {
        let report = &self.reports[client];
        (report.bytes + report.unasked_bytes) as f64 * 8e-6 / self.seconds
    }

    /// Mbit/s of payload that a client got; 0 where only replies are known.
    #[must_use]
    pub fn received(&self, client: usize) -> f64 {
        let frames = self.handled.get(client).copied().unwrap_or(0);
        frames as f64 * 1472.0 * 8e-6 / self.seconds
    }

    /// A quantile of the round trips of a client, in µs.
    #[must_use]
    pub fn round_trip(&self, client: usize, quantile: f64) -> f64 {
        self.reports[client].times.value_at_quantile(quantile) as f64 / 1e3
    }

    /// Processor time of the components in per cent of one core. The generator at the far end of a
    /// virtual wire runs in the driver's thread and is in it.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all: f64 = self.components.iter().map(|(_, seconds)| seconds).sum();
        100.0 * all / self.seconds
    }
}

fn flows(rates: &[u64], length: Duration) -> Vec<Flow> {
    let until = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let flow = |(client, &megabits): (usize, &u64)| Flow {
        client,
        bits: megabits * 1_000_000,
        payload: 1472,
        from: 0,
        until,
        pattern: Pattern::Steady,
    };
    rates.iter().enumerate().map(flow).collect()
}

/// How long replies are waited for after the load.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs the load for so long.
///
/// # Errors
/// If the system cannot be started, or a privilege for a veth is missing; it says which.
pub fn measure(setting: &Setting, length: Duration) -> io::Result<Measured> {
    match setting.ground {
        Ground::Virtual => on_virtual(setting, length),
        Ground::Veth => on_veth(setting, length),
        Ground::Sockets => on_sockets(setting, length),
    }
}

struct Clocks {
    handled: Vec<u64>,
    components: Vec<u64>,
    process: u64,
    cores: Vec<(u64, u64)>,
}

fn clocks(threads: Option<&Threads>) -> Clocks {
    let components = threads.map_or(Vec::new(), |threads| {
        let all = threads.system.components();
        all.iter()
            .map(|&id| threads.system.board(id).time())
            .collect()
    });
    let handled = threads.map_or(Vec::new(), |threads| {
        let clients = 0..threads.system.description.clients.len();
        let frames = |index| threads.system.board(Id::RxCopier(index)).counters(1).frames;
        clients.map(frames).collect()
    });
    let used = usage::of_process();
    Clocks {
        handled,
        components,
        process: (used.user + used.system).as_nanos() as u64,
        cores: core_times(),
    }
}

/// Busy and total ticks of each core, from `/proc/stat`; empty where it cannot be read.
fn core_times() -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_core = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        name.strip_prefix("cpu")?.parse::<u32>().ok()?;
        let ticks: Vec<u64> = rest
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let all: u64 = ticks.iter().take(8).sum();
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some((all - idle, all))
    };
    text.lines().filter_map(of_core).collect()
}

fn difference(
    before: &Clocks,
    after: &Clocks,
    names: Vec<String>,
    reports: Vec<FlowReport>,
    seconds: f64,
) -> Measured {
    let spent = after.components.iter().zip(&before.components);
    let spent = spent.map(|(after, before)| after.saturating_sub(*before) as f64 / 1e9);
    let core = |(after, before): (&(u64, u64), &(u64, u64))| {
        (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
    };
    Measured {
        reports,
        seconds,
        handled: after
            .handled
            .iter()
            .zip(&before.handled)
            .map(|(after, before)| after - before)
            .collect(),
        components: names.into_iter().zip(spent).collect(),
        process: after.process.saturating_sub(before.process) as f64 / 1e9,
        cores: after.cores.iter().zip(&before.cores).map(core).collect(),
    }
}

fn names(threads: &Threads) -> Vec<String> {
    let all = threads.system.components();
    all.into_iter().map(|id| threads.system.name(id)).collect()
}

fn on_virtual(setting: &Setting, length: Duration) -> io::Result<Measured> {
    let system = System::create(setting.description.clone())?;
    let (mut generator, reports) = Generator::new(&flows(&setting.rates, length));
    // The first frames find everybody up.
    let began = clock::monotonic() + 5_000_000;
    generator.begin(began);
    let tap = Tap::virtual_wire(Shape::default(), Box::new(generator));
    let threads = Threads::start(system, tap)?;
    let before = clocks(Some(&threads));
    let bell = weft_sys::event::Ear::new()?;
    // What comes after the load has ended is no throughput.
    let end = began + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    while clock::monotonic() < end {
        bell.wait(Some(end))?;
    }
    let after = clocks(Some(&threads));
    let names = names(&threads);
    threads.stop()?;
    let reports = reports
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    Ok(difference(
        &before,
        &after,
        names,
        reports,
        length.as_secs_f64(),
    ))
}

fn on_veth(setting: &Setting, length: Duration) -> io::Result<Measured> {
    let system = System::create(setting.description.clone())?;
    let veth = Veth::create()?;
    let access = Access::to_veth(&veth, None, system.card_buffers())?;
    let threads = Threads::start(system, Tap::plug(access.plug()?)?)?;
    let flows = flows(&setting.rates, length);
    // A few datagrams first, so that addresses are known.
    warm_up(&veth.namespace, setting.rates.len())?;
    let before = clocks(Some(&threads));
    let reports = veth
        .namespace
        .run(|| load::run(&flows, load::client_address, PATIENCE))?;
    let after = clocks(Some(&threads));
    let names = names(&threads);
    threads.stop()?;
    let seconds = length.as_secs_f64();
    Ok(difference(&before, &after, names, reports, seconds))
}

/// Until every client has answered once, so that addresses are known and everybody runs.
fn warm_up(namespace: &NetworkNamespace, clients: usize) -> io::Result<()> {
    let flows = flows(&vec![1; clients], Duration::from_millis(20));
    for _ in 0..50 {
        let patience = Duration::from_millis(100);
        let reports = namespace.run(|| load::run(&flows, load::client_address, patience))?;
        if reports.iter().all(|report| report.replies > 0) {
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "a client did not answer within five seconds: the machine is too busy to measure",
    ))
}

/// The plain program: a socket for each client that reads and writes back, behind a second veth end
/// with the clients' addresses.
fn on_sockets(setting: &Setting, length: Duration) -> io::Result<Measured> {
    let veth = Veth::create()?;
    let clients = setting.rates.len();
    let other = NetworkNamespace::create()?;
    veth.hand_over(&other, clients)?;
    let mut servers = Vec::new();
    let mut sockets = Vec::new();
    for client in 0..clients {
        let socket = other.run(|| UdpSocket::bind(load::client_address(client)))?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        sockets.push(socket);
    }
    let stop = std::sync::Arc::new(weft_atomic::AtomicBool::new(false));
    for socket in sockets {
        let stop = stop.clone();
        servers.push(std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !stop.load(weft_atomic::Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..length], from);
                }
            }
        }));
    }
    warm_up(&veth.namespace, clients)?;
    let flows = flows(&setting.rates, length);
    let before = clocks(None);
    let reports = veth
        .namespace
        .run(|| load::run(&flows, load::client_address, PATIENCE));
    let after = clocks(None);
    stop.store(true, weft_atomic::Ordering::Relaxed);
    for server in servers {
        let _ = server.join();
    }
    Ok(difference(
        &before,
        &after,
        Vec::new(),
        reports?,
        length.as_secs_f64(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Work;
    use crate::description::Run;

    #[test]
    fn every_ground_answers_or_says_what_it_lacks() {
        for ground in [Ground::Virtual, Ground::Veth, Ground::Sockets] {
            for run in [Run::Threads, Run::Fused] {
                let mut description = Description::of(&[Work::Echo; 2]);
                description.run = run;
                let setting = Setting {
                    description,
                    rates: vec![20, 10],
                    ground,
                };
                match measure(&setting, Duration::from_millis(100)) {
                    Ok(found) => {
                        for client in 0..2 {
                            let report = &found.reports[client];
                            assert!(report.sent > 50, "{ground:?} {run:?} {report:?}");
                            assert!(
                                report.replies * 2 > report.sent,
                                "{ground:?} {run:?} {report:?}"
                            );
                            assert_eq!(report.corrupt, 0);
                            assert!(
                                found.round_trip(client, 0.5) > 0.0 && found.rate(client) > 0.0
                            );
                        }
                        assert!(found.process > 0.0);
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(ground != Ground::Virtual, "{text}");
                        assert!(text.contains("CAP_") || text.contains("ip"), "{text}");
                    }
                }
            }
        }
    }
}
