//! Building a datatype from its recipe.

use std::sync::Arc;
use weft_atomic::AtomicBool;

use super::array;
use super::bounds::{Bounds, too_large};
use super::layout::Layout;
use super::signature::Signature;
use super::{Basic, BasicKind, Datatype, Recipe};
use crate::error::{Error, ErrorClass, Result};
use crate::extras::Extras;

/// What a recipe amounts to.
struct Parts {
    bounds: Bounds,
    layout: Layout,
    signature: Arc<Signature>,
}

impl Datatype {
    /// Builds a datatype. `large`: the call had `MPI_Count` arguments (see
    /// [`has_large_counts`](Self::has_large_counts)).
    ///
    /// # Errors
    /// `Count` for a negative count, `Arg` for other arguments that do not fit and for a datatype that
    /// would be larger than memory.
    pub fn build(recipe: Recipe, large: bool) -> Result<Arc<Self>> {
        let Parts {
            bounds,
            layout,
            signature,
        } = Parts::of(&recipe)?;
        let bounds = bounds.checked()?.settled();
        let (basic, committed, name) = match &recipe {
            Recipe::Named(basic) => (Some(*basic), true, basic.name()),
            Recipe::Dup { of, .. } | Recipe::Parameterised { of, .. } => {
                (of.basic, of.is_committed(), "")
            }
            _ => (None, false, ""),
        };
        let element = element_of(&recipe);
        Ok(Arc::new(Self {
            size: layout.bytes(),
            extent: bounds.extent() as isize,
            span: layout.span(),
            layout,
            bounds,
            code: signature.digest.code(),
            signature,
            basic,
            element,
            committed: AtomicBool::new(committed),
            recipe,
            large,
            extras: Extras::named(name),
        }))
    }

    /// `count` elements one after the other.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn contiguous(count: i64, of: &Arc<Self>) -> Result<Arc<Self>> {
        Self::build(
            Recipe::Contiguous {
                count,
                of: Arc::clone(of),
            },
            false,
        )
    }

    /// `count` blocks of `block` elements, `stride` elements from start to start.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn vector(count: i64, block: i64, stride: i64, of: &Arc<Self>) -> Result<Arc<Self>> {
        Self::build(
            Recipe::Vector {
                count,
                block,
                stride,
                of: Arc::clone(of),
            },
            false,
        )
    }

    /// `count` blocks of `block` elements, `stride` bytes from start to start.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn hvector(count: i64, block: i64, stride: i64, of: &Arc<Self>) -> Result<Arc<Self>> {
        Self::build(
            Recipe::Hvector {
                count,
                block,
                stride,
                of: Arc::clone(of),
            },
            false,
        )
    }

    /// The same with other bounds.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn resized(lower: i64, extent: i64, of: &Arc<Self>) -> Result<Arc<Self>> {
        Self::build(
            Recipe::Resized {
                lower,
                extent,
                of: Arc::clone(of),
            },
            false,
        )
    }

    /// A duplicate, committed if this is.
    ///
    /// # Errors
    /// None that a built datatype could raise.
    pub fn duplicate(self: &Arc<Self>) -> Result<Arc<Self>> {
        let copy = Self::build(Recipe::duplicate(self), false)?;
        if self.is_committed() {
            copy.commit();
        }
        Ok(copy)
    }
}

