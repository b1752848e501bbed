//! Objects of the library that make up one endpoint, each opened from the one before, and closed in reverse
//! order.
//!
//! ```text
//!   fabric ── domain ─┬─ addresses ─┐
//!                     ├─ queue ─────┼─ endpoint
//! ```

use std::ffi::c_int;
use std::ptr;

use super::infos::Description;
use super::layout::{
    AvAttr, AvOps, CmOps, CqAttr, CqOps, DomainOps, FabricOps, Fid, FidAv, FidCq, FidDomain, FidEp,
    FidFabric, MrOps, MsgOps, RmaOps,
};
use super::numbers::{CQ_FORMAT_MSG, ENABLE, RECEIVE, RMA, TRANSMIT, WAIT_NONE};
use super::wait::{WaitObject, Wanted};

/// The capacities that are needed.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Addresses.
    pub peers: usize,
    /// Completions that nobody has read yet.
    pub completions: usize,
}

/// Objects of the library, closed in the order of the fields.
pub struct Objects {
    pub endpoint: *mut FidEp,
    pub queue: *mut FidCq,
    pub addresses: *mut FidAv,
    pub domain: *mut FidDomain,
    pub fabric: *mut FidFabric,
}

impl Objects {
    /// Opens the objects; also returns the wait object, of the wanted kind if the provider has it.
    ///
    /// # Errors
    /// The provider's refusal, as a sentence.
    pub fn open(
        description: &Description,
        room: Room,
        wanted: Wanted,
    ) -> Result<(Self, WaitObject), String> {
        match Self::open_with(description, room, wanted)? {
            (objects, Some(wait)) => Ok((objects, wait)),
            (objects, None) => {
                drop(objects);
                let (objects, wait) = Self::open_with(description, room, Wanted::Set)?;
                let wait = wait.ok_or("libfabric has no descriptor to sleep on")?;
                Ok((objects, wait))
            }
        }
    }

    fn open_with(
        description: &Description,
        room: Room,
        wanted: Wanted,
    ) -> Result<(Self, Option<WaitObject>), String> {
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
        let mut objects = Self {
            endpoint: ptr::null_mut(),
            queue: ptr::null_mut(),
            addresses: ptr::null_mut(),
            domain: ptr::null_mut(),
            fabric: ptr::null_mut(),
        };
        let mut kind = WAIT_NONE;
        let wait;
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
                count: room.peers,
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
                size: room.completions,
                flags: 0,
                format: CQ_FORMAT_MSG,
                wait_obj: WAIT_NONE,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            let open = (*(*domain).ops).cq_open;
            let queue = &raw mut objects.queue;
            let mut answer = 0;
            for wanted in wanted.kinds() {
                (kind, attributes.wait_obj) = (*wanted, *wanted);
                answer = open(domain, &raw mut attributes, queue, ptr::null_mut());
                if answer == 0 {
                    break;
                }
            }
            check("a completion queue", answer)?;
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
            if (*info).caps & RMA != 0 {
                has_all::<RmaOps>((*(*endpoint).rma).size)?;
            }
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
            wait = WaitObject::of(objects.queue, kind);
        }
        Ok((objects, wait))
    }

    /// Closes the endpoint before the others: nothing is under way in any memory from then on.
    pub fn close_endpoint(&mut self) {
        let endpoint = std::mem::replace(&mut self.endpoint, ptr::null_mut());
        if !endpoint.is_null() {
            // SAFETY: open until now, and not used any more.
            unsafe { close(endpoint.cast()) };
        }
    }
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

/// Checks that a table of functions, by its own size, has all functions that are used.
fn has_all<Table>(size: usize) -> Result<(), String> {
    match size >= size_of::<Table>() {
        true => Ok(()),
        false => Err("libfabric's provider is older than the library; install both anew".into()),
    }
}

/// # Safety
/// An open object, which nobody uses any more.
pub unsafe fn close(object: *mut Fid) {
    // SAFETY: as the caller says. Its result changes nothing.
    unsafe { ((*(*object).ops).close)(object) };
}
