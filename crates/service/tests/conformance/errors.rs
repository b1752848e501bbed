//! Every error code, by the call that raises it.

use super::*;
use weft_service::mailbox::ANY;
use weft_service::{IDS, PORTS};

pub fn of_mailboxes(stage: &dyn Stage) {
    play(stage, 2, |node| {
        let me = node.me() as i32;
        let other = 1 - me;
        for (place, port) in [(-1, 0), (2, 0), (other, 0), (me, -1), (me, PORTS as i32)] {
            assert_eq!(code(node.mailbox_create(place, port)), Code::Invalid);
        }
        for (place, port) in [(-1, 0), (2, 0), (other, -1), (other, PORTS as i32)] {
            assert_eq!(code(node.mailbox_open(place, port)), Code::Invalid);
        }
        let input = node.mailbox_create(me, 4).expect("free");
        assert_eq!(code(node.mailbox_create(me, 4)), Code::Busy);
        let output = node.mailbox_open(other, 4).expect("opens");
        for size in [0, 121] {
            assert_eq!(
                code(node.mailbox_write(output, &vec![0; size])),
                Code::Invalid
            );
            assert_eq!(
                code(node.mailbox_read(input, &mut vec![0; size])),
                Code::Invalid
            );
        }
        for id in [-1, IDS as i32] {
            assert_eq!(code(node.mailbox_write(id, &[0])), Code::Invalid);
        }
        assert_eq!(code(node.mailbox_read(77, &mut [0])), Code::BadId);
        assert_eq!(code(node.mailbox_read(output, &mut [0])), Code::BadId);
        assert_eq!(code(node.mailbox_write(input, &[0])), Code::BadId);
        assert_eq!(code(node.mailbox_unlink(output)), Code::BadId);
        assert_eq!(code(node.mailbox_close(input)), Code::BadId);
        assert_eq!(code(node.mailbox_wait(input)), Code::BadId);
        assert_eq!(code(node.mailbox_set_remote(output, ANY, ANY)), Code::Fault);
        assert_eq!(code(node.mailbox_set_remote(input, 2, ANY)), Code::Invalid);
        assert_eq!(
            code(node.mailbox_set_remote(input, ANY, PORTS as i32)),
            Code::Invalid
        );
        assert_eq!(code(node.mailbox_ioctl(input, 0)), Code::NotSupported);
        assert_eq!(code(node.mailbox_ioctl(input, 77)), Code::NotSupported);
        assert_eq!(code(node.mailbox_source(input)), Code::Access);
        assert_eq!(node.mailbox_close(output), Ok(()));
        assert_eq!(code(node.mailbox_close(output)), Code::BadId);
        assert_eq!(node.mailbox_unlink(input), Ok(()));
        assert_eq!(code(node.mailbox_unlink(input)), Code::BadId);
        let id = node.mailbox_create(me, 5).expect("free");
        for (request, counted) in [(3, 2), (4, 1), (5, 1), (6, 1), (7, 0), (8, 0)] {
            assert_eq!(node.mailbox_ioctl(id, request), Ok(counted), "{request}");
        }
    });
}

pub fn of_portals(stage: &dyn Stage) {
    play(stage, 2, |node| {
        let me = node.me() as i32;
        let other = 1 - me;
        for (place, port) in [(-1, 0), (2, 0), (other, 0), (me, -1), (me, PORTS as i32)] {
            assert_eq!(code(node.portal_create(place, port)), Code::Invalid);
        }
        for (local, place, port) in [
            (other, other, 0),
            (-1, other, 0),
            (me, -1, 0),
            (me, 2, 0),
            (me, other, -1),
        ] {
            assert_eq!(code(node.portal_open(local, place, port)), Code::Invalid);
        }
        let input = node.portal_create(me, 4).expect("free");
        assert_eq!(code(node.portal_create(me, 4)), Code::Busy);
        let output = node.portal_open(me, other, 4).expect("opens");
        assert_eq!(code(node.portal_read(input, &mut [0])), Code::Access);
        for size in [0, weft_service::portal::MAX + 1] {
            // SAFETY: refused before it is looked at.
            let region = unsafe { weft_fabric::Region::new([0; 8].as_mut_ptr(), size) };
            assert_eq!(code(node.portal_awrite(output, region)), Code::Invalid);
            assert_eq!(code(node.portal_aread(input, region)), Code::Invalid);
        }
        assert_eq!(code(node.portal_write(input, &[0])), Code::BadId);
        assert_eq!(code(node.portal_read(output, &mut [0])), Code::BadId);
        assert_eq!(code(node.portal_allow(output, other, 0)), Code::BadId);
        assert_eq!(code(node.portal_allow(input, 2, 0)), Code::Invalid);
        assert_eq!(code(node.portal_allow(input, other, -1)), Code::Invalid);
        assert_eq!(code(node.portal_wait(output)), Code::BadId);
        assert_eq!(code(node.portal_unlink(output)), Code::BadId);
        assert_eq!(code(node.portal_close(input)), Code::BadId);
        assert_eq!(code(node.portal_write(-1, &[0])), Code::Invalid);
        assert_eq!(code(node.portal_ioctl(input, 9)), Code::NotSupported);
        assert_eq!(node.portal_port(output), Ok(0));
        assert_eq!(node.portal_port(input), Ok(4));
        assert_eq!(node.portal_close(output), Ok(()));
        assert_eq!(code(node.portal_close(output)), Code::BadId);
        assert_eq!(node.portal_unlink(input), Ok(()));
    });
}

