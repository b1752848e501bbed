/* Two jobs: one opens a port, and accepts only when it is told to. The other one calls there with two ranks, of which one dies meanwhile:
 * the root hears of that, and its call is withdrawn. It calls again without the dead rank, and this call is accepted.
 * Arguments: "opens" or "calls", and the name of a file. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

static char name[4096];
static const char *file(const char *first, const char *end) {
    snprintf(name, sizeof name, "%s%s", first, end);
    return name;
}

static FILE *wait_for(const char *which) {
    FILE *found;
    while (!(found = fopen(which, "r"))) usleep(1000);
    return found;
}

int main(int argc, char **argv) {
    char port[MPI_MAX_PORT_NAME];
    int value = 0, code, class;
    MPI_Comm left, other;
    FILE *text;
    check_init(&argc, &argv);
    if (strcmp(argv[1], "opens") == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        text = fopen(file(argv[2], ".new"), "w");
        CHECK(text && fputs(port, text) >= 0 && fclose(text) == 0);
        CHECK(rename(file(argv[2], ".new"), argv[2]) == 0);
        fclose(wait_for(file(argv[2], ".given-up")));
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        MPI_Recv(&value, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
        CHECK(value == 42);
        MPI_Comm_disconnect(&other);
        MPI_Close_port(port);
        printf("accepted\n");
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    text = wait_for(argv[2]);
    CHECK(fgets(port, sizeof port, text) && fclose(text) == 0);
    if (check_rank == 1) {
        usleep(300000);
        raise(SIGKILL);
    }
    code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    MPI_Error_class(code, &class);
    CHECK(class == MPIX_ERR_PROC_FAILED);
    CHECK((text = fopen(file(argv[2], ".given-up"), "w")) && fclose(text) == 0);
    CHECK(MPIX_Comm_shrink(MPI_COMM_WORLD, &left) == MPI_SUCCESS);
    CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, left, &other) == MPI_SUCCESS);
    value = 42;
    MPI_Send(&value, 1, MPI_INT, 0, 0, other);
    MPI_Comm_disconnect(&other);
    printf("connected\n");
    MPI_Finalize();
    return 0;
}
