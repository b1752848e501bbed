use super::ring::heap;
use super::*;

fn number(offset: u32) -> Descriptor {
    Descriptor {
        offset,
        length: 60,
        tag: 7,
    }
}

#[test]
fn descriptors_arrive_in_order_after_publishing() {
    let (mut producer, mut consumer, _ring) = heap(4, 4);
    for lap in 0..10 {
        for item in 0..4 {
            producer
                .push(number(lap * 4 + item))
                .expect("there is room");
        }
        assert_eq!(producer.push(number(99)), Err(Full(number(99))));
        assert_eq!(consumer.pop(), None);
        assert!(!producer.publish());
        for item in 0..4 {
            assert_eq!(consumer.pop(), Some(number(lap * 4 + item)));
        }
        assert_eq!(consumer.pop(), None);
        assert_eq!(producer.room(), 0, "not released yet");
        consumer.release();
        assert_eq!(producer.room(), 4);
    }
    assert_eq!((producer.faults(), consumer.faults()), (0, 0));
}

#[test]
fn a_limit_below_the_capacity_holds() {
    let (mut producer, mut consumer, _ring) = heap(64, 16);
    let pushed = (0..64).filter(|&item| producer.push(number(item)).is_ok());
    assert_eq!(pushed.count(), 16);
    let _ = producer.publish();
    assert_eq!(producer.depth(), 16);
    assert!(consumer.pop().is_some());
    consumer.release();
    assert_eq!(producer.room(), 1);
    producer.set_limit(8);
    assert_eq!(producer.room(), 0);
}

#[test]
fn only_a_waiting_consumer_is_rung_and_once() {
    let (mut producer, mut consumer, _ring) = heap(4, 4);
    producer.push(number(1)).expect("there is room");
    assert!(!producer.publish());
    assert!(consumer.announce(), "something is there");
    assert!(consumer.pop().is_some());
    consumer.release();
    assert!(!consumer.announce());
    assert!(!producer.publish(), "nothing was pushed");
    producer.push(number(2)).expect("there is room");
    assert!(producer.publish());
    producer.push(number(3)).expect("there is room");
    assert!(!producer.publish(), "notified already");
}

#[test]
fn a_new_generation_sees_nothing_of_the_old() {
    let (mut producer, consumer, _ring) = heap(4, 4);
    producer.push(number(1)).expect("there is room");
    let _ = producer.publish();
    let mut consumer = consumer.reattach(1);
    assert_eq!(consumer.pop(), None);
    assert_eq!(
        producer.room(),
        3,
        "the head of another generation is no news"
    );
    let mut producer = producer.reattach(1);
    assert_eq!(producer.room(), 4);
    producer.push(number(2)).expect("there is room");
    let _ = producer.publish();
    assert_eq!(consumer.pop(), Some(number(2)));
    assert_eq!((producer.faults(), consumer.faults()), (0, 0));
}

/// Ten million hostile index words, descriptors and returns: they cause only counted faults.
#[test]
fn ten_million_hostile_words_do_no_harm() {
    use weft_sys::random::SeededRandom;
    const ROUNDS: u32 = 10_000_000;
    const BUFFERS: u32 = 64;
    let mut random = SeededRandom::new(4);
    let (mut producer, mut consumer, ring) = heap(32, 32);
    let mut ledger = Ledger::new(BUFFERS, 2048);
    let (mut accepted, mut refused, mut returned) = (0u64, 0u64, 0u64);
    let mut held: Vec<Descriptor> = Vec::new();
    // The true positions of both handles, which a malicious peer would target.
    let (mut head, mut tail, mut faults) = (0u64, 0u64, 0u64);
    for round in 0..ROUNDS {
        let noise = random.next_u64();
        // Near the true values as often as far away: the near ones are the dangerous ones.
        let near = |word: u64| word.wrapping_add(noise % 80).wrapping_sub(40);
        let place = (noise >> 20) as usize % 32;
        let word = match noise >> 60 {
            0..8 => (noise & 0x3f) << 11 | (noise >> 8 & 0xfff) << 32,
            8..12 => noise,
            _ => (noise & 0x1_ffff) | 60 << 32,
        };
        ring.slots[place].store(word, weft_atomic::Ordering::Relaxed);
        let (claimed_tail, claimed_head) = match noise >> 57 & 3 {
            0 => (noise, near(tail)),
            1 => (near(head), noise),
            _ => (near(head), near(tail)),
        };
        ring.words
            .scribble(claimed_tail, claimed_head, noise as u32 & 1);
        // The consumer of a hostile producer: takes what the ledger accepts, no more than fits.
        let mut taken = 0;
        while let Some(descriptor) = consumer.pop() {
            taken += 1;
            head += 1;
            match ledger.accept(descriptor) {
                Ok(slot) => {
                    assert!(slot < BUFFERS && descriptor.offset == slot * 2048);
                    assert!(descriptor.length <= 2048);
                    held.push(descriptor);
                    accepted += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(taken <= 32, "a lap at most");
        assert!(held.len() <= BUFFERS as usize, "no buffer is held twice");
        consumer.release();
        // The producer towards a hostile consumer: never more than the capacity outstanding.
        while held.len() > 8 {
            let Some(descriptor) = held.pop() else { break };
            if producer.push(descriptor).is_err() {
                held.push(descriptor);
                break;
            }
            ledger.hand_back(descriptor).expect("it is held");
            returned += 1;
            tail += 1;
        }
        assert!(producer.room() <= 32);
        let _ = producer.publish();
        if round % 1_000 == 0 {
            // Buffers that the consumer does not take back are given up, as when a client is replaced.
            for descriptor in held.drain(..) {
                ledger.hand_back(descriptor).expect("it is held");
            }
            faults += consumer.faults() + producer.faults();
            producer = producer.reattach(round / 1_000);
            consumer = consumer.reattach(round / 1_000);
            tail = u64::from(round / 1_000) << 40;
            head = tail;
        }
    }
    assert!(
        accepted > 1_000 && refused > 1_000 && returned > 100,
        "{accepted} {refused} {returned}"
    );
    assert!(faults > 1_000, "{faults}");
}
