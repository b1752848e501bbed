/*
 * One call with one wrong argument: the class of the error, the call, its place and the argument.
 * says: place     arguments-calls.c:
 *
 * run: 2 send-rank
 * exit: 6
 * says: call      MPI_Send
 * says: class     MPI_ERR_RANK
 * says: argument  dest
 *
 * run: 2 send-any
 * exit: 6
 * says: call      MPI_Send
 * says: class     MPI_ERR_RANK
 * says: argument  dest
 *
 * run: 2 send-tag
 * exit: 4
 * says: call      MPI_Send
 * says: class     MPI_ERR_TAG
 * says: argument  tag
 *
 * run: 2 send-tag-any
 * exit: 4
 * says: call      MPI_Send
 * says: class     MPI_ERR_TAG
 * says: argument  tag
 *
 * run: 2 send-count
 * exit: 2
 * says: call      MPI_Send
 * says: class     MPI_ERR_COUNT
 * says: argument  count
 *
 * run: 2 send-type
 * exit: 3
 * says: call      MPI_Send
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 2 send-comm
 * exit: 5
 * says: call      MPI_Send
 * says: class     MPI_ERR_COMM
 * says: argument  comm
 *
 * run: 2 send-buffer
 * exit: 1
 * says: call      MPI_Send
 * says: class     MPI_ERR_BUFFER
 * says: argument  buf
 *
 * run: 2 isend-rank
 * exit: 6
 * says: call      MPI_Isend
 * says: class     MPI_ERR_RANK
 * says: argument  dest
 *
 * run: 2 isend-request
 * exit: 13
 * says: call      MPI_Isend
 * says: class     MPI_ERR_ARG
 * says: argument  request
 *
 * run: 2 ssend-rank
 * exit: 6
 * says: call      MPI_Ssend
 * says: class     MPI_ERR_RANK
 * says: argument  dest
 *
 * run: 2 bsend-room
 * exit: 1
 * says: call      MPI_Bsend
 * says: class     MPI_ERR_BUFFER
 * says: a buffered send of
 *
 * run: 2 recv-rank
 * exit: 6
 * says: call      MPI_Recv
 * says: class     MPI_ERR_RANK
 * says: argument  source
 *
 * run: 2 recv-tag
 * exit: 4
 * says: call      MPI_Recv
 * says: class     MPI_ERR_TAG
 * says: argument  tag
 *
 * run: 2 recv-count
 * exit: 2
 * says: call      MPI_Recv
 * says: class     MPI_ERR_COUNT
 * says: argument  count
 *
 * run: 2 recv-type
 * exit: 3
 * says: call      MPI_Recv
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 2 recv-buffer
 * exit: 1
 * says: call      MPI_Recv
 * says: class     MPI_ERR_BUFFER
 * says: argument  buf
 *
 * run: 2 irecv-comm
 * exit: 5
 * says: call      MPI_Irecv
 * says: class     MPI_ERR_COMM
 * says: argument  comm
 *
 * run: 2 probe-rank
 * exit: 6
 * says: call      MPI_Probe
 * says: class     MPI_ERR_RANK
 * says: argument  source
 *
 * run: 2 iprobe-tag
 * exit: 4
 * says: call      MPI_Iprobe
 * says: class     MPI_ERR_TAG
 * says: argument  tag
 *
 * run: 2 exchange-rank
 * exit: 6
 * says: call      MPI_Sendrecv
 * says: class     MPI_ERR_RANK
 * says: argument  dest
 *
 * run: 2 exchange-source
 * exit: 6
 * says: call      MPI_Sendrecv
 * says: class     MPI_ERR_RANK
 * says: argument  source
 *
 * run: 2 wait-null
 * exit: 13
 * says: call      MPI_Wait
 * says: class     MPI_ERR_ARG
 * says: argument  request
 *
 * run: 2 waitall-count
 * exit: 13
 * says: call      MPI_Waitall
 * says: class     MPI_ERR_ARG
 * says: argument  count
 *
 * run: 2 start-null
 * exit: 7
 * says: call      MPI_Start
 * says: class     MPI_ERR_REQUEST
 * says: argument  request
 *
 * run: 2 cancel-null
 * exit: 7
 * says: call      MPI_Cancel
 * says: class     MPI_ERR_REQUEST
 * says: argument  request
 *
 * run: 2 mrecv-none
 * exit: 7
 * says: call      MPI_Mrecv
 * says: class     MPI_ERR_REQUEST
 * says: argument  message
 *
 * run: 2 truncated
 * exit: 15
 * says: call      MPI_Recv
 * says: class     MPI_ERR_TRUNCATE
 * says: a message of
 *
 * run: 2 truncated-later
 * exit: 15
 * says: call      MPI_Wait
 * says: class     MPI_ERR_TRUNCATE
 * says: a message of
 *
 * run: 2 ready-rank
 * exit: 6
 * says: call      MPI_Rsend
 * says: class     MPI_ERR_RANK
 * says: argument  dest
 *
 * run: 2 bcast-root
 * exit: 8
 * says: call      MPI_Bcast
 * says: class     MPI_ERR_ROOT
 * says: argument  root
 *
 * run: 2 bcast-negative
 * exit: 8
 * says: call      MPI_Bcast
 * says: class     MPI_ERR_ROOT
 * says: argument  root
 *
 * run: 2 bcast-count
 * exit: 2
 * says: call      MPI_Bcast
 * says: class     MPI_ERR_COUNT
 * says: argument  count
 *
 * run: 2 bcast-type
 * exit: 3
 * says: call      MPI_Bcast
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 2 bcast-comm
 * exit: 5
 * says: call      MPI_Bcast
 * says: class     MPI_ERR_COMM
 * says: argument  comm
 *
 * run: 2 reduce-op
 * exit: 10
 * says: call      MPI_Reduce
 * says: class     MPI_ERR_OP
 * says: argument  op
 *
 * run: 2 reduce-logical
 * exit: 10
 * says: call      MPI_Reduce
 * says: class     MPI_ERR_OP
 * says: MPI_BAND is not defined for MPI_FLOAT; see the table of
 *
 * run: 2 reduce-root
 * exit: 8
 * says: call      MPI_Reduce
 * says: class     MPI_ERR_ROOT
 * says: argument  root
 *
 * run: 2 reduce-place
 * exit: 1
 * says: call      MPI_Reduce
 * says: class     MPI_ERR_BUFFER
 * says: argument  sendbuf
 *
 * run: 2 allreduce-pair
 * exit: 10
 * says: call      MPI_Allreduce
 * says: class     MPI_ERR_OP
 * says: MPI_MINLOC is not defined for MPI_INT; see the table of
 *
 * run: 2 allreduce-same
 * exit: 1
 * says: call      MPI_Allreduce
 * says: class     MPI_ERR_BUFFER
 * says: argument  sendbuf
 *
 * run: 2 allreduce-replace
 * exit: 10
 * says: call      MPI_Allreduce
 * says: class     MPI_ERR_OP
 * says: MPI_REPLACE is for windows (MPI_Get_accumulate and its like), not for
 *
 * run: 2 allreduce-derived
 * exit: 10
 * says: call      MPI_Allreduce
 * says: class     MPI_ERR_OP
 * says: MPI_SUM is defined for predefined datatypes only, not for
 *
 * run: 2 gather-root
 * exit: 8
 * says: call      MPI_Gather
 * says: class     MPI_ERR_ROOT
 * says: argument  root
 *
 * run: 2 gather-place
 * exit: 1
 * says: call      MPI_Gather
 * says: class     MPI_ERR_BUFFER
 * says: the send buffer is missing here; only where the standard
 *
 * run: 2 scatter-count
 * exit: 2
 * says: call      MPI_Scatter
 * says: class     MPI_ERR_COUNT
 * says: argument  sendcount
 *
 * run: 2 gatherv-count
 * exit: 2
 * says: call      MPI_Gatherv
 * says: class     MPI_ERR_COUNT
 * says: argument  recvcounts
 *
 * run: 2 alltoallv-count
 * exit: 2
 * says: call      MPI_Alltoallv
 * says: class     MPI_ERR_COUNT
 * says: argument  sendcounts
 *
 * run: 2 ibcast-root
 * exit: 8
 * says: call      MPI_Ibcast
 * says: class     MPI_ERR_ROOT
 * says: argument  root
 *
 * run: 2 scan-op
 * exit: 10
 * says: call      MPI_Scan
 * says: class     MPI_ERR_OP
 * says: argument  op
 *
 * run: 2 block-count
 * exit: 2
 * says: call      MPI_Reduce_scatter_block
 * says: class     MPI_ERR_COUNT
 * says: argument  recvcount
 *
 * run: 2 neighbour-none
 * exit: 11
 * says: call      MPI_Neighbor_allgather
 * says: class     MPI_ERR_TOPOLOGY
 * says: the communicator has no topology; make one with
 *
 * run: 2 uncommitted
 * exit: 3
 * says: call      MPI_Send
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 2 type-freed
 * exit: 3
 * says: call      MPI_Send
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 2 type-predefined
 * exit: 3
 * says: call      MPI_Type_free
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 2 type-count
 * exit: 2
 * says: call      MPI_Type_contiguous
 * says: class     MPI_ERR_COUNT
 * says: argument  count
 *
 * run: 2 vector-count
 * exit: 2
 * says: call      MPI_Type_vector
 * says: class     MPI_ERR_COUNT
 * says: argument  count
 *
 * run: 2 comm-freed
 * exit: 5
 * says: call      MPI_Barrier
 * says: class     MPI_ERR_COMM
 * says: argument  comm
 *
 * run: 2 world-freed
 * exit: 5
 * says: call      MPI_Comm_free
 * says: class     MPI_ERR_COMM
 * says: argument  comm
 *
 * run: 2 split-color
 * exit: 13
 * says: call      MPI_Comm_split
 * says: class     MPI_ERR_ARG
 * says: argument  color
 *
 * run: 2 cart-large
 * exit: 11
 * says: call      MPI_Cart_create
 * says: class     MPI_ERR_TOPOLOGY
 * says: the topology has
 *
 * run: 2 cart-none
 * exit: 11
 * says: call      MPI_Cart_coords
 * says: class     MPI_ERR_TOPOLOGY
 * says: the communicator has no Cartesian topology; make one with
 *
 * run: 2 graph-none
 * exit: 11
 * says: call      MPI_Graph_neighbors_count
 * says: class     MPI_ERR_TOPOLOGY
 * says: the communicator has no graph topology; make one with
 *
 * run: 2 dims-fixed
 * exit: 12
 * says: call      MPI_Dims_create
 * says: class     MPI_ERR_DIMS
 * says: argument  nnodes
 *
 * run: 2 inter-local
 * exit: 6
 * says: call      MPI_Intercomm_create
 * says: class     MPI_ERR_RANK
 * says: argument  remote_leader
 *
 * run: 2 remote-none
 * exit: 5
 * says: call      MPI_Comm_remote_size
 * says: class     MPI_ERR_COMM
 * says: argument  comm
 *
 * run: 2 group-twice
 * exit: 6
 * says: call      MPI_Group_incl
 * says: class     MPI_ERR_RANK
 * says: rank 0 is named twice; name each rank of the group
 *
 * run: 2 group-rank
 * exit: 6
 * says: call      MPI_Group_incl
 * says: class     MPI_ERR_RANK
 * says: there is no rank
 *
 * run: 2 group-freed
 * exit: 9
 * says: call      MPI_Group_size
 * says: class     MPI_ERR_GROUP
 * says: argument  group
 *
 * run: 2 op-predefined
 * exit: 10
 * says: call      MPI_Op_free
 * says: class     MPI_ERR_OP
 * says: argument  op
 *
 * run: 2 win-size
 * exit: 52
 * says: call      MPI_Win_create
 * says: class     MPI_ERR_SIZE
 * says: argument  size
 *
 * run: 2 win-unit
 * exit: 26
 * says: call      MPI_Win_create
 * says: class     MPI_ERR_DISP
 * says: a displacement unit of
 *
 * run: 2 file-mode
 * exit: 21
 * says: call      MPI_File_open
 * says: class     MPI_ERR_AMODE
 * says: the access mode says neither read nor write; give one of
 *
 * run: 2 handler-freed
 * exit: 61
 * says: call      MPI_Comm_set_errhandler
 * says: class     MPI_ERR_ERRHANDLER
 * says: argument  errhandler
 *
 * run: 2 key-unknown
 * exit: 36
 * says: call      MPI_Comm_set_attr
 * says: class     MPI_ERR_KEYVAL
 * says: argument  comm_keyval
 *
 * run: 2 info-long
 * exit: 31
 * says: call      MPI_Info_set
 * says: class     MPI_ERR_INFO_KEY
 * says: an info key of
 *
 * run: 2 info-null
 * exit: 34
 * says: call      MPI_Info_set
 * says: class     MPI_ERR_INFO
 * says: argument  info
 *
 * run: 2 size-null
 * exit: 13
 * says: call      MPI_Comm_size
 * says: class     MPI_ERR_ARG
 * says: argument  size
 *
 * run: 2 port-none
 * exit: 43
 * says: call      MPI_Comm_connect
 * says: class     MPI_ERR_PORT
 * says: 'no such port' is no name of a port; pass what MPI
 *
 * run: 2 name-none
 * exit: 38
 * says: call      MPI_Lookup_name
 * says: class     MPI_ERR_NAME
 * says: no service 'nobody has published this' is publishe
 *
 * run: 2 spawn-none
 * exit: 53
 * says: call      MPI_Comm_spawn
 * says: class     MPI_ERR_SPAWN
 * says: the program
 *
 * run: 2 session-none
 * exit: 60
 * says: call      MPI_Group_from_session_pset
 * says: class     MPI_ERR_SESSION
 * says: argument  session
 *
 * run: 2 pset-none
 * exit: 13
 * says: call      MPI_Group_from_session_pset
 * says: class     MPI_ERR_ARG
 * says: argument  pset_name
 *
 * run: 2 partitions
 * exit: 13
 * says: call      MPI_Psend_init
 * says: class     MPI_ERR_ARG
 * says: argument  partitions
 *
 * run: 2 partition-far
 * exit: 13
 * says: call      MPI_Pready
 * says: class     MPI_ERR_ARG
 * says: partitions 5 to 5 are not all among the 2 of the r
 *
 * run: 2 partition-early
 * exit: 7
 * says: call      MPI_Pready
 * says: class     MPI_ERR_REQUEST
 * says: the partitioned send is not under way, so no partition of
 *
 * run: 2 partition-twice
 * exit: 13
 * says: call      MPI_Pready
 * says: class     MPI_ERR_ARG
 * says: partition 0 is ready already; say it once for each
 *
 * run: 2 pack-room
 * exit: 15
 * says: call      MPI_Pack
 * says: class     MPI_ERR_TRUNCATE
 * says: 16 bytes from position 0 do not lie within a buffe
 *
 * run: 2 unpack-room
 * exit: 15
 * says: call      MPI_Unpack
 * says: class     MPI_ERR_TRUNCATE
 * says: 16 bytes from position 0 do not lie within a buffe
 *
 * run: 2 finalised
 * exit: 16
 * says: call      MPI_Barrier
 * says: class     MPI_ERR_OTHER
 * says: MPI was finalised before; make all calls before
 *
 * run: 2 initialised
 * exit: 16
 * says: call      MPI_Init
 * says: class     MPI_ERR_OTHER
 * says: MPI is initialised already; ask MPI_Initialized before
 *
 * run: 2 before
 * exit: 16
 * says: call      MPI_Comm_rank
 * says: class     MPI_ERR_OTHER
 * says: MPI is not initialised; call MPI_Init or MPI_Init_thread
 */
