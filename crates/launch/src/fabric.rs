//! Fabric of a job, chosen by what its processes share.
//!
//! ```text
//!   all on one host                shared memory
//!   one on each host               TCP
//!   several on several hosts       shared memory within, TCP between
//!   WEFT_FABRIC=tcp                TCP throughout, for measuring
//! ```
//!
//! Ranks tell each other their addresses through the launcher before the first of them has joined;
//! connections are made later, on first use. The same for programs of MPI and for those that use the
//! services alone.

use std::time::Duration;

use weft_fabric::Fabric;
use weft_fabric_shm::{ProcessState, Shm};
use weft_fabric_tcp::{Card, Config, Listen, LocalRanks, Opening, Tcp, Union};
use weft_secure::Key;

use crate::bootstrap::{BootstrapError, Launcher};

/// Names of what ranks tell each other.
const CARD: &str = "tcp";
const KEY: &str = "tcp-key";

/// What the environment asks for, by `mpiexec --fabric`, `--encrypt` or by hand.
struct Wishes {
    everywhere: bool,
    seal: bool,
    patience: Option<Duration>,
}

impl Wishes {
    fn read() -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let everywhere = match variable("WEFT_FABRIC").as_deref() {
            None | Some("auto") => false,
            Some("tcp") => true,
            Some(other) => {
                return Err(format!(
                    "WEFT_FABRIC is '{other}'; auto and tcp are possible"
                ));
            }
        };
        let seal = match variable("WEFT_ENCRYPT").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => return Err(format!("WEFT_ENCRYPT is '{other}'; 0 and 1 are possible")),
        };
        let patience = match variable("WEFT_PATIENCE") {
            None => None,
            Some(text) => match text.parse() {
                Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => {
                    Some(Duration::from_secs_f64(seconds))
                }
                _ => {
                    return Err(format!(
                        "WEFT_PATIENCE is '{text}'; how many seconds a host may be out of reach was \
                         expected, at least 0.1"
                    ));
                }
            },
        };
        Ok(Self {
            everywhere,
            seal,
            patience,
        })
    }
}

/// Joins the fabric of the job. To be called once.
///
/// # Errors
/// A wish in the environment that makes no sense, no memory, or a rank that cannot be learned of.
pub fn join(launcher: &dyn Launcher) -> Result<Box<dyn Fabric>, BootstrapError> {
    choose(launcher).map_err(BootstrapError::new)
}

fn choose(launcher: &dyn Launcher) -> Result<Box<dyn Fabric>, String> {
    let wishes = Wishes::read()?;
    let hosts = launcher.hosts();
    let local = match launcher.segment() {
        Some(segment) => Shm::attach(segment, launcher.process_slot()),
        None => Shm::solo(),
    };
    let local = local.map_err(|error| error.to_string())?;
    local.set_state(ProcessState::Initialised);
    if launcher.size() == 1 || hosts.count() == 1 && !wishes.everywhere {
        return Ok(weft_fabric_shm::respawnable(local));
    }
    let here = hosts.host(launcher.rank());
    let places = LocalRanks::new(launcher.size(), hosts.ranks_of(here).collect());
    let within = launcher.local_size() > 1 && !wishes.everywhere;
    let remote = network(launcher, &wishes, within)?;
    if within {
        let union = Union::new(local, remote, places).map_err(|error| error.to_string())?;
        return Ok(Box::new(union));
    }
    // The launcher looks into the memory of the host to see how far ranks have come: it stays mapped.
    Box::leak(Box::new(local));
    Ok(Box::new(remote))
}

/// Tells the others where we are, learns where they are.
fn network(launcher: &dyn Launcher, wishes: &Wishes, within: bool) -> Result<Tcp, String> {
    let (rank, size) = (launcher.rank(), launcher.size());
    let hosts = launcher.hosts();
    let told = |error: BootstrapError| error.to_string();
    let key: Option<Key> = match launcher.key() {
        Some(key) => Some(key.to_text().parse().map_err(|_| "no key".to_owned())?),
        // All on one host: the first one draws it, and tells it by the launcher's own descriptors.
        None if rank == 0 => {
            let key = Key::random().map_err(|error| error.to_string())?;
            launcher.put(KEY, key.to_text().as_bytes()).map_err(told)?;
            Some(key)
        }
        None => None,
    };
    let mut config = Config::new(rank, size, Key::from_bytes([0; Key::BYTES]));
    config.seal = wishes.seal;
    config.neighbours = launcher.local_size();
    config.patience = wishes.patience.unwrap_or(config.patience);
    if hosts.count() == 1 {
        config.listen = Listen::Loopback;
    }
    let mut opening = Opening::new(config).map_err(|error| error.to_string())?;
    let card = opening.card().to_string();
    launcher.put(CARD, card.as_bytes()).map_err(told)?;
    launcher.fence().map_err(told)?;
    let key = match key {
        Some(key) => key,
        None => text_of(launcher, 0, KEY)?
            .parse()
            .map_err(|error| format!("the key of the job: {error}"))?,
    };
    opening.set_key(key);
    let mut cards = Vec::with_capacity(size as usize);
    for peer in 0..size {
        let host = hosts.host(peer);
        // Who is reached by shared memory is never called.
        let card = if peer == rank || within && host == hosts.host(rank) {
            Card {
                host: hosts.name(host).to_owned(),
                offers: Vec::new(),
            }
        } else {
            let text = text_of(launcher, peer, CARD)?;
            text.parse()
                .map_err(|error| format!("rank {peer}: {error}"))?
        };
        cards.push(card);
    }
    opening.join(cards).map_err(|error| error.to_string())
}

fn text_of(launcher: &dyn Launcher, rank: u32, name: &str) -> Result<String, String> {
    let value = launcher
        .get(rank, name)
        .map_err(|error| error.to_string())?;
    let text = value.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        format!(
            "rank {rank} has not said where it can be reached ({name}): all ranks must run the same \
             release of Weft with the same WEFT_FABRIC"
        )
    })
}
