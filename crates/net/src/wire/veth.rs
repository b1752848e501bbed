//! Veth: a pair of interfaces in an unnamed network namespace, made for a run and removed with it.
//!
//! The namespace has both ends. `weft-far` is an ordinary interface of the host's own stack with the
//! address of the far end; `weft-near` has no address and is read by the driver alone. Programs that
//! talk to the clients run in the namespace.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use weft_sys::netns::{self, NetworkNamespace};

use crate::plan::{self, FAR, PREFIX};

/// The driver's end.
pub const NEAR: &str = "weft-near";
/// The host's end.
pub const HOST: &str = "weft-far";

/// The namespace with its pair of interfaces.
pub struct Veth {
    /// Where programs that talk to the clients run.
    pub namespace: NetworkNamespace,
}

impl Veth {
    /// Makes it. Needs CAP_SYS_ADMIN, CAP_NET_ADMIN and the program `ip`.
    ///
    /// # Errors
    /// If a privilege or the program is missing; it says which.
    pub fn create() -> io::Result<Self> {
        let namespace = NetworkNamespace::create()?;
        namespace.run(|| {
            ip(&["link", "add", NEAR, "type", "veth", "peer", "name", HOST])?;
            ip(&["link", "set", NEAR, "addrgenmode", "none"])?;
            prepare_far()?;
            ip(&["link", "set", NEAR, "up"])
        })?;
        Ok(Self { namespace })
    }
}

impl Veth {
    /// Moves the driver's end into another namespace, with the addresses of `clients` clients: for a plain
    /// program in place of the system.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn hand_over(&self, other: &NetworkNamespace, clients: usize) -> io::Result<()> {
        let number = other.as_fd().as_raw_fd();
        let path = format!("/proc/{}/fd/{number}", std::process::id());
        self.namespace
            .run(|| ip(&["link", "set", NEAR, "netns", &path]))?;
        other.run(|| {
            for client in 0..clients {
                let [a, b, c, d] = plan::ip(client);
                ip(&[
                    "addr",
                    "add",
                    &format!("{a}.{b}.{c}.{d}/{PREFIX}"),
                    "dev",
                    NEAR,
                ])?;
            }
            ip(&["link", "set", "lo", "up"])?;
            ip(&["link", "set", NEAR, "up"])
        })
    }
}

/// Gives the host's end its addresses and switches it on, in the calling thread's namespace.
pub(super) fn prepare_far() -> io::Result<()> {
    let [a, b, c, d] = FAR.ip;
    let mac: Vec<String> = FAR
        .address
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    ip(&["link", "set", HOST, "address", &mac.join(":")])?;
    // No IPv6 address: nothing is sent unasked.
    ip(&["link", "set", HOST, "addrgenmode", "none"])?;
    let address = format!("{a}.{b}.{c}.{d}/{PREFIX}");
    ip(&["addr", "add", &address, "dev", HOST])?;
    netns::set_up("lo")?;
    netns::set_up(HOST)?;
    netns::disable_checksum_offload(HOST)
}

fn ip(words: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(words).output().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("could not run ip (package iproute2), which makes the interfaces: {error}"),
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "ip {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_made_or_the_missing_privilege_is_named() {
        match Veth::create() {
            Ok(veth) => {
                let inside = veth.namespace.run(|| ip(&["link", "show", HOST]));
                assert!(inside.is_ok(), "{inside:?}");
                assert!(ip(&["link", "show", HOST]).is_err(), "not where we are");
            }
            Err(error) => assert!(
                error.to_string().contains("CAP_") || error.to_string().contains("ip"),
                "{error}"
            ),
        }
    }
}
