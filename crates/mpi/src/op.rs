//! Operations of reductions (MPI 5.0, section 6.9): predefined ones and those of users.
//!
//! ```text
//!   Op ── reduce(operand, into, count, datatype):   into = operand op into
//!    ├─ Predefined × Basic ──► a kernel             loops that the compiler turns into vectors
//!    └─ User function                               called on elements as they lie in memory
//! ```
//!
//! The data of [`Op::reduce`] lie without gaps, as they travel. For most datatypes that is how they
//! lie in the user's memory, too; for others a user's function is given a copy with the gaps.
//! [`Op::reduce_local`] takes the user's memory as it is.
//!
//! Only `kernels`, `extended` and `user` touch memory. A user's memory need not be aligned: all loads and stores are
//! unaligned.

mod extended;
mod kernels;
mod predefined;
#[cfg(test)]
mod tests;
mod user;

use std::any::Any;
use std::sync::Arc;

use weft_fabric::Region;

use crate::buffer::Buffer;
use crate::datatype::{Basic, BasicKind, Datatype, Scalar};
use crate::error::{Error, ErrorClass, Result};

pub use predefined::Predefined;
pub use user::UserFunction;

/// An operation. Always behind an `Arc`.
pub struct Op {
    action: Action,
    commutative: bool,
    /// Dropped with it.
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

#[derive(Clone)]
enum Action {
    Predefined(Predefined),
    User(Arc<UserFunction>),
}

impl Op {
    /// A predefined operation.
    #[must_use]
    pub fn predefined(operation: Predefined) -> Arc<Self> {
        let commutative = !matches!(operation, Predefined::Replace | Predefined::NoOp);
        Arc::new(Self {
            action: Action::Predefined(operation),
            commutative,
            _kept: None,
        })
    }

    /// A user's operation (`MPI_Op_create`): `function(operand, into, count, datatype)` does
    /// `into = operand op into` on each of `count` elements. Displacements of the datatype count from
    /// the start of the regions.
    #[must_use]
    pub fn user(
        function: impl Fn(Region, Region, usize, &Arc<Datatype>) + Send + Sync + 'static,
        commutative: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            action: Action::User(Arc::new(function)),
            commutative,
            _kept: None,
        })
    }

    /// The same operation, which keeps something as long as it lives: what a started collective needs
    /// beside its arguments.
    #[must_use]
    pub fn keeping(&self, kept: impl Any + Send + Sync) -> Arc<Self> {
        Arc::new(Self {
            action: self.action.clone(),
            commutative: self.commutative,
            _kept: Some(Box::new(kept)),
        })
    }

    /// Whether the order of operands does not matter.
    #[inline]
    #[must_use]
    pub fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// The predefined operation, if it is one.
    #[inline]
    #[must_use]
    pub fn as_predefined(&self) -> Option<Predefined> {
        match self.action {
            Action::Predefined(operation) => Some(operation),
            Action::User(_) => None,
        }
    }

    /// Name for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.action {
            Action::Predefined(operation) => operation.name(),
            Action::User(_) => "a user's operation",
        }
    }

    /// Whether it is defined for elements of this datatype (MPI 5.0, section 6.9.2). Any is allowed
    /// for a user's operation.
    ///
    /// # Errors
    /// `Op` if the standard does not define it, `UnsupportedOperation` if this machine cannot do it.
    pub fn is_allowed(&self, datatype: &Datatype) -> Result<()> {
        match self.action {
            Action::User(_) => Ok(()),
            Action::Predefined(operation) => kernel(operation, datatype).map(drop),
        }
    }

    /// Whether it may be used in a collective: `MPI_REPLACE` and `MPI_NO_OP` are for one-sided
    /// communication only.
    ///
    /// # Errors
    /// As for [`Self::is_allowed`].
    pub fn is_allowed_in_collectives(&self, datatype: &Datatype) -> Result<()> {
        match self.action {
            Action::Predefined(operation @ (Predefined::Replace | Predefined::NoOp)) => {
                Err(Error::new(
                    ErrorClass::Op,
                    format!(
                        "{} is for windows (MPI_Get_accumulate and its like), not for collectives; choose another operation",
                        operation.name()
                    ),
                ))
            }
            _ => self.is_allowed(datatype),
        }
    }

    /// `into = operand op into` for `count` elements whose data lie without gaps. Both regions must
    /// hold them.
    ///
    /// # Errors
    /// As for [`Self::is_allowed`]; `Intern` if a region is too short.
    pub fn reduce(
        &self,
        operand: Region,
        into: Region,
        count: usize,
        datatype: &Arc<Datatype>,
    ) -> Result<()> {
        let bytes = datatype.bytes(count)?;
        if operand.len() < bytes || into.len() < bytes {
            return Err(Error::new(
                ErrorClass::Intern,
                format!(
                    "{} of {count} elements needs {bytes} bytes but was given {} and {}; please report this",
                    self.name(),
                    operand.len(),
                    into.len()
                ),
            ));
        }
        match &self.action {
            Action::Predefined(operation) => {
                let kernel = kernel(*operation, datatype)?;
                kernel.run(&operand, &into, bytes);
            }
            Action::User(function) => {
                user::call(&**function, &operand, &into, count, datatype)?;
            }
        }
        Ok(())
    }

    /// `MPI_Reduce_local`: as [`Self::reduce`], on the user's memory. Both buffers have been made of
    /// the same count and datatype.
    ///
    /// # Errors
    /// As for [`Self::is_allowed`].
    pub fn reduce_local(
        &self,
        operand: &Buffer,
        into: &Buffer,
        count: usize,
        datatype: &Arc<Datatype>,
    ) -> Result<()> {
        if let (Buffer::Flat(operand, _), Buffer::Flat(into, _)) = (operand, into) {
            return self.reduce(*operand, *into, count, datatype);
        }
        let (mut operand, mut result) = (operand.packed()?, into.packed()?);
        self.reduce(
            crate::buffer::region_of(&mut operand),
            crate::buffer::region_of(&mut result),
            count,
            datatype,
        )?;
        into.fill(weft_fabric::SharedBytes::of(&result));
        Ok(())
    }
}

