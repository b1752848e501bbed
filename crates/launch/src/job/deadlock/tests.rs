//! The watch over ranks that say what a test has them say, at times that it makes up.

use weft_mpi::waits::{HeldLock, Link, Operation, Wait, WindowStep};

use super::*;

struct Ranks {
    running: Vec<RunningRank>,
    rest: Option<u64>,
    /// The inquiries so far: whether they ask for places.
    asked: Vec<bool>,
}

impl WatchedRanks for Ranks {
    fn running(&self) -> Vec<RunningRank> {
        self.running.clone()
    }

    fn rest(&self) -> Option<u64> {
        self.rest
    }

    fn inquire(&mut self, full: bool) -> u32 {
        self.asked.push(full);
        // It wakes them.
        self.rest = self.rest.map(|shown| shown + 2);
        self.asked.len() as u32
    }
}

/// Two ranks, each of which waits for a message of the other one.
struct Scene {
    watch: DeadlockWatch,
    ranks: Ranks,
    now: Instant,
    /// What each has sent and received.
    counts: [(u64, u64); 2],
    activity: u64,
}

impl Scene {
    fn new() -> Self {
        let now = Instant::now();
        let rank = |rank| RunningRank {
            rank,
            process: 100 + rank,
            is_initialised: true,
            is_finalised: false,
        };
        Self {
            watch: DeadlockWatch::new(now),
            ranks: Ranks {
                running: vec![rank(0), rank(1)],
                rest: Some(5),
                asked: Vec::new(),
            },
            now,
            counts: [(0, 0); 2],
            activity: 1,
        }
    }

    fn answer(&mut self, rank: u32) {
        let other = 1 - rank;
        let (sent, received) = self.counts[rank as usize];
        let waits = RankWaits {
            inquiry: self.ranks.asked.len() as u32,
            activity: self.activity,
            links: vec![Link {
                peer: other,
                sent,
                received,
                is_over: false,
            }],
            waits: vec![Wait {
                operations: vec![Operation::Message {
                    from: Some(other),
                    tag: None,
                    context: 0,
                    room: None,
                }],
                ..Wait::default()
            }],
            ..RankWaits::default()
        };
        self.watch.hear(rank, waits, self.now);
    }

    /// Time passes, and those answer that sleep. Whether something was proven.
    fn pass(&mut self, time: Duration, who: &[u32]) -> bool {
        let end = self.now + time;
        while self.now < end {
            let before = self.ranks.asked.len();
            if self.watch.look(self.now, &mut self.ranks).is_some() {
                return true;
            }
            if self.ranks.asked.len() > before {
                who.iter().for_each(|rank| self.answer(*rank));
            } else {
                self.now += LOOK / 5;
            }
        }
        false
    }
}

#[test]
fn a_rank_that_answers_twice_alike_stands_still() {
    let mut scene = Scene::new();
    assert!(scene.pass(Duration::from_secs(1), &[0, 1]));
    assert_eq!(scene.ranks.asked, [false, false, true]);
    assert!(scene.watch.next_look().is_none(), "it is told once");
}

#[test]
fn what_is_on_its_way_is_waited_for() {
    let mut scene = Scene::new();
    // Rank 0 has sent a frame that rank 1 has not received.
    scene.counts = [(8, 3), (3, 7)];
    assert!(!scene.pass(Duration::from_secs(5), &[0, 1]));
    assert!(!scene.ranks.asked.contains(&true), "nobody is accused");
    // It came, and that changed nothing.
    (scene.counts, scene.activity) = ([(8, 3), (3, 8)], 2);
    (scene.ranks.rest, scene.now) = (Some(1000), scene.now + RAREST);
    assert!(scene.pass(Duration::from_secs(1), &[0, 1]));
}

#[test]
fn a_rank_that_does_not_answer_is_in_no_deadlock() {
    let mut scene = Scene::new();
    assert!(!scene.pass(Duration::from_secs(5), &[0]));
    scene.ranks.running[1].is_initialised = false;
    let asked = scene.ranks.asked.len();
    assert!(!scene.pass(RAREST * 3, &[0]));
    assert_eq!(scene.ranks.asked.len(), asked, "it may still come");
}

#[test]
fn a_late_answer_of_a_rank_counts() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        assert!(!scene.pass(ANSWERS / 2, &[0]));
        scene.answer(1);
    }
    assert!(scene.pass(LOOK, &[0, 1]));
    assert_eq!(scene.ranks.asked, [false, false, true]);
}

#[test]
fn a_rank_that_ends_without_an_answer_is_not_waited_for() {
    let mut scene = Scene::new();
    assert!(!scene.pass(Duration::from_secs(1), &[0]));
    assert_eq!(scene.ranks.asked.len(), 1);
    scene.ranks.running[1].is_finalised = true;
    scene.pass(Duration::from_secs(1), &[0]);
    assert!(scene.ranks.asked.len() > 1, "by who is left it goes on");
}

