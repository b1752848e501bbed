/* Point-to-point communication: modes, sizes, order, wildcards, probes, persistence, completion. */
#include "check.h"

static const int sizes[] = {0, 1, 8, 24, 25, 88, 89, 1024, 4096, 8192, 16384, 16385, 65536, 100000, 1048576, 5000000};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))
#define MOST 5000000

static unsigned char *out, *in;

static void modes(int peer, int mode) {
    for (int i = 0; i < SIZES; i++) {
        MPI_Status status;
        int length = sizes[i], count = -1;
        if (check_rank < peer) {
            fill(out, length, i + mode);
            switch (mode) {
            case 0: MPI_Send(out, length, MPI_BYTE, peer, i, MPI_COMM_WORLD); break;
            case 1: MPI_Ssend(out, length, MPI_BYTE, peer, i, MPI_COMM_WORLD); break;
            case 2: MPI_Bsend(out, length, MPI_BYTE, peer, i, MPI_COMM_WORLD); memset(out, 0, length); break;
            default: {
                MPI_Request request;
                (mode == 3 ? MPI_Isend : MPI_Issend)(out, length, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                CHECK(request == MPI_REQUEST_NULL);
            }
            }
        } else {
            memset(in, 0xee, MOST);
            MPI_Recv(in, MOST, MPI_BYTE, peer, i, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK(count == length && status.MPI_SOURCE == peer && status.MPI_TAG == i);
            CHECK(intact(in, length, i + mode));
            CHECK(length == MOST || in[length] == 0xee);
        }
    }
}

static void order(int peer) {
    enum { N = 2000 };
    static int values[N];
    static MPI_Request requests[N];
    if (check_rank < peer) {
        for (int i = 0; i < N; i++) {
            values[i] = i;
            MPI_Isend(&values[i], 1, MPI_INT, peer, i % 3, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
    } else {
        int last[3] = {-1, -1, -1}, value;
        MPI_Status status;
        for (int i = 0; i < N; i++) {
            int tag = i % 5 == 0 ? MPI_ANY_TAG : last[0] < N - 3 && i % 2 ? 0 : MPI_ANY_TAG;
            MPI_Recv(&value, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : peer, tag, MPI_COMM_WORLD, &status);
            CHECK(value % 3 == status.MPI_TAG && value > last[status.MPI_TAG]);
            last[status.MPI_TAG] = value;
        }
    }
}

static void posted_before(int peer) {
    enum { N = 300 };
    static unsigned char slots[N][200];
    static MPI_Request requests[N];
    if (check_rank > peer) {
        for (int i = 0; i < N; i++)
            MPI_Irecv(slots[i], 200, MPI_BYTE, peer, N - i, MPI_COMM_WORLD, &requests[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int done = 0; done < N;) {
            int count = 0, where[N];
            MPI_Status statuses[N];
            MPI_Waitsome(N, requests, &count, where, statuses);
            CHECK(count > 0);
            for (int k = 0; k < count; k++) {
                CHECK(statuses[k].MPI_TAG == N - where[k]);
                CHECK(intact(slots[where[k]], statuses[k].MPI_TAG % 200, statuses[k].MPI_TAG));
            }
            done += count;
        }
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int tag = 1; tag <= N; tag++) {
            fill(out, tag % 200, tag);
            MPI_Send(out, tag % 200, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
        }
    }
}

static void probes(int peer) {
    MPI_Status status;
    int count, flag;
    if (check_rank < peer) {
        fill(out, 50000, 3);
        /* Received in another order than sent: none of them may have to wait. */
        static const int lengths[4] = {500, 50000, 700, 70000};
        MPI_Request requests[4];
        for (int i = 0; i < 4; i++)
            MPI_Isend(out, lengths[i], MPI_BYTE, peer, 11 + i, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    } else {
        MPI_Message message;
        MPI_Request request;
        MPI_Probe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == 50000 && status.MPI_SOURCE == peer);
        do MPI_Iprobe(peer, 11, MPI_COMM_WORLD, &flag, &status);
        while (!flag);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == 500);
        MPI_Recv(in, 500, MPI_BYTE, peer, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(intact(in, 500, 3));
        MPI_Mprobe(peer, 14, MPI_COMM_WORLD, &message, &status);
        MPI_Recv(in, 50000, MPI_BYTE, peer, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(intact(in, 50000, 3));
        MPI_Imrecv(in, 70000, MPI_BYTE, &message, &request);
        CHECK(message == MPI_MESSAGE_NULL);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == 70000 && intact(in, 50000, 3));
        do MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
        while (!flag);
        CHECK(status.MPI_TAG == 13);
        MPI_Mrecv(in, 700, MPI_BYTE, &message, &status);
        CHECK(intact(in, 700, 3));
    }
}

static void persistent(int peer) {
    MPI_Request requests[2];
    int mine, theirs;
    MPI_Send_init(&mine, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&theirs, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 50; i++) {
        mine = check_rank * 1000 + i;
        theirs = -1;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(theirs == peer * 1000 + i && requests[0] != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(requests[0] == MPI_REQUEST_NULL);
}

static void exchange(int peer) {
    for (int i = 0; i < SIZES; i++) {
        fill(out, sizes[i], check_rank);
        MPI_Sendrecv(out, sizes[i], MPI_BYTE, peer, 1, in, sizes[i], MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(intact(in, sizes[i], peer));
        MPI_Sendrecv_replace(out, sizes[i], MPI_BYTE, peer, 2, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(intact(out, sizes[i], peer));
    }
    MPI_Status status;
    int count = -1;
    MPI_Sendrecv(out, 4, MPI_INT, MPI_PROC_NULL, 1, in, 4, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && count == 0);

    /* At the edge of a grid: what is left is a send here and a receive there. */
    for (int i = 0; i < SIZES; i++) {
        int is_first = check_rank < peer, size = sizes[i];
        int to = is_first ? peer : MPI_PROC_NULL, from = is_first ? MPI_PROC_NULL : peer;
        fill(out, size, check_rank);
        in[0] = 0;
        MPI_Sendrecv(out, size, MPI_BYTE, to, 3, in, size, MPI_BYTE, from, i % 2 ? MPI_ANY_TAG : 3, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (is_first)
            CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && count == 0);
        else
            CHECK(status.MPI_SOURCE == peer && status.MPI_TAG == 3 && count == size && intact(in, size, peer));
    }

    /* A side that is left out has to be right all the same. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int class = MPI_SUCCESS;
    int code = MPI_Sendrecv(out, -1, MPI_INT, MPI_PROC_NULL, 1, in, 4, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_COUNT);
    code = MPI_Sendrecv(out, 4, MPI_INT, MPI_PROC_NULL, -7, in, 4, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TAG);
    code = MPI_Sendrecv(out, 4, MPI_INT, MPI_PROC_NULL, 1, in, 4, MPI_INT, MPI_PROC_NULL, -7, MPI_COMM_WORLD, &status);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TAG);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void strided(int peer) {
    enum { ROWS = 700, COLUMNS = 9 };
    static int matrix[ROWS][COLUMNS];
    MPI_Datatype column;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) matrix[i][j] = check_rank * 100000 + i * COLUMNS + j;
    MPI_Sendrecv(&matrix[0][2], 1, column, peer, 3, &matrix[0][5], 1, column, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS; i++) {
        CHECK(matrix[i][5] == peer * 100000 + i * COLUMNS + 2);
        CHECK(matrix[i][4] == check_rank * 100000 + i * COLUMNS + 4);
    }
    MPI_Sendrecv(&matrix[0][1], 1, column, peer, 4, in, ROWS, MPI_INT, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS; i++) CHECK(((int *)in)[i] == peer * 100000 + i * COLUMNS + 1);
    MPI_Type_free(&column);
}

static void cancelled(void) {
    MPI_Request request;
    MPI_Status status;
    int value, flag = 0;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4711, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
}

static void to_itself(void) {
    MPI_Request request;
    MPI_Irecv(in, MOST, MPI_BYTE, check_rank, 8, MPI_COMM_WORLD, &request);
    fill(out, MOST, 8);
    MPI_Send(out, MOST, MPI_BYTE, check_rank, 8, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(intact(in, MOST, 8));
    MPI_Send(out, 1000, MPI_BYTE, 0, 9, MPI_COMM_SELF);
    MPI_Recv(in, 1000, MPI_BYTE, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(intact(in, 1000, 8));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    out = malloc(MOST);
    in = malloc(MOST);
    size_t room = MOST + 100000;
    for (int i = 0; i < SIZES; i++) room += sizes[i] + MPI_BSEND_OVERHEAD;
    void *buffer = malloc(room);
    MPI_Buffer_attach(buffer, (int)room);
    to_itself();
    cancelled();
    int peer = check_rank ^ 1;
    for (int step = 0; step < 10; step++) {
        if (peer < check_size && step < 5) modes(peer, step);
        if (step == 5) {
            if (peer < check_size) posted_before(peer);
            else MPI_Barrier(MPI_COMM_WORLD);
        }
        if (peer < check_size) {
            if (step == 6) order(peer);
            if (step == 7) probes(peer);
            if (step == 8) { persistent(peer); strided(peer); }
            if (step == 9) exchange(peer);
        }
    }
    void *detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
    CHECK(detached == buffer && size == (int)room);
    check_done("point-to-point");
    return 0;
}
