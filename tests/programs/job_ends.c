/* A job from the view of launchers: a ring and an exchange of 1 MiB, then an end of the requested kind:
 *   well     of all ranks
 *   code     the last rank has an exit code
 *   abort    it aborts, and the others wait for it
 *   nameless it aborts a communicator that has no name, and the others wait for it
 *   kill     it is killed, and the others wait for it
 *   unasked  it is killed, and the others do something else, outside of MPI, for two minutes; so that they do not notice by themselves
 *   at_once  the same, as soon as it has initialised MPI
 * A second argument is another rank than the last one. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

static void exchange(void) {
    int count = 1 << 18, peer = check_size - 1 - check_rank;
    int *mine = malloc(sizeof(int) * count), *theirs = malloc(sizeof(int) * count);
    for (int i = 0; i < count; i++) mine[i] = check_rank * 7 + i;
    MPI_Sendrecv(mine, count, MPI_INT, peer, 3, theirs, count, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++) CHECK(theirs[i] == peer * 7 + i);
    free(mine);
    free(theirs);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    const char *end = argc > 1 ? argv[1] : "well";
    int token = 0, before = (check_rank + check_size - 1) % check_size, last = argc > 2 ? atoi(argv[2]) : check_size - 1;
    const int at_once = !strcmp(end, "at_once");
    if (at_once && check_rank == last) raise(SIGKILL);
    if (at_once) sleep(120);
    MPI_Sendrecv(&check_rank, 1, MPI_INT, (check_rank + 1) % check_size, 1, &token, 1, MPI_INT, before, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(token == before);
    exchange();
    const int unasked = !strcmp(end, "unasked");
    if (unasked) MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == last && (unasked || !strcmp(end, "kill"))) raise(SIGKILL);
    if (unasked) sleep(120);
    if (check_rank == last && !strcmp(end, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (check_rank == last && !strcmp(end, "nameless")) {
        MPI_Comm nameless;
        MPI_Comm_split(MPI_COMM_SELF, 0, 0, &nameless);
        MPI_Abort(nameless, 7);
    }
    /* The remaining ranks wait for a rank that does not come. */
    if (!strcmp(end, "kill") || !strcmp(end, "abort") || !strcmp(end, "nameless"))
        MPI_Recv(&token, 1, MPI_INT, last, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_done("job_ends");
    return check_rank == last && !strcmp(end, "code") ? 5 : 0;
}
