//! Mapping of ranks to hosts: which hosts a job has (its allocation), and which of its ranks each gets.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::bootstrap::name_of_this_host;

/// A host as the user named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostSlots {
    /// Its name, for the command that reaches it.
    pub name: String,
    /// Number of ranks it takes before the next host; `None` if that was not given.
    pub slots: Option<u32>,
    /// How it is reached.
    pub address: HostAddress,
}

/// How a host is reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HostAddress {
    /// By its name, unless it is a name of this host.
    #[default]
    Name,
    /// It is this host, whatever its name.
    Here,
    /// The command that reaches it is given this in place of its name.
    Other(String),
}

/// The hosts that a job has for its ranks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Allocation {
    /// This host alone: all ranks run below this process.
    #[default]
    ThisHost,
    /// These hosts, on each of which an agent is started.
    Started {
        /// The hosts, in the order of their ranks.
        hosts: Vec<HostSlots>,
        /// How an agent is started there.
        way: AgentCommand,
    },
    /// Hosts that `weft join` adds, through a port here.
    Joined {
        /// Where to listen, `ADDRESS:PORT`.
        listen: String,
        /// The file with the token; `None`: make one, and print it.
        token_file: Option<OsString>,
    },
    /// Hosts of ranks that another launcher has started, each of which adds its own.
    Adopted,
}

/// How an agent is started on another host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentCommand {
    /// The words before the name of a host: `ssh -x`, for example.
    pub command: Vec<OsString>,
    /// Where Weft is installed there; `None`: at the same path as here.
    pub prefix: Option<PathBuf>,
}

impl AgentCommand {
    /// The path of `weft` there.
    ///
    /// # Errors
    /// If it is the path of this process, and the system does not tell it.
    pub fn weft(&self) -> io::Result<PathBuf> {
        match &self.prefix {
            Some(prefix) => Ok(prefix.join("bin/weft")),
            None => std::env::current_exe(),
        }
    }
}

impl HostSlots {
    /// A host that is reached by its name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            slots: None,
            address: HostAddress::Name,
        }
    }

    /// Whether it is this host, so that no command is needed to reach it.
    #[must_use]
    pub fn is_here(&self) -> bool {
        match self.address {
            HostAddress::Name => is_here(&self.name),
            HostAddress::Here => true,
            HostAddress::Other(_) => false,
        }
    }

    /// The argument for the command that reaches it.
    #[must_use]
    pub fn address(&self) -> &str {
        match &self.address {
            HostAddress::Name | HostAddress::Here => &self.name,
            HostAddress::Other(address) => address,
        }
    }

    /// Reads `name`, `name:4`; a name in square brackets may have colons.
    ///
    /// # Errors
    /// A sentence, if it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no host: NAME or NAME:RANKS was expected, with 1 to 9999 ranks (an \
                 address with colons in square brackets)"
            )
        };
        let (name, slots) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, rest)) => (name, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
            None => match text.split_once(':') {
                Some((name, slots)) => (name, Some(slots)),
                None => (text, None),
            },
        };
        let slots = slots
            .map(|slots| {
                slots
                    .parse()
                    .ok()
                    .filter(|slots| (1..10_000).contains(slots))
            })
            .map(|slots| slots.ok_or_else(wrong))
            .transpose()?;
        // A name that begins with a hyphen would be an option of the command that reaches it.
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self {
            slots,
            ..Self::named(name)
        })
    }
}

/// The command that reaches another host unless the user or a scheduler names another. It must not ask questions, and a
/// host that does not answer must be an error, not a wait for minutes.
pub(crate) fn ssh() -> Vec<OsString> {
    [
        "ssh",
        "-x",
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=10",
    ]
    .map(OsString::from)
    .to_vec()
}

/// Whether a name is one of this host.
pub(crate) fn is_here(name: &str) -> bool {
    let ours = name_of_this_host();
    let short = ours.split('.').next().unwrap_or("");
    ["localhost", "127.0.0.1", "::1", &*ours, short].contains(&name)
}

/// Default number of ranks for these hosts; `None` if one of them does not say.
pub fn slots(hosts: &[HostSlots]) -> Option<u32> {
    let mut slots = hosts.iter().map(|host| host.slots);
    slots.try_fold(0, |sum: u32, slots| Some(sum.saturating_add(slots?)))
}

/// The host of each of this many ranks: neighbours together. Each host is filled up to its slots; if that is not enough,
/// they are filled again. Hosts without a number share evenly. `cyclic`: each host gets the same number, and the ranks
/// are dealt to them in turn.
pub fn distribute(hosts: &[HostSlots], ranks: u32, cyclic: bool) -> Vec<u32> {
    let count = hosts.len() as u32;
    let even = |index: u32| ranks / count + u32::from(index < ranks % count);
    let shares: Vec<u32> = (0..count)
        .map(|index| {
            hosts[index as usize]
                .slots
                .unwrap_or_else(|| even(index).max(1))
        })
        .collect();
    // How many each gets, in whole rounds; then all of a host together.
    let mut gets = vec![0; hosts.len()];
    let mut left = ranks;
    while left > 0 {
        for (host, share) in shares.iter().enumerate() {
            let more = left.min(*share);
            gets[host] += more;
            left -= more;
        }
    }
    if cyclic {
        let mut dealt = Vec::with_capacity(ranks as usize);
        while (dealt.len() as u32) < ranks {
            for (host, left) in gets.iter_mut().enumerate() {
                if *left > 0 {
                    *left -= 1;
                    dealt.push(host as u32);
                }
            }
        }
        return dealt;
    }
    let each = gets.iter().enumerate();
    each.flat_map(|(host, count)| (0..*count).map(move |_| host as u32))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<HostSlots> {
        let parse = |host| HostSlots::parse(host).expect("a host");
        text.split(',').map(parse).collect()
    }

    #[test]
    fn ranks_are_distributed_in_blocks() {
        for (text, ranks, expected) in [
            ("a:2,b:2", 4, &[0, 0, 1, 1][..]),
            ("a:2,b:2", 3, &[0, 0, 1]),
            ("a:1,b:2", 5, &[0, 0, 1, 1, 1]),
            ("a,b", 5, &[0, 0, 0, 1, 1]),
            ("a,b,c", 2, &[0, 1]),
            ("a", 3, &[0, 0, 0]),
        ] {
            let found = distribute(&hosts(text), ranks, false);
            assert_eq!(found, expected, "{text}, {ranks}");
        }
        for (text, ranks, expected) in [
            ("a:2,b:2", 4, &[0, 1, 0, 1][..]),
            ("a:3,b:1", 4, &[0, 1, 0, 0]),
            ("a,b,c", 4, &[0, 1, 2, 0]),
        ] {
            let found = distribute(&hosts(text), ranks, true);
            assert_eq!(found, expected, "{text}, {ranks}");
        }
        assert_eq!(
            (slots(&hosts("a:2,b:3")), slots(&hosts("a:2,b"))),
            (Some(5), None)
        );
    }

    #[test]
    fn hosts_are_read_and_refused() {
        let host = HostSlots::parse("[fd00::1]:4").expect("an address");
        assert_eq!((&*host.name, host.slots), ("fd00::1", Some(4)));
        for text in [
            "",
            "a:",
            "a:x",
            "a:0",
            ":4",
            "-oProxyCommand=x",
            "[fd00::1]4",
            "a b",
            "a:1:2",
        ] {
            let error = HostSlots::parse(text).expect_err(text);
            assert!(error.contains("NAME:RANKS"), "{error}");
        }
    }
}