#include <mpi.h>
#include <string.h>

static int rank, size, values[64], more[64], counts[64], places[64];
static const char *wanted;

/* Whether this is the case that was asked for. */
static int is(const char *name) { return strcmp(wanted, name) == 0; }

static void messages(void) {
    MPI_Comm all = MPI_COMM_WORLD;
    MPI_Status status;
    MPI_Request request;
    if (is("send-rank")) MPI_Send(values, 1, MPI_INT, size, 0, all);
    if (is("send-any")) MPI_Send(values, 1, MPI_INT, MPI_ANY_SOURCE, 0, all);
    if (is("send-tag")) MPI_Send(values, 1, MPI_INT, 0, -1, all);
    if (is("send-tag-any")) MPI_Send(values, 1, MPI_INT, 0, MPI_ANY_TAG, all);
    if (is("send-count")) MPI_Send(values, -1, MPI_INT, 0, 0, all);
    if (is("send-type")) MPI_Send(values, 1, MPI_DATATYPE_NULL, 0, 0, all);
    if (is("send-comm")) MPI_Send(values, 1, MPI_INT, 0, 0, MPI_COMM_NULL);
    if (is("send-buffer")) MPI_Send(NULL, 1, MPI_INT, 0, 0, all);
    if (is("isend-rank")) MPI_Isend(values, 1, MPI_INT, -7, 0, all, &request);
    if (is("isend-request")) MPI_Isend(values, 1, MPI_INT, 0, 0, all, NULL);
    if (is("ssend-rank")) MPI_Ssend(values, 1, MPI_INT, 99, 0, all);
    if (is("bsend-room")) MPI_Bsend(values, 1, MPI_INT, 0, 0, all);
    if (is("recv-rank")) MPI_Recv(values, 1, MPI_INT, size, 0, all, &status);
    if (is("recv-tag")) MPI_Recv(values, 1, MPI_INT, 0, -5, all, &status);
    if (is("recv-count")) MPI_Recv(values, -2, MPI_INT, 0, 0, all, &status);
    if (is("recv-type")) MPI_Recv(values, 1, MPI_DATATYPE_NULL, 0, 0, all, &status);
    if (is("recv-buffer")) MPI_Recv(NULL, 4, MPI_INT, 0, 0, all, &status);
    if (is("irecv-comm")) MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &request);
    if (is("probe-rank")) MPI_Probe(size + 1, 0, all, &status);
    if (is("iprobe-tag")) MPI_Iprobe(0, -9, all, &counts[0], &status);
    if (is("exchange-rank")) MPI_Sendrecv(values, 1, MPI_INT, size, 0, more, 1, MPI_INT, 0, 0, all, &status);
    if (is("exchange-source")) MPI_Sendrecv(values, 1, MPI_INT, 0, 0, more, 1, MPI_INT, size, 0, all, &status);
    if (is("wait-null")) MPI_Wait(NULL, &status);
    if (is("waitall-count")) MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE);
    if (is("start-null")) { request = MPI_REQUEST_NULL; MPI_Start(&request); }
    if (is("cancel-null")) { request = MPI_REQUEST_NULL; MPI_Cancel(&request); }
    if (is("mrecv-none")) { MPI_Message none = MPI_MESSAGE_NULL; MPI_Mrecv(values, 1, MPI_INT, &none, &status); }
    if (is("truncated")) { MPI_Isend(values, 4, MPI_INT, 0, 1, MPI_COMM_SELF, &request); MPI_Recv(more, 2, MPI_INT, 0, 1, MPI_COMM_SELF, &status); }
    if (is("truncated-later")) { MPI_Irecv(more, 2, MPI_INT, 0, 1, MPI_COMM_SELF, &request); MPI_Send(values, 4, MPI_INT, 0, 1, MPI_COMM_SELF); MPI_Wait(&request, &status); }
    if (is("ready-rank")) MPI_Rsend(values, 1, MPI_INT, size, 1, all);
}

