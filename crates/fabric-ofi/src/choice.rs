//! Choice of a provider: which ones libfabric has, and which one is taken.
//!
//! ```text
//!   named              that one
//!   cxi efa opx psm3 psm2 verbs      hardware: the first that is found
//!   tcp net                          over the kernel's network: only if libfabric was asked for
//! ```
//!
//! Others (`sockets`, `udp`) are taken only by name; `shm` never is.

use std::net::{IpAddr, Ipv4Addr};

use weft_fabric_tcp::Listen;

use crate::libfabric::infos::{Description, usable};
use crate::libfabric::library::{Library, LibraryError};
use crate::libfabric::mask::Mask;
use crate::libfabric::wait::Wanted;
use crate::wire::HEADER;

/// Providers for network hardware, the better ones first.
const HARDWARE: [&str; 6] = ["cxi", "efa", "opx", "psm3", "psm2", "verbs"];

/// Providers over the kernel's network, the better ones first.
const SOFTWARE: [&str; 2] = ["tcp", "net"];

/// Providers that listen at an address of the internet.
const OF_THE_KERNEL: [&str; 4] = ["tcp", "net", "sockets", "udp"];

/// Providers whose descriptor does not report all events: the conformance suite hangs over them (libfabric
/// 1.17.0).
const MISSES_EVENTS: [&str; 1] = ["sockets"];

/// Not used, as ranks of one host have a shared-memory fabric already; this one also ends the process when a
/// peer of it leaves (libfabric 1.17.0).
const REFUSED: &str = "shm";

/// Where the members of a job are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All on this host: nothing listens on outside addresses.
    OneHost,
    /// On several.
    SeveralHosts,
}

/// A provider that can carry the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its name, with the layers above it ("tcp;ofi_rxm").
    pub provider: String,
    /// Its network cards or interfaces.
    pub domains: Vec<String>,
    /// Whether it is for network hardware.
    pub is_hardware: bool,
}

/// The name of a provider without the layers above it.
fn base(provider: &str) -> &str {
    provider.split(';').next().unwrap_or(provider)
}

/// The object for which a sleeper over this provider waits.
pub(crate) fn sleeps_on(provider: &str) -> Wanted {
    if MISSES_EVENTS.contains(&base(provider)) {
        Wanted::Nothing
    } else if SOFTWARE.contains(&provider) {
        Wanted::Own
    } else {
        Wanted::Set
    }
}

/// Largest data part of a message over a provider. Over streams of the kernel: the size up to which copying into a message is
/// faster than asking and moving without a copy (`docs/libfabric.md`). Over others: what, with heads, the layers of libfabric
/// send at once.
pub(crate) fn largest_data(provider: &str) -> usize {
    match SOFTWARE.contains(&provider) {
        true => 64 << 10,
        false => (16 << 10) - HEADER - weft_fabric::HEAD,
    }
}

fn is_hardware(provider: &str) -> bool {
    HARDWARE.contains(&base(provider))
}

/// The providers of this host that can carry the fabric.
///
/// # Errors
/// If libfabric cannot be opened.
pub fn found() -> Result<Vec<Found>, LibraryError> {
    let mut all: Vec<Found> = Vec::new();
    for one in usable(Library::get()?, None, None, Mask::default()) {
        let (provider, domain) = (one.provider(), one.domain());
        if base(&provider) == REFUSED {
            continue;
        }
        match all.iter_mut().find(|other| other.provider == provider) {
            Some(known) if known.domains.contains(&domain) => {}
            Some(known) => known.domains.push(domain),
            None => all.push(Found {
                is_hardware: is_hardware(&provider),
                provider,
                domains: vec![domain],
            }),
        }
    }
    all.sort_by_key(|found| preference(base(&found.provider)));
    Ok(all)
}

fn preference(base: &str) -> usize {
    let all = HARDWARE.iter().chain(&SOFTWARE);
    let place = all.clone().position(|name| *name == base);
    place.unwrap_or(all.count())
}

/// The hardware provider that would be taken among those [found](found()), if there is one.
#[must_use]
pub fn hardware(found: &[Found]) -> Option<&Found> {
    found.iter().find(|found| found.is_hardware)
}

