//! Times of waits: a profiler is told when a call begins to wait, when it goes on, and for whom it has waited.
//!
//! Only calls that found nothing at their first poll come here: calls that go on at once pay nothing.

/// What a call waits for, as far as is known when the wait begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaits {
    /// A message of this process that has not come: its number in the job.
    Message(u32),
    /// A message from `MPI_ANY_SOURCE`, on the communicator with this context.
    Anybody(u32),
    /// That a message is received by this process.
    Receiver(u32),
    /// The data of a message that was matched.
    Data(Option<u32>),
    /// A collective.
    Collective,
    /// Something at a window.
    Window,
    /// Anything else.
    Other,
}

/// A wait that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BegunWait {
    /// The listener's name for the call.
    pub call: usize,
    /// When, on the listener's clock.
    pub time: u64,
    /// The listener's data about a message that the call sends: the thread may run other fibers meanwhile.
    pub message: [u64; 3],
}

/// A listener to waits. Called by the thread that waits, while the process is in use: calling the process from it panics.
pub trait WaitListener: Send + Sync {
    /// The calling thread, or its fiber, begins to wait.
    fn begun(&self) -> BegunWait;
    /// It goes on, perhaps on another thread.
    fn ended(&self, wait: BegunWait, awaited: Awaits);
    /// The time now.
    fn now(&self) -> u64;
    /// The calling thread has slept since then.
    fn slept(&self, since: u64);
}
