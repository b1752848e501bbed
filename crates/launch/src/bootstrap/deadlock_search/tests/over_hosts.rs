//! The search over hosts, each of which has a memory of its own; they call each other at ports of this one.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};

use super::*;
use crate::bootstrap::adopted::{Adopted, StartingLauncher};
use crate::bootstrap::calls::{CallListener, Start};

/// The lowest rank of a host, as it is called.
struct Called(DeadlockSearch);

impl Start for Called {
    fn head(&self) -> Result<OwnedFd, String> {
        Err("nobody asks".into())
    }

    fn agent(&self, _head: &str) -> Result<StartingLauncher, String> {
        Err("nobody asks".into())
    }

    fn is_adopted(&self) -> bool {
        false
    }

    fn adopt(&self, _launcher: Adopted) {}

    fn search(&self, rank: u32, link: Link) {
        self.0.take_in(rank, link);
    }
}

/// A job whose ranks are on hosts of these numbers, and what its launcher is told.
struct Job {
    ranks: Vec<Rank>,
    told: Receiver<Told>,
    /// Of the lowest rank of each host.
    calls: Vec<Option<CallListener>>,
}

impl Job {
    fn on(hosts: &[u32]) -> Self {
        let named = hosts.iter().map(|host| (*host, format!("host{host}")));
        let map = HostMap::group(named);
        let ranks = ranks_on(&map, OnDeadlock::End);
        let mut places = HashMap::new();
        let mut calls = Vec::new();
        for lowest in (0..map.count()).filter_map(|host| map.ranks_of(host).next()) {
            let deadlocks = ranks[lowest as usize].deadlocks.clone();
            let member = deadlocks.0.as_ref().expect("it takes part");
            let hosts = member.host.hosts.clone();
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let number = port.local_addr().expect("bound").port();
            places.insert(lowest, format!("{number},127.0.0.1").into_bytes());
            let start = Arc::new(Called(deadlocks));
            let listener = CallListener::begin(port, &hosts, lowest, start, None);
            calls.push(Some(listener.expect("a thread")));
        }
        let (tell, told) = channel();
        for rank in &ranks {
            let places = places.clone();
            rank.begin_at(&tell, move |rank| places.get(&rank).cloned());
        }
        Self { ranks, told, calls }
    }

    /// The process of a rank that has used sessions only, after it has ended them. `calls`: it was the lowest of this host.
    fn leave(&mut self, rank: usize, calls: usize) -> Rank {
        let absent = self.ranks.remove(rank);
        self.calls[calls] = None;
        absent.deadlocks.note_early_end();
        absent.deadlocks.end();
        absent
    }

    fn told_within(&self, limit: Duration) -> Option<String> {
        let (code, why) = self.told.recv_timeout(limit).ok()?;
        assert_eq!(code, 35);
        Some(why)
    }
}

#[test]
fn ranks_of_two_hosts_that_wait_for_each_other_are_found() {
    let job = Job::on(&[0, 1]);
    assert!(job.ranks.iter().all(Rank::searches), "one on each host");
    let found = run(&job.ranks, &[(0, 1), (1, 0)], || job.told_within(LONG));
    let why = found.expect("it is a deadlock");
    assert!(why.contains("ranks 0 and 1 wait for each other"), "{why}");
    assert_eq!(job.told_within(Duration::from_secs(1)), None, "once");
}

#[test]
fn no_deadlock_is_found_while_a_rank_of_any_host_is_awake() {
    for asleep in [[(0, 2), (1, 2)], [(0, 2), (2, 0)], [(1, 2), (2, 1)]] {
        let job = Job::on(&[0, 0, 1]);
        let found = run(&job.ranks, &asleep, || {
            job.told_within(Duration::from_secs(2))
        });
        assert_eq!(found, None, "{asleep:?}");
    }
}

/// A host has been looked at, and another one has nobody that searches, or cannot call.
#[test]
fn no_deadlock_is_found_while_a_host_cannot_be_asked() {
    let job = Job::on(&[0, 1, 2]);
    let member = job.ranks[2].deadlocks.0.as_ref().expect("it takes part");
    let search = member.state().search.take();
    assert!(search.and_then(|search| search.end()).is_none());
    let found = run(&job.ranks, &[(0, 1), (1, 0)], || {
        job.told_within(Duration::from_secs(3))
    });
    assert_eq!(found, None);
}

/// The next rank tells which ranks wait there.
#[test]
fn another_rank_of_a_host_goes_on_with_the_search_there() {
    let job = Job::on(&[0, 1, 1]);
    let [_, first, second] = &job.ranks[..] else {
        panic!("three ranks");
    };
    let found = run(&job.ranks, &[(0, 2), (2, 0)], || {
        first.deadlocks.end();
        let until = Instant::now() + LONG;
        while !second.searches() && Instant::now() < until {
            std::thread::yield_now();
        }
        // The first one might begin anew: nobody is accused.
        assert_eq!(job.told_within(Duration::from_secs(2)), None);
        let member = first.deadlocks.0.as_ref().expect("it takes part");
        member
            .watch()
            .expect("it is mapped")
            .tell_of_end(0, 0, true);
        job.told_within(LONG)
    });
    let why = found.expect("it is a deadlock");
    assert!(why.contains("ranks 0 and 2 wait for each other"), "{why}");
}

/// It is alone on its host, and nobody but the end of its link tells of the end of its process.
#[test]
fn a_rank_that_has_used_sessions_only_counts_until_its_process_has_ended() {
    // The one that judges, and another one, which has something to say before, or has not.
    for (absent, has_slept) in [(0, false), (0, true), (1, false), (1, true)] {
        let mut job = Job::on(&[0, 1, 2]);
        if has_slept {
            run(&job.ranks, &[(1, 0), (2, 0)], || {
                job.told_within(Duration::from_secs(1))
            });
        }
        let process = job.leave(absent, absent);
        let ranks = std::mem::take(&mut job.ranks);
        let gone = absent as u32;
        let found = run(&ranks, &[(0, gone), (1, gone)], || {
            assert_eq!(job.told_within(Duration::from_secs(2)), None);
            drop(process);
            job.told_within(LONG)
        });
        let why = found.unwrap_or_else(|| panic!("{absent}, {has_slept}: it is a deadlock"));
        let said = format!("waits for rank {absent}, which has left MPI");
        assert!(why.contains(&said), "{why}");
    }
}
