//! Envelope and contents of a datatype: the answers of `MPI_Type_get_envelope` and `MPI_Type_get_contents`
//! (MPI 5.0, section 5.1.13).

use std::sync::Arc;

use super::array::{Distribution, Order};
use super::{Datatype, Recipe};

/// Constructors. The numbers belong to the ABI.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    Resized,
    F90Real,
    F90Complex,
    F90Integer,
}

/// The arguments of the constructor in the order of the standard's table. Constants (order,
/// distributions) have the numbers of the ABI.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Integers.
    pub integers: Vec<i64>,
    /// Addresses (displacements and extents in bytes), of calls without large counts.
    pub addresses: Vec<i64>,
    /// Large counts, of calls that have them.
    pub counts: Vec<i64>,
    /// Datatypes.
    pub datatypes: Vec<Arc<Datatype>>,
}

impl Datatype {
    /// Whether the arguments hold large counts: then only the `_c` forms can tell them.
    #[must_use]
    pub fn has_large_counts(&self) -> bool {
        self.large
    }

    /// The constructor.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.recipe.combiner()
    }

    /// The arguments of the constructor. Empty for a predefined datatype.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let mut out = Contents::default();
        // In a large form what would be an integer or an address is a count, in the same order.
        let mut add = |integers: &[i64], addresses: &[i64]| {
            if self.large {
                out.counts.extend_from_slice(integers);
                out.counts.extend_from_slice(addresses);
            } else {
                out.integers.extend_from_slice(integers);
                out.addresses.extend_from_slice(addresses);
            }
        };
        let of = match &self.recipe {
            Recipe::Named(_) => return out,
            Recipe::Dup { of, times: 1 } => of,
            Recipe::Dup { of, times } => {
                // What was duplicated was a duplicate, which is not kept: one like it.
                let recipe = Recipe::Dup {
                    of: Arc::clone(of),
                    times: times - 1,
                };
                out.datatypes.extend(Self::build(recipe, false).ok());
                return out;
            }
            Recipe::Parameterised { parameters, .. } => {
                add(parameters, &[]);
                return out;
            }
            Recipe::Contiguous { count, of } => {
                add(&[*count], &[]);
                of
            }
            Recipe::Vector {
                count,
                block,
                stride,
                of,
            } => {
                add(&[*count, *block, *stride], &[]);
                of
            }
            Recipe::Hvector {
                count,
                block,
                stride,
                of,
            } => {
                add(&[*count, *block], &[*stride]);
                of
            }
            Recipe::Indexed {
                blocks,
                displacements,
                of,
            } => {
                add(&[blocks.len() as i64], &[]);
                add(blocks, &[]);
                add(displacements, &[]);
                of
            }
            Recipe::Hindexed {
                blocks,
                displacements,
                of,
            } => {
                add(&[blocks.len() as i64], &[]);
                add(blocks, displacements);
                of
            }
            Recipe::IndexedBlock {
                block,
                displacements,
                of,
            } => {
                add(&[displacements.len() as i64, *block], &[]);
                add(displacements, &[]);
                of
            }
            Recipe::HindexedBlock {
                block,
                displacements,
                of,
            } => {
                add(&[displacements.len() as i64, *block], displacements);
                of
            }
            Recipe::Struct {
                blocks,
                displacements,
                of,
            } => {
                add(&[blocks.len() as i64], &[]);
                add(blocks, displacements);
                out.datatypes.extend(of.iter().cloned());
                return out;
            }
            Recipe::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                of,
            } => {
                out.integers.push(sizes.len() as i64);
                let large = if self.large {
                    &mut out.counts
                } else {
                    &mut out.integers
                };
                for list in [sizes, subsizes, starts] {
                    large.extend_from_slice(list);
                }
                out.integers.push(order.number());
                of
            }
            Recipe::Darray {
                size,
                rank,
                sizes,
                distributions,
                processes,
                order,
                of,
            } => {
                out.integers.extend([*size, *rank, sizes.len() as i64]);
                let large = if self.large {
                    &mut out.counts
                } else {
                    &mut out.integers
                };
                large.extend_from_slice(sizes);
                out.integers
                    .extend(distributions.iter().map(|one| one.number()));
                out.integers
                    .extend(distributions.iter().map(|one| one.argument()));
                out.integers.extend_from_slice(processes);
                out.integers.push(order.number());
                of
            }
            Recipe::Resized { lower, extent, of } => {
                add(&[], &[*lower, *extent]);
                of
            }
        };
        out.datatypes.push(Arc::clone(of));
        out
    }
}

impl Order {
    /// The constant of the ABI.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::C => 0xc,
            Self::Fortran => 0xf,
        }
    }
}

impl Distribution {
    /// The default argument of a distribution, as the constant of the ABI.
    pub const DEFAULT: i64 = 19;

    /// The constant of the ABI.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::None => 16,
            Self::Block(_) => 17,
            Self::Cyclic(_) => 18,
        }
    }

    /// The argument as given; the default as the constant of the ABI.
    #[must_use]
    pub fn argument(self) -> i64 {
        match self {
            Self::None => Self::DEFAULT,
            Self::Block(size) | Self::Cyclic(size) => size.unwrap_or(Self::DEFAULT),
        }
    }
}
