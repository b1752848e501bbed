//! Play: the ranks and the launcher of a history, as processes of the machine, and what is checked of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use weft_fabric::{
    Fabric, FabricError, Head, Operation, Peer, Posted, Region, Result, Rights, SharedBytes, Sink,
    SyncKey, Uses,
};
use weft_sys::Mapping;

use super::machine::{Outcome, ProcessPlan, Random, Simulated, Sleep};
use super::reference::{Act, Item, LENT, Reference, byte};
use crate::bell::ShmBell;
use crate::endpoint::Shm;
use crate::lane::{head, words};
use crate::options::{Options, Use};
use crate::segment::{Segment, initialise};
use crate::watch::Watch;
use crate::{poll_set, segment_size};

/// What the launcher does when a rank has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Telling {
    /// As it is.
    AsItIs,
    /// Nobody is woken who has not announced to sleep.
    WithoutWaking,
    /// No summary is marked.
    WithoutMarking,
}

/// A history: what decides it.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    pub seed: u64,
    /// This rank is killed after so many writes, and no other.
    pub killed: Option<(usize, u64)>,
    pub telling: Telling,
    pub traced: bool,
}

impl History {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            killed: None,
            telling: Telling::AsItIs,
            traced: false,
        }
    }

    /// Lets it happen.
    pub fn run(self, machine: &'static Simulated) -> Outcome {
        let mut random = Random::new(self.seed);
        let reference = Reference::new(&mut random);
        let ranks = reference.ranks;
        let mut last: Vec<Option<u64>> = vec![None; ranks];
        for _ in 0..random.below(3) {
            // Each magnitude as likely: many die early, some late.
            let most = 2 << random.below(10);
            let after = 1 + random.below(most);
            last[random.below(ranks as u64) as usize] = Some(after);
        }
        if let Some((rank, after)) = self.killed {
            last.fill(None);
            last[rank] = Some(after);
        }
        let mapping = Mapping::private(segment_size(ranks as u32).expect("fits")).expect("maps");
        initialise(&mapping, ranks as u32, 2).expect("the right size");
        let scene = Rc::new(Scene {
            machine,
            segment: Segment::open(mapping).expect("initialised"),
            reference: RefCell::new(reference),
        });
        let mut parts: Vec<ProcessPlan> = last
            .into_iter()
            .enumerate()
            .map(|(rank, last)| {
                let scene = scene.clone();
                let body = Box::new(move || scene.rank(rank));
                ProcessPlan { body, last }
            })
            .collect();
        let launching = scene.clone();
        parts.push(ProcessPlan {
            body: Box::new(move || launching.launcher(self.telling)),
            last: None,
        });
        let mut outcome = machine.run(self.seed, parts, Sleep::Fails, self.traced);
        if outcome.failure.is_none() {
            outcome.failure = scene.check_end().err();
        }
        outcome
    }
}

/// What the parts of a history share outside of the segment.
struct Scene {
    machine: &'static Simulated,
    segment: Arc<Segment>,
    reference: RefCell<Reference>,
}

/// Sink of one rank, which compares what it is told with the reference.
struct CheckingSink<'a> {
    scene: &'a Scene,
    me: usize,
}

impl CheckingSink<'_> {
    fn arrives(&self, from: Peer, item: Item) -> usize {
        self.scene
            .machine
            .tell(|| format!("gets {item:?} of {from}"));
        let mut reference = self.scene.reference.borrow_mut();
        let stream = &mut reference.streams[from.index()][self.me];
        assert!(!stream.lost, "{item:?} of {from} after its loss");
        let expected = stream.planned.get(stream.arrived);
        assert_eq!(expected, Some(&item), "of {from} to {}", self.me);
        stream.arrived += 1;
        assert!(stream.arrived <= stream.begun, "of {from}: not sent yet");
        stream.arrived - 1
    }
}