#[test]
fn ranks_that_are_in_no_deadlock_are_asked_ever_more_rarely() {
    let mut scene = Scene::new();
    assert!(!scene.pass(ANSWERS * 12, &[0]));
    assert!(scene.ranks.asked.len() < 10, "{:?}", scene.ranks.asked);
    let before = scene.ranks.asked.len();
    // Something has moved.
    scene.ranks.rest = None;
    scene.pass(ANSWERS, &[0]);
    scene.ranks.rest = Some(1000);
    scene.pass(Duration::from_secs(1), &[0]);
    assert!(scene.ranks.asked.len() > before);
}

/// What is told of ranks that each wait in one call for one operation.
fn remedy_of(waits: &[(&str, Operation)]) -> String {
    let ranks = (0..).zip(waits).map(|(rank, (call, operation))| {
        let wait = Wait {
            call: (*call).into(),
            operations: vec![operation.clone()],
            ..Wait::default()
        };
        let waits = RankWaits {
            waits: vec![wait],
            ..RankWaits::default()
        };
        (rank, waits)
    });
    Standstill::new(ranks.collect()).lines().join("\n")
}

#[test]
fn a_remedy_fits_what_is_waited_for() {
    let barrier = |missing: u32| Operation::Collective {
        name: "MPI_Barrier".into(),
        context: 1,
        missing: vec![missing],
    };
    let window = || Operation::Window {
        context: 2,
        step: WindowStep::Other,
        peers: Vec::new(),
    };
    let message = Operation::Message {
        from: Some(1),
        tag: Some(0),
        context: 0,
        room: None,
    };
    let partitions = || Operation::Other(weft_mpi::waits::PARTITIONS.into());
    let service = Operation::Service {
        what: "node 0 to signal".into(),
        ranks: vec![0],
    };
    for (waits, told) in [
        (
            vec![("MPI_Barrier", barrier(1)), ("MPI_Barrier", barrier(0))],
            "remedy: let all ranks of each communicator call its collectives",
        ),
        (
            vec![("MPI_Barrier", barrier(1)), ("MPI_Wait", barrier(0))],
            "remedy: some ranks are in MPI_Barrier itself, others wait for one that was begun before",
        ),
        (
            vec![("MPI_Recv", message), ("MPI_Win_lock", window())],
            "remedy: let each rank end its epoch (MPI_Win_unlock",
        ),
        (
            vec![("MPI_Wait", partitions()), ("MPI_Wait", partitions())],
            "remedy: let whoever sends by partitions make each of them ready (MPI_Pready)",
        ),
        (
            vec![("MPI_Barrier", barrier(1)), ("weft_sync_wait", service)],
            "remedy: let whoever is waited for write, allow, signal",
        ),
    ] {
        let text = remedy_of(&waits);
        assert!(text.contains(told), "{told}: {text}");
    }
}

/// Rank 0 waits for a message of rank 1, which waits for the lock of rank 2 at a window; rank 2 waits in a barrier for rank 0. These have
/// that lock, or one of another window.
fn of_locks(holders: &[(u32, u32)]) -> Standstill {
    let operations = [
        Operation::Message {
            from: Some(1),
            tag: Some(0),
            context: 0,
            room: None,
        },
        Operation::Window {
            context: 2,
            step: WindowStep::Lock,
            peers: vec![2],
        },
        Operation::Collective {
            name: "MPI_Barrier".into(),
            context: 1,
            missing: vec![0],
        },
    ];
    let ranks = (0..).zip(operations).map(|(rank, operation)| {
        let held = holders.iter().filter(|(holder, _)| *holder == rank);
        let locks = held.map(|(_, context)| HeldLock {
            context: *context,
            of: 2,
            is_exclusive: true,
        });
        let waits = RankWaits {
            waits: vec![Wait {
                call: "MPI_Call".into(),
                operations: vec![operation],
                ..Wait::default()
            }],
            locks: locks.collect(),
            ..RankWaits::default()
        };
        (rank, waits)
    });
    Standstill::new(ranks.collect())
}

#[test]
fn who_has_the_lock_is_who_is_waited_for() {
    let one = of_locks(&[(0, 2), (2, 4)]);
    assert_eq!(one.summary(), "ranks 0 and 1 wait for each other");
    let text = one.lines().join("\n");
    let line = "rank 1: MPI_Call for the lock of rank 2 at a window, which rank 0 has";
    assert!(text.contains(line), "{text}");
    assert!(
        text.contains("let rank 0 give the lock back (MPI_Win_unlock) before"),
        "{text}"
    );
    let several = of_locks(&[(0, 2), (2, 2)]).lines().join("\n");
    assert!(
        several.contains("at a window, which ranks 0, 2 have"),
        "{several}"
    );
    assert!(
        several.contains("let ranks 0, 2 give the lock back"),
        "{several}"
    );
    // Nobody says that it has it.
    let nobody = of_locks(&[(0, 4)]).lines().join("\n");
    assert!(
        nobody.contains("MPI_Call for the lock of rank 2 at a window\n"),
        "{nobody}"
    );
}
