//! Marks of messages: words that messages carry, by which their receivers identify them.
//!
//! The mark of a message belongs to the thread, or the fiber, that has begun to send it: several may send at once, and
//! each engine of a rank is used by one of them at a time. So the engine keeps no mark. It asks the [`Marker`], on the
//! thread that sends, while at least one call is under way whose messages are to be marked; otherwise a message costs one
//! check of that number.

/// The mark of a message, as its receiver sees it. For a message that was announced, or is synchronous, it is the word of
/// its transfer, which is unique among those of its sender in the same engine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mark {
    /// The word; 0 if it has carried none.
    pub word: u64,
    /// The sender, as this process numbers them.
    pub from: u32,
    /// The engine, which is that of the same channel at both.
    pub engine: u32,
}

/// Source of marks. Called by the thread that sends, while the process is in use: calling the process from it panics.
pub trait Marker: Send + Sync {
    /// The caller begins to send a message in this engine: the word that it is to carry; 0 for none.
    fn begins(&self, engine: u32) -> u64;
    /// That message carries this word instead: that of its transfer.
    fn carries(&self, word: u64);
    /// A message that was to carry the first word was held back. It leaves this engine now, on any thread, with the
    /// second word instead.
    fn leaves(&self, engine: u32, words: (u64, u64));
}
