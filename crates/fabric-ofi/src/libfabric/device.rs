//! Device: one endpoint of libfabric with its completion queue, its table of addresses, and the buffers that
//! stand ready for what arrives and for what leaves.
//!
//! ```text
//!   slots   0 ..receives            a buffer each, posted until something arrives, and again when it was looked at
//!           .. + sends              a buffer each, taken until what it holds has left
//!           .. + transfers          reads and writes of remote memory under way
//! ```
//!
//! Each slot lends the provider a [`Context`] with its operation; a completion names it, and the address says which
//! slot it is. One thread calls at a time (`&mut self`); where to sleep is a descriptor that anybody may watch.
//!
//! # Memory
//! Buffers belong to the provider from the call that posts them until their completion; the slots say whose they are. Memory of
//! others ([`Region`]) is lent for one transfer, from [`Device::write`] or [`Device::read`] to its completion, by the promise
//! that was made to [`Region::new`].

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr;

use weft_fabric::Region;

use super::infos::Description;
use super::layout::{
    AvAttr, AvOps, COMPLETION, CQ_FORMAT_MSG, CmOps, Context, CqAttr, CqEntry, CqErrEntry, CqOps,
    DELIVERY_COMPLETE, DomainOps, EAGAIN, EAVAIL, ENABLE, FabricOps, Fid, FidAv, FidCq, FidDomain,
    FidEp, FidFabric, FidMr, GETWAIT, IoVector, MR_ENDPOINT, MR_LOCAL, MR_PROV_KEY, MR_VIRT_ADDR,
    MrOps, MsgOps, ORDER_SEND_AFTER_WRITE, READ, RECEIVE, REMOTE_READ, REMOTE_WRITE, RemoteVector,
    RmaMessage, RmaOps, SEND, TRANSMIT, WAIT_FD, WAIT_NONE, WRITE,
};
use super::library::Library;

/// Completions that one call reads, at most.
const AT_ONCE: usize = 16;

/// Longest address of an endpoint.
const ADDRESS: usize = 256;

/// From anybody.
const UNSPECIFIED: u64 = u64::MAX;

/// How many slots there are of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Buffers for what arrives.
    pub receives: usize,
    /// Buffers for what leaves.
    pub sends: usize,
    /// Transfers under way.
    pub transfers: usize,
    /// Bytes of a buffer.
    pub buffer: usize,
    /// Addresses that there will be.
    pub peers: usize,
}

/// What became of an operation that was posted.
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
    /// So many bytes have arrived in the buffer of this slot.
    Received(usize, usize),
    /// What this slot held has left.
    Sent(usize),
    /// The transfer of this slot is complete.
    Transferred(usize),
    /// What a slot was used for has failed.
    ReceiveFailed(usize),
    /// As above.
    SendFailed(usize, String),
    /// As above.
    TransferFailed(usize, String),
}

/// Address of a peer in the table of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(u64);

/// Remote memory, as its owner has told: where, and by which key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RemoteMemory {
    /// Where it starts, as the provider counts.
    pub address: u64,
    /// The key by which it is reached.
    pub key: u64,
}

/// Memory that is registered with the network card, until this is dropped.
pub struct Registration {
    mr: *mut FidMr,
    remote: RemoteMemory,
}

// SAFETY: a registration is an object of the library that belongs to no thread; one thread at a time has it.
unsafe impl Send for Registration {}

impl Registration {
    /// What a peer must know to reach it.
    pub fn remote(&self) -> RemoteMemory {
        self.remote
    }

    fn descriptor(&self) -> *mut c_void {
        // SAFETY: the object lives until `self` is dropped.
        unsafe { (*self.mr).mem_desc }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; the domain lives longer, as `Device` says.
        unsafe { close(&raw mut (*self.mr).fid) };
    }
}

/// What may be done with registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Own transfers read and write it.
    Local,
    /// Peers read it.
    RemoteRead,
    /// Peers write it.
    RemoteWrite,
}

/// Objects of the library, closed in the order in which the fields stand.
struct Objects {
    endpoint: *mut FidEp,
    queue: *mut FidCq,
    addresses: *mut FidAv,
    domain: *mut FidDomain,
    fabric: *mut FidFabric,
}

impl Drop for Objects {
    fn drop(&mut self) {
        let objects = [
            self.endpoint.cast::<Fid>(),
            self.queue.cast(),
            self.addresses.cast(),
            self.domain.cast(),
            self.fabric.cast(),
        ];
        for object in objects.into_iter().filter(|object| !object.is_null()) {
            // SAFETY: each was opened once and begins with its `Fid`; what was opened of it is closed already.
            unsafe { close(object) };
        }
    }
}

