//! Crowds: many callers of one rank at the same time: members only, members among intruders, and without free
//! descriptors. The tests run in virtual time, where bounds are meaningful.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weft_fabric::conformance::Memory;
use weft_fabric::{Fabric, FabricError, Operation, Peer, Posted, Token};
use weft_secure::{Key, Refusal};
use weft_sys::socket::SendSlice;

use super::conditions::Route;
use super::model::{Event, Item, Recorder};
use super::world::{DELAY, Id, World};
use super::{Simulated, locked};
use crate::card::{Card, Offer};
use crate::config::Config;
use crate::endpoint::Tcp;

const MS: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a member may take to get in.
const BOUND: u64 = 1000 * MS;

/// Rank 0, which is called, and the others, which call it; behind them hosts of intruders.
struct Crowd {
    world: Arc<Mutex<World>>,
    ranks: Vec<Tcp<Simulated>>,
    at: SocketAddr,
    intruders: usize,
    /// Which host of the intruders comes next.
    turn: usize,
    /// Connections that intruders hold.
    held: Vec<Id>,
    /// When each rank was heard for the first time.
    heard: HashMap<usize, u64>,
}

impl Crowd {
    fn new(seed: u64, ranks: usize, intruders: usize) -> Self {
        let mut listeners = vec![0; ranks + intruders];
        listeners[0] = 1;
        let mut world = World::new(seed, &listeners);
        // The path is not tested here: all hosts are near, nothing is cut.
        (world.conditions.latency, world.conditions.jitter) = (50_000, 20_000);
        (world.conditions.doomed, world.conditions.cuts) = (0, 0);
        let at = SocketAddr::from(([10, 0, 0, 1], 1000));
        world.routes.insert(at, Route::To(0, 0));
        let world = Arc::new(Mutex::new(world));
        let offer = Offer {
            interface: "sim0".into(),
            address: at,
        };
        let card = |rank: usize| Card {
            host: format!("host{rank}"),
            offers: (rank == 0).then(|| offer.clone()).into_iter().collect(),
        };
        let cards: Vec<Card> = (0..ranks).map(card).collect();
        let key = Key::from_bytes([7; Key::BYTES]);
        let rank = |node: usize| {
            let system = Simulated {
                world: world.clone(),
                node,
            };
            let mut config = Config::new(node as u32, ranks as u32, key.clone());
            (config.patience, config.connect) = (PATIENCE, PATIENCE);
            let listens = (node == 0).then(|| system.stream(Id::Listener(0, 0)));
            let host = format!("host{node}");
            let listens = listens.into_iter().collect();
            let all = cards.clone();
            let mut rank = Tcp::over(system.clone(), system, (config, host), listens, all, None)
                .expect("nothing is refused here");
            rank.draw_by(seed);
            rank
        };
        Self {
            ranks: (0..ranks).map(rank).collect(),
            world,
            at,
            intruders,
            turn: 0,
            held: Vec::new(),
            heard: HashMap::new(),
        }
    }

    fn now(&self) -> u64 {
        locked(&self.world).now()
    }

    /// `count` intruders connect, host by host, say these bytes and stay.
    fn intruders_connect(&mut self, count: usize, say: &[u8]) {
        let first = self.ranks.len();
        for _ in 0..count {
            let node = first + self.turn % self.intruders;
            self.turn += 1;
            let mut world = locked(&self.world);
            let id = world.connect(node, &self.at).expect("there is a way");
            if !say.is_empty() {
                let _ = world.send(id, &[SendSlice::Bytes(say)]);
            }
            self.held.push(id);
        }
    }

    /// A rank sends its first message to rank 0.
    fn call(&mut self, rank: usize) {
        let head = Item::head(rank, 8);
        let sent = self.ranks[rank].try_send(Peer(0), &head, super::model::bytes(rank, 8));
        assert_eq!(sent, Ok(Posted::Done), "the first message has room");
    }

    fn look(&mut self, rank: usize) {
        let mut recorder = Recorder::default();
        self.ranks[rank].poll(&mut recorder, 64);
        let now = self.now();
        for event in recorder.events {
            match event {
                Event::Item(from, _) if rank == 0 => {
                    self.heard.entry(from.index()).or_insert(now);
                }
                Event::Departed(_) => {}
                other => panic!("rank {rank} was told {other:?}"),
            }
        }
    }

    /// Lets a millisecond pass, in which rank 0 looks `looks` times and the others once.
    fn pass(&mut self, looks: usize, others: bool) {
        locked(&self.world).pass(Duration::from_millis(1));
        for _ in 0..looks {
            self.look(0);
        }
        if others {
            (1..self.ranks.len()).for_each(|rank| self.look(rank));
        }
    }
}

