/*
 * Ranks that wait for ever: messages, collectives that a rank leaves out, two groups, windows, processes that were started later.
 *
 * run: 2 one-too-many
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 0, tag 5, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 wrong-source
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 1, tag 5, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 no-stop
 * exit: 35
 * says: rank 0: MPI_Recv for a message from any rank, tag 1, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 0, any tag, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 waitsome
 * exit: 35
 * says: rank 0: MPI_Waitsome for a message from rank 1, tag 1, MPI_COMM_WORLD or for a message from rank 1, tag 2, MPI
 * says: rank 1: MPI_Waitsome for a message from rank 0, tag 1, MPI_COMM_WORLD or for a message from rank 0, tag 2, MPI
 * says: at deadlock-others.c:
 *
 * run: 2 isend-large
 * exit: 35
 * says: rank 0: MPI_Wait for rank 1 to receive, tag 4, MPI_COMM_WORLD
 * says: rank 1: MPI_Wait for rank 0 to receive, tag 4, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 issend
 * exit: 35
 * says: rank 0: MPI_Wait for rank 1 to receive, tag 4, MPI_COMM_WORLD
 * says: rank 1: MPI_Wait for rank 0 to receive, tag 4, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 exchange-replace
 * exit: 35
 * says: rank 0: MPI_Sendrecv_replace for a message from rank 1, tag 0, MPI_COMM_WORLD
 * says: rank 1: MPI_Sendrecv_replace for a message from rank 0, tag 1, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 exchange-begun
 * exit: 35
 * says: rank 0: MPI_Wait for the data of a message from any rank, MPI_COMM_WORLD
 * says: rank 1: MPI_Wait for the data of a message from any rank, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 mrecv-next
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Mprobe for a message from rank 0, tag 5, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 ssend-finalised
 * exit: 35
 * says: rank 0: MPI_Ssend for rank 1 to receive, tag 5, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 agree
 * exit: 35
 * says: rank 0: MPIX_Comm_agree for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 0, tag 5, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 agree-begun
 * exit: 35
 * says: rank 0: MPI_Wait in MPIX_Comm_agree for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 shrink
 * exit: 35
 * says: rank 0: MPI_Recv for a message from rank 1, tag 5, MPI_COMM_WORLD
 * says: rank 1: MPIX_Comm_shrink for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 chain
 * exit: 35
 * says: rank 0: MPI_Recv for a message from rank 1, tag 7, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 0, tag 7, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 odd-even
 * exit: 35
 * says: rank 0: MPI_Ssend for rank 1 to receive, tag 3, MPI_COMM_WORLD
 * says: rank 1: MPI_Ssend for rank 0 to receive, tag 3, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 tags-crossed
 * exit: 35
 * says: rank 0: MPI_Ssend for rank 1 to receive, tag 1, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 0, tag 2, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 waitany-none
 * exit: 35
 * says: rank 0: MPI_Waitany for a message from rank 1, tag 1, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 started
 * exit: 35
 * says: rank 0: MPI_Waitall for a message from rank 1, tag 1, MPI_COMM_WORLD
 * says: rank 1: MPI_Waitall for a message from rank 0, tag 1, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 partition
 * exit: 35
 * says: rank 0: MPI_Wait for partitions to be ready
 * says: rank 1: MPI_Wait for partitions to be ready
 * says: at deadlock-others.c:
 *
 * run: 2 dup
 * exit: 16
 * says: rank 1 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_Comm_dup; all ranks of a communicator must call the same collectives in the same order
 * says: rank 0 was in MPI_Comm_dup at deadlock-others.c:
 * says: (missing) and is in MPI_Finalize at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 split
 * exit: 35
 * says: rank 0: MPI_Comm_split for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 create
 * exit: 16
 * says: rank 1 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_Comm_create; all ranks of a communicator must call the same collectives in the same order
 * says: rank 0 was in MPI_Comm_create at deadlock-others.c:
 * says: (missing) and is in MPI_Finalize at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 cart
 * exit: 16
 * says: rank 1 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_Cart_create; all ranks of a communicator must call the same collectives in the same order
 * says: rank 0 was in MPI_Cart_create at deadlock-others.c:
 * says: (missing) and is in MPI_Finalize at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 window
 * exit: 16
 * says: rank 1 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_Win_allocate; all ranks of a communicator must call the same collectives in the same order
 * says: rank 0 is in MPI_Win_allocate at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 open
 * exit: 16
 * says: rank 1 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_File_open; all ranks of a communicator must call the same collectives in the same order
 * says: rank 0 is in MPI_File_open at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 dup-on-board
 * exit: 16
 * says: rank 0 was in MPI_Comm_dup at deadlock-others.c:
 * says: (missing) and is in MPI_Finalize at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 4 dup-of-four
 * exit: 16
 * says: in MPI_Comm_dup at deadlock-others.c:
 * says: rank 3 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 dup-before-recv
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 0, tag 3, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 dup-second
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Comm_dup for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 gatherv
 * exit: 35
 * says: rank 0: MPI_Gatherv for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 scatter
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Scatter for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 alltoallw
 * exit: 16
 * says: rank 0 is in MPI_Alltoallw at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 scan
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Scan for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 begun
 * exit: 35
 * says: rank 0: MPI_Wait in MPI_Allreduce for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 blocking-begun
 * exit: 35
 * says: rank 0: MPI_Allreduce for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Wait in MPI_Allreduce for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 persistent
 * exit: 35
 * says: rank 0: MPI_Wait in MPI_Barrier for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 abort-loop
 * exit: 16
 * says: rank 0 is in MPI_Allreduce at deadlock-others.c:
 * says: rank 1 is in MPI_Finalize at deadlock-others.c:
 *
 * run: 2 in-branch
 * exit: 35
 * says: rank 0: MPI_Barrier for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Recv for a message from rank 0, tag 3, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 free
 * exit: 35
 * says: rank 0: MPI_Barrier for rank 1 to come, a communicator of ranks 0, 1
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 disconnect
 * exit: 35
 * says: rank 0: MPI_Comm_disconnect for rank 1 to come, a communicator of ranks 0, 1
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 neighbours
 * exit: 35
 * says: rank 0: MPI_Neighbor_alltoall for rank 1 to come, a communicator of ranks 0, 1
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 two-comms
 * exit: 35
 * says: rank 0: MPI_Barrier for rank 1 to come, a communicator of ranks 0, 1
 * says: rank 1: MPI_Barrier for rank 0 to come, a communicator of ranks 0, 1
 * says: at deadlock-others.c:
 *
 * run: 2 inter-recv
 * exit: 35
 * says: rank 0: MPI_Recv for a message from rank 1, tag 2, a communicator of ranks 0, 1
 * says: rank 1: MPI_Recv for a message from rank 0, tag 2, a communicator of ranks 1, 0
 * says: at deadlock-others.c:
 *
 * run: 2 inter-barrier
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Barrier for rank 0 to come, a communicator of ranks 1, 0
 * says: at deadlock-others.c:
 *
 * run: 2 inter-root
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Bcast for rank 0 to come, a communicator of ranks 1, 0
 * says: at deadlock-others.c:
 *
 * run: 2 inter-merge
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Intercomm_merge for rank 0 to come, a communicator of ranks 1, 0
 * says: at deadlock-others.c:
 *
 * run: 2 session
 * exit: 35
 * says: rank 0: MPI_Recv for a message from rank 1, tag 6, a communicator of ranks 0, 1
 * says: rank 1: MPI_Recv for a message from rank 0, tag 6, a communicator of ranks 0, 1
 * says: at deadlock-others.c:
 *
 * run: 2 session-missing
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Comm_create_from_group for a message from rank 0, tag 1631282635, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 spawned
 * exit: 35
 * says: rank 0: MPI_Recv for a message from rank 2, tag 9, a communicator of ranks 0, 1, 2
 * says: rank 1: MPI_Recv for a message from rank 2, tag 9, a communicator of ranks 0, 1, 2
 * says: rank 2: MPI_Recv for a message from rank 0, tag 9, MPI_COMM_PARENT
 * says: at deadlock-others.c:
 *
 * run: 2 win-free
 * exit: 35
 * says: rank 0: MPI_Win_free for rank 1 to come
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 win-wait
 * exit: 35
 * says: rank 0: MPI_Win_wait for rank 1 to end an access epoch (MPI_Win_complete)
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 win-start
 * exit: 35
 * says: for rank 1 to begin an exposure epoch (MPI_Win_post)
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: at deadlock-others.c:
 *
 * run: 2 win-fences
 * exit: 35
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Win_fence for rank 0 to come
 * says: at deadlock-others.c:
 *
 * run: 2 win-locks
 * exit: 35
 * says: rank 0: MPI_Win_lock for the lock of rank 1 at a window, which rank 1 has
 * says: rank 1: MPI_Win_lock for the lock of rank 0 at a window, which rank 0 has
 * says: remedy: let rank 1 give the lock back
 * says: at deadlock-others.c:
 *
 * run: 2 win-lock-barrier
 * exit: 35
 * says: ranks 0 and 1 wait for each other
 * says: MPI_Win_lock for the lock of rank 0 at a window, which rank
 * says: MPI_Barrier for rank
 * says: at deadlock-others.c:
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, other, in[1 << 16], out[1 << 16];
static const char *wanted;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

/* Messages. */
static void messages(MPI_Comm all) {
    MPI_Request request, two[2];
    MPI_Message message;
    MPI_Status status;
    int which, count;
    if (is("one-too-many")) { if (rank == 0) for (int i = 0; i < 3; i++) MPI_Send(out, 1, MPI_INT, 1, 5, all); else for (int i = 0; i < 4; i++) MPI_Recv(in, 1, MPI_INT, 0, 5, all, &status); }
    if (is("wrong-source")) { if (rank == 0) MPI_Send(out, 1, MPI_INT, 1, 5, all); if (rank == 1) MPI_Recv(in, 1, MPI_INT, 1, 5, all, &status); }
    if (is("no-stop")) { if (rank == 0) { MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, 1, all, &status); MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, 1, all, &status); } else { MPI_Send(out, 1, MPI_INT, 0, 1, all); MPI_Recv(in, 1, MPI_INT, 0, MPI_ANY_TAG, all, &status); } }
    if (is("waitsome")) { MPI_Irecv(in, 1, MPI_INT, other, 1, all, &two[0]); MPI_Irecv(in + 1, 1, MPI_INT, other, 2, all, &two[1]); MPI_Waitsome(2, two, &count, (int[2]){0}, MPI_STATUSES_IGNORE); }
    if (is("isend-large")) { MPI_Isend(out, 1 << 16, MPI_INT, other, 4, all, &request); MPI_Wait(&request, &status); MPI_Recv(in, 1 << 16, MPI_INT, other, 4, all, &status); }
    if (is("issend")) { MPI_Issend(out, 1, MPI_INT, other, 4, all, &request); MPI_Wait(&request, &status); MPI_Recv(in, 1, MPI_INT, other, 4, all, &status); }
    if (is("exchange-replace")) MPI_Sendrecv_replace(in, 1, MPI_INT, other, rank, other, rank, all, &status);
    if (is("exchange-begun")) { MPI_Isendrecv(out, 1, MPI_INT, other, 1, in, 1, MPI_INT, other, 2, all, &request); MPI_Wait(&request, &status); }
    if (is("mrecv-next")) { if (rank == 0) MPI_Send(out, 1, MPI_INT, 1, 5, all); else { MPI_Mprobe(0, 5, all, &message, &status); MPI_Mrecv(in, 1, MPI_INT, &message, &status); MPI_Mprobe(0, 5, all, &message, &status); } }
    if (is("ssend-finalised")) { if (rank == 0) MPI_Ssend(out, 1, MPI_INT, 1, 5, all); }
    if (is("chain")) { MPI_Recv(in, 1, MPI_INT, rank == 0 ? size - 1 : rank - 1, 7, all, &status); MPI_Send(out, 1, MPI_INT, (rank + 1) % size, 7, all); }
    if (is("odd-even")) { if (rank < 2) { MPI_Ssend(out, 1, MPI_INT, other, 3, all); MPI_Recv(in, 1, MPI_INT, other, 3, all, &status); } else MPI_Recv(in, 1, MPI_INT, 0, 9, all, &status); }
    if (is("tags-crossed")) { if (rank == 0) { MPI_Ssend(out, 1, MPI_INT, 1, 1, all); MPI_Ssend(out, 1, MPI_INT, 1, 2, all); } else { MPI_Recv(in, 1, MPI_INT, 0, 2, all, &status); MPI_Recv(in, 1, MPI_INT, 0, 1, all, &status); } }
    if (is("waitany-none")) { if (rank == 0) { MPI_Irecv(in, 1, MPI_INT, 1, 1, all, &two[0]); two[1] = MPI_REQUEST_NULL; MPI_Waitany(2, two, &which, &status); } }
    if (is("started")) { MPI_Recv_init(in, 1, MPI_INT, other, 1, all, &two[0]); MPI_Send_init(out, 1, MPI_INT, other, 2, all, &two[1]); MPI_Startall(2, two); MPI_Waitall(2, two, MPI_STATUSES_IGNORE); }
    if (is("partition")) {
        if (rank == 0) { MPI_Psend_init(out, 4, 8, MPI_INT, 1, 5, all, MPI_INFO_NULL, &request); MPI_Start(&request); for (int i = 0; i < 3; i++) MPI_Pready(i, request); MPI_Wait(&request, &status); }
        else { MPI_Precv_init(in, 4, 8, MPI_INT, 0, 5, all, MPI_INFO_NULL, &request); MPI_Start(&request); MPI_Wait(&request, &status); }
    }
}

