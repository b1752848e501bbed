/* Beginnings of processes that a program has started: with MPI_Init, with a session only, some each way, with both, with the
 * services of Weft only. Their parents wait in MPI_Comm_spawn until they have begun. */
#define _GNU_SOURCE
#include "check.h"
#include <limits.h>
#include <unistd.h>
#include <weft.h>

enum { CHILDREN = 2 };

/* The child: sends its rank to all parents, receives theirs. */
static void answer(void) {
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    CHECK(parent != MPI_COMM_NULL);
    int rank, remote, sum = 0;
    MPI_Comm_rank(parent, &rank);
    MPI_Comm_remote_size(parent, &remote);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, parent);
    CHECK(sum == remote * (remote - 1) / 2);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
}

static void in_a_session(int worlds_too) {
    MPI_Session session, second;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    /* Its own world, without MPI_COMM_WORLD. */
    MPI_Group group;
    MPI_Comm world;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "children", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world);
    MPI_Group_free(&group);
    int size;
    MPI_Comm_size(world, &size);
    CHECK(size == CHILDREN);
    MPI_Comm_free(&world);
    if (worlds_too) MPI_Init(NULL, NULL);
    /* The parents are met once. */
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &second);
    answer();
    if (worlds_too) MPI_Finalize();
    MPI_Session_finalize(&second);
    MPI_Session_finalize(&session);
}

static int child(const char *how, int number) {
    if (strcmp(how, "session") == 0) {
        in_a_session(0);
    } else if (strcmp(how, "both") == 0) {
        in_a_session(1);
    } else if (strcmp(how, "mixed") == 0 && number == 0) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        answer();
        /* MPI_Finalize of the other one waits for all of their world. */
        MPI_Init(NULL, NULL);
        MPI_Finalize();
        MPI_Session_finalize(&session);
    } else if (strcmp(how, "services") == 0) {
        CHECK(weft_init() == 0);
        CHECK(weft_finalize() == 0);
    } else {
        MPI_Init(NULL, NULL);
        answer();
        MPI_Finalize();
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) return child(argv[1], atoi(argv[2]));
    check_init(&argc, &argv);
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length] = 0;
    const char *ways[] = {"world", "session", "mixed", "both", "services"};
    for (int way = 0; way < 5; way++) {
        char *first[] = {(char *)ways[way], "0", NULL}, *second[] = {(char *)ways[way], "1", NULL};
        char *commands[] = {self, self}, **words[] = {first, second};
        int counts[] = {1, 1};
        MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
        MPI_Comm children;
        MPI_Comm_spawn_multiple(CHILDREN, commands, words, counts, infos, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        int remote, sum = 0;
        MPI_Comm_remote_size(children, &remote);
        CHECK(remote == CHILDREN);
        if (strcmp(ways[way], "services") == 0) {
            /* They take no part in collectives over both groups. */
            MPI_Comm_free(&children);
            continue;
        }
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, children);
        CHECK(sum == 1);
        MPI_Comm_disconnect(&children);
    }
    check_done("spawn_beginnings");
    return 0;
}
