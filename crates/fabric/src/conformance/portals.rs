//! Properties of the portal.

use super::Stage;
use super::inbox::difference;
use super::memory::{Memory, pattern};
use super::player::Player;
use super::scene::{Scene, TransferKind, peer, refused};
use crate::{FabricError, Operation, Peer, Rights, SyncKey, Token, Uses};

const STARTED: SyncKey = SyncKey(0x5A);

const LENGTHS: [usize; 14] = [
    1,
    2,
    63,
    64,
    65,
    4095,
    4096,
    4097,
    8192,
    65_535,
    65_537,
    1 << 18,
    (1 << 20) + 3,
    4 << 20,
];

fn grant(scene: &mut Scene, owner: usize, memory: &Memory, rights: Rights, uses: Uses) -> Token {
    grant_to(scene, owner, memory, None, (rights, uses))
}

fn grant_to(
    scene: &mut Scene,
    owner: usize,
    memory: &Memory,
    to: Option<Peer>,
    (rights, uses): (Rights, Uses),
) -> Token {
    scene.endpoints[owner]
        .grant(memory.region(), to, rights, uses)
        .expect("there is room for a grant")
}

fn assert_same(came: &[u8], expected: &[u8], what: &str) {
    assert!(came == expected, "{what}: {}", difference(came, expected));
}

/// Reading 1 byte … 4 MiB.
pub fn every_length_can_be_read(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    for length in LENGTHS {
        let source = Memory::patterned(length, length as u64);
        let target = Memory::filled(length, 0);
        let token = grant_to(
            &mut scene,
            0,
            &source,
            Some(peer(1)),
            (Rights::Read, Uses::Once),
        );
        scene
            .transfer(1, TransferKind::Get, 0, (token, 0), target.region())
            .expect("granted");
        assert_same(&target.bytes(), &source.bytes(), "read");
    }
}

/// Writing 1 byte … 4 MiB.
pub fn every_length_can_be_written(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    for length in LENGTHS {
        let source = Memory::patterned(length, length as u64);
        let target = Memory::filled(length, 0);
        let token = grant_to(
            &mut scene,
            0,
            &target,
            Some(peer(1)),
            (Rights::Write, Uses::Once),
        );
        scene
            .transfer(1, TransferKind::Put, 0, (token, 0), source.region())
            .expect("granted");
        assert_same(&target.bytes(), &source.bytes(), "written");
    }
}

/// With offsets, at odd addresses; what lies around, on both sides, stays as it was.
pub fn parts_are_moved_and_the_rest_is_untouched(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    const ALL: usize = 20_000;
    for (offset, length) in [
        (0, 1),
        (1, 1),
        (3, 5000),
        (4097, 8191),
        (19_000, 1000),
        (0, ALL),
    ] {
        // Get: the window of the reader lies at 7 within its memory.
        let owner = Memory::patterned(ALL, 1);
        let mine = Memory::patterned(ALL + 14, 2);
        let token = grant(&mut scene, 0, &owner, Rights::ReadWrite, Uses::Many);
        let at = (token, offset as u64);
        scene
            .transfer(1, TransferKind::Get, 0, at, mine.part(7, length))
            .expect("granted");
        let mut expected = pattern(ALL + 14, 2);
        expected[7..7 + length].copy_from_slice(&pattern(ALL, 1)[offset..offset + length]);
        assert_same(&mine.bytes(), &expected, "the reader's memory");
        assert_same(&owner.bytes(), &pattern(ALL, 1), "the owner's memory, read");

        // Put.
        let mine = Memory::patterned(ALL + 14, 3);
        scene
            .transfer(1, TransferKind::Put, 0, at, mine.part(7, length))
            .expect("granted");
        let mut expected = pattern(ALL, 1);
        expected[offset..offset + length].copy_from_slice(&pattern(ALL + 14, 3)[7..7 + length]);
        assert_same(&owner.bytes(), &expected, "the owner's memory, written");
        assert_same(&mine.bytes(), &pattern(ALL + 14, 3), "the writer's memory");
        assert!(scene.endpoints[0].revoke(token));
    }
}

