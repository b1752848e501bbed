use std::sync::MutexGuard;
use std::time::Duration;

use weft_net::client::Work;
use weft_net::description::{DriverThreads, Run};
use weft_net::policy::{CLIENTS, Order};
use weft_net::system::{Capabilities, Reattached, Threads};
use weft_sys::MemoryFile;
use weft_sys::random::SeededRandom;

use super::*;
use crate::flow::{Flow, Pattern};
use crate::generator::{Generator, Reports};
use crate::report::FlowReport;

fn flow(client: usize, megabits: u64, milliseconds: u64) -> Flow {
    Flow::steady(client, megabits).ending_at(milliseconds * 1_000_000)
}

/// A simulation under load, and its results.
struct Loaded {
    simulation: Simulation,
    reports: Reports,
}

impl Loaded {
    fn new(description: Description, flows: &[Flow]) -> Self {
        Self::without(description, flows, None)
    }

    /// A simulation in which one component is absent.
    fn without(description: Description, flows: &[Flow], absent: Option<ComponentId>) -> Self {
        let (mut generator, reports) = Generator::new(flows);
        generator.begin(BEGIN);
        let simulation = Simulation::new(description, Box::new(generator), absent);
        Self {
            simulation: simulation.expect("memory files exist here"),
            reports,
        }
    }

    fn run(&mut self, milliseconds: u64) {
        self.simulation.run(milliseconds * 1_000_000);
    }

    fn system(&self) -> &System {
        self.simulation.system()
    }

    fn reports(&self) -> MutexGuard<'_, Vec<FlowReport>> {
        self.reports.lock()
    }

    /// Mbit/s of payload that came back, by flow, since the last time.
    fn rates(&self, milliseconds: u64, before: &mut Vec<u64>) -> Vec<f64> {
        let now = self.reports.throughput_bytes();
        before.resize(now.len(), 0);
        let rates = now.iter().zip(before.iter());
        let rates = rates.map(|(now, before)| (now - before) as f64 * 8e-3 / milliseconds as f64);
        let rates = rates.collect();
        *before = now;
        rates
    }
}

