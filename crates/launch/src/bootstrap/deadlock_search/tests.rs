//! The search among ranks that are threads of the test: each sleeps, looks when it is rung, and says what a rank would.

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use weft_fabric::{Bell, Fabric};
use weft_fabric_shm::{JobSize, Options, Shm};
use weft_mpi::waits::{Operation, Wait};
use weft_secure::Key;

use super::*;
use crate::bootstrap::hosts::HostMap;

mod over_hosts;

/// Longer than a search takes, however busy the host is.
const LONG: Duration = Duration::from_secs(60);

/// A rank that sleeps until it is told to end.
struct Rank {
    deadlocks: DeadlockSearch,
    bell: Arc<dyn Bell>,
    _fabric: Shm,
}

/// A message to the launcher.
type Told = (u8, String);

fn ranks(count: u32, on_deadlock: OnDeadlock) -> Vec<Rank> {
    ranks_on(&HostMap::single(count, "here"), on_deadlock)
}

/// The ranks of a job on these hosts, each of which has a memory of its own.
fn ranks_on(map: &HostMap, on_deadlock: OnDeadlock) -> Vec<Rank> {
    let hosts = CalledHosts {
        map: map.clone(),
        key: Key::random().expect("random"),
        universe: map.size(),
    };
    let segment = |host| segment::create(JobSize::of(map.local_size(host)));
    let segments: Vec<_> = (0..map.count())
        .map(|host| segment(host).expect("memory files exist here"))
        .collect();
    let rank = |rank| {
        let on = map.host(rank);
        let descriptor = &segments[on as usize].descriptor;
        let memory = || descriptor.as_fd().try_clone_to_owned();
        let memory = || memory().expect("descriptors are left");
        let local = map.local_rank(rank);
        let fabric = Shm::attach_with(memory(), local, &Options::default()).expect("joins");
        let host = HostRanks {
            hosts: hosts.clone(),
            rank,
            name: format!("weft-test-{}-{on}", hosts.key.to_text()),
            on_deadlock,
            // All of them are the process of the test.
            stop: |_| {},
        };
        Rank {
            deadlocks: DeadlockSearch::among(host, memory()),
            bell: fabric.bell(),
            _fabric: fabric,
        }
    };
    (0..map.size()).map(rank).collect()
}

/// A message from this rank is waited for.
fn waits_for(from: u32, inquiry: u32) -> RankWaits {
    let message = Operation::Message {
        from: Some(from),
        tag: None,
        context: 0,
        room: None,
    };
    let wait = Wait {
        operations: vec![message],
        ..Wait::default()
    };
    RankWaits {
        inquiry,
        waits: vec![wait],
        ..RankWaits::default()
    }
}

impl Rank {
    fn begin(&self, told: &Sender<Told>) {
        self.begin_at(told, |_| None);
    }

    /// … where rank 0 is called there.
    fn begin_at(
        &self,
        told: &Sender<Told>,
        place: impl Fn(u32) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) {
        let told = told.clone();
        self.deadlocks.begin(place, move |code, why| {
            let _ = told.send((code, why.to_owned()));
            // The process of a rank ends after this; that of the test does not.
            loop {
                std::thread::park();
            }
        });
    }

    fn searches(&self) -> bool {
        let member = self.deadlocks.0.as_ref().expect("it takes part");
        member.state().search.is_some()
    }
}

/// Sleeps at the bell of a rank, and says when it is asked that it waits for a message of that rank, until it hears something.
fn sleep(deadlocks: &DeadlockSearch, bell: &dyn Bell, from: u32, until: &Receiver<()>) {
    let mut answered = 0;
    loop {
        let ticket = bell.prepare();
        let inquiry = bell.inquiry();
        if until.try_recv().is_ok() {
            return bell.cancel(ticket);
        }
        if inquiry != answered {
            bell.cancel(ticket);
            deadlocks.answer(&waits_for(from, inquiry));
            answered = inquiry;
            continue;
        }
        bell.wait(ticket, None);
    }
}

