//! Properties of sleeping: nothing that was published is slept through.

use std::time::Duration;

use super::memory::Memory;
use super::player::{Player, dither};
use super::scene::{Scene, TransferKind, peer};
use super::{PATIENCE, Stage};
use crate::{Operation, Rights, SyncKey, Uses};

const KEY: SyncKey = SyncKey(5);

/// What is published between prepare and wait ends the wait: there is no gap.
pub fn news_after_prepare_end_the_wait(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let bell = scene.endpoints[1].bell();
    for round in 0..20 {
        let ticket = bell.prepare();
        scene.poll(1, 8);
        scene.send(0, 1, round, 10);
        let before = scene.endpoints[1].now();
        bell.wait(ticket, Some(PATIENCE));
        let slept = scene.endpoints[1].now() - before;
        assert!(slept < PATIENCE, "the message in the gap was slept through");
        scene.until("the message", |scene| {
            scene.inboxes[1].messages() as u64 > round
        });
    }
}

/// Ringing one's own bell ends a wait that was prepared before; cancelling needs nobody.
pub fn one_rings_ones_own_bell(stage: &dyn Stage) {
    stage.run(1, &|fabric| {
        let bell = fabric.bell();
        for _ in 0..20 {
            let ticket = bell.prepare();
            bell.ring();
            let before = fabric.now();
            bell.wait(ticket, Some(PATIENCE));
            assert!(
                fabric.now() - before < PATIENCE,
                "the ring was slept through"
            );
            let ticket = bell.prepare();
            bell.cancel(ticket);
        }
    });
}

/// Another thread of the same rank can wake the sleeper.
pub fn a_helper_rings_the_sleeper(stage: &dyn Stage) {
    use weft_atomic::{AtomicU32, Ordering};
    if !stage.has_helpers() {
        return;
    }
    const ROUNDS: u32 = 500;
    let mut endpoints = stage.endpoints(1);
    let fabric = endpoints.remove(0);
    let (bell, news) = (fabric.bell(), AtomicU32::new(0));
    let seen = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut state = 1;
            for round in 1..=ROUNDS {
                news.store(round, Ordering::SeqCst);
                bell.ring();
                let start = std::time::Instant::now();
                while seen.load(Ordering::SeqCst) < round && start.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
                dither(&mut state);
            }
        });
        for round in 1..=ROUNDS {
            while news.load(Ordering::SeqCst) < round {
                let ticket = bell.prepare();
                if news.load(Ordering::SeqCst) >= round {
                    bell.cancel(ticket);
                    break;
                }
                let before = fabric.now();
                bell.wait(ticket, Some(PATIENCE));
                assert!(
                    fabric.now() - before < PATIENCE,
                    "round {round}: lost wake-up"
                );
            }
            seen.store(round, Ordering::SeqCst);
        }
    });
}

/// A sleeper without news wakes up by itself.
pub fn a_wait_ends_at_its_limit(stage: &dyn Stage) {
    stage.run(2, &|fabric| {
        let bell = fabric.bell();
        for limit in [Duration::ZERO, Duration::from_millis(2)] {
            let before = fabric.now();
            // Waits may end early, so several may be needed to pass the time.
            let mut waits = 0u64;
            while fabric.now() - before < limit || waits == 0 {
                let ticket = bell.prepare();
                bell.wait(ticket, Some(limit));
                waits += 1;
                assert!(waits < 1_000_000, "waits pass no time");
            }
        }
    });
}

/// Two that answer each other, each asleep whenever it is not its turn.
pub fn no_wake_up_is_lost_between_two(stage: &dyn Stage) {
    const ROUNDS: u64 = 1500;
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        let (me, other) = (player.me(), 1 - player.me());
        let mut state = me as u64;
        for round in 0..ROUNDS {
            if round % 2 == me as u64 {
                player.send(other, round / 2, (round % 200) as usize);
            } else {
                player.await_messages(round as usize / 2 + 1);
            }
            dither(&mut state);
        }
        let first = 1 - me as u64;
        let length = |number: u64| ((number * 2 + first) % 200) as usize;
        player.inbox.check(other, ROUNDS / 2, length);
    });
}

