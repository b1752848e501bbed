//! Building a datatype from its recipe.

use std::sync::Arc;
use weft_atomic::AtomicBool;

use super::array;
use super::bounds::{Bounds, too_large};
use super::layout::{Layout, List};
use super::signature::Signature;
use super::{Basic, BasicKind, Datatype, Recipe};
use crate::error::{Error, ErrorClass, Result};
use crate::extras::Extras;

/// What a recipe amounts to. All of it can be addressed.
pub(super) struct Parts {
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
        let bounds = bounds.settled();
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
            } => Self::indexed(blocks, displacements, of.extent() as i128, of),
            Recipe::Hindexed {
                blocks,
                displacements,
                of,
            } => Self::indexed(blocks, displacements, 1, of),
            Recipe::IndexedBlock {
                block,
                displacements,
                of,
            } => Self::indexed_block(*block, displacements, of.extent() as i128, of),
            Recipe::HindexedBlock {
                block,
                displacements,
                of,
            } => Self::indexed_block(*block, displacements, 1, of),
            Recipe::Struct {
                blocks,
                displacements,
                of,
            } => {
                if blocks.len() != displacements.len() || blocks.len() != of.len() {
                    return Err(lengths(blocks.len(), displacements.len()));
                }
                let mut joining = Joining::of(blocks.len());
                for ((&block, &displacement), of) in blocks.iter().zip(displacements).zip(of) {
                    let count = length("blocklength", block)?;
                    joining.add(count, of, i128::from(displacement))?;
                }
                joining.finish()
            }
            Recipe::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                of,
            } => array::subarray(sizes, subsizes, starts, *order, of),
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
                array::darray(place, sizes, distributions, processes, *order, of)
            }
            Recipe::Resized { lower, extent, of } => {
                Self::same(of).resized(i128::from(*lower), i128::from(*extent))
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

    pub(super) fn same(of: &Arc<Datatype>) -> Self {
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

    /// `count` times the same, `stride` bytes from start to start.
    pub(super) fn times(&self, count: usize, stride: i128) -> Result<Self> {
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

    pub(super) fn shifted(self, by: i128) -> Result<Self> {
        let bounds = self.bounds.shifted(by).checked()?;
        // Without data it does not matter where they would be.
        let layout = isize::try_from(by).map_or(Layout::EMPTY, |by| self.layout.shifted(by));
        Ok(Self {
            bounds,
            layout,
            ..self
        })
    }

    /// With these bounds.
    pub(super) fn resized(self, lower: i128, extent: i128) -> Result<Self> {
        let bounds = Bounds {
            marked: Some((lower, lower + extent)),
            ..self.bounds
        };
        Ok(Self {
            bounds: bounds.checked()?,
            ..self
        })
    }

    /// These, then others.
    pub(super) fn followed(self, others: Self) -> Result<Self> {
        Ok(Self {
            bounds: self.bounds.joined(&others.bounds).checked()?,
            layout: Layout::sequence([self.layout, others.layout])?,
            signature: Signature::sequence(vec![self.signature, others.signature]),
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
        let mut joining = Joining::of(blocks.len());
        for (&block, &displacement) in blocks.iter().zip(displacements) {
            let count = length("blocklength", block)?;
            joining.add(count, of, i128::from(displacement) * unit)?;
        }
        joining.finish()
    }

    fn indexed_block(
        block: i64,
        displacements: &[i64],
        unit: i128,
        of: &Arc<Datatype>,
    ) -> Result<Self> {
        let count = length("blocklength", block)?;
        let mut joining = Joining::of(displacements.len());
        for &displacement in displacements {
            joining.add(count, of, i128::from(displacement) * unit)?;
        }
        joining.finish()
    }
}

/// Blocks that are joined to one datatype, in order.
struct Joining<'a> {
    blocks: usize,
    bytes: usize,
    layout: List,
    /// Those of all kinds but the last.
    bounds: Bounds,
    signatures: Vec<Arc<Signature>>,
    last: Option<Kind<'a>>,
}

/// Blocks of one datatype that follow each other in the type map. They are one to what is known of the whole.
struct Kind<'a> {
    of: &'a Datatype,
    elements: u64,
    /// Where the first and the last of their elements begin, in memory.
    first: i128,
    last: i128,
}

impl Kind<'_> {
    fn bounds(&self) -> Bounds {
        self.of.bounds.spread(self.first, self.last)
    }

    fn signature(&self) -> Arc<Signature> {
        Signature::repeated(&self.of.signature, self.elements)
    }
}

impl<'a> Joining<'a> {
    /// There may be as many as `blocks`.
    fn of(blocks: usize) -> Self {
        Self {
            blocks,
            bytes: 0,
            layout: List::with_room_for(blocks),
            bounds: Bounds::EMPTY,
            signatures: Vec::new(),
            last: None,
        }
    }

    /// Appends a block of `count` elements, one after the other, which begins `at`.
    fn add(&mut self, count: usize, of: &'a Datatype, at: i128) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let bytes = of.layout.bytes().checked_mul(count);
        self.bytes = bytes
            .and_then(|bytes| bytes.checked_add(self.bytes))
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or_else(too_large)?;
        // Products of 64 bits each fit; sums that are saturated are refused with the bounds.
        let end = at.saturating_add((count as i128 - 1) * of.extent() as i128);
        let (first, last) = (at.min(end), at.max(end));
        match &mut self.last {
            Some(kind) if std::ptr::eq(kind.of, of) => {
                kind.elements = kind.elements.saturating_add(count as u64);
                kind.first = kind.first.min(first);
                kind.last = kind.last.max(last);
            }
            _ => self.begin_kind(Kind {
                of,
                elements: count as u64,
                first,
                last,
            }),
        }
        // A place that does not fit is refused with the bounds, if there are any data.
        let at = isize::try_from(at).unwrap_or(0);
        self.layout.append(&of.layout, (count, of.extent()), at)
    }

    fn begin_kind(&mut self, kind: Kind<'a>) {
        let Some(before) = self.last.replace(kind) else {
            return;
        };
        self.bounds = self.bounds.joined(&before.bounds());
        if self.signatures.is_empty() {
            self.signatures.reserve_exact(self.blocks);
        }
        self.signatures.push(before.signature());
    }

    fn finish(mut self) -> Result<Parts> {
        let (mut bounds, mut signature) = match &self.last {
            Some(last) => (last.bounds(), last.signature()),
            None => (Bounds::EMPTY, Signature::sequence(Vec::new())),
        };
        if !self.signatures.is_empty() {
            bounds = self.bounds.joined(&bounds);
            self.signatures.push(signature);
            signature = Signature::sequence(self.signatures);
        }
        Ok(Parts {
            bounds: bounds.checked()?,
            layout: self.layout.finish()?,
            signature,
        })
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
