//! Signature code: 16 bits that stand for the signature of the data of a message, and travel in its envelope.
//!
//! ```text
//!   0          unknown: fits everything            MPI_BYTE, MPI_PACKED, whatever contains them, internal messages
//!   1 ..= 255  all elements of one representation  the place of the basic datatype in `Basic::ALL`, plus one
//!   256 ..     several                             a hash of the whole sequence of the message
//! ```
//!
//! The first two kinds do not depend on the count, so a receive may be longer than its message; the last does, and is
//! compared with the hash of as much of the receive's signature as arrived ([`Datatype::code_of_bytes`]). So a matching
//! message is never refused: what is not known exactly is unknown.
//!
//! Elements match if they are *represented* alike: integers, characters and logicals of one size, with or without a sign;
//! floating-point numbers of one format; complex numbers as two of these. The names need not be the same, because
//! programs that mix `MPI_INT` with `MPI_INT32_T` or `MPI_CHAR` with `MPI_UNSIGNED_CHAR` work, and are many.
//!
//! A [`Digest`] is what a node of a signature knows about its elements. Digests of parts give that of the whole, and
//! those of `n` equal parts take `log n` steps: the hash is the polynomial `Σ representation(i) · BASE^i`.

use super::Datatype;
use super::basic::{Basic, BasicKind, Scalar};

/// The field of the hash: the largest prime that leaves the codes of basic datatypes free.
const PRIME: u32 = 65_269;
const BASE: u32 = 30_011;

/// Codes below this stand for one basic datatype, or are unknown.
const SEVERAL: u16 = 256;

const _: () = assert!(Basic::ALL.len() < SEVERAL as usize);
const _: () = assert!(PRIME + SEVERAL as u32 <= 1 << 16);

/// How an element is represented in memory; `None` for those that fit everything.
const fn representation(basic: Basic) -> Option<u8> {
    const fn floating(scalar: Scalar) -> u8 {
        match scalar {
            Scalar::F16 => 16,
            Scalar::F32 => 17,
            Scalar::F64 => 18,
            Scalar::F80 => 19,
            _ => 20,
        }
    }
    Some(match basic.kind() {
        BasicKind::Byte | BasicKind::Packed | BasicKind::Pair(..) => return None,
        // Programs take them for bytes: mpi4py sends a buffer of bytes as MPI_UNSIGNED_CHAR, whatever it holds.
        BasicKind::Integer(scalar) | BasicKind::Character(scalar) if scalar.size() == 1 => {
            return None;
        }
        BasicKind::Integer(scalar)
        | BasicKind::FortranInteger(scalar)
        | BasicKind::Address(scalar)
        | BasicKind::Logical(scalar)
        | BasicKind::Character(scalar) => 1 + scalar.size().trailing_zeros() as u8,
        BasicKind::Floating(scalar) | BasicKind::Complex(scalar) => floating(scalar),
    })
}

/// The code of a signature. See the [module page](self).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SignatureCode(u16);

impl SignatureCode {
    /// Fits everything.
    pub const UNKNOWN: Self = Self(0);

    /// That of elements of one basic datatype, any number of them; unknown for pairs of two kinds.
    #[must_use]
    pub const fn of(basic: Basic) -> Self {
        let element = match basic.kind() {
            BasicKind::Pair(value, index) if value as u8 == index as u8 => value,
            _ => basic,
        };
        match representation(element) {
            None => Self::UNKNOWN,
            Some(_) => Self(element as u16 + 1),
        }
    }

    /// The bits that travel.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The code of a peer; any bits are valid.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Whether it depends on how many elements there are.
    #[inline]
    #[must_use]
    pub const fn is_of_several(self) -> bool {
        self.0 >= SEVERAL
    }

    fn basic(self) -> Option<Basic> {
        Basic::ALL
            .get((self.0 as usize).wrapping_sub(1))
            .copied()
            .filter(|_| !self.is_of_several())
    }

