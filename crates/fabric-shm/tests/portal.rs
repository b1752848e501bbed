//! Grants, gets and puts, by copy and by chunks.

mod common;

use common::*;
use weft_fabric::{Fabric, FabricError, Operation, Peer, Posted, Rights, Token, Uses};
use weft_fabric_shm::{Options, Shm, Use};

fn methods() -> [Options; 2] {
    [Options::default(), without_attach()]
}

/// Moves things along until the operation has ended.
fn finish(
    one: &mut Shm,
    two: &mut Shm,
    posted: weft_fabric::Result<Posted>,
) -> weft_fabric::Result<()> {
    match posted? {
        Posted::Done => return Ok(()),
        Posted::Pending => {}
        Posted::Retry => panic!("refused"),
    }
    let (mut ours, mut theirs) = (Inbox::default(), Inbox::default());
    for _ in 0..100_000 {
        one.poll(&mut ours, 16);
        two.poll(&mut theirs, 16);
        assert!(
            ours.lost.is_empty() && theirs.lost.is_empty(),
            "{ours:?} {theirs:?}"
        );
        if let Some((operation, result)) = ours.completed.pop() {
            assert_eq!(operation, Operation(77));
            return result;
        }
    }
    panic!("it never ended");
}

fn get(
    one: &mut Shm,
    two: &mut Shm,
    token: Token,
    offset: u64,
    into: &mut [u8],
) -> weft_fabric::Result<()> {
    let posted = one.get(Peer(1), token, offset, lend(into), Operation(77));
    finish(one, two, posted)
}

fn put(
    one: &mut Shm,
    two: &mut Shm,
    token: Token,
    offset: u64,
    from: &mut [u8],
) -> weft_fabric::Result<()> {
    let posted = one.put(Peer(1), token, offset, lend(from), Operation(77));
    finish(one, two, posted)
}

#[test]
fn bytes_go_both_ways_at_any_length() {
    for options in methods() {
        let (mut one, mut two) = pair(&options);
        for length in [0, 1, 88, 89, 16384, 16385, 100_000, 1 << 20] {
            let mut there = pattern(length as u64, length + 100);
            let granted = lend(&mut there);
            let token = two
                .grant(granted, Some(Peer(0)), Rights::ReadWrite, Uses::Many)
                .expect("a grant");
            let mut here = vec![0; length];
            get(&mut one, &mut two, token, 50, &mut here).expect("granted");
            let mut back = pattern(3, length);
            put(&mut one, &mut two, token, 10, &mut back).expect("granted");
            assert!(two.revoke(token));
            assert!(!two.revoke(token), "only once");
            let before = pattern(length as u64, length + 100);
            assert!(here == before[50..50 + length], "{length} bytes");
            assert!(there[10..10 + length] == back && there[..10] == before[..10]);
            assert!(there[10 + length..] == before[10 + length..]);
        }
    }
}

#[test]
fn what_was_not_granted_is_refused() {
    for options in methods() {
        let (mut one, mut two) = pair(&options);
        let mut there = pattern(1, 1000);
        let mut here = vec![9; 100];
        let region = lend(&mut there);
        let mut refused = |two: &mut Shm, token, offset, outside: bool, write: bool| {
            let result = if write {
                put(&mut one, two, token, offset, &mut here)
            } else {
                get(&mut one, two, token, offset, &mut here)
            };
            match result {
                Err(FabricError::OutsideGrant { .. }) => assert!(outside),
                Err(FabricError::NotGranted { .. }) => assert!(!outside),
                other => panic!("{other:?}"),
            }
        };
        refused(&mut two, Token(0), 0, false, false);
        refused(&mut two, Token(u64::MAX), 0, false, true);
        let read = two
            .grant(region, Some(Peer(0)), Rights::Read, Uses::Many)
            .expect("a grant");
        refused(&mut two, read, 901, true, false);
        refused(&mut two, read, u64::MAX - 10, true, false);
        refused(&mut two, read, 0, true, true);
        let other = two
            .grant(region, Some(Peer(1)), Rights::Read, Uses::Many)
            .expect("a grant");
        refused(&mut two, other, 0, false, false);
        assert!(two.revoke(read));
        refused(&mut two, read, 0, false, false);
        // The record is used anew: the old token must not open it.
        let again = two
            .grant(region, Some(Peer(0)), Rights::Read, Uses::Many)
            .expect("a grant");
        refused(&mut two, read, 0, false, false);
        assert!(two.revoke(again) && two.revoke(other));
        assert_eq!(here, [9; 100], "nothing was moved");
        assert!(there == pattern(1, 1000));
    }
}