/// Two hundred grants at once, overlapping, used in another order than made.
pub fn many_grants_live_at_once(stage: &dyn Stage) {
    const COUNT: usize = 200;
    let mut scene = Scene::new(stage, 3);
    let window = Memory::patterned(COUNT * 16 + 64, 9);
    let mut grants: Vec<(usize, Token)> = Vec::new();
    for index in 0..COUNT {
        // Each overlaps with its neighbours.
        let region = window.part(index * 16, 64);
        let token = scene.endpoints[0].grant(region, None, Rights::Read, Uses::Once);
        grants.push((index, token.expect("two hundred grants fit")));
    }
    let mut names: Vec<u64> = grants.iter().map(|(_, token)| token.0).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), COUNT, "tokens of live grants differ");
    let whole = window.bytes();
    for step in 0..COUNT {
        // 77 and 200 have no common divisor: every grant once.
        let (index, token) = grants[step * 77 % COUNT];
        let target = Memory::filled(64, 0);
        scene
            .transfer(
                1 + step % 2,
                TransferKind::Get,
                0,
                (token, 0),
                target.region(),
            )
            .expect("granted");
        assert_same(&target.bytes(), &whole[index * 16..index * 16 + 64], "part");
    }
}

/// There is no number of grants that a fabric has room for: a send of bulk data would have to wait for it, and for
/// whatever the receivers of those before do. More than any table of a fabric holds live at a time, and each can be
/// used or taken back.
pub fn as_many_grants_live_as_memory_holds(stage: &dyn Stage) {
    const COUNT: usize = 20_000;
    // How many of them are used.
    const USED: usize = 100;
    let mut scene = Scene::new(stage, 2);
    let window = Memory::patterned(COUNT + 64, 5);
    let whole = window.bytes();
    for round in 0..2 {
        let grant_one = |scene: &mut Scene, index: usize| {
            let uses = if index.is_multiple_of(3) {
                Uses::Many
            } else {
                Uses::Once
            };
            let region = window.part(index, 64);
            scene.endpoints[0]
                .grant(region, Some(peer(1)), Rights::Read, uses)
                .expect("memory lasts")
        };
        let mut tokens: Vec<Token> = (0..COUNT)
            .map(|index| grant_one(&mut scene, index))
            .collect();
        let mut names: Vec<u64> = tokens.iter().map(|token| token.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNT, "tokens of live grants differ");
        // Some are taken back, first and last ones among them, and granted anew.
        for index in (0..COUNT).step_by(7) {
            let stale = tokens[index];
            assert!(scene.endpoints[0].revoke(stale), "{index} was live");
            tokens[index] = grant_one(&mut scene, index);
            assert_ne!(tokens[index], stale);
        }
        for step in 0..USED {
            // From the last to the first.
            let index = (USED - 1 - step) * (COUNT - 1) / (USED - 1);
            let target = Memory::filled(64, 0);
            scene
                .transfer(1, TransferKind::Get, 0, (tokens[index], 0), target.region())
                .expect("granted");
            let expected = &whole[index..index + 64];
            assert_same(&target.bytes(), expected, &format!("{index} in {round}"));
            if !index.is_multiple_of(3) {
                assert!(!scene.endpoints[0].revoke(tokens[index]), "it is used up");
            }
        }
        for token in tokens {
            scene.endpoints[0].revoke(token);
        }
    }
}

/// A grant for many uses serves many, of everybody, until it is revoked.
pub fn one_grant_serves_many(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let window = Memory::filled(1000, 0);
    let token = grant(&mut scene, 0, &window, Rights::ReadWrite, Uses::Many);
    for round in 0..50usize {
        let source = Memory::patterned(10, round as u64);
        let writer = 1 + round % 2;
        let at = (token, (round * 10) as u64);
        scene
            .transfer(writer, TransferKind::Put, 0, at, source.region())
            .expect("granted");
        let back = Memory::filled(10, 0);
        scene
            .transfer(3 - writer, TransferKind::Get, 0, at, back.region())
            .expect("granted");
        assert_same(&back.bytes(), &source.bytes(), "what the other wrote");
    }
    assert!(scene.endpoints[0].revoke(token));
}

