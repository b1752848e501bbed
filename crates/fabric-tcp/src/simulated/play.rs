//! Play: one thread drives all endpoints; their actions, the order, and the end are drawn from a seed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use weft_fabric::{Peer, Rights, Uses};

use super::access::Access;
use super::action::{Action, Weights};
use super::conditions::Route;
use super::job::{Job, Tally};
use super::locked;
use super::members::{Members, PATIENCE};
use super::model::{LONGEST, Wrong};
use super::world::World;
use crate::card::{Card, Offer};
use crate::wire::DATA;

/// How a play ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// All comes to rest.
    Quiet,
    /// One leaves in order, when what it has sent is handed over.
    Leave,
    /// One ends without a goodbye.
    Die,
    /// All links are down for good.
    Sever,
}

/// A job, and the seed that decides what happens to it.
pub(super) struct Play {
    random: StdRng,
    weights: Weights,
    world: Arc<Mutex<World>>,
    job: Job,
}

fn address(node: usize, offer: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, node as u8, offer as u8], 1000 + node as u16))
}

/// Addresses at which each rank says that it can be reached: those of its listeners, and others that do not
/// lead there.
fn draw_cards(random: &mut StdRng, world: &mut World, listeners: &[usize]) -> Vec<Card> {
    let mut cards = Vec::new();
    for (node, count) in listeners.iter().enumerate() {
        let mut routes: Vec<Route> = (0..*count).map(|one| Route::To(node, one)).collect();
        for _ in 0..[0, 0, 1, 2][random.random_range(0..4)] {
            let other = random.random_range(0..listeners.len());
            let decoys = [
                Route::Refused,
                Route::Hole,
                Route::Nowhere,
                Route::To(other, 0),
            ];
            routes.push(decoys[random.random_range(0..4)]);
        }
        routes.shuffle(random);
        let offer = |(index, route)| {
            let address = address(node, index);
            world.routes.insert(address, route);
            let interface = format!("sim{index}");
            Offer { interface, address }
        };
        let offers = routes.into_iter().enumerate().map(offer).collect();
        let host = format!("host{node}");
        cards.push(Card { host, offers });
    }
    cards
}

