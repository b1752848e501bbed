//! Keys of messages and patterns of receives: (context, source, tag), exact or any.
//!
//! A [`Pattern`] is one of four kinds, by which of its two fields are wild. Inside the engine a pattern is
//! its kind and a [`Key`] whose wild fields are zero: `kind.project(envelope)` gives the key that a receive
//! of that kind must have to match the envelope, so matching is equality of keys.

use core::fmt;

/// The context of a communicator: messages of one context never meet receives of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Context(pub u32);

/// The sender of a message; the engine's user gives the number its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source(pub u32);

/// The tag of a message. Every value is a tag here; wildcards are [`TagPattern::Any`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tag(pub i32);

/// The source that a receive asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SourcePattern {
    /// Any source of the context (`MPI_ANY_SOURCE`).
    Any,
    /// This source only.
    Exact(Source),
}

/// The tag that a receive asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TagPattern {
    /// Any tag (`MPI_ANY_TAG`).
    Any,
    /// This tag only.
    Exact(Tag),
}

/// The values that a message carries for matching.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    /// The communicator's context.
    pub context: Context,
    /// The sender.
    pub source: Source,
    /// The tag that the sender gave.
    pub tag: Tag,
}

/// The request of a receive or a probe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    /// The communicator's context; there is no wildcard for it.
    pub context: Context,
    /// One source or any.
    pub source: SourcePattern,
    /// One tag or any.
    pub tag: TagPattern,
}

impl Pattern {
    /// Whether a receive of this pattern takes a message with this envelope.
    ///
    /// ```
    /// use weft_matching::{Context, Envelope, Pattern, Source, SourcePattern, Tag, TagPattern};
    /// let envelope = Envelope { context: Context(1), source: Source(2), tag: Tag(3) };
    /// let any_source = Pattern { source: SourcePattern::Any, ..envelope.into() };
    /// let other_tag = Pattern { tag: TagPattern::Exact(Tag(4)), ..any_source };
    /// assert!(any_source.takes(&envelope));
    /// assert!(!other_tag.takes(&envelope));
    /// ```
    #[must_use]
    pub fn takes(&self, envelope: &Envelope) -> bool {
        let (kind, key) = self.split();
        kind.project(Key::of(*envelope)) == key
    }

    /// The pattern as the engine stores it.
    #[inline]
    pub(crate) fn split(self) -> (WildcardKind, Key) {
        let (any_source, source) = match self.source {
            SourcePattern::Any => (true, 0),
            SourcePattern::Exact(source) => (false, source.0),
        };
        let (any_tag, tag) = match self.tag {
            TagPattern::Any => (true, 0),
            TagPattern::Exact(tag) => (false, tag.0.cast_unsigned()),
        };
        let kind = match (any_source, any_tag) {
            (false, false) => WildcardKind::Exact,
            (false, true) => WildcardKind::AnyTag,
            (true, false) => WildcardKind::AnySource,
            (true, true) => WildcardKind::Any,
        };
        (kind, Key::new(self.context.0, source, tag))
    }

    /// The pattern, from the result of [`split`](Self::split).
    pub(crate) fn join(kind: WildcardKind, key: Key) -> Self {
        let source = match kind {
            WildcardKind::Exact | WildcardKind::AnyTag => {
                SourcePattern::Exact(Source(key.source()))
            }
            WildcardKind::AnySource | WildcardKind::Any => SourcePattern::Any,
        };
        let tag = match kind {
            WildcardKind::Exact | WildcardKind::AnySource => {
                TagPattern::Exact(Tag(key.tag.cast_signed()))
            }
            WildcardKind::AnyTag | WildcardKind::Any => TagPattern::Any,
        };
        Self {
            context: Context(key.context()),
            source,
            tag,
        }
    }
}

impl From<Envelope> for Pattern {
    /// The pattern that only messages with this envelope match.
    fn from(envelope: Envelope) -> Self {
        Self {
            context: envelope.context,
            source: SourcePattern::Exact(envelope.source),
            tag: TagPattern::Exact(envelope.tag),
        }
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "context {}, source {}, tag {}",
            self.context.0, self.source.0, self.tag.0
        )
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "context {}, ", self.context.0)?;
        match self.source {
            SourcePattern::Any => write!(f, "any source, ")?,
            SourcePattern::Exact(source) => write!(f, "source {}, ", source.0)?,
        }
        match self.tag {
            TagPattern::Any => write!(f, "any tag"),
            TagPattern::Exact(tag) => write!(f, "tag {}", tag.0),
        }
    }
}

/// Which fields of a pattern are wild. Bit 0: any tag; bit 1: any source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum WildcardKind {
    Exact = 0,
    AnyTag = 1,
    AnySource = 2,
    Any = 3,
}

/// How many kinds there are.
pub(crate) const KINDS: usize = 4;

impl WildcardKind {
    pub(crate) const ALL: [Self; KINDS] = [Self::Exact, Self::AnyTag, Self::AnySource, Self::Any];

    /// The key with the fields that this kind does not look at set to zero.
    #[inline]
    pub(crate) fn project(self, key: Key) -> Key {
        let kind = self as u32;
        // All ones where the field counts, zero where it is wild.
        let tag = (kind & 1).wrapping_sub(1);
        let source = (kind >> 1).wrapping_sub(1);
        let place = key.place & (u64::from(u32::MAX) << 32 | u64::from(source));
        Key {
            place,
            tag: key.tag & tag,
        }
    }
}

