//! Models of the ring: its code under every interleaving that loom finds.

use super::ring::heap;
use super::*;
use weft_atomic::{Arc, AtomicU32, Ordering};

fn number(offset: u32) -> Descriptor {
    Descriptor::empty(offset)
}

#[test]
fn descriptors_arrive_once_and_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer, _ring) = heap(2, 2);
        let sender = loom::thread::spawn(move || {
            let mut sent = 0;
            for item in 0..3 {
                if producer.push(number(item)).is_err() {
                    break;
                }
                let _ = producer.publish();
                sent += 1;
            }
            sent
        });
        let mut seen = 0;
        for _ in 0..3 {
            if let Some(found) = consumer.pop() {
                assert_eq!(found, number(seen));
                seen += 1;
                consumer.release();
            }
        }
        let sent = sender.join().unwrap();
        while let Some(found) = consumer.pop() {
            assert_eq!(found, number(seen));
            seen += 1;
        }
        assert_eq!(seen, sent);
        assert_eq!(consumer.faults(), 0);
    });
}

#[test]
fn the_contents_of_a_buffer_are_seen_with_its_descriptor() {
    loom::model(|| {
        let (mut producer, mut consumer, _ring) = heap(2, 2);
        let buffer = Arc::new(weft_atomic::UnsafeCell::new(0));
        let theirs = buffer.clone();
        let sender = loom::thread::spawn(move || {
            // SAFETY: ours until it is published. (loom checks exactly this.)
            theirs.with_mut(|place| unsafe { *place = 5 });
            producer.push(number(0)).unwrap();
            let _ = producer.publish();
        });
        if consumer.pop().is_some() {
            // SAFETY: its descriptor came to us.
            buffer.with(|place| assert_eq!(unsafe { *place }, 5));
        }
        sender.join().unwrap();
    });
}

/// An event as the kernel's: it remembers one notification. loom reports a deadlock if nobody notifies.
struct Event(loom::sync::Mutex<bool>, loom::sync::Condvar);

impl Event {
    fn notify(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }
    fn wait(&self) {
        let mut notified = self.0.lock().unwrap();
        while !*notified {
            notified = self.1.wait(notified).unwrap();
        }
        *notified = false;
    }
}

fn sleeper_and_ringer(publish: fn(&mut Producer) -> bool) {
    let (mut producer, mut consumer, _ring) = heap(2, 2);
    let event = Arc::new(Event(
        loom::sync::Mutex::new(false),
        loom::sync::Condvar::new(),
    ));
    let theirs = event.clone();
    let sender = loom::thread::spawn(move || {
        for item in 0..2 {
            producer.push(number(item)).unwrap();
            if publish(&mut producer) {
                theirs.notify();
            }
        }
    });
    let mut seen = 0;
    while seen < 2 {
        while consumer.pop().is_some() {
            seen += 1;
        }
        consumer.release();
        if seen < 2 && !consumer.announce() {
            event.wait();
        }
    }
    sender.join().unwrap();
}

#[test]
fn no_wake_up_is_lost() {
    loom::model(|| sleeper_and_ringer(Producer::publish));
}

/// The model can fail: without the producer's fence a wake-up is lost, and loom reports it.
#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_a_wake_up_is_lost() {
    loom::model(|| sleeper_and_ringer(Producer::publish_without_fence));
}

/// A consumer's release and a producer that looks for room: a slot is not written before it is read.
#[test]
fn a_slot_is_read_before_it_is_written_again() {
    loom::model(|| {
        let (mut producer, mut consumer, _ring) = heap(1, 1);
        let looked = Arc::new(AtomicU32::new(0));
        let theirs = looked.clone();
        let sender = loom::thread::spawn(move || {
            producer.push(number(1)).unwrap();
            let _ = producer.publish();
            if producer.push(number(2)).is_ok() {
                theirs.store(1, Ordering::Relaxed);
                let _ = producer.publish();
            }
        });
        if let Some(first) = consumer.pop() {
            assert_eq!(first, number(1));
            consumer.release();
        }
        sender.join().unwrap();
    });
}
