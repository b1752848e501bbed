//! Properties of mailboxes.

use super::*;
use weft_service::mailbox::{ANY, WINDOW};

/// What ioctl calls them.
const VOLUME: u32 = 1;
const LATENCY: u32 = 2;
const READS: u32 = 7;
const WRITES: u32 = 8;

pub fn volume_is_the_sum(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 0 {
            let inbox = node.inbox(0).expect("free");
            for _ in 0..20 {
                assert_eq!(inbox.read(&mut [0; 50]).expect("comes").length, 50);
            }
            assert_eq!(node.mailbox_ioctl(inbox.id(), VOLUME), Ok(1000));
            assert_eq!(node.mailbox_ioctl(inbox.id(), READS), Ok(20));
            assert!(node.mailbox_ioctl(inbox.id(), LATENCY).expect("known") > 0);
        } else {
            let outbox = node.outbox(0, 0).expect("opens");
            for _ in 0..20 {
                assert_eq!(outbox.write(&[7; 50]), Ok(50));
            }
            assert_eq!(node.mailbox_ioctl(outbox.id(), VOLUME), Ok(1000));
            assert_eq!(node.mailbox_ioctl(outbox.id(), WRITES), Ok(20));
        }
    });
}

pub fn ports_are_read_in_any_order(stage: &dyn Stage) {
    play(stage, 3, |node| {
        if node.me() == 0 {
            let inboxes: Vec<_> = (0..8).map(|port| node.inbox(port).expect("free")).collect();
            for (port, inbox) in inboxes.iter().enumerate().rev() {
                for _ in 0..2 {
                    let mut body = [0; 1];
                    inbox.read(&mut body).expect("comes");
                    assert_eq!(usize::from(body[0]), port);
                }
            }
        } else {
            for port in 0..8 {
                let outbox = node.outbox(0, port).expect("opens");
                outbox.write(&[port]).expect("goes");
            }
        }
    });
}

pub fn two_writers_write_a_hundred_each_before_anyone_reads(stage: &dyn Stage) {
    play(stage, 3, |node| {
        if node.me() > 0 {
            let outbox = node.outbox(0, 5).expect("opens");
            for number in 0..100 {
                outbox.write(&[number; 120]).expect("goes");
            }
        }
        barrier(node);
        if node.me() == 0 {
            let inbox = node.inbox(5).expect("free");
            let mut next = [0, 0];
            for _ in 0..200 {
                let mut body = [0; 120];
                let mail = inbox.read(&mut body).expect("there");
                let writer = mail.node as usize - 1;
                assert_eq!(body, [next[writer]; 120], "in order");
                next[writer] += 1;
            }
            assert_eq!(next, [100, 100]);
        }
    });
}

pub fn a_selective_read_takes_one_source_in_order(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 1 {
            let outboxes: Vec<_> = (0..4).map(|_| node.outbox(0, 0).expect("opens")).collect();
            for (place, outbox) in outboxes.iter().enumerate() {
                assert_eq!(outbox.source(), Ok(place as u8), "the lowest free");
            }
            for number in 0..10 {
                for outbox in &outboxes {
                    let source = outbox.source().expect("open");
                    outbox.write(&[source, number]).expect("goes");
                }
            }
        } else {
            let inbox = node.inbox(0).expect("free");
            for source in [0, 2, 1, 3] {
                for number in 0..10 {
                    node.mailbox_set_remote(inbox.id(), 1, source)
                        .expect("an input");
                    let mut body = [0; 2];
                    let mail = inbox.read(&mut body).expect("comes");
                    assert_eq!(body, [source as u8, number]);
                    assert_eq!((mail.node, mail.source), (1, source as u8));
                }
            }
        }
    });
}

pub fn a_selective_read_counts_once(stage: &dyn Stage) {
    play(stage, 3, |node| {
        if node.me() > 0 {
            let outbox = node.outbox(0, 0).expect("opens");
            outbox.write(&[1]).expect("goes");
            outbox.write(&[2]).expect("goes");
            return barrier(node);
        }
        barrier(node);
        let inbox = node.inbox(0).expect("free");
        let first = inbox.read_from(2, &mut [0; 8]).expect("comes");
        assert_eq!(first.node, 2);
        let mut rest: Vec<u32> = (0..3)
            .map(|_| inbox.read(&mut [0; 8]).expect("comes").node)
            .collect();
        rest.sort_unstable();
        assert_eq!(rest, [1, 1, 2], "the restriction is gone");
        node.mailbox_set_remote(inbox.id(), ANY, ANY).expect("any");
        assert_eq!(node.mailbox_set_remote(inbox.id(), 1, ANY), Ok(()));
        assert_eq!(
            code(node.mailbox_set_remote(inbox.id(), 1, ANY)),
            Code::Fault
        );
    });
}

pub fn unlink_waits_for_the_unread(stage: &dyn Stage) {
    play(stage, 2, |node| {
        let inbox = (node.me() == 0).then(|| node.inbox(3).expect("free"));
        if node.me() == 1 {
            node.outbox(0, 3).expect("opens").write(&[1]).expect("goes");
        }
        barrier(node);
        if let Some(inbox) = inbox {
            assert_eq!(code(node.mailbox_unlink(inbox.id())), Code::Busy);
            inbox.read(&mut [0; 1]).expect("there");
            assert_eq!(node.mailbox_unlink(inbox.id()), Ok(()));
            assert_eq!(code(node.mailbox_unlink(inbox.id())), Code::BadId);
        }
    });
}

