//! The description of a system: wire, clients, policy, sizes. It is read from TOML; an error names the line
//! and what to write instead.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::client::Work;
use crate::policy::{CLIENTS, Choice, Order, default_bound};
use crate::queue::MOST;
use crate::queue::channel::LEAST;

/// A whole system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Description {
    /// The name by which `weft net status` and clients find it.
    #[serde(default = "default_name")]
    pub name: String,
    /// The wire.
    #[serde(default)]
    pub wire: WireDescription,
    /// How components are run.
    #[serde(default)]
    pub run: Run,
    /// Entries of a queue, unless a client says less.
    #[serde(default = "default_queue")]
    pub queue: u32,
    /// Frames that may wait at the driver to be sent.
    #[serde(default = "default_window")]
    pub window: u32,
    /// Whether the driver is two components.
    #[serde(default)]
    pub driver_threads: DriverThreads,
    /// Which client sends next.
    #[serde(default)]
    pub policy: PolicyDescription,
    /// Cores on which the components run; all, if empty.
    #[serde(default)]
    pub cores: Cores,
    /// Nice values of components by name, as in `cores`: higher means less of the processor.
    #[serde(default)]
    pub nice: BTreeMap<String, i32>,
    /// The clients, in order.
    #[serde(default, rename = "client")]
    pub clients: Vec<ClientDescription>,
}

/// Which wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WireDescription {
    /// Within the driver, with a load generator at its far end.
    Virtual {
        /// Bits per second.
        #[serde(default = "default_rate")]
        bits: u64,
    },
    /// A pair of interfaces between the host and a network namespace of its own, made and removed by
    /// the run. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN.
    Veth {
        /// The way of access; the best that works, if left out.
        #[serde(default)]
        driver: Option<WireDriver>,
    },
    /// An interface whose other end is the driver, in a network namespace of its own, made and removed
    /// by the run. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN.
    Tap,
    /// An interface that exists. Needs CAP_NET_RAW, for AF_XDP also CAP_NET_ADMIN and CAP_BPF.
    Interface {
        /// Its name.
        name: String,
        /// As for a veth. If left out, an interface with an address of the host stays with the host.
        #[serde(default)]
        driver: Option<WireDriver>,
    },
}

/// How frames are taken from an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireDriver {
    /// AF_XDP: rings shared with the kernel. Arriving frames go to the system alone.
    Xdp,
    /// AF_PACKET: any interface; the host sees arriving frames, too.
    Packet,
}

/// How components are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Run {
    /// Each in a process of its own, which maps only what its role needs.
    #[default]
    Processes,
    /// Each in a thread of one process: no protection, and no privilege needed.
    Threads,
    /// All in turn in one thread: least cost, no protection.
    Fused,
}

/// One or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverThreads {
    /// Both directions in turn.
    #[default]
    One,
    /// Each direction is a component.
    Two,
}

/// The policy, by names of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PolicyDescription {
    /// The order of turns.
    #[serde(default = "default_order")]
    pub order: Order,
    /// Frames that may pass a waiting client of a lower level.
    #[serde(default = "default_bound")]
    pub bound: u32,
}

/// Which cores.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cores {
    /// For components by name (`driver`, `rx-mux`, `tx-mux`, `rx-copier-NAME`, `tx-copier-NAME`, `driver-NAME`, `NAME`).
    pub of: BTreeMap<String, usize>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientDescription {
    /// Its name.
    pub name: String,
    /// Its work; a client without work is a place for a program that attaches.
    #[serde(default)]
    pub work: Option<Work>,
    /// Full buffers that may wait for it.
    #[serde(default)]
    pub rx_queue: Option<u32>,
    /// Full buffers that may wait from it.
    #[serde(default)]
    pub tx_queue: Option<u32>,
    /// Whether its frames are copied before the card sees them.
    #[serde(default)]
    pub tx_copier: bool,
    /// Whether a separate component validates what it writes into its queues, before components that others
    /// depend on see it.
    #[serde(default)]
    pub driver: bool,
    /// Its share under the weighted order.
    #[serde(default = "one")]
    pub weight: u32,
    /// Its level under the priority order: 0 is the best.
    #[serde(default)]
    pub level: u32,
    /// Most bits per second that it may send; 0: no limit.
    #[serde(default)]
    pub limit: u64,
}

