//! The conformance suite over several seeds, and properties that only a simulation can show.

use super::*;
use std::time::Duration;
use weft_fabric::conformance::{Inbox, Player, RankBody, Stage, Wrapped, boxed};
use weft_fabric::fault::{FaultInjector, FaultPlan};
use weft_fabric::trace::{Log, Traced};
use weft_fabric::{Fabric, Peer, Posted, SyncKey};

/// The simulation as a stage: driven by one thread, or a thread for each rank.
struct Simulated(fn(usize) -> Config);

impl Stage for Simulated {
    fn endpoints(&self, count: usize) -> Vec<Box<dyn Fabric>> {
        boxed(World::new(self.0(count)).endpoints())
    }

    fn run(&self, count: usize, part: RankBody<'_>) {
        let world = World::new(self.0(count));
        if let Err(failure) = world.run(|endpoint| part(Box::new(endpoint))) {
            panic!("{failure}");
        }
    }

    fn has_helpers(&self) -> bool {
        false
    }
}

weft_fabric::conformance!(seed_1, Simulated(|count| Config::new(count, 1)));
weft_fabric::conformance!(seed_2, Simulated(|count| Config::new(count, 2)));
weft_fabric::conformance!(seed_3, Simulated(|count| Config::new(count, 3)));
weft_fabric::conformance!(calm, Simulated(Config::exact));
weft_fabric::conformance!(
    one_credit_and_everything_late,
    Simulated(|count| Config {
        credits: 1,
        late: 1000,
        refuse: 300,
        jitter: 1000,
        ..Config::new(count, 4)
    })
);

weft_fabric::conformance!(faulty_1, Simulated(|count| Config::faulty(count, 1)));
weft_fabric::conformance!(faulty_2, Simulated(|count| Config::faulty(count, 2)));
weft_fabric::conformance!(faulty_3, Simulated(|count| Config::faulty(count, 3)));

weft_fabric::conformance!(
    traced_with_faults,
    Wrapped {
        inner: Simulated(|count| Config::new(count, 5)),
        wrap: |inner| -> Box<dyn Fabric> {
            let faulty = FaultInjector::new(inner, FaultPlan::new(2));
            Box::new(Traced::new(faulty, Log::new(100)))
        }
    }
);

fn ring(config: Config, rounds: u64) -> Report<u64> {
    let played = World::new(config).run(|endpoint| {
        let mut player = Player::new(Box::new(endpoint));
        let (me, count) = (player.me(), player.count());
        for round in 0..rounds {
            if me == 0 {
                player.send(1 % count, round, 8);
                player.await_messages(round as usize + 1);
            } else {
                player.await_messages(round as usize + 1);
                player.send((me + 1) % count, round, 8);
            }
        }
        player.inbox.messages() as u64
    });
    played.expect("the ring ends")
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let run = |seed| {
        let world = World::new(Config {
            trace: 10_000,
            ..Config::new(5, seed)
        });
        let played = world.run(|endpoint| {
            let mut player = Player::new(Box::new(endpoint));
            let (me, count) = (player.me(), player.count());
            for number in 0..20 {
                for step in 1..count {
                    player.send((me + step) % count, number, 100);
                }
            }
            player.await_messages(20 * (count - 1));
        });
        played.expect("ends")
    };
    let (first, again, other) = (run(11), run(11), run(12));
    assert_eq!(first.hash, again.hash);
    assert_eq!(first.trace, again.trace);
    assert_eq!(first.time, again.time);
    assert_ne!(first.hash, other.hash, "another seed, another history");
    assert_eq!(first.messages, 400);
    assert_eq!(first.messages, other.messages);
}

#[test]
fn a_calm_machine_takes_what_the_model_says() {
    let config = Config::exact(4);
    let cost = config.cost;
    let report = ring(config, 3);
    assert_eq!(report.values(), [3, 3, 3, 3]);
    let report = ring(Config::exact(4), 3);
    // A hop: both overheads, the latency, eight bytes (0.8 ns, less than one). No time is lost between a look
    // that finds nothing and the wake-up. Then the last look of the last rank.
    let hop = cost.overhead * 2 + cost.latency;
    let ring = hop * 12;
    assert!(
        (ring..ring + cost.poll * 4 * 12).contains(&report.time),
        "{:?} instead of {ring:?}",
        report.time
    );
}

