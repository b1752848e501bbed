use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::*;
use crate::client::Work;
use crate::component::{Component, Fused};
use crate::description::Run;
use crate::policy::Order;
use crate::wire::{Flow, FlowReport, Generator, Pattern, Shape};

fn flow(client: usize, megabits: u64, milliseconds: u64) -> Flow {
    Flow {
        client,
        bits: megabits * 1_000_000,
        payload: 1472,
        from: 0,
        until: milliseconds * 1_000_000,
        pattern: Pattern::Steady,
    }
}

fn shape() -> Shape {
    Shape {
        moderation: 0,
        ..Shape::default()
    }
}

/// A whole system in virtual time: everything in turn, the clock jumps to the next deadline.
struct Simulation {
    system: System,
    all: Fused,
    now: u64,
    reports: std::sync::Arc<std::sync::Mutex<Vec<FlowReport>>>,
}

impl Simulation {
    fn new(description: Description, flows: &[Flow]) -> Self {
        Self::without(description, flows, None)
    }

    /// A system in which one component does nothing.
    fn without(description: Description, flows: &[Flow], absent: Option<Id>) -> Self {
        let system = System::create(description).expect("memory files exist here");
        let (mut generator, reports) = Generator::new(flows);
        generator.begin(1_000_000);
        let mut tap = Some(Tap::virtual_wire(shape(), Box::new(generator)));
        let mut components: Vec<Box<dyn Component>> = Vec::new();
        for id in system.components() {
            let tap = if id == Id::Driver { tap.take() } else { None };
            let mut grant = system.grant(id).expect("descriptors are left");
            grant.silent = true;
            if Some(id) == absent {
                continue;
            }
            components.push(grant.build(tap).expect("built").component);
        }
        Self {
            system,
            all: Fused(components),
            now: 1_000_000,
            reports,
        }
    }

    fn run(&mut self, milliseconds: u64) {
        let end = self.now + milliseconds * 1_000_000;
        while self.now < end {
            while self.all.step(self.now) {}
            let next = self.all.deadline().unwrap_or(end);
            self.now = next.max(self.now + 1_000).min(end);
        }
    }

