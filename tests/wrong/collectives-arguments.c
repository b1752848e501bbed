/*
 * Collectives whose arguments, order or number do not fit: each rank gets an error that names both sides, by messages and on
 * boards; some end as a deadlock, or as what is left over.
 *
 * run: 3 two-roots-bcast
 * says: MPI_Bcast with root 0
 * says: MPI_Bcast with root 1
 * says: left over
 *
 * run: 3 two-roots-scatter
 * says: MPI_Scatter with root 0
 * says: MPI_Scatter with root 1
 * says: left over
 *
 * run: 3 two-roots-later
 * says: MPI_Bcast with root 0
 * says: MPI_Bcast with root 1
 * says: left over
 *
 * run: 3 two-roots-reduce
 * exit: 35
 * says: rank 0: MPI_Reduce for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Reduce for ranks 0, 2 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Barrier for rank 0 to come, MPI_COMM_WORLD
 *
 * run: 3 roots-crossed
 * exit: 35
 * says: rank 0: MPI_Bcast for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Bcast for rank 0 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Bcast for rank 1 to come, MPI_COMM_WORLD
 *
 * run: 3 gatherv-roots
 * exit: 35
 * says: rank 0: MPI_Gatherv for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Gatherv for ranks 0, 2 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Barrier for rank 0 to come, MPI_COMM_WORLD
 *
 * run: 3 scatterv-roots
 * says: MPI_Scatterv with root 0
 * says: MPI_Scatterv with root 1
 * says: left over
 *
 * run: 3 bcast-longer
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 bcast-shorter
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 allreduce-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 reduce-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 gather-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scatter-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 allgather-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 alltoall-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 block-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scan-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 gatherv-more
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 gatherv-fewer
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scatterv-more
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scatterv-fewer
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 allgatherv-counts
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 alltoallv-counts
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 blocks-counts
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 blocks-op
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 allreduce-type
 * says: rank 0: MPI_ERR_TYPE
 * says: rank 1: MPI_ERR_TYPE
 * says: rank 2: MPI_ERR_TYPE
 *
 * run: 3 gatherv-type
 * says: rank 0: MPI_ERR_TYPE
 * says: rank 1: MPI_ERR_TYPE
 * says: rank 2: MPI_ERR_TYPE
 *
 * run: 3 scan-op
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 exscan-op
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 order
 * exit: 35
 * says: rank 0: MPI_Allreduce for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Barrier for rank 0 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Allreduce for rank 0 to come, MPI_COMM_WORLD
 *
 * run: 3 order-roots
 * exit: 35
 * says: rank 0: MPI_Reduce for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Bcast for rank 0 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Barrier for rank 0 to come, MPI_COMM_WORLD
 *
 * run: 3 order-begun
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 extra
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 begun-roots
 * says: MPI_Bcast with root 0
 * says: MPI_Bcast with root 1
 * says: left over
 *
 * run: 3 begun-op
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 begun-other
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 begun-count
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 two-roots-bcast board
 * says: rank 0: MPI_ERR_ROOT
 * says: rank 1: MPI_ERR_ROOT
 * says: rank 2: MPI_ERR_ROOT
 *
 * run: 3 two-roots-scatter board
 * says: rank 0: MPI_ERR_ROOT
 * says: rank 1: MPI_ERR_ROOT
 * says: rank 2: MPI_ERR_ROOT
 *
 * run: 3 two-roots-later board
 * says: rank 0: MPI_ERR_ROOT
 * says: rank 1: MPI_ERR_ROOT
 * says: rank 2: MPI_ERR_ROOT
 *
 * run: 3 two-roots-reduce board
 * says: rank 0: MPI_ERR_ROOT
 * says: rank 1: MPI_ERR_ROOT
 * says: rank 2: MPI_ERR_ROOT
 *
 * run: 3 roots-crossed board
 * says: rank 0: MPI_ERR_ROOT
 * says: rank 1: MPI_ERR_ROOT
 * says: rank 2: MPI_ERR_ROOT
 *
 * run: 3 gatherv-roots board
 * says: rank 0: MPI_ERR_ROOT
 * says: rank 1: MPI_ERR_ROOT
 * says: rank 2: MPI_ERR_ROOT
 *
 * run: 3 scatterv-roots board
 * says: rank 0: MPI_ERR_ROOT
 * says: rank 1: MPI_ERR_ROOT
 * says: rank 2: MPI_ERR_ROOT
 * says: MPI_Scatterv with root 0
 * says: MPI_Scatterv with root 1
 *
 * run: 3 bcast-longer board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 bcast-shorter board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 allreduce-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 reduce-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 gather-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scatter-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 allgather-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 alltoall-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 block-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scan-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 gatherv-more board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 gatherv-fewer board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scatterv-more board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 scatterv-fewer board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 allgatherv-counts board
 * says: rank 0: MPI_ERR_COUNT
 * says: rank 1: MPI_ERR_COUNT
 * says: rank 2: MPI_ERR_COUNT
 *
 * run: 3 alltoallv-counts board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 *
 * run: 3 blocks-counts board
 * says: rank 0: MPI_ERR_COUNT
 * says: rank 1: MPI_ERR_COUNT
 * says: rank 2: MPI_ERR_COUNT
 *
 * run: 3 blocks-op board
 * says: rank 0: MPI_ERR_OP
 * says: rank 1: MPI_ERR_OP
 * says: rank 2: MPI_ERR_OP
 *
 * run: 3 allreduce-type board
 * says: rank 0: MPI_ERR_TYPE
 * says: rank 1: MPI_ERR_TYPE
 * says: rank 2: MPI_ERR_TYPE
 *
 * run: 3 gatherv-type board
 * says: rank 0: MPI_ERR_TYPE
 * says: rank 1: MPI_ERR_TYPE
 * says: rank 2: MPI_ERR_TYPE
 *
 * run: 3 scan-op board
 * says: rank 0: MPI_ERR_OP
 * says: rank 1: MPI_ERR_OP
 * says: rank 2: MPI_ERR_OP
 *
 * run: 3 exscan-op board
 * says: rank 0: MPI_ERR_OP
 * says: rank 1: MPI_ERR_OP
 * says: rank 2: MPI_ERR_OP
 *
 * run: 3 order board
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 order-roots board
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 order-begun board
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 extra board
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 begun-roots board
 * says: MPI_Bcast with root 0
 * says: MPI_Bcast with root 1
 * says: left over
 *
 * run: 3 begun-op board
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 begun-other board
 * says: rank 0: MPI_ERR_OTHER
 * says: rank 1: MPI_ERR_OTHER
 * says: rank 2: MPI_ERR_OTHER
 *
 * run: 3 begun-count board
 * says: rank 0: MPI_ERR_TRUNCATE
 * says: rank 1: MPI_ERR_TRUNCATE
 * says: rank 2: MPI_ERR_TRUNCATE
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size, in[64], out[64], counts[8], places[8];
static const char *wanted;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

/* Runs a case; returns its code. */
static int act(MPI_Comm comm) {
    int odd = rank == 1, zero = rank == 0, code = MPI_SUCCESS, root = odd;
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < size; i++) counts[i] = 2, places[i] = 2 * i;
#define DO(call) (code = code ? code : (call))
    /* Each of two ranks is the root of its own. */
    if (is("two-roots-bcast")) { DO(MPI_Bcast(in, 1, MPI_INT, root, comm)); DO(MPI_Barrier(comm)); }
    if (is("two-roots-scatter")) { DO(MPI_Scatter(in, 1, MPI_INT, out, 1, MPI_INT, root, comm)); DO(MPI_Barrier(comm)); }
    if (is("two-roots-later")) { DO(MPI_Bcast(in, 1, MPI_INT, root, comm)); DO(MPI_Bcast(in, 1, MPI_INT, 2, comm)); DO(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm)); }
    if (is("two-roots-reduce")) { DO(MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, root, comm)); DO(MPI_Barrier(comm)); }
    if (is("roots-crossed")) { DO(MPI_Bcast(in, 1, MPI_INT, odd, comm)); DO(MPI_Bcast(in, 1, MPI_INT, !odd, comm)); DO(MPI_Barrier(comm)); }
    if (is("gatherv-roots")) { DO(MPI_Gatherv(in, 2, MPI_INT, out, counts, places, MPI_INT, root, comm)); DO(MPI_Barrier(comm)); }
    if (is("scatterv-roots")) { DO(MPI_Scatterv(in, counts, places, MPI_INT, out, 2, MPI_INT, root, comm)); DO(MPI_Barrier(comm)); }
    /* Other counts. */
    if (is("bcast-longer")) { DO(MPI_Bcast(in, zero ? 4 : 2, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("bcast-shorter")) { DO(MPI_Bcast(in, zero ? 1 : 2, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("allreduce-count")) DO(MPI_Allreduce(in, out, odd ? 3 : 2, MPI_INT, MPI_SUM, comm));
    if (is("reduce-count")) { DO(MPI_Reduce(in, out, odd ? 3 : 2, MPI_INT, MPI_SUM, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("gather-count")) { DO(MPI_Gather(in, odd ? 3 : 2, MPI_INT, out, 2, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("scatter-count")) { DO(MPI_Scatter(in, 2, MPI_INT, out, odd ? 1 : 2, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("allgather-count")) DO(MPI_Allgather(in, odd ? 1 : 2, MPI_INT, out, odd ? 1 : 2, MPI_INT, comm));
    if (is("alltoall-count")) DO(MPI_Alltoall(in, odd ? 1 : 2, MPI_INT, out, odd ? 1 : 2, MPI_INT, comm));
    if (is("block-count")) DO(MPI_Reduce_scatter_block(in, out, odd ? 1 : 2, MPI_INT, MPI_SUM, comm));
    if (is("scan-count")) { DO(MPI_Scan(in, out, odd ? 1 : 2, MPI_INT, MPI_SUM, comm)); DO(MPI_Barrier(comm)); }
    if (is("gatherv-more")) { DO(MPI_Gatherv(in, odd ? 3 : 2, MPI_INT, out, counts, places, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("gatherv-fewer")) { DO(MPI_Gatherv(in, odd ? 1 : 2, MPI_INT, out, counts, places, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("scatterv-more")) { DO(MPI_Scatterv(in, counts, places, MPI_INT, out, odd ? 3 : 2, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("scatterv-fewer")) { DO(MPI_Scatterv(in, counts, places, MPI_INT, out, odd ? 1 : 2, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("allgatherv-counts")) { if (odd) counts[1] = 2, counts[0] = 1, counts[2] = 3; DO(MPI_Allgatherv(in, 2, MPI_INT, out, counts, places, MPI_INT, comm)); DO(MPI_Barrier(comm)); }
    if (is("alltoallv-counts")) { if (odd) counts[0] = 1; DO(MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, comm)); DO(MPI_Barrier(comm)); }
    if (is("blocks-counts")) { if (odd) counts[0] = 1, counts[2] = 3; DO(MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm)); DO(MPI_Barrier(comm)); }
    if (is("blocks-op")) { DO(MPI_Reduce_scatter(in, out, counts, MPI_INT, odd ? MPI_MAX : MPI_SUM, comm)); DO(MPI_Barrier(comm)); }
    /* Other datatypes, other operations, of one length. */
    if (is("allreduce-type")) DO(MPI_Allreduce(in, out, 2, odd ? MPI_FLOAT : MPI_INT, MPI_SUM, comm));
    if (is("gatherv-type")) { DO(MPI_Gatherv(in, 2, odd ? MPI_FLOAT : MPI_INT, out, counts, places, MPI_INT, 0, comm)); DO(MPI_Barrier(comm)); }
    if (is("scan-op")) { DO(MPI_Scan(in, out, 2, MPI_INT, odd ? MPI_MAX : MPI_SUM, comm)); DO(MPI_Barrier(comm)); }
    if (is("exscan-op")) { DO(MPI_Exscan(in, out, 2, MPI_INT, rank == 2 ? MPI_MAX : MPI_SUM, comm)); DO(MPI_Barrier(comm)); }
    /* Order, and calls that are missing. */
    if (is("order")) { if (odd) { DO(MPI_Barrier(comm)); DO(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm)); } else { DO(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm)); DO(MPI_Barrier(comm)); } }
    if (is("order-roots")) { if (odd) { DO(MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, 0, comm)); DO(MPI_Bcast(in, 1, MPI_INT, 0, comm)); } else { DO(MPI_Bcast(in, 1, MPI_INT, 0, comm)); DO(MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, 0, comm)); } DO(MPI_Barrier(comm)); }
    if (is("order-begun")) { MPI_Request two[2]; if (odd) { MPI_Ibarrier(comm, &two[0]); MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, comm, &two[1]); } else { MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, comm, &two[0]); MPI_Ibarrier(comm, &two[1]); } DO(MPI_Wait(&two[0], MPI_STATUS_IGNORE)); DO(MPI_Wait(&two[1], MPI_STATUS_IGNORE)); }
    if (is("extra")) { if (odd) DO(MPI_Bcast(in, 1, MPI_INT, 1, comm)); DO(MPI_Barrier(comm)); DO(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm)); }
    if (is("begun-roots")) { DO(MPI_Ibcast(in, 1, MPI_INT, root, comm, &request)); DO(MPI_Wait(&request, MPI_STATUS_IGNORE)); DO(MPI_Barrier(comm)); }
    if (is("begun-op")) { DO(MPI_Iallreduce(in, out, 1, MPI_INT, odd ? MPI_MAX : MPI_SUM, comm, &request)); DO(MPI_Wait(&request, MPI_STATUS_IGNORE)); }
    if (is("begun-other")) { if (odd) DO(MPI_Ialltoall(in, 1, MPI_INT, out, 1, MPI_INT, comm, &request)); else DO(MPI_Iallgather(in, 1, MPI_INT, out, 1, MPI_INT, comm, &request)); DO(MPI_Wait(&request, MPI_STATUS_IGNORE)); }
    if (is("begun-count")) { DO(MPI_Iallreduce(in, out, odd ? 3 : 2, MPI_INT, MPI_SUM, comm, &request)); DO(MPI_Wait(&request, MPI_STATUS_IGNORE)); }
    return code;
}

/* All ranks say what they have heard. */
int main(int argc, char **argv) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    wanted = argv[1];
    /* After some, collectives of ranks that share memory take another way. */
    if (argc > 2)
        for (int i = 0; i < 8; i++) MPI_Barrier(comm);
    int code = act(comm);
    /* A rank that has only sent learns of it in its next call. */
    if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
    if (code == MPI_SUCCESS) strcpy(text, "no error");
    else MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s\n", rank, text);
    MPI_Finalize();
    return 0;
}
