//! Trials: the datapath's guarantees about misbehaving clients, changing policies and dying components,
//! tested in real time on this machine, with figures. `weft net trial`.

/// Prints a line if anybody reads it: a trial goes on to its end.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}
use say;

mod hostile;
mod kills;
mod shares;

use std::io;
use std::time::Duration;

use weft_net::broker::Start;
use weft_net::client::Work;
use weft_net::description::Description;
use weft_net::system::{ComponentId, System, Threads, WireEnds};
use weft_net::wire::Shape;
use weft_sys::clock;
use weft_sys::event::EventWaiter;

use crate::flow::Flow;
use crate::generator::{Generator, Reports};

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Trial {
    /// A client that writes ten million hostile words into its queues.
    Hostile,
    /// A client that never returns a buffer, beside one that does.
    Hoarder,
    /// The policy changed among four clients of which one is a hog.
    Policy,
    /// Each component killed in turn under load, as processes on a veth.
    Kills,
}

/// Runs a trial and prints its figures. `start`: how a component's process is started.
///
/// # Errors
/// If the kernel refuses, or a privilege for a veth is missing; it says which.
pub fn run(trial: Trial, start: Start) -> io::Result<()> {
    match trial {
        Trial::Hostile => hostile::run(),
        Trial::Hoarder => hoarder(),
        Trial::Policy => shares::run(),
        Trial::Kills => kills::run(start),
    }
}

/// Lets `length` pass.
fn pass(length: Duration) -> io::Result<()> {
    let end = clock::deadline_after(length);
    let nobody = EventWaiter::new()?;
    while clock::monotonic() < end {
        nobody.wait(Some(end))?;
    }
    Ok(())
}

/// A system of these clients as threads, on a virtual wire of `megabits` Mbit/s with this load at its far
/// end.
fn threads(
    description: Description,
    megabits: u64,
    flows: &[Flow],
) -> io::Result<(Threads, Reports)> {
    let system = System::create(description)?;
    let (mut generator, reports) = Generator::new(flows);
    generator.begin(clock::monotonic() + 5_000_000);
    let shape = Shape {
        bits: megabits * 1_000_000,
        ..Shape::default()
    };
    let wire = WireEnds::virtual_wire(shape, Box::new(generator));
    Ok((Threads::start(system, wire)?, reports))
}

/// Mbit/s of one client over a second.
fn rate(reports: &Reports, client: usize) -> io::Result<f64> {
    let (before, began) = (reports.throughput_bytes()[client], clock::monotonic());
    pass(Duration::from_secs(1))?;
    let passed = (clock::monotonic() - began) as f64 / 1e9;
    Ok((reports.throughput_bytes()[client] - before) as f64 * 8e-6 / passed)
}

/// A second with both clients, a second with B's memory taken and nothing returned, in turn.
fn hoarder() -> io::Result<()> {
    const ROUNDS: usize = 3;
    let description = Description::of(&[Work::Echo; 2]);
    let (mut threads, reports) = threads(
        description,
        1_000,
        &[Flow::steady(0, 300), Flow::steady(1, 300)],
    )?;
    pass(Duration::from_millis(200))?;
    say!("A and B are asked for 300 Mbit/s each. B takes its buffers and returns none.");
    say!("          B serves  B hoards  Mbit/s of A");
    let (mut serving, mut hoarding) = (0.0, 0.0);
    for round in 1..=ROUNDS {
        let serves = rate(&reports, 0)?;
        threads.kill(ComponentId::Client(1))?;
        let before = threads
            .system()
            .control_page(ComponentId::RxCopier(1))
            .counters(1);
        let hoards = rate(&reports, 0)?;
        let after = threads
            .system()
            .control_page(ComponentId::RxCopier(1))
            .counters(1);
        threads.restart(ComponentId::Client(1), None)?;
        let dropped = after.full + after.starved - before.full - before.starved;
        say!("round {round}: {serves:10.1}{hoards:10.1}  ({dropped} frames for B dropped)");
        serving += serves;
        hoarding += hoards;
    }
    say!(
        "A keeps {:.2} % of its rate; at least 98 % is promised",
        100.0 * hoarding / serving
    );
    threads.stop()
}
