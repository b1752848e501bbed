//! Infos: what libfabric offers. It is a list of descriptions of endpoints, each with a provider, a domain (a
//! card, an interface) and an address of its own.

use std::ffi::{CStr, CString, c_char};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{self, NonNull};

use super::dispositions;
use super::layout::Info;
use super::library::Library;
use super::mask::Mask;
use super::numbers::{
    ADDRESS_SOCKADDR_IN, ADDRESS_SOCKADDR_IN6, EP_RDM, MODE_CONTEXT, MODE_CONTEXT2, MR_ALLOCATED,
    MR_BASIC, MR_ENDPOINT, MR_LOCAL, MR_PROV_KEY, MR_VIRT_ADDR, MSG, ORDER_SEND_AFTER_SEND, READ,
    RECEIVE, REMOTE_READ, REMOTE_WRITE, RM_ENABLED, RMA, SEND, SOURCE, THREAD_DOMAIN, VERSION,
    WRITE,
};

/// Capabilities that are required.
const MESSAGES: u64 = MSG | RECEIVE | SEND;

/// Capabilities that are used where they exist.
const REMOTE_ACCESS: u64 = RMA | READ | WRITE | REMOTE_READ | REMOTE_WRITE;

/// One description, copied out of a list; memory of the library.
pub struct Description {
    library: &'static Library,
    info: NonNull<Info>,
}

// SAFETY: a description is memory of its own that nothing else points to, and belongs to no thread.
unsafe impl Send for Description {}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: made by `fi_dupinfo`, freed once.
        unsafe { (self.library.free_info)(self.info.as_ptr()) };
    }
}

impl Description {
    pub(super) fn library(&self) -> &'static Library {
        self.library
    }

    pub(super) fn as_ptr(&self) -> *mut Info {
        self.info.as_ptr()
    }

    pub(super) fn info(&self) -> &Info {
        // SAFETY: points to a description as long as `self` lives, which the library made and nobody changes meanwhile.
        unsafe { self.info.as_ref() }
    }

    /// The name of the provider, with the layers above it ("tcp;ofi_rxm").
    #[must_use]
    pub fn provider(&self) -> String {
        // SAFETY: `fi_getinfo` and `fi_dupinfo` give every description its attributes.
        text(unsafe { (*self.info().fabric_attr).prov_name })
    }

    /// The name of the domain: a card or an interface.
    #[must_use]
    pub fn domain(&self) -> String {
        // SAFETY: as above.
        text(unsafe { (*self.info().domain_attr).name })
    }

    /// The address of the endpoint, if it is an IP address.
    #[must_use]
    pub fn internet_address(&self) -> Option<IpAddr> {
        let info = self.info();
        if info.src_addr.is_null() {
            return None;
        }
        // SAFETY: the address has that many bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) };
        match info.addr_format {
            ADDRESS_SOCKADDR_IN => {
                let address: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
                Some(Ipv4Addr::from(address).into())
            }
            ADDRESS_SOCKADDR_IN6 => {
                let address: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                Some(Ipv6Addr::from(address).into())
            }
            _ => None,
        }
    }
}

fn text(text: *const c_char) -> String {
    match text.is_null() {
        true => String::new(),
        // SAFETY: names in a description are null or end.
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    }
}

/// The endpoints of the library that can carry a fabric: reliable, with messages in order, and with remote access to memory where
/// the provider has it. `at`: only those whose own address is this one. Empty if there are none.
#[must_use]
pub fn usable(
    library: &'static Library,
    provider: Option<&str>,
    at: Option<IpAddr>,
    mask: Mask,
) -> Vec<Description> {
    let with = |capabilities| with(library, (provider, at), capabilities, mask);
    let mut found = with(MESSAGES | REMOTE_ACCESS);
    if provider.is_none() || found.is_empty() {
        let known: Vec<String> = found.iter().map(Description::provider).collect();
        let mut others = with(MESSAGES);
        others.retain(|one| !known.contains(&one.provider()));
        found.append(&mut others);
    }
    found
}

