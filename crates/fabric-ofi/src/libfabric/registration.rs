//! Registration: memory that the network card may reach, and the rules by which a provider wants it.
//!
//! *Invariant:* a registration is dropped before the domain that it belongs to, and after the endpoint that may use it.

use std::ffi::{c_int, c_void};
use std::ptr;

use weft_fabric::Region;

use super::layout::{DomainAttr, FidDomain, FidEp, FidMr};
use super::library::Library;
use super::mask::Mask;
use super::numbers::{
    ENABLE, MR_ENDPOINT, MR_LOCAL, MR_PROV_KEY, MR_VIRT_ADDR, READ, RECEIVE, REMOTE_READ,
    REMOTE_WRITE, SEND, WRITE,
};
use super::objects::close;

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

    /// What the provider wants to be told of it in own transfers.
    pub(super) fn descriptor(&self) -> *mut c_void {
        // SAFETY: the object lives until `self` is dropped.
        unsafe { (*self.mr).mem_desc }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; the domain lives longer, as whoever registered has promised.
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

/// How the provider wants memory to be registered.
#[derive(Clone, Copy)]
pub struct RegistrationRules {
    /// Own transfers need registered memory.
    pub local: bool,
    by_address: bool,
    key_given: bool,
    key_mask: u64,
    with_endpoint: bool,
}

impl RegistrationRules {
    /// Those of a domain.
    pub fn of(domain: &DomainAttr) -> Self {
        let key_bits = domain.mr_key_size.min(8) as u32 * 8;
        Self {
            local: domain.mr_mode & MR_LOCAL != 0,
            by_address: domain.mr_mode & MR_VIRT_ADDR != 0,
            key_given: domain.mr_mode & MR_PROV_KEY != 0,
            key_mask: u64::MAX.checked_shr(64 - key_bits).unwrap_or(u64::MAX),
            with_endpoint: domain.mr_mode & MR_ENDPOINT != 0,
        }
    }

    /// Those of a provider that has not what the mask says.
    pub fn under(mut self, mask: Mask) -> Self {
        self.local |= mask.unregistered;
        if mask.long_keys {
            self.key_mask &= u64::from(u32::MAX);
        }
        self
    }

    /// Registers memory with a domain, for an endpoint of it.
    ///
    /// # Errors
    /// What the provider says.
    ///
    /// # Safety
    /// Both are open, and stay so until the registration is dropped (the endpoint: until it is used no more).
    pub unsafe fn register(
        self,
        library: &Library,
        (domain, endpoint): (*mut FidDomain, *mut FidEp),
        memory: &Region,
        access: Access,
    ) -> Result<Registration, String> {
        let wanted = match access {
            Access::Local => SEND | RECEIVE | READ | WRITE,
            Access::RemoteRead => REMOTE_READ,
            Access::RemoteWrite => REMOTE_WRITE,
        };
        // Nobody guesses what the kernel draws.
        let drawn: [u8; 8] =
            weft_sys::random::bytes().map_err(|error| format!("no key for memory: {error}"))?;
        let key = match self.key_given {
            true => 0,
            false => u64::from_le_bytes(drawn) & self.key_mask,
        };
        let mut mr = ptr::null_mut();
        let refused = |answer: c_int| {
            format!(
                "libfabric refuses to register {} bytes of memory: {}",
                memory.len(),
                library.error(i64::from(answer))
            )
        };
        // SAFETY: the domain is open, as the caller says; the memory is valid as long as it is used through the registration, as promised to
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
                address: match self.by_address {
                    true => memory.as_ptr().addr() as u64,
                    false => 0,
                },
                key,
            },
        };
        if self.with_endpoint {
            // SAFETY: both objects are open.
            let answer = unsafe {
                let fid = &raw mut (*mr).fid;
                let bound = ((*(*fid).ops).bind)(fid, endpoint.cast(), 0);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(mr_mode: c_int, mr_key_size: usize) -> DomainAttr {
        DomainAttr {
            domain: ptr::null_mut(),
            name: ptr::null_mut(),
            threading: 0,
            control_progress: 0,
            data_progress: 0,
            resource_mgmt: 0,
            av_type: 0,
            mr_mode,
            mr_key_size,
        }
    }

    #[test]
    fn keys_have_as_many_bits_as_the_provider_takes() {
        for (bytes, mask) in [(8, u64::MAX), (12, u64::MAX), (4, 0xFFFF_FFFF), (1, 0xFF)] {
            assert_eq!(
                RegistrationRules::of(&domain(0, bytes)).key_mask,
                mask,
                "{bytes}"
            );
        }
    }

    #[test]
    fn rules_are_those_of_the_domain() {
        let rules = RegistrationRules::of(&domain(MR_LOCAL | MR_ENDPOINT, 8));
        assert!(rules.local && rules.with_endpoint && !rules.by_address && !rules.key_given);
        let rules = RegistrationRules::of(&domain(MR_VIRT_ADDR | MR_PROV_KEY, 8));
        assert!(!rules.local && !rules.with_endpoint && rules.by_address && rules.key_given);
    }
}
