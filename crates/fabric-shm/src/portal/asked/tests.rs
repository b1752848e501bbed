//! Asked gets between two endpoints that attach to their own process: the owner polls, or does not, or only for a while.

use weft_fabric::{Fabric, FabricError, Head, Operation, Rights, SyncKey, Uses};

use super::super::method::Method;
use super::*;
use crate::{Options, Shm};

const LENGTH: usize = 1 << 20;

#[derive(Default)]
struct Heard {
    ended: Vec<(Operation, Result<()>)>,
    lost: usize,
}

impl Sink for Heard {
    fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.ended.push((operation, result));
    }
    fn lost(&mut self, _: Peer, _: &str) {
        self.lost += 1;
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

/// An origin, the owner of some memory, and what each hears.
struct Pair {
    origin: Shm,
    owner: Shm,
    heard: Heard,
    owner_heard: Heard,
    source: Vec<u8>,
    target: Vec<u8>,
}

impl Pair {
    fn new(assist: Use) -> Self {
        let options = Options {
            assist,
            ..Options::default()
        };
        let mut group = Shm::group_with(2, &options).expect("two endpoints");
        let (mut origin, owner) = (group.remove(0), group.remove(0));
        let process = std::process::id();
        origin.portal_mut().reach_all_by(Method::Attach(process));
        Self {
            origin,
            owner,
            heard: Heard::default(),
            owner_heard: Heard::default(),
            source: (0..LENGTH).map(|at| (at / 7) as u8).collect(),
            target: vec![0; LENGTH],
        }
    }

    fn grant(&mut self, uses: Uses) -> Token {
        // SAFETY: the pair outlives its endpoints' use of the region, and reads it only.
        let region = unsafe { Region::new(self.source.as_mut_ptr(), LENGTH) };
        let granted = self.owner.grant(region, None, Rights::Read, uses);
        granted.expect("a grant")
    }

    fn get(&mut self, token: Token) -> Result<Posted> {
        // SAFETY: as above; the target is read only when nothing is under way.
        let region = unsafe { Region::new(self.target.as_mut_ptr(), LENGTH) };
        self.origin.get(Peer(1), token, 0, region, Operation(7))
    }

    fn poll_origin(&mut self) {
        self.origin.poll(&mut self.heard, 8);
    }

    fn poll_owner(&mut self) {
        self.owner.poll(&mut self.owner_heard, 8);
    }

    /// Polls until the get has ended; answers how many polls that took.
    fn end(&mut self, owner_polls: bool) -> (u32, Result<()>) {
        for polls in 0..10 * QUIET {
            if let Some((operation, result)) = self.heard.ended.pop() {
                assert_eq!(operation, Operation(7));
                return (polls, result);
            }
            if owner_polls {
                self.poll_owner();
            }
            self.poll_origin();
        }
        panic!("it does not end");
    }
}

#[test]
fn an_owner_that_polls_sends_everything() {
    for uses in [Uses::Once, Uses::Many] {
        let mut pair = Pair::new(Use::On);
        let token = pair.grant(uses);
        assert_eq!(pair.get(token), Ok(Posted::Pending));
        let (polls, result) = pair.end(true);
        assert_eq!(result, Ok(()));
        assert!(polls < QUIET, "nothing was fetched");
        assert!(pair.target == pair.source);
        assert_eq!(pair.get(token), Ok(Posted::Pending));
        let (_, again) = pair.end(true);
        match uses {
            Uses::Once => assert_eq!(again, Err(FabricError::NotGranted { peer: Peer(1) })),
            Uses::Many => assert_eq!(again, Ok(())),
        }
        assert_eq!(pair.heard.lost + pair.owner_heard.lost, 0);
    }
}

#[test]
fn what_the_owner_of_does_not_poll_is_fetched_and_not_asked_for_the_next_time() {
    let mut pair = Pair::new(Use::Auto);
    let token = pair.grant(Uses::Many);
    assert_eq!(pair.get(token), Ok(Posted::Pending));
    let (polls, result) = pair.end(false);
    assert_eq!(result, Ok(()));
    assert!(polls >= QUIET && pair.target == pair.source);
    for _ in 0..DECLINED {
        pair.target.fill(0);
        assert_eq!(pair.get(token), Ok(Posted::Done));
        assert!(pair.target == pair.source);
    }
    assert_eq!(pair.get(token), Ok(Posted::Pending), "it may be back");
    assert_eq!(pair.end(true).1, Ok(()));
    assert_eq!(pair.get(token), Ok(Posted::Pending), "it is");
    assert_eq!(pair.end(true).1, Ok(()));
}

#[test]
fn an_owner_that_goes_away_in_the_middle_does_not_delay_the_rest_and_what_it_sends_later_is_dropped()
 {
    let mut pair = Pair::new(Use::On);
    let token = pair.grant(Uses::Many);
    assert_eq!(pair.get(token), Ok(Posted::Pending));
    pair.poll_owner();
    pair.poll_owner();
    pair.poll_origin();
    assert_ne!(pair.target[0..100], [0; 100], "some of it has come");
    assert_eq!(pair.target[LENGTH - 1], 0, "but not all");
    let (polls, result) = pair.end(false);
    assert_eq!(result, Ok(()));
    assert!(polls >= QUIET && pair.target == pair.source);
    pair.target.fill(255);
    for _ in 0..100 {
        pair.poll_owner();
        pair.poll_origin();
    }
    assert!(pair.target.iter().all(|byte| *byte == 255));
    assert_eq!(pair.heard.lost + pair.owner_heard.lost, 0);
    assert!(!pair.origin.portal_mut().has_work() && !pair.owner.portal_mut().has_work());
}

#[test]
fn a_grant_that_is_used_up_or_revoked_is_sent_no_more() {
    let mut pair = Pair::new(Use::On);
    let token = pair.grant(Uses::Once);
    assert_eq!(pair.get(token), Ok(Posted::Pending));
    pair.poll_owner();
    pair.poll_owner();
    let (_, result) = pair.end(false);
    assert_eq!(result, Ok(()));
    pair.poll_owner();
    assert!(!pair.owner.portal_mut().has_work(), "it is used up");

    let token = pair.grant(Uses::Many);
    assert_eq!(pair.get(token), Ok(Posted::Pending));
    pair.poll_owner();
    assert!(pair.owner.revoke(token));
    pair.poll_owner();
    assert!(!pair.owner.portal_mut().has_work(), "it is revoked");
    let (_, result) = pair.end(true);
    assert_eq!(result, Err(FabricError::NotGranted { peer: Peer(1) }));
}

#[test]
fn a_get_from_an_owner_that_is_lost_ends() {
    let mut pair = Pair::new(Use::On);
    let token = pair.grant(Uses::Once);
    assert_eq!(pair.get(token), Ok(Posted::Pending));
    pair.poll_owner();
    pair.origin.lose(Peer(1), "it has died", &mut pair.heard);
    let (_, result) = pair.end(false);
    assert!(
        matches!(result, Err(FabricError::PeerLost { .. })),
        "{result:?}"
    );
    assert!(!pair.origin.portal_mut().has_work());
}

#[test]
fn more_than_are_remembered_are_fetched() {
    let mut pair = Pair::new(Use::On);
    let token = pair.grant(Uses::Many);
    let gets = MOST + 5;
    for _ in 0..gets {
        assert_eq!(pair.get(token), Ok(Posted::Pending));
    }
    for _ in 0..gets {
        assert_eq!(pair.end(true).1, Ok(()));
    }
    assert!(pair.heard.ended.is_empty() && pair.target == pair.source);
    assert_eq!(pair.heard.lost + pair.owner_heard.lost, 0);
}

/// A pair whose get the kernel has refused to carry out, while the lane to the owner is full.
fn refused_pair() -> Pair {
    let mut pair = Pair::new(Use::On);
    let nobody = i32::MAX.cast_unsigned();
    pair.origin
        .portal_mut()
        .reach_all_by(Method::Attach(nobody));
    let token = pair.grant(Uses::Once);
    assert_eq!(pair.get(token), Ok(Posted::Pending));
    while pair.origin.try_send(Peer(1), &Head::default(), &[]) != Ok(Posted::Retry) {}
    for _ in 0..2 * QUIET {
        pair.poll_origin();
    }
    assert!(pair.heard.ended.is_empty(), "{:?}", pair.heard.ended);
    assert!(pair.origin.portal_mut().has_work());
    pair
}

#[test]
fn what_the_kernel_refuses_to_fetch_is_requested_when_the_lane_has_room() {
    let mut pair = refused_pair();
    assert_eq!(pair.end(true).1, Ok(()));
    assert!(pair.target == pair.source);
}

#[test]
fn what_the_kernel_refuses_to_fetch_ends_with_its_owner() {
    let mut pair = refused_pair();
    pair.origin.lose(Peer(1), "it has died", &mut pair.heard);
    let (_, result) = pair.end(false);
    assert!(
        matches!(result, Err(FabricError::PeerLost { .. })),
        "{result:?}"
    );
    assert!(!pair.origin.portal_mut().has_work());
}
