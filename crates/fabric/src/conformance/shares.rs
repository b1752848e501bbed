//! Properties of memory that members share. Fabrics without such memory say so.

use weft_atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Stage;
use super::player::Player;
use super::scene::{Scene, peer};
use crate::board::{Board, Note};
use crate::{FabricError, Peer, SharedBlock, SharedKey, SharedMemory, SyncKey, Token};

const DONE: SyncKey = SyncKey(0x5B);

/// Two members that share memory: the first owns it. `None` if there are no such members, and that is said.
fn sharers(scene: &mut Scene) -> Option<(usize, usize)> {
    let count = scene.endpoints.len();
    let shares = |owner: usize, other: usize| scene.endpoints[owner].shares_memory(peer(other));
    let pairs = (0..count).flat_map(|owner| (0..count).map(move |other| (owner, other)));
    let found = pairs
        .filter(|(owner, other)| owner != other)
        .find(|&(owner, other)| {
            assert_eq!(
                shares(owner, other),
                shares(other, owner),
                "it goes both ways"
            );
            shares(owner, other)
        });
    if let Some((owner, _)) = found {
        assert!(shares(owner, owner), "with itself too");
        return found;
    }
    for endpoint in &mut scene.endpoints {
        let attached = endpoint.attach_shared(Peer(0), SharedKey(1), 1);
        assert!(attached.is_err(), "nobody shares anything");
    }
    None
}

fn allocate(scene: &mut Scene, owner: usize, length: usize) -> SharedBlock {
    let block = scene.endpoints[owner]
        .allocate_shared(length)
        .expect("there is memory");
    assert_eq!(block.memory.len(), length);
    assert!(
        block.memory.as_ptr().addr().is_multiple_of(4096),
        "aligned to a page"
    );
    block
}

fn attach(scene: &mut Scene, other: usize, owner: usize, block: &SharedBlock) -> SharedMemory {
    let length = block.memory.len();
    let attached = scene.endpoints[other].attach_shared(peer(owner), block.key, length);
    let attached = attached.expect("allocated");
    assert_eq!(attached.len(), length);
    attached
}

fn holds(memory: &SharedMemory, value: u8) -> bool {
    let mut bytes = vec![!value; memory.len()];
    memory.read(0, &mut bytes) && bytes.iter().all(|byte| *byte == value)
}

/// A block is zeros, and the same bytes for its owner and all others, of every length.
pub fn members_see_each_others_stores(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let Some((owner, other)) = sharers(&mut scene) else {
        return;
    };
    for length in [0, 1, 4095, 4096, 4097, (2 << 20) + 1] {
        let block = allocate(&mut scene, owner, length);
        let attached = attach(&mut scene, other, owner, &block);
        let again = attach(&mut scene, owner, owner, &block);
        assert!(holds(&attached, 0) && holds(&block.memory, 0), "zeros");
        assert!(attached.write(0, &vec![5; length]));
        assert!(holds(&block.memory, 5) && holds(&again, 5));
        assert!(block.memory.write(0, &vec![6; length]));
        assert!(holds(&attached, 6) && holds(&again, 6));
    }
}