impl Parts {
    fn of(recipe: &Recipe) -> Result<Self> {
        match recipe {
            Recipe::Named(basic) => Self::named(*basic),
            Recipe::Dup { of, .. } | Recipe::Parameterised { of, .. } => Ok(Self::same(of)),
            Recipe::Contiguous { count, of } => Self::block(number("count", *count)?, of),
            Recipe::Vector {
                count,
                block,
                stride,
                of,
            } => {
                let stride = i128::from(*stride) * of.extent() as i128;
                Self::block(length("blocklength", *block)?, of)?
                    .times(number("count", *count)?, stride)
            }
            Recipe::Hvector {
                count,
                block,
                stride,
                of,
            } => {
                let block = Self::block(length("blocklength", *block)?, of)?;
                block.times(number("count", *count)?, i128::from(*stride))
            }
            Recipe::Indexed {
                blocks,
                displacements,
                of,
            } => {
                let unit = of.extent() as i128;
                Self::indexed(blocks, displacements, unit, of)
            }
            Recipe::Hindexed {
                blocks,
                displacements,
                of,
            } => Self::indexed(blocks, displacements, 1, of),
            Recipe::IndexedBlock {
                block,
                displacements,
                of,
            } => Self::blocks(*block, displacements, of.extent() as i128, of),
            Recipe::HindexedBlock {
                block,
                displacements,
                of,
            } => Self::blocks(*block, displacements, 1, of),
            Recipe::Struct {
                blocks,
                displacements,
                of,
            } => {
                if blocks.len() != displacements.len() || blocks.len() != of.len() {
                    return Err(lengths(blocks.len(), displacements.len()));
                }
                let parts = blocks.iter().zip(displacements).zip(of).map(
                    |((&block, &displacement), of)| {
                        let part = Self::block(length("blocklength", block)?, of)?;
                        part.shifted(i128::from(displacement))
                    },
                );
                Self::joined(parts)
            }
            Recipe::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                of,
            } => Ok(Self::same(&array::subarray(
                sizes, subsizes, starts, *order, of,
            )?)),
            Recipe::Darray {
                size,
                rank,
                sizes,
                distributions,
                processes,
                order,
                of,
            } => {
                let place = (*size, *rank);
                Ok(Self::same(&array::darray(
                    place,
                    sizes,
                    distributions,
                    processes,
                    *order,
                    of,
                )?))
            }
            Recipe::Resized { lower, extent, of } => {
                let mut parts = Self::same(of);
                let lower = i128::from(*lower);
                parts.bounds.marked = Some((lower, lower + i128::from(*extent)));
                Ok(parts)
            }
        }
    }

    fn named(basic: Basic) -> Result<Self> {
        let signature = Signature::of(basic);
        let alignment = basic.kind().alignment();
        let part = |basic: Basic, at: usize| {
            let data = Some((at as i128, (at + basic.size()) as i128));
            let bounds = Bounds {
                data,
                padded: data,
                marked: None,
                alignment: basic.kind().alignment(),
            };
            (
                bounds,
                Layout::block(basic.size()).shifted(at.cast_signed()),
            )
        };
        let (bounds, layout) = match basic.kind() {
            BasicKind::Pair(value, index) => {
                let second = value.size().next_multiple_of(index.kind().alignment());
                let (one, two) = (part(value, 0), part(index, second));
                (one.0.joined(&two.0), Layout::sequence([one.1, two.1])?)
            }
            _ => part(basic, 0),
        };
        Ok(Self {
            bounds: Bounds {
                alignment,
                ..bounds
            },
            layout,
            signature,
        })
    }

    fn same(of: &Arc<Datatype>) -> Self {
        Self {
            bounds: of.bounds,
            layout: of.layout.clone(),
            signature: Arc::clone(&of.signature),
        }
    }

    /// `count` elements one after the other.
    fn block(count: usize, of: &Arc<Datatype>) -> Result<Self> {
        Self::same(of).times(count, of.extent() as i128)
    }

    fn times(&self, count: usize, stride: i128) -> Result<Self> {
        let bytes = self
            .layout
            .bytes()
            .checked_mul(count)
            .ok_or_else(too_large)?;
        isize::try_from(bytes).map_err(|_| too_large())?;
        let bounds = self.bounds.repeated(count as i128, stride)?.checked()?;
        // A stride that does not fit belongs to one element or none: the bounds have been checked.
        let step = isize::try_from(stride).unwrap_or(0);
        Ok(Self {
            bounds,
            layout: self.layout.repeated(count, step)?,
            signature: Signature::repeated(&self.signature, count as u64),
        })
    }

    fn shifted(self, by: i128) -> Result<Self> {
        let bounds = self.bounds.shifted(by).checked()?;
        // Without data it does not matter where they would be.
        let layout = isize::try_from(by).map_or(Layout::EMPTY, |by| self.layout.shifted(by));
        Ok(Self {
            bounds,
            layout,
            ..self
        })
    }

    fn joined(parts: impl Iterator<Item = Result<Self>>) -> Result<Self> {
        let (mut bounds, mut bytes) = (Bounds::EMPTY, 0usize);
        let (mut layouts, mut signatures) = (Vec::new(), Vec::new());
        for part in parts {
            let part = part?;
            bounds = bounds.joined(&part.bounds);
            bytes = bytes
                .checked_add(part.layout.bytes())
                .ok_or_else(too_large)?;
            isize::try_from(bytes).map_err(|_| too_large())?;
            layouts.push(part.layout);
            signatures.push(part.signature);
        }
        Ok(Self {
            bounds: bounds.checked()?,
            layout: Layout::sequence(layouts)?,
            signature: Signature::sequence(signatures),
        })
    }

    fn indexed(
        blocks: &[i64],
        displacements: &[i64],
        unit: i128,
        of: &Arc<Datatype>,
    ) -> Result<Self> {
        if blocks.len() != displacements.len() {
            return Err(lengths(blocks.len(), displacements.len()));
        }
        Self::joined(
            blocks
                .iter()
                .zip(displacements)
                .map(|(&block, &displacement)| {
                    let part = Self::block(length("blocklength", block)?, of)?;
                    part.shifted(i128::from(displacement) * unit)
                }),
        )
    }

    fn blocks(block: i64, displacements: &[i64], unit: i128, of: &Arc<Datatype>) -> Result<Self> {
        let block = Self::block(length("blocklength", block)?, of)?;
        Self::joined(displacements.iter().map(|&displacement| {
            let part = Self {
                bounds: block.bounds,
                layout: block.layout.clone(),
                signature: Arc::clone(&block.signature),
            };
            part.shifted(i128::from(displacement) * unit)
        }))
    }
}

/// The predefined datatype that all data of a datatype are elements of, if it is one.
fn element_of(recipe: &Recipe) -> Option<Basic> {
    match recipe {
        Recipe::Named(basic) => Some(*basic),
        Recipe::Struct { of, .. } => {
            let mut parts = of.iter().filter(|part| part.size > 0);
            let first = parts.next()?.element?;
            parts
                .all(|part| part.element == Some(first))
                .then_some(first)
        }
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
        | Recipe::Resized { of, .. } => of.element,
    }
}

fn number(name: &str, count: i64) -> Result<usize> {
    usize::try_from(count).map_err(|_| negative(ErrorClass::Count, name, count))
}

fn length(name: &str, count: i64) -> Result<usize> {
    usize::try_from(count).map_err(|_| negative(ErrorClass::Arg, name, count))
}

#[cold]
fn negative(class: ErrorClass, name: &str, count: i64) -> Error {
    Error::new(class, format!("{name} is {count}; it must be at least 0"))
}

#[cold]
fn lengths(blocks: usize, displacements: usize) -> Error {
    Error::new(
        ErrorClass::Arg,
        format!("{blocks} block lengths but {displacements} displacements; give as many of each"),
    )
}
