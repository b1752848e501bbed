//! Extensions of Open MPI that its programs call: whether it moves data of graphics cards, and the names that persistent collectives had before the
//! standard had them.

#![allow(non_snake_case, missing_docs)]

use core::ffi::c_int;

use crate::alias;
use crate::generated::{coll_persistent, neighborhood};

/// Weft does not access the memory of graphics cards.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Query_cuda_support() -> c_int {
    0
}

/// As [`MPIX_Query_cuda_support`].
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Query_rocm_support() -> c_int {
    0
}

macro_rules! renamed {
    ($($group:ident $name:ident $old:ident $profiling:ident;)*) => {$(
        use $group::$name;
        alias!($old => $name);
        alias!($profiling => $name);
    )*};
}

renamed! {
    coll_persistent PMPI_Allgather_init MPIX_Allgather_init PMPIX_Allgather_init;
    coll_persistent PMPI_Allgatherv_init MPIX_Allgatherv_init PMPIX_Allgatherv_init;
    coll_persistent PMPI_Allreduce_init MPIX_Allreduce_init PMPIX_Allreduce_init;
    coll_persistent PMPI_Alltoall_init MPIX_Alltoall_init PMPIX_Alltoall_init;
    coll_persistent PMPI_Alltoallv_init MPIX_Alltoallv_init PMPIX_Alltoallv_init;
    coll_persistent PMPI_Alltoallw_init MPIX_Alltoallw_init PMPIX_Alltoallw_init;
    coll_persistent PMPI_Barrier_init MPIX_Barrier_init PMPIX_Barrier_init;
    coll_persistent PMPI_Bcast_init MPIX_Bcast_init PMPIX_Bcast_init;
    coll_persistent PMPI_Exscan_init MPIX_Exscan_init PMPIX_Exscan_init;
    coll_persistent PMPI_Gather_init MPIX_Gather_init PMPIX_Gather_init;
    coll_persistent PMPI_Gatherv_init MPIX_Gatherv_init PMPIX_Gatherv_init;
    coll_persistent PMPI_Reduce_init MPIX_Reduce_init PMPIX_Reduce_init;
    coll_persistent PMPI_Reduce_scatter_block_init MPIX_Reduce_scatter_block_init PMPIX_Reduce_scatter_block_init;
    coll_persistent PMPI_Reduce_scatter_init MPIX_Reduce_scatter_init PMPIX_Reduce_scatter_init;
    coll_persistent PMPI_Scan_init MPIX_Scan_init PMPIX_Scan_init;
    coll_persistent PMPI_Scatter_init MPIX_Scatter_init PMPIX_Scatter_init;
    coll_persistent PMPI_Scatterv_init MPIX_Scatterv_init PMPIX_Scatterv_init;
    neighborhood PMPI_Neighbor_allgather_init MPIX_Neighbor_allgather_init PMPIX_Neighbor_allgather_init;
    neighborhood PMPI_Neighbor_allgatherv_init MPIX_Neighbor_allgatherv_init PMPIX_Neighbor_allgatherv_init;
    neighborhood PMPI_Neighbor_alltoall_init MPIX_Neighbor_alltoall_init PMPIX_Neighbor_alltoall_init;
    neighborhood PMPI_Neighbor_alltoallv_init MPIX_Neighbor_alltoallv_init PMPIX_Neighbor_alltoallv_init;
    neighborhood PMPI_Neighbor_alltoallw_init MPIX_Neighbor_alltoallw_init PMPIX_Neighbor_alltoallw_init;
}
