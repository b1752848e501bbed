//! The conformance suite, and what is particular to a group of threads.

mod broken;

use super::*;
use weft_fabric::conformance::{Event, InChannel, Inbox, Scene, Wrapped, boxed};
use weft_fabric::fault::{FaultInjector, FaultPlan};
use weft_fabric::trace::{self, Log, Traced};

fn group(count: usize) -> Vec<Box<dyn Fabric>> {
    boxed(Local::group(count))
}

fn faulty(inner: Box<dyn Fabric>) -> Box<dyn Fabric> {
    Box::new(FaultInjector::new(inner, FaultPlan::new(1)))
}

fn traced(inner: Box<dyn Fabric>) -> Box<dyn Fabric> {
    Box::new(Traced::new(inner, Log::new(100)))
}

weft_fabric::conformance!(conforms, group);
weft_fabric::conformance!(conforms_beside_channels, |count| boxed(
    Local::group_with_channels(count, 2)
));
weft_fabric::conformance!(conforms_in_another_channel, |count| InChannel::of(
    boxed(Local::group_with_channels(count, 3)),
    2
));
weft_fabric::conformance!(
    conforms_with_faults,
    Wrapped {
        inner: group,
        wrap: faulty
    }
);
weft_fabric::conformance!(
    conforms_when_traced,
    Wrapped {
        inner: group,
        wrap: traced
    }
);

#[test]
fn a_trace_tells_what_happened_in_order() {
    let log = Log::new(4);
    let wrap = |inner| Box::new(Traced::new(inner, log.clone())) as Box<dyn Fabric>;
    let inner = group;
    let mut scene = Scene::new(&Wrapped { inner, wrap }, 2);
    for number in 0..3 {
        scene.send(0, 1, number, 40);
    }
    scene.signal(0, 1, SyncKey(7));
    scene.until("the signal", |scene| {
        scene.endpoints[1].signals(Peer(0), SyncKey(7)) == 1
    });
    let events: Vec<_> = log
        .records()
        .into_iter()
        .map(|record| record.event)
        .collect();
    let (from, bytes, key) = (Peer(0), 40, SyncKey(7));
    let message = trace::Event::MessageReceived { from, bytes };
    let signalled = trace::Event::SignalReceived { from, key };
    assert_eq!(
        events,
        [message.clone(), message.clone(), message, signalled]
    );
    assert_eq!(log.dropped(), 4, "three sends and a signal were before");
    let text = log.to_string();
    assert!(
        text.starts_with("(4 earlier entries were dropped)"),
        "{text}"
    );
    assert!(text.contains("rank 1  message from 0, 40 bytes"), "{text}");
}

#[test]
fn faults_refuse_and_skip_as_often_as_said() {
    let plan = FaultPlan {
        seed: 3,
        refuse: 500,
        skip: 500,
    };
    let mut fabric = FaultInjector::new(Local::group(1).remove(0), plan);
    let mut refused = 0;
    for _ in 0..400 {
        refused += u32::from(fabric.signal(Peer(0), SyncKey(1)) == Ok(Posted::Retry));
        let mut inbox = Inbox::default();
        fabric.poll(&mut inbox, 8);
    }
    assert!((120..280).contains(&refused), "{refused}");
}

#[test]
fn a_member_that_has_left_is_lost_to_senders_but_its_messages_arrive() {
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
fn a_sender_that_waits_for_room_is_woken_when_the_receiver_leaves() {
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
