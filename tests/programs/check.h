/* Shared by the test programs: a check that names rank, file and line, and counts. */
#ifndef WEFT_CHECK_H
#define WEFT_CHECK_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_rank = 0, check_size = 1;

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "rank %d: %s:%d: does not hold: %s\n", check_rank, __FILE__,       \
                    __LINE__, #condition);                                                     \
            MPI_Abort(MPI_COMM_WORLD, 99);                                                     \
        }                                                                                      \
    } while (0)

static inline void check_init(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
}

/* All ranks came through: rank 0 says so. */
static inline void check_done(const char *what) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) printf("%s: ok with %d ranks\n", what, check_size);
    MPI_Finalize();
}

/* A byte that depends on who sent it and where it stands. */
static inline unsigned char pattern(int seed, size_t place) {
    return (unsigned char)(seed * 31 + place * 7 + (place >> 8));
}
static inline void fill(unsigned char *bytes, size_t length, int seed) {
    for (size_t i = 0; i < length; i++) bytes[i] = pattern(seed, i);
}
static inline int intact(const unsigned char *bytes, size_t length, int seed) {
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != pattern(seed, i)) return 0;
    return 1;
}
#endif
