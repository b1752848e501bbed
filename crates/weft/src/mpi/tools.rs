//! Performance variables: counts of a rank's own work, for a program that observes itself (MPI 5.0, section 15.3.7).

use std::sync::Arc;
use std::time::Duration;

use weft_mpi::Process;
use weft_mpi::counters::{Counters, Traffic};

use super::communicator::PointToPoint;

/// Performance variables of one rank, over all its communicators. Each is read by plain loads while the rank goes on, so
/// two of them may be from different moments. Counts never go down; use their differences.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(2, |world| {
///     let variables = world.performance_variables();
///     let before = variables.messages_sent();
///     if world.rank() == 0 {
///         world.send(&[1u64, 2, 3], 1, 0)?;
///         assert_eq!(variables.messages_sent(), before + 1);
///     } else {
///         let (data, _) = world.receive::<[u64; 3]>(0, 0)?;
///         assert_eq!(data, [1, 2, 3]);
///         assert!(variables.messages_received() >= 1 && variables.bytes_received() >= 24);
///     }
///     world.barrier()?;
///     assert_eq!(variables.receives_posted(), 0, "nothing is waited for any more");
///     Ok(())
/// });
/// ```
///
/// C programs and tools have more of them, with sessions, categories and events: `MPI_T_pvar_…` of the standard.
#[derive(Clone, Debug)]
pub struct PerformanceVariables {
    process: Arc<Process>,
}

impl PointToPoint {
    /// The performance variables of this rank.
    #[must_use]
    pub fn performance_variables(&self) -> PerformanceVariables {
        PerformanceVariables {
            process: Arc::clone(self.state().process()),
        }
    }
}

impl PerformanceVariables {
    /// Of all engines together.
    fn counters(&self) -> Counters {
        Counters::sum(self.process.all_counters())
    }

    fn sent(&self, what: impl Fn(&Traffic) -> u64) -> u64 {
        let counters = self.counters();
        let protocols = [
            counters.eager(),
            counters.eager_synchronous(),
            counters.rendezvous(),
        ];
        protocols.into_iter().map(what).sum()
    }

    /// Messages sent, those of collectives included.
    #[must_use]
    pub fn messages_sent(&self) -> u64 {
        self.sent(|sent| sent.messages.get())
    }

    /// Bytes of their data.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.sent(|sent| sent.bytes.get())
    }

    /// Messages received.
    #[must_use]
    pub fn messages_received(&self) -> u64 {
        self.counters().received()
    }

    /// Bytes of their data.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.counters().bytes_received.get()
    }

    /// Messages that have arrived and now wait for their receive.
    #[must_use]
    pub fn unexpected_messages(&self) -> u64 {
        self.counters().unexpected_now()
    }

    /// Bytes of these messages that are held here now.
    #[must_use]
    pub fn unexpected_bytes(&self) -> u64 {
        self.counters().unexpected_bytes_now()
    }

    /// Receives that now wait for their message.
    #[must_use]
    pub fn receives_posted(&self) -> u64 {
        self.counters().posted_now()
    }

    /// Collectives begun.
    #[must_use]
    pub fn collectives(&self) -> u64 {
        self.counters().collectives_begun.get()
    }

    /// One-sided operations on other ranks: by loads and stores, by messages, and by the fabric.
    #[must_use]
    pub fn one_sided_operations(&self) -> u64 {
        let counters = self.counters();
        counters.one_sided_direct.get()
            + counters.one_sided_messages.get()
            + counters.one_sided_portal.get()
    }

    /// Waits that did not find their result at the first poll.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.counters().waits.get()
    }

    /// Total time that threads slept in these waits.
    #[must_use]
    pub fn slept(&self) -> Duration {
        Duration::from_nanos(self.counters().slept.get())
    }
}
