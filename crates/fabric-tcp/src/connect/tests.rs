use std::sync::{Arc, Mutex};

use super::Connector;
use crate::endpoint::Tcp;
use crate::union::Remote;
use crate::{Card, Config, Directory, Listen, Opening};
use weft_fabric::conformance::Inbox;
use weft_fabric::{
    Fabric, HEAD, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey,
};

fn unauthenticated(of: &Tcp) -> usize {
    of.connector()
        .handshakes
        .candidates()
        .unauthenticated(false)
}

/// A peer that never answers is given up when it is abandoned, and can be reached later. A peer that was
/// reached stays.
#[test]
fn who_was_never_reached_is_not_waited_for_when_it_is_abandoned() {
    let mut group = Tcp::group(3, |_| ()).expect("loopback is there");
    let mut sinks = [Inbox::default(), Inbox::default(), Inbox::default()];
    for to in [0, 2] {
        let sent = group[1].try_send(Peer(to), &[7; HEAD], &[]);
        assert_eq!(sent, Ok(Posted::Done));
    }
    // Rank 2 makes no call.
    while sinks[0].messages() == 0 {
        for index in [0, 1] {
            group[index].poll(&mut sinks[index], 16);
        }
    }
    assert!(!group[1].is_flushed());
    assert_eq!(
        group[1].try_send(Peer(0), &[8; HEAD], &[]),
        Ok(Posted::Done)
    );
    group[1].abandon_unreached();
    while !group[1].is_flushed() {
        group[1].poll(&mut sinks[1], 16);
    }
    assert!(!group[1].connector().is_unsettled() && group[1].inspect(2).is_none());
    while sinks[0].messages() < 2 {
        group[0].poll(&mut sinks[0], 16);
    }
    let sent = group[1].try_send(Peer(2), &[9; HEAD], &[]);
    assert_eq!(sent, Ok(Posted::Done));
    while sinks[2].messages() == 0 {
        for (one, sink) in group.iter_mut().zip(&mut sinks) {
            one.poll(sink, 16);
        }
    }
    assert_eq!(sinks[2].messages(), 1, "what was given up does not come");
}

/// A thread that waits for something that is over would wake up for ever, for nothing.
#[test]
fn nothing_is_due_when_all_are_reached_or_lost() {
    let mut group = Tcp::group(3, |_| ()).expect("loopback is there");
    let mut sinks = [Inbox::default(), Inbox::default(), Inbox::default()];
    // Once the lower rank is only called, once it calls.
    for (from, to) in [(2, 0), (1, 2)] {
        let sent = group[from].try_send(Peer(to), &[7; HEAD], &[]);
        assert_eq!(sent, Ok(Posted::Done));
    }
    while sinks[0].messages() == 0 || sinks[2].messages() == 0 {
        for (one, sink) in group.iter_mut().zip(&mut sinks) {
            one.poll(sink, 16);
        }
    }
    let due = |one: &Tcp| one.connector().due;
    while group.iter().any(|one| one.connector().is_unsettled()) {
        for (one, sink) in group.iter_mut().zip(&mut sinks) {
            one.poll(sink, 16);
        }
    }
    assert_eq!(group.iter().map(due).collect::<Vec<_>>(), [u64::MAX; 3]);
    group.pop().expect("three").die();
    while !sinks[..2].iter().all(|sink| sink.has_lost(Peer(2))) {
        for (one, sink) in group.iter_mut().zip(&mut sinks) {
            one.poll(sink, 16);
        }
    }
    assert_eq!(group.iter().map(due).collect::<Vec<_>>(), [u64::MAX; 2]);
}

/// The proof arrives between this rank's answer and its next read, if it lost its core there, before it watches the
/// connection.
#[test]
fn who_proves_the_key_before_it_is_watched_stays() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut pair = Tcp::group(2, |_| ()).expect("loopback is there");
        let mut called = pair.remove(to);
        let mut caller = pair.remove(0);
        let mut sinks = [Inbox::default(), Inbox::default()];
        let sent = caller.try_send(Peer(to as u32), &[7; HEAD], &[]);
        assert_eq!(sent, Ok(Posted::Done));
        let (connector, peers) = called.parts();
        let (socket, source) = loop {
            caller.poll(&mut sinks[0], 16);
            if let Ok(came) = connector.handshakes.accept(&connector.network, 0) {
                break came;
            }
        };
        let number = (connector.handshakes).admit(&connector.network, socket, source);
        let unproved = |connector: &Connector<_>| {
            let candidates = connector.handshakes.candidates();
            candidates.unauthenticated(false) + candidates.unauthenticated(true) > 0
        };
        assert!(unproved(connector));
        while unproved(connector) {
            connector.attend(number, peers);
            caller.poll(&mut sinks[0], 16);
        }
        connector.handshakes.watch_admitted(number);
        while sinks[1].messages() == 0 || caller.connector().is_unsettled() {
            caller.poll(&mut sinks[0], 16);
            called.poll(&mut sinks[1], 16);
        }
        let generation = caller.inspect(to).map(|session| session.generation);
        assert_eq!(generation, Some(1), "the first call of {from} was dropped");
    }
}

