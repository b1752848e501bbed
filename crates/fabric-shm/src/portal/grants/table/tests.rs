use super::*;
use crate::portal::grants::{GrantUse, TransferError, enter, index_of, settle};
use crate::portal::method::Method;
use crate::{Options, Shm, Watch};
use std::io::Error;
use std::time::Duration;
use weft_atomic::AtomicBool;
use weft_atomic::admission::{Left, Visit};
use weft_fabric::{Deaf, Fabric};

/// An owner, rank 0 of `ranks`, which sees the others as processes of their own.
fn owner_of(ranks: u32) -> (Shm, Vec<Shm>) {
    let options = Options {
        patience: Duration::from_millis(20),
        ..Options::default()
    };
    let mut group = Shm::group_with(ranks, &options).expect("endpoints");
    let mut owner = group.remove(0);
    owner
        .portal_mut()
        .reach_all_by(Method::Attach(std::process::id()));
    (owner, group)
}

/// Enters the first 8 bytes of a grant of rank 0 and stays there, as a process that is stopped does.
fn stay(segment: &Segment, user: u32, token: Token, access: Access) -> Option<Visit<'_>> {
    let index = index_of(token)?;
    let asked = GrantUse {
        owner: Peer(0),
        token,
        access,
        user: Peer(user),
        offset: 0,
        length: 8,
    };
    let presence = &segment.control(user).origin.presence;
    let entered = enter(segment.grant(0, index)?, presence, asked);
    entered.ok().map(|(visit, _)| visit)
}

fn grant(owner: &mut Shm, memory: &mut [u8], to: Option<u32>, uses: Uses) -> Token {
    // SAFETY: nobody touches the memory here.
    let region = unsafe { Region::new(memory.as_mut_ptr(), memory.len()) };
    owner
        .grant(region, to.map(Peer), Rights::ReadWrite, uses)
        .expect("fits")
}

/// Whether revoking is still under way after a while, when `leave` lets the user out.
fn revokes_only_after(owner: &mut Shm, token: Token, leave: impl FnOnce()) {
    let returned = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            owner.revoke(token);
            returned.store(true, Ordering::SeqCst);
        });
        // Several times its patience.
        std::thread::sleep(Duration::from_millis(100));
        assert!(!returned.load(Ordering::SeqCst), "it has not waited");
        leave();
    });
    assert!(returned.load(Ordering::SeqCst));
}

#[test]
fn a_living_writer_is_waited_for_though_others_are_lost_and_beyond_patience() {
    let (mut owner, _others) = owner_of(3);
    let segment = owner.members().segment().clone();
    let mut memory = vec![0; 8];
    let token = grant(&mut owner, &mut memory, None, Uses::Many);
    let visit = stay(&segment, 1, token, Access::Write).expect("granted");
    // Rank 2 is lost, by what it wrote and by the word of the launcher.
    owner.lose(Peer(2), "for the test", &mut Deaf);
    let watch = Watch::over(segment.clone());
    watch.tell_of_death(2, 9);
    // Lost is not dead: rank 1 may still be at it.
    owner.lose(Peer(1), "it wrote nonsense", &mut Deaf);
    revokes_only_after(&mut owner, token, || assert_eq!(visit.leave(), Left::Valid));
}

#[test]
fn a_reader_of_the_same_process_is_waited_for_beyond_patience() {
    let (mut owner, _others) = owner_of(2);
    owner.portal_mut().reach_all_by(Method::Copy);
    let segment = owner.members().segment().clone();
    let mut memory = vec![0; 8];
    let token = grant(&mut owner, &mut memory, Some(1), Uses::Once);
    let visit = stay(&segment, 1, token, Access::Read).expect("granted");
    revokes_only_after(&mut owner, token, || assert_eq!(visit.leave(), Left::Valid));
}