static void collectives(void) {
    MPI_Comm all = MPI_COMM_WORLD;
    MPI_Request request;
    if (is("bcast-root")) MPI_Bcast(values, 1, MPI_INT, size, all);
    if (is("bcast-negative")) MPI_Bcast(values, 1, MPI_INT, -1, all);
    if (is("bcast-count")) MPI_Bcast(values, -1, MPI_INT, 0, all);
    if (is("bcast-type")) MPI_Bcast(values, 1, MPI_DATATYPE_NULL, 0, all);
    if (is("bcast-comm")) MPI_Bcast(values, 1, MPI_INT, 0, MPI_COMM_NULL);
    if (is("reduce-op")) MPI_Reduce(values, more, 1, MPI_INT, MPI_OP_NULL, 0, all);
    if (is("reduce-logical")) MPI_Reduce(values, more, 1, MPI_FLOAT, MPI_BAND, 0, all);
    if (is("reduce-root")) MPI_Reduce(values, more, 1, MPI_INT, MPI_SUM, 12, all);
    if (is("reduce-place")) MPI_Reduce(MPI_IN_PLACE, more, 1, MPI_INT, MPI_SUM, 1 - rank, all);
    if (is("allreduce-pair")) MPI_Allreduce(values, more, 1, MPI_INT, MPI_MINLOC, all);
    if (is("allreduce-same")) MPI_Allreduce(values, values, 1, MPI_INT, MPI_SUM, all);
    if (is("allreduce-replace")) MPI_Allreduce(values, more, 1, MPI_INT, MPI_REPLACE, all);
    if (is("allreduce-derived")) {
        MPI_Datatype pair;
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_commit(&pair);
        MPI_Allreduce(values, more, 1, pair, MPI_SUM, all);
    }
    if (is("gather-root")) MPI_Gather(values, 1, MPI_INT, more, 1, MPI_INT, -3, all);
    if (is("gather-place")) MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, more, 1, MPI_INT, 1 - rank, all);
    if (is("scatter-count")) MPI_Scatter(values, rank == 0 ? -1 : 1, MPI_INT, more, 1, MPI_INT, 0, all);
    if (is("gatherv-count")) { counts[0] = counts[1] = -1; MPI_Gatherv(values, 1, MPI_INT, more, counts, places, MPI_INT, 0, MPI_COMM_SELF); }
    if (is("alltoallv-count")) { counts[0] = -4; MPI_Alltoallv(values, counts, places, MPI_INT, more, counts, places, MPI_INT, MPI_COMM_SELF); }
    if (is("ibcast-root")) MPI_Ibcast(values, 1, MPI_INT, size, all, &request);
    if (is("scan-op")) MPI_Scan(values, more, 1, MPI_INT, MPI_OP_NULL, all);
    if (is("block-count")) MPI_Reduce_scatter_block(values, more, -1, MPI_INT, MPI_SUM, all);
    if (is("neighbour-none")) MPI_Neighbor_allgather(values, 1, MPI_INT, more, 1, MPI_INT, all);
}

