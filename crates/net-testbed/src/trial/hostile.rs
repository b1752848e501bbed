//! The trial of a hostile client: ten million words, indices and descriptors, near the truth and far from it, written into
//! everything that client B may write, while A is served; then as many into B's old memory, while its successor is served.

use std::io;
use std::time::Duration;

use weft_atomic::Ordering;
use weft_net::client::Work;
use weft_net::description::Description;
use weft_net::system::{ComponentId, System};
use weft_sys::event::EventFd;
use weft_sys::random::SeededRandom;
use weft_sys::{Mapping, clock};

use super::{pass, rate, threads};
use crate::flow::Flow;
use crate::generator::Reports;

const WORDS: u64 = 10_000_000;

/// How many words go between two notifications.
const BATCH: u64 = 64;

/// One word into a channel; `receives`: B is its consumer of frames.
fn scribble(memory: &Mapping, receives: bool, noise: u64) {
    /// Where the words of a ring are, and where its descriptors begin.
    const LINE: usize = 128;
    const SLOTS: usize = 3 * LINE;
    let used = noise >> 1 & 1 == 0;
    let ring = if used { 0 } else { memory.len() / 2 };
    let slot = SLOTS + 8 * (noise >> 8 & 511) as usize;
    let (offset, word) = match noise >> 60 {
        0..5 => {
            // Its own index: values near the other side's are accepted.
            let (own, other) = if receives == used {
                (LINE, 0)
            } else {
                (0, LINE)
            };
            let truth = memory.atomic_u64(ring + other);
            let truth = truth.map_or(0, |word| word.load(Ordering::Relaxed));
            let near = truth.wrapping_add(noise >> 20 & 0x3ff).wrapping_sub(0x100);
            (own, if noise >> 60 < 4 { near } else { noise })
        }
        5 => (2 * LINE, noise & 1),
        6..12 => (slot, (noise >> 20 & 0x3ff) << 11 | 60 << 32),
        _ => (slot, noise.rotate_left(17)),
    };
    if let Some(there) = memory.atomic_u64(ring + offset) {
        there.store(word, Ordering::Relaxed);
    }
}

/// Writes all words, with all events in between.
fn strike(channels: &[(Mapping, EventFd)], noise: &mut SeededRandom) {
    for _ in 0..WORDS / BATCH {
        for _ in 0..BATCH {
            let word = noise.next_u64();
            // B receives from the first one.
            scribble(&channels[(word & 1) as usize].0, word & 1 == 0, word);
        }
        for (_, event) in channels {
            event.notify();
        }
        // So that the readers run between the words, not only after them.
        weft_sys::cores::yield_core();
    }
}

/// Mbit/s of each client since `began`.
fn since(reports: &Reports, before: &[u64], began: u64) -> Vec<f64> {
    let seconds = (clock::monotonic() - began) as f64 / 1e9;
    let pairs = reports.throughput_bytes().into_iter().zip(before);
    pairs
        .map(|(now, before)| (now - before) as f64 * 8e-6 / seconds)
        .collect()
}

fn faults(system: &System) -> u64 {
    let ports = |id| (0..4).map(move |port| (id, port));
    let all = system.components().into_iter().flat_map(ports);
    all.map(|(id, port)| system.control_page(id).counters(port).faults)
        .sum()
}

/// The numbers of A's replies that were corrupt, and out of order.
fn mistakes_of_a(reports: &Reports) -> (u64, u64) {
    let reports = reports.lock();
    (reports[0].corrupt(), reports[0].reordered())
}

pub(super) fn run() -> io::Result<()> {
    super::say!(
        "A and B are asked for 200 Mbit/s each. B writes {WORDS} hostile words into its queues."
    );
    for driver in [false, true] {
        let flows = [0, 1].map(|client| Flow::steady(client, 200));
        let mut description = Description::of(&[Work::Echo; 2]);
        description.clients[1].driver = driver;
        let (mut threads, reports) = threads(description, 1_000, &flows)?;
        pass(Duration::from_millis(200))?;
        let usual = rate(&reports, 0)?;
        threads.kill(ComponentId::Client(1))?;
        let channels = threads
            .system()
            .capabilities(ComponentId::Client(1))?
            .into_channels()?;
        let mut noise = SeededRandom::new(44);
        let (before, began) = (reports.throughput_bytes(), clock::monotonic());
        strike(&channels, &mut noise);
        let beside = since(&reports, &before, began)[0];
        let mistakes = mistakes_of_a(&reports);
        let faults = faults(threads.system());
        super::say!(
            "{}: A has {beside:.1} Mbit/s ({usual:.1} before), {} corrupt, {} out of order; {faults} \
             faults counted",
            match driver {
                true => "behind a client-side driver",
                false => "without one",
            },
            mistakes.0,
            mistakes.1,
        );
        // A process left behind by B continues; its successor has other memory.
        threads.restart(ComponentId::Client(1), None)?;
        pass(Duration::from_millis(200))?;
        let known = self::faults(threads.system());
        let (before, began) = (reports.throughput_bytes(), clock::monotonic());
        strike(&channels, &mut noise);
        let rates = since(&reports, &before, began);
        super::say!(
            "  B replaced, the words go into what it had: A has {:.1} Mbit/s, B's successor {:.1}; {} \
             faults counted",
            rates[0],
            rates[1],
            self::faults(threads.system()) - known,
        );
        threads.stop()?;
    }
    Ok(())
}