#[test]
fn a_thousand_ranks_pass_a_ring() {
    let config = Config {
        stack: 128 * 1024,
        ..Config::new(1024, 1)
    };
    let report = ring(config, 3);
    assert_eq!(report.messages, 3 * 1024);
    assert!(report.results.iter().all(|seen| *seen == Some(3)));
}

#[test]
fn a_deadlock_names_each_rank_and_what_it_waits_for() {
    let failure = World::new(Config::new(3, 1))
        .run(|endpoint| {
            if endpoint.me() == Peer(2) {
                return;
            }
            let other = 1 - endpoint.me().0;
            endpoint.set_note(format!("a message of {other}"));
            Player::new(Box::new(endpoint)).repeat_for_ever();
        })
        .expect_err("nobody sends");
    let Cause::Deadlock(stuck) = &failure.cause else {
        panic!("{failure}");
    };
    assert_eq!(stuck.len(), 2);
    let text = failure.to_string();
    assert!(text.contains("rank 0 (asleep"), "{text}");
    assert!(text.contains("waits for a message of 1"), "{text}");
    assert!(text.contains("waits for a message of 0"), "{text}");
}

/// Sleeps without a limit.
trait ForEver {
    fn repeat_for_ever(self);
}

impl ForEver for Player {
    fn repeat_for_ever(mut self) {
        let bell = self.fabric.bell();
        loop {
            let ticket = bell.prepare();
            self.look();
            bell.wait(ticket, None);
        }
    }
}

#[test]
fn looking_for_ever_is_a_deadlock_too() {
    for lookers in 1..=3 {
        let failure = World::new(Config::new(4, 1))
            .run(|endpoint| {
                let looks = endpoint.me().0 < lookers;
                let mut player = Player::new(Box::new(endpoint));
                loop {
                    player.look();
                    if !looks {
                        break;
                    }
                }
                player.repeat_for_ever();
            })
            .expect_err("nothing ever happens");
        let Cause::Deadlock(stuck) = &failure.cause else {
            panic!("{failure}");
        };
        assert_eq!(
            stuck.iter().filter(|one| one.asleep).count(),
            4 - lookers as usize
        );
    }
}

#[test]
fn a_panic_ends_the_run_and_is_named() {
    let failure = World::new(Config::new(8, 1))
        .run(|endpoint| {
            if endpoint.me() == Peer(5) {
                // Quieter than panic!, which would print a trace.
                std::panic::resume_unwind(Box::new("five is unwell"));
            }
            Player::new(Box::new(endpoint)).repeat_for_ever();
        })
        .expect_err("one panics");
    let expected = Cause::Panicked {
        peer: Peer(5),
        message: "five is unwell".into(),
    };
    assert_eq!(failure.cause, expected);
}

#[test]
fn destructors_that_communicate_do_not_keep_a_world_from_ending() {
    struct Finalizes(Player);
    impl Drop for Finalizes {
        fn drop(&mut self) {
            let bell = self.0.fabric.bell();
            let sent = self.0.fabric.try_send(Peer(0), &[0; 32], &[]);
            assert!(sent.is_err(), "the world is over");
            self.0.look();
            let ticket = bell.prepare();
            bell.wait(ticket, None);
        }
    }
    let failure = World::new(Config::new(3, 1)).run(|endpoint| {
        let _finalizes = Finalizes(Player::new(Box::new(endpoint)));
        let bell = _finalizes.0.fabric.bell();
        loop {
            let ticket = bell.prepare();
            bell.wait(ticket, None);
        }
    });
    let failure: Failure = failure.map(|_: Report<()>| ()).expect_err("a deadlock");
    assert!(matches!(failure.cause, Cause::Deadlock(_)), "{failure}");
}