/// A table of functions says that it has so many bytes: enough for those that are used?
fn has_all<Table>(size: usize) -> Result<(), String> {
    match size >= size_of::<Table>() {
        true => Ok(()),
        false => Err("libfabric's provider is older than the library; install both anew".into()),
    }
}

/// # Safety
/// An open object, which nobody uses any more.
unsafe fn close(object: *mut Fid) {
    // SAFETY: as the caller says. What it answers changes nothing.
    unsafe { ((*(*object).ops).close)(object) };
}

/// One endpoint of libfabric.
///
/// *Invariant:* fields are dropped in this order: the endpoint before the memory that was lent to it, registrations before
/// the domain. So the registration of the buffers is dropped by hand.
pub struct Device {
    library: &'static Library,
    objects: Objects,
    buffers_registered: Option<Registration>,
    registration: RegistrationRules,
    contexts: Box<[Context]>,
    buffers: Box<[u8]>,
    slots: Slots,
    inject: usize,
    /// A message that is sent after a write arrives after its bytes.
    ordered_writes: bool,
    largest: usize,
    wait: Option<c_int>,
    read: [CqEntry; AT_ONCE],
    unread: std::ops::Range<usize>,
    /// The queue has a failure to tell of.
    has_failed: bool,
    _description: Description,
}

/// How the provider wants memory to be registered.
#[derive(Clone, Copy)]
struct RegistrationRules {
    local: bool,
    by_address: bool,
    key_given: bool,
    key_mask: u64,
    with_endpoint: bool,
}

// SAFETY: objects of the library belong to no thread; `&mut self` lets one thread call at a time, which is what was agreed
// on with the provider (`FI_THREAD_DOMAIN`). The pointers in `read` are compared with addresses of `contexts`, not followed.
unsafe impl Send for Device {}

