//! Operations of reductions (MPI 5.0, section 6.9).
use std::sync::Arc;

use weft_fabric::Region;

use crate::datatype::Datatype;
use crate::error::Result;

/// An operation. Always behind an `Arc`.
#[derive(Debug)]
pub struct Op(());

impl Op {
    /// Whether the order of operands does not matter.
    #[must_use]
    pub fn is_commutative(&self) -> bool {
        true
    }

    /// `into = operand op into`, for `count` elements.
    ///
    /// # Errors
    /// None yet.
    pub fn reduce(
        &self,
        _operand: Region,
        _into: Region,
        _count: usize,
        _datatype: &Arc<Datatype>,
    ) -> Result<()> {
        Ok(())
    }
}