/// A grant for one use ends with it.
pub fn a_grant_for_once_serves_once(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    for length in [100, 100_000] {
        let source = Memory::patterned(length, 1);
        let target = Memory::filled(length, 0);
        let token = grant(&mut scene, 0, &source, Rights::Read, Uses::Once);
        scene
            .transfer(1, TransferKind::Get, 0, (token, 0), target.region())
            .expect("the first use is granted");
        let again = Memory::filled(length, 7);
        let second = scene.transfer(1, TransferKind::Get, 0, (token, 0), again.region());
        refused(
            &second,
            &FabricError::NotGranted { peer: peer(0) },
            "the second use",
        );
        assert_eq!(again.bytes(), vec![7; length]);
        assert!(!scene.endpoints[0].revoke(token), "it is used up");
    }
}

/// Bytes on offer arrive as those that are not: asked for at once, late, in part, not from their start, or
/// more than fit on offer; several at a time, and after the offer was not taken.
pub fn offered_bytes_arrive_as_others(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    // So that there is a connection, where there are connections.
    scene.send(0, 1, 0, 8);
    scene.settle();
    let mut messages = 1;
    for (round, length) in LENGTHS.into_iter().chain(LENGTHS).enumerate() {
        let source = Memory::patterned(length, round as u64);
        let late = round % 2 == 1;
        for (offset, wanted) in [
            (0, length),
            (0, length / 2),
            (length / 3, length / 2),
            (length, 0),
        ] {
            let token = grant_to(
                &mut scene,
                0,
                &source,
                Some(peer(1)),
                (Rights::Read, Uses::Once),
            );
            scene.endpoints[0].offer(peer(1), token);
            scene.send(0, 1, messages, 8);
            messages += 1;
            if late {
                scene.settle();
            } else {
                scene.until("the announcement", |scene| {
                    scene.inboxes[1].messages() as u64 == messages
                });
            }
            let target = Memory::filled(wanted + 2, 0xEE);
            let at = (token, offset as u64);
            scene
                .transfer(1, TransferKind::Get, 0, at, target.part(1, wanted))
                .expect("granted");
            let mut expected = vec![0xEE; wanted + 2];
            expected[1..=wanted].copy_from_slice(&source.bytes()[offset..offset + wanted]);
            assert_same(&target.bytes(), &expected, "what was on offer");
            // The owner's memory is its own again, whatever was still on its way.
            scene.settle();
            assert!(!scene.endpoints[0].revoke(token), "it is used up");
        }
    }
    scene.inboxes[1].check(0, messages, |_| 8);
}

/// Several grants on offer at a time, asked for in another order, or taken back.
pub fn offers_are_told_apart_and_taken_back(stage: &dyn Stage) {
    const COUNT: usize = 6;
    const LENGTH: usize = 70_000;
    let mut scene = Scene::new(stage, 2);
    scene.send(0, 1, 0, 8);
    scene.settle();
    let mut messages = 1;
    for settled in [true, false] {
        let mut offered = Vec::new();
        for seed in 0..COUNT {
            let source = Memory::patterned(LENGTH, seed as u64);
            let rights = (Rights::Read, Uses::Once);
            let token = grant_to(&mut scene, 0, &source, Some(peer(1)), rights);
            scene.endpoints[0].offer(peer(1), token);
            scene.send(0, 1, messages, 8);
            messages += 1;
            if settled {
                scene.settle();
            }
            offered.push((source, token));
        }
        for (index, (source, token)) in offered.iter().enumerate().rev() {
            let target = Memory::filled(LENGTH, 0);
            let back = index % 3 == 1;
            if back {
                assert!(scene.endpoints[0].revoke(*token), "nobody has asked");
                // What is read from here on is not what was granted.
                source.region().copy_from_slice(&[0xAA; LENGTH]);
                scene.settle();
            }
            let result = scene.transfer(1, TransferKind::Get, 0, (*token, 0), target.region());
            if back {
                let refusal = FabricError::NotGranted { peer: peer(0) };
                refused(&result, &refusal, "taken back");
                assert_eq!(target.bytes(), vec![0; LENGTH]);
            } else {
                result.expect("granted");
                assert_same(
                    &target.bytes(),
                    &pattern(LENGTH, index as u64),
                    "of several",
                );
            }
        }
        scene.settle();
    }
}

