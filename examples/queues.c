/* Prints how long the queues of rank 0 are while the others send to it faster than it receives.
 *
 *   mpicc examples/queues.c -o queues && mpiexec -n 4 ./queues */
#include <mpi.h>
#include <stdio.h>

static const char *const names[] = {"unexpected_messages", "unexpected_bytes", "posted_receives", "requests_live"};
enum { VARIABLES = sizeof names / sizeof *names, MESSAGES = 200, LENGTH = 1000 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[VARIABLES];

/* All four say what is so now: levels need no start, and reading one disturbs nobody. */
static void open_queues(void) {
    int provided, index, count;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < VARIABLES; i++) {
        MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_LEVEL, &index);
        MPI_T_pvar_handle_alloc(session, index, NULL, &handles[i], &count);
    }
}

static void print_queues(const char *when) {
    printf("%-18s", when);
    for (int i = 0; i < VARIABLES; i++) {
        unsigned long long value;
        MPI_T_pvar_read(session, handles[i], &value);
        printf("  %s %llu", names[i], value);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    static char data[LENGTH];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "start with at least two ranks: mpiexec -n 2 %s\n", argv[0]);
        MPI_Finalize();
        return 2;
    }
    open_queues();
    if (rank > 0)
        for (int i = 0; i < MESSAGES; i++) MPI_Send(data, LENGTH, MPI_CHAR, 0, i, MPI_COMM_WORLD);
    else
        for (int i = MESSAGES - 1; i >= 0; i--) { /* in the wrong order: the others have to wait */
            for (int from = 1; from < size; from++)
                MPI_Recv(data, LENGTH, MPI_CHAR, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (i % 50 == 49) {
                char when[32];
                snprintf(when, sizeof when, "after tag %d:", i);
                print_queues(when);
            }
        }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) print_queues("at the end:");
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
