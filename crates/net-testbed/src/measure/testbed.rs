//! Testbeds: everything that is set up for a measurement, and taken down after it.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use weft_atomic::{AtomicU64, Ordering};
use weft_net::broker::{self, Answer, Broker, Question, Start};
use weft_net::description::{Description, WireDescription};
use weft_net::system::{ComponentId, System, Threads, WireEnds};
use weft_net::wire::{Access, Shape, Veth};
use weft_sys::netns::NetworkNamespace;
use weft_sys::{clock, cores};

use super::clocks::Clocks;
use super::reflector::Reflector;
use super::{Measured, Setting};
use crate::flow::Flow;
use crate::generator::Generator;
use crate::load;
use crate::report::FlowReport;

fn flows(rates: &[u64], length: Duration) -> Vec<Flow> {
    let until = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let flow = |(client, &megabits)| Flow::steady(client, megabits).ending_at(until);
    rates.iter().enumerate().map(flow).collect()
}

/// The description of a setting, with its components on core 0 if requested.
fn description(setting: &Setting) -> Description {
    let mut description = setting.description.clone();
    if setting.apart {
        let clients = description.clients.iter().map(|client| &client.name);
        let names = clients.flat_map(|name| {
            let copiers = ["rx-copier-", "tx-copier-", ""];
            copiers.map(|role| format!("{role}{name}"))
        });
        let names: Vec<String> = ["driver", "tx-driver", "rx-mux", "tx-mux"]
            .map(String::from)
            .into_iter()
            .chain(names)
            .collect();
        let cores = &mut description.cores.of;
        cores.extend(names.into_iter().map(|name| (name, 0)));
    }
    description
}

/// The load of a setting, from the namespace of its far end.
fn send_load(
    setting: &Setting,
    namespace: &NetworkNamespace,
    length: Duration,
) -> io::Result<Vec<FlowReport>> {
    let flows = flows(&setting.rates, length);
    namespace.run(|| {
        if setting.apart {
            cores::pin(&[1])?;
        }
        load::run(&flows, load::client_address, PATIENCE)
    })
}

/// How long to wait for replies after the load.
const PATIENCE: Duration = Duration::from_millis(50);

/// The clocks of a system in this process, or without one.
fn clocks(threads: Option<&Threads>) -> Clocks {
    let Some(threads) = threads else {
        return Clocks::read(Vec::new(), Vec::new(), &[]);
    };
    let system = threads.system();
    let components = system.components().into_iter();
    let components = components
        .map(|id| system.control_page(id).time())
        .collect();
    let clients = 0..system.description().clients.len();
    let handled = clients.map(|index| {
        system
            .control_page(ComponentId::RxCopier(index))
            .counters(1)
            .frames
    });
    Clocks::read(handled.collect(), components, &[])
}

fn difference(
    before: &Clocks,
    after: &Clocks,
    names: Vec<String>,
    reports: Vec<FlowReport>,
    seconds: f64,
) -> Measured {
    let pairs = |after: &[u64], before: &[u64]| -> Vec<u64> {
        let pairs = after.iter().zip(before);
        pairs
            .map(|(after, before)| after.saturating_sub(*before))
            .collect()
    };
    let spent = pairs(&after.components, &before.components);
    let spent = spent
        .into_iter()
        .map(|nanoseconds| nanoseconds as f64 / 1e9);
    Measured {
        reports,
        seconds,
        handled: pairs(&after.handled, &before.handled),
        components: names.into_iter().zip(spent).collect(),
        all: after.all.saturating_sub(before.all) as f64 / 1e9,
        cores: after.busy_since(before),
    }
}

fn names(threads: &Threads) -> Vec<String> {
    let all = threads.system().components();
    all.into_iter()
        .map(|id| threads.system().name(id))
        .collect()
}

pub(super) fn on_virtual(setting: &Setting, length: Duration) -> io::Result<Measured> {
    let system = System::create(setting.description.clone())?;
    let (mut generator, reports) = Generator::new(&flows(&setting.rates, length));
    // All components are up before the first frames.
    let began = clock::monotonic() + 5_000_000;
    generator.begin(began);
    let wire = WireEnds::virtual_wire(Shape::default(), Box::new(generator));
    let threads = Threads::start(system, wire)?;
    let before = clocks(Some(&threads));
    let nobody = weft_sys::event::EventWaiter::new()?;
    // Frames that arrive after the end of the load are not throughput.
    let end = began + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    while clock::monotonic() < end {
        nobody.wait(Some(end))?;
    }
    let after = clocks(Some(&threads));
    let names = names(&threads);
    threads.stop()?;
    let reports = reports.lock().clone();
    Ok(difference(
        &before,
        &after,
        names,
        reports,
        length.as_secs_f64(),
    ))
}

