//! One node as a value: the calls of the services by id, blocking and not.
//!
//! Ids, nodes and ports are plain numbers here, as C programs give them, so that each is checked in one place;
//! [`inbox`](Node::inbox) and the like make typed ends for Rust programs.

mod mailbox;
mod name;
mod portal;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use weft_fabric::Fabric;

use crate::awaited::{Awaited, On};
use crate::error::Result;
use crate::host::{Alone, Host};
use crate::state::Core;

/// The services of one node. Cheap to clone; may be used by any thread.
#[derive(Clone)]
pub struct Node {
    host: Arc<dyn Host>,
    me: u32,
    nodes: u32,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Node({} of {})", self.me, self.nodes)
    }
}

/// Undoes what a call has begun if it is unwound, so that nothing reaches memory of a caller that is gone.
struct Unwound<'a, F: Fn(&mut Core, &mut dyn Fabric)> {
    host: &'a dyn Host,
    undo: F,
}

impl<F: Fn(&mut Core, &mut dyn Fabric)> Drop for Unwound<'_, F> {
    fn drop(&mut self) {
        self.host
            .with(&mut |core, fabric| (self.undo)(core, fabric));
    }
}

impl Node {
    /// The node at an endpoint that has no other user.
    #[must_use]
    pub fn alone(fabric: Box<dyn Fabric>) -> Self {
        Self::hosted(Arc::new(Alone::new(fabric)))
    }

    /// The node whose [`Core`] a host drives.
    #[must_use]
    pub fn hosted(host: Arc<dyn Host>) -> Self {
        let (mut me, mut nodes) = (0, 0);
        host.with(&mut |core, _| {
            (me, nodes) = (core.common().nodes.me(), core.common().nodes.count())
        });
        Self { host, me, nodes }
    }

    /// Number of this node.
    #[must_use]
    pub fn me(&self) -> u32 {
        self.me
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Leaves the job in order: returns when everything that was written is on its way and the other nodes know. Call it
    /// once, last.
    pub fn leave(&self) {
        self.with(|core, fabric| core.leave(fabric));
        self.host.wait(
            On::Outbox.subject(),
            &mut |core, _| core.common().outbox.is_empty(),
            &|_| Awaited::of_any("what it has written to leave"),
        );
    }

    /// Time since some fixed moment of the fabric: real, or virtual under simulation.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.with(|_, fabric| fabric.now())
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Core, &mut dyn Fabric) -> T) -> T {
        let (mut work, mut answer) = (Some(work), None);
        self.host.with(&mut |core, fabric| {
            if let Some(work) = work.take() {
                answer = Some(work(core, fabric));
            }
        });
        answer.expect("a host runs what it is given")
    }

    /// Begins an operation and waits until it has ended, which is a change `on` this.
    #[inline]
    fn block<T>(
        &self,
        on: On,
        begin: impl FnOnce(&mut Core, &mut dyn Fabric, u64) -> Result<()>,
        poll: impl Fn(&mut Core, &mut dyn Fabric, u64) -> Option<Result<T>>,
        undo: impl Fn(&mut Core, &mut dyn Fabric),
        awaited: impl Fn(&mut Core) -> Awaited,
    ) -> Result<T> {
        let (mut begin, mut answer, mut start) = (Some(begin), None, 0);
        let unwound = Unwound {
            host: &*self.host,
            undo,
        };
        let mut ready = |core: &mut Core, fabric: &mut dyn Fabric| {
            if let Some(begin) = begin.take() {
                start = core.common().clock.read(fabric);
                if let Err(error) = begin(core, fabric, start) {
                    answer = Some(Err(error));
                    return true;
                }
            }
            answer = poll(core, fabric, start);
            answer.is_some()
        };
        self.host.wait(on.subject(), &mut ready, &awaited);
        std::mem::forget(unwound);
        answer.expect("a host waits until there is an answer")
    }
}
