//! Runner: the event loop of one thread or process. It runs a component until the control page says stop, and
//! sleeps while there is nothing to do.

use std::io;

use weft_sys::event::EventWaiter;
use weft_sys::{clock, cores};

use crate::component::{Component, Fused};
use crate::control::ControlPage;

/// A component with everything that it needs to run alone.
pub struct Runner {
    component: Box<dyn Component>,
    /// Wakes when neighbours notify.
    waiter: EventWaiter,
    /// The page that tells it to stop.
    page: ControlPage,
}

/// How old the processor time on a control page may be, in nanoseconds: reading the clock is a system call.
const REPORTED: u64 = 1_000_000;

impl Runner {
    /// The runner of a component whose neighbours notify this waiter.
    #[must_use]
    pub fn new(component: Box<dyn Component>, waiter: EventWaiter, page: ControlPage) -> Self {
        Self {
            component,
            waiter,
            page,
        }
    }

    /// Several runners as one: they run in turn and end with the first; whatever wakes one of them wakes it.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn fuse(mut runners: Vec<Self>) -> io::Result<Self> {
        if runners.len() == 1
            && let Some(runner) = runners.pop()
        {
            return Ok(runner);
        }
        let waiter = EventWaiter::new()?;
        let page = runners[0].page.clone();
        let mut components = Fused::default();
        for runner in runners {
            // Its own waiter is registered in the common one. The system keeps it.
            waiter.register_waiter(&runner.waiter)?;
            components.push(runner.component);
        }
        Ok(Self::new(Box::new(components), waiter, page))
    }

    /// The component alone, to be run in virtual time.
    #[must_use]
    pub fn into_component(self) -> Box<dyn Component> {
        self.component
    }

    /// Runs until the control page says stop.
    ///
    /// # Errors
    /// If the kernel refuses to let it sleep, or an order could not be followed.
    pub fn run(mut self) -> io::Result<()> {
        if let Some(descriptor) = self.component.descriptor() {
            self.waiter.register_readable(&descriptor)?;
        }
        let mut reported = 0;
        while !self.page.stopped() {
            if let Some(error) = self.page.failure() {
                return Err(io::Error::new(error.kind(), error.to_string()));
            }
            let mut now = clock::monotonic();
            let mut steps = 0u32;
            while self.component.step(now) {
                now = clock::monotonic();
                steps += 1;
                if self.component.is_ahead() {
                    cores::yield_core();
                }
                if steps.is_multiple_of(1024) {
                    self.page.set_time(clock::thread_time());
                    if self.page.stopped() || self.page.failure().is_some() {
                        break;
                    }
                }
            }
            if now >= reported + REPORTED {
                reported = now;
                self.page.set_time(clock::thread_time());
            }
            if self.component.announce() || self.page.stopped() {
                continue;
            }
            self.waiter.wait(self.component.deadline())?;
        }
        self.page.set_time(clock::thread_time());
        Ok(())
    }
}
