//! Deaths by hand: what a rank leaves behind that is killed between two stores is put there by the test. The others go
//! on once they are told. `deaths` looks for such states by itself.

use std::sync::Arc;

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::{Fabric, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey};
use weft_sys::Mapping;

use crate::endpoint::Shm;
use crate::segment::Segment;
use crate::{Options, Watch, initialise, segment_size};

/// A job whose ranks are endpoints of this test, and the launcher's view of it.
fn job(ranks: u32) -> (Watch, Vec<Shm>) {
    let mapping = Mapping::private(segment_size(ranks).expect("fits")).expect("maps");
    initialise(&mapping, ranks, 2).expect("the right size");
    let segment = Segment::open(mapping).expect("initialised");
    let endpoints = (0..ranks)
        .map(|rank| Shm::join(segment.clone(), rank, &Options::default()).expect("joins"))
        .collect();
    (Watch::over(segment), endpoints)
}

/// Kills the last rank: its process does not leave in order, and is fetched.
fn kill_last(watch: &Watch, endpoints: &mut Vec<Shm>) {
    std::mem::forget(endpoints.pop());
    watch.tell_of_death(endpoints.len() as u32, 9);
}

#[derive(Default)]
struct Heard(Vec<String>);

impl Sink for Heard {
    fn message(&mut self, from: Peer, head: &Head, _: SharedBytes<'_>) {
        self.0.push(format!("{} of {from}", head[0]));
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, peer: Peer, _: &str) {
        self.0.push(format!("lost {peer}"));
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

fn poll(endpoint: &mut Shm) -> Vec<String> {
    let mut heard = Heard::default();
    while endpoint.poll(&mut heard, 32) > 0 {}
    heard.0
}

/// Takes the announcement of whoever sleeps at the bell of `rank`, as a ringer does before it wakes.
fn claim_the_ring(segment: &Arc<Segment>, rank: u32) {
    let doorbell = &raw const segment.control(rank).doorbell;
    // SAFETY: a doorbell is its word and then its state, both atomics in the test's segment.
    let state = unsafe { &*doorbell.cast::<AtomicU32>().add(1) };
    assert_eq!(
        state.fetch_and(!1, Ordering::AcqRel) & 1,
        1,
        "somebody sleeps"
    );
}

#[test]
fn no_member_misses_messages_because_a_summary_was_not_marked() {
    let (watch, mut ranks) = job(3);
    // Rank 2 adds its lane to the pending ones of rank 0 and is killed before it marks the summary.
    watch.segment.control(0).pending_words[0].fetch_or(1 << 2, Ordering::AcqRel);
    let sent = ranks[1].try_send(Peer(0), &[7; 32], &[]);
    assert_eq!(sent, Ok(Posted::Done));
    kill_last(&watch, &mut ranks);
    let mut heard = poll(&mut ranks[0]);
    heard.sort();
    assert_eq!(heard, ["7 of 1", "lost 2"]);
}

#[test]
fn a_member_whose_wake_up_died_with_its_sender_does_not_sleep_on() {
    let (watch, mut ranks) = job(2);
    let ticket = ranks[0].bell().prepare();
    // Rank 1 takes the announcement and is killed before it rings.
    claim_the_ring(&watch.segment, 0);
    kill_last(&watch, &mut ranks);
    // Whoever holds the ticket sleeps while the word has not changed: see `weft_atomic::doorbell`.
    assert_ne!(
        ranks[0].bell().prepare(),
        ticket,
        "it was rung all the same"
    );
    assert_eq!(poll(&mut ranks[0]), ["lost 1"]);
}

#[test]
fn no_member_sleeps_through_an_abort_whose_wake_up_was_lost() {
    let (watch, mut ranks) = job(3);
    let ticket = ranks[0].bell().prepare();
    claim_the_ring(&watch.segment, 0);
    ranks[1].abort(3);
    assert_ne!(
        ranks[0].bell().prepare(),
        ticket,
        "it was rung all the same"
    );
    assert_eq!(poll(&mut ranks[0]), ["lost 1"]);
}

#[test]
fn the_dead_are_not_counted_as_awake() {
    let (watch, mut ranks) = job(2);
    // An announcement that stands, as after each sleep that was called off.
    let _ = ranks[1].bell().prepare();
    kill_last(&watch, &mut ranks);
    assert_eq!(watch.awake(), 1, "nor by the ring that tells of the death");
    // Somebody rings it once more who has not heard of it yet.
    let _ = ranks[0].try_send(Peer(1), &[0; 32], &[]);
    assert_eq!(watch.awake(), 1);
}

#[test]
fn a_process_killed_while_it_wakes_another_does_not_spoil_the_count() {
    let (watch, mut ranks) = job(3);
    let sleeper = ranks[0].bell();
    let asleep = std::thread::spawn(move || {
        let ticket = sleeper.prepare();
        sleeper.wait(ticket, None);
    });
    while watch.awake() != 2 {
        std::thread::yield_now();
    }
    claim_the_ring(&watch.segment, 0);
    kill_last(&watch, &mut ranks);
    asleep.join().expect("it is woken");
    assert_eq!(watch.awake(), 2);
}