/// The description of the endpoint to open: of the named provider, or of the best.
pub(crate) fn choose(
    named: Option<&str>,
    extent: Extent,
    mask: Mask,
) -> Result<Description, String> {
    let library = Library::get().map_err(|error| error.to_string())?;
    let names: Vec<&str> = match named {
        Some(name) => vec![name],
        None => HARDWARE.iter().chain(&SOFTWARE).copied().collect(),
    };
    if names.iter().any(|name| base(name) == REFUSED) {
        return Err(format!(
            "provider {REFUSED} of libfabric is not used: ranks of one host have shared memory by --fabric auto"
        ));
    }
    for name in &names {
        for address in addresses(name, extent)? {
            // Without layers if possible.
            let mut found = usable(library, Some(name), address, mask);
            found.sort_by_key(|one| one.provider().matches(';').count());
            // An endpoint that listens elsewhere than it was asked to is not taken.
            let right = |one: &Description| {
                let there = address.is_none() || one.internet_address() == address;
                base(&one.provider()) == base(name) && there
            };
            if let Some(place) = found.iter().position(right) {
                return Ok(found.swap_remove(place));
            }
        }
    }
    let all = found().map_err(|error| error.to_string())?;
    let all: Vec<&str> = all.iter().map(|one| one.provider.as_str()).collect();
    Err(format!(
        "libfabric {} has no provider {} here that can carry messages in order; it has {}; name one by \
         --fabric ofi:NAME, or take --fabric tcp, which needs none",
        library.version(),
        names.join(", "),
        if all.is_empty() {
            "none".to_owned()
        } else {
            all.join(", ")
        },
    ))
}

/// The addresses of this host at which a provider may be asked to listen; `None`: it chooses.
fn addresses(provider: &str, extent: Extent) -> Result<Vec<Option<IpAddr>>, String> {
    if !OF_THE_KERNEL.contains(&base(provider)) {
        return Ok(vec![None]);
    }
    let own = match extent {
        Extent::OneHost => return Ok(vec![Some(Ipv4Addr::LOCALHOST.into())]),
        Extent::SeveralHosts => Listen::Interfaces.addresses(),
    };
    let own =
        own.map_err(|error| format!("the network interfaces of this host are not known: {error}"))?;
    Ok(own.into_iter().map(|(_, address)| Some(address)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_comes_first() {
        let found = |provider: &str| Found {
            provider: provider.into(),
            domains: vec![],
            is_hardware: is_hardware(provider),
        };
        let mut all = ["udp;ofi_rxd", "tcp;ofi_rxm", "verbs;ofi_rxm", "shm", "cxi"].map(found);
        all.sort_by_key(|one| preference(base(&one.provider)));
        let names = all.each_ref().map(|one| one.provider.as_str());
        assert_eq!(names[..3], ["cxi", "verbs;ofi_rxm", "tcp;ofi_rxm"]);
        assert_eq!(hardware(&all).map(|one| one.provider.as_str()), Some("cxi"));
        assert_eq!(hardware(&all[2..]), None);
    }

    #[test]
    fn a_provider_that_is_not_there_is_named_with_those_that_are() {
        if Library::get().is_err() {
            return;
        }
        let error = choose(Some("nosuch"), Extent::OneHost, Mask::default())
            .err()
            .expect("none");
        assert!(
            error.contains("no provider nosuch here") && error.contains("--fabric ofi:NAME"),
            "{error}"
        );
    }

    #[test]
    fn on_one_host_nothing_listens_to_the_outside() {
        for provider in ["tcp", "sockets"] {
            let Ok(chosen) = choose(Some(provider), Extent::OneHost, Mask::default()) else {
                continue;
            };
            let address = chosen.internet_address().expect("of the internet");
            assert!(address.is_loopback(), "{provider}: {address}");
        }
    }

    #[test]
    fn messages_are_long_where_the_kernel_copies_them() {
        for provider in SOFTWARE {
            assert_eq!(largest_data(provider), 64 << 10);
        }
        for provider in ["tcp;ofi_rxm", "verbs;ofi_rxm", "efa", "sockets"] {
            let message = largest_data(provider) + weft_fabric::HEAD + HEADER;
            assert_eq!(message, 16 << 10, "{provider}");
        }
    }
}
