//! The trial of policies: the policy is changed in the running system, four times, among clients that always have a frame.

use std::io;
use std::time::Duration;

use weft_net::client::Work;
use weft_net::description::Description;
use weft_net::policy::Order;
use weft_net::system::ComponentId;
use weft_sys::clock;

use super::{pass, threads};
use crate::flow::Flow;
use crate::report::FlowReport;

/// Weights and limits of a second. A limit counts whole frames.
struct Phase {
    order: Order,
    weights: [u32; 4],
    limit_of_hog: u64,
}

const PHASES: [Phase; 4] = [
    Phase {
        order: Order::RoundRobin,
        weights: [1; 4],
        limit_of_hog: 0,
    },
    Phase {
        order: Order::Weighted,
        weights: [4, 2, 1, 1],
        limit_of_hog: 0,
    },
    Phase {
        order: Order::Weighted,
        weights: [1, 1, 1, 5],
        limit_of_hog: 0,
    },
    Phase {
        order: Order::RoundRobin,
        weights: [1; 4],
        limit_of_hog: 5_000_000,
    },
];

pub(super) fn run() -> io::Result<()> {
    // A wire slow enough that even a busy machine keeps it full, as shares are measured.
    let usual = Work::TransmitInitiated { bits: 60_000_000 };
    let hog = Work::TransmitInitiated { bits: 500_000_000 };
    let description = Description::of(&[usual, usual, usual, hog]);
    let flows: Vec<_> = (0..4).map(|client| Flow::steady(client, 0)).collect();
    let (mut threads, reports) = threads(description, 50, &flows)?;
    super::say!("A, B, C send 60 Mbit/s, D tries 500; the wire carries 50.");
    let mut choice = threads.system().description().choice();
    for phase in PHASES {
        choice.order = phase.order;
        choice.weights = phase.weights.to_vec();
        choice.limits = vec![0, 0, 0, phase.limit_of_hog];
        threads.set_policy(&choice);
        pass(Duration::from_millis(200))?;
        let (before, began) = (reports.throughput_bytes(), clock::monotonic());
        pass(Duration::from_secs(1))?;
        let seconds = (clock::monotonic() - began) as f64 / 1e9;
        let rates: Vec<f64> = reports
            .throughput_bytes()
            .iter()
            .zip(&before)
            .map(|(now, before)| (now - before) as f64 * 8e-6 / seconds)
            .collect();
        let said = format!("{:?} {:?}", phase.order, phase.weights);
        let (what, worst, promised) = if phase.limit_of_hog > 0 {
            let due = phase.limit_of_hog as f64 * 1e-6 * 1472.0 / 1514.0;
            ("limit of D", (rates[3] / due - 1.0).abs(), 1.0)
        } else {
            let all: f64 = rates.iter().sum();
            let sum: u32 = phase.weights.iter().sum();
            let off = rates.iter().zip(phase.weights).map(|(rate, weight)| {
                (rate / (all * f64::from(weight) / f64::from(sum)) - 1.0).abs()
            });
            ("shares", off.fold(0.0, f64::max), 3.0)
        };
        super::say!(
            "{said:26} {:6.1} {:6.1} {:6.1} {:6.1} Mbit/s: {what} within {:.2} %, {promised} % is promised",
            rates[0],
            rates[1],
            rates[2],
            rates[3],
            100.0 * worst,
        );
    }
    // The senders are ended; frames handed to the multiplexer still leave.
    for client in 0..4 {
        threads.kill(ComponentId::Client(client))?;
    }
    pass(Duration::from_millis(500))?;
    let page = threads.system().control_page(ComponentId::TxMux);
    let counters: Vec<_> = (1..=4).map(|port| page.counters(port)).collect();
    let taken: u64 = counters.iter().map(|one| one.frames).sum();
    let faults: u64 = counters.iter().map(|one| one.faults + one.reclaimed).sum();
    // Each client asks for the far end's address by a frame that is not a datagram.
    let datagrams: u64 = reports.lock().iter().map(FlowReport::unasked).sum();
    let driven = threads
        .system()
        .control_page(ComponentId::Driver)
        .counters(1)
        .frames;
    let others = driven.saturating_sub(datagrams);
    super::say!(
        "{taken} frames taken from clients, {datagrams} datagrams and {others} others at the far end: \
         {} lost, {faults} refused",
        taken.saturating_sub(datagrams + others)
    );
    threads.stop()
}
