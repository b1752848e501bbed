/* Processes on hosts that are named (info key host): as many arguments as there are hosts, and as many ranks, one on each
 * in this order. Hosts of these tests are network namespaces, by which a process shows where it is. */
#define _GNU_SOURCE
#include "check.h"
#include <limits.h>
#include <unistd.h>

enum { LINK = 64 };

static void where(char *link) {
    memset(link, 0, LINK);
    CHECK(readlink("/proc/self/ns/net", link, LINK - 1) > 0);
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Starts that many processes on these hosts, and receives where they are. */
static void start(const char *self, const char *hosts, int count, char (*links)[LINK]) {
    char *words[] = {"-", NULL};
    MPI_Info info;
    MPI_Info_create(&info);
    if (hosts) MPI_Info_set(info, "host", hosts);
    MPI_Comm children;
    MPI_Comm_spawn(self, words, count, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Info_free(&info);
    for (int i = 0; i < count; i++) {
        if (check_rank == 0) MPI_Recv(links[i], LINK, MPI_CHAR, i, 0, children, MPI_STATUS_IGNORE);
        /* Every rank communicates with every other one. */
        int number = -1;
        MPI_Sendrecv(&check_rank, 1, MPI_INT, i, 1, &number, 1, MPI_INT, i, 1, children, MPI_STATUS_IGNORE);
        CHECK(number == i);
    }
    MPI_Bcast(links, count * LINK, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Comm_disconnect(&children);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    char self[PATH_MAX], own[LINK];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length] = 0;
    where(own);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Send(own, LINK, MPI_CHAR, 0, 0, parent);
        int remote;
        MPI_Comm_remote_size(parent, &remote);
        for (int i = 0; i < remote; i++) {
            int number = -1;
            MPI_Sendrecv(&check_rank, 1, MPI_INT, i, 1, &number, 1, MPI_INT, i, 1, parent, MPI_STATUS_IGNORE);
            CHECK(number == i);
        }
        /* Among themselves as well. */
        int sum = 0;
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == check_size * (check_size - 1) / 2);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    CHECK(argc == check_size + 1);
    char (*hosts)[LINK] = malloc((size_t)check_size * LINK), found[8][LINK];
    MPI_Allgather(own, LINK, MPI_CHAR, hosts, LINK, MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; i < check_size; i++) {
        start(self, argv[i + 1], 3, found);
        for (int child = 0; child < 3; child++) CHECK(strcmp(found[child], hosts[i]) == 0);
    }
    /* On several hosts evenly; on all, if none is named. */
    char list[1024];
    snprintf(list, sizeof list, "%s, %s", argv[1], argv[check_size]);
    start(self, list, 4, found);
    for (int child = 0; child < 4; child++) CHECK(strcmp(found[child], hosts[child < 2 ? 0 : check_size - 1]) == 0);
    start(self, NULL, check_size, found);
    for (int i = 0; i < check_size; i++) CHECK(strcmp(found[i], hosts[i]) == 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "no-such-host");
    MPI_Comm children;
    int code = MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
    if (check_rank == 0) {
        char text[MPI_MAX_ERROR_STRING];
        MPI_Error_string(code, text, &(int){0});
        CHECK(strstr(text, "no-such-host") && strstr(text, argv[1]));
    }
    MPI_Info_free(&info);
    free(hosts);
    check_done("spawn_hosts");
    return 0;
}
