//! Opening: an endpoint that listens already, before it knows where the others are.

use std::os::fd::OwnedFd;
use std::time::Duration;

use weft_fabric::{FabricError, Load, Result};
use weft_secure::Key;

use crate::bell::TcpBell;
use crate::card::{Card, Listen, Offer};
use crate::endpoint::Tcp;
use crate::network::Kernel;
use crate::sockets::listen;

/// How long a first connection may take.
const CONNECT: Duration = Duration::from_millis(4500);

/// How long a broken connection is tried to be mended, unless the job says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a rank must know to be reached and to reach the others.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this is.
    pub me: u32,
    /// How many there are.
    pub peers: u32,
    /// What all members know and nobody else.
    pub key: Key,
    /// Whether the data is protected too.
    pub seal: bool,
    /// Which addresses to listen at.
    pub listen: Listen,
    /// How long a peer may be out of reach before it is given up: a shorter break is survived.
    pub patience: Duration,
    /// How long the first connection to a peer may take before it is an error.
    pub connect: Duration,
    /// Ranks on this host, for deciding whether to spin.
    pub neighbours: u32,
}

impl Config {
    /// The usual values for this member of a job of so many.
    #[must_use]
    pub fn new(me: u32, peers: u32, key: Key) -> Self {
        Self {
            me,
            peers,
            key,
            seal: false,
            listen: Listen::default(),
            patience: PATIENCE,
            connect: CONNECT,
            neighbours: 1,
        }
    }
}

/// An endpoint that listens already but does not know where the others are.
pub struct Opening {
    config: Config,
    listeners: Vec<OwnedFd>,
    card: Card,
}

pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> FabricError {
    FabricError::System {
        what: format!("{what}: {error}"),
    }
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

    /// The key of the job, if it was not known when this began to listen. Nobody is let in before
    /// [`Self::join`].
    pub fn set_key(&mut self, key: Key) {
        self.config.key = key;
    }

    /// Joins the others, whose cards are given by rank. Waits for nobody: connections are made on
    /// first use.
    ///
    /// # Errors
    /// [`FabricError::System`] if there are not as many cards as peers, or the system refuses.
    pub fn join(self, cards: Vec<Card>) -> Result<Tcp> {
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
            TcpBell::new(load).map_err(|error| system("no descriptor to sleep on", error))?;
        Tcp::over(Kernel, bell, (config, card.host), listeners, cards)
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
