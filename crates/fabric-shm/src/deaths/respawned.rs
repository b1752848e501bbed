//! Histories of jobs whose dead are replaced: each rank tells each higher one [`COUNT`] things, which then answers as many,
//! and begins anew with whoever was started anew. The history ends when nobody has anything to do.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weft_fabric::{
    Fabric, FabricError, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey,
};
use weft_sys::Mapping;

use super::machine::{ProcessPlan, Random, Simulated, Sleep};
use crate::JobSize;
use crate::endpoint::Shm;
use crate::lane::{head, words};
use crate::options::{Options, Use};
use crate::respawnable::respawnable;
use crate::segment::{Segment, initialise_job};
use crate::watch::Watch;

/// Messages that each process sends to each other.
const COUNT: u64 = 10;

/// What a process has heard of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// Nothing, or that it is lost.
    Nothing { lost: bool },
    /// So many messages, all of this life of the rank.
    Messages { life: u64, count: u64 },
}

/// The latest process of a rank.
struct Life {
    number: u64,
    process: usize,
    dead: bool,
    heard: Vec<Heard>,
    /// Messages that this process has sent since it began with them last.
    sent: Vec<u64>,
}

struct Scene {
    machine: &'static Simulated,
    segment: Arc<Segment>,
    lives: RefCell<Vec<Life>>,
    random: RefCell<Random>,
    replaced: Cell<u64>,
}

/// One history: how many processes were started anew, or what went wrong and what had happened.
pub(super) fn history(
    seed: u64,
    machine: &'static Simulated,
    traced: bool,
) -> std::result::Result<u64, (String, Vec<String>)> {
    let mut random = Random::new(!seed);
    let ranks = 2 + random.below(2) as u32;
    let spares = random.below(5) as u32;
    let size = JobSize {
        ranks,
        room: 0,
        spares,
        addresses: 0,
        channels: 1,
    };
    let mapping = Mapping::private(size.segment_size().expect("fits")).expect("maps");
    initialise_job(&mapping, size, 2).expect("the right size");
    let scene = Rc::new(Scene {
        machine,
        segment: Segment::open(mapping).expect("initialised"),
        lives: RefCell::default(),
        random: RefCell::new(random),
        replaced: Cell::new(0),
    });
    let mut parts: Vec<ProcessPlan> = (0..ranks)
        .map(|rank| {
            scene
                .lives
                .borrow_mut()
                .push(Life::new(0, rank as usize, ranks));
            scene.clone().part(rank)
        })
        .collect();
    let launching = scene.clone();
    parts.push(ProcessPlan {
        body: Box::new(move || launching.launcher()),
        last: None,
    });
    let outcome = machine.run(seed, parts, Sleep::Ends, traced);
    let checked = outcome.failure.map_or_else(|| scene.check_end(), Err);
    match checked {
        Ok(()) => Ok(scene.replaced.get()),
        Err(wrong) => Err((wrong, outcome.trace)),
    }
}

impl Life {
    fn new(number: u64, process: usize, ranks: u32) -> Self {
        Self {
            number,
            process,
            dead: false,
            heard: vec![Heard::Nothing { lost: false }; ranks as usize],
            sent: vec![0; ranks as usize],
        }
    }
}

/// Sink of one process, which checks what it is told.
struct CheckingSink<'a> {
    scene: &'a Scene,
    me: usize,
}

impl Sink for CheckingSink<'_> {
    fn message(&mut self, from: Peer, head: &Head, _: SharedBytes<'_>) {
        let [sender, sent_by, number, _] = words(head);
        self.scene
            .machine
            .tell(|| format!("gets {number} of life {sent_by} of {from}"));
        assert_eq!(sender, u64::from(from.0));
        let mut lives = self.scene.lives.borrow_mut();
        let heard = &mut lives[self.me].heard[from.index()];
        let expected = match *heard {
            Heard::Nothing { .. } => 0,
            Heard::Messages { life, count } => {
                assert_eq!(life, sent_by, "of {from}, whose loss was not said");
                count
            }
        };
        assert_eq!(number, expected, "of life {sent_by} of {from}");
        let count = number + 1;
        *heard = Heard::Messages {
            life: sent_by,
            count,
        };
    }

    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.scene
            .machine
            .tell(|| format!("hears that {peer} is lost: {reason}"));
        let mut lives = self.scene.lives.borrow_mut();
        let its = &lives[peer.index()];
        assert!(its.dead || its.number > 0, "{peer} lives: {reason}");
        let heard = &mut lives[self.me].heard[peer.index()];
        *heard = Heard::Nothing { lost: true };
        // Whoever has its place knows nothing of what was sent.
        lives[self.me].sent[peer.index()] = 0;
    }

    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

