//! Threads: a system whose components run in threads of this process, or in one. It serves tests, measurements, and users
//! without privileges.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use weft_sys::clock;
use weft_sys::cores;

use super::{ComponentId, PHASES, System, WireEnds};
use crate::description::Run;
use crate::policy::Choice;
use crate::runner::Runner;

/// A running system; it ends when this is dropped.
pub struct Threads {
    system: System,
    running: Vec<(Vec<ComponentId>, JoinHandle<io::Result<()>>)>,
}

impl Threads {
    /// Starts every component as the description says: one thread each, or all in one.
    ///
    /// # Errors
    /// If the kernel refuses, or threads cannot be started.
    pub fn start(system: System, wire: WireEnds) -> io::Result<Self> {
        let mut threads = Self {
            running: Vec::new(),
            system,
        };
        let all = threads.system.components();
        let groups: Vec<Vec<ComponentId>> = match threads.system.description.run {
            Run::Fused => vec![all],
            Run::Threads | Run::Processes => all.into_iter().map(|id| vec![id]).collect(),
        };
        let two = threads.system.components().contains(&ComponentId::TxDriver);
        let (mut wire, mut tx_wire) = match (two, wire) {
            (true, wire) if groups.len() > 1 => {
                let (rx, tx) = wire.split();
                (Some(rx), Some(tx))
            }
            (_, wire) => (Some(wire), None),
        };
        for group in groups {
            let wire = if group.contains(&ComponentId::Driver) {
                wire.take()
            } else if group.contains(&ComponentId::TxDriver) {
                tx_wire.take()
            } else {
                None
            };
            threads.start_group(&group, wire)?;
        }
        Ok(threads)
    }

    fn start_group(&mut self, group: &[ComponentId], mut wire: Option<WireEnds>) -> io::Result<()> {
        let mut runners = Vec::new();
        for &id in group {
            let wire = match id {
                ComponentId::Driver | ComponentId::TxDriver => wire.take(),
                _ => None,
            };
            let capabilities = self.system.capabilities(id)?;
            let capabilities = match group.len() {
                1 => capabilities,
                _ => capabilities.silent(),
            };
            runners.push(capabilities.build(wire)?);
        }
        let name = self.system.name(group[0]);
        let core = self.system.description.cores.of.get(&name).copied();
        let nice = self.system.description.nice.get(&name).copied();
        let runner = Runner::fuse(runners)?;
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

    /// Memory and control pages.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Changes the policy.
    pub fn set_policy(&mut self, choice: &Choice) {
        self.system.set_policy(choice);
    }

    /// Ends one component, as if it had died between two steps: its ledgers are lost.
    ///
    /// # Errors
    /// The error with which its thread ended.
    pub fn kill(&mut self, id: ComponentId) -> io::Result<()> {
        let place = self.running.iter().position(|(group, _)| group == &[id]);
        let Some(place) = place else {
            return Err(io::Error::other(format!("{id:?} is no thread of its own")));
        };
        let (_, handle) = self.running.swap_remove(place);
        self.system.control_page(id).stop(true);
        self.system.order(id);
        let ended = join(handle);
        self.system.control_page(id).stop(false);
        ended
    }

    /// Starts a successor of a component that is gone.
    ///
    /// # Errors
    /// If a neighbour does not follow within five seconds, or the kernel refuses.
    pub fn restart(&mut self, id: ComponentId, wire: Option<WireEnds>) -> io::Result<()> {
        for phase in 0..PHASES {
            let reattached = self.system.reattach(id, phase)?;
            let end = clock::deadline_after(Duration::from_secs(5));
            for neighbour in reattached.told {
                // A client is not waited for: it need not behave.
                while !matches!(neighbour, ComponentId::Client(_))
                    && !self.system.has_followed(neighbour)
                {
                    if clock::monotonic() > end {
                        return Err(io::Error::other(format!("{neighbour:?} does not follow")));
                    }
                    cores::yield_core();
                }
            }
        }
        self.start_group(&[id], wire)
    }

    /// Ends all; returns what went wrong.
    ///
    /// # Errors
    /// The first thing that went wrong in a thread.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        for (group, _) in &self.running {
            for &id in group {
                self.system.control_page(id).stop(true);
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
