//! Handover: what a process gives to the launcher that is to adopt it, as a message with descriptors, and what arrives there.
//!
//! *Invariant:* what [arrives](HandedOver) belongs together: of the right release, with the descriptors that it needs and no more.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use weft_secure::Key;

use super::OtherRanks;
use crate::control::ANSWER;
use crate::hosts::listen_addresses;
use crate::hosts::message::{RELEASE, decode, encode};
use crate::worlds::Worlds;

/// The data of a process for the launcher that is to adopt it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Adoption {
    release: u32,
    role: Role,
}

/// What the launcher is to be.
#[derive(Debug, Serialize, Deserialize)]
enum Role {
    /// The launcher of a job on one host.
    Job {
        worlds: Box<Worlds>,
        /// The process's rank among those that another launcher has started on this host.
        rank: u32,
        ranks: u32,
        /// The key that the other ranks show, as text; `None` if there cannot be any.
        key: Option<String>,
    },
    /// The head of a job of this many ranks on several hosts, which has none itself.
    Head {
        ranks: u32,
        /// The key that agents prove, as text.
        key: String,
    },
    /// The agent of a host of such a job.
    Agent(AgentRole),
}

/// The data for an agent before it joins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentRole {
    /// The ranks of its host, ascending.
    pub ranks: Vec<u32>,
    /// The rank that has started it.
    pub rank: u32,
    /// The key that the other ranks show, and that it proves to the head, as text.
    pub key: String,
    /// Address of the head, in the form of [`listen_addresses`].
    pub head: String,
    /// Number of processes expected to be useful.
    pub universe: u32,
    /// Number of messages that follow with the values that its ranks have published.
    pub portions: u32,
}

impl Adoption {
    fn new(role: Role) -> Self {
        let release = RELEASE;
        Self { release, role }
    }

    /// For a program that was not started as a rank, with these ports and names.
    pub fn of_program(worlds: Worlds) -> Self {
        Self::new(Role::Job {
            worlds: Box::new(worlds),
            rank: 0,
            ranks: 1,
            key: None,
        })
    }

    /// For a rank of another launcher, whose other ranks come later and show this key.
    pub fn of_rank(worlds: Worlds, rank: u32, ranks: u32, key: &Key) -> Self {
        Self::new(Role::Job {
            worlds: Box::new(worlds),
            rank,
            ranks,
            key: Some(key.to_text()),
        })
    }

    /// For a job on several hosts, by the head.
    pub fn of_hosts(ranks: u32, key: &Key) -> Self {
        Self::new(Role::Head {
            ranks,
            key: key.to_text(),
        })
    }

    /// For a host of such a job, by an agent.
    pub fn of_host(role: AgentRole) -> Self {
        Self::new(Role::Agent(role))
    }

    /// As it goes over the socket.
    ///
    /// # Errors
    /// If it is more than goes there.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let bytes = encode(self);
        match bytes.len() {
            0..=ANSWER => Ok(bytes),
            length => Err(format!(
                "{length} bytes of ports, names and ranks are there, more than a launcher takes over ({ANSWER}); close ports that are \
                 not needed"
            )),
        }
    }

    /// Reads a message; `None` if it is none of this release.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        decode(bytes).filter(|adoption: &Self| adoption.release == RELEASE)
    }
}

/// What a process has handed over, if it belongs together.
#[derive(Debug)]
pub(super) enum HandedOver {
    Job {
        worlds: Box<Worlds>,
        rank: u32,
        ranks: u32,
        memory: OwnedFd,
        lifeline: OwnedFd,
        others: Option<OtherRanks>,
    },
    Head {
        ranks: u32,
        key: Key,
    },
    Agent {
        role: AgentRole,
        memory: OwnedFd,
        lifeline: OwnedFd,
        others: OtherRanks,
    },
}

