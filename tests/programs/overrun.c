/* Rank 0 sends more small messages to rank 1 than fit its memory. Rank 1 exchanges others with rank 2 meanwhile, then receives
 * them in order. It never has more than 64 MiB resident. */
#include "check.h"
#include <sys/resource.h>

enum { FLOOD = 1, EXCHANGE = 2, ROUNDS = 20000, MOST_KIB = 64 << 10 };

static void check_memory(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    if (usage.ru_maxrss > MOST_KIB)
        fprintf(stderr, "%ld KiB were resident\n", usage.ru_maxrss);
    CHECK(usage.ru_maxrss <= MOST_KIB);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    const long count = argc > 1 ? atol(argv[1]) : 1000000;
    CHECK(check_size == 3);
    if (check_rank == 0) {
        for (long i = 0; i < count; i++)
            CHECK(MPI_Send(&i, 1, MPI_LONG, 1, FLOOD, MPI_COMM_WORLD) == MPI_SUCCESS);
    } else if (check_rank == 1) {
        long value = -1;
        for (int i = 0; i < ROUNDS; i++) {
            const int from = i % 2 ? 2 : MPI_ANY_SOURCE;
            CHECK(MPI_Recv(&value, 1, MPI_LONG, from, EXCHANGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            CHECK(MPI_Send(&value, 1, MPI_LONG, 2, EXCHANGE, MPI_COMM_WORLD) == MPI_SUCCESS);
            CHECK(value == i);
        }
        check_memory();
        for (long i = 0; i < count; i++) {
            const int tag = i % 3 ? FLOOD : MPI_ANY_TAG;
            CHECK(MPI_Recv(&value, 1, MPI_LONG, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            CHECK(value == i);
        }
        check_memory();
    } else {
        for (long i = 0; i < ROUNDS; i++) {
            long value = i;
            CHECK(MPI_Send(&value, 1, MPI_LONG, 1, EXCHANGE, MPI_COMM_WORLD) == MPI_SUCCESS);
            CHECK(MPI_Recv(&value, 1, MPI_LONG, 1, EXCHANGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            CHECK(value == i);
        }
    }
    check_done("overrun");
    return 0;
}
