//! Configuration of a runtime: workers, stacks and their guards, and the order of runnable fibers.

use weft_sys::cores;

/// Which stacks have guards. A fiber that overflows a stack without one writes into its neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Guard(pub(crate) Guarded);

/// See [`Guard`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Guarded {
    #[default]
    All,
    Possible,
    None,
}

impl Guard {
    /// Every stack has one: the default. If guards cost mappings (before Linux 6.13) a runtime has
    /// 16 384 stacks, and one more is refused.
    pub const ALL: Self = Self(Guarded::All);

    /// As many as possible: all, or the first 16 384 stacks of the runtime if guards cost mappings.
    ///
    /// # Safety
    /// On such a kernel the further fibers must not overflow their stacks.
    #[must_use]
    pub const unsafe fn where_possible() -> Self {
        Self(Guarded::Possible)
    }

    /// No stack has a guard.
    ///
    /// # Safety
    /// No fiber of the runtime may overflow its stack.
    #[must_use]
    pub const unsafe fn never() -> Self {
        Self(Guarded::None)
    }
}

/// Order in which a worker runs its runnable fibers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Each fiber once before any twice.
    #[default]
    Fair,
    /// At random, from this seed: for finding mistakes in the interaction of fibers. The same seed gives the same order
    /// if nothing else differs. A fiber may wait long for its turn.
    Seeded(u64),
}

/// Configuration of a runtime. All fields have defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most workers, at most 64; 0 for one a core. A worker's thread is started when it first has a fiber.
    pub workers: usize,
    /// Most fibers that may be live at once, in steps of 1024. Unused ones cost only address space.
    pub fibers: usize,
    /// Bytes of a stack, guard included, rounded up to a power of two; memory is taken as it is touched.
    pub stack: usize,
    /// Which stacks have guards.
    pub guard: Guard,
    /// The order of runnable fibers.
    pub order: Order,
    /// Pins worker `i` to the core at index `first + i` of those that the process may use, wrapping around. `None` pins
    /// no worker; neither does a runtime with more workers than cores.
    pub pin: Option<usize>,
}

/// Frames of what a sanitizer watches, which is not optimized in part, are several times as large: fewer stacks, larger ones.
const WATCHED: bool = cfg!(any(sanitizer = "thread", sanitizer = "address"));

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 0,
            fibers: match (cfg!(miri), WATCHED) {
                (true, _) => 1024,
                (_, true) => 1 << 20,
                _ => 1 << 22,
            },
            stack: 1024
                * match (cfg!(miri), WATCHED) {
                    (true, _) => 16,
                    (_, true) => 256,
                    _ => 64,
                },
            guard: Guard::ALL,
            order: Order::Fair,
            pin: Some(0),
        }
    }
}

impl Config {
    /// With the defaults of this machine in place of zeros, and all numbers within bounds.
    pub(crate) fn bounded(mut self) -> Self {
        if self.workers == 0 {
            self.workers = cores::cores_available();
        }
        self.workers = self.workers.clamp(1, 64);
        self.fibers = self.fibers.clamp(1024, 1 << 26).next_multiple_of(1024);
        self
    }
}

impl Order {
    /// The state from which the generator of a worker starts; 0 for no generator.
    pub(crate) fn seed_of(self, worker: usize) -> u64 {
        match self {
            Self::Fair => 0,
            // Any value but 0 starts the generator.
            Self::Seeded(seed) => {
                (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_add(worker as u64 * 0xD1B5_4A32_D192_ED03)
                    | 1
            }
        }
    }
}
