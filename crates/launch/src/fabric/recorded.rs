//! Recorded: the addresses of processes that were started later, and deaths, as the launcher has recorded them in the
//! memory of the host.
//!
//! ```text
//!   TCP              a job over TCP
//!   TCP libfabric    a job over libfabric, which TCP tells of deaths; a space between the two
//! ```

use weft_fabric::Peer;
use weft_fabric_shm::{Addresses, LONGEST_ADDRESS, SleepElsewhere};
use weft_fabric_tcp::{Card as TcpCard, LocalRanks};

/// Between the two.
const BETWEEN: char = ' ';

/// What a later process of a job over libfabric tells. Of the interfaces of TCP those that are looked at first, if not all fit.
pub(super) fn address(tcp: &TcpCard, ofi: &str) -> String {
    let mut tcp = tcp.clone();
    loop {
        let text = format!("{tcp}{BETWEEN}{ofi}");
        if text.len() <= LONGEST_ADDRESS || tcp.offers.len() <= 1 {
            return text;
        }
        tcp.offers.pop();
    }
}

/// What was told of TCP, or of libfabric.
fn part(address: Vec<u8>, of_libfabric: bool) -> Option<String> {
    let text = String::from_utf8(address).ok()?;
    match (text.split_once(BETWEEN), of_libfabric) {
        (Some((_, ofi)), true) => Some(ofi.to_owned()),
        (Some((tcp, _)), false) => Some(tcp.to_owned()),
        (None, true) => None,
        (None, false) => Some(text),
    }
}

/// Where they are by TCP, and who has died or left.
pub(super) struct RecordedTcp {
    pub addresses: Addresses,
    /// The launcher reports the ends of these, which are on this host, in its memory, and nothing else does; `None`: they
    /// communicate through that memory, and see it there.
    pub ends: Option<(SleepElsewhere, LocalRanks)>,
    /// The launcher reports all ends that are losses.
    pub told: bool,
}

impl RecordedTcp {
    /// The place of a member of this host whose end is reported there.
    fn here(&self, peer: u32) -> Option<(&SleepElsewhere, Peer)> {
        let (place, here) = self.ends.as_ref()?;
        Some((place, here.local(Peer(peer))?))
    }
}

impl weft_fabric_tcp::Directory for RecordedTcp {
    fn version(&self) -> u32 {
        let ends = self.ends.as_ref().map_or(0, |(place, _)| place.changes());
        // Both only grow.
        self.addresses.changes().wrapping_add(ends)
    }

    fn incarnation(&self, peer: u32) -> u32 {
        self.addresses.incarnation(peer)
    }

    fn card(&self, peer: u32) -> Option<TcpCard> {
        let (_, address) = self.addresses.get(peer)?;
        part(address, false)?.parse().ok()
    }

    fn loss(&self, peer: u32, incarnation: u32) -> Option<String> {
        match self.here(peer) {
            Some((place, peer)) => place.loss(peer),
            None => self.addresses.loss(peer, incarnation),
        }
    }

    fn has_left(&self, peer: u32, incarnation: u32) -> bool {
        match self.here(peer) {
            Some((place, peer)) => place.has_left(peer),
            None => self.addresses.has_left(peer, incarnation),
        }
    }

    fn tells_ends(&self) -> bool {
        self.told
    }

    fn is_here(&self, peer: u32) -> bool {
        self.here(peer).is_some()
    }
}

/// Where they are by libfabric.
pub(super) struct RecordedOfi(pub Addresses);

impl weft_fabric_ofi::Directory for RecordedOfi {
    fn version(&self) -> u32 {
        self.0.changes()
    }

    fn card(&self, peer: u32) -> Option<weft_fabric_ofi::Card> {
        let (_, address) = self.0.get(peer)?;
        part(address, true)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_finds_its_own_part() {
        let tcp: TcpCard = "host;lo=127.0.0.1:7".parse().expect("a card");
        let ofi = "tcp;ofi_rxm/0200ff10/000000000000004d";
        let both = address(&tcp, ofi).into_bytes();
        assert_eq!(part(both.clone(), true).as_deref(), Some(ofi));
        assert_eq!(part(both, false), Some(tcp.to_string()));
        let alone = tcp.to_string().into_bytes();
        assert_eq!(part(alone.clone(), true), None);
        assert_eq!(part(alone, false), Some(tcp.to_string()));
    }

    #[test]
    fn interfaces_are_left_out_until_both_fit() {
        let text = format!("host{}", ";eth0=10.0.0.1:65535".repeat(16));
        let tcp: TcpCard = text.parse().expect("a card");
        let ofi = format!("verbs;ofi_rxm/{}/000000000000004d", "ab".repeat(400));
        let both = address(&tcp, &ofi);
        assert!(both.len() <= LONGEST_ADDRESS, "{both}");
        assert_eq!(part(both.clone().into_bytes(), true), Some(ofi));
        let left: TcpCard = part(both.into_bytes(), false)
            .and_then(|text| text.parse().ok())
            .expect("a card");
        assert!((1..tcp.offers.len()).contains(&left.offers.len()));
    }
}
