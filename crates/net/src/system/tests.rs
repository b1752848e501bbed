use std::time::Duration;

use super::*;
use crate::client::Work;

/// A guest beside an echo client, with what a description may put before it.
fn with_guest(driver: bool, tx_copier: bool, two: DriverThreads) -> Description {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.driver_threads = two;
    description.clients[1].driver = driver;
    description.clients[1].tx_copier = tx_copier;
    description
}

const GUEST: Id = Id::Client(1);

fn renew(system: &mut System, gone: Id) -> Renewed {
    let first = system.renew(gone, 0).expect("memory is left");
    let second = system.renew(gone, 1).expect("memory is left");
    assert!(second.cut_off.is_empty());
    first
}

/// The memory files of a grant, by inode.
fn inodes(grant: &Grant) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let all = grant.descriptors.iter().map(|descriptor| {
        let file = std::fs::File::from(descriptor.try_clone().expect("descriptors are left"));
        file.metadata().expect("it is open").ino()
    });
    // Board, ear, two regions, memory and bell of two channels: the others are not memory.
    let memory = [0, 2, 3, 4, 6];
    let all: Vec<u64> = all.collect();
    memory.map(|place| all[place]).to_vec()
}

fn is_awake(ear: &EventWaiter) -> bool {
    use weft_sys::poll::{Entry, Interest, wait};
    let mut entries = [Entry::new(ear, Interest::Read)];
    wait(&mut entries, Some(Duration::ZERO)).expect("polls") == 1
}

#[test]
fn a_successor_is_given_nothing_that_its_predecessor_had() {
    for (driver, tx_copier, two) in [
        (false, false, DriverThreads::One),
        (false, true, DriverThreads::One),
        (true, false, DriverThreads::Two),
        (true, true, DriverThreads::One),
    ] {
        let mut system = System::create(with_guest(driver, tx_copier, two)).expect("made");
        let old = system.grant(GUEST).expect("descriptors are left");
        let renewed = renew(&mut system, GUEST);
        assert!(renewed.cut_off.is_empty());
        assert!(renewed.told.contains(&Id::RxCopier(1)), "{renewed:?}");
        let new = system.grant(GUEST).expect("descriptors are left");
        let (before, after) = (inodes(&old), inodes(&new));
        assert!(
            before.iter().all(|inode| !after.contains(inode)),
            "{before:?} {after:?}"
        );
        // What the predecessor rings wakes nobody; what the successor rings, its two neighbours.
        let ears = |system: &System| -> Vec<Id> {
            let all = system.seats.iter();
            all.filter(|(_, seat)| is_awake(&seat.ear))
                .map(|(id, _)| *id)
                .collect()
        };
        for id in system.components() {
            // They have heard what the broker rang.
            let soon = weft_sys::clock::monotonic() + 1_000;
            system.seat(id).ear.wait(Some(soon)).expect("an ear");
        }
        assert_eq!(ears(&system), []);
        let bells = |grant: Grant| {
            let mut all = grant.descriptors.into_iter();
            [5, 1].map(|skip| EventFd::adopt(all.nth(skip).expect("a bell")))
        };
        let old_ear = EventWaiter::adopt(old.descriptors[1].try_clone().expect("left"));
        for bell in bells(old) {
            bell.ring();
        }
        assert_eq!(ears(&system), []);
        for bell in bells(new) {
            bell.ring();
        }
        assert_eq!(ears(&system).len(), if driver { 1 } else { 2 });
        // Nor is the predecessor woken by what its successor is rung for.
        for link in system.links.iter().filter(|link| link.touches(GUEST)) {
            link.source_bell.ring();
            link.sink_bell.ring();
        }
        assert!(!is_awake(&old_ear));
    }
}

#[test]
fn one_that_reads_no_orders_is_cut_off_and_its_replacement_is_up_to_date() {
    let description = with_guest(false, false, DriverThreads::One);
    let mut system = System::create(description).expect("made");
    // Nobody runs, so nobody reads.
    let mut lost = Vec::new();
    for _ in 0..2_000 {
        lost = renew(&mut system, GUEST).cut_off;
        if !lost.is_empty() {
            break;
        }
    }
    assert!(!lost.is_empty(), "there is room for all of them");
    for &id in &lost {
        assert!(!system.has_followed(id) && !system.is_settled(1));
        // Whatever it says meanwhile.
        system.board(id).acknowledge(system.board(id).changes());
        assert!(!system.has_followed(id));
    }
    for id in [Id::Driver, Id::TxMux, Id::RxCopier(1)] {
        renew(&mut system, id);
        assert!(system.seat(id).orders.is_some() && !system.seat(id).is_cut_off);
    }
    assert!(renew(&mut system, GUEST).cut_off.is_empty());
}