/// (context, source, tag) as plain words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    /// `{ context: 32, source: 32 }`: one word, since words are stored and loaded whole.
    pub(crate) place: u64,
    pub(crate) tag: u32,
}

impl Key {
    #[inline]
    pub(crate) fn new(context: u32, source: u32, tag: u32) -> Self {
        Self {
            place: u64::from(context) << 32 | u64::from(source),
            tag,
        }
    }

    #[inline]
    pub(crate) fn of(envelope: Envelope) -> Self {
        Self::new(
            envelope.context.0,
            envelope.source.0,
            envelope.tag.0.cast_unsigned(),
        )
    }

    #[inline]
    pub(crate) fn context(self) -> u32 {
        (self.place >> 32) as u32
    }

    #[inline]
    pub(crate) fn source(self) -> u32 {
        self.place as u32
    }

    #[inline]
    pub(crate) fn envelope(self) -> Envelope {
        Envelope {
            context: Context(self.context()),
            source: Source(self.source()),
            tag: Tag(self.tag.cast_signed()),
        }
    }

    /// 32 well mixed bits of the key: one multiplication of 64 by 64 bits, its halves folded together.
    #[inline]
    pub(crate) fn fingerprint(self) -> u32 {
        // Both odd, both with about half of their bits set: 2^64 over the golden ratio, and 2^64 over the
        // square root of two.
        const PLACE: u64 = 0x9e37_79b9_7f4a_7c15;
        const TAG: u64 = 0xb504_f333_f9de_6485;
        let place = self.place ^ PLACE;
        let tag = u64::from(self.tag).rotate_left(32) ^ TAG;
        let product = u128::from(place) * u128::from(tag);
        let folded = (product as u64) ^ ((product >> 64) as u64);
        (folded >> 32) as u32 ^ folded as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ENVELOPE: Envelope = Envelope {
        context: Context(7),
        source: Source(5),
        tag: Tag(-3),
    };

    #[test]
    fn a_pattern_survives_the_way_in_and_out() {
        for source in [
            SourcePattern::Any,
            SourcePattern::Exact(Source(0)),
            SourcePattern::Exact(Source(9)),
        ] {
            for tag in [
                TagPattern::Any,
                TagPattern::Exact(Tag(0)),
                TagPattern::Exact(Tag(i32::MIN)),
            ] {
                let pattern = Pattern {
                    context: Context(3),
                    source,
                    tag,
                };
                let (kind, key) = pattern.split();
                assert_eq!(Pattern::join(kind, key), pattern);
                assert_eq!(kind.project(key), key);
            }
        }
        assert_eq!(Key::of(ENVELOPE).envelope(), ENVELOPE);
    }

    #[test]
    fn every_kind_looks_at_its_own_fields() {
        let exact = Pattern::from(ENVELOPE);
        let others = [
            (
                Envelope {
                    context: Context(8),
                    ..ENVELOPE
                },
                [false; 4],
            ),
            (
                Envelope {
                    source: Source(0),
                    ..ENVELOPE
                },
                [false, false, true, true],
            ),
            (
                Envelope {
                    tag: Tag(0),
                    ..ENVELOPE
                },
                [false, true, false, true],
            ),
            (ENVELOPE, [true; 4]),
        ];
        for (envelope, expected) in others {
            for (kind, expected) in WildcardKind::ALL.into_iter().zip(expected) {
                let (_, key) = exact.split();
                let pattern = Pattern::join(kind, kind.project(key));
                assert_eq!(
                    pattern.takes(&envelope),
                    expected,
                    "{pattern} against {envelope}"
                );
            }
        }
    }

    #[test]
    fn sentences_name_wildcards() {
        assert_eq!(ENVELOPE.to_string(), "context 7, source 5, tag -3");
        let any = Pattern {
            context: Context(7),
            source: SourcePattern::Any,
            tag: TagPattern::Any,
        };
        assert_eq!(any.to_string(), "context 7, any source, any tag");
        assert_eq!(Pattern::from(ENVELOPE).to_string(), ENVELOPE.to_string());
    }

    /// Keys in regular steps, as programs use them, must spread over the top bits like random ones.
    #[test]
    #[cfg_attr(
        miri,
        ignore = "arithmetic on many keys: minutes there, and no memory to check"
    )]
    fn regular_keys_spread() {
        let steps: [fn(u32) -> Key; 6] = [
            |i| Key::new(1, 0, i),
            |i| Key::new(1, i, 0),
            |i| Key::new(i, 0, 0),
            |i| Key::new(1, i % 64, i / 64),
            |i| Key::new(2, 3, i << 16),
            |i| Key::new(2 * i, i, i.wrapping_mul(1024)),
        ];
        for (number, key) in steps.iter().enumerate() {
            let count = 4096_u32;
            let prints: HashSet<u32> = (0..count).map(|i| key(i).fingerprint()).collect();
            assert!(
                prints.len() as u32 >= count - 4,
                "step {number}: {} prints",
                prints.len()
            );
            // In twice as many places, random keys take 1 - e^-1/2 = 39 % of them.
            let places: HashSet<u32> = (0..count)
                .map(|i| key(i).fingerprint() >> (32 - 13))
                .collect();
            assert!(
                places.len() > 8192 * 35 / 100,
                "step {number}: {} places",
                places.len()
            );
        }
    }
}
