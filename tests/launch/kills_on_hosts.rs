//! `kill -9` of each kind of process of a job on each of two hosts, a hundred times for each way of starting
//! one, each kind and host equally often, at random times: no process is left on any host after two seconds.

#[path = "kills/clock.rs"]
mod clock;
mod harness;
mod network;
#[path = "kills/targets.rs"]
mod targets;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clock::Clock;
use harness::{Job, Running, rank, signal, weft};
use network::Network;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use targets::{Found, Kind, Target};
use weft_sys::process::ProcessHandle;

/// The number of kills, for each way of starting; with `--hosts` some of them are over ssh.
const KILLS: usize = 100;
const OVER_SSH: usize = 36;
/// Jobs that run at a time: mostly they wait.
const AT_ONCE: usize = 3;
/// The promised time.
const LIMIT: Duration = Duration::from_secs(2);
/// In microseconds: a job forms within this time, mostly; the kills are spread over twice that.
const FORMING: u64 = 100_000;
/// … over ssh.
const FORMING_OVER_SSH: u64 = 600_000;
const HOSTS: usize = 2;
/// Ranks on each host.
const RANKS: usize = 2;

/// A way of starting a job on several hosts.
enum Way {
    /// `--hosts`, over ssh or the command that is given.
    Hosts(Vec<String>),
    /// `--listen` and `weft join`, with the token in this file.
    Join(String),
    /// With the launcher of MPICH.
    Hydra(PathBuf),
}

impl Way {
    fn is_over_ssh(&self) -> bool {
        matches!(self, Self::Hosts(start) if start.iter().any(|word| word.starts_with("ssh ")))
    }
}

