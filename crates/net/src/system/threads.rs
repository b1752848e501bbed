//! A system as threads of this process, or as one thread: for tests, for measuring, and where there
//! is no privilege.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use weft_sys::clock;
use weft_sys::cores;
use weft_sys::event::EventWaiter;

use super::{Id, PHASES, System, Tap};
use crate::component::{Fused, Runner};
use crate::description::Run;

/// A running system; it ends when this is dropped.
pub struct Threads {
    /// Memory, bells, boards.
    pub system: System,
    running: Vec<(Vec<Id>, JoinHandle<io::Result<()>>)>,
}

impl Threads {
    /// Starts every component as the description says: one thread each, or all in one.
    ///
    /// # Errors
    /// If the kernel refuses, or threads cannot be started.
    pub fn start(system: System, tap: Tap) -> io::Result<Self> {
        let mut threads = Self {
            running: Vec::new(),
            system,
        };
        let all = threads.system.components();
        let groups: Vec<Vec<Id>> = match threads.system.description.run {
            Run::Fused => vec![all],
            Run::Threads | Run::Processes => all.into_iter().map(|id| vec![id]).collect(),
        };
        let two = threads.system.components().contains(&Id::TxDriver);
        let (mut tap, mut tx_tap) = match (two, tap) {
            (true, tap) if groups.len() > 1 => {
                let (rx, tx) = tap.split();
                (Some(rx), Some(tx))
            }
            (_, tap) => (Some(tap), None),
        };
        for group in groups {
            let tap = if group.contains(&Id::Driver) {
                tap.take()
            } else if group.contains(&Id::TxDriver) {
                tx_tap.take()
            } else {
                None
            };
            threads.start_group(&group, tap)?;
        }
        Ok(threads)
    }

    fn start_group(&mut self, group: &[Id], mut tap: Option<Tap>) -> io::Result<()> {
        let mut runners = Vec::new();
        for &id in group {
            let tap = match id {
                Id::Driver | Id::TxDriver => tap.take(),
                _ => None,
            };
            let mut grant = self.system.grant(id)?;
            grant.silent = group.len() > 1;
            runners.push(grant.build(tap)?);
        }
        let name = self.system.name(group[0]);
        let core = self.system.description.cores.of.get(&name).copied();
        let nice = self.system.description.nice.get(&name).copied();
        let runner = fuse(runners)?;
        let handle = std::thread::Builder::new().name(name).spawn(move || {
            if let Some(core) = core {
                cores::pin(&[core])?;
            }
            if let Some(nice) = nice {
                cores::set_nice(nice)?;
            }
            runner.run()
        })?;
        self.running.push((group.to_vec(), handle));
        Ok(())
    }

    /// Ends one component, as if it had died between two steps: its books are gone.
    ///
    /// # Errors
    /// What its thread ended with.
    pub fn kill(&mut self, id: Id) -> io::Result<()> {
        let place = self.running.iter().position(|(group, _)| group == &[id]);
        let Some(place) = place else {
            return Err(io::Error::other(format!("{id:?} is no thread of its own")));
        };
        let (_, handle) = self.running.swap_remove(place);
        self.system.board(id).stop(true);
        self.system.order(id);
        let ended = join(handle);
        self.system.board(id).stop(false);
        ended
    }

    /// Starts a successor of a component that is gone.
    ///
    /// # Errors
    /// If a neighbour does not follow within five seconds, or the kernel refuses.
    pub fn restart(&mut self, id: Id, tap: Option<Tap>) -> io::Result<()> {
        for phase in 0..PHASES {
            let renewed = self.system.renew(id, phase)?;
            let end = clock::deadline_after(Duration::from_secs(5));
            for neighbour in renewed.told {
                // A client is not waited for: it need not behave.
                while !matches!(neighbour, Id::Client(_)) && !self.system.has_followed(neighbour) {
                    if clock::monotonic() > end {
                        return Err(io::Error::other(format!("{neighbour:?} does not follow")));
                    }
                    cores::yield_core();
                }
            }
        }
        self.start_group(&[id], tap)
    }

    /// Ends all; what went wrong.
    ///
    /// # Errors
    /// The first thing that went wrong in a thread.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        for (group, _) in &self.running {
            for &id in group {
                self.system.board(id).stop(true);
                self.system.order(id);
            }
        }
        let mut result = Ok(());
        for (_, handle) in self.running.drain(..) {
            let ended = join(handle);
            if result.is_ok() {
                result = ended;
            }
        }
        result
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn join(handle: JoinHandle<io::Result<()>>) -> io::Result<()> {
    handle
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("a component panicked")))
}

/// Several components as one: it hears what any of them hears.
fn fuse(mut runners: Vec<Runner>) -> io::Result<Runner> {
    if runners.len() == 1
        && let Some(runner) = runners.pop()
    {
        return Ok(runner);
    }
    let ear = EventWaiter::new()?;
    let board = runners[0].board.clone();
    let mut components = Vec::new();
    for runner in runners {
        // Its bells are heard through its own ear, which lies in the common one. The system keeps it.
        ear.hear_ear(&runner.ear)?;
        components.push(runner.component);
    }
    Ok(Runner {
        component: Box::new(Fused::from(components)),
        ear,
        board,
    })
}
