/* A queue of work without a server: whoever is free draws the next number from a counter in the memory of rank 0, and adds what
 * it found to a table there. Nobody receives anything, and rank 0 works like all others.
 *
 *     mpicc examples/work_queue.c -o work_queue && mpiexec -n 4 ./work_queue 2000
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { NEXT, PRIMES, TWINS, DONE, WORDS }; /* the words of the window */
enum { BLOCK = 500 };                      /* numbers in a piece of work */

static int is_prime(long number)
{
    if (number < 2)
        return 0;
    for (long divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    long long *words, pieces = argc > 1 ? atoll(argv[1]) : 200, mine = 0;
    MPI_Win window;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_allocate(rank == 0 ? WORDS * sizeof *words : 0, sizeof *words, MPI_INFO_NULL, MPI_COMM_WORLD, &words,
                     &window);
    for (int word = 0; rank == 0 && word < WORDS; word++)
        words[word] = 0;
    MPI_Barrier(MPI_COMM_WORLD); /* nobody draws before the counter is there */

    MPI_Win_lock_all(0, window);
    for (;;) {
        const long long one = 1;
        long long piece, found[3] = {0, 0, 1};
        MPI_Fetch_and_op(&one, &piece, MPI_LONG_LONG, 0, NEXT, MPI_SUM, window);
        MPI_Win_flush(0, window); /* now it is known which piece is ours */
        if (piece >= pieces)
            break;
        for (long number = piece * BLOCK; number < (piece + 1) * BLOCK; number++)
            if (is_prime(number)) {
                found[0]++;
                found[1] += is_prime(number + 2);
            }
        /* Each word at once; which rank adds first does not matter. */
        MPI_Accumulate(found, 3, MPI_LONG_LONG, 0, PRIMES, 3, MPI_LONG_LONG, MPI_SUM, window);
        mine++;
    }
    MPI_Win_unlock_all(window); /* what was added is there */
    MPI_Barrier(MPI_COMM_WORLD);

    printf("rank %d of %d did %lld pieces\n", rank, ranks, mine);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        printf("%lld pieces: %lld primes below %lld, %lld of them with a twin\n", words[DONE], words[PRIMES],
               pieces * BLOCK, words[TWINS]);
        int sound = words[DONE] == pieces && words[NEXT] == pieces + ranks;
        MPI_Win_unlock(0, window);
        if (!sound)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
