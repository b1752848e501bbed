//! Supervised fabric: a network alone, with a bell that is rung by entries in the memory of the host: inquiries of the
//! launcher, absences, and deaths, which the network [looks up](super::recorded) there.
//!
//! ```text
//!   launcher ── inquiry, absence, end ──▶ memory ── doorbell ──▶ weft-watch, a thread ── rings ──▶ whoever sleeps at the network's bell
//! ```
//!
//! Ranks that communicate through the memory of their host sleep there, and are rung by the launcher. A rank that uses a
//! network alone sleeps on its descriptors; its slot in that memory shows that it sleeps, and a thread that is started
//! with the first sleep waits there for it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use weft_fabric::{Absences, Bell, Fabric, Ticket, forward_bell, forward_fabric};
use weft_fabric_shm::SleepElsewhere;
use weft_fabric_tcp::{NetworkBell, Remote};
use weft_sys::signal;

/// A network, whose sleepers the launcher may ask what they wait for.
pub struct Supervised<R> {
    inner: R,
    bell: Arc<SupervisedBell>,
}

impl<R: Remote> Supervised<R> {
    /// Over this endpoint; `place` is that of this process in the memory of its host.
    pub fn new(inner: R, place: SleepElsewhere) -> Self {
        let bell = Arc::new(SupervisedBell {
            inner: inner.network_bell(),
            place: Arc::new(place),
            ended: Arc::default(),
            watcher: Mutex::default(),
        });
        Self { inner, bell }
    }
}

impl<R: Remote> Fabric for Supervised<R> {
    forward_fabric!(self => self.inner; me, peers, incarnation, cause_of_loss, has_unreported_members, limits, now, route, try_send, try_send_part, inject, take_next, poll, grant, offer,
        revoke, get, put, signal, signals, take_signals, forget, shares_memory, allocate_shared, release_shared, attach_shared,
        is_asleep, wake, is_any_beside, is_flushed, traffic, say_goodbye, abandon_unreached, announce_absence);

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }
}

struct SupervisedBell {
    inner: Arc<NetworkBell>,
    place: Arc<SleepElsewhere>,
    /// The watcher is to end.
    ended: Arc<OnceLock<()>>,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

impl SupervisedBell {
    /// Starts the watcher, unless it is there. Without one nobody asks this rank.
    fn watch(&self) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.is_some() {
            return;
        }
        let (place, bell, ended) = (
            Arc::clone(&self.place),
            Arc::clone(&self.inner),
            Arc::clone(&self.ended),
        );
        let watch = move || {
            let mut heard = (0, Absences::default(), 0);
            place.attend(|| {
                let told = (place.inquiry(), place.absences(), place.changes());
                if told != heard {
                    heard = told;
                    bell.ring();
                } else {
                    // It was seen before it was rung for. A sleep that ends for nothing would be another one than that of the answer
                    // before.
                    place.goes_on();
                }
                ended.get().is_none()
            });
        };
        *watcher = signal::spawn_without_signals("weft-watch", watch).ok();
    }
}

impl Bell for SupervisedBell {
    forward_bell!(self => self.inner; prepare, cancel, ring, load, yield_core, shares_core, change_core, stands_apart,
        polls_per_clock_read, reaching, when_reaching);

    fn wait(&self, ticket: Ticket, limit: Option<Duration>) {
        self.watch();
        self.place.begins();
        self.inner.wait(ticket, limit);
        self.place.ends();
    }

    fn inquiry(&self) -> u32 {
        self.place.inquiry()
    }

    fn absences(&self) -> Absences {
        self.place.absences().and(self.inner.absences())
    }

    fn tell_absence(&self, world: u32) {
        self.place.tell_absence(world);
    }
}

impl Drop for SupervisedBell {
    fn drop(&mut self) {
        let _ = self.ended.set(());
        self.place.ring();
        let watcher = self
            .watcher
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = watcher.take() {
            let _ = watcher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Instant;
    use weft_fabric::Peer;
    use weft_fabric_shm::{Options, Shm, Watch, initialise, segment_size};
    use weft_sys::MemoryFile;

    /// The watcher may have seen an inquiry before it is rung for it: that ring brings nothing new, but has marked the place as awake.
    #[test]
    fn a_sleeper_that_is_rung_for_nothing_shows_that_it_sleeps() {
        let file = MemoryFile::create("weft-test", segment_size(2).expect("fits")).expect("memory");
        let mapping = file.map().expect("maps");
        initialise(&mapping, 2, 2).expect("the right size");
        let watch = Watch::open(&file).expect("initialised");
        let [local, mut other] = [0, 1].map(|rank| {
            let descriptor = file.as_fd().try_clone_to_owned().expect("duplicates");
            Shm::attach_with(descriptor, rank, &Options::default()).expect("joins")
        });
        let network = NetworkBell::new(local.bell().load()).expect("descriptors");
        let bell = SupervisedBell {
            inner: Arc::new(network),
            place: Arc::new(local.sleep_elsewhere()),
            ended: Arc::default(),
            watcher: Mutex::default(),
        };
        let is_over = OnceLock::new();
        let sleeper = || {
            while is_over.get().is_none() {
                let ticket = bell.prepare();
                match is_over.get() {
                    None => bell.wait(ticket, None),
                    Some(()) => bell.cancel(ticket),
                }
            }
        };
        // The watcher is at the doorbell, and of both places the other one is awake.
        let sleeps = |other: &mut Shm| {
            let end = Instant::now() + Duration::from_secs(20);
            let mut does = || other.is_asleep(Peer(0)) && watch.awake() == 1;
            while !does() && Instant::now() < end {
                std::thread::yield_now();
            }
            does()
        };
        std::thread::scope(|scope| {
            scope.spawn(sleeper);
            let shows_it = (0..100).all(|_| {
                let sleeps = sleeps(&mut other);
                other.wake(Peer(0));
                sleeps
            });
            let _ = is_over.set(());
            bell.ring();
            assert!(shows_it, "it sleeps, and shows itself awake");
        });
    }
}