impl Play {
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ 0x706C_6179);
        let ranks = [2, 2, 2, 2, 2, 3, 4][random.random_range(0..7)];
        let listeners: Vec<usize> = (0..ranks).map(|_| random.random_range(1..3)).collect();
        let mut world = World::new(seed, &listeners);
        world.trace = trace.then(Vec::new);
        world.note(|| format!("seed {seed}, {ranks} ranks"));
        let conditions = world.conditions.clone();
        world.note(|| format!("{conditions:?}"));
        let cards = draw_cards(&mut random, &mut world, &listeners);
        let world = Arc::new(Mutex::new(world));
        let seal = random.random_range(0..4) == 0;
        let members = Members::start(&world, &cards, &listeners, seal);
        Self {
            weights: Weights::draw(&mut random),
            random,
            job: Job::new(world.clone(), members),
            world,
        }
    }

    /// The simulated world.
    pub(super) fn world(&self) -> &Arc<Mutex<World>> {
        &self.world
    }

    /// The job.
    pub(super) fn job(&mut self) -> &mut Job {
        &mut self.job
    }

    fn draw_rank(&mut self) -> usize {
        self.random.random_range(0..self.job.ranks())
    }

    /// A living rank, and another one, now and then itself.
    fn draw_pair(&mut self) -> Option<(usize, usize)> {
        let living = self.job.living();
        let from = living[self.random.random_range(0..living.len())];
        let to = self.draw_rank();
        (from != to || self.random.random_range(0..8) == 0).then_some((from, to))
    }

    fn draw_length(&mut self, most: usize) -> usize {
        let power = self.random.random_range(0..21);
        self.random.random_range(0..1usize << power).min(most)
    }

    fn grant(&mut self) {
        let Some((owner, to)) = self.draw_pair() else {
            return;
        };
        let length = self.draw_length(LONGEST);
        let to = (self.random.random_range(0..3) == 0).then_some(Peer(to as u32));
        let rights = [Rights::Read, Rights::Write][self.random.random_range(0..2)];
        let uses = [Uses::Once, Uses::Many, Uses::Many][self.random.random_range(0..3)];
        self.job.grant(owner, length, (to, rights, uses));
    }

    fn offer(&mut self) -> Wrong {
        let Some((owner, to)) = self.draw_pair().filter(|(owner, to)| owner != to) else {
            return Ok(());
        };
        // Now and then more than one chunk, which take turns with those of other transfers.
        let length = match self.random.random_range(0..8) {
            0 => self
                .random
                .random_range(crate::wire::CHUNK..=crate::portal::offers::AHEAD),
            _ => self.draw_length(LONGEST),
        };
        self.job.offer(owner, to, length)
    }

    /// An announced grant that is taken now, mostly as a whole.
    fn draw_announced(&mut self) -> Option<(usize, usize)> {
        let count = self.job.announced();
        if count == 0 || self.random.random_range(0..3) == 0 {
            return None;
        }
        self.job.take_announced(self.random.random_range(0..count))
    }

    fn transfer(&mut self) -> Wrong {
        let (announced, asker) = match (self.draw_announced(), self.draw_pair()) {
            (Some((grant, asker)), _) => (Some(grant), asker),
            (None, Some((asker, _))) => (None, asker),
            (None, None) => return Ok(()),
        };
        let ranks = (asker, self.job.ranks());
        match Access::draw(&mut self.random, ranks, self.job.grants(), announced) {
            Some(access) => self.job.transfer(&access),
            None => Ok(()),
        }
    }

    fn bogus_transfer(&mut self) -> Wrong {
        let Some((asker, _)) = self.draw_pair() else {
            return Ok(());
        };
        let access = Access::draw_bogus(&mut self.random, (asker, self.job.ranks()));
        self.job.transfer(&access)
    }

    fn revoke(&mut self) {
        let grants = self.job.grants();
        let open: Vec<usize> = (0..grants.len())
            .filter(|number| !grants[*number].revoked)
            .collect();
        if !open.is_empty() {
            let number = open[self.random.random_range(0..open.len())];
            self.job.revoke(number);
        }
    }

    /// Sends more than there is credit for.
    fn flood(&mut self) -> Wrong {
        if !self.random.random::<bool>() {
            for _ in 0..300 {
                self.bogus_transfer()?;
            }
            return Ok(());
        }
        let length = self.random.random_range(0..=DATA);
        if let Some((from, to)) = self.draw_pair().filter(|(from, to)| from != to) {
            for _ in 0..100 {
                if !self.job.post(from, to, Some(length))? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One step.
    fn step(&mut self) -> Wrong {
        match self.weights.draw_action(&mut self.random) {
            Action::Send => {
                if let Some((from, to)) = self.draw_pair() {
                    let length = self.draw_length(DATA);
                    self.job.post(from, to, Some(length))?;
                }
            }
            Action::Signal => {
                if let Some((from, to)) = self.draw_pair() {
                    self.job.post(from, to, None)?;
                }
            }
            Action::Grant => self.grant(),
            Action::Offer => self.offer()?,
            Action::Transfer => self.transfer()?,
            Action::Revoke => self.revoke(),
            Action::Farewell => {
                let rank = self.draw_rank();
                self.job.bid_farewell(rank);
            }
            Action::Flood => self.flood()?,
            Action::Cut => locked(&self.world).cut_one(),
            Action::Stall => {
                let time = self.random.random_range(0..50_000_000);
                locked(&self.world).stall(time);
            }
            Action::Jump => {
                locked(&self.world).jump();
            }
            Action::Pass => {
                let longest = 1u64 << self.random.random_range(8..24);
                let time = Duration::from_nanos(self.random.random_range(0..longest));
                locked(&self.world).pass(time);
            }
            Action::Look => {
                let rank = self.draw_rank();
                let budget = [1, 2, 16, 64][self.random.random_range(0..4)];
                self.job.look(rank, budget)?;
            }
        }
        self.job.unpoisoned()?;
        self.job.prove();
        Ok(())
    }

    /// Looks and lets time pass until nothing more happens, or until `until` holds.
    pub(super) fn settle(&mut self, mut until: impl FnMut(&mut Job) -> bool) -> Wrong {
        let end = locked(&self.world).now() + 10 * PATIENCE.as_nanos() as u64;
        let mut looks = 0;
        loop {
            let mut idle = 0;
            while idle < 4 {
                let mut ranks: Vec<usize> = (0..self.job.ranks()).collect();
                ranks.shuffle(&mut self.random);
                let mut found = 0;
                for rank in ranks {
                    found += self.job.look(rank, 64)?;
                }
                self.job.unpoisoned()?;
                idle = if found == 0 { idle + 1 } else { 0 };
                // A rank with nothing to do sleeps, after another look: what is unread then wakes it.
                locked(&self.world).set_asleep(found == 0);
                if until(&mut self.job) {
                    return Ok(());
                }
            }
            self.job.say()?;
            let mut world = locked(&self.world);
            // A look may have read only a part of what was there.
            let unread = (0..self.job.ranks()).any(|rank| !world.ready(rank).is_empty());
            if !unread && !world.jump() {
                return Ok(());
            }
            looks += 1;
            if looks > 1_000_000 {
                return Err("something stays readable for ever".into());
            }
            if world.now() > end {
                return Err("it does not come to rest".into());
            }
        }
    }

    /// A rank leaves in order: what it has sent is handed over before it ends, and arrives.
    fn leave(&mut self, rank: usize) -> Wrong {
        let Some(mut spoken) = self.job.begin_leaving(rank) else {
            return Ok(());
        };
        let mut handed = false;
        self.settle(|job| {
            handed = job.hand_over(rank);
            handed
        })?;
        if !handed {
            return Err(format!(
                "rank {rank} leaves and cannot hand over what it has said"
            ));
        }
        // A peer that has said goodbye itself is not waited for.
        spoken.retain(|peer| !self.job.is_left(rank, *peer));
        self.job.end(rank);
        self.settle(|_| false)?;
        let mut spoken = spoken.into_iter();
        spoken.try_for_each(|peer| self.job.left_in_order(rank, peer))
    }

    pub(super) fn play(&mut self, steps: usize, tally: &mut Tally) -> Wrong {
        let last = self.draw_rank();
        let ending = [
            Ending::Quiet,
            Ending::Quiet,
            Ending::Quiet,
            Ending::Leave,
            Ending::Leave,
            Ending::Die,
            Ending::Sever,
        ][self.random.random_range(0..7)];
        for _ in 0..steps {
            self.step()?;
        }
        locked(&self.world).note(|| format!("the end: {ending:?}"));
        match ending {
            Ending::Quiet => {}
            Ending::Leave => self.leave(last)?,
            Ending::Die => self.job.end(last),
            Ending::Sever => self.job.sever(),
        }
        self.settle(|_| false)?;
        self.job.at_rest()?;
        if ending == Ending::Quiet {
            self.job.agreed()?;
        }
        if ending != Ending::Sever && !self.job.are_flushed() {
            return Err("at rest, and something is not handed over".into());
        }
        self.job.add_to(tally);
        Ok(())
    }
}
