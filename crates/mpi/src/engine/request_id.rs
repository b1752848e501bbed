//! Names of requests: an index in the engine's table with a generation, by which a stale name is detected. The lowest
//! bits of the generation name the engine of the rank.

const _: () = assert!(weft_fabric::MOST_CHANNELS == 1 << RequestId::ENGINE_BITS);

/// Name of a request: index in the table and generation of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    index: u32,
    generation: u32,
}

impl RequestId {
    /// A send that had ended when the call returned. It has no slot, its outcome is the empty status,
    /// and it may be taken any number of times.
    pub const DONE: Self = Self {
        index: (1 << 22) - 1,
        generation: 0,
    };
    /// A receive from `MPI_PROC_NULL`, likewise: its outcome is the status of one.
    pub const NOTHING_RECEIVED: Self = Self {
        generation: 1 << Self::ENGINE_BITS,
        ..Self::DONE
    };
    /// No request at all.
    pub(crate) const NONE: Self = Self {
        index: u32::MAX,
        generation: 0,
    };
    /// How many of the lowest bits of a generation name the engine.
    const ENGINE_BITS: u32 = 2;
    /// How many bits a generation has: as many as leave 22 for the index in a handle that converts to
    /// a C integer and back.
    pub const GENERATION_BITS: u32 = 7;

    /// A name from its parts; the generation is cut to its bits.
    #[must_use]
    #[inline]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self {
            index,
            generation: generation & ((1 << Self::GENERATION_BITS) - 1),
        }
    }

    /// Whether the operation had ended when the call returned, so that there is no slot.
    #[must_use]
    #[inline]
    pub const fn is_done(self) -> bool {
        self.index == Self::DONE.index
    }

    /// The name that the index has after this one.
    #[inline]
    pub(super) const fn next(self) -> Self {
        Self::new(
            self.index,
            self.generation.wrapping_add(1 << Self::ENGINE_BITS),
        )
    }

    /// The channel whose engine it is in.
    #[must_use]
    #[inline]
    pub(crate) const fn engine(self) -> u32 {
        self.generation & ((1 << Self::ENGINE_BITS) - 1)
    }

    /// Index in the table.
    #[must_use]
    #[inline]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Generation of the slot.
    #[must_use]
    #[inline]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_engine_and_comes_again_late() {
        for engine in 0..weft_fabric::MOST_CHANNELS {
            let first = RequestId::new(5, engine);
            let mut name = first.next();
            let mut names = 1;
            while name != first {
                assert_eq!((name.engine(), name.index()), (engine, 5));
                name = name.next();
                names += 1;
            }
            assert_eq!(names, 32);
        }
    }
}