#[test]
fn a_death_is_told_to_all_after_what_was_sent_before() {
    let config = Config::new(4, 3).with(Fault::Death {
        peer: Peer(2),
        at: Duration::from_micros(30),
    });
    let report = World::new(config)
        .run(|endpoint| {
            let handle = endpoint.handle();
            let mut player = Player::new(Box::new(endpoint));
            if player.me() == 2 {
                player.send(0, 0, 10);
                handle.spend(Duration::from_secs(1));
                unreachable!("dead by then");
            }
            let lost = |inbox: &Inbox| {
                use weft_fabric::conformance::Event;
                inbox.events.contains(&Event::Lost(Peer(2)))
            };
            player.repeat("the death", |player| lost(&player.inbox));
            if player.me() == 0 {
                assert_eq!(player.inbox.events.len(), 2, "the message came first");
            }
            let sent = player.fabric.try_send(Peer(2), &[0; 32], &[]);
            assert!(matches!(
                sent,
                Err(weft_fabric::FabricError::PeerLost { .. })
            ));
            handle.now()
        })
        .expect("the others end");
    assert_eq!(report.results[2], None);
    let alive: Vec<_> = report.results.iter().flatten().collect();
    assert_eq!(alive.len(), 3);
    assert!(alive.iter().all(|at| **at >= Duration::from_micros(80)));
}

/// The others see what a rank did before it died, whatever its last action was.
#[test]
fn a_death_after_each_action_leaves_what_was_done_before() {
    const EACH: u64 = 6;
    for actions in 1..=2 * EACH {
        let config = Config::new(3, actions).with(Fault::DeathAfter {
            peer: Peer(2),
            actions,
        });
        let report = World::new(config).run(|endpoint| {
            use weft_fabric::conformance::Event;
            let mut player = Player::new(Box::new(endpoint));
            if player.me() == 2 {
                for number in 0..EACH {
                    player.send(0, number, 10);
                    player.signal(1, SyncKey(number));
                }
                unreachable!("dead by then");
            }
            let lost = |event: &Event| *event == Event::Lost(Peer(2));
            player.repeat("the death", |player| player.inbox.events.iter().any(lost));
            let events = &player.inbox.events;
            assert_eq!(events.iter().filter(|event| lost(event)).count(), 1);
            assert!(events.last().is_some_and(lost), "after all that it sent");
            events.len() as u64 - 1
        });
        let report = report.expect("the others end");
        // They take turns, the one with messages first.
        let expected = [Some(actions.div_ceil(2)), Some(actions / 2), None];
        assert_eq!(report.results, expected, "{actions} actions");
    }
}

#[test]
fn delays_and_throttles_take_their_time() {
    let time = |fault: Option<Fault>| {
        let mut config = Config::exact(2);
        config.faults.extend(fault);
        let world = World::new(config);
        let report = world.run(|endpoint| {
            let mut player = Player::new(Box::new(endpoint));
            if player.me() == 0 {
                player.send(1, 0, 4000);
            } else {
                player.await_messages(1);
            }
        });
        report.expect("ends").time
    };
    let plain = time(None);
    let extra = Duration::from_millis(3);
    let (from, to) = (Some(Peer(0)), None);
    assert_eq!(time(Some(Fault::Delay { from, to, extra })), plain + extra);
    // 4000 bytes at 100 ps are 400 ns; ten times that is 3600 ns more.
    let throttled = time(Some(Fault::Throttle {
        from,
        to,
        factor: 10,
    }));
    assert_eq!(throttled, plain + Duration::from_nanos(3600));
    let (from, to) = (Some(Peer(1)), None);
    assert_eq!(time(Some(Fault::Delay { from, to, extra })), plain);
}

#[test]
fn a_short_partition_costs_its_time_and_a_long_one_the_peer() {
    use weft_fabric::conformance::Event;
    /// Messages and losses that each of three saw, and when.
    fn run(
        from: u32,
        to: u32,
        length: Duration,
        done: fn(usize, &Inbox) -> bool,
    ) -> Vec<(usize, usize, Duration)> {
        let config = Config::exact(3).with(Fault::Partition {
            from: Some(Peer(from)),
            to: Some(Peer(to)),
            at: Duration::from_nanos(500),
            length,
        });
        let played = World::new(config).run(|endpoint| {
            let handle = endpoint.handle();
            let mut player = Player::new(Box::new(endpoint));
            let me = player.me();
            for number in 0..if me == 0 { 3 } else { 0 } {
                player.send(1, number, 8);
                handle.spend(Duration::from_micros(3));
            }
            player.repeat("the end", |player| done(me, &player.inbox));
            let lost = |event: &&Event| matches!(event, Event::Lost(_));
            let losses = player.inbox.events.iter().filter(lost).count();
            (player.inbox.messages(), losses, handle.now())
        });
        played.expect("ends").values()
    }
    // The first message was under way when the link went down; all arrive when it is up again.
    let short = run(0, 1, Duration::from_millis(1), |me, inbox| {
        me != 1 || inbox.messages() == 3
    });
    assert_eq!((short[1].0, short[1].1), (3, 0));
    assert!(short[1].2 >= Duration::from_millis(1), "{short:?}");
    // The other direction works, but nobody could know any more what has arrived.
    let limit = Config::exact(3).longest_partition;
    let long = run(1, 0, limit * 2, |me, inbox| {
        let lost = Event::Lost(Peer(1 - me.min(1) as u32));
        me == 2 || inbox.events.contains(&lost)
    });
    assert_eq!([long[0].1, long[1].1, long[2].1], [1, 1, 0]);
    assert!(long[..2].iter().all(|it| it.2 >= limit), "{long:?}");
    assert_eq!(long[1].0, 3);
}

