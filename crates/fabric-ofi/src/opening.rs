//! Opening: an endpoint that can be reached already, before it knows where the others are.

use std::sync::Arc;

use weft_fabric::{FabricError, Load, Result};
use weft_fabric_tcp::NetworkBell;
use weft_secure::Key;

use crate::card::Card;
use crate::choice::{Extent, choose, largest_data, sleeps_on};
use crate::endpoint::Ofi;
use crate::libfabric::device::Device;
use crate::libfabric::mask::Mask;
use crate::libfabric::slots::Slots;
use crate::links::WINDOW;
use crate::mail::Mail;
use crate::passes::Passes;
use crate::serving::SLOTS;
use crate::wire::HEADER;

/// Headers before the data part of a message.
const HEADS: usize = HEADER + weft_fabric::HEAD;

/// Most bytes of all receive buffers together.
const RECEIVE_MEMORY: usize = 4 << 20;

/// Send buffers.
const SENDS: usize = 64;

/// Fewest receive buffers. Further messages wait at the provider; the windows bound their number.
const FEWEST_RECEIVES: usize = 32;

/// The data that a rank needs to be reached and to reach others.
#[derive(Clone, Debug)]
pub struct Config {
    /// This rank.
    pub me: u32,
    /// How many there are.
    pub peers: u32,
    /// The provider, if one was asked for by name.
    pub provider: Option<String>,
    /// Where the ranks are.
    pub extent: Extent,
    /// Ranks on this host, for deciding whether to spin.
    pub neighbours: u32,
}

/// An endpoint that can be reached but does not know where the others are.
pub struct Opening {
    config: Config,
    device: Device,
    card: Card,
}

fn system(what: String) -> FabricError {
    FabricError::System { what }
}

impl Opening {
    /// Opens an endpoint of the provider that the configuration names, or of the best.
    ///
    /// # Errors
    /// [`FabricError::System`] if libfabric or the provider is missing, or refuses; if the environment names a capability to leave
    /// unused that does not exist.
    pub fn new(config: Config) -> Result<Self> {
        let me = config.me;
        let mask = Mask::of_environment();
        let mask = mask.map_err(|reason| system(format!("rank {me}: {reason}")))?;
        Self::under(config, mask)
    }

    /// As [`new`](Self::new), over a provider without what the mask leaves out.
    pub(crate) fn under(config: Config, mask: Mask) -> Result<Self> {
        let me = config.me;
        let opened = || -> std::result::Result<(Device, Card), String> {
            let description = choose(config.provider.as_deref(), config.extent, mask)?;
            let provider = description.provider();
            let buffer = HEADS + largest_data(&provider);
            let wanted = config.peers as usize * WINDOW as usize;
            let receives = wanted.clamp(FEWEST_RECEIVES, RECEIVE_MEMORY / buffer);
            let slots = Slots {
                receives,
                sends: SENDS,
                transfers: SLOTS,
                buffer,
                peers: config.peers as usize,
            };
            let device = Device::open(description, slots, sleeps_on(&provider), mask)?;
            let drawn = weft_sys::random::bytes().map_err(|error| format!("no number: {error}"))?;
            let card = Card {
                provider,
                address: device.address()?,
                number: u64::from_le_bytes(drawn),
            };
            Ok((device, card))
        };
        let (device, card) = opened().map_err(|reason| system(format!("rank {me}: {reason}")))?;
        Ok(Self {
            config,
            device,
            card,
        })
    }

    /// Where this rank can be reached: to be told to all others.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Joins the others, whose cards are given by rank; `None` for ranks that are reached otherwise. Waits
    /// for nobody.
    ///
    /// # Errors
    /// [`FabricError::System`] if there are not as many cards as peers, another rank has another provider, or the system
    /// refuses.
    pub fn join(self, key: Key, mut cards: Vec<Option<Card>>) -> Result<Ofi> {
        let Self {
            config,
            device,
            card,
        } = self;
        let me = config.me;
        if cards.len() != config.peers as usize || me >= config.peers {
            return Err(system(format!(
                "rank {me} of {} was told where {} ranks are: the launcher is confused",
                config.peers,
                cards.len()
            )));
        }
        for (rank, other) in cards.iter().enumerate() {
            if let Some(other) = other
                && other.provider != card.provider
            {
                return Err(system(format!(
                    "rank {me} talks by provider {} of libfabric and rank {rank} by {}: all must have the same; name one that \
                     all hosts have by --fabric ofi:NAME (weft info lists them)",
                    card.provider, other.provider
                )));
            }
        }
        let provider = card.provider.clone();
        cards[me as usize] = Some(card);
        let cores = u32::try_from(weft_sys::cores::cores_available()).unwrap_or(u32::MAX);
        let load = Load {
            awake: config.neighbours.max(1),
            cores,
        };
        let refused = |error| system(format!("no descriptor to sleep on: {error}"));
        let bell = NetworkBell::new(load).map_err(refused)?;
        for descriptor in device.descriptors() {
            bell.watch_descriptor(&descriptor).map_err(refused)?;
        }
        let peers = cards.len();
        let mail = Mail::new(me, peers, Passes::new(me, key, cards), device, SENDS);
        Ok(Ofi::over(mail, Arc::new(bell), &provider))
    }
}

impl Ofi {
    /// All endpoints of a job over one provider in this process, for threads and tests.
    ///
    /// # Errors
    /// As [`Opening::new`].
    pub fn group(count: u32, provider: &str) -> Result<Vec<Self>> {
        Self::group_under(count, provider, Mask::default())
    }

    /// As [`group`](Self::group), over a provider without what the mask leaves out.
    pub(crate) fn group_under(count: u32, provider: &str, mask: Mask) -> Result<Vec<Self>> {
        let key = Key::random().map_err(|error| system(format!("no key: {error}")))?;
        let openings: Result<Vec<_>> = (0..count)
            .map(|me| {
                let config = Config {
                    me,
                    peers: count,
                    provider: Some(provider.to_owned()),
                    extent: Extent::OneHost,
                    neighbours: count,
                };
                Opening::under(config, mask)
            })
            .collect();
        let openings = openings?;
        let cards: Vec<_> = openings
            .iter()
            .map(|one| Some(one.card().clone()))
            .collect();
        openings
            .into_iter()
            .map(|one| one.join(key.clone(), cards.clone()))
            .collect()
    }
}
