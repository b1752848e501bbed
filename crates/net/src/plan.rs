//! Addresses and ports that all parts agree on: those of clients and of the far end.

/// An Ethernet address.
pub type Address = [u8; 6];

/// Addresses of a party.
#[derive(Clone, Copy, Debug)]
pub struct Party {
    /// Ethernet.
    pub address: Address,
    /// IPv4.
    pub ip: [u8; 4],
}

/// The party at the other end of a wire: the load generator, or the host on the far side of a veth.
pub const FAR: Party = Party {
    address: [0x02, 0x77, 0x65, 0x66, 0x74, 0xfe],
    ip: [10, 77, 0, 1],
};

/// Bits of the network part.
pub const PREFIX: u8 = 24;

/// The port at which echo clients listen (the port of the service of that name).
pub const ECHO_PORT: u16 = 7;

/// The far end's port for what clients send unasked (the discard service).
pub const UNASKED_PORT: u16 = 9;

/// First host number of a client.
const FIRST: u8 = 10;

/// Ethernet address of a client: locally administered.
#[must_use]
pub const fn address(client: usize) -> Address {
    [0x02, 0x77, 0x65, 0x66, 0x74, FIRST + client as u8]
}

/// IPv4 address of a client.
#[must_use]
pub const fn ip(client: usize) -> [u8; 4] {
    [10, 77, 0, FIRST + client as u8]
}

/// The client with an address.
#[must_use]
pub fn client_of(ip: [u8; 4]) -> Option<usize> {
    (ip[..3] == [10, 77, 0])
        .then(|| ip[3].checked_sub(FIRST).map(usize::from))
        .flatten()
}
