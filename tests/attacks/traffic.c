/* Pairs of ranks exchange data of many sizes and check every byte. A rank whose partner is lost gets an
 * error; every other pair comes to its end. */
#include "../programs/check.h"

#define MOST 200000
static unsigned char out[MOST], in[MOST];
static const int sizes[] = {0, 8, 24, 100, 4000, 70000, MOST};

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, done = 0;
    check_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* Errors in MPI_Finalize belong to no communicator. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int peer = check_rank ^ 1; done < rounds; done++) {
        int length = sizes[(done * 5 + check_rank / 2) % 7], tag = done % 8, count;
        MPI_Status status;
        fill(out, length, check_rank + done);
        int code = MPI_Sendrecv(out, length, MPI_BYTE, peer, tag, in, MOST, MPI_BYTE, peer, tag,
                                MPI_COMM_WORLD, &status);
        if (code != MPI_SUCCESS) {
            char text[MPI_MAX_ERROR_STRING];
            int ignored;
            MPI_Error_string(code, text, &ignored);
            fprintf(stderr, "rank %d, round %d: %s\n", check_rank, done, text);
            break;
        }
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == length && intact(in, length, peer + done));
    }
    printf("rank %d: %s\n", check_rank, done == rounds ? "done" : "lost its partner");
    fflush(stdout);
    if (MPI_Finalize() != MPI_SUCCESS) fprintf(stderr, "rank %d: MPI_Finalize without all others\n", check_rank);
    return 0;
}