static void objects(void) {
    MPI_Comm all = MPI_COMM_WORLD, made = MPI_COMM_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Group group, other;
    MPI_Op op = MPI_SUM;
    MPI_Win win;
    MPI_File file;
    int dims[2] = {5, 7}, periods[2] = {0, 0}, ranks[2] = {0, 0};
    if (is("uncommitted")) { MPI_Type_contiguous(2, MPI_INT, &type); MPI_Send(values, 1, type, 0, 0, all); }
    if (is("type-freed")) { MPI_Datatype kept; MPI_Type_contiguous(2, MPI_INT, &type); MPI_Type_commit(&type); kept = type; MPI_Type_free(&type); MPI_Send(values, 1, kept, 0, 0, all); }
    if (is("type-predefined")) { type = MPI_INT; MPI_Type_free(&type); }
    if (is("type-count")) MPI_Type_contiguous(-1, MPI_INT, &type);
    if (is("vector-count")) MPI_Type_vector(-2, 1, 1, MPI_INT, &type);
    if (is("comm-freed")) { MPI_Comm kept; MPI_Comm_dup(MPI_COMM_SELF, &made); kept = made; MPI_Comm_free(&made); MPI_Barrier(kept); }
    if (is("world-freed")) { made = MPI_COMM_WORLD; MPI_Comm_free(&made); }
    if (is("split-color")) MPI_Comm_split(all, -5, 0, &made);
    if (is("cart-large")) MPI_Cart_create(all, 2, dims, periods, 0, &made);
    if (is("cart-none")) MPI_Cart_coords(all, 0, 2, dims);
    if (is("graph-none")) MPI_Graph_neighbors_count(all, 0, dims);
    if (is("dims-fixed")) { dims[0] = 4; dims[1] = 0; MPI_Dims_create(6, 2, dims); }
    if (is("inter-local")) MPI_Intercomm_create(all, 0, all, size, 3, &made);
    if (is("remote-none")) MPI_Comm_remote_size(all, dims);
    if (is("group-twice")) { MPI_Comm_group(all, &group); MPI_Group_incl(group, 2, ranks, &other); }
    if (is("group-rank")) { ranks[0] = 99; MPI_Comm_group(all, &group); MPI_Group_incl(group, 1, ranks, &other); }
    if (is("group-freed")) { MPI_Comm_group(all, &group); other = group; MPI_Group_free(&group); MPI_Group_size(other, dims); }
    if (is("op-predefined")) MPI_Op_free(&op);
    if (is("win-size")) MPI_Win_create(values, -8, 1, MPI_INFO_NULL, all, &win);
    if (is("win-unit")) MPI_Win_create(values, 8, 0, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    if (is("file-mode")) MPI_File_open(MPI_COMM_SELF, "none", 0, MPI_INFO_NULL, &file);
    if (is("handler-freed")) { MPI_Errhandler handler = MPI_ERRORS_RETURN; MPI_Comm_set_errhandler(all, MPI_ERRHANDLER_NULL); (void)handler; }
    if (is("key-unknown")) MPI_Comm_set_attr(all, 77777, values);
    if (is("info-long")) { MPI_Info info; char key[300]; memset(key, 'k', 299); key[299] = 0; MPI_Info_create(&info); MPI_Info_set(info, key, "1"); }
    if (is("info-null")) MPI_Info_set(MPI_INFO_NULL, "key", "1");
    if (is("size-null")) MPI_Comm_size(all, NULL);
    if (is("port-none")) MPI_Comm_connect("no such port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &made);
    if (is("name-none")) { char port[MPI_MAX_PORT_NAME]; MPI_Lookup_name("nobody has published this", MPI_INFO_NULL, port); }
    if (is("spawn-none")) MPI_Comm_spawn("/nowhere/no-program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &made, MPI_ERRCODES_IGNORE);
    if (is("session-none")) { MPI_Session session; MPI_Group_from_session_pset(MPI_SESSION_NULL, "mpi://WORLD", &group); (void)session; }
    if (is("pset-none")) { MPI_Session session; MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session); MPI_Group_from_session_pset(session, "mpi://NOBODY", &group); }
    if (is("partitions")) { MPI_Request request; MPI_Psend_init(values, -1, 4, MPI_INT, 0, 0, all, MPI_INFO_NULL, &request); }
    if (is("partition-far")) { MPI_Request request; MPI_Psend_init(values, 2, 4, MPI_INT, 0, 0, all, MPI_INFO_NULL, &request); MPI_Start(&request); MPI_Pready(5, request); }
    if (is("partition-early")) { MPI_Request request; MPI_Psend_init(values, 2, 4, MPI_INT, 0, 0, all, MPI_INFO_NULL, &request); MPI_Pready(0, request); }
    if (is("partition-twice")) { MPI_Request request; MPI_Psend_init(values, 2, 4, MPI_INT, 0, 0, all, MPI_INFO_NULL, &request); MPI_Start(&request); MPI_Pready(0, request); MPI_Pready(0, request); }
    if (is("pack-room")) { int position = 0; MPI_Pack(values, 4, MPI_INT, more, 8, &position, all); }
    if (is("unpack-room")) { int position = 0; MPI_Unpack(more, 8, &position, values, 4, MPI_INT, all); }
    if (is("finalised")) { MPI_Finalize(); MPI_Barrier(MPI_COMM_WORLD); }
    if (is("initialised")) MPI_Init(NULL, NULL);
}

/* One call with one wrong argument, of which the whole job hears. */
int main(int argc, char **argv) {
    wanted = argv[1];
    if (is("before")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    messages();
    collectives();
    objects();
    MPI_Finalize();
    return 0;
}