pub fn early_messages_are_kept(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 1 {
            node.outbox(0, 200)
                .expect("opens")
                .write(b"early")
                .expect("goes");
        }
        barrier(node);
        if node.me() == 0 {
            let mut body = [0; 5];
            node.inbox(200)
                .expect("free")
                .read(&mut body)
                .expect("kept");
            assert_eq!(&body, b"early");
        }
    });
}

pub fn a_message_that_does_not_fit_stays(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 1 {
            let outbox = node.outbox(0, 0).expect("opens");
            outbox.write(&[1; 100]).expect("goes");
            outbox.write(&[2]).expect("goes");
        } else {
            let inbox = node.inbox(0).expect("free");
            assert_eq!(code(inbox.read(&mut [0; 99])), Code::TooLong);
            assert_eq!(inbox.read(&mut [0; 100]).expect("there").length, 100);
            let mut body = [9; 120];
            assert_eq!(inbox.read(&mut body).expect("there").length, 1);
            assert_eq!(body[..2], [2, 9], "no more than the message is touched");
        }
    });
}

pub fn crossing_writes_get_through(stage: &dyn Stage) {
    play(stage, 2, |node| {
        let inbox = node.inbox(0).expect("free");
        let outbox = node.outbox(1 - node.me(), 0).expect("opens");
        for round in 0..50 {
            outbox.write(&[round; 120]).expect("goes");
            outbox.write(&[round; 60]).expect("goes");
            for length in [120, 60] {
                let mut body = [0; 120];
                let mail = inbox.read(&mut body).expect("comes");
                assert_eq!((mail.length, body[0]), (length, round));
            }
        }
    });
}

pub fn a_full_window_waits_and_goes_on(stage: &dyn Stage) {
    let count = 3 * WINDOW;
    play(stage, 2, |node| {
        if node.me() == 1 {
            let outbox = node.outbox(0, 0).expect("opens");
            for number in 0..count {
                outbox.write(&number.to_le_bytes()).expect("goes");
            }
        } else {
            let inbox = node.inbox(0).expect("free");
            for number in 0..count {
                let mut body = [0; 4];
                inbox.read(&mut body).expect("comes");
                assert_eq!(u32::from_le_bytes(body), number);
            }
        }
    });
}

pub fn one_full_port_does_not_stop_another(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 1 {
            let full = node.outbox(0, 0).expect("opens");
            for _ in 0..WINDOW {
                full.write(&[1]).expect("goes");
            }
            node.mailbox_awrite(full.id(), &[2]).expect("begins");
            assert_eq!(code(node.mailbox_awrite(full.id(), &[2])), Code::Busy);
            node.outbox(0, 1)
                .expect("opens")
                .write(b"past")
                .expect("goes");
            node.mailbox_wait(full.id()).expect("goes in the end");
        } else {
            let mut body = [0; 4];
            node.inbox(1).expect("free").read(&mut body).expect("comes");
            assert_eq!(&body, b"past");
            let inbox = node.inbox(0).expect("free");
            for _ in 0..=WINDOW {
                inbox.read(&mut body).expect("comes");
            }
            assert_eq!(body[0], 2);
        }
    });
}

pub fn a_node_writes_to_itself(stage: &dyn Stage) {
    play(stage, 1, |node| {
        let (inbox, outbox) = (
            node.inbox(0).expect("free"),
            node.outbox(0, 0).expect("opens"),
        );
        for number in 0..2 * WINDOW {
            outbox.write(&number.to_le_bytes()).expect("goes");
            let mut body = [0; 4];
            inbox.read(&mut body).expect("comes");
            assert_eq!(u32::from_le_bytes(body), number);
        }
    });
}

pub fn begun_operations_end_by_wait(stage: &dyn Stage) {
    play(stage, 2, |node| {
        let inbox = node.inbox(0).expect("free");
        let outbox = node.outbox(1 - node.me(), 0).expect("opens");
        let mut body = [0; 120];
        // SAFETY: `body` is not touched until `wait` has answered.
        let into = unsafe { weft_fabric::Region::new(body.as_mut_ptr(), 120) };
        assert_eq!(code(node.mailbox_wait(inbox.id())), Code::BadId);
        node.mailbox_aread(inbox.id(), into).expect("begins");
        assert_eq!(code(node.mailbox_aread(inbox.id(), into)), Code::Busy);
        assert_eq!(code(node.mailbox_ioctl(inbox.id(), VOLUME)), Code::Busy);
        assert_eq!(code(node.mailbox_unlink(inbox.id())), Code::Busy);
        node.mailbox_awrite(outbox.id(), b"hello").expect("begins");
        assert_eq!(node.mailbox_wait(outbox.id()), Ok(5));
        assert_eq!(node.mailbox_wait(inbox.id()), Ok(5));
        assert_eq!(&body[..5], b"hello");
        assert_eq!(code(node.mailbox_wait(outbox.id())), Code::BadId);
    });
}