/// The endpoints with these capabilities.
fn with(
    library: &'static Library,
    (provider, at): (Option<&str>, Option<IpAddr>),
    capabilities: u64,
    mask: Mask,
) -> Vec<Description> {
    let Some(hints) = hints(library, provider, capabilities, mask) else {
        return Vec::new();
    };
    let node = at.and_then(|address| CString::new(address.to_string()).ok());
    let (node, flags) = match &node {
        Some(node) => (node.as_ptr(), SOURCE),
        None => (ptr::null(), 0),
    };
    let mut first = ptr::null_mut();
    // The first query loads the providers.
    let answer = dispositions::kept(|| {
        // SAFETY: the hints are a description of the library's own making; the texts end; a list is written, or nothing.
        unsafe {
            (library.get_info)(
                VERSION,
                node,
                ptr::null(),
                flags,
                hints.as_ptr(),
                &raw mut first,
            )
        }
    });
    let mut found = Vec::new();
    if answer != 0 {
        return found;
    }
    let mut next = first;
    while let Some(info) = NonNull::new(next) {
        // SAFETY: an element of the list, which lives until it is freed below. A copy stands alone.
        let copy = unsafe {
            next = info.as_ref().next;
            (library.dup_info)(info.as_ptr())
        };
        found.extend(NonNull::new(copy).map(|info| Description { library, info }));
    }
    // SAFETY: the list that `fi_getinfo` has written, freed once.
    unsafe { (library.free_info)(first) };
    found
}

/// The hints: the endpoints that are asked for.
fn hints(
    library: &'static Library,
    provider: Option<&str>,
    capabilities: u64,
    mask: Mask,
) -> Option<Description> {
    // SAFETY: of null an empty description with all attributes is made.
    let info = NonNull::new(unsafe { (library.dup_info)(ptr::null()) })?;
    let hints = Description { library, info };
    // SAFETY: the description is ours alone, and has all attributes. The name of a provider is memory of the C library's
    // allocator, by which `fi_freeinfo` frees it.
    unsafe {
        let info = &mut *hints.as_ptr();
        info.caps = capabilities;
        info.mode = MODE_CONTEXT | MODE_CONTEXT2;
        (*info.ep_attr).kind = EP_RDM;
        (*info.tx_attr).msg_order = ORDER_SEND_AFTER_SEND;
        (*info.rx_attr).msg_order = ORDER_SEND_AFTER_SEND;
        let domain = &mut *info.domain_attr;
        domain.threading = THREAD_DOMAIN;
        domain.resource_mgmt = RM_ENABLED;
        domain.mr_mode = match mask.chosen_keys {
            true => MR_BASIC,
            false => MR_LOCAL | MR_VIRT_ADDR | MR_ALLOCATED | MR_PROV_KEY | MR_ENDPOINT,
        };
        if let Some(provider) = provider {
            let name = CString::new(provider).ok()?;
            (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
    }
    Some(hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the library reports, read through the layouts, must make sense.
    #[test]
    fn what_is_found_makes_sense() {
        let Ok(library) = Library::get() else {
            return;
        };
        let loopback = IpAddr::from([127, 0, 0, 1]);
        for found in usable(library, None, Some(loopback), Mask::default()) {
            assert!(!found.provider().is_empty() && !found.domain().is_empty());
            let info = found.info();
            assert_eq!(info.caps & MSG, MSG);
            let address = found.internet_address().unwrap_or(loopback);
            assert_eq!(address, loopback, "{}", found.provider());
            // SAFETY: every description has its attributes.
            unsafe {
                assert_eq!((*info.ep_attr).kind, EP_RDM);
                assert!((*info.ep_attr).max_msg_size >= 1 << 16);
                assert!((*info.tx_attr).inject_size <= 1 << 20);
                assert!((*info.tx_attr).size >= 16);
                assert!((*info.domain_attr).mr_key_size <= 64);
                assert!((*info.fabric_attr).prov_version > 0);
            }
        }
    }

    /// A provider that lets us choose keys also accepts to choose them itself.
    #[test]
    fn keys_are_the_providers_where_ours_are_left_unused() {
        let Ok(library) = Library::get() else {
            return;
        };
        let mask = Mask {
            chosen_keys: true,
            ..Mask::default()
        };
        for found in usable(library, Some("tcp"), None, mask) {
            // SAFETY: every description has its attributes.
            assert_eq!(unsafe { (*found.info().domain_attr).mr_mode }, MR_BASIC);
        }
    }

    #[test]
    fn nobody_is_found_by_a_name_that_no_provider_has() {
        let Ok(library) = Library::get() else {
            return;
        };
        assert!(usable(library, Some("nosuch"), None, Mask::default()).is_empty());
    }
}