/// A predefined operation on elements of one predefined datatype: what one-sided communication applies to memory.
#[derive(Clone, Copy)]
pub(crate) struct Combine {
    kernel: kernels::Kernel,
    operation: Predefined,
    basic: Basic,
}

impl Combine {
    /// The operation for these elements.
    ///
    /// # Errors
    /// `Op` if the standard does not define it, `UnsupportedOperation` if this machine cannot do it.
    pub(crate) fn new(operation: Predefined, basic: Basic) -> Result<Self> {
        let kernel = kernels::find(operation, basic).ok_or_else(|| refused(operation, basic))?;
        Ok(Self {
            kernel,
            operation,
            basic,
        })
    }

    /// Which operation.
    #[inline]
    pub(crate) fn operation(&self) -> Predefined {
        self.operation
    }

    /// Of which elements.
    #[inline]
    pub(crate) fn basic(&self) -> Basic {
        self.basic
    }

    /// `into = operand op into` for as many elements as both hold, without gaps.
    #[inline]
    pub(crate) fn run(&self, operand: &mut [u8], into: &mut [u8]) {
        let into = crate::buffer::region_of(into);
        self.run_at(&crate::buffer::region_of(operand), &into);
    }

    /// As [`Self::run`], for memory that others may look at meanwhile.
    #[inline]
    pub(crate) fn run_at(&self, operand: &Region, into: &Region) {
        self.kernel.run(operand, into, operand.len());
    }
}

impl std::fmt::Debug for Combine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} of {}", self.operation.name(), self.basic.name())
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Op({})", self.name())
    }
}

/// Whether an operation can be done on elements of this datatype.
#[inline]
#[must_use]
pub fn is_defined(operation: Predefined, basic: Basic) -> bool {
    kernels::find(operation, basic).is_some()
}

fn kernel(operation: Predefined, datatype: &Datatype) -> Result<kernels::Kernel> {
    let Some(basic) = datatype.basic() else {
        if operation == Predefined::Replace || operation == Predefined::NoOp {
            return Ok(kernels::plain(operation));
        }
        return Err(Error::new(
            ErrorClass::Op,
            format!(
                "{} is defined for predefined datatypes only, not for one built by {:?}; use an operation of your own (MPI_Op_create)",
                operation.name(),
                datatype.combiner()
            ),
        ));
    };
    match kernels::find(operation, basic) {
        Some(kernel) => Ok(kernel),
        None => Err(refused(operation, basic)),
    }
}

#[cold]
fn refused(operation: Predefined, basic: Basic) -> Error {
    if operation.is_defined_for(basic) {
        let kind = match basic.kind() {
            BasicKind::Floating(Scalar::F16) | BasicKind::Complex(Scalar::F16) => "16-bit",
            BasicKind::Floating(Scalar::F128) | BasicKind::Complex(Scalar::F128) => "128-bit",
            _ => "extended",
        };
        return Error::new(
            ErrorClass::UnsupportedOperation,
            format!(
                "{} on {}: {kind} floating point is not supported here; reduce another type",
                operation.name(),
                basic.name()
            ),
        );
    }
    Error::new(
        ErrorClass::Op,
        format!(
            "{} is not defined for {}; see the table of allowed types in MPI 5.0, section 6.9.2",
            operation.name(),
            basic.name()
        ),
    )
}