/// 10,000 intruders arrive a second, stay, and send nothing or a part of a first message. Members that look
/// every 6 ms, as those do that have something else to do, are heard within a second. Rank 0 looks 2,000
/// times a second, and takes few at a time.
#[test]
fn members_get_in_past_ten_thousand_intruders_a_second() {
    let mut worst = 0;
    for seed in 0..6 {
        // From one host, and from many.
        for (hosts, say) in [(1, &[][..]), (200, &[1; 100])] {
            const MEMBERS: usize = 8;
            let mut crowd = Crowd::new(seed, 1 + MEMBERS, hosts);
            let mut called = HashMap::new();
            for step in 0..600usize {
                crowd.intruders_connect(10, say);
                // The members call when the limit of intruders is reached.
                if step >= 100 && step % 10 == 0 && called.len() < MEMBERS {
                    let rank = called.len() + 1;
                    crowd.call(rank);
                    called.insert(rank, crowd.now());
                }
                crowd.pass(2, step % 6 == 0);
            }
            for (rank, since) in called {
                let heard = crowd.heard.get(&rank);
                let took = heard.map_or(u64::MAX, |when| when - since);
                worst = worst.max(took);
                assert!(
                    took < BOUND,
                    "seed {seed}, {hosts} hosts: rank {rank} was heard after {took} ns; {}",
                    crowd.ranks[0].refusals()
                );
            }
            assert!(crowd.ranks[0].refusals().of(Refusal::Crowded) > 4000);
        }
    }
    println!("at most {} ms", worst / MS);
}

/// Two hundred members call a rank at the same moment, and look again only after it has taken all of them.
#[test]
fn members_do_not_push_each_other_out() {
    const MEMBERS: usize = 200;
    let mut crowd = Crowd::new(1, 1 + MEMBERS, 1);
    (1..=MEMBERS).for_each(|rank| crowd.call(rank));
    for step in 0..400usize {
        crowd.pass(2, step % 50 == 49);
    }
    let away = crowd.ranks[0].refusals().all();
    assert_eq!((crowd.heard.len(), away), (MEMBERS, 0));
}

/// While no descriptor is left, a rank does not keep asking for one, and can sleep; intruders that hold one lose
/// it first. When descriptors are free again, members get in.
#[test]
fn without_descriptors_a_rank_rests() {
    let mut crowd = Crowd::new(1, 2, 1);
    crowd.intruders_connect(20, &[]);
    (0..10).for_each(|_| crowd.pass(2, false));
    locked(&crowd.world).exhausted = true;
    let before = locked(&crowd.world).accepts;
    crowd.call(1);
    for _ in 0..1000 {
        crowd.pass(4, true);
    }
    let refusals = crowd.ranks[0].refusals();
    assert_eq!(refusals.of(Refusal::Crowded), 20, "{refusals}");
    let mut world = locked(&crowd.world);
    let asked = world.accepts - before;
    // Once for each intruder that went, then every 100 ms.
    assert!(asked <= 20 + 11, "asked {asked} times within 1000 ms");
    assert_eq!(world.ready(0), [], "somebody who sleeps is woken");
    world.exhausted = false;
    drop(world);
    for _ in 0..200 {
        crowd.pass(1, true);
    }
    assert_eq!(crowd.heard.len(), 1);
}

/// A rank that computes has tried nothing in that time, which does not count against a peer.
#[test]
fn who_did_not_look_has_not_lost_patience() {
    let mut crowd = Crowd::new(1, 2, 0);
    let at = crowd.at;
    let lead_to = |crowd: &Crowd, route| locked(&crowd.world).routes.insert(at, route);
    lead_to(&crowd, Route::Hole);
    crowd.call(1);
    crowd.pass(1, true);
    locked(&crowd.world).pass(2 * PATIENCE);
    lead_to(&crowd, Route::To(0, 0));
    for _ in 0..2000 {
        crowd.pass(1, true);
    }
    assert_eq!(crowd.heard.len(), 1);
}

