//! Recipes: the call that builds a datatype, with its arguments as given.

use std::sync::Arc;

use super::array::{Distribution, Order};
use super::basic::{Basic, TypeClass};
use super::nested::{Nested, drop_children};
use super::{Combiner, Datatype};

/// The call that builds a datatype, with its arguments. [`Datatype::build`] checks counts, so the numbers of a call may
/// be put here unchecked.
#[allow(missing_docs)]
#[derive(Clone, Debug)]
pub enum Recipe {
    /// A predefined one.
    Named(Basic),
    /// `of`, duplicated this many times in a row. In a built datatype `of` is no duplicate itself, so that duplicating
    /// and freeing in a loop keeps no chain.
    Dup {
        of: Arc<Datatype>,
        times: u64,
    },
    /// A predefined one, found by the numbers that it must hold (MPI 5.0, section 19.1.5).
    Parameterised {
        class: TypeClass,
        /// What was asked for: precision and range; of integers, the range alone.
        parameters: Box<[i64]>,
        of: Arc<Datatype>,
    },
    Contiguous {
        count: i64,
        of: Arc<Datatype>,
    },
    /// Stride in extents.
    Vector {
        count: i64,
        block: i64,
        stride: i64,
        of: Arc<Datatype>,
    },
    /// Stride in bytes.
    Hvector {
        count: i64,
        block: i64,
        stride: i64,
        of: Arc<Datatype>,
    },
    /// Displacements in extents.
    Indexed {
        blocks: Box<[i64]>,
        displacements: Box<[i64]>,
        of: Arc<Datatype>,
    },
    /// Displacements in bytes.
    Hindexed {
        blocks: Box<[i64]>,
        displacements: Box<[i64]>,
        of: Arc<Datatype>,
    },
    /// Displacements in extents.
    IndexedBlock {
        block: i64,
        displacements: Box<[i64]>,
        of: Arc<Datatype>,
    },
    /// Displacements in bytes.
    HindexedBlock {
        block: i64,
        displacements: Box<[i64]>,
        of: Arc<Datatype>,
    },
    Struct {
        blocks: Box<[i64]>,
        displacements: Box<[i64]>,
        of: Box<[Arc<Datatype>]>,
    },
    Subarray {
        sizes: Box<[i64]>,
        subsizes: Box<[i64]>,
        starts: Box<[i64]>,
        order: Order,
        of: Arc<Datatype>,
    },
    Darray {
        /// Processes in all.
        size: i64,
        rank: i64,
        sizes: Box<[i64]>,
        distributions: Box<[Distribution]>,
        /// Processes along each dimension.
        processes: Box<[i64]>,
        order: Order,
        of: Arc<Datatype>,
    },
    Resized {
        lower: i64,
        extent: i64,
        of: Arc<Datatype>,
    },
}

impl Recipe {
    /// A duplicate of a datatype.
    #[must_use]
    pub fn duplicate(of: &Arc<Datatype>) -> Self {
        match of.recipe() {
            Self::Dup { of, times } => Self::Dup {
                of: Arc::clone(of),
                times: times + 1,
            },
            _ => Self::Dup {
                of: Arc::clone(of),
                times: 1,
            },
        }
    }

    /// The constructor.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        match self {
            Self::Named(_) => Combiner::Named,
            Self::Dup { .. } => Combiner::Dup,
            Self::Parameterised { class, .. } => match class {
                TypeClass::Real => Combiner::F90Real,
                TypeClass::Complex => Combiner::F90Complex,
                TypeClass::Integer => Combiner::F90Integer,
            },
            Self::Contiguous { .. } => Combiner::Contiguous,
            Self::Vector { .. } => Combiner::Vector,
            Self::Hvector { .. } => Combiner::Hvector,
            Self::Indexed { .. } => Combiner::Indexed,
            Self::Hindexed { .. } => Combiner::Hindexed,
            Self::IndexedBlock { .. } => Combiner::IndexedBlock,
            Self::HindexedBlock { .. } => Combiner::HindexedBlock,
            Self::Struct { .. } => Combiner::Struct,
            Self::Subarray { .. } => Combiner::Subarray,
            Self::Darray { .. } => Combiner::Darray,
            Self::Resized { .. } => Combiner::Resized,
        }
    }
}

impl Nested for Datatype {
    fn take_children(&mut self, into: &mut Vec<Arc<Self>>) {
        match std::mem::replace(&mut self.recipe, Recipe::Named(Basic::Byte)) {
            Recipe::Named(_) => {}
            Recipe::Struct { of, .. } => into.extend(of),
            Recipe::Dup { of, .. }
            | Recipe::Parameterised { of, .. }
            | Recipe::Contiguous { of, .. }
            | Recipe::Vector { of, .. }
            | Recipe::Hvector { of, .. }
            | Recipe::Indexed { of, .. }
            | Recipe::Hindexed { of, .. }
            | Recipe::IndexedBlock { of, .. }
            | Recipe::HindexedBlock { of, .. }
            | Recipe::Subarray { of, .. }
            | Recipe::Darray { of, .. }
            | Recipe::Resized { of, .. } => into.push(of),
        }
    }

    fn has_children(&self) -> bool {
        !matches!(self.recipe, Recipe::Named(_))
    }

    fn has_grandchildren(&self) -> bool {
        match &self.recipe {
            Recipe::Named(_) => false,
            Recipe::Struct { of, .. } => of.iter().any(|part| part.has_children()),
            Recipe::Dup { of, .. }
            | Recipe::Parameterised { of, .. }
            | Recipe::Contiguous { of, .. }
            | Recipe::Vector { of, .. }
            | Recipe::Hvector { of, .. }
            | Recipe::Indexed { of, .. }
            | Recipe::Hindexed { of, .. }
            | Recipe::IndexedBlock { of, .. }
            | Recipe::HindexedBlock { of, .. }
            | Recipe::Subarray { of, .. }
            | Recipe::Darray { of, .. }
            | Recipe::Resized { of, .. } => of.has_children(),
        }
    }
}

impl Drop for Datatype {
    fn drop(&mut self) {
        drop_children(self);
    }
}
