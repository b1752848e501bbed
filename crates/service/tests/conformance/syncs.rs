//! Properties of syncs.

use super::*;

pub fn early_and_double_signals_count(stage: &dyn Stage) {
    play(stage, 3, |node| {
        let all = [2, 0, 1];
        if node.me() == 2 {
            barrier(node);
            let waiter = node.waiter(SyncKind::AllToOne, &all).expect("the one");
            waiter.wait().expect("signalled before the sync was made");
            waiter.wait().expect("twice");
        } else {
            let signaller = node
                .signaller(SyncKind::AllToOne, &all)
                .expect("one of many");
            signaller.signal().expect("goes");
            signaller.signal().expect("goes");
            barrier(node);
        }
        barrier(node);
    });
}

pub fn syncs_are_kept_apart(stage: &dyn Stage) {
    play(stage, 3, |node| {
        if node.me() == 0 {
            let first = node
                .signaller(SyncKind::OneToAll, &[0, 1])
                .expect("the one");
            let second = node
                .signaller(SyncKind::OneToAll, &[0, 1, 2])
                .expect("the one");
            second.signal().expect("goes");
            first.signal().expect("goes");
        } else {
            let second = node
                .waiter(SyncKind::OneToAll, &[0, 2, 1])
                .expect("one of many");
            if node.me() == 1 {
                let first = node
                    .waiter(SyncKind::OneToAll, &[0, 1])
                    .expect("one of many");
                first.wait().expect("comes");
            }
            second.wait().expect("comes, however the many are listed");
            assert_eq!(code(node.sync_ioctl(second.id(), 1)), Code::NotSupported);
            let waits = node.sync_ioctl(second.id(), 9).expect("known");
            assert!(waits >= 1);
        }
    });
}

pub fn made_again_is_the_same(stage: &dyn Stage) {
    play(stage, 2, |node| {
        let (kind, all) = (SyncKind::AllToOne, [0, 1]);
        let make = || match node.me() {
            0 => node.sync_create(&all, kind).expect("the one"),
            _ => node.sync_open(&all, kind).expect("one of many"),
        };
        let end = |id| match node.me() {
            0 => node.sync_unlink(id),
            _ => node.sync_close(id),
        };
        let id = make();
        assert_eq!(make(), id);
        assert_eq!(end(id), Ok(()));
        match node.me() {
            0 => node.sync_wait(id).expect("still there"),
            _ => node.sync_signal(id).expect("still there"),
        }
        assert_eq!(end(id), Ok(()));
        assert_eq!(code(end(id)), Code::BadId);
    });
}

pub fn barriers_hold(stage: &dyn Stage) {
    let entered = std::sync::Mutex::new(0);
    play(stage, 6, |node| {
        for round in 1..=20 {
            *entered.lock().expect("unpoisoned") += 1;
            barrier(node);
            let seen = *entered.lock().expect("unpoisoned");
            assert!(seen >= round * 6, "{seen} in round {round}");
        }
    });
}