#[test]
fn a_grant_for_once_ends_with_its_use_and_its_record_comes_back() {
    for options in methods() {
        let (mut one, mut two) = pair(&options);
        let mut there = pattern(1, 256);
        let mut here = vec![0; 256];
        // Many more than there are records.
        for round in 0..20_000 {
            let region = lend(&mut there);
            let token = two
                .grant(region, None, Rights::Read, Uses::Once)
                .expect("records of used grants come back");
            if round % 3 == 0 {
                // Not used: revoked.
                assert!(two.revoke(token));
                continue;
            }
            // A refused use does not use it up.
            if round % 100 == 0 {
                assert!(get(&mut one, &mut two, token, 200, &mut here).is_err());
            }
            get(&mut one, &mut two, token, 0, &mut here).expect("granted");
            if round % 100 == 0 {
                let error = get(&mut one, &mut two, token, 0, &mut here);
                assert!(matches!(error, Err(FabricError::NotGranted { .. })));
                assert!(!two.revoke(token));
            }
        }
        assert_eq!(here, there);
    }
}

#[test]
fn a_grant_for_one_use_is_used_once_in_a_race() {
    let mut group = Shm::group(4).expect("endpoints");
    let mut owner = group.remove(0);
    let mut memory = pattern(1, 64);
    let tokens: Vec<_> = (0..500)
        .map(|_| {
            owner
                .grant(lend(&mut memory), None, Rights::Read, Uses::Once)
                .expect("a grant")
        })
        .collect();
    let users: Vec<_> = group
        .into_iter()
        .map(|mut user| {
            let tokens = tokens.clone();
            std::thread::spawn(move || {
                let mut into = vec![0; 64];
                let won = tokens
                    .iter()
                    .filter(|&&token| {
                        user.get(Peer(0), token, 0, lend(&mut into), Operation(1))
                            .is_ok()
                    })
                    .count();
                assert!(won == 0 || into == pattern(1, 64));
                won
            })
        })
        .collect();
    let won: usize = users
        .into_iter()
        .map(|user| user.join().expect("ends"))
        .sum();
    assert_eq!(won, 500);
}

#[test]
fn ones_own_grants_work() {
    let mut solo = Shm::solo().expect("a job of one");
    let (mut there, mut here) = (pattern(4, 5000), vec![0; 5000]);
    let token = solo
        .grant(
            lend(&mut there),
            Some(Peer(0)),
            Rights::ReadWrite,
            Uses::Once,
        )
        .expect("a grant");
    assert_eq!(
        solo.get(Peer(0), token, 0, lend(&mut here), Operation(1)),
        Ok(Posted::Done)
    );
    assert!(
        solo.get(Peer(0), token, 0, lend(&mut here), Operation(1))
            .is_err()
    );
    assert_eq!(here, there);
}

#[test]
fn many_transfers_by_chunks_at_once_and_messages_between_them() {
    let (mut one, mut two) = pair(&without_attach());
    const COUNT: u64 = 40;
    let mut theirs: Vec<Vec<u8>> = (0..COUNT).map(|seed| pattern(seed, 70_000)).collect();
    let mut ours = vec![vec![0; 70_000]; COUNT as usize];
    let tokens: Vec<_> = theirs
        .iter_mut()
        .map(|bytes| {
            two.grant(lend(bytes), Some(Peer(0)), Rights::Read, Uses::Once)
                .expect("a grant")
        })
        .collect();
    let (mut here, mut there) = (Inbox::default(), Inbox::default());
    let (mut asked, mut messages) = (0, 0);
    for _ in 0..1_000_000 {
        if asked < COUNT {
            let into = lend(&mut ours[asked as usize]);
            match one.get(Peer(1), tokens[asked as usize], 0, into, Operation(asked)) {
                Ok(Posted::Pending) => asked += 1,
                Ok(Posted::Retry) => {}
                other => panic!("{other:?}"),
            }
        }
        if messages < 500 && send(&mut two, 0, messages, b"between") {
            messages += 1;
        }
        two.poll(&mut there, 8);
        one.poll(&mut here, 8);
        if here.completed.len() as u64 == COUNT && messages == 500 {
            break;
        }
    }
    while one.poll(&mut here, 8) > 0 {}
    assert_eq!(
        (here.completed.len() as u64, here.messages.len()),
        (COUNT, 500)
    );
    assert!(here.completed.iter().all(|(_, result)| result.is_ok()));
    assert!(ours == theirs);
    assert_eq!(one.route(Peer(1)), "shm without cross-memory attach");
    assert!(one.why_not_direct(Peer(1)).is_some());
}

