//! Card: the addresses of a rank, as it publishes them through the launcher.
//!
//! ```text
//!   host;interface=address:port;interface=[address]:port;…        no spaces, at most LONGEST bytes
//! ```
//!
//! All usable addresses are offered. A handshake on each finds out which one works between two ranks
//! ([`connect`](crate::connect)); names or networks are never compared.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use weft_sys::interfaces::{Interface, interfaces};

/// Longest text of a card: fits into a value of every launcher.
pub const LONGEST: usize = 1000;

/// Most addresses of a card.
const MOST: usize = 16;

/// One address at which a rank listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The interface there.
    pub interface: String,
    /// Address and port.
    pub address: SocketAddr,
}

/// Where a rank can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// Name of its host, for people.
    pub host: String,
    /// Best first.
    pub offers: Vec<Offer>,
}

/// Which addresses to listen at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Listen {
    /// All usable addresses of this host but loopback; loopback if there are no others, for ranks on this
    /// host that know it by another name.
    #[default]
    Interfaces,
    /// Loopback alone: all ranks are on this host.
    Loopback,
    /// These alone.
    At(Vec<IpAddr>),
}

impl Listen {
    /// The addresses, with their interfaces, those that are usable now.
    ///
    /// # Errors
    /// If the kernel does not list them.
    pub fn addresses(&self) -> std::io::Result<Vec<(String, IpAddr)>> {
        let all = interfaces()?;
        let wanted = |one: &Interface| match self {
            Self::Interfaces => one.up && !one.loopback && is_routable(&one.address),
            Self::Loopback => one.address == IpAddr::from([127, 0, 0, 1]),
            Self::At(addresses) => addresses.contains(&one.address),
        };
        let mut found: Vec<_> = all
            .into_iter()
            .filter(wanted)
            .map(|one| (one.name, one.address))
            .collect();
        if found.is_empty() && *self == Self::Interfaces {
            return Self::Loopback.addresses();
        }
        // Version 4 first: shorter headers, and nobody forgets to configure it.
        found.sort_by_key(|(_, address)| address.is_ipv6());
        found.truncate(MOST);
        Ok(found)
    }
}

/// Link-local addresses mean something else on every link.
fn is_routable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_link_local() && !address.is_unspecified(),
        IpAddr::V6(address) => {
            !address.is_unicast_link_local() && !address.is_unspecified() && !address.is_multicast()
        }
    }
}

/// A text that is not a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardError {
    text: String,
}

impl fmt::Display for CardError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "'{}' does not say where a rank can be reached: host;interface=address:port was \
             expected; all ranks must run the same release",
            self.text
        )
    }
}

impl std::error::Error for CardError {}

impl fmt::Display for Card {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = plain(&self.host);
        for offer in &self.offers {
            let more = format!(";{}={}", plain(&offer.interface), offer.address);
            if text.len() + more.len() > LONGEST {
                break;
            }
            text += &more;
        }
        out.write_str(&text)
    }
}

/// A name without the separators.
fn plain(name: &str) -> String {
    let allowed = |letter: &char| letter.is_ascii_alphanumeric() || "-_.@:".contains(*letter);
    name.chars().filter(allowed).take(64).collect()
}

impl FromStr for Card {
    type Err = CardError;

    fn from_str(text: &str) -> Result<Self, CardError> {
        let wrong = || CardError {
            text: text.chars().take(100).collect(),
        };
        if text.len() > LONGEST {
            return Err(wrong());
        }
        let mut parts = text.split(';');
        let host = parts.next().unwrap_or("").to_owned();
        if plain(&host) != host {
            return Err(wrong());
        }
        let mut offers = Vec::new();
        for part in parts.take(MOST) {
            let (interface, address) = part.split_once('=').ok_or_else(wrong)?;
            if plain(interface) != interface {
                return Err(wrong());
            }
            offers.push(Offer {
                interface: interface.to_owned(),
                address: address.parse().map_err(|_| wrong())?,
            });
        }
        Ok(Self { host, offers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_survives_its_text() {
        for text in [
            "host",
            "a.b;eth0=10.0.0.1:4000",
            "a;veth-1=10.0.0.1:1;lo=[fe80::1]:65535",
        ] {
            let card: Card = text.parse().expect("a card");
            assert_eq!(card.to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "x".repeat(LONGEST + 1);
        for text in ["a b", "a;eth0", "a;eth0=nowhere", "a;e 0=1.2.3.4:5", &long] {
            let error = text.parse::<Card>().expect_err("no card");
            assert!(error.to_string().contains("was expected"), "{error}");
        }
    }

    #[test]
    fn a_card_of_many_addresses_still_fits() {
        let offer = Offer {
            interface: "a-rather-long-name".into(),
            address: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535"
                .parse()
                .expect("an address"),
        };
        let card = Card {
            host: "h".repeat(300),
            offers: vec![offer; MOST * 2],
        };
        let text = card.to_string();
        assert!(text.len() <= LONGEST);
        assert!(text.parse::<Card>().expect("a card").offers.len() > 8);
    }

    #[test]
    fn loopback_is_offered_only_when_asked_for_or_alone() {
        let all = Listen::Interfaces.addresses().expect("interfaces");
        let others = all.iter().filter(|(_, address)| !address.is_loopback());
        assert!(others.count() == all.len() || all.len() == 1);
        let own = Listen::Loopback.addresses().expect("interfaces");
        assert!(own.len() <= 1);
    }
}