/// After a grant is revoked nobody moves anything by it; revoking twice is no error.
pub fn a_revoked_token_is_dead(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    for uses in [Uses::Once, Uses::Many] {
        let window = Memory::filled(100, 1);
        let mine = Memory::filled(100, 2);
        let token = grant(&mut scene, 0, &window, Rights::ReadWrite, uses);
        assert!(scene.endpoints[0].revoke(token), "it was live");
        assert!(!scene.endpoints[0].revoke(token), "it is not any more");
        for kind in [TransferKind::Get, TransferKind::Put] {
            let result = scene.transfer(1, kind, 0, (token, 0), mine.region());
            refused(
                &result,
                &FabricError::NotGranted { peer: peer(0) },
                "revoked",
            );
        }
        assert_eq!(window.bytes(), [1; 100]);
        assert_eq!(mine.bytes(), [2; 100]);
    }
    assert!(!scene.endpoints[0].revoke(Token(u64::MAX)), "never granted");
}

/// Revoking while the peer moves bytes as fast as it can: what stands when it returns stays.
pub fn nothing_moves_after_revoke_returns(stage: &dyn Stage) {
    const LENGTH: usize = 40_000;
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        for round in 0..30u64 {
            if player.me() == 0 {
                let window = Memory::filled(LENGTH, 0);
                let to = Some(peer(1));
                let granted = player
                    .fabric
                    .grant(window.region(), to, Rights::Write, Uses::Many);
                let token = granted.expect("fits");
                player.send_token(1, token);
                // At different times of the other's transfers.
                player.repeat("a first transfer", |player| {
                    player.fabric.signals(peer(1), STARTED) > round
                });
                for _ in 0..round * 500 {
                    std::hint::spin_loop();
                }
                assert!(player.fabric.revoke(token), "it was live");
                let then = window.bytes();
                player.await_messages(round as usize + 1);
                assert_same(&window.bytes(), &then, "after revoke");
            } else {
                player.await_messages(round as usize + 1);
                let token = player.last_token(0);
                let sources = [1, 2].map(|value| Memory::filled(LENGTH, value));
                let mut operation = Operation(round << 32);
                let mut ended = Ok(());
                while ended.is_ok() {
                    let source = sources[operation.0 as usize % 2].region();
                    ended = player.transfer(TransferKind::Put, 0, (token, 0), source, operation);
                    operation.0 += 1;
                    if operation.0 & 0xFFFF_FFFF == 1 {
                        player.signal(0, STARTED);
                    }
                }
                let not_granted = FabricError::NotGranted { peer: peer(0) };
                refused(&ended, &not_granted, "the end of it");
                player.send(0, round, 0);
            }
        }
    });
}

/// Who writes is waited for, whatever has become of another who wrote: nothing changes after revoking.
pub fn revoke_waits_for_living_users_beside_dying_ones(stage: &dyn Stage) {
    taken_back_beside_a_death(stage, TransferKind::Put);
}

/// What is read while the owner takes its grant back and uses its memory anew is what was granted, or the
/// transfer is refused, whatever has become of another who read.
pub fn what_is_read_is_what_was_granted_or_refused(stage: &dyn Stage) {
    taken_back_beside_a_death(stage, TransferKind::Get);
}

/// Bytes of the transfers that a grant is taken back under: long enough to be in the middle of one.
const UNDER_WAY: usize = 1 << 20;

fn taken_back_beside_a_death(stage: &dyn Stage, kind: TransferKind) {
    for delay in 0..6u32 {
        stage.run(3, &|fabric| {
            let player = Player::new(fabric);
            if player.me() == 0 {
                take_back(stage, player, kind, delay);
            } else {
                use_until_refused(stage, player, kind);
            }
        });
    }
}

