//! Listen addresses: a port at which other hosts reach this one, and its text form.
//!
//! ```text
//!   PORT,ADDRESS,ADDRESS      addresses of this host's interfaces, best first
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use weft_fabric_tcp::Listen;

/// Most addresses of a host.
const MOST: usize = 8;

/// Listens at this address, or at all of this host, at this port, or any (0). Answers where others find it; `None` if no other host
/// can come, since this one has no network, or the address is its own alone.
///
/// # Errors
/// If that is no address of this host, or the port is taken.
pub(crate) fn listen(
    address: Option<IpAddr>,
    port: u16,
) -> io::Result<Option<(TcpListener, Vec<SocketAddr>)>> {
    let addresses = match address {
        Some(address) => vec![address],
        None => Listen::Interfaces
            .addresses()?
            .into_iter()
            .map(|(_, address)| address)
            .collect(),
    };
    if addresses.iter().all(IpAddr::is_loopback) {
        return Ok(None);
    }
    let listener = match address {
        Some(address) => TcpListener::bind((address, port))?,
        // All addresses of both versions at one port.
        None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?,
    };
    let bound = listener.local_addr()?;
    let reachable = |address: &IpAddr| bound.is_ipv6() || address.is_ipv4();
    let addresses = addresses.into_iter().filter(reachable);
    let addresses = addresses.map(|address| SocketAddr::new(address, bound.port()));
    Ok(Some((listener, addresses.collect())))
}

/// As text of so many bytes at most, with as many addresses as fit; `None` if none does.
pub(crate) fn text(addresses: &[SocketAddr], room: usize) -> Option<String> {
    let mut text = addresses.first()?.port().to_string();
    let bare = text.len();
    for address in addresses.iter().take(MOST) {
        let more = format!(",{}", address.ip());
        if text.len() + more.len() <= room {
            text += &more;
        }
    }
    (text.len() > bare && text.len() <= room).then_some(text)
}

/// What [`text`] wrote; `None` if it is not that.
pub(crate) fn parse(text: &str) -> Option<Vec<SocketAddr>> {
    let (port, addresses) = text.split_once(',')?;
    let port = port.parse().ok()?;
    let addresses = addresses.split(',').take(MOST);
    let addresses = addresses.map(|one| Some(SocketAddr::new(one.parse().ok()?, port)));
    addresses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_no_way_for_other_hosts() {
        let way = listen(Some(Ipv4Addr::LOCALHOST.into()), 0);
        assert!(way.expect("nothing is asked of the system").is_none());
    }

    #[test]
    fn a_way_survives_its_text_as_far_as_it_fits() {
        let all: Vec<SocketAddr> = ["10.0.0.1:4000", "[fe80::1]:4000", "[2001:db8::2]:4000"]
            .map(|one| one.parse().expect("an address"))
            .to_vec();
        let whole = text(&all, 255).expect("there is room");
        assert_eq!(parse(&whole).as_ref(), Some(&all));
        assert_eq!(
            parse(&text(&all, 14).expect("of one")).expect("one"),
            all[..1]
        );
        assert_eq!(text(&all, 11), None);
        for wrong in ["", "4000", "4000,", "x,10.0.0.1", "4000,10.0.0.1,host"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