impl Scene {
    fn part(self: Rc<Self>, rank: u32) -> ProcessPlan {
        let mut random = self.random.borrow_mut();
        let most = 2 << random.below(9);
        let last = (!random.one_in(3)).then(|| 1 + random.below(most));
        drop(random);
        ProcessPlan {
            body: Box::new(move || self.process(rank)),
            last,
        }
    }

    /// The life of a process. It ends when it is killed.
    fn process(&self, rank: u32) {
        let me = rank as usize;
        let _end = Ended { scene: self, me };
        let options = Options {
            cross_memory: Use::Off,
            kernel_fences: Use::Off,
            assist: Use::Off,
            ..Options::default()
        };
        let slot = self.segment.slot_of(rank);
        let joined = Shm::join(self.segment.clone(), slot, &options);
        let mut endpoint = respawnable(joined.expect("joins"));
        let bell = endpoint.bell();
        loop {
            if self.step(&mut *endpoint, me) {
                continue;
            }
            let ticket = bell.prepare();
            if self.step(&mut *endpoint, me) {
                bell.cancel(ticket);
            } else {
                bell.wait(ticket, None);
            }
        }
    }

    /// Sends what can be sent, and looks. Whether there was anything.
    fn step(&self, endpoint: &mut dyn Fabric, me: usize) -> bool {
        let mut moved = false;
        let (ranks, life) = {
            let lives = self.lives.borrow();
            (lives.len(), lives[me].number)
        };
        for to in (0..ranks).filter(|&to| to != me) {
            loop {
                let lives = self.lives.borrow();
                let mine = &lives[me];
                let number = mine.sent[to];
                // The higher of two only answers.
                let asked = matches!(mine.heard[to], Heard::Messages { count: COUNT, .. });
                if number == COUNT || (to < me && !asked) {
                    break;
                }
                drop(lives);
                let head = head([me as u64, life, number, 0]);
                match endpoint.try_send(Peer(to as u32), &head, &[7; 30]) {
                    Ok(Posted::Done) => {
                        self.lives.borrow_mut()[me].sent[to] += 1;
                        moved = true;
                    }
                    Ok(_) | Err(FabricError::PeerLost { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        moved | (endpoint.poll(&mut CheckingSink { scene: self, me }, 8) > 0)
    }

    fn launcher(self: Rc<Self>) {
        let watch = Watch::over(self.segment.clone());
        loop {
            let (process, status) = self.machine.next_end();
            let (rank, ranks) = {
                let lives = self.lives.borrow();
                let its = lives.iter().position(|life| life.process == process);
                (its.expect("the latest of a rank"), lives.len() as u32)
            };
            self.machine.tell(|| format!("tells of the end of {rank}"));
            watch.tell_of_death(rank as u32, status);
            if watch.assign_spare(rank as u32) {
                let number = self.lives.borrow()[rank].number + 1;
                let process = self.machine.start(self.clone().part(rank as u32));
                self.machine
                    .tell(|| format!("{rank} is started anew as {process}"));
                self.lives.borrow_mut()[rank] = Life::new(number, process, ranks);
                self.replaced.set(self.replaced.get() + 1);
            }
        }
    }

    /// What must be true when nobody has anything to do.
    fn check_end(&self) -> std::result::Result<(), String> {
        let lives = self.lives.borrow();
        for (me, mine) in lives.iter().enumerate().filter(|(_, life)| !life.dead) {
            for (from, its) in lives.iter().enumerate().filter(|(from, _)| *from != me) {
                let expected = if its.dead {
                    Heard::Nothing { lost: true }
                } else {
                    Heard::Messages {
                        life: its.number,
                        count: COUNT,
                    }
                };
                let heard = mine.heard[from];
                if heard != expected {
                    return Err(format!(
                        "{me} has heard {heard:?} of {from}, {expected:?} was expected"
                    ));
                }
            }
        }
        let alive = lives.iter().filter(|life| !life.dead).count();
        let asleep = self
            .segment
            .header()
            .run_states
            .awake(self.segment.shape().process_slots);
        if asleep != 0 {
            return Err(format!("{asleep} are counted as awake, {alive} sleep"));
        }
        Ok(())
    }
}

/// The end of a process.
struct Ended<'a> {
    scene: &'a Scene,
    me: usize,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut lives = self.scene.lives.borrow_mut();
        let life = &mut lives[self.me];
        life.dead |= self.scene.machine.is_killed(life.process);
    }
}
