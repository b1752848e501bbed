use std::time::Duration;

use super::*;
use crate::client::Work;

/// A guest and an echo client, with the optional components in front of the guest.
fn with_guest(driver: bool, tx_copier: bool, two: DriverThreads) -> Description {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.driver_threads = two;
    description.clients[1].driver = driver;
    description.clients[1].tx_copier = tx_copier;
    description
}

const GUEST: ComponentId = ComponentId::Client(1);

fn reattach(system: &mut System, gone: ComponentId) -> Reattached {
    let first = system.reattach(gone, 0).expect("memory is left");
    let second = system.reattach(gone, 1).expect("memory is left");
    assert!(second.cut_off.is_empty());
    first
}

/// The memory files of capabilities, by inode.
fn inodes(capabilities: &Capabilities) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let all = capabilities.descriptors.iter().map(|descriptor| {
        let file = std::fs::File::from(descriptor.try_clone().expect("descriptors are left"));
        file.metadata().expect("it is open").ino()
    });
    // Control page, waiter, two regions, memory and event of two channels: the others are not memory.
    let memory = [0, 2, 3, 4, 6];
    let all: Vec<u64> = all.collect();
    memory.map(|place| all[place]).to_vec()
}

fn is_awake(waiter: &EventWaiter) -> bool {
    use weft_sys::poll::{Interest, PollFd, wait};
    let mut entries = [PollFd::new(waiter, Interest::Read)];
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
        let old = system.capabilities(GUEST).expect("descriptors are left");
        let reattached = reattach(&mut system, GUEST);
        assert!(reattached.cut_off.is_empty());
        assert!(
            reattached.told.contains(&ComponentId::RxCopier(1)),
            "{reattached:?}"
        );
        let new = system.capabilities(GUEST).expect("descriptors are left");
        let (before, after) = (inodes(&old), inodes(&new));
        assert!(
            before.iter().all(|inode| !after.contains(inode)),
            "{before:?} {after:?}"
        );
        // The predecessor's notifications wake nobody; the successor's wake its two neighbours.
        let woken = |system: &System| -> Vec<ComponentId> {
            let all = system.blocks.iter();
            all.filter(|(_, block)| is_awake(&block.waiter))
                .map(|(id, _)| *id)
                .collect()
        };
        for id in system.components() {
            // They have seen the broker's notifications.
            let soon = weft_sys::clock::monotonic() + 1_000;
            system.block(id).waiter.wait(Some(soon)).expect("waits");
        }
        assert_eq!(woken(&system), []);
        let events = |capabilities: Capabilities| {
            let mut all = capabilities.descriptors.into_iter();
            [5, 1].map(|skip| EventFd::adopt(all.nth(skip).expect("an event")))
        };
        let old_waiter = EventWaiter::adopt(old.descriptors[1].try_clone().expect("left"));
        for event in events(old) {
            event.notify();
        }
        assert_eq!(woken(&system), []);
        for event in events(new) {
            event.notify();
        }
        assert_eq!(woken(&system).len(), if driver { 1 } else { 2 });
        // Nor do notifications of the successor wake the predecessor.
        for link in system.links.iter().filter(|link| link.touches(GUEST)) {
            link.source_event.notify();
            link.sink_event.notify();
        }
        assert!(!is_awake(&old_waiter));
    }
}

#[test]
fn one_that_reads_no_orders_is_cut_off_and_its_replacement_is_up_to_date() {
    let description = with_guest(false, false, DriverThreads::One);
    let mut system = System::create(description).expect("made");
    // No component runs, so nobody reads.
    let mut lost = Vec::new();
    for _ in 0..2_000 {
        lost = reattach(&mut system, GUEST).cut_off;
        if !lost.is_empty() {
            break;
        }
    }
    assert!(!lost.is_empty(), "there is room for all of them");
    for &id in &lost {
        assert!(!system.has_followed(id) && !system.is_settled(1));
        // Whatever it acknowledges in the meantime.
        system
            .control_page(id)
            .acknowledge(system.control_page(id).changes());
        assert!(!system.has_followed(id));
    }
    for id in [
        ComponentId::Driver,
        ComponentId::TxMux,
        ComponentId::RxCopier(1),
    ] {
        reattach(&mut system, id);
        assert!(system.block(id).orders.is_some() && !system.block(id).is_cut_off);
    }
    assert!(reattach(&mut system, GUEST).cut_off.is_empty());
}