fn default_name() -> String {
    "weft".into()
}
fn default_queue() -> u32 {
    512
}
fn default_window() -> u32 {
    64
}
fn default_rate() -> u64 {
    1_000_000_000
}
fn default_order() -> Order {
    Order::RoundRobin
}
fn one() -> u32 {
    1
}

impl Default for WireDescription {
    fn default() -> Self {
        Self::Virtual {
            bits: default_rate(),
        }
    }
}

impl Default for PolicyDescription {
    fn default() -> Self {
        Self {
            order: default_order(),
            bound: default_bound(),
        }
    }
}

/// A mistake in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, counted from 1, if known.
    pub line: Option<usize>,
    /// The error, and what to write instead.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "line {line}: {}", self.message),
            None => out.write_str(&self.message),
        }
    }
}

impl std::error::Error for Mistake {}

impl Description {
    /// Reads and checks a description.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let found: Self = toml::from_str(text).map_err(|error| Mistake {
            line: error.span().map(|span| line_of(text, span.start)),
            message: format!(
                "{}. The keys of a system are name, wire, run, queue, window, driver-threads, \
                 policy, cores, nice, [[client]]; docs/net.md has an example",
                error.message().trim_end_matches('.')
            ),
        })?;
        found.check(text)?;
        Ok(found)
    }

    fn check(&self, text: &str) -> Result<(), Mistake> {
        let mistake = |key: &str, value: &str, message: String| Mistake {
            line: find_line(text, key, value),
            message,
        };
        if self.clients.is_empty() || self.clients.len() > CLIENTS {
            return Err(Mistake {
                line: None,
                message: format!(
                    "{} clients are described, 1 to {CLIENTS} are possible: add a [[client]] table with a \
                     name for each",
                    self.clients.len()
                ),
            });
        }
        if !self.queue.is_power_of_two() || !(LEAST..=MOST).contains(&self.queue) {
            return Err(mistake(
                "queue",
                &self.queue.to_string(),
                format!(
                    "queue = {}: a power of two from {LEAST} to {MOST} is needed; 512 is usual",
                    self.queue
                ),
            ));
        }
        if self.window == 0 || self.window > self.queue {
            return Err(mistake(
                "window",
                &self.window.to_string(),
                format!(
                    "window = {}: 1 to queue ({}) frames can lie at the driver; 64 is usual",
                    self.window, self.queue
                ),
            ));
        }
        if self.policy.bound == 0 {
            return Err(mistake(
                "bound",
                "0",
                "bound = 0: at least 1 frame must be able to pass; write bound = 1024".into(),
            ));
        }
        if let WireDescription::Virtual { bits } = self.wire
            && bits < 1_000_000
        {
            return Err(mistake(
                "bits",
                &bits.to_string(),
                format!("bits = {bits}: a wire has at least 1000000 bit/s; 1000000000 is usual"),
            ));
        }
        for (index, client) in self.clients.iter().enumerate() {
            let named = |message: String| mistake("name", &client.name, message);
            let sound = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            if client.name.is_empty() || !client.name.chars().all(sound) {
                return Err(named(format!(
                    "name = {:?}: letters, digits, - and _ make a name; write name = \"a\"",
                    client.name
                )));
            }
            if self.clients[..index]
                .iter()
                .any(|other| other.name == client.name)
            {
                return Err(Mistake {
                    line: last_line(text, "name", &client.name),
                    message: format!(
                        "two clients are called {:?}: give the second another name",
                        client.name
                    ),
                });
            }
            for (key, limit) in [("rx-queue", client.rx_queue), ("tx-queue", client.tx_queue)] {
                if let Some(limit) = limit
                    && (limit == 0 || limit > self.queue)
                {
                    return Err(mistake(
                        key,
                        &limit.to_string(),
                        format!(
                            "{key} = {limit}: 1 to queue ({}) frames can wait; leave it out for all of them",
                            self.queue
                        ),
                    ));
                }
            }
            if client.weight == 0 || client.weight > 1000 {
                return Err(mistake(
                    "weight",
                    &client.weight.to_string(),
                    format!(
                        "weight = {}: 1 to 1000 are possible; 1 is usual",
                        client.weight
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The policy that it describes.
    #[must_use]
    pub fn choice(&self) -> Choice {
        Choice {
            order: self.policy.order,
            bound: self.policy.bound,
            weights: self.clients.iter().map(|client| client.weight).collect(),
            levels: self.clients.iter().map(|client| client.level).collect(),
            limits: self.clients.iter().map(|client| client.limit).collect(),
        }
    }

    /// A system of clients with these works, and defaults otherwise.
    #[must_use]
    pub fn of(works: &[Work]) -> Self {
        let client = |(index, work): (usize, &Work)| ClientDescription {
            name: char::from(b'a' + (index % 26) as u8)
                .to_string()
                .repeat(1 + index / 26),
            work: Some(*work),
            rx_queue: None,
            tx_queue: None,
            tx_copier: false,
            driver: false,
            weight: 1,
            level: 0,
            limit: 0,
        };
        Self {
            name: default_name(),
            wire: WireDescription::default(),
            run: Run::Threads,
            queue: default_queue(),
            window: default_window(),
            driver_threads: DriverThreads::One,
            policy: PolicyDescription::default(),
            cores: Cores::default(),
            nice: BTreeMap::new(),
            clients: works.iter().enumerate().map(client).collect(),
        }
    }
}

fn line_of(text: &str, position: usize) -> usize {
    1 + text
        .bytes()
        .take(position)
        .filter(|&byte| byte == b'\n')
        .count()
}

fn sets(line: &str, key: &str, value: &str) -> bool {
    line.split(['{', ',', '}']).any(|part| {
        part.split_once('=').is_some_and(|(found, set)| {
            let set = set.split('#').next().unwrap_or("").trim();
            found.trim() == key && set.trim_matches('"').replace('_', "") == value.replace('_', "")
        })
    })
}

/// The first line that sets this key to this value.
fn find_line(text: &str, key: &str, value: &str) -> Option<usize> {
    text.lines()
        .position(|line| sets(line, key, value))
        .map(|line| line + 1)
}

fn last_line(text: &str, key: &str, value: &str) -> Option<usize> {
    let count = text.lines().count();
    let back = text.lines().rev().position(|line| sets(line, key, value))?;
    Some(count - back)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "lab"
wire = { kind = "virtual", bits = 500_000_000 }
run = "threads"
policy = { order = "weighted" }
cores = { driver = 1 }

[[client]]
name = "a"
work = { kind = "echo" }
weight = 3

[[client]]
name = "b"
work = { kind = "compute-heavy", rounds = 10 }
rx-queue = 16
limit = 100_000_000

[[client]]
name = "guest"
"#;

    #[test]
    fn a_description_is_read() {
        let found = Description::parse(GOOD).expect("it is sound");
        assert_eq!(found.queue, 512);
        assert_eq!(found.clients[1].rx_queue, Some(16));
        assert_eq!(
            found.clients[1].work,
            Some(Work::ComputeHeavy { rounds: 10 })
        );
        assert_eq!(found.clients[2].work, None);
        assert_eq!(found.cores.of["driver"], 1);
        let choice = found.choice();
        assert_eq!(choice.order, Order::Weighted);
        assert_eq!(choice.weights, [3, 1, 1]);
        assert_eq!(choice.limits, [0, 100_000_000, 0]);
    }

    #[test]
    fn mistakes_name_their_line_and_a_remedy() {
        for (from, to, line, word) in [
            ("weight = 3", "weight = 0", 11, "1 to 1000"),
            ("weight = 3", "wait = 3", 11, "wait"),
            ("rx-queue = 16", "rx-queue = 600", 16, "1 to queue (512)"),
            ("run = \"threads\"", "run = \"treads\"", 4, "processes"),
            ("run = \"threads\"", "queue = 500", 4, "power of two"),
            ("run = \"threads\"", "window = 513", 4, "64 is usual"),
            (
                "bits = 500_000_000",
                "bits = 5_000",
                3,
                "1000000000 is usual",
            ),
            ("name = \"b\"", "name = \"a\"", 14, "another name"),
            ("name = \"b\"", "name = \"b b\"", 14, "letters"),
            ("\"weighted\" }", "\"wighted\" }", 5, "weighted"),
            (
                "\"virtual\", bits = 500_000_000",
                "\"veth\", driver = \"dpdk\"",
                3,
                "xdp",
            ),
        ] {
            let text = GOOD.replace(from, to);
            let mistake = Description::parse(&text).expect_err("it is wrong");
            assert_eq!(mistake.line, Some(line), "{to}: {mistake}");
            assert!(mistake.message.contains(word), "{to}: {mistake}");
        }
        assert!(
            Description::parse("")
                .expect_err("no client")
                .message
                .contains("[[client]]")
        );
    }
}
