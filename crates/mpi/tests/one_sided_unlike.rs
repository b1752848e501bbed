//! One-sided communication where ranks differ in how much a message of theirs holds, as those of hosts do that have different numbers
//! of ranks.
#![allow(missing_docs)]

use weft_atomic::{AtomicU64, Ordering::Relaxed};
use weft_fabric::{Fabric, Head, Limits, Peer, Posted, Region, Result, forward_fabric};
use weft_fabric_local::Local;
use weft_mpi::Op;
use weft_mpi::info::Info;
use weft_mpi::op::Predefined;
use weft_mpi::rma::{Allocation, Assertion, Ends, Flavor, TargetBuffer, Window};

use crate::common::{bytes, over, pattern, threads};

/// A fabric whose messages hold less than those of others.
struct Limited(Local, usize);

impl Fabric for Limited {
    forward_fabric!(self => self.0; me, peers, incarnation, bell, now, route, take_next, poll, grant, offer, revoke, get, put,
        signal, signals, take_signals, forget, shares_memory, allocate_shared, release_shared, attach_shared,
        is_asleep, wake, is_any_beside, is_flushed, traffic, say_goodbye, abandon_unreached, announce_absence);

    fn limits(&self) -> Limits {
        Limits {
            data: self.1,
            bulk: self.1,
        }
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        assert!(data.len() <= self.1, "{} bytes in one message", data.len());
        self.0.try_send(to, head, data)
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }
}

/// What one message of the origin asks for, several of the target bring.
#[test]
fn a_get_is_complete_from_a_target_whose_messages_hold_less() {
    const BYTES: usize = 300_000;
    let limits = [65_536, 4096, 10_007];
    let group = Local::group(limits.len()).into_iter().zip(limits);
    let group = group.map(|(local, limit)| Limited(local, limit)).collect();
    let addresses = limits.map(|_| AtomicU64::new(0));
    threads(group, &|process| {
        let comm = process.world();
        let mut memory = pattern(BYTES, comm.rank() as usize);
        // SAFETY: the memory is there until the window is freed.
        let region = unsafe { Region::new(memory.as_mut_ptr(), BYTES) };
        let window = Window::new(
            &comm,
            Flavor::Dynamic,
            Allocation::Later,
            1,
            &Info::default(),
        );
        let window = window.unwrap();
        window.attach_memory(region).unwrap();
        addresses[comm.rank() as usize].store(region.as_ptr().addr() as u64, Relaxed);
        window.fence(Assertion::default()).unwrap();
        window.lock_all(Assertion::default()).unwrap();
        let no_op = Op::predefined(Predefined::NoOp);
        for (rank, address) in addresses.iter().enumerate() {
            let target = TargetBuffer {
                rank: rank as u32,
                displacement: address.load(Relaxed).cast_signed(),
                count: BYTES,
                datatype: &bytes(),
            };
            let mut into = vec![0; BYTES];
            let get = window.get(over(&mut into), &target, Ends::WithRequest);
            process.wait(get.unwrap()).unwrap();
            assert!(into == pattern(BYTES, rank), "of rank {rank}");
            into.fill(0);
            window
                .get_accumulate(None, over(&mut into), &target, &no_op, Ends::WithEpoch)
                .unwrap();
            window.flush(rank as u32).unwrap();
            assert!(into == pattern(BYTES, rank), "of rank {rank}");
        }
        window.unlock_all().unwrap();
        window.fence(Assertion::default()).unwrap();
        window.free().unwrap();
    });
}