#[test]
fn computing_takes_virtual_time_only() {
    let report = World::new(Config::exact(2)).run(|endpoint| {
        let handle = endpoint.handle();
        let mut player = Player::new(Box::new(endpoint));
        if player.me() == 0 {
            handle.spend(Duration::from_secs(10));
            player.signal(1, SyncKey(1));
        } else {
            // Polls instead of sleeping: the clock jumps to the next event.
            while !player.fabric.take_signals(Peer(0), SyncKey(1), 1) {
                player.look();
            }
        }
        handle.now()
    });
    let times = report.expect("ends").values();
    assert!(times[1] > Duration::from_secs(10) && times[1] < Duration::from_millis(10_001));
}

#[test]
fn seeds_change_which_rank_comes_first() {
    let order = |seed| {
        let report = World::new(Config::new(6, seed)).run(|endpoint| {
            let mut player = Player::new(Box::new(endpoint));
            if player.me() > 0 {
                player.send(0, 0, 8);
                return Vec::new();
            }
            player.await_messages(5);
            let from = |event: &weft_fabric::conformance::Event| match event {
                weft_fabric::conformance::Event::Message { from, .. } => Some(from.0),
                _ => None,
            };
            player.inbox.events.iter().filter_map(from).collect()
        });
        report.expect("ends").values().swap_remove(0)
    };
    let orders: std::collections::BTreeSet<Vec<u32>> = (0..20).map(order).collect();
    assert!(orders.len() > 5, "{orders:?}");
}

#[test]
fn what_holds_for_some_seeds_holds_for_twenty() {
    use weft_fabric::conformance::{bells, crowds};
    /// One seed as a stage.
    struct Seed(u64);
    impl Stage for Seed {
        fn endpoints(&self, count: usize) -> Vec<Box<dyn Fabric>> {
            boxed(World::new(Config::new(count, self.0)).endpoints())
        }

        fn run(&self, count: usize, part: RankBody<'_>) {
            let world = World::new(Config::new(count, self.0));
            if let Err(failure) = world.run(|endpoint| part(Box::new(endpoint))) {
                panic!("seed {}: {failure}", self.0);
            }
        }
    }
    for seed in 100..120 {
        crowds::all_services_at_once(&Seed(seed));
        bells::the_end_of_a_transfer_wakes_its_asker(&Seed(seed));
        bells::no_wake_up_is_lost_among_many(&Seed(seed));
    }
}

#[test]
fn a_rank_without_a_thread_is_a_failure_with_a_remedy() {
    let failure = World::new(Config {
        // No address space is that large.
        stack: 1 << 50,
        ..Config::new(3, 1)
    })
    .run(|_| ())
    .expect_err("no such stacks");
    assert!(matches!(
        failure.cause,
        Cause::NoThread { peer: Peer(0), .. }
    ));
    assert!(failure.to_string().contains("simulate fewer"), "{failure}");
}

#[test]
fn posts_after_the_end_are_refused_with_a_reason() {
    let mut endpoints = World::new(Config::exact(2)).endpoints();
    drop(endpoints.pop());
    let sent = endpoints[0].try_send(Peer(1), &[0; 32], &[]);
    assert!(sent.expect_err("has left").to_string().contains("has left"));
    let own = endpoints[0].try_send(Peer(0), &[0; 32], &[]);
    assert_eq!(own, Ok(Posted::Done));
    assert_eq!(endpoints[0].bell().load().awake, 0);
}
