//! Counters and events of the engine against what the ranks do, on every fabric.

use std::sync::{Arc, Mutex};

use crate::common::{everywhere, over};
use weft_fabric::Region;
use weft_mpi::events::{Event, EventKind, Listener};
use weft_mpi::info::Info;
use weft_mpi::rma::{Allocation, Assertion, Ends, Flavor, TargetBuffer, Window};
use weft_mpi::{SendMode, Source, TagPattern, Target, coll};

#[test]
fn messages_are_counted_by_protocol_and_queues_follow() {
    everywhere(2, |process| {
        let world = process.world();
        let all = process.counters();
        let (mut small, mut large) = (vec![1; 100], vec![2; 1_000_000]);
        if world.rank() == 0 {
            for tag in 0..10 {
                let buffer = over(&mut small);
                world
                    .send(SendMode::Standard, buffer, Target::Rank(1), tag)
                    .unwrap();
            }
            world
                .send(SendMode::Synchronous, over(&mut small), Target::Rank(1), 10)
                .unwrap();
            world
                .send(SendMode::Standard, over(&mut large), Target::Rank(1), 11)
                .unwrap();
            let sent = |traffic: &weft_mpi::counters::Traffic| {
                (traffic.messages.get(), traffic.bytes.get())
            };
            assert_eq!(sent(all.eager()), (10, 1000));
            assert_eq!(sent(all.eager_synchronous()), (1, 100));
            assert_eq!(sent(all.rendezvous()), (1, 1_000_000));
            assert_eq!(all.sent_far.messages.get(), 0);
        } else {
            // The synchronous one first: all before it come before their receives.
            let from = Source::Rank(0);
            for tag in (0..11).rev() {
                world
                    .recv(over(&mut small), from, TagPattern::Exact(tag))
                    .unwrap();
                if tag == 10 {
                    assert_eq!(all.unexpected_now(), 10);
                    assert_eq!(all.unexpected_bytes_now(), 1000);
                }
            }
            world
                .recv(over(&mut large), from, TagPattern::Exact(11))
                .unwrap();
            assert_eq!(all.received(), 12);
            assert_eq!(all.bytes_received.get(), 1_001_100);
            assert_eq!(all.matched_posted() + all.matched_unexpected.get(), 12);
            assert_eq!(all.unexpected.messages.get(), all.matched_unexpected.get());
            assert_eq!((all.unexpected_now(), all.unexpected_bytes_now()), (0, 0));
            assert_eq!((all.posted_now(), all.pulls_now()), (0, 0));
            assert!(all.unexpected_most.get() >= 10);
            assert_eq!(all.pulls_begun.get(), 1);
        }
    });
}

#[test]
fn one_sided_operations_are_counted_by_their_path() {
    everywhere(2, |process| {
        let world = process.world();
        let all = process.counters();
        let mut memory = [0u8; 64];
        // SAFETY: the test keeps the memory until the window is freed.
        let memory = unsafe { Region::new(memory.as_mut_ptr(), memory.len()) };
        let mut before = 0;
        for (flavor, allocation) in [
            (Flavor::Allocate, Allocation::OfWeft(64)),
            (Flavor::Create, Allocation::OfProgram(memory)),
        ] {
            let info = Info::default();
            let window = Window::new(&world, flavor, allocation, 1, &info).unwrap();
            window.fence(Assertion::default()).unwrap();
            let bytes = crate::common::bytes();
            let target = TargetBuffer {
                rank: 1,
                displacement: 8,
                count: 8,
                datatype: &bytes,
            };
            let mut numbers = [7; 8];
            for _ in 0..if world.rank() == 0 { 4 } else { 0 } {
                let put = window.put(over(&mut numbers), &target, Ends::WithEpoch);
                let get = window.get(over(&mut numbers), &target, Ends::WithEpoch);
                put.and(get).unwrap();
            }
            window.fence(Assertion::default()).unwrap();
            let sent = all.one_sided_messages.get() + all.one_sided_portal.get() - before;
            before += sent;
            let direct = all.one_sided_direct.get();
            if world.rank() == 1 {
                assert_eq!((direct, sent), (0, 0));
            } else if flavor == Flavor::Allocate {
                let shared = window.shared_query(Some(1)).unwrap().is_some();
                assert_eq!((direct, sent), if shared { (8, 0) } else { (0, 8) });
            } else {
                assert_eq!(sent, 8, "{flavor:?}");
            }
            let refused = |window: &Window| window.put(over(&mut [0]), &target, Ends::WithEpoch);
            assert!(refused(&window).is_err(), "too short a buffer");
            assert_eq!(all.one_sided_direct.get(), direct);
            window.free().unwrap();
        }
    });
}

