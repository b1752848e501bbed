//! Kind of a one-sided access: determines which two accesses conflict on the same bytes, if nothing orders
//! them (MPI 5.0, section 12.7).

use weft_mpi::Op;
use weft_mpi::op::Predefined;

/// The effect of an access at the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// Reads.
    Get,
    /// Writes.
    Put,
    /// Combines, by the operation with this number, counted from 1; 0 for an operation that is compatible
    /// with all others.
    Accumulate(u8),
}

impl AccessKind {
    /// An accumulating access. Replacing and reading are compatible with any operation.
    pub fn of(op: &Op) -> Self {
        Self::Accumulate(match op.as_predefined() {
            None | Some(Predefined::NoOp | Predefined::Replace) => 0,
            Some(operation) => operation as u8 + 1,
        })
    }

    /// Whether it changes the memory.
    pub fn writes(self) -> bool {
        self != Self::Get
    }

    /// Whether two accesses to the same bytes conflict, if nothing orders them.
    pub fn conflicts(self, other: Self) -> bool {
        match (self, other) {
            (Self::Get, Self::Get) => false,
            (Self::Accumulate(one), Self::Accumulate(other)) => {
                one != other && one != 0 && other != 0
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_must_write_and_operations_differ() {
        let (sum, max) = (AccessKind::Accumulate(1), AccessKind::Accumulate(2));
        for (one, other, expected) in [
            (AccessKind::Get, AccessKind::Get, false),
            (AccessKind::Get, AccessKind::Put, true),
            (AccessKind::Put, AccessKind::Put, true),
            (AccessKind::Put, sum, true),
            (AccessKind::Get, sum, true),
            (sum, sum, false),
            (sum, max, true),
            (sum, AccessKind::Accumulate(0), false),
        ] {
            assert_eq!(one.conflicts(other), expected, "{one:?} {other:?}");
            assert_eq!(other.conflicts(one), expected, "{other:?} {one:?}");
        }
    }
}
