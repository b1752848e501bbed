//! Parts of arrays of several dimensions: subarray and darray (MPI 5.0, sections 5.1.3 and 5.1.4).

use std::sync::Arc;

use super::Datatype;
use super::construct::Parts;
use crate::error::{Error, ErrorClass, Result};

/// Storage order of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The last dimension is contiguous.
    C,
    /// The first dimension is contiguous.
    Fortran,
}

/// Distribution of one dimension of an array over processes. `None` as argument is the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Not at all.
    None,
    /// In blocks of this size.
    Block(Option<i64>),
    /// In blocks of this size, dealt in turn.
    Cyclic(Option<i64>),
}

/// The runs of indices that a process owns in one dimension: `count` blocks of `length`, a `stride`
/// apart, from `start`, and a shorter block at the end.
#[derive(Clone, Copy, Debug)]
struct Share {
    start: i64,
    length: i64,
    count: i64,
    stride: i64,
    tail: i64,
}

impl Share {
    const fn run(start: i64, length: i64) -> Self {
        Self {
            start,
            length,
            count: 1,
            stride: 0,
            tail: 0,
        }
    }

    fn of(distribution: Distribution, size: i64, processes: i64, place: i64) -> Result<Self> {
        match distribution {
            Distribution::None if processes == 1 => Ok(Self::run(0, size)),
            Distribution::None => Err(argument(format!(
                "a dimension that is not distributed lies on one process, not on {processes}; give 1 in psizes"
            ))),
            Distribution::Block(given) => {
                let block = given.unwrap_or((size - 1) / processes + 1);
                if block <= 0 || block.checked_mul(processes).is_some_and(|all| all < size) {
                    return Err(argument(format!(
                        "blocks of {block} on {processes} processes do not cover the {size} elements of the dimension"
                    )));
                }
                let start = block.saturating_mul(place).min(size);
                Ok(Self::run(start, block.min(size - start)))
            }
            Distribution::Cyclic(given) => {
                let block = given.unwrap_or(1);
                if block <= 0 {
                    return Err(argument(format!(
                        "cyclic blocks have at least 1 element, not {block}"
                    )));
                }
                let stride = block.saturating_mul(processes);
                let start = block.saturating_mul(place);
                if start >= size {
                    return Ok(Self::run(0, 0));
                }
                let owned = size - start;
                let (count, rest) = (owned / stride, owned % stride);
                let (count, tail) = if rest >= block {
                    (count + 1, 0)
                } else {
                    (count, rest)
                };
                Ok(Self {
                    start,
                    length: block,
                    count,
                    stride,
                    tail,
                })
            }
        }
    }
}

/// A subarray: its elements, nested, resized to the whole array.
pub(super) fn subarray(
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: Order,
    of: &Arc<Datatype>,
) -> Result<Parts> {
    if sizes.is_empty() || sizes.len() != subsizes.len() || sizes.len() != starts.len() {
        return Err(argument(format!(
            "a subarray has at least 1 dimension, not {}",
            sizes.len()
        )));
    }
    let mut shares = Vec::with_capacity(sizes.len());
    for (dimension, ((&size, &part), &start)) in sizes.iter().zip(subsizes).zip(starts).enumerate()
    {
        if size < 1 || part < 1 || part > size || start < 0 || start > size - part {
            return Err(argument(format!(
                "dimension {dimension} of the subarray: {part} elements from {start} do not lie within an array of {size}"
            )));
        }
        shares.push(Share::run(start, part));
    }
    nested(sizes, &shares, order, of)
}

/// A process' share of a distributed array.
pub(super) fn darray(
    (size, rank): (i64, i64),
    sizes: &[i64],
    distributions: &[Distribution],
    processes: &[i64],
    order: Order,
    of: &Arc<Datatype>,
) -> Result<Parts> {
    let dimensions = sizes.len();
    if dimensions == 0 || dimensions != distributions.len() || dimensions != processes.len() {
        return Err(argument(format!(
            "a distributed array has at least 1 dimension, not {dimensions}"
        )));
    }
    if let Some(bad) = sizes.iter().chain(processes).find(|number| **number < 1) {
        return Err(argument(format!(
            "sizes of a distributed array are at least 1, not {bad}"
        )));
    }
    let all = processes
        .iter()
        .try_fold(1i64, |all, count| all.checked_mul(*count));
    if all != Some(size) || rank < 0 || rank >= size {
        return Err(argument(format!(
            "rank {rank} of {size} is not in a grid of {processes:?} processes; their product is the size"
        )));
    }
    // The grid of processes is in C order, whatever the order of the array.
    let mut left = rank;
    let mut shares = vec![Share::run(0, 0); dimensions];
    for dimension in (0..dimensions).rev() {
        let count = processes[dimension];
        shares[dimension] = Share::of(
            distributions[dimension],
            sizes[dimension],
            count,
            left % count,
        )?;
        left /= count;
    }
    nested(sizes, &shares, order, of)
}

/// From the fastest dimension to the slowest: the share of each, a row of the inner ones apart.
fn nested(sizes: &[i64], shares: &[Share], order: Order, of: &Arc<Datatype>) -> Result<Parts> {
    let mut row = of.extent() as i64;
    let mut inner = Parts::same(of);
    let mut first = 0i64;
    for step in 0..sizes.len() {
        let dimension = match order {
            Order::C => sizes.len() - 1 - step,
            Order::Fortran => step,
        };
        let share = shares[dimension];
        let large = || argument("the array is larger than any memory".to_owned());
        // A block of rows, repeated: rows are counted in bytes, whatever the extent of `inner`.
        let rows = |count: i64| inner.times(count as usize, i128::from(row));
        let stride = share.stride.checked_mul(row).ok_or_else(large)?;
        let mut dealt = rows(share.length)?.times(share.count as usize, i128::from(stride))?;
        if share.tail > 0 {
            let after = share.count.checked_mul(stride).ok_or_else(large)?;
            dealt = dealt.followed(rows(share.tail)?.shifted(i128::from(after))?)?;
        }
        first = share
            .start
            .checked_mul(row)
            .and_then(|by| first.checked_add(by))
            .ok_or_else(large)?;
        row = row.checked_mul(sizes[dimension]).ok_or_else(large)?;
        inner = dealt;
    }
    inner
        .shifted(i128::from(first))?
        .resized(0, i128::from(row))
}

fn argument(text: String) -> Error {
    Error::new(ErrorClass::Arg, text)
}
