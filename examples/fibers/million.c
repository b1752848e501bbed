/* So many fibers of rank 0, each blocked in MPI_Recv with a tag of its own; then rank 1 sends to all of them,
 * in an order that has nothing to do with theirs. Prints what they hold in memory.
 *
 *     mpicc million.c -o million && mpiexec -n 2 ./million 1048576 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static int fibers, blocked;
static unsigned char *seen;

static void *receive(void *argument) {
    int me = (int)(long)argument;
    int64_t message[2];
    blocked++; /* one worker: no other fiber runs here before the receive blocks */
    MPI_Recv(message, 2, MPI_INT64_T, 1, me, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (message[0] != me || message[1] != (int64_t)me * 2654435761 || seen[me]++) {
        fprintf(stderr, "fiber %d: not its message, or twice\n", me);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return NULL;
}

static long kilobytes(const char *what) {
    char line[256];
    long value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, what, strlen(what)) == 0) value = atol(line + strlen(what) + 1);
    }
    if (file) fclose(file);
    return value;
}

/* All fibers are started and joined by one, which lets them run until all are blocked. */
static void *all(void *argument) {
    (void)argument;
    weft_fiber *names = malloc(fibers * sizeof *names);
    double begin = MPI_Wtime();
    long before = kilobytes("VmRSS");
    for (long i = 0; i < fibers; i++) {
        if (weft_fiber_spawn(&names[i], NULL, receive, (void *)i) != 0) {
            fprintf(stderr, "%s\n", weft_error());
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    while (blocked < fibers) weft_fiber_yield();
    double waiting = MPI_Wtime();
    long after = kilobytes("VmRSS");
    printf("%d fibers are blocked in MPI_Recv: %.2f GiB resident, %.0f bytes each; %.2f s to start\n",
           fibers, after / 1048576.0, (after - before) * 1024.0 / fibers, waiting - begin);
    MPI_Barrier(MPI_COMM_WORLD); /* now rank 1 sends */
    waiting = MPI_Wtime();
    for (int i = 0; i < fibers; i++) weft_fiber_join(names[i], NULL);
    for (int i = 0; i < fibers; i++) {
        if (seen[i] != 1) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("all have received theirs: %.0f ns each; %.2f GiB at most\n",
           (MPI_Wtime() - waiting) * 1e9 / fibers, kilobytes("VmHWM") / 1048576.0);
    free(names);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        if (rank == 0) fprintf(stderr, "start with two ranks: mpiexec -n 2 %s\n", argv[0]);
        MPI_Finalize();
        return 2;
    }
    fibers = argc > 1 ? atoi(argv[1]) : 1 << 20;
    if (rank == 0) {
        seen = calloc(fibers, 1);
        weft_fiber first;
        weft_fiber_set_workers(1);
        weft_fiber_spawn(&first, NULL, all, NULL);
        weft_fiber_join(first, NULL);
        free(seen);
    } else if (rank == 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        uint32_t step = 2654435761u % (uint32_t)fibers;
        while (step % 2 == 0 || step % 3 == 0 || step % 5 == 0) step++;
        /* Coprime to a power of two, so each tag comes once. Other numbers of fibers go in order. */
        if ((fibers & (fibers - 1)) != 0) step = 1;
        for (int64_t i = 0; i < fibers; i++) {
            int64_t to = i * step % fibers, message[2] = {to, to * 2654435761};
            MPI_Send(message, 2, MPI_INT64_T, 0, (int)to, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