/// Words of every width are atomic between members.
pub fn words_are_the_same_for_all(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let Some((owner, other)) = sharers(&mut scene) else {
        return;
    };
    let block = allocate(&mut scene, owner, 64);
    let attached = attach(&mut scene, other, owner, &block);
    let (here, there) = (&block.memory, &attached);
    let order = Ordering::AcqRel;
    let one: (&AtomicU8, &AtomicU8) = (
        here.atomic_u8(3).expect("within"),
        there.atomic_u8(3).expect("within"),
    );
    assert_eq!(
        (one.0.fetch_add(200, order), one.1.fetch_add(100, order)),
        (0, 200)
    );
    assert_eq!(one.0.load(Ordering::Acquire), 44);
    let two: (&AtomicU16, &AtomicU16) = (
        here.atomic_u16(4).expect("within"),
        there.atomic_u16(4).expect("within"),
    );
    assert_eq!(
        (
            two.0.fetch_or(0xff00, order),
            two.1.fetch_and(0x0ff0, order)
        ),
        (0, 0xff00)
    );
    let four: (&AtomicU32, &AtomicU32) = (
        here.atomic_u32(8).expect("within"),
        there.atomic_u32(8).expect("within"),
    );
    assert_eq!((four.0.swap(7, order), four.1.fetch_xor(2, order)), (0, 7));
    let eight: (&AtomicU64, &AtomicU64) = (
        here.atomic_u64(16).expect("within"),
        there.atomic_u64(16).expect("within"),
    );
    let exchange =
        |word: &AtomicU64, from, to| word.compare_exchange(from, to, order, Ordering::Acquire);
    assert_eq!(exchange(eight.0, 0, u64::MAX), Ok(0));
    assert_eq!(exchange(eight.1, 0, 1), Err(u64::MAX));
    let mut bytes = [0; 24];
    assert!(attached.read(0, &mut bytes));
    assert_eq!(bytes[..8], [0, 0, 0, 44, 0, 0x0f, 0, 0]);
    assert_eq!((bytes[8], bytes[16..] == [255; 8]), (5, true));
}

/// Members that add at the same time lose nothing.
pub fn counts_of_many_are_exact(stage: &dyn Stage) {
    const ROUNDS: u64 = 2_000;
    stage.run(3, &|fabric| {
        let mut player = Player::new(fabric);
        let (me, count) = (player.me(), player.count());
        if !(0..count).all(|other| player.fabric.shares_memory(peer(other))) {
            return;
        }
        let mut own = None;
        if me == 0 {
            let block = player
                .fabric
                .allocate_shared(4096)
                .expect("there is memory");
            for other in 1..count {
                player.send_token(other, Token(block.key.0));
            }
            own = Some(block);
        }
        let memory = match &own {
            Some(block) => block.memory.clone(),
            None => {
                player.await_messages(1);
                let key = SharedKey(player.last_token(0).0);
                let attached = player.fabric.attach_shared(Peer(0), key, 4096);
                attached.expect("allocated")
            }
        };
        let word = memory.atomic_u64(8).expect("within");
        for _ in 0..ROUNDS {
            word.fetch_add(1, Ordering::AcqRel);
        }
        for expected in [Some(ROUNDS * count as u64), None] {
            for other in (0..count).filter(|other| *other != me) {
                player.signal(other, DONE);
            }
            for other in (0..count).filter(|other| *other != me) {
                player.await_signals(other, DONE, 1);
            }
            // The second time only so that the owner does not leave before all have looked.
            if let Some(expected) = expected {
                assert_eq!(word.load(Ordering::Acquire), expected);
            }
        }
    });
}

/// Members of a board hear each other, asleep or not: of two each wakes the other, of three the last wakes all.
pub fn an_arrival_on_a_board_is_heard(stage: &dyn Stage) {
    for members in [2, 3] {
        stage.run(members, &|fabric| meet_on_a_board(Player::new(fabric)));
    }
}

