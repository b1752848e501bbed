//! Device: one endpoint of libfabric with its completion queue, its table of addresses, and the buffers for
//! arriving and leaving messages.
//!
//! Each slot lends the provider a context with its operation, which the completion names. One thread calls at a time (`&mut self`);
//! any thread may watch the descriptors to sleep on.
//!
//! # Memory
//! Buffers belong to the provider from the call that posts them until their completion; the slots record whose they are. Memory
//! of others ([`Region`]) is lent for one transfer, from [`Device::write`] or [`Device::read`] to its completion, under the
//! promise made to [`Region::new`].

mod remote;

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr;

use weft_fabric::Region;

use super::completions::{Completion, Completions};
use super::dispositions;
use super::infos::Description;
use super::layout::Fid;
use super::library::Library;
use super::mask::Mask;
use super::numbers::{EAGAIN, ORDER_SEND_AFTER_WRITE, RMA};
use super::objects::{Objects, Room};
use super::registration::{Access, Registration, RegistrationRules};
use super::slots::{Slot, SlotTable, Slots};
use super::wait::{WaitObject, Wanted};

/// Longest address of an endpoint.
const ADDRESS: usize = 256;

/// Any source.
const UNSPECIFIED: u64 = u64::MAX;

/// The outcome of posting an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Begun (or done, where no completion follows).
    Begun,
    /// No room now; nothing has happened.
    Full,
    /// The provider refuses.
    Refused(String),
}

/// A completion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Bytes have arrived in the buffer of this slot: slot, count.
    Received(usize, usize),
    /// The message of this slot has left.
    Sent(usize),
    /// The transfer of this slot is complete.
    Transferred(usize),
    /// The operation of this slot has failed.
    ReceiveFailed(usize),
    /// As above.
    SendFailed(usize, String),
    /// As above.
    TransferFailed(usize, String),
}

/// Address of a peer in the table of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(u64);

/// One endpoint of libfabric.
///
/// *Invariant:* fields are dropped in this order: the endpoint before the memory that was lent to it, registrations before
/// the domain. So the registration of the buffers is dropped by hand.
pub struct Device {
    library: &'static Library,
    objects: Objects,
    buffers_registered: Option<Registration>,
    registration: RegistrationRules,
    table: SlotTable,
    inject: usize,
    /// A message that is sent after a write arrives after its bytes.
    ordered_writes: bool,
    largest: usize,
    remote_access: bool,
    wait: WaitObject,
    completions: Completions,
    _description: Description,
}

// SAFETY: objects of the library belong to no thread; `&mut self` lets one thread call at a time, which is what was agreed
// on with the provider (`FI_THREAD_DOMAIN`). Pointers of completions are compared with addresses of contexts, not followed.
unsafe impl Send for Device {}

impl Device {
    /// Opens an endpoint, with the wanted kind of descriptors to sleep on, if the provider has them.
    ///
    /// # Errors
    /// The provider's refusal, as a sentence.
    pub fn open(
        description: Description,
        slots: Slots,
        wanted: Wanted,
        mask: Mask,
    ) -> Result<Self, String> {
        let room = Room {
            peers: slots.peers,
            completions: slots.all() * 2,
        };
        let (objects, wait) = dispositions::kept(|| Objects::open(&description, room, wanted))?;
        let info = description.info();
        // SAFETY: every description has its attributes.
        let (domain, transmit, endpoint) =
            unsafe { (&*info.domain_attr, &*info.tx_attr, &*info.ep_attr) };
        let mut device = Self {
            library: description.library(),
            objects,
            buffers_registered: None,
            registration: RegistrationRules::of(domain).under(mask),
            table: SlotTable::new(slots),
            inject: transmit.inject_size,
            ordered_writes: transmit.msg_order & ORDER_SEND_AFTER_WRITE != 0
                && !mask.ordered_writes,
            largest: endpoint.max_msg_size,
            remote_access: info.caps & RMA != 0 && !mask.remote_access,
            wait,
            completions: Completions::default(),
            _description: description,
        };
        if device.registration.local {
            let all = device.table.memory();
            device.buffers_registered = Some(device.register(&all, Access::Local)?);
        }
        for slot in 0..slots.receives {
            match device.post_receive(slot) {
                Outcome::Begun => {}
                Outcome::Full => return Err("the provider takes fewer buffers than it says".into()),
                Outcome::Refused(reason) => return Err(reason),
            }
        }
        Ok(device)
    }