/// The same of messages that are written to lanes.
pub fn what_is_written_wakes(stage: &dyn Stage) {
    const ROUNDS: u64 = 1500;
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        let (me, other) = (player.me(), 1 - player.me());
        let mut state = me as u64;
        for round in 0..ROUNDS {
            if round % 2 == me as u64 {
                player.write(other, round / 2, 8);
            } else {
                player.await_messages(round as usize / 2 + 1);
            }
            dither(&mut state);
        }
        player.inbox.check(other, ROUNDS / 2, |_| 8);
    });
}

/// Five that stream to one, which sleeps whenever it can and answers with signals.
pub fn no_wake_up_is_lost_among_many(stage: &dyn Stage) {
    const SENDERS: usize = 5;
    const EACH: u64 = 200;
    stage.run(SENDERS + 1, &|fabric| {
        let mut player = Player::new(fabric);
        if player.me() == 0 {
            let mut answered = [0; SENDERS];
            player.repeat("all messages", |player| {
                for (index, answered) in answered.iter_mut().enumerate() {
                    let there = player.inbox.of(index + 1).count() as u64;
                    while *answered < there {
                        let posted = player.fabric.signal(peer(index + 1), KEY);
                        if !super::scene::sent(posted) {
                            break;
                        }
                        *answered += 1;
                    }
                }
                answered == [EACH; SENDERS]
            });
            for sender in 1..=SENDERS {
                player.inbox.check(sender, EACH, |_| 40);
            }
        } else {
            let mut state = player.me() as u64;
            for number in 0..EACH {
                player.send(0, number, 40);
                dither(&mut state);
                // A window of three.
                if number >= 3 {
                    player.await_signals(0, KEY, 1);
                }
            }
            player.await_signals(0, KEY, 3);
        }
    });
}

/// Signals wake as messages do.
pub fn a_signal_wakes(stage: &dyn Stage) {
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        let (me, mut state) = (player.me(), 3);
        for _ in 0..500 {
            if me == 0 {
                player.signal(1, KEY);
                player.await_signals(1, KEY, 1);
            } else {
                player.await_signals(0, KEY, 1);
                dither(&mut state);
                player.signal(0, KEY);
            }
        }
    });
}

/// A sender that was refused and sleeps is woken when there is room again.
pub fn a_refused_sender_is_woken_by_room(stage: &dyn Stage) {
    const COUNT: u64 = 3000;
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        if player.me() == 0 {
            // Far more than a lane holds: sleeps in between, and nobody sends to it meanwhile.
            for number in 0..COUNT {
                player.send(1, number, 200);
            }
            player.await_messages(1);
        } else {
            let mut state = 1;
            for count in 1..=COUNT {
                player.await_messages(count as usize);
                if count % 64 == 0 {
                    dither(&mut state);
                }
            }
            player.inbox.check(0, COUNT, |_| 200);
            player.send(0, 0, 0);
        }
    });
}

/// A transfer that ends later wakes whoever waits for it; its owner learns by a message.
pub fn the_end_of_a_transfer_wakes_its_asker(stage: &dyn Stage) {
    const LENGTH: usize = 200_000;
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        for round in 0..20u64 {
            if player.me() == 0 {
                let memory = Memory::patterned(LENGTH, round);
                let to = Some(peer(1));
                let token = player
                    .fabric
                    .grant(memory.region(), to, Rights::Read, Uses::Once)
                    .expect("fits");
                player.send_token(1, token);
                player.await_messages(round as usize + 1);
                player.inbox.check(1, round + 1, |_| 0);
            } else {
                player.await_messages(round as usize + 1);
                let token = player.last_token(0);
                let target = Memory::filled(LENGTH, 0);
                player
                    .transfer(
                        TransferKind::Get,
                        0,
                        (token, 0),
                        target.region(),
                        Operation(round),
                    )
                    .expect("granted");
                assert!(target.bytes() == super::memory::pattern(LENGTH, round));
                player.send(0, round, 0);
            }
        }
    });
}
