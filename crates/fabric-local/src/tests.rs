//! The conformance suite, and what is particular to a group of threads.

use super::*;
use weft_fabric::conformance::{Event, Inbox, boxed};

weft_fabric::conformance!(conforms, |count| boxed(Local::group(count)));

#[test]
fn who_has_left_is_lost_to_senders_but_what_it_sent_arrives() {
    let mut group = Local::group(2);
    let mut gone = group.pop().expect("two");
    let mut stays = group.pop().expect("one");
    assert_eq!(gone.try_send(Peer(0), &[7; 32], b"last"), Ok(Posted::Done));
    drop(gone);
    let refused = stays.try_send(Peer(1), &[0; 32], &[]);
    assert!(matches!(refused, Err(FabricError::PeerLost { peer, .. }) if peer == Peer(1)));
    let mut inbox = Inbox::default();
    assert_eq!(stays.poll(&mut inbox, 8), 1);
    let Event::Message { data, .. } = &inbox.events[0] else {
        panic!("{:?}", inbox.events);
    };
    assert_eq!(data, b"last");
}

#[test]
fn a_panic_is_told_to_all_others_after_its_last_message() {
    let mut group = Local::group(3);
    let mut gone = group.pop().expect("three");
    let thread = std::thread::spawn(move || {
        assert_eq!(gone.try_send(Peer(0), &[7; 32], b"last"), Ok(Posted::Done));
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(thread.join().is_err());
    for (rank, endpoint) in group.iter_mut().enumerate() {
        let mut inbox = Inbox::default();
        while endpoint.poll(&mut inbox, 1) > 0 {}
        assert_eq!(inbox.events.len(), 2 - rank);
        assert_eq!(inbox.events.last(), Some(&Event::Lost(Peer(2))));
    }
}

#[test]
fn whoever_waits_for_room_of_one_that_leaves_is_woken() {
    let mut group = Local::group(2);
    let leaves = group.pop().expect("two");
    let mut waits = group.pop().expect("one");
    while waits.try_send(Peer(1), &[0; 32], &[]) == Ok(Posted::Done) {}
    let bell = waits.bell();
    let ticket = bell.prepare();
    let thread = std::thread::spawn(move || drop(leaves));
    bell.wait(ticket, None);
    thread.join().expect("no panic");
    assert!(waits.try_send(Peer(1), &[0; 32], &[]).is_err());
}

#[test]
fn those_asleep_or_gone_are_not_counted_as_awake() {
    let mut group = Local::group(3);
    assert_eq!(group[0].bell().load().awake, 3);
    drop(group.pop());
    assert_eq!(group[0].bell().load().awake, 2);
}
