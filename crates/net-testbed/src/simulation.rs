//! Simulation: a whole system in one thread and in virtual time: components run in turn, and the clock jumps to the
//! next deadline. The same input gives the same result.

use std::io;

use weft_net::component::{Component, Fused};
use weft_net::description::Description;
use weft_net::system::{ComponentId, System, WireEnds};
use weft_net::wire::{Far, Shape};

/// When the time of a simulation begins, in nanoseconds.
pub const BEGIN: u64 = 1_000_000;

/// A system, its components and their clock.
pub struct Simulation {
    system: System,
    components: Fused,
    now: u64,
}

impl Simulation {
    /// A system with `far` at the far end of its wire. `absent`: a component that does nothing.
    ///
    /// # Errors
    /// If the kernel refuses memory or descriptors.
    pub fn new(
        description: Description,
        far: Box<dyn Far>,
        absent: Option<ComponentId>,
    ) -> io::Result<Self> {
        let system = System::create(description)?;
        let shape = Shape {
            moderation: 0,
            ..Shape::default()
        };
        let mut wire = Some(WireEnds::virtual_wire(shape, far));
        let mut components = Fused::default();
        for id in system.components() {
            if Some(id) == absent {
                continue;
            }
            let wire = if id == ComponentId::Driver {
                wire.take()
            } else {
                None
            };
            let runner = system.capabilities(id)?.silent().build(wire)?;
            components.push(runner.into_component());
        }
        Ok(Self {
            system,
            components,
            now: BEGIN,
        })
    }

    /// The system: its counters, and orders to its components.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The system, to be changed while it runs.
    pub fn system_mut(&mut self) -> &mut System {
        &mut self.system
    }

    /// Nanoseconds of virtual time.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Starts a component that was absent, or the successor of one that was ended.
    ///
    /// # Errors
    /// If the kernel refuses memory or descriptors.
    pub fn start(&mut self, id: ComponentId) -> io::Result<()> {
        let runner = self.system.capabilities(id)?.silent().build(None)?;
        self.components.push(runner.into_component());
        Ok(())
    }

    /// Ends the component that was started last, between two steps.
    pub fn end_last(&mut self) {
        drop(self.components.pop());
    }

    /// One step of each component; true if anything was moved.
    pub fn step(&mut self) -> bool {
        self.components.step(self.now)
    }

    /// Lets the clock jump to the next deadline, but not beyond `end`.
    pub fn advance(&mut self, end: u64) {
        let next = self.components.deadline().unwrap_or(end);
        self.now = next.max(self.now + 1_000).min(end);
    }

    /// Lets `nanoseconds` pass.
    pub fn run(&mut self, nanoseconds: u64) {
        let end = self.now + nanoseconds;
        while self.now < end {
            while self.step() {}
            self.advance(end);
        }
    }
}

#[cfg(test)]
mod tests;
