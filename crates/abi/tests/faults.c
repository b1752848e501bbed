/* One wrong call, chosen by number, in a job of one. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int which = argc > 1 ? atoi(argv[1]) : 0, values[4] = {0}, rank, flag;
    MPI_Request request, copy;
    MPI_Datatype type;
    MPI_Comm comm;
    MPI_Win window;
    if (which == 1) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Init(&argc, &argv);
    switch (which) {
    case 2: MPI_Send(values, 1, MPI_INT, 17, 0, MPI_COMM_WORLD); break;
    case 3: MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD); break;
    case 4: MPI_Send(values, -1, MPI_INT, 0, 0, MPI_COMM_WORLD); break;
    case 5: MPI_Send(values, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD); break;
    case 6: MPI_Send(values, 1, MPI_INT, 0, -5, MPI_COMM_WORLD); break;
    case 7: MPI_Send(values, 1, MPI_INT, 0, 0, MPI_COMM_NULL); break;
    case 8:
        MPI_Type_contiguous(2, MPI_INT, &type);
        MPI_Send(values, 1, type, 0, 0, MPI_COMM_WORLD);
        break;
    case 9:
        MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        copy = request;
        MPI_Send(values + 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&copy, MPI_STATUS_IGNORE);
        break;
    case 10: MPI_Bcast(values, 1, MPI_INT, 9, MPI_COMM_WORLD); break;
    case 11: MPI_Allreduce(values, values + 1, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD); break;
    case 12: MPI_Comm_rank(MPI_COMM_WORLD, NULL); break;
    case 13: MPI_Win_create(values, 16, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &window); break;
    case 14:
        MPI_Isend(values, 4, MPI_INT, 0, 3, MPI_COMM_SELF, &request);
        MPI_Recv(values, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        break;
    case 15:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        copy = MPI_REQUEST_NULL;
        { MPI_Comm again = comm; MPI_Comm_free(&comm); MPI_Comm_size(again, &rank); }
        break;
    case 16: MPI_Comm_rank((MPI_Comm)(void *)values, &rank); break;
    case 17: MPI_Finalize(); MPI_Comm_rank(MPI_COMM_WORLD, &rank); break;
    case 18: MPI_Recv_init(values, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request); MPI_Start(&request); MPI_Start(&request); break;
    default: break;
    }
    MPI_Finalized(&flag);
    if (!flag) MPI_Finalize();
    puts("came through");
    return 0;
}