    /// Whether data of this code may be taken for as many bytes of the other.
    #[must_use]
    pub fn fits(self, other: Self) -> bool {
        if self == other || self == Self::UNKNOWN || other == Self::UNKNOWN {
            return true;
        }
        if self.is_of_several() || other.is_of_several() {
            return false;
        }
        let one = self.basic().map(representation);
        // A number that is no datatype is none of ours: it says nothing.
        one.is_none()
            || other
                .basic()
                .is_none_or(|other| one == Some(representation(other)))
    }

    /// Its name in messages to the user.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.basic() {
            Some(basic) => basic.name(),
            None if self.is_of_several() => "elements of several datatypes",
            None => "MPI_BYTE",
        }
    }
}

/// What kinds of elements there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Nothing,
    /// All represented as this one.
    Uniform(Basic),
    Several,
    /// One of them fits everything.
    Unknown,
}

/// What a signature knows of its elements. See the [module page](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest {
    hash: u32,
    /// `BASE` to the power of their number.
    power: u32,
    content: Content,
}

impl Digest {
    pub(super) const NOTHING: Self = Self {
        hash: 0,
        power: 1,
        content: Content::Nothing,
    };

    /// That of one basic element.
    pub(super) fn of(basic: Basic) -> Self {
        let Some(representation) = representation(basic) else {
            return Self {
                content: Content::Unknown,
                ..Self::NOTHING
            };
        };
        let one = Self {
            // Neighbouring numbers are spread.
            hash: u32::from(representation) * 2_654 % PRIME,
            power: BASE,
            content: Content::Uniform(basic),
        };
        match basic.kind() {
            BasicKind::Complex(_) => one.then(one),
            _ => one,
        }
    }

    /// That of these elements, and others behind them.
    pub(super) fn then(self, next: Self) -> Self {
        let content = match (self.content, next.content) {
            (Content::Nothing, other) | (other, Content::Nothing) => other,
            (Content::Unknown, _) | (_, Content::Unknown) => Content::Unknown,
            (Content::Uniform(one), Content::Uniform(other))
                if one == other || representation(one) == representation(other) =>
            {
                Content::Uniform(one)
            }
            _ => Content::Several,
        };
        Self {
            hash: (self.hash + self.power * next.hash % PRIME) % PRIME,
            power: self.power * next.power % PRIME,
            content,
        }
    }

    /// That of these elements, so many times.
    pub(super) fn times(self, mut count: u64) -> Self {
        // However often, the kinds of elements are the same.
        let content = match count {
            0 => Content::Nothing,
            _ => self.content,
        };
        let (mut hash, mut power) = (Self::NOTHING.hash, Self::NOTHING.power);
        let mut square = self;
        while count > 0 {
            if count & 1 == 1 {
                hash = (hash + power * square.hash) % PRIME;
                power = power * square.power % PRIME;
            }
            count >>= 1;
            if count > 0 {
                square.hash = (square.hash + square.power * square.hash) % PRIME;
                square.power = square.power * square.power % PRIME;
            }
        }
        Self {
            hash,
            power,
            content,
        }
    }

    pub(super) fn code(self) -> SignatureCode {
        match self.content {
            Content::Nothing | Content::Unknown => SignatureCode::UNKNOWN,
            Content::Uniform(basic) => SignatureCode::of(basic),
            Content::Several => SignatureCode(SEVERAL + self.hash as u16),
        }
    }
}

impl Datatype {
    /// The code of a message of `count` elements.
    #[inline]
    #[must_use]
    pub fn code(&self, count: usize) -> SignatureCode {
        if self.code.is_of_several() && count != 1 {
            return self.code_of_many(count);
        }
        self.code
    }

    #[inline(never)]
    fn code_of_many(&self, count: usize) -> SignatureCode {
        self.signature.digest.times(count as u64).code()
    }

    /// The code that a message of this many bytes must have to be received as elements of this datatype. `None` if such a
    /// message ends within a basic element.
    #[must_use]
    pub fn code_of_bytes(&self, bytes: u64) -> Option<SignatureCode> {
        self.signature.digest_of(bytes).map(Digest::code)
    }
}

#[cfg(test)]
mod tests;
