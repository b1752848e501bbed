//! Note of a collective: a word that all members of a communicator compute alike from everything that must be the same at
//! all.
//!
//! ```text
//!   bits 0..8   8..16       16..48   48..64
//!        call   operation   root     signature code
//! ```
//!
//! Between two groups the two highest bits of the root say which group it belongs to; both groups know this alike.
//!
//! The note is on boards, and travels in the messages of collectives: whole, as the token of an eager message, which
//! needs none, and as a [digest](CollectiveNote::digest) in place of the signature, where messages of programs have that
//! of their data. Zero means nothing: it matches every note.

use weft_fabric::Peer;

use super::counters::COLLECTIVES;
use crate::buffer::Buffer;
use crate::datatype::SignatureCode;
use crate::error::{Error, ErrorClass};
use crate::op::Predefined;

/// Calls in which members of a communicator agree on something, by messages alone. They stand behind [`COLLECTIVES`], and
/// are counted together.
const AGREEMENTS: [&str; 18] = [
    "MPI_Comm_dup",
    "MPI_Comm_idup",
    "MPI_Comm_create",
    "MPI_Comm_split",
    "MPI_Cart_create",
    "MPI_Graph_create",
    "MPI_Dist_graph_create",
    "MPI_Dist_graph_create_adjacent",
    "MPI_Intercomm_create",
    "MPI_Intercomm_merge",
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_spawn",
    "MPI_Win_create",
    "MPI_Win_allocate",
    "MPI_Win_allocate_shared",
    "MPI_Win_create_dynamic",
    "MPI_File_open",
];

/// The operation of a program.
const USERS: u8 = 0xff;

/// Bits of a root between two groups: the group with the lowest process, the other one.
const FIRST_GROUP: u32 = 1 << 30;
const OTHER_GROUP: u32 = 2 << 30;

/// What a collective is, but for its bytes. See the [module page](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectiveNote(u64);

impl CollectiveNote {
    /// Says nothing.
    pub const NOTHING: Self = Self(0);

    /// That ranks meet in `MPI_Finalize`, which is no barrier of the program.
    pub(crate) const FINALIZE: Self = Self((COLLECTIVES.len() + AGREEMENTS.len() + 1) as u64);

    /// That of the call at this place in [`COLLECTIVES`].
    #[inline]
    pub(crate) fn of(place: usize, root: usize, signature: SignatureCode) -> Self {
        let root = (root as u64 & 0xffff_ffff) << 16;
        Self((place as u64 + 1) & 0xff | root | u64::from(signature.bits()) << 48)
    }

    /// That of a call of which only the name is known. Nothing for others than MPI's own.
    pub(crate) fn of_name(name: &str) -> Self {
        let mut names = COLLECTIVES.iter().chain(&AGREEMENTS);
        let place = names.position(|other| *other == name);
        place.map_or(Self::NOTHING, |place| {
            Self::of(place, 0, SignatureCode::UNKNOWN)
        })
    }

    /// Whether members agree on something in this call, which then may leave it before others have come.
    pub(crate) fn is_agreement(self) -> bool {
        usize::from(self.call()) > COLLECTIVES.len() && self != Self::FINALIZE
    }

    /// The same with an operation; `None` stands for one of the program's.
    pub(crate) fn with(self, operation: Option<Predefined>) -> Self {
        let number = operation.map_or(USERS, |operation| operation as u8 + 1);
        Self(self.0 | u64::from(number) << 8)
    }

    /// The same with a root.
    pub(crate) fn at(self, root: usize) -> Self {
        Self(self.0 | (root as u64 & 0xffff_ffff) << 16)
    }

    /// The same with a root of one of two groups: of that with the lowest process, or of the other one.
    pub(crate) fn at_group(self, root: usize, is_first: bool) -> Self {
        let group = if is_first { FIRST_GROUP } else { OTHER_GROUP };
        self.at((root as u32 & !(FIRST_GROUP | OTHER_GROUP) | group) as usize)
    }

    /// The same with the datatype of what this rank gives or gets, if it is of one kind, and any.
    pub(crate) fn of_elements(self, data: Option<&Buffer>) -> Self {
        let code = data.filter(|data| data.bytes() > 0).map(Buffer::code);
        let code = code.filter(|code| !code.is_of_several());
        Self(self.0 | u64::from(code.unwrap_or_default().bits()) << 48)
    }

    /// The same with the sizes of the blocks of all ranks, which all of them know: their hash stands in the place of a root.
    pub(crate) fn of_blocks(self, sizes: impl Iterator<Item = usize>) -> Self {
        self.at(Self::hash_of_blocks(sizes))
    }