    /// An address that belongs to nobody, for tests.
    #[cfg(test)]
    pub fn no_address() -> Address {
        Address(UNSPECIFIED)
    }

    /// Where this endpoint can be reached, for the tables of others.
    ///
    /// # Errors
    /// The provider's error.
    pub fn address(&self) -> Result<Vec<u8>, String> {
        let mut address = vec![0; ADDRESS];
        let mut length = address.len();
        let endpoint = self.objects.endpoint;
        // SAFETY: the endpoint is open; at most `length` bytes are written.
        let answer = unsafe {
            ((*(*endpoint).cm).getname)(
                &raw mut (*endpoint).fid,
                address.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if answer != 0 || length > address.len() {
            return Err(format!(
                "libfabric does not say where the endpoint can be reached: {}",
                self.library.error(i64::from(answer))
            ));
        }
        address.truncate(length);
        Ok(address)
    }

    /// Enters the address of a peer.
    ///
    /// # Errors
    /// The provider's error.
    pub fn insert(&mut self, address: &[u8]) -> Result<Address, String> {
        let mut padded = [0; ADDRESS];
        let known = padded.get_mut(..address.len());
        known
            .ok_or("the address is too long")?
            .copy_from_slice(address);
        let mut entered = UNSPECIFIED;
        let table = self.objects.addresses;
        // SAFETY: the table is open; the address has at least the length of the provider's, because more is there; one
        // number is written.
        let count = unsafe {
            ((*(*table).ops).insert)(
                table,
                padded.as_ptr().cast(),
                1,
                &raw mut entered,
                0,
                ptr::null_mut(),
            )
        };
        match count {
            1 => Ok(Address(entered)),
            refused => Err(self.library.error(i64::from(refused))),
        }
    }

    /// The descriptors that become readable when something is to be read, if the provider has any.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // SAFETY: they belong to the queue, which lives as long as `self`.
        unsafe { self.wait.descriptors() }
    }

    /// Whether it has any.
    #[inline]
    pub fn has_descriptors(&self) -> bool {
        self.wait.is_some()
    }

    /// Whether these are descriptors outside of any set of the provider, which cost each message something
    /// while they are watched.
    pub fn has_own_descriptors(&self) -> bool {
        self.wait.is_own()
    }

    /// Whether the descriptors have changed since [those reported](Self::descriptors).
    pub fn are_descriptors_stale(&self) -> bool {
        // SAFETY: the queue is open, and that of the wait object.
        unsafe { self.wait.is_stale(self.objects.queue) }
    }

    /// Reads the present descriptors.
    pub fn renew_descriptors(&mut self) {
        // SAFETY: as above.
        unsafe { self.wait.renew(self.objects.queue) };
    }

    /// Whether it is safe to sleep on the descriptors now: nothing has arrived that they would not report.
    pub fn may_sleep(&mut self) -> bool {
        if !self.wait.is_some() || !self.completions.are_taken() {
            return false;
        }
        let fabric = self.objects.fabric;
        let mut queue = self.objects.queue.cast::<Fid>();
        // SAFETY: both are open; the array has one element.
        unsafe { ((*(*fabric).ops).trywait)(fabric, &raw mut queue, 1) == 0 }
    }

    /// How many bytes can be sent without a buffer.
    #[inline]
    pub fn inject_limit(&self) -> usize {
        self.inject
    }

    /// Most bytes of one transfer.
    pub fn largest_transfer(&self) -> usize {
        self.largest
    }

    /// Whether memory of peers can be read and written.
    pub fn has_remote_access(&self) -> bool {
        self.remote_access
    }

    /// Whether a message that is sent after a write arrives after its bytes.
    pub fn has_ordered_writes(&self) -> bool {
        self.ordered_writes
    }

    /// Sends a few bytes; a completion follows only if that fails.
    #[inline]
    pub fn inject(&mut self, to: Address, bytes: &[u8]) -> Outcome {
        let endpoint = self.objects.endpoint;
        // SAFETY: the endpoint is open; the bytes are the caller's again on return.
        let answer = unsafe {
            ((*(*endpoint).msg).inject)(endpoint, bytes.as_ptr().cast(), bytes.len(), to.0)
        };
        self.outcome(answer)
    }

    /// The buffer for a message, of a slot in which nothing is under way.
    ///
    /// # Panics
    /// If it is not a send slot.
    #[inline]
    pub fn send_buffer(&mut self, slot: usize) -> &mut [u8] {
        self.table.send_buffer(slot)
    }

    /// Sends the first bytes of the buffer of a slot, which belongs to the provider until [`Event::Sent`] or
    /// [`Event::SendFailed`].
    pub fn send(&mut self, to: Address, slot: usize, length: usize) -> Outcome {
        let buffer = self.table.send_buffer(slot);
        let (start, length) = (buffer.as_ptr(), length.min(buffer.len()));
        let context = self.table.context(Slot::Send(slot));
        let endpoint = self.objects.endpoint;
        // SAFETY: the endpoint is open; the caller's slot was free, so buffer and context are the provider's until the
        // completion.
        let answer = unsafe {
            ((*(*endpoint).msg).send)(
                endpoint,
                start.cast(),
                length,
                self.buffer_descriptor(),
                to.0,
                context,
            )
        };
        self.outcome(answer)
    }

    /// The bytes that arrived in a slot, until it is posted again.
    #[inline]
    pub fn received(&self, slot: usize, length: usize) -> &[u8] {
        let buffer = self.table.received(slot);
        &buffer[..length.min(buffer.len())]
    }

    /// Gives a receive buffer back to the provider.
    #[inline]
    pub fn post_receive(&mut self, slot: usize) -> Outcome {
        let buffer = self.table.receive_buffer(slot);
        let (start, length) = (buffer.as_mut_ptr(), buffer.len());
        let context = self.table.context(Slot::Receive(slot));
        let endpoint = self.objects.endpoint;
        // SAFETY: the endpoint is open; the slot's operation has completed, or there was none, so buffer and context are
        // the provider's until the next completion.
        let answer = unsafe {
            ((*(*endpoint).msg).recv)(
                endpoint,
                start.cast(),
                length,
                self.buffer_descriptor(),
                UNSPECIFIED,
                context,
            )
        };
        self.outcome(answer)
    }

    /// Whether own transfers need registered memory.
    pub fn registers_own_memory(&self) -> bool {
        self.registration.local
    }

    /// Registers memory.
    ///
    /// # Errors
    /// The provider's error.
    pub fn register(&self, memory: &Region, access: Access) -> Result<Registration, String> {
        let objects = (self.objects.domain, self.objects.endpoint);
        // SAFETY: both are open; the registering caller drops it before `self`, or after `stop`.
        unsafe {
            self.registration
                .register(self.library, objects, memory, access)
        }
    }

    /// Queries the provider once for completions, unless some of the last query are left. The provider also
    /// progresses in this call.
    #[inline]
    pub fn ask(&mut self) {
        // SAFETY: the queue is open, in this format; `&mut self` is the only one to ask it.
        unsafe { self.completions.ask(self.objects.queue) };
    }

    /// The next completion of the last query.
    #[inline]
    pub fn next(&mut self) -> Option<Event> {
        loop {
            // SAFETY: as for `ask`.
            let taken = unsafe { self.completions.take(self.objects.queue, self.library) };
            if let Some(event) = self.event(taken?) {
                return Some(event);
            }
        }
    }

    /// The meaning of a completion, if it belongs to a slot.
    #[inline]
    fn event(&self, completion: Completion) -> Option<Event> {
        let slot = self.table.slot(completion.context)?;
        Some(match (slot, completion.failure) {
            (Slot::Receive(slot), None) => Event::Received(slot, completion.length),
            (Slot::Receive(slot), Some(_)) => Event::ReceiveFailed(slot),
            (Slot::Send(slot), None) => Event::Sent(slot),
            (Slot::Send(slot), Some(reason)) => Event::SendFailed(slot, reason),
            (Slot::Transfer(slot), None) => Event::Transferred(slot),
            (Slot::Transfer(slot), Some(reason)) => Event::TransferFailed(slot, reason),
        })
    }

    /// Closes the endpoint: from then on nothing is under way in any memory, and registrations may end. It must not be
    /// used afterwards.
    pub fn stop(&mut self) {
        self.objects.close_endpoint();
    }

    #[inline]
    fn buffer_descriptor(&self) -> *mut c_void {
        let registered = self.buffers_registered.as_ref();
        registered.map_or(ptr::null_mut(), Registration::descriptor)
    }

    #[inline]
    fn outcome(&self, answer: isize) -> Outcome {
        match answer {
            0 => Outcome::Begun,
            _ if answer == -EAGAIN => Outcome::Full,
            refused => Outcome::Refused(self.library.error(refused as i64)),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop();
        self.buffers_registered = None;
    }
}