fn meet_on_a_board(mut player: Player) {
    const EPOCHS: u32 = 300;
    let (me, count) = (player.me(), player.count());
    let nobody = player.fabric.is_any_beside(&mut std::iter::empty());
    assert_ne!(nobody, Some(true), "none of these stands anywhere");
    if !(0..count).all(|other| player.fabric.shares_memory(peer(other))) {
        assert!(!player.fabric.is_asleep(peer(1 - me.min(1))));
        return;
    }
    let bytes = Board::bytes_for(count).expect("few members");
    let memory = if me == 0 {
        let block = player.fabric.allocate_shared(bytes);
        let block = block.expect("there is memory");
        (1..count).for_each(|other| player.send_token(other, Token(block.key.0)));
        block.memory
    } else {
        player.await_messages(1);
        let key = SharedKey(player.last_token(0).0);
        let attached = player.fabric.attach_shared(Peer(0), key, bytes);
        attached.expect("allocated")
    };
    let mut board = Board::new(memory, count, me).expect("it fits");
    let others = || (0..count).filter(move |other| *other != me);
    for epoch in 1..=EPOCHS {
        player.await_store("room", || board.has_room(0));
        board.arrive(Note {
            number: epoch,
            ..Note::default()
        });
        if count == 2 {
            let other = peer(1 - me);
            if player.fabric.is_asleep(other) {
                player.fabric.wake(other);
            }
        } else {
            board.fence();
            if board.have_all() {
                others().for_each(|other| player.fabric.wake(peer(other)));
            }
        }
        player.await_store("all others", || board.have_all());
        assert!(others().all(|other| board.note_of(other).number == epoch));
    }
    // The owner does not leave before all have looked.
    others().for_each(|other| player.signal(other, DONE));
    others().for_each(|other| player.await_signals(other, DONE, 1));
}

/// A key ends with its block; what is allocated next has another, and is zeros.
pub fn a_released_key_is_dead(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let Some((owner, other)) = sharers(&mut scene) else {
        return;
    };
    let mut dead = Vec::new();
    for _ in 0..20 {
        let block = allocate(&mut scene, owner, 10_000);
        let attached = attach(&mut scene, other, owner, &block);
        assert!(holds(&attached, 0), "zeros again");
        assert!(block.memory.write(0, &[9; 10_000]));
        assert!(!dead.contains(&block.key));
        drop((attached, block.memory));
        assert!(
            !scene.endpoints[other].release_shared(block.key),
            "not its own"
        );
        assert!(scene.endpoints[owner].release_shared(block.key));
        assert!(
            !scene.endpoints[owner].release_shared(block.key),
            "only once"
        );
        dead.push(block.key);
    }
    let live = allocate(&mut scene, owner, 10_000);
    for key in dead {
        for who in [owner, other] {
            let attached = scene.endpoints[who].attach_shared(peer(owner), key, 1);
            assert_eq!(
                attached.map(drop),
                Err(FabricError::NotAllocated { peer: peer(owner) })
            );
        }
    }
    drop(attach(&mut scene, other, owner, &live));
}

/// Handles that are held stay usable after their block has gone.
pub fn a_held_handle_does_not_fault(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let Some((owner, other)) = sharers(&mut scene) else {
        return;
    };
    let block = allocate(&mut scene, owner, 10_000);
    let attached = attach(&mut scene, other, owner, &block);
    assert!(scene.endpoints[owner].release_shared(block.key));
    assert!(attached.write(0, &[1; 10_000]) && block.memory.write(0, &[2; 10_000]));
    drop(scene);
    assert!(attached.write(0, &[1; 10_000]) && block.memory.write(0, &[2; 10_000]));
}