impl Sink for CheckingSink<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        let number = self.arrives(from, Item::Message(data.len()));
        let [sender, receiver, counted, _] = words(head);
        let named = [sender, receiver, counted].map(|word| word as usize);
        assert_eq!(named, [from.index(), self.me, number]);
        for (at, value) in data.to_vec().into_iter().enumerate() {
            assert_eq!(value, byte(number as u64, at), "byte {at} of {number}");
        }
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.scene
            .machine
            .tell(|| format!("{operation:?} has ended: {result:?}"));
        let number = operation.0 as usize;
        let mut reference = self.scene.reference.borrow_mut();
        let moving = reference.moving[number];
        assert!(moving.asker == self.me && !moving.ended, "{operation:?}");
        reference.moving[number].ended = true;
        match result {
            Ok(()) => reference.check(number),
            Err(FabricError::PeerLost { peer, .. }) => {
                assert_eq!(peer.index(), moving.owner);
                assert!(reference.ended[moving.owner], "{peer} lives");
            }
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.scene
            .machine
            .tell(|| format!("hears that {peer} is lost: {reason}"));
        let mut reference = self.scene.reference.borrow_mut();
        assert!(reference.ended[peer.index()], "{peer} lives: {reason}");
        let stream = &mut reference.streams[peer.index()][self.me];
        assert!(!stream.lost, "said twice of {peer}");
        stream.lost = true;
        let (arrived, done, begun) = (stream.arrived, stream.done, stream.begun);
        assert!(
            (done..=begun).contains(&arrived),
            "{arrived} of {peer} have arrived, {done} were sent"
        );
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.arrives(from, Item::Signal(key));
    }
}

impl Scene {
    /// The life of a rank.
    fn rank(&self, me: usize) {
        // Counted as ended when it returns, and when it is killed.
        let _end = Ended { scene: self, me };
        let options = Options {
            cross_memory: Use::Off,
            kernel_fences: Use::Off,
            assist: Use::Off,
            ..Options::default()
        };
        let segment = self.segment.clone();
        let mut endpoint = Shm::join(segment, me as u32, &options).expect("joins");
        let plan = {
            let mut reference = self.reference.borrow_mut();
            let lent = reference.lent[me].as_mut_ptr();
            // SAFETY: kept by the record until the history has ended.
            (reference.plans[me].clone(), unsafe {
                Region::new(lent, LENT)
            })
        };
        let token = endpoint.grant(plan.1, None, Rights::ReadWrite, Uses::Many);
        self.reference.borrow_mut().tokens[me] = Some(token.expect("a grant"));
        for act in plan.0 {
            match act {
                Act::Send(to) => self.send(&mut endpoint, me, to),
                Act::Get(..) | Act::Put(..) => self.transfer(&mut endpoint, me, act),
                Act::Look(budget) => {
                    endpoint.poll(&mut CheckingSink { scene: self, me }, budget);
                }
                Act::Nap => {
                    // Called off: nobody may have anything for it. The announcement stands.
                    let ticket = endpoint.bell().prepare();
                    endpoint.poll(&mut CheckingSink { scene: self, me }, 8);
                    endpoint.bell().cancel(ticket);
                }
            }
        }
        while self.reference.borrow().is_moving(me) {
            self.look(&mut endpoint, me);
        }
        let ranks = self.reference.borrow().ranks;
        for to in 0..ranks {
            self.send(&mut endpoint, me, to);
        }
        while !self.reference.borrow().is_done(me) {
            self.look(&mut endpoint, me);
        }
        self.machine.tell(|| "leaves".into());
    }

    /// Looks, and sleeps if there is nothing.
    fn look(&self, endpoint: &mut Shm, me: usize) {
        if endpoint.poll(&mut CheckingSink { scene: self, me }, 8) == 0 {
            self.sleep(endpoint, me);
        }
    }

    fn sleep(&self, endpoint: &mut Shm, me: usize) {
        let bell = endpoint.bell();
        let ticket = bell.prepare();
        let found = endpoint.poll(&mut CheckingSink { scene: self, me }, 8);
        if found > 0 || self.reference.borrow().is_done(me) {
            bell.cancel(ticket);
        } else {
            bell.wait(ticket, None);
        }
    }

    /// Sends the next item to a rank, however long it takes.
    fn send(&self, endpoint: &mut Shm, me: usize, to: usize) {
        let (number, item) = {
            let mut reference = self.reference.borrow_mut();
            let stream = &mut reference.streams[me][to];
            stream.begun += 1;
            (stream.begun - 1, stream.planned[stream.begun - 1])
        };
        let peer = Peer(to as u32);
        let posted = self.insist(endpoint, me, |endpoint| match item {
            Item::Message(length) => {
                let data: Vec<u8> = (0..length).map(|at| byte(number as u64, at)).collect();
                let head = head([me as u64, to as u64, number as u64, 0]);
                endpoint.try_send(peer, &head, &data)
            }
            Item::Signal(key) => endpoint.signal(peer, key),
        });
        match posted {
            Ok(Posted::Done) => {
                self.machine.tell(|| format!("sent {item:?} to {to}"));
                self.reference.borrow_mut().streams[me][to].done += 1;
            }
            Ok(other) => panic!("{item:?} is {other:?}"),
            Err(error) => self.refused(to, &error),
        }
    }