/* Collective calls that a rank leaves out. */
static void missing(MPI_Comm all) {
    MPI_Comm made;
    MPI_Win win;
    MPI_File file;
    MPI_Request request;
    int *memory, periods[1] = {1}, first = rank == 0;
    if (is("dup") && first) MPI_Comm_dup(all, &made);
    if (is("dup-on-board")) { for (int i = 0; i < 9; i++) MPI_Barrier(all); if (first) MPI_Comm_dup(all, &made); }
    if (is("dup-of-four") && rank != 3) MPI_Comm_dup(all, &made);
    if (is("dup-before-recv")) { if (first) MPI_Comm_dup(all, &made); else MPI_Recv(in, 1, MPI_INT, 0, 3, all, MPI_STATUS_IGNORE); }
    if (is("dup-second") && !first) MPI_Comm_dup(all, &made);
    if (is("split") && first) MPI_Comm_split(all, 0, 0, &made);
    if (is("create") && first) { MPI_Group group; MPI_Comm_group(all, &group); MPI_Comm_create(all, group, &made); }
    if (is("cart") && first) MPI_Cart_create(all, 1, &size, periods, 0, &made);
    if (is("window") && first) MPI_Win_allocate(8, 1, MPI_INFO_NULL, all, &memory, &win);
    if (is("open") && first) MPI_File_open(all, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (is("gatherv") && first) MPI_Gatherv(out, 1, MPI_INT, in, (int[4]){1, 1, 1, 1}, (int[4]){0, 1, 2, 3}, MPI_INT, 0, all);
    if (is("scatter") && !first) MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, 0, all);
    if (is("alltoallw") && first) { MPI_Datatype types[4] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT}; MPI_Alltoallw(out, (int[4]){1, 1, 1, 1}, (int[4]){0, 4, 8, 12}, types, in, (int[4]){1, 1, 1, 1}, (int[4]){0, 4, 8, 12}, types, all); }
    if (is("scan") && rank == 1) MPI_Scan(out, in, 1, MPI_INT, MPI_SUM, all);
    if (is("begun") && first) { MPI_Iallreduce(out, in, 1, MPI_INT, MPI_SUM, all, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("blocking-begun")) { if (first) MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, all); else { MPI_Iallreduce(out, in, 1, MPI_INT, MPI_SUM, all, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); } }
    if (is("persistent")) { MPI_Barrier_init(all, MPI_INFO_NULL, &request); if (first) MPI_Start(&request), MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("agree")) { if (first) MPIX_Comm_agree(all, out); else MPI_Recv(in, 1, MPI_INT, 0, 5, all, MPI_STATUS_IGNORE); }
    if (is("agree-begun") && first) { MPIX_Comm_iagree(all, out, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("shrink")) { if (first) MPI_Recv(in, 1, MPI_INT, 1, 5, all, MPI_STATUS_IGNORE); else MPIX_Comm_shrink(all, &made); }
    if (is("abort-loop")) for (int i = 0; i < (first ? 5 : 4); i++) MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, all);
    if (is("in-branch")) { if (first) MPI_Barrier(all); else MPI_Recv(in, 1, MPI_INT, 0, 3, all, MPI_STATUS_IGNORE); }
    if (is("free") || is("disconnect") || is("neighbours") || is("two-comms")) {
        MPI_Comm second;
        MPI_Cart_create(all, 1, &size, periods, 0, &made);
        MPI_Comm_dup(all, &second);
        if (is("disconnect") && first) MPI_Comm_disconnect(&made);
        if (is("neighbours") && first) MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, made);
        if (is("two-comms")) { MPI_Barrier(first ? made : second); MPI_Barrier(first ? second : made); }
        if (is("free") && first) MPI_Barrier(made);
    }
}