/// Runs the ranks of which it is said for whom they wait, while `meanwhile` runs.
fn run<T>(ranks: &[Rank], sleepers: &[(usize, u32)], meanwhile: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let mut ends = Vec::new();
        for (index, from) in sleepers {
            let (end, until) = channel();
            let Rank {
                deadlocks, bell, ..
            } = &ranks[*index];
            let (deadlocks, woken) = (deadlocks.clone(), Arc::clone(bell));
            scope.spawn(move || sleep(&deadlocks, &*woken, *from, &until));
            ends.push((end, bell));
        }
        let result = meanwhile();
        for (end, bell) in ends {
            end.send(()).expect("it sleeps");
            bell.ring();
        }
        result
    })
}

#[test]
fn the_lowest_rank_finds_ranks_that_wait_for_each_other() {
    let ranks = ranks(2, OnDeadlock::End);
    let (tell, told) = channel();
    ranks.iter().for_each(|rank| rank.begin(&tell));
    assert!(ranks[0].searches() && !ranks[1].searches());
    let found = run(&ranks, &[(0, 1), (1, 0)], || told.recv_timeout(LONG));
    let (code, why) = found.expect("it is a deadlock");
    assert_eq!(code, 35);
    assert!(why.contains("ranks 0 and 1 wait for each other"), "{why}");
}

/// The lowest ends in order while two others wait for each other: it cannot come back, as its process has ended, which this one has
/// not; so that is said here by hand.
#[test]
fn another_one_goes_on_with_the_search() {
    let ranks = ranks(3, OnDeadlock::End);
    let (tell, told) = channel();
    ranks.iter().for_each(|rank| rank.begin(&tell));
    let found = run(&ranks, &[(1, 2), (2, 1)], || {
        ranks[0].deadlocks.end();
        assert!(!ranks[0].searches());
        let until = Instant::now() + LONG;
        while !ranks[1].searches() && !ranks[2].searches() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(ranks[1].searches() != ranks[2].searches(), "one of them");
        // The lowest might begin anew: nobody is accused.
        let early = told.recv_timeout(Duration::from_secs(2));
        assert!(early.is_err(), "{early:?}");
        let member = ranks[0].deadlocks.0.as_ref().expect("it takes part");
        let watch = member.watch().expect("it is mapped");
        watch.tell_of_end(0, 0, true);
        told.recv_timeout(LONG)
    });
    let (code, why) = found.expect("it is a deadlock");
    assert_eq!(code, 35);
    assert!(why.contains("ranks 1 and 2 wait for each other"), "{why}");
}

#[test]
fn a_rank_that_begins_anew_is_asked_again() {
    let ranks = ranks(2, OnDeadlock::End);
    let (tell, told) = channel();
    ranks.iter().for_each(|rank| rank.begin(&tell));
    ranks[1].deadlocks.end();
    ranks[1].begin(&tell);
    let found = run(&ranks, &[(0, 1), (1, 0)], || told.recv_timeout(LONG));
    assert_eq!(found.expect("it is a deadlock").0, 35);
}

#[test]
fn ranks_that_are_awake_or_not_asked_are_in_no_deadlock() {
    let (tell, told) = channel();
    let all = ranks(2, OnDeadlock::End);
    all.iter().for_each(|rank| rank.begin(&tell));
    let silent = ranks(2, OnDeadlock::Ignore);
    assert!(silent.iter().all(|rank| !rank.deadlocks.is_on()));
    silent.iter().for_each(|rank| rank.begin(&tell));
    let found = run(&all, &[(0, 1)], || {
        run(&silent, &[(0, 1), (1, 0)], || {
            told.recv_timeout(Duration::from_secs(3))
        })
    });
    assert!(found.is_err(), "{found:?}");
}

#[test]
fn what_the_environment_says_is_followed_or_refused() {
    let said =
        |text: Option<&str>| wish(&|name| text.filter(|_| name == VARIABLE).map(str::to_owned));
    assert_eq!(said(None), Ok(OnDeadlock::End));
    assert_eq!(said(Some("")), Ok(OnDeadlock::End));
    assert_eq!(said(Some("ignore")), Ok(OnDeadlock::Ignore));
    assert_eq!(said(Some("stop")), Ok(OnDeadlock::Stop));
    let error = said(Some("no")).expect_err("not known").to_string();
    assert!(
        error.contains(VARIABLE) && error.contains("ignore"),
        "{error}"
    );
}