/// Grants, revokes while peer 1 is at it and peer 2 has died at it, and sees what becomes of its memory.
fn take_back(stage: &dyn Stage, mut player: Player, kind: TransferKind, delay: u32) {
    let window = Memory::filled(UNDER_WAY, 1);
    let rights = match kind {
        TransferKind::Get => Rights::Read,
        TransferKind::Put => Rights::Write,
    };
    let granted = player
        .fabric
        .grant(window.region(), None, rights, Uses::Many);
    let token = granted.expect("fits");
    player.send_token(1, token);
    player.send_token(2, token);
    player.repeat("two first transfers", |player| {
        (1..3).all(|from| player.fabric.signals(peer(from), STARTED) > 0)
    });
    if stage.shows_deaths() {
        player.repeat("news of the death", |player| player.inbox.has_lost(peer(2)));
    }
    // At different times of the transfers.
    for _ in 0..delay * 5000 {
        std::hint::spin_loop();
    }
    assert!(player.fabric.revoke(token), "it was live");
    if kind == TransferKind::Get {
        window.region().copy_from_slice(&vec![0xEE; UNDER_WAY]);
    }
    let then = window.bytes();
    player.repeat("the last words of both", |player| {
        (1..3).all(|from| player.inbox.of(from).next().is_some())
    });
    assert_same(&window.bytes(), &then, "after revoke");
}

/// Moves bytes by the grant of peer 0: peer 1 until that is refused, peer 2 until it dies.
fn use_until_refused(stage: &dyn Stage, mut player: Player, kind: TransferKind) {
    player.await_messages(1);
    let (me, token) = (player.me(), player.last_token(0));
    let (mut ended, mut round) = (Ok(()), 0);
    while ended.is_ok() && (me == 1 || round < 3) {
        let mine = Memory::filled(UNDER_WAY, 10 * me as u8 + round as u8 % 2);
        ended = player.transfer(kind, 0, (token, 0), mine.region(), Operation(round));
        if ended.is_ok() && kind == TransferKind::Get {
            assert!(mine.bytes().iter().all(|byte| *byte == 1), "as granted");
        }
        round += 1;
        if round == 1 {
            player.signal(0, STARTED);
        }
    }
    player.send(0, 0, 0);
    if me == 2 {
        stage.end(2, player.fabric);
        return;
    }
    let not_granted = FabricError::NotGranted { peer: peer(0) };
    refused(&ended, &not_granted, "the end of it");
}

/// A token does not come to life again when its place is granted anew; made-up ones never live.
pub fn a_stale_token_stays_dead(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let window = Memory::filled(64, 1);
    let mine = Memory::filled(64, 2);
    let stale = grant(&mut scene, 0, &window, Rights::ReadWrite, Uses::Many);
    assert!(scene.endpoints[0].revoke(stale));
    let not_granted = FabricError::NotGranted { peer: peer(0) };
    for _ in 0..100 {
        let fresh = grant(&mut scene, 0, &window, Rights::ReadWrite, Uses::Many);
        assert_ne!(fresh, stale);
        let result = scene.transfer(1, TransferKind::Put, 0, (stale, 0), mine.region());
        refused(&result, &not_granted, "stale");
        assert!(scene.endpoints[0].revoke(fresh));
    }
    for made_up in [0, 1, 2, 1 << 16, 1 << 32, (1 << 32) + 1, u64::MAX] {
        let result = scene.transfer(1, TransferKind::Put, 0, (Token(made_up), 0), mine.region());
        refused(&result, &not_granted, "made up");
    }
    // A token names a grant of its owner, not of anybody else.
    let token = grant(&mut scene, 0, &window, Rights::ReadWrite, Uses::Many);
    let result = scene.transfer(1, TransferKind::Put, 1, (token, 0), mine.region());
    refused(
        &result,
        &FabricError::NotGranted { peer: peer(1) },
        "of another",
    );
    assert!(scene.endpoints[0].revoke(token));
    assert_eq!(window.bytes(), [1; 64]);
}

/// A grant for one peer is none for another.
pub fn only_the_named_peer_may_move(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let window = Memory::filled(64, 1);
    let mine = Memory::filled(64, 2);
    let how = (Rights::ReadWrite, Uses::Many);
    let token = grant_to(&mut scene, 0, &window, Some(peer(1)), how);
    for kind in [TransferKind::Get, TransferKind::Put] {
        let result = scene.transfer(2, kind, 0, (token, 0), mine.region());
        refused(
            &result,
            &FabricError::NotGranted { peer: peer(0) },
            "of the wrong peer",
        );
    }
    assert_eq!(window.bytes(), [1; 64]);
    assert_eq!(mine.bytes(), [2; 64]);
    scene
        .transfer(1, TransferKind::Put, 0, (token, 0), mine.region())
        .expect("granted to this one");
    assert_eq!(window.bytes(), [2; 64]);
    assert!(scene.endpoints[0].revoke(token));
}