    /// Posts something until it is taken, asleep while there is no room.
    fn insist(
        &self,
        endpoint: &mut Shm,
        me: usize,
        mut post: impl FnMut(&mut Shm) -> Result<Posted>,
    ) -> Result<Posted> {
        let bell = endpoint.bell();
        loop {
            let posted = post(endpoint)?;
            if posted != Posted::Retry {
                return Ok(posted);
            }
            if endpoint.poll(&mut CheckingSink { scene: self, me }, 8) > 0 {
                continue;
            }
            let ticket = bell.prepare();
            let posted = post(endpoint)?;
            if posted != Posted::Retry {
                bell.cancel(ticket);
                return Ok(posted);
            }
            if endpoint.poll(&mut CheckingSink { scene: self, me }, 8) == 0 {
                bell.wait(ticket, None);
            }
        }
    }

    fn refused(&self, by: usize, error: &FabricError) {
        let lost = matches!(error, FabricError::PeerLost { peer, .. } if peer.index() == by);
        assert!(lost && self.reference.borrow().ended[by], "{error}");
    }

    fn transfer(&self, endpoint: &mut Shm, me: usize, act: Act) {
        let (Act::Get(owner, at, _) | Act::Put(owner, at, _)) = act else {
            return;
        };
        let Some(token) = self.reference.borrow().tokens[owner] else {
            return;
        };
        let (number, own) = self.reference.borrow_mut().begin(me, act);
        let operation = Operation(number as u64);
        let peer = Peer(owner as u32);
        let posted = self.insist(endpoint, me, |endpoint| match act {
            Act::Get(..) => endpoint.get(peer, token, at as u64, own, operation),
            _ => endpoint.put(peer, token, at as u64, own, operation),
        });
        if posted == Ok(Posted::Pending) {
            return;
        }
        self.reference.borrow_mut().forget(number);
        match posted {
            Ok(_) => self.reference.borrow().check(number),
            Err(error) => self.refused(owner, &error),
        }
    }

    /// The launcher: fetches whoever has ended, and tells the others.
    fn launcher(&self, telling: Telling) {
        let watch = Watch::over(self.segment.clone());
        loop {
            let (rank, status) = self.machine.next_end();
            self.machine.tell(|| format!("tells of the end of {rank}"));
            match telling {
                Telling::AsItIs => watch.tell_of_death(rank as u32, status),
                partly => self.tell_partly(partly, rank as u32),
            }
        }
    }

    /// As `Watch::tell_of_death`, with a part of it left out.
    fn tell_partly(&self, telling: Telling, rank: u32) {
        let slots = self.segment.shape().process_slots;
        self.segment.header().run_states.leave(rank);
        if telling != Telling::WithoutMarking {
            for slot in 0..slots {
                poll_set::mark_all(self.segment.control(slot), slots as usize);
            }
        }
        self.segment.record_end(rank, 9, false);
        self.segment.publish_changes();
        let bell = ShmBell::new(self.segment.clone(), 0, Use::Off);
        if telling != Telling::WithoutWaking {
            return bell.wake_all_regardless();
        }
        for slot in 0..slots {
            bell.wake(slot);
        }
    }

    /// What must be true at the end.
    fn check_end(&self) -> std::result::Result<(), String> {
        let reference = self.reference.borrow();
        for me in (0..reference.ranks).filter(|&me| !reference.killed[me]) {
            for from in (0..reference.ranks).filter(|&from| !reference.killed[from]) {
                let stream = &reference.streams[from][me];
                let (arrived, planned) = (stream.arrived, stream.planned.len());
                if arrived != planned {
                    return Err(format!("{arrived} of {planned} from {from} to {me}"));
                }
            }
            if reference.is_moving(me) {
                return Err(format!("rank {me} left before its transfers had ended"));
            }
        }
        let awake = self
            .segment
            .header()
            .run_states
            .awake(reference.ranks as u32);
        if awake != 0 {
            return Err(format!("{awake} are counted as awake, all have ended"));
        }
        Ok(())
    }
}

/// The end of a rank.
struct Ended<'a> {
    scene: &'a Scene,
    me: usize,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut reference = self.scene.reference.borrow_mut();
        reference.ended[self.me] = true;
        reference.killed[self.me] = self.scene.machine.is_killed(self.me);
    }
}