impl Device {
    /// Opens an endpoint, with a descriptor to sleep on if `sleeps` and the provider has one.
    ///
    /// # Errors
    /// What the provider refuses, as a sentence.
    pub fn open(description: Description, slots: Slots, sleeps: bool) -> Result<Self, String> {
        let library = description.library();
        let provider = description.provider();
        let check = |what: &str, answer: c_int| match answer {
            0 => Ok(()),
            refused => Err(format!(
                "provider {provider} of libfabric refuses {what}: {}",
                library.error(i64::from(refused))
            )),
        };
        let info = description.as_ptr();
        let mut objects = Objects {
            endpoint: ptr::null_mut(),
            queue: ptr::null_mut(),
            addresses: ptr::null_mut(),
            domain: ptr::null_mut(),
            fabric: ptr::null_mut(),
        };
        let mut wait = sleeps.then_some(0);
        // SAFETY: the description was made by the library and has its attributes; each object is used after it was opened,
        // by the functions of its own table, as libfabric's manual says (fi_fabric, fi_domain, fi_cq, fi_av, fi_endpoint).
        unsafe {
            let attributes = (*info).fabric_attr;
            check(
                "a fabric",
                (library.open_fabric)(attributes, &raw mut objects.fabric, ptr::null_mut()),
            )?;
            let fabric = objects.fabric;
            check(
                "a domain",
                ((*(*fabric).ops).domain)(fabric, info, &raw mut objects.domain, ptr::null_mut()),
            )?;
            let domain = objects.domain;
            has_all::<FabricOps>((*(*fabric).ops).size)?;
            has_all::<DomainOps>((*(*domain).ops).size)?;
            has_all::<MrOps>((*(*domain).mr).size)?;
            let mut attributes = AvAttr {
                kind: 0,
                rx_ctx_bits: 0,
                count: slots.peers,
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: ptr::null_mut(),
                flags: 0,
            };
            check(
                "a table of addresses",
                ((*(*domain).ops).av_open)(
                    domain,
                    &raw mut attributes,
                    &raw mut objects.addresses,
                    ptr::null_mut(),
                ),
            )?;
            let mut attributes = CqAttr {
                size: (slots.receives + slots.sends + slots.transfers) * 2,
                flags: 0,
                format: CQ_FORMAT_MSG,
                wait_obj: if sleeps { WAIT_FD } else { WAIT_NONE },
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            let open = (*(*domain).ops).cq_open;
            let queue = &raw mut objects.queue;
            if open(domain, &raw mut attributes, queue, ptr::null_mut()) != 0 {
                attributes.wait_obj = WAIT_NONE;
                wait = None;
                check(
                    "a completion queue",
                    open(domain, &raw mut attributes, queue, ptr::null_mut()),
                )?;
            }
            check(
                "an endpoint",
                ((*(*domain).ops).endpoint)(
                    domain,
                    info,
                    &raw mut objects.endpoint,
                    ptr::null_mut(),
                ),
            )?;
            let endpoint = objects.endpoint;
            has_all::<MsgOps>((*(*endpoint).msg).size)?;
            has_all::<RmaOps>((*(*endpoint).rma).size)?;
            has_all::<CmOps>((*(*endpoint).cm).size)?;
            has_all::<CqOps>((*(*objects.queue).ops).size)?;
            has_all::<AvOps>((*(*objects.addresses).ops).size)?;
            let endpoint = endpoint.cast::<Fid>();
            let bind = (*(*endpoint).ops).bind;
            check(
                "to join addresses and endpoint",
                bind(endpoint, objects.addresses.cast(), 0),
            )?;
            check(
                "to join completions and endpoint",
                bind(endpoint, objects.queue.cast(), TRANSMIT | RECEIVE),
            )?;
            check(
                "to enable the endpoint",
                ((*(*endpoint).ops).control)(endpoint, ENABLE, ptr::null_mut()),
            )?;
            if let Some(descriptor) = &mut wait {
                let queue = objects.queue.cast::<Fid>();
                let asked: *mut c_int = descriptor;
                let answer = ((*(*queue).ops).control)(queue, GETWAIT, asked.cast());
                if answer != 0 {
                    wait = None;
                }
            }
        }
        let info = description.info();
        // SAFETY: every description has its attributes.
        let (domain, transmit, endpoint) =
            unsafe { (&*info.domain_attr, &*info.tx_attr, &*info.ep_attr) };
        let count = slots.receives + slots.sends + slots.transfers;
        let key_bits = domain.mr_key_size.min(8) as u32 * 8;
        let mut device = Self {
            library,
            objects,
            buffers_registered: None,
            registration: RegistrationRules {
                local: domain.mr_mode & MR_LOCAL != 0,
                by_address: domain.mr_mode & MR_VIRT_ADDR != 0,
                key_given: domain.mr_mode & MR_PROV_KEY != 0,
                key_mask: u64::MAX.checked_shr(64 - key_bits).unwrap_or(u64::MAX),
                with_endpoint: domain.mr_mode & MR_ENDPOINT != 0,
            },
            contexts: vec![Context([0; 8]); count].into_boxed_slice(),
            buffers: vec![0; (slots.receives + slots.sends) * slots.buffer].into_boxed_slice(),
            slots,
            inject: transmit.inject_size,
            ordered_writes: transmit.msg_order & ORDER_SEND_AFTER_WRITE != 0,
            largest: endpoint.max_msg_size,
            wait,
            read: [CqEntry {
                op_context: ptr::null_mut(),
                flags: 0,
                len: 0,
            }; AT_ONCE],
            unread: 0..0,
            has_failed: false,
            _description: description,
        };
        if device.registration.local {
            let (start, length) = (device.buffers.as_mut_ptr(), device.buffers.len());
            // SAFETY: the buffers live as long as the registration, and are used as their slots say.
            let all = unsafe { Region::new(start, length) };
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

    /// An address of nobody, for tests.
    #[cfg(test)]
    pub fn no_address() -> Address {
        Address(UNSPECIFIED)
    }

    /// Where this endpoint can be reached, for the tables of others.
    ///
    /// # Errors
    /// What the provider says.
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
    /// What the provider says.
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

    /// The descriptor that is readable when something is to be read, if the provider has one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: it belongs to the queue, which lives as long as `self`.
        self.wait
            .map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Whether it is safe to sleep on the descriptor now: nothing has come that it would not tell of.
    pub fn may_sleep(&mut self) -> bool {
        if self.wait.is_none() || !self.unread.is_empty() || self.has_failed {
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

    /// Whether a message that is sent after a write arrives after its bytes.
    pub fn has_ordered_writes(&self) -> bool {
        self.ordered_writes
    }

    /// Sends a few bytes, of which nothing more is heard unless it fails.
    #[inline]
    pub fn inject(&mut self, to: Address, bytes: &[u8]) -> Outcome {
        let endpoint = self.objects.endpoint;
        // SAFETY: the endpoint is open; the bytes are the caller's again on return.
        let answer = unsafe {
            ((*(*endpoint).msg).inject)(endpoint, bytes.as_ptr().cast(), bytes.len(), to.0)
        };
        self.outcome(answer)
    }

    /// The buffer of a slot that nothing is under way in, for what is to be sent.
    ///
    /// # Panics
    /// If it is no slot of what leaves.
    pub fn send_buffer(&mut self, slot: usize) -> &mut [u8] {
        assert!(slot < self.slots.sends);
        let start = (self.slots.receives + slot) * self.slots.buffer;
        &mut self.buffers[start..start + self.slots.buffer]
    }

    /// Sends the first bytes of the buffer of a slot, which belongs to the provider until [`Event::Sent`] or
    /// [`Event::SendFailed`].
    pub fn send(&mut self, to: Address, slot: usize, length: usize) -> Outcome {
        let length = length.min(self.slots.buffer);
        let start = self.send_buffer(slot).as_ptr();
        let context = self.context(self.slots.receives + slot);
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

    /// What has arrived in a slot, until it is posted again.
    #[inline]
    pub fn received(&self, slot: usize, length: usize) -> &[u8] {
        let start = slot * self.slots.buffer;
        &self.buffers[start..start + length.min(self.slots.buffer)]
    }

    /// Gives a buffer for what arrives to the provider again.
    #[inline]
    pub fn post_receive(&mut self, slot: usize) -> Outcome {
        let start = slot * self.slots.buffer;
        let buffer = self.buffers[start..start + self.slots.buffer].as_mut_ptr();
        let context = self.context(slot);
        let endpoint = self.objects.endpoint;
        // SAFETY: the endpoint is open; the slot's operation has completed, or there was none, so buffer and context are
        // the provider's until the next completion.
        let answer = unsafe {
            ((*(*endpoint).msg).recv)(
                endpoint,
                buffer.cast(),
                self.slots.buffer,
                self.buffer_descriptor(),
                UNSPECIFIED,
                context,
            )
        };
        self.outcome(answer)
    }

    /// Writes `from` to remote memory. With [ordered writes](Self::has_ordered_writes) complete when `from` is free again,
    /// else when the bytes have arrived.
    pub fn write(
        &mut self,
        (to, slot): (Address, usize),
        from: &Region,
        registered: Option<&Registration>,
        into: RemoteMemory,
    ) -> Outcome {
        let context = self.transfer_context(slot);
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

    /// Reads remote memory into `into`; complete when it is there.
    pub fn read(
        &mut self,
        (from, slot): (Address, usize),
        into: &Region,
        registered: Option<&Registration>,
        remote: RemoteMemory,
    ) -> Outcome {
        let context = self.transfer_context(slot);
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

    /// Whether own transfers need registered memory.
    pub fn registers_own_memory(&self) -> bool {
        self.registration.local
    }

    /// Registers memory.
    ///
    /// # Errors
    /// What the provider says.
    pub fn register(&self, memory: &Region, access: Access) -> Result<Registration, String> {
        let rules = self.registration;
        let wanted = match access {
            Access::Local => SEND | RECEIVE | READ | WRITE,
            Access::RemoteRead => REMOTE_READ,
            Access::RemoteWrite => REMOTE_WRITE,
        };
        // Nobody guesses what the kernel draws.
        let drawn: [u8; 8] =
            weft_sys::random::bytes().map_err(|error| format!("no key for memory: {error}"))?;
        let key = match rules.key_given {
            true => 0,
            false => u64::from_le_bytes(drawn) & rules.key_mask,
        };
        let domain = self.objects.domain;
        let mut mr = ptr::null_mut();
        let refused = |answer: c_int| {
            format!(
                "libfabric refuses to register {} bytes of memory: {}",
                memory.len(),
                self.library.error(i64::from(answer))
            )
        };
        // SAFETY: the domain is open; the memory is valid as long as it is used through the registration, as promised to
        // `Region::new`; an object is written.
        let answer = unsafe {
            ((*(*domain).mr).reg)(
                &raw mut (*domain).fid,
                memory.as_ptr().cast(),
                memory.len(),
                wanted,
                0,
                key,
                0,
                &raw mut mr,
                ptr::null_mut(),
            )
        };
        if answer != 0 || mr.is_null() {
            return Err(refused(answer));
        }
        // SAFETY: an open object.
        let key = unsafe { (*mr).key };
        let registration = Registration {
            mr,
            remote: RemoteMemory {
                address: match rules.by_address {
                    true => memory.as_ptr().addr() as u64,
                    false => 0,
                },
                key,
            },
        };
        if rules.with_endpoint {
            // SAFETY: both objects are open.
            let answer = unsafe {
                let fid = &raw mut (*mr).fid;
                let bound = ((*(*fid).ops).bind)(fid, self.objects.endpoint.cast(), 0);
                match bound {
                    0 => ((*(*fid).ops).control)(fid, ENABLE, ptr::null_mut()),
                    refused => refused,
                }
            };
            if answer != 0 {
                return Err(refused(answer));
            }
        }
        Ok(registration)
    }

    /// Asks the provider once for completions, unless some of the last answer are left; it does its own work meanwhile, which
    /// over the kernel's network is a system call or two.
    #[inline]
    pub fn ask(&mut self) {
        if !self.unread.is_empty() {
            return;
        }
        let queue = self.objects.queue;
        let read = self.read.as_mut_ptr();
        // SAFETY: the queue is open; at most so many entries are written.
        let count = unsafe { ((*(*queue).ops).read)(queue, read, AT_ONCE) };
        match usize::try_from(count) {
            Ok(count) => self.unread = 0..count.min(AT_ONCE),
            Err(_) => self.has_failed = count == -EAVAIL,
        }
    }

    /// The next completion of the last answer.
    #[inline]
    pub fn next(&mut self) -> Option<Event> {
        while let Some(index) = self.unread.next() {
            let entry = self.read[index];
            if let Some(event) = self.event(entry.op_context, entry.len) {
                return Some(event);
            }
        }
        match self.has_failed {
            true => self.failure(),
            false => None,
        }
    }

    fn event(&self, context: *mut c_void, length: usize) -> Option<Event> {
        let slot = self.slot(context)?;
        let Slots {
            receives, sends, ..
        } = self.slots;
        Some(match slot {
            _ if slot < receives => Event::Received(slot, length),
            _ if slot < receives + sends => Event::Sent(slot - receives),
            _ => Event::Transferred(slot - receives - sends),
        })
    }

    /// What the queue says has failed, if that is an operation of a slot.
    #[cold]
    fn failure(&mut self) -> Option<Event> {
        self.has_failed = false;
        let mut entry = CqErrEntry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: ptr::null_mut(),
            err_data_size: 0,
            more: [0; 4],
        };
        let queue = self.objects.queue;
        let mut text = [0; 128];
        // SAFETY: the queue is open; one entry is written, and at most so many bytes of text, which is null or ends.
        let said = unsafe {
            if ((*(*queue).ops).readerr)(queue, &raw mut entry, 0) < 0 {
                return None;
            }
            let said = ((*(*queue).ops).strerror)(
                queue,
                entry.prov_errno,
                entry.err_data,
                text.as_mut_ptr(),
                text.len(),
            );
            match said.is_null() {
                true => String::new(),
                false => CStr::from_ptr(said).to_string_lossy().into_owned(),
            }
        };
        let error = self.library.error(i64::from(entry.err));
        let reason = match said.is_empty() || said == error {
            true => error,
            false => format!("{error} ({said})"),
        };
        let event = self.event(entry.op_context, 0)?;
        Some(match event {
            Event::Received(slot, _) => Event::ReceiveFailed(slot),
            Event::Sent(slot) => Event::SendFailed(slot, reason),
            Event::Transferred(slot) => Event::TransferFailed(slot, reason),
            other => other,
        })
    }

    /// Closes the endpoint: nothing is under way in any memory from then on, whose registrations may end. Not to be used
    /// any more.
    pub fn stop(&mut self) {
        let endpoint = std::mem::replace(&mut self.objects.endpoint, ptr::null_mut());
        if !endpoint.is_null() {
            // SAFETY: open until now, and not used any more.
            unsafe { close(endpoint.cast()) };
        }
    }

    #[inline]
    fn context(&mut self, slot: usize) -> *mut c_void {
        (&raw mut self.contexts[slot]).cast()
    }

    fn transfer_context(&mut self, slot: usize) -> *mut c_void {
        self.context(self.slots.receives + self.slots.sends + slot)
    }

    /// The slot of a context that was lent.
    #[inline]
    fn slot(&self, context: *mut c_void) -> Option<usize> {
        let offset = context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let slot = offset / size_of::<Context>();
        (slot < self.contexts.len()).then_some(slot)
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
