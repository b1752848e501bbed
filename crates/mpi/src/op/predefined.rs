//! The predefined operations and the datatypes they are defined for (MPI 5.0, section 6.9.2).

use crate::datatype::{Basic, BasicKind, Scalar};

/// A predefined operation.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Predefined {
    Max,
    Min,
    Sum,
    Prod,
    Land,
    Band,
    Lor,
    Bor,
    Lxor,
    Bxor,
    Minloc,
    Maxloc,
    Replace,
    NoOp,
}

impl Predefined {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Max,
        Self::Min,
        Self::Sum,
        Self::Prod,
        Self::Land,
        Self::Band,
        Self::Lor,
        Self::Bor,
        Self::Lxor,
        Self::Bxor,
        Self::Minloc,
        Self::Maxloc,
        Self::Replace,
        Self::NoOp,
    ];

    /// Name in the standard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "MPI_MAX",
            Self::Min => "MPI_MIN",
            Self::Sum => "MPI_SUM",
            Self::Prod => "MPI_PROD",
            Self::Land => "MPI_LAND",
            Self::Band => "MPI_BAND",
            Self::Lor => "MPI_LOR",
            Self::Bor => "MPI_BOR",
            Self::Lxor => "MPI_LXOR",
            Self::Bxor => "MPI_BXOR",
            Self::Minloc => "MPI_MINLOC",
            Self::Maxloc => "MPI_MAXLOC",
            Self::Replace => "MPI_REPLACE",
            Self::NoOp => "MPI_NO_OP",
        }
    }

    /// Whether it is defined for this datatype: as the standard says, and as everywhere the logical operations
    /// for integers of all languages, and `MPI_CHAR` and `MPI_CHARACTER` as integers of one byte.
    #[must_use]
    pub const fn is_defined_for(self, basic: Basic) -> bool {
        let kind = basic.kind();
        let integer = matches!(
            kind,
            BasicKind::Integer(_)
                | BasicKind::FortranInteger(_)
                | BasicKind::Address(_)
                | BasicKind::Character(Scalar::I8)
        );
        match self {
            Self::Max | Self::Min => integer || matches!(kind, BasicKind::Floating(_)),
            Self::Sum | Self::Prod => {
                integer || matches!(kind, BasicKind::Floating(_) | BasicKind::Complex(_))
            }
            Self::Land | Self::Lor | Self::Lxor => integer || matches!(kind, BasicKind::Logical(_)),
            Self::Band | Self::Bor | Self::Bxor => integer || matches!(kind, BasicKind::Byte),
            Self::Minloc | Self::Maxloc => matches!(kind, BasicKind::Pair(..)),
            Self::Replace | Self::NoOp => true,
        }
    }
}