/// A stranger that connects and says nothing must not turn each look of the job into a full look.
#[test]
fn an_unauthenticated_connection_is_not_expected_and_a_peer_is() {
    let mut pair = Tcp::group(2, |_| ()).expect("loopback is there");
    let mut sinks = [Inbox::default(), Inbox::default()];
    let address = pair[1].offers()[0].address;
    let intruder = std::net::TcpStream::connect(address).expect("rank 1 listens");
    let listener = &mut pair[1];
    while listener.connector().is_quiet() {
        listener.poll(&mut sinks[1], 16);
    }
    assert!(!listener.connector().handshakes.candidates().has_expected());
    assert_eq!(unauthenticated(listener), 1);
    assert!(!listener.is_busy());
    let sent = pair[0].try_send(Peer(1), &[7; HEAD], &[]);
    assert_eq!(sent, Ok(Posted::Done));
    assert!(
        pair[0].connector().handshakes.candidates().has_expected(),
        "a call is under way"
    );
    while sinks[1].messages() == 0 {
        for (one, sink) in pair.iter_mut().zip(&mut sinks) {
            one.poll(sink, 16);
        }
    }
    // The call has become the connection; the intruder is still connected, and is counted when it goes.
    let listener = &mut pair[1];
    assert!(!listener.connector().handshakes.candidates().has_expected());
    assert_eq!(unauthenticated(listener), 1);
    drop(intruder);
    while !listener.connector().is_quiet() {
        listener.poll(&mut sinks[1], 16);
    }
    assert_eq!(listener.refusals().all(), 1);
}

/// How member 1 has ended, once that is told.
#[derive(Clone, Default)]
struct Cause(Arc<Mutex<Option<String>>>);

impl Directory for Cause {
    fn version(&self) -> u32 {
        u32::from(self.loss(1, 0).is_some())
    }

    fn incarnation(&self, _: u32) -> u32 {
        0
    }

    fn card(&self, _: u32) -> Option<Card> {
        None
    }

    fn loss(&self, peer: u32, _: u32) -> Option<String> {
        let told = self.0.lock().expect("no panic").clone();
        told.filter(|_| peer == 1)
    }

    fn has_left(&self, _: u32, _: u32) -> bool {
        false
    }

    fn tells_ends(&self) -> bool {
        true
    }

    fn is_here(&self, _: u32) -> bool {
        false
    }
}

/// Whether a message has come, and the reasons of losses.
#[derive(Default)]
struct Heard {
    came: bool,
    reasons: Vec<String>,
}

impl Sink for Heard {
    fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {
        self.came = true;
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, reason: &str) {
        self.reasons.push(reason.to_owned());
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

/// That a process has ended shows in its connection before its launcher tells how.
#[test]
fn the_reason_of_a_loss_is_what_the_launcher_tells() {
    let key = weft_secure::Key::random().expect("random bytes");
    let opening = |rank| {
        let mut config = Config::new(rank, 2, key.clone());
        config.listen = Listen::Loopback;
        Opening::new(config).expect("loopback is there")
    };
    let openings = [opening(0), opening(1)];
    let cards: Vec<_> = openings.iter().map(|one| one.card().clone()).collect();
    let cause = Cause::default();
    let [mut one, mut other] = openings.map(|opening| {
        let directory = Box::new(cause.clone());
        let joined = opening.join_growing(cards.clone(), Some(directory));
        joined.expect("joins")
    });
    let (mut heard, mut inbox) = (Heard::default(), Inbox::default());
    assert_eq!(other.try_send(Peer(0), &[7; HEAD], &[]), Ok(Posted::Done));
    while !heard.came || one.connector().is_unsettled() {
        one.poll(&mut heard, 16);
        other.poll(&mut inbox, 16);
    }
    other.die();
    let refused = |one: &Tcp| {
        let dial = one.connector().dials.get(1);
        dial.is_some_and(|dial| dial.failure(0).is_some())
    };
    while !refused(&one) && heard.reasons.is_empty() {
        one.poll(&mut heard, 16);
    }
    assert_eq!(heard.reasons, [""; 0], "nobody has told how it ended");
    *cause.0.lock().expect("no panic") = Some("it was struck by lightning".into());
    while heard.reasons.is_empty() {
        one.poll(&mut heard, 16);
    }
    assert_eq!(heard.reasons, ["it was struck by lightning"]);
}