/// Spans that leave the grant, also by so much that the sum overflows, move nothing.
pub fn nothing_moves_outside_of_a_grant(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let window = Memory::filled(300, 1);
    let spans = [
        (0, 101),
        (1, 100),
        (100, 1),
        (5000, 1),
        (u64::MAX, 1),
        (u64::MAX, 100),
    ];
    for kind in [TransferKind::Get, TransferKind::Put] {
        for (offset, length) in spans {
            let mine = Memory::filled(length, 2);
            let region = window.part(100, 100);
            let token = scene.endpoints[0]
                .grant(region, None, Rights::ReadWrite, Uses::Many)
                .expect("fits");
            let result = scene.transfer(1, kind, 0, (token, offset), mine.region());
            let outside = FabricError::OutsideGrant {
                peer: peer(0),
                offset,
                length: length as u64,
            };
            refused(
                &result,
                &outside,
                &format!("{kind:?} of {length} at {offset}"),
            );
            assert_eq!(mine.bytes(), vec![2; length]);
            assert!(scene.endpoints[0].revoke(token));
        }
    }
    assert_eq!(window.bytes(), [1; 300]);
}

/// What may be read may not be written by that, and the reverse.
pub fn nothing_moves_without_the_right(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    for (rights, kind) in [
        (Rights::Read, TransferKind::Put),
        (Rights::Write, TransferKind::Get),
    ] {
        for length in [64, 50_000] {
            let window = Memory::filled(length, 1);
            let mine = Memory::filled(length, 2);
            let token = grant(&mut scene, 0, &window, rights, Uses::Many);
            let result = scene.transfer(1, kind, 0, (token, 0), mine.region());
            let outside = FabricError::OutsideGrant {
                peer: peer(0),
                offset: 0,
                length: length as u64,
            };
            refused(&result, &outside, &format!("{kind:?} with {rights:?}"));
            assert_eq!(window.bytes(), vec![1; length]);
            assert_eq!(mine.bytes(), vec![2; length]);
            assert!(scene.endpoints[0].revoke(token));
        }
    }
}

/// One's own grants can be used by oneself.
pub fn a_rank_moves_from_itself(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 1);
    for length in [10, 100_000] {
        let source = Memory::patterned(length, 4);
        let target = Memory::filled(length, 0);
        let token = grant(&mut scene, 0, &source, Rights::Read, Uses::Once);
        scene
            .transfer(0, TransferKind::Get, 0, (token, 0), target.region())
            .expect("granted");
        assert_same(&target.bytes(), &source.bytes(), "from oneself");
    }
}

/// Transfers in both directions, all started before any is waited for.
pub fn many_transfers_are_under_way_at_once(stage: &dyn Stage) {
    const RANKS: usize = 3;
    const LENGTH: usize = 30_000;
    let mut scene = Scene::new(stage, RANKS);
    let mut running = Vec::new();
    for round in 0..10u64 {
        for rank in 0..RANKS {
            let other = (rank + 1 + round as usize % 2) % RANKS;
            let owned = Memory::patterned(LENGTH, round * 10 + rank as u64);
            let target = Memory::filled(LENGTH, 0);
            let (kind, rights) = if round % 2 == 0 {
                (TransferKind::Get, Rights::Read)
            } else {
                (TransferKind::Put, Rights::Write)
            };
            let (granted, lent) = match kind {
                TransferKind::Get => (&owned, &target),
                TransferKind::Put => (&target, &owned),
            };
            let token = grant(&mut scene, other, granted, rights, Uses::Once);
            let (operation, answer) = scene.start(rank, kind, other, (token, 0), lent.region());
            running.push((rank, operation, answer, owned, target));
        }
    }
    for (rank, operation, answer, owned, target) in &running {
        let result = match answer {
            Some(result) => result.clone(),
            None => scene.ended(*rank, *operation),
        };
        result.expect("granted");
        assert_same(&target.bytes(), &owned.bytes(), "one of many");
    }
    scene.settle();
    for (rank, operation, answer, ..) in &running {
        let told = scene.inboxes[*rank]
            .transfer_completed(*operation)
            .is_some();
        assert_eq!(
            told,
            answer.is_none(),
            "told of exactly those that were under kind"
        );
    }
}
