//! Measurement of a system: a given load for a given time, and its results.
//!
//! The system runs as one thread or as threads of the measuring process, or as processes. Load comes
//! from the far end of a virtual wire, or through a veth from the host's own stack.

mod clocks;
mod reflector;
mod testbed;

pub use clocks::IdleTimes;

use std::io;
use std::time::Duration;

use weft_net::broker::Start;
use weft_net::description::Description;

use crate::report::FlowReport;

/// The testbed of a measurement: the wire, and what is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Testbed {
    /// The virtual wire of 1 Gbit/s. Not for a system of processes: the generator would count in the
    /// driver's process.
    Virtual,
    /// A veth, read by the driver that the description names, or by the best one that works.
    Veth,
    /// The far end of a veth with a plain socket program instead of the system.
    Sockets,
    /// The far end of a veth whose frames one thread sends straight back, by AF_XDP.
    Reflector,
}

/// The measured system.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The system, and how it is run.
    pub description: Description,
    /// Mbit/s of payload towards each client, in order.
    pub rates: Vec<u64>,
    /// The testbed.
    pub testbed: Testbed,
    /// The system (or the plain program) on core 0 alone, the generator on core 1: so that neither is moved
    /// to the other's core. On a veth only.
    pub apart: bool,
}

/// The results.
#[derive(Clone, Debug)]
pub struct Measured {
    /// By client.
    pub reports: Vec<FlowReport>,
    /// How long load was sent, in seconds.
    pub seconds: f64,
    /// By client: frames delivered to it.
    pub handled: Vec<u64>,
    /// Processor time of each component, in seconds.
    pub components: Vec<(String, f64)>,
    /// Processor time of all participants, including the generator and the kernel's packet threads, in
    /// seconds. Other programs are not included.
    pub all: f64,
    /// Busy fraction of each core of the machine, 0 to 1, by all programs.
    pub cores: Vec<f64>,
}

impl Measured {
    /// Mbit/s of payload that came back from a client, or was sent by it unasked.
    #[must_use]
    pub fn rate(&self, client: usize) -> f64 {
        let report = &self.reports[client];
        report.throughput_bytes() as f64 * 8e-6 / self.seconds
    }

    /// Mbit/s of payload that a client received; 0 if only replies are known.
    #[must_use]
    pub fn received(&self, client: usize) -> f64 {
        let frames = self.handled.get(client).copied().unwrap_or(0);
        frames as f64 * 1472.0 * 8e-6 / self.seconds
    }

    /// A quantile of the round trips of a client, in µs.
    #[must_use]
    pub fn round_trip(&self, client: usize, quantile: f64) -> f64 {
        self.reports[client]
            .round_trips()
            .value_at_quantile(quantile) as f64
            / 1e3
    }

    /// Processor time of the components in per cent of one core. The generator at the far end of a virtual
    /// wire runs in the driver's thread and is included.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all: f64 = self.components.iter().map(|(_, seconds)| seconds).sum();
        100.0 * all / self.seconds
    }

    /// µs of processor time, of all participants at both ends of the wire, for each packet that came back or
    /// was sent unasked.
    #[must_use]
    pub fn cost(&self) -> f64 {
        let packets: u64 = self
            .reports
            .iter()
            .map(|report| report.replies() + report.unasked())
            .sum();
        1e6 * self.all / packets as f64
    }

    /// Packets sent that did not come back, in per cent.
    #[must_use]
    pub fn lost(&self) -> f64 {
        let sent: u64 = self.reports.iter().map(FlowReport::sent).sum();
        let replies: u64 = self.reports.iter().map(FlowReport::replies).sum();
        100.0 * sent.saturating_sub(replies) as f64 / sent.max(1) as f64
    }
}

/// Runs the load for `length`. `start`: how a component becomes a process, for a system of processes.
///
/// # Errors
/// If the system cannot be started, or a privilege for a veth is missing; the error says which.
pub fn measure(setting: &Setting, length: Duration, start: &Start) -> io::Result<Measured> {
    use weft_net::description::Run::Processes;
    match (setting.testbed, setting.description.run) {
        (Testbed::Virtual, Processes) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the counts of a virtual wire stay in the driver's process: measure processes on a veth, \
             or write run = \"threads\"",
        )),
        (Testbed::Virtual, _) => testbed::on_virtual(setting, length),
        (Testbed::Veth, Processes) => testbed::on_processes(setting, length, start),
        (Testbed::Veth, _) => testbed::on_veth(setting, length),
        (Testbed::Sockets, _) => testbed::on_sockets(setting, length),
        (Testbed::Reflector, _) => testbed::on_reflector(setting, length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_net::client::Work;
    use weft_net::description::Run;

    #[test]
    fn every_testbed_answers_or_says_what_it_lacks() {
        // No process is started here: tests/net measures systems of processes.
        let start = Start {
            program: "/nowhere".into(),
            words: Vec::new(),
        };
        for testbed in [
            Testbed::Virtual,
            Testbed::Veth,
            Testbed::Sockets,
            Testbed::Reflector,
        ] {
            for run in [Run::Threads, Run::Fused] {
                let mut description = Description::of(&[Work::Echo; 2]);
                description.run = run;
                let setting = Setting {
                    description,
                    rates: vec![20, 10],
                    testbed,
                    apart: false,
                };
                match measure(&setting, Duration::from_millis(100), &start) {
                    Ok(found) => {
                        for client in 0..2 {
                            let report = &found.reports[client];
                            assert!(report.sent() > 50, "{testbed:?} {run:?} {report:?}");
                            assert!(
                                report.replies() * 2 > report.sent(),
                                "{testbed:?} {run:?} {report:?}"
                            );
                            assert_eq!(report.corrupt(), 0);
                            assert!(
                                found.round_trip(client, 0.5) > 0.0 && found.rate(client) > 0.0
                            );
                        }
                        assert!(found.all > 0.0 && found.cost() > 0.0);
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(testbed != Testbed::Virtual, "{text}");
                        assert!(text.contains("CAP_") || text.contains("ip"), "{text}");
                    }
                }
            }
        }
    }
}