    /// That hash.
    #[inline]
    pub(crate) fn hash_of_blocks(sizes: impl Iterator<Item = usize>) -> usize {
        let hash = sizes.fold(0_u64, |hash, size| {
            (hash ^ size as u64)
                .wrapping_add(1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        });
        (hash >> 32) as usize
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// What a peer says.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The place of the call in [`COLLECTIVES`], if it is one of them.
    #[inline]
    pub(crate) fn place(self) -> Option<usize> {
        let place = usize::from(self.call()).checked_sub(1)?;
        (place < COLLECTIVES.len()).then_some(place)
    }

    fn call(self) -> u8 {
        self.0 as u8
    }

    fn operation(self) -> u8 {
        (self.0 >> 8) as u8
    }

    fn root(self) -> u32 {
        (self.0 >> 16) as u32
    }

    fn signature(self) -> SignatureCode {
        SignatureCode::from_bits((self.0 >> 48) as u16)
    }

    /// What is not the same: the class of the error.
    fn differs(self, other: Self) -> Option<ErrorClass> {
        if self == Self::NOTHING || other == Self::NOTHING {
            None
        } else if self.call() != other.call() {
            Some(ErrorClass::Other)
        } else if self.root() != other.root() {
            Some(if self.has_root() {
                ErrorClass::Root
            } else {
                ErrorClass::Count
            })
        } else if self.operation() != other.operation() {
            Some(ErrorClass::Op)
        } else if !self.signature().fits(other.signature()) {
            Some(ErrorClass::Type)
        } else {
            None
        }
    }

    /// In 16 bits: a hash of call, operation and root, and the basic datatype if there is only one. Never zero, unless it says
    /// nothing.
    pub(crate) fn digest(self) -> SignatureCode {
        if self == Self::NOTHING {
            return SignatureCode::UNKNOWN;
        }
        let what = self.without_signature();
        let hash = (what.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u16;
        let signature = Some(self.signature()).filter(|code| !code.is_of_several());
        SignatureCode::from_bits(hash.max(1) << 8 | signature.unwrap_or_default().bits())
    }

    /// Whether two [digests](Self::digest) may be of the same collective; if not, the class of the error.
    pub(crate) fn digests_differ(one: SignatureCode, other: SignatureCode) -> Option<ErrorClass> {
        let none = SignatureCode::UNKNOWN;
        if one == other || one == none || other == none {
            return None;
        }
        if one.bits() >> 8 != other.bits() >> 8 {
            return Some(ErrorClass::Other);
        }
        let [one, other] = [one, other].map(|code| SignatureCode::from_bits(code.bits() & 0xff));
        (!one.fits(other)).then_some(ErrorClass::Type)
    }

    /// The MPI call.
    pub(crate) fn name(self) -> &'static str {
        if self == Self::FINALIZE {
            return "MPI_Finalize";
        }
        let place = usize::from(self.call()).wrapping_sub(1);
        let agreement = || AGREEMENTS.get(place.checked_sub(COLLECTIVES.len())?);
        let name = COLLECTIVES.get(place).or_else(agreement);
        name.copied().unwrap_or("something else")
    }

    /// Whether the call has a root.
    fn has_root(self) -> bool {
        matches!(
            self.name(),
            "MPI_Bcast"
                | "MPI_Gather"
                | "MPI_Gatherv"
                | "MPI_Scatter"
                | "MPI_Scatterv"
                | "MPI_Reduce"
        )
    }

    /// As people say it: "MPI_Bcast with root 0 of MPI_INT".
    #[cold]
    pub(crate) fn describe(self) -> String {
        let mut text = self.name().to_owned();
        if self.has_root() {
            let root = self.root();
            text += &match root & (FIRST_GROUP | OTHER_GROUP) {
                FIRST_GROUP => format!(
                    " with root {} of the group with the lowest rank",
                    root & !FIRST_GROUP
                ),
                OTHER_GROUP => format!(" with root {} of the other group", root & !OTHER_GROUP),
                _ => format!(" with root {root}"),
            };
        }
        match self.operation() {
            0 => {}
            USERS => text += " with an operation of the program",
            number => {
                let name = Predefined::ALL.get(usize::from(number) - 1);
                text += &format!(" with {}", name.map_or("an operation", |op| op.name()));
            }
        }
        if self.signature() != SignatureCode::UNKNOWN {
            text += &format!(" of {}", self.signature().name());
        }
        text
    }

    /// The error of a rank that does this, when another is found to do something else.
    #[cold]
    pub(crate) fn disagreement(self, me: u32, (peer, other): (u32, Self)) -> Option<Error> {
        let class = self.differs(other)?;
        let remedy = match class {
            ErrorClass::Other => {
                "all ranks of a communicator must call the same collectives in the same order"
            }
            ErrorClass::Root => "all ranks of the call must name the same root",
            ErrorClass::Count => "the counts of all ranks must be the same on each of them",
            ErrorClass::Op => "all ranks of the call must name the same operation",
            _ => "the datatypes must consist of the same basic elements on all ranks of the call",
        };
        let text = format!(
            "rank {me} of MPI_COMM_WORLD is in {}, rank {peer} in {}; {remedy}",
            self.describe(),
            other.describe(),
        );
        Some(Error::new(class, text).about(Peer(peer)))
    }

    /// The error of a rank that has done this before, when another is found to have done something else then.
    #[cold]
    pub(crate) fn disagreement_before(self, me: Peer, peer: Peer, other: Option<Self>) -> Error {
        let differs = other.and_then(|other| Some((self.differs(other)?, other)));
        let (class, text) = match differs {
            Some((class, other)) => (
                class,
                format!(
                    "before this call rank {me} of MPI_COMM_WORLD was in {}, rank {peer} in {}",
                    self.describe(),
                    other.describe(),
                ),
            ),
            None => (
                ErrorClass::Other,
                format!(
                    "before this call rank {me} and rank {peer} of MPI_COMM_WORLD were in different collectives, or in the same with different roots or operations"
                ),
            ),
        };
        let remedy = "all ranks of a communicator must call the same collectives in the same order, with the same root and operation";
        Error::new(class, format!("{text}; {remedy}")).about(peer)
    }

    /// What all members do alike, whatever datatypes they use: call, operation and root.
    #[inline]
    pub(crate) fn without_signature(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;

    #[test]
    fn no_two_calls_have_one_digest() {
        let names: Vec<_> = COLLECTIVES.iter().chain(&AGREEMENTS).collect();
        let mut digests = Vec::new();
        for name in &names {
            let note = CollectiveNote::of_name(name);
            assert_eq!(note.name(), **name);
            assert_eq!(note.is_agreement(), AGREEMENTS.contains(name), "{name}");
            digests.push(note.digest().bits());
        }
        assert_eq!(CollectiveNote::FINALIZE.name(), "MPI_Finalize");
        assert!(!CollectiveNote::FINALIZE.is_agreement());
        digests.push(CollectiveNote::FINALIZE.digest().bits());
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), names.len() + 1);
    }

    #[test]
    fn each_part_is_told_from_others() {
        let (int, float) = (
            SignatureCode::of(Basic::Int),
            SignatureCode::of(Basic::Float),
        );
        let note = CollectiveNote::of(11, 3, int).with(Some(Predefined::Sum));
        let cases = [
            (
                CollectiveNote::of(12, 3, int).with(Some(Predefined::Sum)),
                ErrorClass::Other,
            ),
            (
                CollectiveNote::of(11, 0, int).with(Some(Predefined::Sum)),
                ErrorClass::Root,
            ),
            (
                CollectiveNote::of(11, 3, int).with(Some(Predefined::Max)),
                ErrorClass::Op,
            ),
            (CollectiveNote::of(11, 3, int).with(None), ErrorClass::Op),
            (
                CollectiveNote::of(11, 3, float).with(Some(Predefined::Sum)),
                ErrorClass::Type,
            ),
        ];
        for (other, class) in cases {
            let error = note.disagreement(0, (7, other)).expect("they differ");
            assert_eq!(error.class(), class, "{error}");
            assert!(CollectiveNote::digests_differ(note.digest(), other.digest()).is_some());
            let text = error.to_string();
            assert!(
                text.contains("MPI_Reduce with root 3 with MPI_SUM of MPI_INT"),
                "{text}"
            );
            assert!(text.contains("rank 7"), "{text}");
        }
        let alike = SignatureCode::of(Basic::Int32);
        let same = CollectiveNote::of(11, 3, alike).with(Some(Predefined::Sum));
        for other in [same, note, CollectiveNote::NOTHING] {
            assert!(
                note.disagreement(0, (7, other)).is_none()
                    && other.disagreement(0, (7, note)).is_none()
            );
            assert_eq!(
                CollectiveNote::digests_differ(note.digest(), other.digest()),
                None
            );
        }
    }
}
