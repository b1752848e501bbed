//! Opening: an endpoint that listens already, before it knows where the others are.

use std::os::fd::OwnedFd;

use weft_fabric::{FabricError, Load, Result};
use weft_secure::Key;

use crate::bell::NetworkBell;
use crate::card::{Card, Listen, Offer};
use crate::config::Config;
use crate::directory::Directory;
use crate::endpoint::Tcp;
use crate::errors::system;
use crate::network::Kernel;
use crate::sockets::listen;

/// An endpoint that listens already but does not know where the others are.
pub struct Opening {
    config: Config,
    listeners: Vec<OwnedFd>,
    card: Card,
}

impl Opening {
    /// Begins to listen, on a port that the system chooses at each address.
    ///
    /// # Errors
    /// [`FabricError::System`] if there is no address to listen at, naming the host.
    pub fn new(config: Config) -> Result<Self> {
        let host = host_name();
        let wanted = config
            .listen
            .addresses()
            .map_err(|error| system("the network interfaces of this host are not known", error))?;
        let mut listeners = Vec::new();
        let mut offers = Vec::new();
        let mut refused = String::new();
        for (interface, address) in wanted {
            match listen(address, config.patience) {
                Ok((socket, address)) => {
                    listeners.push(socket);
                    offers.push(Offer { interface, address });
                }
                Err(error) => refused += &format!("; {interface} {address}: {error}"),
            }
        }
        if listeners.is_empty() && config.peers > 1 {
            return Err(FabricError::System {
                what: format!(
                    "rank {} on host {host} has no address at which others could reach it: an \
                     interface that is up with an address was expected{refused}; look at `ip address`",
                    config.me
                ),
            });
        }
        Ok(Self {
            config,
            listeners,
            card: Card { host, offers },
        })
    }

    /// Where this rank can be reached: to be told to all others.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Sets the key of the job, if it was not known when this began to listen. Nobody is let in before
    /// [`Self::join`].
    pub fn set_key(&mut self, key: Key) {
        self.config.key = key;
    }

    /// Sets the rank and the number of ranks, if they were not known when this began to listen.
    pub fn set_place(&mut self, me: u32, peers: u32) {
        (self.config.me, self.config.peers) = (me, peers);
    }

    /// Joins the others, whose cards are given by rank. Waits for nobody: connections are made on
    /// first use.
    ///
    /// # Errors
    /// [`FabricError::System`] if there are not as many cards as peers, or the system refuses.
    pub fn join(self, cards: Vec<Card>) -> Result<Tcp> {
        self.join_growing(cards, None)
    }

    /// As [`join`](Self::join), in a job that grows: for members that are started later the directory is read, and their
    /// cards here are ignored.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_growing(
        self,
        cards: Vec<Card>,
        directory: Option<Box<dyn Directory>>,
    ) -> Result<Tcp> {
        let Self {
            config,
            listeners,
            card,
        } = self;
        if cards.len() != config.peers as usize || config.me >= config.peers {
            return Err(FabricError::System {
                what: format!(
                    "rank {} of {} was told where {} ranks are: the launcher is confused",
                    config.me,
                    config.peers,
                    cards.len()
                ),
            });
        }
        let cores = u32::try_from(weft_sys::cores::cores_available()).unwrap_or(u32::MAX);
        let load = Load {
            awake: config.neighbours.max(1),
            cores,
        };
        let bell =
            NetworkBell::new(load).map_err(|error| system("no descriptor to sleep on", error))?;
        Tcp::over(
            Kernel,
            bell,
            (config, card.host),
            listeners,
            cards,
            directory,
        )
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

impl Tcp {
    /// All endpoints of a job over loopback in this process, for threads and tests.
    ///
    /// # Errors
    /// If the system refuses sockets.
    pub fn group(count: u32, change: impl Fn(&mut Config)) -> Result<Vec<Self>> {
        let key = Key::random().map_err(|error| system("no key", error))?;
        let openings: Result<Vec<_>> = (0..count)
            .map(|rank| {
                let mut config = Config::new(rank, count, key.clone());
                config.listen = Listen::Loopback;
                config.neighbours = count;
                config.sleeps_announced = true;
                change(&mut config);
                Opening::new(config)
            })
            .collect();
        let openings = openings?;
        let cards: Vec<_> = openings.iter().map(|one| one.card().clone()).collect();
        openings
            .into_iter()
            .map(|one| one.join(cards.clone()))
            .collect()
    }
}