/// A job that was started, with the processes that join it.
struct Started {
    running: Running,
    joined: Vec<Child>,
}

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.joined {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Started {
    fn new(way: &Way, network: &Network, program: &[&str], random: &mut StdRng) -> Self {
        let weft = weft().display().to_string();
        let mut command = match way {
            Way::Hydra(launcher) => network.hydra(launcher, RANKS),
            Way::Hosts(start) => {
                let mut command = network.on(0, &weft);
                command.arg("run").args(start);
                command
            }
            Way::Join(file) => {
                let (size, address) = ((HOSTS * RANKS).to_string(), network.address(0) + ":0");
                let mut command = network.on(0, &weft);
                command.args(["run", "-n", &size, "--token-file", file]);
                command.args(["--listen", &address]);
                command
            }
        };
        command.args(program);
        let mut started = Self {
            running: Job::of(command).start(),
            joined: Vec::new(),
        };
        if let Way::Join(file) = way {
            let said = started.running.said();
            let address = said.trim().rsplit(' ').next().expect("words");
            for host in 0..HOSTS {
                sleep(Duration::from_micros(random.random_range(0..20_000)));
                let mut join = network.on(host, &weft);
                join.args(["join", "--token-file", file, "-n", &RANKS.to_string()]);
                join.arg(address)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                started.running.adopt(&mut join);
                started.joined.push(join.spawn().expect("starts"));
            }
        }
        started
    }

    /// Waits until no process is found any more and all of these have ended, at most for the promised time;
    /// returns those that are left.
    fn gone(
        &mut self,
        clock: &Clock,
        these: &[ProcessHandle],
        find: impl Fn(&Running) -> Vec<Found>,
    ) -> Vec<String> {
        let start = clock.now();
        loop {
            let _ = self.running.child.try_wait();
            for child in &mut self.joined {
                let _ = child.try_wait();
            }
            let found = find(&self.running);
            let lives =
                |handle: &&ProcessHandle| !handle.wait_end(Some(Duration::ZERO)).unwrap_or(true);
            let mut alive = these.iter().filter(lives);
            let left = (start + LIMIT).saturating_sub(clock.now());
            if left.is_zero() {
                let found = found.iter().map(|found| format!("{found:?}"));
                let alive = alive.map(|handle| format!("process {}", handle.id()));
                return found.chain(alive).collect();
            }
            let opened = found
                .iter()
                .rev()
                .find_map(|found| ProcessHandle::open(found.member.id).ok());
            let next = opened.as_ref().or_else(|| alive.next());
            let Some(next) = next else {
                if found.is_empty() {
                    return Vec::new();
                }
                continue;
            };
            // Until this one has ended; others may have started meanwhile.
            let _ = next.wait_end(Some(left.min(Duration::from_millis(100))));
        }
    }
}

/// The results of the kills of one kind on one host.
#[derive(Default)]
struct Seen {
    kills: u32,
    /// Kills before all ranks existed.
    early: u32,
    slowest: Duration,
    /// Kills that a launcher other than ours has not noticed.
    unnoticed: u32,
}

/// Kills one process of a job, at a random time; returns whether that was before all ranks existed, and how
/// long it took until no process was left; `None` if a launcher other than ours has not noticed it.
fn kill(
    way: &Way,
    network: &Network,
    target: Target,
    number: usize,
    seed: u64,
    clock: &Clock,
) -> (bool, Option<Duration>) {
    let mut random = StdRng::seed_from_u64(seed + number as u64);
    let rank = rank();
    let shell = format!("setsid sleep 600 & {rank} wait; :");
    let programs: &[&[&str]] = match way {
        // If a rank dies below a shell that ends well, Hydra does not inform other hosts.
        Way::Hydra(_) if target.kind == Kind::Rank => &[&[&rank, "wait"]],
        Way::Hydra(_) => &[&[&rank, "wait"], &["sh", "-c", &format!("{rank} wait; :")]],
        _ => &[
            &[&rank, "wait"],
            &["sh", "-c", &shell],
            &["sleep", "600"],
            &[&rank, "spin"],
        ],
    };
    let program = programs[number % programs.len()];
    let mut started = Started::new(way, network, program, &mut random);
    let forming = if way.is_over_ssh() {
        FORMING_OVER_SSH
    } else {
        FORMING
    };
    sleep(Duration::from_micros(random.random_range(0..2 * forming)));
    let context = format!("seed {seed}, kill {number}: {target:?} of {program:?}");
    // Joining agents try for some seconds to reach a head; an agent that has not connected belongs to no job.
    let came = |all: &[Found], host: usize| {
        let its = |found: &Found| found.kind == Kind::Agent && found.host == host;
        !matches!(way, Way::Join(_)) || all.iter().any(its)
    };
    // If the process does not exist yet, it is killed as soon as it does.
    let end = Instant::now() + harness::LIMIT;
    let (victim, all) = loop {
        let all = targets::members(&started.running, network);
        let joins = matches!(target.kind, Kind::Guard | Kind::Agent);
        if let Some(victim) = target.find(&all)
            && (joins || (0..HOSTS).all(|host| came(&all, host)))
        {
            break (victim, all);
        }
        assert!(Instant::now() < end, "{context}: it does not come: {all:?}");
        sleep(Duration::from_millis(1));
    };
    let sessions = all.iter().filter(|found| found.kind == Kind::Session);
    let sessions: Vec<_> = sessions
        .filter_map(|found| ProcessHandle::open(found.member.id).ok())
        .collect();
    signal(victim, libc::SIGKILL);
    let since = clock.now();
    let ranks = all.iter().filter(|found| found.kind == Kind::Rank).count();
    let ours = |running: &Running| -> Vec<Found> {
        let mut found = targets::members(running, network);
        if matches!(way, Way::Hydra(_)) {
            found.retain(|found| matches!(found.kind, Kind::Rank | Kind::Below));
        }
        found
    };
    if matches!(way, Way::Join(_)) && ranks == 0 && matches!(target.kind, Kind::Guard | Kind::Agent)
    {
        // The job continues to wait for others, and is ended in the way of a user.
        let there = |running: &Running| -> Vec<Found> {
            let mut found = targets::members(running, network);
            found.retain(|found| found.host == target.host);
            found.retain(|found| !matches!(found.kind, Kind::Frontend | Kind::Head));
            found
        };
        let left = started.gone(clock, &[], there);
        assert!(left.is_empty(), "{context}: left after {LIMIT:?}: {left:?}");
        started.running.until("the others to join", |running| {
            let all = targets::members(running, network);
            all.is_empty() || (0..HOSTS).all(|host| host == target.host || came(&all, host))
        });
        signal(started.running.frontend(), libc::SIGKILL);
    }
    let mut left = started.gone(clock, &sessions, ours);
    // Hydra does not always notice a rank that dies early, and continues: then Hydra itself is killed.
    let frontend = started.running.frontend();
    let unnoticed = !left.is_empty()
        && matches!(way, Way::Hydra(_))
        && target.kind == Kind::Rank
        && harness::Member::read(frontend).is_some();
    if unnoticed {
        println!("{context}: Hydra has not noticed it");
        signal(frontend, libc::SIGKILL);
        left = started.gone(clock, &sessions, ours);
    }
    assert!(left.is_empty(), "{context}: left after {LIMIT:?}: {left:?}");
    let time = clock.now().saturating_sub(since);
    (ranks < HOSTS * RANKS, (!unnoticed).then_some(time))
}

/// Kills that many times, each of these kinds equally often.
fn kills(kills: usize, way: &Way, network: &Network, kinds: &[Kind]) {
    let targets = targets::on_hosts(kinds, HOSTS);
    let seed = rand::rng().random::<u64>() >> 8;
    let (clock, begun) = (Clock::start(), Instant::now());
    let next = Mutex::new(0..kills);
    let seen = Mutex::new(BTreeMap::<Target, Seen>::new());
    let work = || {
        loop {
            let Some(number) = next.lock().expect("no panic").next() else {
                return;
            };
            let target = targets[number % targets.len()];
            let (early, time) = kill(way, network, target, number / targets.len(), seed, &clock);
            let mut seen = seen.lock().expect("no panic");
            let seen = seen.entry(target).or_default();
            seen.kills += 1;
            seen.early += u32::from(early);
            seen.unnoticed += u32::from(time.is_none());
            seen.slowest = seen.slowest.max(time.unwrap_or_default());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    println!(
        "seed {seed}, {:?}, of which the machine was late by {:?}:",
        begun.elapsed(),
        clock.late()
    );
    for (target, seen) in seen.into_inner().expect("no panic") {
        let Seen {
            kills,
            early,
            slowest,
            unnoticed,
        } = seen;
        assert!(
            unnoticed * 4 <= kills,
            "{target:?}: {unnoticed} of {kills} were not noticed"
        );
        println!(
            "{target:?}: {kills} kills, {early} before all ranks were there; nothing left after {slowest:?}"
        );
    }
}

#[test]
fn over_a_secure_shell() {
    let Some(mut network) = Network::new(HOSTS) else {
        return;
    };
    let Some(command) = network.servers() else {
        return;
    };
    let each = |host| format!("{}:{RANKS}", network.address(host));
    let hosts = [each(0), each(1)].join(",");
    let start = ["--launch-command", &command, "--hosts", &hosts];
    let way = Way::Hosts(start.map(str::to_owned).to_vec());
    let kinds = [
        Kind::Frontend,
        Kind::Head,
        Kind::Carrier,
        Kind::Session,
        Kind::Guard,
        Kind::Agent,
        Kind::Rank,
    ];
    kills(OVER_SSH, &way, &network, &kinds);
}

/// Our processes in a job without ssh.
const OWN: [Kind; 5] = [
    Kind::Frontend,
    Kind::Head,
    Kind::Guard,
    Kind::Agent,
    Kind::Rank,
];

#[test]
fn over_another_command() {
    let Some(network) = Network::new(HOSTS) else {
        return;
    };
    let way = Way::Hosts(network.everywhere(RANKS));
    kills(KILLS - OVER_SSH, &way, &network, &OWN);
}

#[test]
fn of_hosts_that_join() {
    let Some(network) = Network::new(HOSTS) else {
        return;
    };
    let file = network.file("token");
    std::fs::write(&file, "0123456789abcdef".repeat(4)).expect("writes");
    kills(
        KILLS,
        &Way::Join(file.display().to_string()),
        &network,
        &OWN,
    );
}

#[test]
fn of_ranks_under_hydra() {
    let weft = weft();
    let target = weft
        .parent()
        .and_then(std::path::Path::parent)
        .expect("built there");
    let Some(hydra) = network::hydra(target) else {
        return;
    };
    let Some(network) = Network::new(HOSTS) else {
        return;
    };
    // Creates the files that it needs before several jobs start.
    let _ = network.hydra(&hydra, RANKS);
    let kinds = [Kind::Frontend, Kind::Proxy, Kind::Rank];
    kills(KILLS, &Way::Hydra(hydra), &network, &kinds);
}
