//! Properties of many at once: whatever is full on one side, the whole goes on.

use super::Stage;
use super::memory::{Memory, pattern};
use super::player::Player;
use super::scene::{Scene, TransferKind, peer};
use crate::{Operation, Rights, SyncKey, Token, Uses};

const CROWD: usize = 17;

/// Two that write to each other far more than the lanes hold, looking only when refused.
pub fn crossing_streams_get_through(stage: &dyn Stage) {
    const COUNT: u64 = 1000;
    let mut scene = Scene::new(stage, 2);
    let mut next = [0; 2];
    scene.repeat("both streams", |scene| {
        for (rank, next) in next.iter_mut().enumerate() {
            while *next < COUNT && scene.try_send(rank, 1 - rank, *next, 700) {
                *next += 1;
            }
        }
        // One look each, and a small one: the lanes stay full.
        scene.poll(0, 2);
        scene.poll(1, 2);
        (0..2).all(|rank| scene.inboxes[rank].messages() as u64 == COUNT)
    });
    scene.settle();
    scene.inboxes[0].check(1, COUNT, |_| 700);
    scene.inboxes[1].check(0, COUNT, |_| 700);
}

/// The same between threads that sleep when they are refused.
pub fn crossing_streams_get_through_asleep(stage: &dyn Stage) {
    const COUNT: u64 = 1500;
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        let other = 1 - player.me();
        for number in 0..COUNT {
            player.send(other, number, 300);
        }
        player.await_messages(COUNT as usize);
        player.inbox.check(other, COUNT, |_| 300);
        leave_together(&mut player);
    });
}

/// Seventeen send to each and to themselves.
pub fn seventeen_reach_each_other(stage: &dyn Stage) {
    const EACH: u64 = 5;
    let mut scene = Scene::new(stage, CROWD);
    let length = |number: u64| number as usize * 333;
    for number in 0..EACH {
        for from in 0..CROWD {
            for to in 0..CROWD {
                scene.send(from, (from + to) % CROWD, number, length(number));
            }
        }
    }
    let all = EACH as usize * CROWD;
    scene.until("everything", |scene| {
        scene.inboxes.iter().all(|inbox| inbox.messages() >= all)
    });
    scene.settle();
    for inbox in &scene.inboxes {
        for from in 0..CROWD {
            inbox.check(from, EACH, length);
        }
    }
}

/// The same with a thread each, asleep whenever there is nothing to do.
pub fn seventeen_reach_each_other_asleep(stage: &dyn Stage) {
    const EACH: u64 = 8;
    stage.run(CROWD, &|fabric| {
        let mut player = Player::new(fabric);
        for number in 0..EACH {
            for step in 0..CROWD {
                player.send((player.me() + step) % CROWD, number, 100);
            }
        }
        player.await_messages(EACH as usize * CROWD);
        for from in 0..CROWD {
            player.inbox.check(from, EACH, |_| 100);
        }
        leave_together(&mut player);
    });
}

/// Nobody leaves while others may still wait for a credit of theirs: a barrier of signals.
fn leave_together(player: &mut Player) {
    const LEAVE: SyncKey = SyncKey(u64::MAX - 1);
    let (me, count) = (player.me(), player.count());
    let mut distance = 1;
    while distance < count {
        player.signal((me + distance) % count, LEAVE);
        player.await_signals((me + count - distance) % count, LEAVE, 1);
        distance *= 2;
    }
}

/// Messages, signals and transfers between four ranks at once; then all leave in order.
pub fn all_services_at_once(stage: &dyn Stage) {
    const RANKS: usize = 4;
    const ROUNDS: u64 = 40;
    const LENGTH: usize = 9000;
    stage.run(RANKS, &|fabric| {
        let mut player = Player::new(fabric);
        let (me, key) = (player.me(), SyncKey(9));
        let (right, left) = ((me + 1) % RANKS, (me + RANKS - 1) % RANKS);
        for round in 0..ROUNDS {
            // Offer a part to the right, pull what the left offers, say that it is done.
            let memory = Memory::patterned(LENGTH, round * 10 + me as u64);
            let token = player
                .fabric
                .grant(memory.region(), Some(peer(right)), Rights::Read, Uses::Once)
                .expect("fits");
            player.send_token(right, token);
            player.repeat("the offer of the left", |player| {
                player.inbox.of(left).count() as u64 > round
            });
            let token = player.last_token(left);
            let target = Memory::filled(LENGTH, 0);
            player
                .transfer(
                    TransferKind::Get,
                    left,
                    (token, 0),
                    target.region(),
                    Operation(round),
                )
                .expect("granted");
            assert!(target.bytes() == pattern(LENGTH, round * 10 + left as u64));
            player.signal(left, key);
            player.await_signals(right, key, 1);
            assert!(!player.fabric.revoke(Token(u64::MAX - round)));
        }
        leave_together(&mut player);
    });
}