#[test]
fn revoking_under_way_ends_the_transfer_with_an_error() {
    for write in [false, true] {
        let (mut one, mut two) = pair(&without_attach());
        let mut there = pattern(1, 4 << 20);
        let mut here = pattern(2, 4 << 20);
        let token = two
            .grant(lend(&mut there), None, Rights::ReadWrite, Uses::Many)
            .expect("a grant");
        let region = lend(&mut here);
        let posted = if write {
            one.put(Peer(1), token, 0, region, Operation(77))
        } else {
            one.get(Peer(1), token, 0, region, Operation(77))
        };
        assert_eq!(posted, Ok(Posted::Pending));
        let mut inbox = Inbox::default();
        for _ in 0..5 {
            two.poll(&mut inbox, 8);
            one.poll(&mut inbox, 8);
        }
        assert!(two.revoke(token));
        let after = there.clone();
        let result = finish(&mut one, &mut two, Ok(Posted::Pending));
        assert!(
            matches!(result, Err(FabricError::NotGranted { .. })),
            "{result:?}"
        );
        assert!(there == after, "nothing moved after the revocation");
    }
}

/// A grant beyond the records is one as the others, whichever comes first, is used or is taken back.
#[test]
fn there_are_more_grants_than_records() {
    const RECORDS: usize = 3;
    for cross_memory in [Use::Auto, Use::Off] {
        let options = Options {
            cross_memory,
            direct_grants: RECORDS as u32,
            ..Options::default()
        };
        let (mut one, mut two) = pair(&options);
        let mut there = pattern(5, 64 * 1000);
        let mut here = vec![0; 1000];
        for round in 0..5 {
            let tokens: Vec<Token> = there
                .chunks_mut(1000)
                .map(|part| {
                    two.grant(lend(part), Some(Peer(0)), Rights::Read, Uses::Once)
                        .expect("memory lasts")
                })
                .collect();
            let mut names = tokens.clone();
            names.sort_unstable_by_key(|token| token.0);
            names.dedup();
            assert_eq!(names.len(), tokens.len(), "tokens differ");
            assert!(tokens.iter().all(|token| token.0 >> 63 == 0));
            for step in 0..64 {
                let index = step * 27 % 64;
                if index % 5 == round {
                    assert!(two.revoke(tokens[index]));
                    assert!(get(&mut one, &mut two, tokens[index], 0, &mut here).is_err());
                    continue;
                }
                get(&mut one, &mut two, tokens[index], 0, &mut here).expect("granted");
                assert!(here == there[index * 1000..][..1000], "{index} in {round}");
                assert!(get(&mut one, &mut two, tokens[index], 0, &mut here).is_err());
                assert!(!two.revoke(tokens[index]), "used up");
            }
        }
    }
}

/// What a rank granted ends with its endpoint: the memory is its owner's again.
#[test]
fn nothing_is_read_from_a_member_that_has_left() {
    let (mut one, mut two) = pair(&Options::default());
    let mut there = pattern(1, 100);
    let mut here = vec![0; 100];
    let granted = two.grant(lend(&mut there), None, Rights::Read, Uses::Many);
    let token = granted.expect("fits");
    drop(two);
    let read = one.get(Peer(1), token, 0, lend(&mut here), Operation(1));
    assert!(
        matches!(read, Err(FabricError::NotGranted { .. })),
        "{read:?}"
    );
    assert_eq!(here, [0; 100]);
}