#[test]
fn two_equal_clients_get_what_they_ask_and_content_is_whole() {
    let mut loaded = Loaded::new(
        Description::of(&[Work::Echo; 2]),
        &[flow(0, 300, 200), flow(1, 400, 200)],
    );
    loaded.run(250);
    for report in loaded.reports().iter() {
        assert!(report.sent() > 5_000);
        assert_eq!(report.replies(), report.sent(), "no frame is lost");
        assert_eq!(
            (report.corrupt(), report.reordered(), report.unasked()),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_limited_client_gets_its_limit_and_the_other_is_unharmed() {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.clients[1].limit = 100_000_000;
    let mut loaded = Loaded::new(description, &[flow(0, 400, 2_000), flow(1, 400, 2_000)]);
    loaded.run(500);
    let mut before = Vec::new();
    loaded.rates(500, &mut before);
    loaded.run(1_000);
    let rates = loaded.rates(1_000, &mut before);
    // Limits count whole frames: 1472 of 1514 bytes are payload.
    assert!(
        (rates[1] / (100.0 * 1472.0 / 1514.0) - 1.0).abs() < 0.01,
        "{rates:?}"
    );
    assert!((rates[0] / 400.0 - 1.0).abs() < 0.01, "{rates:?}");
}

#[test]
fn the_policy_changes_live_without_losing_a_frame() {
    // Four clients that send by themselves, more than the wire carries: the policy determines the shares.
    let works = [Work::TransmitInitiated { bits: 600_000_000 }; 4];
    let flows: Vec<Flow> = (0..4).map(|client| flow(client, 0, 10_000)).collect();
    let mut loaded = Loaded::new(Description::of(&works), &flows);
    let mut before = Vec::new();
    loaded.run(300);
    loaded.rates(300, &mut before);
    let mut choice = loaded.system().description().choice();
    for (order, weights, limits) in [
        (Order::RoundRobin, [1, 1, 1, 1], [0; 4]),
        (Order::Weighted, [4, 2, 1, 1], [0; 4]),
        (Order::Weighted, [1, 1, 1, 5], [0; 4]),
        (Order::RoundRobin, [1, 1, 1, 1], [50_000_000, 0, 0, 0]),
    ] {
        choice.order = order;
        choice.weights = weights.to_vec();
        choice.limits = limits.to_vec();
        loaded.simulation.system_mut().set_policy(&choice);
        loaded.run(50);
        loaded.rates(50, &mut before);
        loaded.run(1_000);
        let rates = loaded.rates(1_000, &mut before);
        let all: f64 = rates.iter().sum();
        assert!(all > 940.0, "the wire is full: {rates:?}");
        if limits[0] > 0 {
            let due = 50.0 * 1472.0 / 1514.0;
            assert!((rates[0] / due - 1.0).abs() < 0.01, "{rates:?}");
        } else {
            let sum: u32 = weights.iter().sum();
            for (rate, weight) in rates.iter().zip(weights) {
                let due = all * f64::from(weight) / f64::from(sum);
                assert!((rate / due - 1.0).abs() < 0.03, "{order:?} {rates:?}");
            }
        }
    }
    for client in 0..4 {
        let counters = loaded
            .system()
            .control_page(ComponentId::TxMux)
            .counters(1 + client);
        assert_eq!((counters.faults, counters.reclaimed), (0, 0));
    }
}

#[test]
fn a_limited_receive_queue_limits_its_client_alone() {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.clients[1].rx_queue = Some(16);
    let mut bursts = flow(1, 400, 200);
    bursts.pattern = Pattern::Bursts(64);
    let mut loaded = Loaded::new(description, &[flow(0, 400, 200), bursts]);
    loaded.run(250);
    let reports = loaded.reports();
    assert_eq!(reports[0].replies(), reports[0].sent());
    assert!(reports[1].replies() <= reports[1].sent());
}

#[test]
fn a_client_that_never_returns_buffers_costs_the_others_nothing() {
    let description = Description::of(&[Work::Echo; 2]);
    let flows = [flow(0, 450, 300), flow(1, 450, 300)];
    let mut loaded = Loaded::without(description, &flows, Some(ComponentId::Client(1)));
    loaded.run(350);
    let reports = loaded.reports();
    assert_eq!(reports[0].replies(), reports[0].sent());
    assert_eq!(reports[1].replies(), 0);
    let counters = loaded
        .system()
        .control_page(ComponentId::RxCopier(1))
        .counters(1);
    assert_eq!(counters.frames, 512, "as many as fit");
    assert!(counters.full + counters.starved > 10_000, "{counters:?}");
}

/// Ten million hostile words in the channels of one client of a running system, with and without a
/// client-side driver.
#[test]
fn a_hostile_client_harms_itself_alone() {
    let loaded = beside_hostile_words(false, 9_000_000);
    let faults = loaded
        .system()
        .control_page(ComponentId::TxMux)
        .counters(2)
        .faults
        + loaded
            .system()
            .control_page(ComponentId::RxCopier(1))
            .counters(1)
            .faults;
    assert!(faults > 1_000, "{faults}");
}

#[test]
fn behind_a_client_side_driver_nobody_else_sees_a_hostile_word() {
    let loaded = beside_hostile_words(true, 1_000_000);
    let faults = |id, port| loaded.system().control_page(id).counters(port).faults;
    assert_eq!(
        (
            faults(ComponentId::TxMux, 2),
            faults(ComponentId::RxCopier(1), 1)
        ),
        (0, 0)
    );
    let own = faults(ComponentId::ClientDriver(1), 1) + faults(ComponentId::ClientDriver(1), 2);
    assert!(own > 1_000, "{own}");
}

/// The other client is served with whole frames in order.
fn beside_hostile_words(driver: bool, words: u64) -> Loaded {
    use weft_atomic::Ordering;
    let mut description = Description::of(&[Work::Echo; 2]);
    description.clients[1].driver = driver;
    let flows = [flow(0, 300, 100_000), flow(1, 100, 100_000)];
    let mut loaded = Loaded::without(description, &flows, Some(ComponentId::Client(1)));
    let capabilities = loaded.system().capabilities(ComponentId::Client(1));
    let channels = capabilities
        .and_then(Capabilities::into_channels)
        .expect("descriptors are left")
        .map(|(memory, _)| memory);
    let mut random = SeededRandom::new(44);
    let mut written = 0u64;
    while written < words {
        for _ in 0..1_000 {
            let noise = random.next_u64();
            let memory = &channels[(noise & 1) as usize];
            let ring = memory.len() / 2 * (noise >> 1 & 1) as usize;
            let (offset, word) = match noise >> 60 {
                // Its own index: near the other side's, where it is accepted, and far from it.
                0..5 => {
                    let consumes = (noise & 1 == 0) == (ring == 0);
                    let (own, other) = if consumes { (128, 0) } else { (0, 128) };
                    let truth = memory.atomic_u64(ring + other).expect("within");
                    let truth = truth.load(Ordering::Relaxed);
                    let near = truth.wrapping_add(noise >> 20 & 0x3ff).wrapping_sub(0x100);
                    (own, if noise >> 60 < 4 { near } else { noise })
                }
                5 => (256, noise & 1),
                // Descriptors: well-formed, and not.
                6..12 => (
                    384 + 8 * (noise >> 8 & 511) as usize,
                    (noise >> 20 & 0x3ff) << 11 | 60 << 32,
                ),
                _ => (384 + 8 * (noise >> 8 & 511) as usize, noise.rotate_left(17)),
            };
            let word_there = memory.atomic_u64(ring + offset).expect("within");
            word_there.store(word, Ordering::Relaxed);
            written += 1;
        }
        let simulation = &mut loaded.simulation;
        for _ in 0..4 {
            while simulation.step() && random.up_to(63) != 0 {}
            simulation.advance(simulation.now() + 1_000_000_000);
        }
    }
    let reports = loaded.reports();
    assert!(
        reports[0].sent() > words / 10_000,
        "{:?}",
        reports[0].sent()
    );
    // The last few are still on their way.
    assert!(
        reports[0].replies() + 64 > reports[0].sent(),
        "{} of {}",
        reports[0].replies(),
        reports[0].sent()
    );
    assert_eq!((reports[0].corrupt(), reports[0].reordered()), (0, 0));
    drop(reports);
    loaded
}

#[test]
fn virtual_time_is_deterministic() {
    let run = || {
        let mut loaded = Loaded::new(
            Description::of(&[Work::Echo, Work::ReceiveMostly { every: 10 }]),
            &[flow(0, 200, 50), flow(1, 300, 50)],
        );
        loaded.run(80);
        let reports = loaded.reports();
        let of =
            |report: &FlowReport| (report.sent(), report.replies(), report.round_trips().max());
        reports.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// Threads or one thread, in real time: starts, serves, restarts what is killed.
fn serve(run: Run, two: DriverThreads, kill: &[ComponentId]) -> Vec<FlowReport> {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.run = run;
    description.driver_threads = two;
    description.clients[0].driver = true;
    description.clients[1].tx_copier = true;
    description.clients[1].driver = true;
    let system = System::create(description).expect("memory files exist here");
    let (mut generator, reports) = Generator::new(&[flow(0, 20, 400), flow(1, 20, 400)]);
    generator.begin(weft_sys::clock::monotonic());
    let wire = WireEnds::virtual_wire(Shape::default(), Box::new(generator));
    let mut threads = Threads::start(system, wire).expect("threads can be started");
    for &id in kill {
        std::thread::sleep(Duration::from_millis(30));
        threads.kill(id).expect("it ends");
        threads.restart(id, None).expect("a successor starts");
    }
    let mut last = (0, weft_sys::clock::monotonic());
    let ends = weft_sys::clock::deadline_after(Duration::from_secs(20));
    // Until nothing came for a while: no time is asserted.
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let now = weft_sys::clock::monotonic();
        let found = reports.lock();
        let replies: u64 = found.iter().map(|report| report.replies()).sum();
        let sent: u64 = found.iter().map(|report| report.sent()).sum();
        if replies != last.0 {
            last = (replies, now);
        }
        let all_sent = sent >= 2 * 679;
        if (all_sent && (replies == sent || now - last.1 > 300_000_000)) || now > ends {
            break;
        }
    }
    threads.stop().expect("all end well");
    reports.lock().clone()
}

#[test]
fn threads_serve_and_end() {
    for (run, two) in [
        (Run::Threads, DriverThreads::One),
        (Run::Threads, DriverThreads::Two),
        (Run::Fused, DriverThreads::One),
    ] {
        for report in serve(run, two, &[]) {
            // Another program may hold the cores longer than the card's buffers last.
            assert!(
                report.replies() * 10 > report.sent() * 9,
                "{run:?} {report:?}"
            );
            assert_eq!(report.corrupt(), 0);
        }
    }
}

#[test]
fn a_component_that_dies_is_replaced_and_service_goes_on() {
    let kill = [
        ComponentId::RxMux,
        ComponentId::TxMux,
        ComponentId::RxCopier(0),
        ComponentId::TxCopier(1),
        ComponentId::Client(0),
        ComponentId::ClientDriver(1),
        ComponentId::Client(1),
    ];
    for report in serve(Run::Threads, DriverThreads::One, &kill) {
        assert!(report.replies() * 2 > report.sent(), "{report:?}");
        assert_eq!(report.corrupt(), 0);
    }
}

/// A guest and an echo client, with the optional components in front of the guest.
fn with_guest(driver: bool, tx_copier: bool, two: DriverThreads) -> Description {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.driver_threads = two;
    description.clients[1].driver = driver;
    description.clients[1].tx_copier = tx_copier;
    description
}

const GUEST: ComponentId = ComponentId::Client(1);

fn reattach(system: &mut System, gone: ComponentId) -> Reattached {
    let first = system.reattach(gone, 0).expect("memory is left");
    let second = system.reattach(gone, 1).expect("memory is left");
    assert!(second.cut_off.is_empty());
    first
}

#[test]
fn every_description_serves_each_successor_and_no_frame_of_another_leaves() {
    for (driver, tx_copier) in [(false, false), (false, true), (true, false), (true, true)] {
        let flows = [flow(0, 100, 60_000), flow(1, 400, 60_000)];
        let description = with_guest(driver, tx_copier, DriverThreads::One);
        let mut loaded = Loaded::without(description, &flows, Some(GUEST));
        for round in 0..20 {
            let capabilities = loaded.system().capabilities(GUEST).expect("left");
            let (_, descriptors) = capabilities.into_parts();
            let old: Vec<MemoryFile> = descriptors[2..4]
                .iter()
                .map(|file| MemoryFile::adopt(file.try_clone().expect("left")).expect("sealed"))
                .collect();
            drop(descriptors);
            loaded.simulation.start(GUEST).expect("built");
            let before = loaded.reports()[1].replies();
            loaded.run(20);
            let after = loaded.reports()[1].replies();
            assert!(after > before + 100, "round {round}: {before} {after}");
            // It ends with frames everywhere between it and the wire.
            loaded.simulation.end_last();
            let reattached = reattach(loaded.simulation.system_mut(), GUEST);
            assert!(reattached.cut_off.is_empty());
            // A component that is replaced before it has followed finds the newest memory, too.
            if round % 3 == 1 {
                reattach(loaded.simulation.system_mut(), GUEST);
            }
            loaded.run(1);
            for id in reattached.told {
                assert!(loaded.system().has_followed(id), "{id:?}");
            }
            assert!(loaded.system().is_settled(1));
            let contents = || -> Vec<Vec<u8>> {
                let read = |file: &MemoryFile| {
                    let memory = file.map().expect("maps");
                    let mut bytes = vec![0; memory.len()];
                    memory
                        .bytes(0, memory.len())
                        .expect("all of it")
                        .copy_to(&mut bytes);
                    bytes
                };
                old.iter().map(read).collect()
            };
            let left = contents();
            loaded.run(5);
            assert!(contents() == left, "what the predecessor had has changed");
        }
        let reports = loaded.reports();
        assert!(
            reports[0].replies() + 8 >= reports[0].sent(),
            "{driver} {tx_copier}"
        );
        for report in reports.iter() {
            assert_eq!((report.corrupt(), report.reordered()), (0, 0));
        }
        drop(reports);
        let counters = loaded.system().control_page(ComponentId::TxMux).counters(2);
        assert_eq!(counters.faults, 0, "{driver} {tx_copier} {counters:?}");
    }
}

#[test]
fn as_many_clients_as_there_can_be_are_served() {
    weft_sys::descriptor::raise_limit().expect("asked");
    let mut description = Description::of(&[Work::Echo; CLIENTS]);
    description.queue = 16;
    description.window = 16;
    let last = CLIENTS - 1;
    let mut loaded = Loaded::new(description, &[flow(0, 10, 20), flow(last, 10, 20)]);
    loaded.run(40);
    for report in loaded.reports().iter() {
        assert_eq!(report.replies(), report.sent());
    }
}