/// A key means something at its owner only, and no more than its block can be attached.
pub fn a_key_reaches_one_block_of_one_peer(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let Some((owner, other)) = sharers(&mut scene) else {
        return;
    };
    let blocks = [owner, other].map(|who| allocate(&mut scene, who, 5000));
    let (theirs, mine) = (&blocks[0], &blocks[1]);
    assert!(theirs.memory.write(0, &[1; 5000]) && mine.memory.write(0, &[2; 5000]));
    let mut attach = |who: usize, peer, key, length| {
        let attached = scene.endpoints[who].attach_shared(peer, key, length);
        attached.map(|memory| memory.len())
    };
    let none = Err(FabricError::NotAllocated { peer: peer(owner) });
    assert_eq!(
        attach(other, peer(owner), mine.key, 1),
        none,
        "another's key"
    );
    assert_eq!(
        attach(owner, peer(owner), mine.key, 1),
        none,
        "another's key"
    );
    for key in [
        0,
        u64::MAX,
        1 << 63,
        theirs.key.0 + 1,
        theirs.key.0 + (1 << 32),
        !theirs.key.0,
    ] {
        assert_eq!(
            attach(other, peer(owner), SharedKey(key), 1),
            none,
            "{key:#x}"
        );
        assert_eq!(
            attach(owner, peer(owner), SharedKey(key), 1),
            none,
            "{key:#x}"
        );
    }
    for who in [owner, other] {
        for length in [5001, 8192, usize::MAX] {
            let outside = attach(who, peer(owner), theirs.key, length);
            assert!(
                matches!(outside, Err(FabricError::OutsideGrant { .. })),
                "{outside:?}"
            );
        }
        assert_eq!(attach(who, peer(owner), theirs.key, 5000), Ok(5000));
        assert_eq!(attach(who, peer(owner), theirs.key, 0), Ok(0));
    }
    let stranger = attach(owner, Peer(3), theirs.key, 1);
    assert!(
        matches!(stranger, Err(FabricError::NoSuchPeer { .. })),
        "{stranger:?}"
    );
    assert!(holds(&theirs.memory, 1) && holds(&mine.memory, 2));
}

/// What no machine has is refused in words, and nothing is lost by asking.
pub fn absurd_amounts_are_refused(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let Some((owner, _)) = sharers(&mut scene) else {
        return;
    };
    for length in [usize::MAX, isize::MAX as usize, 1 << 60, 1 << 52] {
        let refused = scene.endpoints[owner].allocate_shared(length).map(drop);
        assert!(
            matches!(refused, Err(FabricError::NoMemory { .. })),
            "{refused:?}"
        );
    }
    allocate(&mut scene, owner, 1);
}

/// Many blocks live at a time, and each is of its own.
pub fn many_blocks_live_at_once(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    let Some((owner, other)) = sharers(&mut scene) else {
        return;
    };
    let length = |number: usize| 1 + number * 97 % 9000;
    let blocks: Vec<SharedBlock> = (0..200)
        .map(|number| allocate(&mut scene, owner, length(number)))
        .collect();
    for (number, block) in blocks.iter().enumerate() {
        assert!(block.memory.write(0, &vec![number as u8; length(number)]));
    }
    for (number, block) in blocks.iter().enumerate() {
        assert!(holds(
            &attach(&mut scene, other, owner, block),
            number as u8
        ));
    }
}

/// Who dies leaves what others have attached; nothing more of it can be attached.
pub fn the_dead_leave_what_was_attached(stage: &dyn Stage) {
    stage.run(2, &|fabric| {
        let mut player = Player::new(fabric);
        if !player.fabric.shares_memory(peer(0)) || !player.fabric.shares_memory(peer(1)) {
            return;
        }
        if player.me() == 1 {
            let block = player.fabric.allocate_shared(100).expect("there is memory");
            assert!(block.memory.write(0, &[8; 100]));
            player.send_token(0, Token(block.key.0));
            player.repeat("the other to have it", |player| {
                player.fabric.signals(peer(0), DONE) > 0
            });
            stage.end(1, player.fabric);
            return;
        }
        player.await_messages(1);
        let key = SharedKey(player.last_token(1).0);
        let attached = player
            .fabric
            .attach_shared(peer(1), key, 100)
            .expect("allocated");
        assert!(holds(&attached, 8));
        player.signal(1, DONE);
        if stage.shows_deaths() {
            player.repeat("the loss", |player| player.inbox.has_lost(peer(1)));
            let refused = player.fabric.attach_shared(peer(1), key, 100).map(drop);
            assert!(
                matches!(refused, Err(FabricError::PeerLost { .. })),
                "{refused:?}"
            );
            assert!(holds(&attached, 8));
        }
        assert!(attached.write(0, &[9; 100]));
    });
}
