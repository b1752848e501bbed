//! Map of a job's ranks to hosts.
//!
//! A *host* is a set of ranks that share memory and reach each other without a network: one boot of one kernel, one
//! network namespace. Two containers on one machine are therefore two hosts.

use std::fmt;

/// The host of each rank. Hosts are numbered from 0 in the order of their lowest rank.
#[derive(Clone, PartialEq, Eq)]
pub struct HostMap {
    /// For each rank its host, and its number among the ranks of that host.
    ranks: Vec<(u32, u32)>,
    /// For each host its name for people, and how many ranks it has.
    hosts: Vec<(String, u32)>,
}

impl HostMap {
    /// All ranks on one host of this name.
    #[must_use]
    pub fn single(size: u32, name: &str) -> Self {
        Self {
            ranks: (0..size).map(|rank| (0, rank)).collect(),
            hosts: vec![(name.to_owned(), size)],
        }
    }

    /// From what identifies the host of each rank, in the order of the ranks, and its name. Names are
    /// for people only: two hosts may have the same.
    #[must_use]
    pub fn group<I: Eq + std::hash::Hash>(cards: impl IntoIterator<Item = (I, String)>) -> Self {
        let mut known = std::collections::HashMap::new();
        let mut map = Self {
            ranks: Vec::new(),
            hosts: Vec::new(),
        };
        for (identity, name) in cards {
            let next = map.hosts.len();
            let host = *known.entry(identity).or_insert(next);
            if host == next {
                map.hosts.push((name, 0));
            }
            let count = &mut map.hosts[host].1;
            map.ranks.push((host as u32, *count));
            *count += 1;
        }
        map
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Number of hosts.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// The host of a rank.
    ///
    /// # Panics
    /// As all of these, if there is no such rank or host.
    #[must_use]
    pub fn host(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].0
    }

    /// The number of a rank among those of its host, from 0.
    #[must_use]
    pub fn local_rank(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].1
    }

    /// Number of ranks of a host.
    #[must_use]
    pub fn local_size(&self, host: u32) -> u32 {
        self.hosts[host as usize].1
    }

    /// The ranks of a host, ascending.
    pub fn ranks_of(&self, host: u32) -> impl Iterator<Item = u32> + '_ {
        let ranks = self.ranks.iter().enumerate();
        ranks.filter_map(move |(rank, (of, _))| (*of == host).then_some(rank as u32))
    }

    /// The name of a host, for people.
    #[must_use]
    pub fn name(&self, host: u32) -> &str {
        &self.hosts[host as usize].0
    }

    /// In one line: `0*4,1*2 name-of-0 name-of-1`.
    pub(crate) fn encode(&self) -> String {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (host, _) in &self.ranks {
            match runs.last_mut() {
                Some((last, count)) if last == host => *count += 1,
                _ => runs.push((*host, 1)),
            }
        }
        let runs: Vec<String> = runs
            .iter()
            .map(|(host, count)| format!("{host}*{count}"))
            .collect();
        let mut line = runs.join(",");
        for (name, _) in &self.hosts {
            line.push(' ');
            line.push_str(&one_word(name));
        }
        line
    }

    /// What [`encode`](Self::encode) wrote; `None` if it is not that.
    pub(crate) fn decode(line: &str, most: u32) -> Option<Self> {
        let mut words = line.split(' ');
        let runs = words.next()?;
        let names: Vec<&str> = words.collect();
        let mut cards = Vec::new();
        for run in runs.split(',') {
            let (host, count) = run.split_once('*')?;
            let (host, count): (usize, u32) = (host.parse().ok()?, count.parse().ok()?);
            if cards.len() + count as usize > most as usize {
                return None;
            }
            let name = (*names.get(host)?).to_owned();
            cards.extend((0..count).map(|_| (host, name.clone())));
        }
        let map = Self::group(cards);
        (map.hosts.len() == names.len()).then_some(map)
    }
}

/// A name without blanks and control characters, never empty.
pub(crate) fn one_word(name: &str) -> String {
    let word: String = name
        .chars()
        .filter(|letter| !letter.is_whitespace() && !letter.is_control())
        .take(64)
        .collect();
    if word.is_empty() { "-".into() } else { word }
}

/// The name of this host, for people.
pub(crate) fn name_of_this_host() -> String {
    let found = rustix::system::uname();
    one_word(&found.nodename().to_string_lossy())
}

impl fmt::Debug for HostMap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "HostMap({})", self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(identities: &[u32]) -> HostMap {
        let named = identities.iter().map(|host| (*host, format!("node{host}")));
        HostMap::group(named)
    }

    #[test]
    fn ranks_are_numbered_on_their_host() {
        let map = cards(&[7, 7, 3, 7, 3]);
        assert_eq!((map.size(), map.count()), (5, 2));
        assert_eq!([0, 1, 2, 3, 4].map(|rank| map.host(rank)), [0, 0, 1, 0, 1]);
        assert_eq!(map.local_rank(3), 2);
        assert_eq!((map.local_size(0), map.local_size(1)), (3, 2));
        assert_eq!(map.ranks_of(1).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(map.name(1), "node3");
    }

    #[test]
    fn a_map_survives_the_way() {
        for map in [
            cards(&[1, 1, 2, 2]),
            cards(&[2, 1, 2, 1]),
            HostMap::single(3, "here"),
        ] {
            assert_eq!(HostMap::decode(&map.encode(), 8), Some(map));
        }
    }

    #[test]
    fn nonsense_is_no_map() {
        for line in [
            "",
            "0*1",
            "0*9 a",
            "1*2 a",
            "0*1 a b",
            "0*x a",
            "0*4294967295,0*9 a",
        ] {
            assert_eq!(HostMap::decode(line, 8), None, "{line}");
        }
    }
}
