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

/// How many arguments a constructor has, of each kind of [`Contents`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Envelope {
    /// Integers.
    pub integers: usize,
    /// Addresses.
    pub addresses: usize,
    /// Large counts.
    pub counts: usize,
    /// Datatypes.
    pub datatypes: usize,
}

/// Kinds of arguments.
#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Address,
    Count,
}

/// Who hears the arguments of a constructor in order, and keeps or counts them.
trait Listener {
    fn list(&mut self, kind: Kind, values: &[i64]);
    fn datatype(&mut self, of: impl FnOnce() -> Option<Arc<Datatype>>);
}

impl Listener for Contents {
    fn list(&mut self, kind: Kind, values: &[i64]) {
        let list = match kind {
            Kind::Integer => &mut self.integers,
            Kind::Address => &mut self.addresses,
            Kind::Count => &mut self.counts,
        };
        list.extend_from_slice(values);
    }

    fn datatype(&mut self, of: impl FnOnce() -> Option<Arc<Datatype>>) {
        self.datatypes.extend(of());
    }
}

impl Listener for Envelope {
    fn list(&mut self, kind: Kind, values: &[i64]) {
        let count = match kind {
            Kind::Integer => &mut self.integers,
            Kind::Address => &mut self.addresses,
            Kind::Count => &mut self.counts,
        };
        *count += values.len();
    }

    fn datatype(&mut self, _of: impl FnOnce() -> Option<Arc<Datatype>>) {
        self.datatypes += 1;
    }
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
        self.tell_arguments(&mut out);
        out
    }

    /// How many arguments of each kind [`contents`](Self::contents) has.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        let mut out = Envelope::default();
        self.tell_arguments(&mut out);
        out
    }

    fn tell_arguments(&self, out: &mut impl Listener) {
        // In a large form what would be an integer or an address is a count, in the same order.
        let (integer, address) = if self.large {
            (Kind::Count, Kind::Count)
        } else {
            (Kind::Integer, Kind::Address)
        };
        let of = match &self.recipe {
            Recipe::Named(_) => return,
            Recipe::Dup { of, times: 1 } => of,
            Recipe::Dup { of, times } => {
                // What was duplicated was a duplicate, which is not kept: one like it.
                out.datatype(|| {
                    let recipe = Recipe::Dup {
                        of: Arc::clone(of),
                        times: times - 1,
                    };
                    Self::build(recipe, false).ok()
                });
                return;
            }
            Recipe::Parameterised { parameters, .. } => {
                out.list(integer, parameters);
                return;
            }
            Recipe::Contiguous { count, of } => {
                out.list(integer, &[*count]);
                of
            }
            Recipe::Vector {
                count,
                block,
                stride,
                of,
            } => {
                out.list(integer, &[*count, *block, *stride]);
                of
            }
            Recipe::Hvector {
                count,
                block,
                stride,
                of,
            } => {
                out.list(integer, &[*count, *block]);
                out.list(address, &[*stride]);
                of
            }
            Recipe::Indexed {
                blocks,
                displacements,
                of,
            } => {
                out.list(integer, &[blocks.len() as i64]);
                out.list(integer, blocks);
                out.list(integer, displacements);
                of
            }
            Recipe::Hindexed {
                blocks,
                displacements,
                of,
            } => {
                out.list(integer, &[blocks.len() as i64]);
                out.list(integer, blocks);
                out.list(address, displacements);
                of
            }
            Recipe::IndexedBlock {
                block,
                displacements,
                of,
            } => {
                out.list(integer, &[displacements.len() as i64, *block]);
                out.list(integer, displacements);
                of
            }
            Recipe::HindexedBlock {
                block,
                displacements,
                of,
            } => {
                out.list(integer, &[displacements.len() as i64, *block]);
                out.list(address, displacements);
                of
            }
            Recipe::Struct {
                blocks,
                displacements,
                of,
            } => {
                out.list(integer, &[blocks.len() as i64]);
                out.list(integer, blocks);
                out.list(address, displacements);
                for of in of {
                    out.datatype(|| Some(Arc::clone(of)));
                }
                return;
            }
            Recipe::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                of,
            } => {
                out.list(Kind::Integer, &[sizes.len() as i64]);
                for list in [sizes, subsizes, starts] {
                    out.list(integer, list);
                }
                out.list(Kind::Integer, &[order.number()]);
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
                out.list(Kind::Integer, &[*size, *rank, sizes.len() as i64]);
                out.list(integer, sizes);
                for one in distributions {
                    out.list(Kind::Integer, &[one.number()]);
                }
                for one in distributions {
                    out.list(Kind::Integer, &[one.argument()]);
                }
                out.list(Kind::Integer, processes);
                out.list(Kind::Integer, &[order.number()]);
                of
            }
            Recipe::Resized { lower, extent, of } => {
                out.list(address, &[*lower, *extent]);
                of
            }
        };
        out.datatype(|| Some(Arc::clone(of)));
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