/// A peer that was reached, and computes for longer than patience lasts before it confirms the connection, is not lost when that
/// connection breaks: the rank waits for it as long as after any other break.
#[test]
fn a_connection_that_breaks_before_it_is_confirmed_leaves_time_for_another() {
    let mut crowd = Crowd::new(1, 2, 0);
    let cut = |crowd: &Crowd| {
        let mut world = locked(&crowd.world);
        world.conditions.cuts = 1;
        world.cut_one();
    };
    crowd.call(1);
    for _ in 0..200 {
        crowd.pass(1, true);
    }
    cut(&crowd);
    let chosen = |crowd: &Crowd| {
        let unconfirmed = crowd.ranks[0].connector().is_unsettled();
        unconfirmed && crowd.ranks[0].inspect(1).is_some_and(|it| it.connected)
    };
    for _ in 0..20_000 {
        if chosen(&crowd) {
            break;
        }
        crowd.pass(1, true);
    }
    assert!(chosen(&crowd), "rank 0 has chosen no other connection");
    for _ in 0..2 * PATIENCE.as_millis() {
        crowd.pass(1, false);
    }
    assert!(chosen(&crowd), "the connection was given up");
    cut(&crowd);
    // Rank 0 learns of it before rank 1 looks again. Panics if a loss is reported.
    for step in 0..10_000 {
        crowd.pass(1, step > 5_000);
    }
    assert!(!crowd.ranks[0].connector().is_unsettled());
}

/// A rank that posts to a peer that refuses at once gets the refusal as the result.
#[test]
fn a_first_dial_that_is_refused_at_once_is_a_lost_peer() {
    let mut crowd = Crowd::new(1, 2, 0);
    let at = crowd.at;
    locked(&crowd.world).routes.insert(at, Route::RefusedAtOnce);
    let sent = crowd.ranks[1].try_send(Peer(0), &Item::head(1, 0), &[]);
    assert!(
        matches!(sent, Err(FabricError::PeerLost { .. })),
        "{sent:?}"
    );
}

/// A transfer that is refused in the result does not end a second time.
#[test]
fn a_get_from_who_has_left_is_refused_once() {
    let mut crowd = Crowd::new(1, 2, 0);
    let at = crowd.at;
    crowd.call(1);
    (0..200).for_each(|_| crowd.pass(1, true));
    assert_eq!(crowd.heard.len(), 1);
    crowd.ranks[0].say_goodbye();
    (0..200).for_each(|_| crowd.pass(1, true));
    crowd.ranks.remove(0).die();
    (0..200).for_each(|_| crowd.pass(1, false));
    locked(&crowd.world).routes.insert(at, Route::RefusedAtOnce);
    let memory = Memory::filled(8, 0);
    let asked = crowd.ranks[0].get(Peer(0), Token(1), 0, memory.region(), Operation(7));
    assert!(
        matches!(asked, Err(FabricError::PeerLost { .. })),
        "{asked:?}"
    );
    // Panics if its end is reported.
    crowd.pass(1, false);
}

/// A rank does not know yet that a peer has ended when it sends to it: the message is taken, and nobody gets it.
#[test]
fn who_has_sent_to_one_that_has_left_hears_of_it() {
    let mut crowd = Crowd::new(1, 2, 0);
    let at = crowd.at;
    crowd.call(1);
    (0..200).for_each(|_| crowd.pass(1, true));
    crowd.ranks[0].say_goodbye();
    (0..200).for_each(|_| crowd.pass(1, true));
    crowd.ranks.remove(0).die();
    let sent = crowd.ranks[0].try_send(Peer(0), &Item::head(1, 0), &[]);
    assert_eq!(sent, Ok(Posted::Done), "its end is not known");
    locked(&crowd.world).routes.insert(at, Route::RefusedAtOnce);
    let mut recorder = Recorder::default();
    for _ in 0..200 {
        locked(&crowd.world).pass(Duration::from_millis(1));
        crowd.ranks[0].poll(&mut recorder, 64);
    }
    assert!(
        matches!(recorder.events[..], [Event::Departed(Peer(0))]),
        "{:?}",
        recorder.events
    );
}

/// A kernel delays an acknowledgement, to send it with something else. A rank that waits until all its frames are acknowledged
/// does not wait for that delay, even if nothing else comes.
#[test]
fn what_is_waited_for_is_acknowledged_at_once() {
    for goodbye in [false, true] {
        let mut crowd = Crowd::new(1, 2, 0);
        let since = crowd.now();
        crowd.call(1);
        if goodbye {
            crowd.ranks.iter_mut().for_each(Fabric::say_goodbye);
        }
        // Both are asked, whatever the first one returns.
        while crowd
            .ranks
            .iter_mut()
            .fold(false, |waits, rank| waits | !rank.is_flushed())
        {
            crowd.pass(1, true);
            assert!(crowd.now() - since < DELAY / 2, "somebody waits for long");
        }
        assert_eq!(crowd.heard.len(), 1);
    }
}
