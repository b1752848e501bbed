use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_sys::descriptor::{self, Carries};
use weft_sys::passing;

use super::*;
use crate::bootstrap::adopted::{Adopted, StartingLauncher};
use crate::control::Answer;
use crate::hosts::link::Link;

/// Launchers that do at once what is asked of them.
#[derive(Default)]
struct Launchers(Mutex<Started>);

#[derive(Default)]
struct Started {
    heads: u32,
    agents: u32,
    refuses: bool,
    is_adopted: bool,
    searching: Vec<(u32, Link)>,
    /// Their ends.
    kept: Vec<OwnedFd>,
}

impl Launchers {
    fn open(&self) -> MutexGuard<'_, Started> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Started {
    fn answering(&mut self, answers: &[Answer]) -> OwnedFd {
        let (ours, theirs) = descriptor::socket_pair(Carries::Messages).expect("descriptors");
        for answer in answers {
            passing::send(&theirs, &answer.encode(), &[]).expect("there is room");
        }
        self.kept.push(theirs);
        ours
    }
}

impl Start for Launchers {
    fn head(&self) -> Result<OwnedFd, String> {
        let mut started = self.open();
        started.heads += 1;
        let place = b"4000,10.0.0.1".to_vec();
        Ok(started.answering(&[Answer::Value(Some(place)), Answer::Taken]))
    }

    fn agent(&self, head: &str) -> Result<StartingLauncher, String> {
        assert_eq!(head, "4000,10.0.0.1");
        let mut started = self.open();
        started.agents += 1;
        let reason = "no luck".into();
        let answer = match started.refuses {
            true => Answer::Refused { reason },
            false => Answer::Taken,
        };
        let (lifeline, writing) = descriptor::pipe().expect("descriptors");
        // Its end would be that of this process.
        std::mem::forget(writing);
        Ok(StartingLauncher::said(
            started.answering(&[answer]),
            lifeline,
        ))
    }

    fn is_adopted(&self) -> bool {
        self.open().is_adopted
    }

    fn adopt(&self, _launcher: Adopted) {
        self.open().is_adopted = true;
    }

    fn search(&self, rank: u32, link: Link) {
        self.open().searching.push((rank, link));
    }
}

/// Three ranks on two hosts, the lowest of which hear calls.
struct Job {
    hosts: CalledHosts,
    launchers: [Arc<Launchers>; 2],
    listeners: Vec<CallListener>,
    places: HashMap<u32, Vec<u8>>,
}

impl Job {
    fn new() -> Self {
        let cards = [(7, "a"), (7, "a"), (8, "b")];
        let hosts = CalledHosts {
            map: HostMap::group(cards.map(|(host, name)| (host, name.to_owned()))),
            key: Key::random().expect("random"),
            universe: 3,
        };
        let mut job = Self {
            hosts,
            launchers: Default::default(),
            listeners: Vec::new(),
            places: HashMap::new(),
        };
        for (rank, launchers) in [0, 2].into_iter().zip(&job.launchers) {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let number = port.local_addr().expect("bound").port();
            let place = format!("{number},127.0.0.1").into_bytes();
            job.places.insert(rank, place);
            let start = Arc::clone(launchers);
            let listener = CallListener::begin(port, &job.hosts, rank, start, None);
            job.listeners.push(listener.expect("a thread"));
        }
        job
    }

    fn call(&self) -> Result<(), String> {
        call_all(&self.hosts, &|rank| self.places.get(&rank).cloned())
    }

    fn heads_and_agents(&self) -> [u32; 3] {
        let [first, second] = self.launchers.each_ref().map(|host| host.open());
        assert_eq!(second.heads, 0, "it is beside rank 0");
        [first.heads, first.agents, second.agents]
    }
}

#[test]
fn there_is_one_head_and_one_agent_of_each_host_for_any_caller() {
    let job = Job::new();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(|| job.call())).collect();
        for caller in callers {
            assert_eq!(caller.join().expect("no panic"), Ok(()));
        }
    });
    assert_eq!(job.heads_and_agents(), [1, 1, 1]);
    assert!(job.launchers.iter().all(|host| host.is_adopted()));
}

#[test]
fn a_host_that_starts_no_launcher_is_named_and_may_do_so_later() {
    let job = Job::new();
    job.launchers[1].open().refuses = true;
    let reason = job.call().expect_err("it refuses");
    for said in ["host b (rank 2)", "no luck"] {
        assert!(reason.contains(said), "{reason}");
    }
    job.launchers[1].open().refuses = false;
    assert_eq!(job.call(), Ok(()));
    assert_eq!(job.launchers[1].open().agents, 2);
}

#[test]
fn nothing_is_begun_when_a_host_cannot_be_called() {
    let mut job = Job::new();
    drop(job.listeners.pop());
    let reason = job.call().expect_err("nobody listens");
    for said in ["host b (rank 2)", "finalised MPI"] {
        assert!(reason.contains(said), "{reason}");
    }
    job.places.insert(2, b"-".to_vec());
    let reason = job.call().expect_err("nobody listens");
    assert!(reason.contains("has not said where"), "{reason}");
    assert_eq!(job.heads_and_agents(), [0; 3]);
}

#[test]
fn a_caller_that_does_not_know_the_key_starts_nothing() {
    let mut job = Job::new();
    let key = std::mem::replace(&mut job.hosts.key, Key::random().expect("random"));
    assert!(job.call().is_err());
    assert_eq!(job.heads_and_agents(), [0; 3]);
    job.hosts.key = key;
    assert_eq!(job.call(), Ok(()));
}

/// A rank that dies as soon as it can is missed.
#[test]
fn a_rank_that_answers_calls_is_watched_from_then_on() {
    let job = Job::new();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let asked = Arc::new(Mutex::new(false));
    let (place, noted) = (job.places.get(&0).cloned(), Arc::clone(&asked));
    let losses = Losses {
        place: Box::new(move |_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            *noted.lock().expect("no panic") = true;
            place.clone()
        }),
        end_job: Box::new(|_| {}),
    };
    let start = Arc::clone(&job.launchers[1]);
    let listener = CallListener::begin(port, &job.hosts, 2, start, Some(losses));
    assert!(*asked.lock().expect("no panic"), "it was not awaited");
    drop(listener);
}
