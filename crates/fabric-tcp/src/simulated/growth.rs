//! Growth: members that are started later, one after the other under the same number. Whatever the network does, what
//! is sent to one process reaches no other, and a new owner of a number is reported before anything from it arrives.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weft_fabric::{Fabric, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey};
use weft_secure::Key;

use super::conditions::Route;
use super::world::{Id, World};
use super::{Simulated, locked};
use crate::card::{Card, Offer};
use crate::config::Config;
use crate::directory::Directory;
use crate::endpoint::Tcp;

/// Members that are there from the start, and numbers that are given again.
const FIRST: u32 = 2;
const ROOM: u32 = 2;
/// Processes that have one of these numbers, one after the other.
const LATER: u32 = 12;
const PATIENCE: Duration = Duration::from_secs(20);

/// The knowledge of the launcher.
#[derive(Default)]
struct Known {
    version: u32,
    members: HashMap<u32, (u32, Card)>,
    /// The killed processes that the launcher reports.
    lost: HashSet<(u32, u32)>,
    /// Those that have ended in order, as it reports.
    left: HashSet<(u32, u32)>,
    /// All that were killed.
    killed: HashSet<(u32, u32)>,
}

#[derive(Clone, Default)]
struct Launcher(Arc<Mutex<Known>>);

impl Directory for Launcher {
    fn version(&self) -> u32 {
        self.0.lock().expect("one thread").version
    }

    fn incarnation(&self, peer: u32) -> u32 {
        let known = self.0.lock().expect("one thread");
        known.members.get(&peer).map_or(0, |(found, _)| *found)
    }

    fn card(&self, peer: u32) -> Option<Card> {
        let known = self.0.lock().expect("one thread");
        known.members.get(&peer).map(|(_, card)| card.clone())
    }

    fn loss(&self, peer: u32, incarnation: u32) -> Option<String> {
        let process = (peer, incarnation);
        let known = self.0.lock().expect("one thread");
        known
            .lost
            .contains(&process)
            .then(|| "it was killed".into())
    }

    fn has_left(&self, peer: u32, incarnation: u32) -> bool {
        let process = (peer, incarnation);
        let known = self.0.lock().expect("one thread");
        known.left.contains(&process)
    }

    fn tells_ends(&self) -> bool {
        false
    }

    fn is_here(&self, _: u32) -> bool {
        true
    }
}

/// A process: its endpoint, and what was reported to it.
struct Member {
    number: u32,
    incarnation: u32,
    tcp: Tcp<Simulated>,
    told: Told,
}

/// The reports to a process, checked when they arrive.
struct Told {
    me: (u32, u32),
    /// Which process has a number, as reported to this process.
    incarnations: HashMap<Peer, u32>,
    /// The last message of each process.
    last: HashMap<(Peer, u32), u32>,
    replaced: usize,
    /// Processes that are lost.
    lost: HashSet<(u32, u32)>,
}

impl Sink for Told {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        let word = |at: usize| crate::wire::u32_at(head, at);
        let known = self.incarnations.get(&from).copied().unwrap_or(0);
        assert_eq!(word(0), known, "{from} speaks before it was told of");
        assert_eq!((word(4), word(8)), self.me, "a message for another process");
        assert_eq!(data.len(), word(12) as usize % 3000);
        let last = self.last.insert((from, word(0)), word(12)).unwrap_or(0);
        assert_eq!(last + 1, word(12), "from {from}");
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, peer: Peer, _: &str) {
        let known = self.incarnations.get(&peer).copied().unwrap_or(0);
        assert!(self.lost.insert((peer.0, known)), "said twice of {peer}");
    }
    fn signalled(&mut self, from: Peer, key: SyncKey) {
        let known = self.incarnations.get(&from).copied().unwrap_or(0);
        assert_eq!(key.0, u64::from(known), "a signal of another process");
    }
    fn replaced(&mut self, peer: Peer) {
        self.replaced += 1;
        // Set by the test from what the launcher knows: see `look`.
        self.incarnations.insert(peer, u32::MAX);
    }
}

struct Play {
    world: Arc<Mutex<World>>,
    launcher: Launcher,
    random: StdRng,
    members: Vec<Member>,
    started: u32,
    /// Messages from one process to another.
    sent: HashMap<[(u32, u32); 2], u32>,
    /// The card of each of the first ones.
    cards: Vec<Card>,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1000 + node as u16))
}

fn card(node: usize, at: SocketAddr) -> Card {
    let offer = Offer {
        interface: "sim0".into(),
        address: at,
    };
    Card {
        host: format!("host{node}"),
        offers: vec![offer],
    }
}