/* Two groups, sessions, windows, processes that were started later. */
static void others(MPI_Comm all, char **argv) {
    MPI_Comm half, between, child;
    MPI_Session session;
    MPI_Group group, one;
    MPI_Win win;
    int *memory, errors[1];
    if (is("inter-recv") || is("inter-barrier") || is("inter-root") || is("inter-merge")) {
        MPI_Comm_split(all, rank % 2, 0, &half);
        MPI_Intercomm_create(half, 0, all, 1 - rank % 2, 3, &between);
        if (is("inter-recv")) MPI_Recv(in, 1, MPI_INT, 0, 2, between, MPI_STATUS_IGNORE);
        if (is("inter-barrier") && rank > 0) MPI_Barrier(between);
        if (is("inter-root") && rank % 2) MPI_Bcast(in, 1, MPI_INT, 0, between);
        if (is("inter-merge") && rank % 2) MPI_Intercomm_merge(between, 0, &child);
    }
    if (is("session")) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "here", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &child);
        MPI_Recv(in, 1, MPI_INT, other, 6, child, MPI_STATUS_IGNORE);
    }
    if (is("session-missing") && rank == 1) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "here", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &child);
    }
    if (is("spawned")) {
        MPI_Comm parent;
        MPI_Comm_get_parent(&parent);
        if (parent == MPI_COMM_NULL) MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, errors);
        else child = parent;
        MPI_Recv(in, 1, MPI_INT, 0, 9, child, MPI_STATUS_IGNORE);
    }
    if (strncmp(wanted, "win", 3) || is("window")) return;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, all, &memory, &win);
    MPI_Comm_group(all, &group);
    MPI_Group_incl(group, 1, &other, &one);
    if (is("win-free") && rank == 0) MPI_Win_free(&win);
    if (is("win-wait") && rank == 0) { MPI_Win_post(one, 0, win); MPI_Win_wait(win); }
    if (is("win-start") && rank == 0) { MPI_Win_start(one, 0, win); MPI_Put(out, 1, MPI_INT, other, 0, 1, MPI_INT, win); MPI_Win_complete(win); }
    if (is("win-fences")) for (int i = 0; i < 2 + rank; i++) MPI_Win_fence(0, win);
    if (is("win-locks")) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win); MPI_Barrier(all); MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win); }
    if (is("win-lock-barrier")) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win); MPI_Barrier(all); MPI_Win_unlock(0, win); }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    other = rank ^ 1;
    wanted = argv[1];
    messages(MPI_COMM_WORLD);
    missing(MPI_COMM_WORLD);
    others(MPI_COMM_WORLD, argv);
    MPI_Finalize();
    return 0;
}