impl HandedOver {
    /// What a message and its descriptors are; `None` if they do not belong together.
    pub(super) fn of(adoption: Adoption, descriptors: Vec<OwnedFd>) -> Option<Self> {
        let most = weft_fabric_shm::MAX_RANKS;
        let mut descriptors = descriptors.into_iter();
        let mut take = || descriptors.next();
        let others = |key: &str, take: &mut dyn FnMut() -> Option<OwnedFd>| {
            Some(OtherRanks {
                key: key.parse().ok()?,
                listener: take()?,
                ends: take()?,
            })
        };
        let handed_over = match adoption.role {
            Role::Job {
                worlds,
                rank,
                ranks,
                key,
            } if rank < ranks && ranks <= most => {
                let (memory, lifeline) = (take()?, take()?);
                let others = match key {
                    None => None,
                    Some(key) => Some(others(&key, &mut take)?),
                };
                Self::Job {
                    worlds,
                    rank,
                    ranks,
                    memory,
                    lifeline,
                    others,
                }
            }
            Role::Head { ranks, key } if (1..=most).contains(&ranks) => Self::Head {
                ranks,
                key: key.parse().ok()?,
            },
            Role::Agent(role)
                if role.ranks.is_sorted_by(|one, other| one < other)
                    && role.ranks.contains(&role.rank)
                    && listen_addresses::parse(&role.head).is_some() =>
            {
                let (memory, lifeline) = (take()?, take()?);
                Self::Agent {
                    memory,
                    lifeline,
                    others: others(&role.key, &mut take)?,
                    role,
                }
            }
            Role::Job { .. } | Role::Head { .. } | Role::Agent(_) => return None,
        };
        take().is_none().then_some(handed_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sys::descriptor;

    fn some(count: usize) -> Vec<OwnedFd> {
        let one = || descriptor::pipe().expect("descriptors are left").0;
        std::iter::repeat_with(one).take(count).collect()
    }

    #[test]
    fn a_message_of_another_release_is_none() {
        let of = |release| {
            let adoption = Adoption {
                release,
                ..Adoption::of_program(Worlds::new(1, 8))
            };
            Adoption::decode(&adoption.encode().expect("short"))
        };
        assert!(of(RELEASE).is_some() && of(RELEASE - 1).is_none());
    }

    #[test]
    fn what_does_not_belong_together_is_no_adoption() {
        let worlds = || Worlds::new(3, 8);
        let key = Key::random().expect("random");
        let rank = |rank| Adoption::of_rank(worlds(), rank, 3, &key);
        let alone = || Adoption::of_program(worlds());
        let agent = |ranks: &[u32], rank, head: &str| {
            Adoption::of_host(AgentRole {
                ranks: ranks.to_vec(),
                rank,
                key: key.to_text(),
                head: head.into(),
                universe: 3,
                portions: 0,
            })
        };
        let head = "4000,10.0.0.1";
        for (adoption, descriptors, belongs) in [
            (alone(), 2, true),
            (alone(), 1, false),
            (alone(), 4, false),
            (rank(2), 4, true),
            (rank(2), 2, false),
            (rank(2), 5, false),
            (rank(3), 4, false),
            (Adoption::of_hosts(3, &key), 0, true),
            (Adoption::of_hosts(3, &key), 1, false),
            (Adoption::of_hosts(0, &key), 0, false),
            (agent(&[1, 2], 1, head), 4, true),
            (agent(&[1, 2], 1, head), 3, false),
            (agent(&[1, 2], 0, head), 4, false),
            (agent(&[2, 1], 1, head), 4, false),
            (agent(&[1, 2], 1, "nowhere"), 4, false),
        ] {
            let text = format!("{adoption:?} with {descriptors}");
            let found = HandedOver::of(adoption, some(descriptors));
            assert_eq!(found.is_some(), belongs, "{text}");
        }
        let Role::Job { worlds, rank, .. } = rank(1).role else {
            panic!("of a rank");
        };
        let broken = Role::Job {
            worlds,
            rank,
            ranks: 3,
            key: Some("no key".into()),
        };
        assert!(HandedOver::of(Adoption::new(broken), some(4)).is_none());
    }
}
