//! Topologies (MPI 5.0, chapter 8): the calls that work without one.

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::Comm;

use crate::args::Out;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

/// No communicator has a topology yet.
pub fn topo_test(_comm: &Arc<Comm>, mut status: Out<c_int>) -> Checked<()> {
    status.set(k::MPI_UNDEFINED);
    Ok(())
}

/// Factors as close to each other as possible, the largest first, into the places that are 0.
pub fn dims_create(nnodes: c_int, _ndims: usize, dims: &mut [c_int]) -> Checked<()> {
    let fixed: i64 = dims
        .iter()
        .filter(|dim| **dim > 0)
        .map(|dim| i64::from(*dim))
        .product();
    if let Some(negative) = dims.iter().find(|dim| **dim < 0) {
        return Err(Fault::argument(
            k::MPI_ERR_DIMS,
            "dims",
            "dimensions of at least 0",
            negative.to_string(),
            "set a dimension to 0 to have it chosen",
        ));
    }
    let free = dims.iter().filter(|dim| **dim == 0).count();
    let bad =
        nnodes < 1 || i64::from(nnodes) % fixed != 0 || (free == 0 && fixed != i64::from(nnodes));
    if bad {
        return Err(Fault::argument(
            k::MPI_ERR_DIMS,
            "nnodes",
            format!("a positive multiple of the dimensions that are given ({fixed})"),
            nnodes.to_string(),
            "give dimensions that divide the number of nodes",
        ));
    }
    let mut chosen = balanced((i64::from(nnodes) / fixed) as c_int, free).into_iter();
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        *dim = chosen.next().unwrap_or(1);
    }
    Ok(())
}

/// `count` factors of a number, the largest first: of all ways the one whose largest factor is least.
fn balanced(number: c_int, count: usize) -> Vec<c_int> {
    let Some(rest) = count.checked_sub(1) else {
        return Vec::new();
    };
    if rest == 0 {
        return vec![number];
    }
    let enough =
        |factor: c_int| i64::from(factor).saturating_pow(count as u32) >= i64::from(number);
    let first = (1..=number).filter(|factor| number % factor == 0 && enough(*factor));
    for factor in first {
        let others = balanced(number / factor, rest);
        if others[0] <= factor {
            return std::iter::once(factor).chain(others).collect();
        }
    }
    let mut all = vec![1; count];
    all[0] = number;
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_balanced_and_fall() {
        for (number, count, expected) in [
            (6, 2, vec![3, 2]),
            (7, 2, vec![7, 1]),
            (16, 2, vec![4, 4]),
            (24, 3, vec![4, 3, 2]),
            (1, 3, vec![1, 1, 1]),
            (12, 1, vec![12]),
        ] {
            assert_eq!(balanced(number, count), expected, "{number} into {count}");
        }
    }
}