impl Play {
    fn new(seed: u64) -> Self {
        let nodes = (FIRST + LATER) as usize;
        let mut world = World::new(seed, &vec![1; nodes]);
        (world.conditions.doomed, world.conditions.cuts) = (0, 0);
        for node in 0..nodes {
            world.routes.insert(address(node), Route::To(node, 0));
        }
        let mut play = Self {
            world: Arc::new(Mutex::new(world)),
            launcher: Launcher::default(),
            random: StdRng::seed_from_u64(seed),
            members: Vec::new(),
            started: 0,
            sent: HashMap::new(),
            cards: (0..FIRST as usize)
                .map(|node| card(node, address(node)))
                .collect(),
        };
        for number in 0..FIRST {
            play.start(number, 0, number as usize);
        }
        play
    }

    fn start(&mut self, number: u32, incarnation: u32, node: usize) {
        let count = FIRST + ROOM;
        let key = Key::from_bytes([7; Key::BYTES]);
        let mut config = Config::new(number, count, key);
        (config.patience, config.connect) = (PATIENCE, PATIENCE);
        config.incarnation = incarnation;
        let world = self.world.clone();
        let system = Simulated { world, node };
        let listeners = vec![system.stream(Id::Listener(node, 0))];
        let nowhere = |_| Card {
            host: "?".into(),
            offers: Vec::new(),
        };
        let cards = self.cards.iter().cloned();
        let cards = cards.chain((0..ROOM).map(nowhere)).collect();
        let tcp = Tcp::over(
            system.clone(),
            system,
            (config, format!("host{node}")),
            listeners,
            cards,
            Some(Box::new(self.launcher.clone())),
        );
        let known = self.launcher.0.lock().expect("one thread");
        let incarnations = known.members.iter();
        let incarnations = incarnations.map(|(peer, (found, _))| (Peer(*peer), *found));
        self.members.push(Member {
            number,
            incarnation,
            tcp: tcp.expect("nothing is refused here"),
            told: Told {
                me: (number, incarnation),
                incarnations: incarnations.collect(),
                last: HashMap::new(),
                replaced: 0,
                lost: HashSet::new(),
            },
        });
    }

    /// Starts the next process under a number that nobody has; it sometimes has the port of the process
    /// before.
    fn start_later(&mut self, number: u32) {
        self.started += 1;
        let node = (FIRST + self.started - 1) as usize;
        let mut at = address(node);
        let before = self.launcher.card(number);
        if let Some(before) = before.filter(|_| self.random.random_range(0..2) == 0) {
            at = before.offers[0].address;
            locked(&self.world).routes.insert(at, Route::To(node, 0));
        }
        let incarnation = self.started;
        {
            let mut known = self.launcher.0.lock().expect("one thread");
            known.members.insert(number, (incarnation, card(node, at)));
            known.version += 1;
        }
        self.start(number, incarnation, node);
    }

    /// Ends a process, in order or as by SIGKILL.
    fn end(&mut self, index: usize) {
        let mut member = self.members.remove(index);
        let in_order = self.random.random_range(0..2) == 0;
        if in_order {
            member.tcp.say_goodbye();
            for _ in 0..20 {
                self.pass();
                member.tcp.poll(&mut member.told, 64);
            }
        }
        member.tcp.die();
        if !in_order {
            let mut known = self.launcher.0.lock().expect("one thread");
            known.killed.insert(member.told.me);
        }
        // Of those that have ended in order it reports half, too.
        if in_order && self.random.random_range(0..2) == 0 {
            let mut known = self.launcher.0.lock().expect("one thread");
            known.left.insert(member.told.me);
            known.version += 1;
        }
        // The launcher reports half of the killed processes: others are missed by members with a connection.
        if !in_order && self.random.random_range(0..2) == 0 {
            let mut known = self.launcher.0.lock().expect("one thread");
            known.lost.insert(member.told.me);
            known.version += 1;
        }
    }

