//! Registration: memory that the network card may reach, and the provider's rules for it.
//!
//! *Invariant:* a registration is dropped before the domain that it belongs to, and after the endpoint that may use it.

use std::ffi::{c_int, c_void};
use std::ptr;

use weft_fabric::Region;

use super::layout::{DomainAttr, FidDomain, FidEp, FidMr};
use super::library::Library;
use super::mask::Mask;
use super::numbers::{
    ENABLE, KEY_NOT_AVAILABLE, MR_BASIC, MR_ENDPOINT, MR_LOCAL, MR_PROV_KEY, MR_VIRT_ADDR, READ,
    RECEIVE, REMOTE_READ, REMOTE_WRITE, SEND, WRITE,
};
use super::objects::close;

/// Remote memory, as its owner has published it: address and key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RemoteMemory {
    /// Where it starts, as the provider counts addresses.
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
    /// The data that a peer needs to access it.
    pub fn remote(&self) -> RemoteMemory {
        self.remote
    }

    /// The descriptor that the provider wants in own transfers.
    pub(super) fn descriptor(&self) -> *mut c_void {
        // SAFETY: the object lives until `self` is dropped.
        unsafe { (*self.mr).mem_desc }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; the domain lives longer, as the caller of the registration has
        // promised.
        unsafe { close(&raw mut (*self.mr).fid) };
    }
}

/// Permitted access to registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Own transfers read and write it.
    Local,
    /// Peers read it.
    RemoteRead,
    /// Peers write it.
    RemoteWrite,
}

/// The provider's rules for registering memory.
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
    /// The rules of a domain.
    pub fn of(domain: &DomainAttr) -> Self {
        let key_bits = domain.mr_key_size.min(8) as u32 * 8;
        let asks_for = |mode: c_int| domain.mr_mode & mode != 0;
        Self {
            local: asks_for(MR_LOCAL),
            by_address: asks_for(MR_VIRT_ADDR | MR_BASIC),
            key_given: asks_for(MR_PROV_KEY | MR_BASIC),
            key_mask: u64::MAX.checked_shr(64 - key_bits).unwrap_or(u64::MAX),
            with_endpoint: asks_for(MR_ENDPOINT),
        }
    }

    /// The rules of a provider without what the mask leaves out.
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
    /// The provider's error.
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
        // Random bytes of the kernel cannot be guessed.
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
        let mut registration = Registration {
            mr,
            remote: RemoteMemory {
                address: match self.by_address {
                    true => memory.as_ptr().addr() as u64,
                    false => 0,
                },
                key: KEY_NOT_AVAILABLE,
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
        // SAFETY: an open object. With an endpoint it has its key only now.
        registration.remote.key = unsafe { (*mr).key };
        if access != Access::Local && registration.remote.key == KEY_NOT_AVAILABLE {
            return Err("libfabric has registered memory and does not say its key".into());
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

    #[test]
    fn one_bit_of_older_providers_says_both() {
        let rules = RegistrationRules::of(&domain(MR_BASIC, 8));
        assert!(rules.by_address && rules.key_given && !rules.local && !rules.with_endpoint);
    }

    /// A provider that assigns the key of memory only when the memory is enabled with an endpoint, as cxi
    /// does.
    mod late_keys {
        use super::*;
        use crate::libfabric::layout::{Fid, FidOps, MrOps};

        const KEY: u64 = 0xFFFF_FFFF_0000_0001;

        unsafe extern "C" fn close_memory(object: *mut Fid) -> c_int {
            // SAFETY: made by `register_memory`, closed once.
            drop(unsafe { Box::from_raw(object.cast::<FidMr>()) });
            0
        }

        unsafe extern "C" fn bind(object: *mut Fid, to: *mut Fid, _: u64) -> c_int {
            // SAFETY: an object of `register_memory`.
            unsafe { (*object).context = to.cast() };
            0
        }

        unsafe extern "C" fn enable(object: *mut Fid, command: c_int, _: *mut c_void) -> c_int {
            // SAFETY: as above.
            unsafe {
                if command != ENABLE || (*object).context.is_null() {
                    return -22;
                }
                (*object.cast::<FidMr>()).key = KEY;
            }
            0
        }

        static MEMORY: FidOps = FidOps {
            size: size_of::<FidOps>(),
            close: close_memory,
            bind,
            control: enable,
        };

        unsafe extern "C" fn register_memory(
            _: *mut Fid,
            _: *const c_void,
            _: usize,
            _: u64,
            _: u64,
            _: u64,
            _: u64,
            registered: *mut *mut FidMr,
            _: *mut c_void,
        ) -> c_int {
            let memory = Box::new(FidMr {
                fid: Fid {
                    class: 0,
                    context: ptr::null_mut(),
                    ops: &raw const MEMORY,
                },
                mem_desc: ptr::null_mut(),
                key: KEY_NOT_AVAILABLE,
            });
            // SAFETY: the registering caller passes a place for it.
            unsafe { *registered = Box::into_raw(memory) };
            0
        }

        static DOMAIN: MrOps = MrOps {
            size: size_of::<MrOps>(),
            reg: register_memory,
        };

        fn registered(rules: RegistrationRules) -> Option<Result<RemoteMemory, String>> {
            let library = Library::get().ok()?;
            let mut bytes = [0_u8; 64];
            // SAFETY: it lives until the registration is dropped below.
            let memory = unsafe { Region::new(bytes.as_mut_ptr(), bytes.len()) };
            let mut domain = FidDomain {
                fid: Fid {
                    class: 0,
                    context: ptr::null_mut(),
                    ops: &raw const MEMORY,
                },
                ops: ptr::null(),
                mr: &raw const DOMAIN,
            };
            // Only its address is used.
            let mut endpoint = 0_u64;
            let objects = (&raw mut domain, (&raw mut endpoint).cast::<FidEp>());
            // SAFETY: both live until the registration is dropped.
            let made = unsafe { rules.register(library, objects, &memory, Access::RemoteRead) };
            let start = bytes.as_ptr().addr() as u64;
            Some(made.map(|registration| {
                let remote = registration.remote();
                assert_eq!(remote.address, start, "{remote:?}");
                remote
            }))
        }

        #[test]
        fn a_key_is_asked_for_when_memory_is_enabled() {
            let rules = RegistrationRules::of(&domain(MR_BASIC | MR_ENDPOINT, 8));
            if let Some(remote) = registered(rules) {
                assert_eq!(remote.map(|remote| remote.key), Ok(KEY));
            }
        }

        #[test]
        fn memory_without_a_key_is_refused_by_name() {
            let rules = RegistrationRules::of(&domain(MR_BASIC, 8));
            if let Some(remote) = registered(rules) {
                let error = remote.expect_err("no key");
                assert!(error.contains("does not say its key"), "{error}");
            }
        }
    }
}