    fn reports(&self) -> MutexGuard<'_, Vec<FlowReport>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mbit/s of payload that came back, by flow, since the last time.
    fn rates(&self, milliseconds: u64, before: &mut Vec<u64>) -> Vec<f64> {
        let now: Vec<u64> = self
            .reports()
            .iter()
            .map(|report| report.bytes + report.unasked_bytes)
            .collect();
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
    let mut simulation = Simulation::new(
        Description::of(&[Work::Echo; 2]),
        &[flow(0, 300, 200), flow(1, 400, 200)],
    );
    simulation.run(250);
    for report in simulation.reports().iter() {
        assert!(report.sent > 5_000);
        assert_eq!(report.replies, report.sent, "no frame is lost");
        assert_eq!(
            (report.corrupt, report.reordered, report.unasked),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_limited_client_gets_its_limit_and_the_other_is_unharmed() {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.clients[1].limit = 100_000_000;
    let mut simulation = Simulation::new(description, &[flow(0, 400, 2_000), flow(1, 400, 2_000)]);
    simulation.run(500);
    let mut before = Vec::new();
    simulation.rates(500, &mut before);
    simulation.run(1_000);
    let rates = simulation.rates(1_000, &mut before);
    // Limits are counted on whole frames: 1472 of 1514 bytes are payload.
    assert!(
        (rates[1] / (100.0 * 1472.0 / 1514.0) - 1.0).abs() < 0.01,
        "{rates:?}"
    );
    assert!((rates[0] / 400.0 - 1.0).abs() < 0.01, "{rates:?}");
}

#[test]
fn the_policy_changes_live_without_losing_a_frame() {
    // Four clients that send by themselves, more than the wire carries: shares are the policy's.
    let works = [Work::TransmitInitiated { bits: 600_000_000 }; 4];
    let flows: Vec<Flow> = (0..4).map(|client| flow(client, 0, 10_000)).collect();
    let mut simulation = Simulation::new(Description::of(&works), &flows);
    let mut before = Vec::new();
    simulation.run(300);
    simulation.rates(300, &mut before);
    let mut choice = simulation.system.description.choice();
    for (order, weights, limits) in [
        (Order::RoundRobin, [1, 1, 1, 1], [0; 4]),
        (Order::Weighted, [4, 2, 1, 1], [0; 4]),
        (Order::Weighted, [1, 1, 1, 5], [0; 4]),
        (Order::RoundRobin, [1, 1, 1, 1], [50_000_000, 0, 0, 0]),
    ] {
        choice.order = order;
        choice.weights = weights.to_vec();
        choice.limits = limits.to_vec();
        simulation.system.set_policy(&choice);
        simulation.run(50);
        simulation.rates(50, &mut before);
        simulation.run(1_000);
        let rates = simulation.rates(1_000, &mut before);
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
        let counters = simulation.system.board(Id::TxMux).counters(1 + client);
        assert_eq!((counters.faults, counters.reclaimed), (0, 0));
    }
}

#[test]
fn a_limited_receive_queue_limits_its_client_alone() {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.clients[1].rx_queue = Some(16);
    let mut bursts = flow(1, 400, 200);
    bursts.pattern = Pattern::Bursts(64);
    let mut simulation = Simulation::new(description, &[flow(0, 400, 200), bursts]);
    simulation.run(250);
    let reports = simulation.reports();
    assert_eq!(reports[0].replies, reports[0].sent);
    assert!(reports[1].replies <= reports[1].sent);
}

#[test]
fn a_client_that_never_returns_buffers_costs_the_others_nothing() {
    let description = Description::of(&[Work::Echo; 2]);
    let flows = [flow(0, 450, 300), flow(1, 450, 300)];
    let mut simulation = Simulation::without(description, &flows, Some(Id::Client(1)));
    simulation.run(350);
    let reports = simulation.reports();
    assert_eq!(reports[0].replies, reports[0].sent);
    assert_eq!(reports[1].replies, 0);
    let counters = simulation.system.board(Id::RxCopier(1)).counters(1);
    assert_eq!(counters.frames, 512, "as many as fit");
    assert!(counters.full + counters.starved > 10_000, "{counters:?}");
}

/// Ten million hostile words in the channels of one client of a running system, with and without a
/// client-side driver.
#[test]
fn a_hostile_client_harms_itself_alone() {
    let simulation = beside_hostile_words(false, 9_000_000);
    let faults = simulation.system.board(Id::TxMux).counters(2).faults
        + simulation.system.board(Id::RxCopier(1)).counters(1).faults;
    assert!(faults > 1_000, "{faults}");
}

#[test]
fn behind_a_client_side_driver_nobody_else_sees_a_hostile_word() {
    let simulation = beside_hostile_words(true, 1_000_000);
    let faults = |id, port| simulation.system.board(id).counters(port).faults;
    assert_eq!((faults(Id::TxMux, 2), faults(Id::RxCopier(1), 1)), (0, 0));
    let own = faults(Id::ClientDriver(1), 1) + faults(Id::ClientDriver(1), 2);
    assert!(own > 1_000, "{own}");
}

/// The other client is served, whole and in order.
fn beside_hostile_words(driver: bool, words: u64) -> Simulation {
    use rand::{RngCore, SeedableRng, rngs::StdRng};
    use weft_atomic::Ordering;
    let mut description = Description::of(&[Work::Echo; 2]);
    description.clients[1].driver = driver;
    let flows = [flow(0, 300, 100_000), flow(1, 100, 100_000)];
    let mut simulation = Simulation::without(description, &flows, Some(Id::Client(1)));
    let grant = simulation
        .system
        .grant(Id::Client(1))
        .expect("descriptors are left");
    let mut descriptors = grant.descriptors.into_iter();
    // Board, ear, two regions; then memory and bell of each channel.
    let mut channel = || {
        let file = MemoryFile::adopt(descriptors.nth(if descriptors.len() > 4 { 4 } else { 1 })?);
        Some(file.expect("sealed").map().expect("maps"))
    };
    let channels = [
        channel().expect("the first"),
        channel().expect("the second"),
    ];
    let mut random = StdRng::seed_from_u64(44);
    let mut written = 0u64;
    while written < words {
        for _ in 0..1_000 {
            let noise = random.next_u64();
            let memory = &channels[(noise & 1) as usize];
            let ring = memory.len() / 2 * (noise >> 1 & 1) as usize;
            let (offset, word) = match noise >> 60 {
                // Its own index, which is believed near the other side's, and far from it.
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
        for _ in 0..4 {
            while simulation.all.step(simulation.now) && random.next_u32() % 64 != 0 {}
            let next = simulation.all.deadline().unwrap_or(simulation.now);
            simulation.now = next.max(simulation.now + 1_000);
        }
    }
    let reports = simulation.reports();
    assert!(reports[0].sent > words / 10_000, "{:?}", reports[0].sent);
    // The last few are on their way.
    assert!(
        reports[0].replies + 64 > reports[0].sent,
        "{} of {}",
        reports[0].replies,
        reports[0].sent
    );
    assert_eq!((reports[0].corrupt, reports[0].reordered), (0, 0));
    drop(reports);
    simulation
}

#[test]
fn virtual_time_is_deterministic() {
    let run = || {
        let mut simulation = Simulation::new(
            Description::of(&[Work::Echo, Work::ReceiveMostly { every: 10 }]),
            &[flow(0, 200, 50), flow(1, 300, 50)],
        );
        simulation.run(80);
        let reports = simulation.reports();
        let of = |report: &FlowReport| (report.sent, report.replies, report.times.max());
        reports.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// Threads or one thread, in real time: starts, serves, restarts what is killed.
fn serve(run: Run, two: DriverThreads, kill: &[Id]) -> Vec<FlowReport> {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.run = run;
    description.driver_threads = two;
    description.clients[0].driver = true;
    description.clients[1].tx_copier = true;
    description.clients[1].driver = true;
    let system = System::create(description).expect("memory files exist here");
    let (mut generator, reports) = Generator::new(&[flow(0, 20, 400), flow(1, 20, 400)]);
    generator.begin(weft_sys::clock::monotonic());
    let tap = Tap::virtual_wire(Shape::default(), Box::new(generator));
    let mut threads = Threads::start(system, tap).expect("threads can be started");
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
        let found = reports.lock().expect("ours");
        let replies: u64 = found.iter().map(|report| report.replies).sum();
        let sent: u64 = found.iter().map(|report| report.sent).sum();
        if replies != last.0 {
            last = (replies, now);
        }
        let all_sent = sent >= 2 * 679;
        if (all_sent && (replies == sent || now - last.1 > 300_000_000)) || now > ends {
            break;
        }
    }
    threads.stop().expect("all end well");
    reports.lock().expect("ours").clone()
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
            assert!(report.replies * 10 > report.sent * 9, "{run:?} {report:?}");
            assert_eq!(report.corrupt, 0);
        }
    }
}

#[test]
fn whatever_dies_is_replaced_and_service_goes_on() {
    let kill = [
        Id::RxMux,
        Id::TxMux,
        Id::RxCopier(0),
        Id::TxCopier(1),
        Id::Client(0),
        Id::ClientDriver(1),
        Id::Client(1),
    ];
    for report in serve(Run::Threads, DriverThreads::One, &kill) {
        assert!(report.replies * 2 > report.sent, "{report:?}");
        assert_eq!(report.corrupt, 0);
    }
}

/// A guest beside an echo client, with what a description may put before it.
fn with_guest(driver: bool, tx_copier: bool, two: DriverThreads) -> Description {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.driver_threads = two;
    description.clients[1].driver = driver;
    description.clients[1].tx_copier = tx_copier;
    description
}

const GUEST: Id = Id::Client(1);

fn renew(system: &mut System, gone: Id) -> Renewed {
    let first = system.renew(gone, 0).expect("memory is left");
    let second = system.renew(gone, 1).expect("memory is left");
    assert!(second.cut_off.is_empty());
    first
}

/// The memory files of a grant, by inode.
fn inodes(grant: &Grant) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let all = grant.descriptors.iter().map(|descriptor| {
        let file = std::fs::File::from(descriptor.try_clone().expect("descriptors are left"));
        file.metadata().expect("it is open").ino()
    });
    // Board, ear, two regions, memory and bell of two channels: the others are not memory.
    let memory = [0, 2, 3, 4, 6];
    let all: Vec<u64> = all.collect();
    memory.map(|place| all[place]).to_vec()
}

fn is_awake(ear: &EventWaiter) -> bool {
    use weft_sys::poll::{Entry, Interest, wait};
    let mut entries = [Entry::new(ear, Interest::Read)];
    wait(&mut entries, Some(Duration::ZERO)).expect("polls") == 1
}

#[test]
fn a_successor_is_given_nothing_that_its_predecessor_had() {
    for (driver, tx_copier, two) in [
        (false, false, DriverThreads::One),
        (false, true, DriverThreads::One),
        (true, false, DriverThreads::Two),
        (true, true, DriverThreads::One),
    ] {
        let mut system = System::create(with_guest(driver, tx_copier, two)).expect("made");
        let old = system.grant(GUEST).expect("descriptors are left");
        let renewed = renew(&mut system, GUEST);
        assert!(renewed.cut_off.is_empty());
        assert!(renewed.told.contains(&Id::RxCopier(1)), "{renewed:?}");
        let new = system.grant(GUEST).expect("descriptors are left");
        let (before, after) = (inodes(&old), inodes(&new));
        assert!(
            before.iter().all(|inode| !after.contains(inode)),
            "{before:?} {after:?}"
        );
        // What the predecessor rings wakes nobody; what the successor rings, its two neighbours.
        let ears = |system: &System| -> Vec<Id> {
            let all = system.seats.iter();
            all.filter(|(_, seat)| is_awake(&seat.ear))
                .map(|(id, _)| *id)
                .collect()
        };
        for id in system.components() {
            // They have heard what the broker rang.
            let soon = weft_sys::clock::monotonic() + 1_000;
            system.seat(id).ear.wait(Some(soon)).expect("an ear");
        }
        assert_eq!(ears(&system), []);
        let bells = |grant: Grant| {
            let mut all = grant.descriptors.into_iter();
            [5, 1].map(|skip| EventFd::adopt(all.nth(skip).expect("a bell")))
        };
        let old_ear = EventWaiter::adopt(old.descriptors[1].try_clone().expect("left"));
        for bell in bells(old) {
            bell.ring();
        }
        assert_eq!(ears(&system), []);
        for bell in bells(new) {
            bell.ring();
        }
        assert_eq!(ears(&system).len(), if driver { 1 } else { 2 });
        // Nor is the predecessor woken by what its successor is rung for.
        for link in system.links.iter().filter(|link| link.touches(GUEST)) {
            link.source_bell.ring();
            link.sink_bell.ring();
        }
        assert!(!is_awake(&old_ear));
    }
}

#[test]
fn every_description_serves_each_successor_and_no_frame_of_another_leaves() {
    for (driver, tx_copier) in [(false, false), (false, true), (true, false), (true, true)] {
        let flows = [flow(0, 100, 60_000), flow(1, 400, 60_000)];
        let description = with_guest(driver, tx_copier, DriverThreads::One);
        let mut simulation = Simulation::without(description, &flows, Some(GUEST));
        for round in 0..20 {
            let mut grant = simulation.system.grant(GUEST).expect("left");
            let old: Vec<MemoryFile> = grant.descriptors[2..4]
                .iter()
                .map(|file| MemoryFile::adopt(file.try_clone().expect("left")).expect("sealed"))
                .collect();
            grant.silent = true;
            let client = grant.build(None).expect("built");
            simulation.all.0.push(client.component);
            let before = simulation.reports()[1].replies;
            simulation.run(20);
            let after = simulation.reports()[1].replies;
            assert!(after > before + 100, "round {round}: {before} {after}");
            // Gone, with frames everywhere between it and the wire.
            simulation.all.0.pop();
            let renewed = renew(&mut simulation.system, GUEST);
            assert!(renewed.cut_off.is_empty());
            // One that is replaced before it has followed finds the newest memory too.
            if round % 3 == 1 {
                renew(&mut simulation.system, GUEST);
            }
            simulation.run(1);
            for id in renewed.told {
                assert!(simulation.system.has_followed(id), "{id:?}");
            }
            assert!(simulation.system.is_settled(1));
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
            simulation.run(5);
            assert!(contents() == left, "what the predecessor had has changed");
        }
        let reports = simulation.reports();
        assert!(
            reports[0].replies + 8 >= reports[0].sent,
            "{driver} {tx_copier}"
        );
        for report in reports.iter() {
            assert_eq!((report.corrupt, report.reordered), (0, 0));
        }
        drop(reports);
        let counters = simulation.system.board(Id::TxMux).counters(2);
        assert_eq!(counters.faults, 0, "{driver} {tx_copier} {counters:?}");
    }
}

#[test]
fn one_that_reads_no_orders_is_cut_off_and_its_replacement_is_up_to_date() {
    let description = with_guest(false, false, DriverThreads::One);
    let mut system = System::create(description).expect("made");
    // Nobody runs, so nobody reads.
    let mut lost = Vec::new();
    for _ in 0..2_000 {
        lost = renew(&mut system, GUEST).cut_off;
        if !lost.is_empty() {
            break;
        }
    }
    assert!(!lost.is_empty(), "there is room for all of them");
    for &id in &lost {
        assert!(!system.has_followed(id) && !system.is_settled(1));
        // Whatever it says meanwhile.
        system.board(id).acknowledge(system.board(id).changes());
        assert!(!system.has_followed(id));
    }
    for id in [Id::Driver, Id::TxMux, Id::RxCopier(1)] {
        renew(&mut system, id);
        assert!(system.seat(id).orders.is_some() && !system.seat(id).is_cut_off);
    }
    assert!(renew(&mut system, GUEST).cut_off.is_empty());
}

#[test]
fn as_many_clients_as_there_can_be_are_served() {
    weft_sys::descriptor::raise_limit().expect("asked");
    let mut description = Description::of(&[Work::Echo; crate::policy::CLIENTS]);
    description.queue = 16;
    description.window = 16;
    let last = crate::policy::CLIENTS - 1;
    let mut simulation = Simulation::new(description, &[flow(0, 10, 20), flow(last, 10, 20)]);
    simulation.run(40);
    for report in simulation.reports().iter() {
        assert_eq!(report.replies, report.sent);
    }
}
