//! Marking: the source that an engine asks for the marks of the messages that the program sends.

use weft_atomic::{AtomicU32, Ordering};

use crate::marks::Marker;

/// Calls that send marked messages, where nobody marks any.
static NO_CALLS: AtomicU32 = AtomicU32::new(0);

/// See the [module page](self).
#[derive(Clone, Copy)]
pub(crate) struct Marking {
    /// Calls under way whose messages are to be marked. The caller's own is among them, as it has counted that itself.
    calls: &'static AtomicU32,
    marker: Option<&'static dyn Marker>,
}

impl Default for Marking {
    fn default() -> Self {
        Self {
            calls: &NO_CALLS,
            marker: None,
        }
    }
}

impl Marking {
    /// Asks this one, while this number is not 0.
    pub(crate) fn by(calls: &'static AtomicU32, marker: &'static dyn Marker) -> Self {
        Self {
            calls,
            marker: Some(marker),
        }
    }

    /// Whether there is anybody to mark messages, and to be told of their marks.
    pub(super) fn asks(self) -> bool {
        self.marker.is_some()
    }

    /// Whether the caller's message may have a mark.
    #[inline(always)]
    pub(super) fn is_due(self) -> bool {
        self.calls.load(Ordering::Relaxed) != 0
    }

    /// What the message is to carry that the caller begins to send by this engine; 0 for nothing.
    #[cold]
    pub(super) fn begin(self, engine: u32) -> u64 {
        self.marker.map_or(0, |marker| marker.begins(engine))
    }

    /// The caller's message, which was to carry another one, carries this word.
    #[cold]
    pub(super) fn carries(self, word: u64) {
        if let Some(marker) = self.marker {
            marker.carries(word);
        }
    }

    /// A message that was held back, and was to carry the first word, leaves with the second.
    #[cold]
    pub(super) fn leaves(self, engine: u32, words: (u64, u64)) {
        if let Some(marker) = self.marker {
            marker.leaves(engine, words);
        }
    }
}