#[test]
fn a_reader_that_outstays_patience_is_told_and_harms_no_later_grant() {
    let (mut owner, _others) = owner_of(3);
    let segment = owner.members().segment().clone();
    let mut memory = vec![0; 8];
    for uses in [Uses::Once, Uses::Many] {
        let token = grant(&mut owner, &mut memory, None, uses);
        let visit = stay(&segment, 1, token, Access::Read).expect("granted");
        assert_eq!(owner.revoke(token), uses == Uses::Many);
        assert!(!owner.revoke(token), "it is no more");
        assert!(stay(&segment, 2, token, Access::Read).is_none());
        // The record stays aside as long as somebody is in it.
        let later: Vec<Token> = (0..100)
            .map(|_| grant(&mut owner, &mut memory, None, Uses::Many))
            .collect();
        let index = |token: &Token| index_of(*token);
        assert!(later.iter().all(|other| index(other) != index(&token)));
        let refused = settle(Peer(0), visit, Ok(()));
        assert!(
            matches!(
                refused,
                Err(TransferError::Refused(FabricError::NotGranted {
                    peer: Peer(0)
                }))
            ),
            "what it has read is void"
        );
        // Then it comes back, and nothing of the late one is left in it.
        let mut last = token;
        for _ in 0..100 {
            last = grant(&mut owner, &mut memory, None, Uses::Many);
            if index(&last) == index(&token) {
                break;
            }
        }
        assert_eq!(index(&last), index(&token));
        let visit = stay(&segment, 2, last, Access::Write).expect("granted");
        assert_eq!(visit.leave(), Left::Valid);
        assert!(later.into_iter().all(|token| owner.revoke(token)));
        owner.revoke(last);
    }
}

#[test]
fn the_dead_are_not_waited_for_and_leave_a_sound_record() {
    let (mut owner, _others) = owner_of(4);
    let segment = owner.members().segment().clone();
    let watch = Watch::over(segment.clone());
    let mut memory = vec![0; 8];
    for uses in [Uses::Many, Uses::Once] {
        let token = grant(&mut owner, &mut memory, None, uses);
        let dead = stay(&segment, 2, token, Access::Write);
        assert!(dead.is_some(), "granted; it never leaves");
        watch.tell_of_death(2, 9);
        // Its word is there before anybody has heard of it.
        owner.revoke(token);
        let next = grant(&mut owner, &mut memory, None, Uses::Many);
        assert_eq!(index_of(next), index_of(token), "the record is used again");
        let visit = stay(&segment, 3, next, Access::Write).expect("granted");
        assert_eq!(visit.leave(), Left::Valid);
        assert!(owner.revoke(next));
    }
}

#[test]
fn what_is_given_back_after_it_was_revoked_stays_closed() {
    let (mut owner, _others) = owner_of(3);
    let segment = owner.members().segment().clone();
    let mut memory = vec![0; 8];
    let token = grant(&mut owner, &mut memory, None, Uses::Once);
    let visit = stay(&segment, 1, token, Access::Write).expect("granted");
    revokes_only_after(&mut owner, token, || {
        let settled = settle(Peer(0), visit, Err(Error::from_raw_os_error(1)));
        assert!(matches!(settled, Err(TransferError::Unable(_))));
    });
    assert!(stay(&segment, 2, token, Access::Read).is_none());
}

#[test]
fn generations_are_used_once_each_and_the_highest_bit_never() {
    let (mut owner, _others) = owner_of(2);
    let mut memory = vec![0; 8];
    let first = grant(&mut owner, &mut memory, None, Uses::Many);
    assert!(owner.revoke(first));
    owner.portal_mut().grants_mut().grants[0].generation = LAST - 1;
    let last = grant(&mut owner, &mut memory, None, Uses::Many);
    assert_eq!(split_token(last), (0, LAST, false));
    assert_eq!(last.0 >> 63, 0);
    assert!(owner.revoke(last));
    let other = grant(&mut owner, &mut memory, None, Uses::Many);
    assert_eq!(split_token(other), (1, 1, false), "that index is used up");
}