pub fn of_syncs(stage: &dyn Stage) {
    play(stage, 3, |node| {
        let kind = SyncKind::AllToOne;
        let bad: [&[i32]; 6] = [&[], &[0], &[0, 1, 2, 1], &[0, 0, 1], &[0, 1, 1], &[0, 3]];
        for list in bad {
            assert_eq!(code(node.sync_create(list, kind)), Code::Invalid);
            assert_eq!(code(node.sync_open(list, kind)), Code::Invalid);
        }
        assert_eq!(code(SyncKind::of(2)), Code::Invalid);
        let me = node.me() as i32;
        let without = [(me + 1) % 3, (me + 2) % 3];
        assert_eq!(code(node.sync_create(&without, kind)), Code::Invalid);
        // The role must fit.
        let as_one = [me, (me + 1) % 3];
        let as_many = [(me + 1) % 3, me];
        assert_eq!(
            code(node.sync_open(&as_one, SyncKind::AllToOne)),
            Code::Invalid
        );
        assert_eq!(
            code(node.sync_create(&as_one, SyncKind::OneToAll)),
            Code::Invalid
        );
        assert_eq!(
            code(node.sync_create(&as_many, SyncKind::AllToOne)),
            Code::Invalid
        );
        assert_eq!(
            code(node.sync_open(&as_many, SyncKind::OneToAll)),
            Code::Invalid
        );
        let waits = node.sync_create(&as_one, SyncKind::AllToOne).expect("fits");
        let signals = node.sync_open(&as_one, SyncKind::OneToAll).expect("fits");
        assert_eq!(code(node.sync_signal(waits)), Code::BadId);
        assert_eq!(code(node.sync_wait(signals)), Code::BadId);
        assert_eq!(code(node.sync_close(waits)), Code::BadId);
        assert_eq!(code(node.sync_unlink(signals)), Code::BadId);
        assert_eq!(code(node.sync_wait(-1)), Code::Invalid);
        assert_eq!(node.sync_unlink(waits), Ok(()));
        assert_eq!(code(node.sync_wait(waits)), Code::BadId);
        assert_eq!(node.sync_close(signals), Ok(()));
    });
}

pub fn of_names(stage: &dyn Stage) {
    play(stage, 1, |node| {
        let long = "x".repeat(64);
        for name in ["", &long] {
            assert_eq!(code(node.name_link(name, 0)), Code::Invalid);
            assert_eq!(code(node.name_lookup(name)), Code::Invalid);
            assert_eq!(code(node.name_find(name)), Code::Invalid);
            assert_eq!(code(node.name_unlink(name)), Code::Invalid);
        }
        assert_eq!(code(node.name_link("x", -1)), Code::Invalid);
        assert_eq!(code(node.name_lookup("x")), Code::NoEntry);
        assert_eq!(code(node.name_unlink("x")), Code::NoEntry);
        node.name_link(&long[1..], 255).expect("63 bytes fit");
        assert_eq!(node.name_find(&long[1..]), Ok((0, 255)));
    });
}

pub fn ids_and_source_ports_run_out(stage: &dyn Stage) {
    play(stage, 5, |node| {
        let other = (node.me() as i32 + 1) % 5;
        let first: Vec<_> = (0..PORTS)
            .map(|_| node.mailbox_open(other, 0).expect("opens"))
            .collect();
        assert_eq!(code(node.mailbox_open(other, 1)), Code::Again);
        node.mailbox_close(first[100]).expect("its own");
        let again = node.mailbox_open(other, 1).expect("one is free");
        assert_eq!(node.mailbox_port(again), Ok(100));
        for place in PORTS..IDS {
            let to = (place / PORTS) as i32;
            let to = (node.me() as i32 + 1 + to) % 5;
            node.mailbox_open(to, 0).expect("opens");
        }
        assert_eq!(code(node.mailbox_create(node.me() as i32, 0)), Code::Again);
    });
}
