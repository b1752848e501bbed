//! TCP ports at which a process listens, as any user of its host can see.

use anyhow::{Context, Result};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// The addresses of version 4 at which a process listens.
///
/// # Errors
/// If the process has ended, or belongs to another user: its files under `/proc` cannot be read.
pub(crate) fn listeners(process: u32) -> Result<Vec<SocketAddr>> {
    let folder = format!("/proc/{process}/fd");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    let sockets: HashSet<String> = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter_map(|target| {
            let name = target.to_str()?.strip_prefix("socket:[")?;
            Some(name.strip_suffix(']')?.to_owned())
        })
        .collect();
    let file = format!("/proc/{process}/net/tcp");
    let table = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    Ok(of_table(&table, &sockets))
}

/// The listening addresses of these sockets in the kernel's table.
fn of_table(table: &str, sockets: &HashSet<String>) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let listens = *words.get(3)? == LISTENS && sockets.contains(*words.get(9)?);
        let (host, port) = words[1].split_once(':').filter(|_| listens)?;
        // The address is printed as a word in the machine's byte order.
        let host = u32::from_str_radix(host, 16).ok()?.to_ne_bytes();
        let port = u16::from_str_radix(port, 16).ok()?;
        Some(SocketAddr::from((Ipv4Addr::from(host), port)))
    };
    table.lines().skip(1).filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn finds_what_this_process_listens_at() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is left");
        let address = listener.local_addr().expect("bound");
        let found = listeners(std::process::id()).expect("proc is there");
        assert!(found.contains(&address), "{found:?} lacks {address}");
        drop(listener);
        let found = listeners(std::process::id()).expect("proc is there");
        assert!(!found.contains(&address), "{found:?} has {address} still");
    }
}