pub(super) fn on_veth(setting: &Setting, length: Duration) -> io::Result<Measured> {
    let system = System::create(description(setting))?;
    let veth = Veth::create()?;
    let driver = match &setting.description.wire {
        WireDescription::Veth { driver } => *driver,
        _ => None,
    };
    let access = Access::to_veth(&veth, driver, system.card_buffers())?;
    let threads = Threads::start(system, WireEnds::plug(access.plug()?)?)?;
    // A few datagrams first, so that addresses are known.
    warm_up(&veth.namespace, &setting.rates)?;
    let before = clocks(Some(&threads));
    let reports = send_load(setting, &veth.namespace, length)?;
    let after = clocks(Some(&threads));
    let names = names(&threads);
    threads.stop()?;
    let seconds = length.as_secs_f64();
    Ok(difference(&before, &after, names, reports, seconds))
}

/// Measures a system of processes, with a broker in a thread of this one.
pub(super) fn on_processes(
    setting: &Setting,
    length: Duration,
    start: &Start,
) -> io::Result<Measured> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut description = description(setting);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    description.name = format!("measured-{}-{number}", std::process::id());
    if !matches!(description.wire, WireDescription::Veth { .. }) {
        description.wire = WireDescription::Veth { driver: None };
    }
    let name = description.name.clone();
    let mut broker = Broker::up(description, start.clone())?;
    let serving = std::thread::spawn(move || broker.serve());
    let measured = load_processes(setting, length, &name);
    let down = broker::ask(&name, &Question::Down);
    let served = serving
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the broker panicked")));
    down?;
    served?;
    measured
}

fn load_processes(setting: &Setting, length: Duration, name: &str) -> io::Result<Measured> {
    let status = || match broker::ask(name, &Question::Status)? {
        Answer::Status(status) => Ok(status),
        other => Err(io::Error::other(format!("an unexpected answer: {other:?}"))),
    };
    let found = status()?;
    let path = found
        .namespace
        .ok_or_else(|| io::Error::other("a veth has a namespace"))?;
    let namespace = NetworkNamespace::adopt(std::fs::File::open(path)?.into());
    let names = found.components.into_iter().map(|one| one.name).collect();
    warm_up(&namespace, &setting.rates)?;
    let clocks = || -> io::Result<Clocks> {
        let found = status()?;
        let processes: Vec<u32> = found.components.iter().map(|one| one.process).collect();
        let spent = found
            .components
            .iter()
            .map(|one| (one.seconds * 1e9) as u64);
        let handled = found.clients.iter().map(|client| client.received);
        Ok(Clocks::read(handled.collect(), spent.collect(), &processes))
    };
    let before = clocks()?;
    let reports = send_load(setting, &namespace, length)?;
    let after = clocks()?;
    let seconds = length.as_secs_f64();
    Ok(difference(&before, &after, names, reports, seconds))
}

/// Sends until every client has answered or sent, so that addresses are known and all components run. Enough
/// for a client that answers seldom.
fn warm_up(namespace: &NetworkNamespace, rates: &[u64]) -> io::Result<()> {
    let flows = flows(&vec![100; rates.len()], Duration::from_millis(20));
    // Clients that are up answer at once; datagrams to one that is not up yet are repeated.
    for _ in 0..125 {
        let patience = Duration::from_millis(20);
        let reports = namespace.run(|| load::run(&flows, load::client_address, patience))?;
        if reports
            .iter()
            .all(|report| report.replies() + report.unasked() > 0)
        {
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "a client did not answer within five seconds: the machine is too busy to measure",
    ))
}

/// Measures the plain program: a socket for each client that reads and writes back, behind a second veth end
/// with the clients' addresses.
pub(super) fn on_sockets(setting: &Setting, length: Duration) -> io::Result<Measured> {
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
        let apart = setting.apart;
        servers.push(std::thread::spawn(move || {
            if apart && cores::pin(&[0]).is_err() {
                return;
            }
            let mut buffer = [0; 2048];
            while !stop.load(weft_atomic::Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..length], from);
                }
            }
        }));
    }
    warm_up(&veth.namespace, &setting.rates)?;
    let before = clocks(None);
    let reports = send_load(setting, &veth.namespace, length);
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

/// Measures a thread that sends frames straight back.
pub(super) fn on_reflector(setting: &Setting, length: Duration) -> io::Result<Measured> {
    /// As many as the card of a system of a few clients has.
    const BUFFERS: u32 = 1024;
    let veth = Veth::create()?;
    let access = Access::to_veth(&veth, None, BUFFERS)?;
    let reflector = Reflector::new(access.plug()?, BUFFERS)?;
    let stop = weft_atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            if setting.apart {
                cores::pin(&[0])?;
            }
            reflector.run(&stop)
        });
        let measured = warm_up(&veth.namespace, &setting.rates).and_then(|()| {
            let before = clocks(None);
            let reports = send_load(setting, &veth.namespace, length)?;
            Ok((before, clocks(None), reports))
        });
        stop.store(true, Ordering::Relaxed);
        let ran = running.join();
        ran.unwrap_or_else(|_| Err(io::Error::other("the thread that sends back panicked")))?;
        let (before, after, reports) = measured?;
        let seconds = length.as_secs_f64();
        Ok(difference(&before, &after, Vec::new(), reports, seconds))
    })
}
