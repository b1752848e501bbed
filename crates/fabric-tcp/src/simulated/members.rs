//! Members: the endpoints of a play, with the counts of their traffic. The call that lends the endpoint of a member
//! that acts of its own accord also records the act.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use weft_fabric::Fabric;
use weft_secure::Key;

use super::Simulated;
use super::counts::Counts;
use super::model::{Event, Recorder, Wrong};
use super::world::{Id, World};
use crate::card::Card;
use crate::config::Config;
use crate::endpoint::Tcp;
use crate::outgoing::ACKNOWLEDGE;
use crate::session::Inspection;

/// Longer than all cuts and stalls together, except those that are for good.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// All endpoints of a play.
pub struct Members {
    /// By rank. None: it has ended.
    endpoints: Vec<Option<Tcp<Simulated>>>,
    counts: Counts,
}

impl Members {
    /// Starts one member for each card; the world has as many listeners for each as `listeners` says.
    pub fn start(
        world: &Arc<Mutex<World>>,
        cards: &[Card],
        listeners: &[usize],
        seal: bool,
    ) -> Self {
        let ranks = cards.len();
        let key = Key::from_bytes([7; Key::BYTES]);
        let start = |node: usize| {
            let system = Simulated {
                world: world.clone(),
                node,
            };
            let mut config = Config::new(node as u32, ranks as u32, key.clone());
            config.sleeps_announced = true;
            (config.seal, config.patience, config.connect) = (seal, PATIENCE, PATIENCE);
            let listeners = (0..listeners[node])
                .map(|one| system.stream(Id::Listener(node, one)))
                .collect();
            let host = cards[node].host.clone();
            Tcp::over(
                system.clone(),
                system,
                (config, host),
                listeners,
                cards.to_vec(),
                None,
            )
            .ok()
        };
        Self {
            endpoints: (0..ranks).map(start).collect(),
            counts: Counts::new(ranks),
        }
    }

    /// How many there were at first.
    pub fn ranks(&self) -> usize {
        self.endpoints.len()
    }

    /// Whether it has not ended.
    pub fn lives(&self, rank: usize) -> bool {
        self.endpoints[rank].is_some()
    }

    /// All pairs of ranks, each both ways.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let ranks = self.ranks();
        (0..ranks).flat_map(move |rank| (0..ranks).map(move |peer| (rank, peer)))
    }

    /// The endpoint of a member that acts of its own accord, unless it has ended.
    pub fn acting(&mut self, rank: usize) -> Option<&mut Tcp<Simulated>> {
        let endpoint = self.endpoints[rank].as_mut()?;
        self.counts.act(rank);
        Some(endpoint)
    }

    /// A change of the network counts as an act of all members.
    pub fn all_act(&mut self) {
        (0..self.endpoints.len()).for_each(|rank| self.counts.act(rank));
    }

    /// A look of one member: how much it has found, and what was reported to it.
    pub fn look(&mut self, rank: usize, budget: usize) -> Result<(usize, Vec<Event>), String> {
        let Some(endpoint) = &mut self.endpoints[rank] else {
            return Ok((0, Vec::new()));
        };
        let mut recorder = Recorder::default();
        let found = endpoint.poll(&mut recorder, budget);
        let traffic = endpoint.traffic();
        let heard = recorder.events.len();
        if !self.counts.look(rank, found, heard, traffic) {
            return Err(format!(
                "the counts of all have proven that nothing comes, and rank {rank} hears {:?}",
                recorder.events
            ));
        }
        Ok((found, recorder.events))
    }

    /// Whether the counts of those that live prove that nothing more will arrive.
    pub fn prove(&mut self) -> bool {
        let endpoints = &self.endpoints;
        self.counts.prove(|rank| endpoints[rank].is_some())
    }

    /// The counts, and how often they have proven that.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// A member is about to leave and no longer serves its memory. Returns whether all that it sent is handed
    /// over.
    pub fn hand_over(&mut self, rank: usize) -> bool {
        self.endpoints[rank].as_mut().is_none_or(|endpoint| {
            endpoint.stop_serving();
            endpoint.is_flushed()
        })
    }

    /// Whether all that live have handed over what they sent.
    pub fn are_flushed(&mut self) -> bool {
        self.endpoints.iter_mut().flatten().all(Fabric::is_flushed)
    }

    /// A member ends without a goodbye.
    pub fn end(&mut self, rank: usize) {
        self.counts.act(rank);
        if let Some(endpoint) = self.endpoints[rank].take() {
            endpoint.die();
        }
    }

    /// The state that a rank shares with a peer, if there is any.
    pub fn shared(&self, rank: usize, peer: usize) -> Option<Inspection> {
        self.endpoints[rank].as_ref()?.inspect(peer)
    }

    /// How often connections were replaced, counted at both sides.
    pub fn generations(&self) -> u32 {
        let shared = self
            .pairs()
            .filter_map(|(rank, peer)| self.shared(rank, peer));
        shared.map(|it| it.generation.saturating_sub(1)).sum()
    }

    /// Sides that are at rest agree, and keep nothing needlessly.
    pub fn agreed(&self) -> Wrong {
        let present = |rank, peer| self.shared(rank, peer).filter(|it| it.present);
        for (rank, peer) in self.pairs() {
            let Some(it) = present(rank, peer) else {
                continue;
            };
            let said = |what: &str| Err(format!("rank {rank} at rest: {what} rank {peer}"));
            if !it.flushed {
                return said("something is to be sent to");
            }
            if it.transfers != [0; 3] {
                return said("transfers are under way with");
            }
            let Some(other) = present(peer, rank) else {
                continue;
            };
            let (sent, kept) = it.held;
            if sent != other.processed {
                return Err(format!(
                    "rank {rank} has sent {sent} frames, rank {peer} has processed {}",
                    other.processed
                ));
            }
            let unacked = other.unacked_bytes;
            if kept > unacked {
                return Err(format!(
                    "rank {rank} keeps {kept} bytes, rank {peer} has not acknowledged {unacked}"
                ));
            }
            if unacked >= ACKNOWLEDGE {
                return Err(format!("rank {peer} has not acknowledged {unacked} bytes"));
            }
            if it.generation != other.generation || it.generation > 0 && it.live != other.live {
                return Err(format!("ranks {rank} and {peer} do not share a connection"));
            }
        }
        Ok(())
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for endpoint in self.endpoints.iter_mut().filter_map(Option::take) {
            endpoint.die();
        }
    }
}