    fn send(&mut self, from: usize, to: (u32, u32)) {
        let member = &mut self.members[from];
        let me = (member.number, member.incarnation);
        let sent = self.sent.entry([me, to]).or_default();
        let mut head = [0; 32];
        for (place, word) in head.chunks_exact_mut(4).zip([me.1, to.0, to.1, *sent + 1]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let data = vec![1; (*sent as usize + 1) % 3000];
        // A sender knows of a process what was reported; messages to a lost process are refused.
        let known = member.told.incarnations.get(&Peer(to.0)).copied();
        if known.unwrap_or(0) != to.1 {
            return;
        }
        if let Ok(Posted::Done) = member.tcp.try_send(Peer(to.0), &head, &data) {
            *sent += 1;
            if sent.is_multiple_of(5) {
                let _ = member.tcp.signal(Peer(to.0), SyncKey(u64::from(me.1)));
            }
        }
    }

    fn pass(&mut self) {
        locked(&self.world).pass(Duration::from_millis(1));
    }

    fn look(&mut self, index: usize) {
        let member = &mut self.members[index];
        let mut told = Announced {
            told: &mut member.told,
            launcher: &self.launcher,
        };
        member.tcp.poll(&mut told, 16);
    }

    fn step(&mut self) {
        let index = self.random.random_range(0..self.members.len());
        match self.random.random_range(0..40) {
            0 if self.members.len() < (FIRST + ROOM) as usize && self.started < LATER => {
                let taken = |number: &u32| self.members.iter().any(|one| one.number == *number);
                let free = (FIRST..FIRST + ROOM).find(|number| !taken(number));
                self.start_later(free.expect("one is missing"));
            }
            1 if self.members[index].number >= FIRST => self.end(index),
            2..15 => {
                let to = &self.members[self.random.random_range(0..self.members.len())];
                let to = (to.number, to.incarnation);
                if to.0 != self.members[index].number {
                    self.send(index, to);
                }
            }
            15..35 => self.look(index),
            _ => self.pass(),
        }
    }

    /// Everything that living members have sent arrives at all living members.
    fn settle(&mut self) {
        for _ in 0..3000 {
            self.pass();
            (0..self.members.len()).for_each(|index| self.look(index));
        }
        let known = self.launcher.0.lock().expect("one thread");
        for lost in &known.lost {
            let (number, incarnation) = *lost;
            let replaced = known.members.get(&number).map(|(now, _)| *now) != Some(incarnation);
            for member in self.members.iter().filter(|_| !replaced) {
                let is_told = member.told.lost.contains(lost);
                assert!(is_told, "{:?} is not told of {lost:?}", member.told.me);
            }
        }
        // Members ask the launcher when they send.
        let left: Vec<_> = known.left.iter().copied().collect();
        drop(known);
        for left in left {
            let replaced = self.launcher.incarnation(left.0) != left.1;
            for member in self.members.iter_mut().filter(|_| !replaced) {
                let sent = member.tcp.try_send(Peer(left.0), &[0; 32], &[]);
                assert!(sent.is_err(), "{:?} calls {left:?}", member.told.me);
                let is_told = member.told.lost.contains(&left);
                assert!(!is_told, "{:?} misses {left:?}", member.told.me);
            }
        }
        let there: Vec<_> = self.members.iter().map(|one| one.told.me).collect();
        for ([from, to], count) in &self.sent {
            if let Some(receiver) = self.members.iter().find(|one| one.told.me == *to)
                && there.contains(from)
            {
                let last = receiver.told.last.get(&(Peer(from.0), from.1)).copied();
                assert_eq!(last.unwrap_or(0), *count, "{from:?} to {to:?}");
            }
        }
    }
}

/// A sink that asks the launcher for the new process when it is told that a number has changed hands.
struct Announced<'a> {
    told: &'a mut Told,
    launcher: &'a Launcher,
}

impl Sink for Announced<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        self.told.message(from, head, data);
    }
    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.told.transfer_completed(operation, result);
    }
    fn lost(&mut self, peer: Peer, reason: &str) {
        self.told.lost(peer, reason);
    }
    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.told.signalled(from, key);
    }
    fn replaced(&mut self, peer: Peer) {
        let told = &*self.told;
        let before = (
            peer.0,
            told.incarnations.get(&peer).copied().unwrap_or_default(),
        );
        let is_killed = {
            let known = self.launcher.0.lock().expect("one thread");
            known.killed.contains(&before)
        };
        // Who waits for others that have broken off with it would wait for ever.
        let is_missed = is_killed && told.last.contains_key(&(peer, before.1));
        assert!(
            !is_missed || told.lost.contains(&before),
            "the loss of {before:?} is not told"
        );
        self.told.replaced(peer);
        let now = self.launcher.incarnation(peer.0);
        self.told.incarnations.insert(peer, now);
    }
}

#[test]
fn what_is_meant_for_one_process_reaches_no_other() {
    let (mut replaced, mut messages) = (0, 0);
    for seed in 0..60 {
        let mut play = Play::new(seed);
        for _ in 0..3000 {
            play.step();
        }
        play.settle();
        replaced += play.members[0].told.replaced;
        messages += play.sent.values().sum::<u32>();
        for member in play.members {
            member.tcp.die();
        }
    }
    assert!(
        replaced > 300 && messages > 10_000,
        "{replaced}, {messages}"
    );
}
