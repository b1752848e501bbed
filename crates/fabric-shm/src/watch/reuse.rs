//! Places of the room, by hand: processes that have the same place one after the other.

use std::os::fd::AsFd;

use weft_fabric::{
    Fabric, FabricError, HEAD, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey,
};
use weft_sys::MemoryFile;

use crate::{JobSize, Options, Shm, Watch, initialise_job};

const SIZE: JobSize = JobSize {
    ranks: 2,
    room: 1,
    spares: 0,
    addresses: 0,
    channels: 2,
};
/// The place of the room.
const PLACE: u32 = 2;

#[derive(Default)]
struct Heard(Vec<String>);

impl Sink for Heard {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        self.0
            .push(format!("{} of {from}, {}", head[0], data.len()));
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, peer: Peer, reason: &str) {
        self.0.push(format!("lost {peer}: {reason}"));
    }
    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.0.push(format!("signal {} of {from}", key.0));
    }
    fn replaced(&mut self, peer: Peer) {
        self.0.push(format!("replaced {peer}"));
    }
}

fn poll(endpoint: &mut Shm) -> Vec<String> {
    let mut heard = Heard::default();
    while endpoint.poll(&mut heard, 32) > 0 {}
    heard.0
}

fn send(from: &mut Shm, to: u32, number: u8, data: &[u8]) -> Result<Posted> {
    from.try_send(Peer(to), &[number; HEAD], data)
}

struct Job {
    file: MemoryFile,
    watch: Watch,
}

impl Job {
    fn new() -> Self {
        let length = SIZE.segment_size().expect("fits");
        let file = MemoryFile::create("weft-test", length).expect("memory files exist here");
        let mapping = file.map().expect("maps");
        initialise_job(&mapping, SIZE, 2).expect("the right size");
        let watch = Watch::open(&file).expect("initialised");
        Self { file, watch }
    }

    fn attach(&self, rank: u32) -> Shm {
        let descriptor = self.file.as_fd().try_clone_to_owned().expect("duplicates");
        Shm::attach_with(descriptor, rank, &Options::default()).expect("joins")
    }
}

#[test]
fn nothing_of_one_process_reaches_the_next_in_its_place() {
    let job = Job::new();
    let (mut one, mut two) = (job.attach(0), job.attach(1));
    assert_eq!(one.peers(), 3);
    let mut third = job.attach(PLACE);
    for round in 0..300_u32 {
        let number = round as u8;
        let long = [number; 1000];
        // As many as make lanes hot, and one that nobody reads.
        for _ in 0..40 {
            assert_eq!(send(&mut third, 0, number, &long), Ok(Posted::Done));
            assert_eq!(send(&mut one, PLACE, number, &[]), Ok(Posted::Done));
            assert_eq!(poll(&mut one), [format!("{number} of 2, 1000")]);
            assert_eq!(poll(&mut third), [format!("{number} of 0, 0")]);
        }
        assert_eq!(send(&mut one, PLACE, 99, &long), Ok(Posted::Done));
        assert_eq!(third.signal(Peer(1), SyncKey(7)), Ok(Posted::Done));
        let in_order = round % 2 == 0;
        if in_order {
            drop(third);
        } else {
            std::mem::forget(third);
        }
        let change = job.watch.tell_of_end(PLACE, 0, in_order);
        assert_eq!(job.watch.may_be_reused(PLACE, change, |_| true), Err(0));
        let (first, second) = (poll(&mut one), poll(&mut two));
        assert_eq!(job.watch.may_be_reused(PLACE, change, |_| true), Ok(()));
        assert_eq!(second[0], "signal 7 of 2");
        if in_order {
            assert_eq!((first.len(), second.len()), (0, 1), "its end is no loss");
        } else {
            assert_eq!(first, ["lost 2: its process exited with code 0"]);
        }
        let refused = send(&mut one, PLACE, 1, &[]);
        assert!(matches!(refused, Err(FabricError::PeerLost { .. })));
        job.watch.reuse(PLACE);
        third = job.attach(PLACE);
        // It speaks before the others have heard that it is there.
        assert_eq!(send(&mut third, 1, 5, &[]), Ok(Posted::Done));
        assert!(poll(&mut third).is_empty(), "nothing of before");
        assert_eq!(poll(&mut two), ["replaced 2", "5 of 2, 0"]);
        assert_eq!(two.signals(Peer(2), SyncKey(7)), 0);
        assert_eq!(poll(&mut one), ["replaced 2"]);
    }
}

#[test]
fn a_member_that_joins_later_counts_from_then_on() {
    let job = Job::new();
    let mut one = job.attach(0);
    let third = job.attach(PLACE);
    drop(third);
    let change = job.watch.tell_of_end(PLACE, 0, true);
    let mut two = job.attach(1);
    poll(&mut one);
    assert_eq!(job.watch.may_be_reused(PLACE, change, |_| true), Err(1));
    poll(&mut two);
    assert_eq!(job.watch.may_be_reused(PLACE, change, |_| true), Ok(()));
    // Who has left is not waited for.
    drop(two);
    job.watch.reuse(PLACE);
    let mut third = job.attach(PLACE);
    assert_eq!(send(&mut third, 0, 1, &[]), Ok(Posted::Done));
    assert_eq!(poll(&mut one), ["replaced 2", "1 of 2, 0"]);
}

#[test]
fn an_opened_channel_reports_an_end_as_well() {
    let job = Job::new();
    let mut one = job.attach(0);
    let third = job.attach(PLACE);
    let mut apart = one.open(1).expect("a channel");
    let mut theirs = third.open(1).expect("a channel");
    assert_eq!(send(&mut theirs, 0, 5, &[]), Ok(Posted::Done));
    std::mem::forget((third, theirs));
    let change = job.watch.tell_of_end(PLACE, 0, false);
    assert_eq!(poll(&mut one), ["lost 2: its process exited with code 0"]);
    let reusable = || job.watch.may_be_reused(PLACE, change, |_| true);
    assert_eq!(reusable(), Err(0), "it has not heard in the other channel");
    assert_eq!(
        poll(&mut apart),
        ["5 of 2, 0", "lost 2: its process exited with code 0"]
    );
    assert_eq!(reusable(), Ok(()));
    job.watch.reuse(PLACE);
    let next = job.attach(PLACE);
    let mut theirs = next.open(1).expect("nobody has opened it since");
    assert_eq!(poll(&mut apart), ["replaced 2"]);
    assert_eq!(send(&mut apart, PLACE, 6, &[]), Ok(Posted::Done));
    assert_eq!(poll(&mut theirs), ["6 of 0, 0"]);
}
