//! Remote memory: writes to and reads from a peer's memory by a device.

use std::ptr;

use weft_fabric::Region;

use super::super::layout::{IoVector, RemoteVector, RmaMessage};
use super::super::numbers::{COMPLETION, DELIVERY_COMPLETE};
use super::super::registration::{Registration, RemoteMemory};
use super::super::slots::Slot;
use super::{Address, Device, Outcome};

impl Device {
    /// Writes `from` to remote memory. With [ordered writes](Self::has_ordered_writes) it is complete when `from` is free
    /// again, else when the bytes have arrived.
    pub fn write(
        &mut self,
        (to, slot): (Address, usize),
        from: &Region,
        registered: Option<&Registration>,
        into: RemoteMemory,
    ) -> Outcome {
        let context = self.table.context(Slot::Transfer(slot));
        let endpoint = self.objects.endpoint;
        let mut descriptor = registered.map_or(ptr::null_mut(), Registration::descriptor);
        // SAFETY: the endpoint is open; the memory is valid until the completion, as promised to `Region::new`; what the
        // message points to is read before the call returns.
        let answer = unsafe {
            if self.ordered_writes {
                ((*(*endpoint).rma).write)(
                    endpoint,
                    from.as_ptr().cast(),
                    from.len(),
                    descriptor,
                    to.0,
                    into.address,
                    into.key,
                    context,
                )
            } else {
                let local = IoVector {
                    base: from.as_ptr().cast(),
                    length: from.len(),
                };
                let remote = RemoteVector {
                    address: into.address,
                    length: from.len(),
                    key: into.key,
                };
                let message = RmaMessage {
                    local: &raw const local,
                    descriptors: &raw mut descriptor,
                    local_count: 1,
                    to: to.0,
                    remote: &raw const remote,
                    remote_count: 1,
                    context,
                    data: 0,
                };
                let flags = COMPLETION | DELIVERY_COMPLETE;
                ((*(*endpoint).rma).writemsg)(endpoint, &raw const message, flags)
            }
        };
        self.outcome(answer)
    }

    /// Reads remote memory into `into`; complete when the bytes are there.
    pub fn read(
        &mut self,
        (from, slot): (Address, usize),
        into: &Region,
        registered: Option<&Registration>,
        remote: RemoteMemory,
    ) -> Outcome {
        let context = self.table.context(Slot::Transfer(slot));
        let endpoint = self.objects.endpoint;
        let descriptor = registered.map_or(ptr::null_mut(), Registration::descriptor);
        // SAFETY: as for `write`.
        let answer = unsafe {
            ((*(*endpoint).rma).read)(
                endpoint,
                into.as_ptr().cast(),
                into.len(),
                descriptor,
                from.0,
                remote.address,
                remote.key,
                context,
            )
        };
        self.outcome(answer)
    }
}