#[test]
fn receives_that_end_otherwise_are_counted_out() {
    everywhere(1, |process| {
        let world = process.world();
        let all = process.counters();
        let mut room = [0; 8];
        let waiting = world
            .irecv(over(&mut room), Source::Any, TagPattern::Any)
            .unwrap();
        assert_eq!((all.posted_now(), all.posted_most()), (1, 1));
        assert_eq!(world.waiting().receives, 1);
        process.cancel(waiting).unwrap();
        assert!(process.wait(waiting).unwrap().cancelled);
        assert_eq!((all.posted_now(), all.posted_most()), (0, 1));
        // A probe that takes a message, and one that is given up with its communicator.
        let other = world.dup().unwrap();
        for tag in 0..2 {
            let buffer = over(&mut room);
            other
                .send(SendMode::Standard, buffer, Target::Rank(0), tag)
                .unwrap();
        }
        let (message, _) = other.mprobe(Source::Any, TagPattern::Any).unwrap();
        let message = message.expect("not of MPI_PROC_NULL");
        // The other one has come, too.
        other.probe(Source::Any, TagPattern::Any).unwrap();
        assert_eq!(other.waiting().messages, 1);
        process.mrecv(message, over(&mut room)).unwrap();
        other.drop_messages();
        assert_eq!((all.unexpected_now(), all.unexpected_bytes_now()), (0, 0));
    });
}

#[test]
fn collectives_are_counted_by_name() {
    everywhere(3, |process| {
        let world = process.world();
        let members = coll::Members::of(&world);
        for _ in 0..4 {
            world.run(coll::barrier(&members).unwrap()).unwrap();
        }
        let all = process.counters();
        assert_eq!(all.collectives(0), 4);
        assert_eq!((all.collectives_begun.get(), all.collectives_now()), (4, 0));
        assert_eq!(world.collectives(), 4);
    });
}

/// Keeps what it hears.
#[derive(Default)]
struct Heard(Mutex<(Vec<Event>, u64)>);

impl Listener for Heard {
    fn now(&self) -> u64 {
        7
    }

    fn event(&self, event: &Event) {
        self.0.lock().unwrap().0.push(*event);
    }

    fn dropped(&self, _kinds: u32, count: u64) {
        self.0.lock().unwrap().1 += count;
    }
}

#[test]
fn events_are_told_in_order_and_only_those_that_were_asked_for() {
    everywhere(1, |process| {
        let world = process.world();
        let heard = Arc::new(Heard::default());
        let wanted = EventKind::Unexpected.bit() | EventKind::MatchedUnexpected.bit();
        process.listen(wanted, Arc::clone(&heard) as _, 100);
        let mut bytes = [0; 5];
        let mut exchange = |tag| {
            let (to, from) = (Target::Rank(0), Source::Rank(0));
            world
                .send(SendMode::Standard, over(&mut bytes), to, tag)
                .unwrap();
            world.probe(from, TagPattern::Exact(tag)).unwrap();
            world
                .recv(over(&mut bytes), from, TagPattern::Exact(tag))
                .unwrap();
        };
        exchange(3);
        let told = std::mem::take(&mut *heard.0.lock().unwrap());
        let kinds: Vec<EventKind> = told.0.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Unexpected, EventKind::MatchedUnexpected]);
        for event in told.0 {
            assert_eq!(
                (event.peer, event.tag, event.bytes, event.time),
                (0, 3, 5, 7)
            );
        }
        process.listen(wanted, Arc::clone(&heard) as _, 0);
        exchange(4);
        assert_eq!(heard.0.lock().unwrap().1, 2);
        process.listen(0, Arc::clone(&heard) as _, 100);
        exchange(5);
        assert!(heard.0.lock().unwrap().0.is_empty());
    });
}
