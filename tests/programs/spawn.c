/* Processes that are started from within a program: by all ranks and by one, programs with arguments of their own,
 * programs that start others, what is wrong; one after the other without end. */
#define _GNU_SOURCE
#include "check.h"
#include <limits.h>
#include <unistd.h>

static char self[PATH_MAX];

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* The parents: the child world sends its description, over the intercommunicator and over both groups merged. */
static void talk(MPI_Comm children, int expected) {
    int size, remote, rank, high_rank;
    MPI_Comm_size(children, &size);
    MPI_Comm_rank(children, &rank);
    MPI_Comm_remote_size(children, &remote);
    CHECK(remote == expected);
    /* Of a megabyte as well: over the network between the two hosts. */
    size_t many = 1 << 20;
    unsigned char *bytes = malloc(many);
    if (rank == 0) {
        fill(bytes, many, 5);
        for (int i = 0; i < remote; i++) MPI_Send(bytes, (int)many, MPI_BYTE, i, 3, children);
    }
    free(bytes);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, children);
    CHECK(sum == remote * (remote - 1) / 2);
    MPI_Comm merged;
    MPI_Intercomm_merge(children, 0, &merged);
    MPI_Comm_rank(merged, &high_rank);
    CHECK(high_rank == rank);
    int *all = malloc(sizeof(int) * (size_t)(size + remote));
    MPI_Allgather(&high_rank, 1, MPI_INT, all, 1, MPI_INT, merged);
    for (int i = 0; i < size + remote; i++) CHECK(all[i] == i);
    free(all);
    MPI_Comm_free(&merged);
}

static int child(int argc, char **argv) {
    MPI_Comm parent, again;
    int *appnum, flag, rank, size, remote;
    MPI_Comm_get_parent(&parent);
    CHECK(parent != MPI_COMM_NULL);
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_get_name(parent, name, &length);
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    CHECK(flag && argc >= 3 && *appnum == atoi(argv[2]));
    MPI_Errhandler handler, of_parent;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    MPI_Comm_get_errhandler(parent, &of_parent);
    CHECK(handler == of_parent && handler == (strcmp(argv[1], "returning") ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN));
    if (argc > 3) {
        char here[PATH_MAX];
        CHECK(getcwd(here, sizeof here) && strcmp(here, argv[3]) == 0);
    }
    MPI_Comm_rank(parent, &rank);
    MPI_Comm_size(parent, &size);
    CHECK(rank == check_rank && size == check_size);
    MPI_Comm_remote_size(parent, &remote);
    size_t many = 1 << 20;
    unsigned char *bytes = malloc(many);
    MPI_Recv(bytes, (int)many, MPI_BYTE, 0, 3, parent, MPI_STATUS_IGNORE);
    CHECK(intact(bytes, many, 5));
    free(bytes);
    int sum = 0, high_rank;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, parent);
    CHECK(sum == remote * (remote - 1) / 2);
    MPI_Comm merged;
    MPI_Intercomm_merge(parent, 1, &merged);
    MPI_Comm_rank(merged, &high_rank);
    CHECK(high_rank == remote + rank);
    int *all = malloc(sizeof(int) * (size_t)(size + remote));
    MPI_Allgather(&high_rank, 1, MPI_INT, all, 1, MPI_INT, merged);
    free(all);
    MPI_Comm_free(&merged);
    if (strcmp(argv[1], "grandchild") == 0) {
        /* The children start others, each rank one, and then all together. */
        for (int round = 0; round < 2; round++) {
            char *words[] = {"child", "0", NULL};
            MPI_Comm children;
            MPI_Comm_spawn(self, words, 1 + round, MPI_INFO_NULL, 0, round ? MPI_COMM_WORLD : MPI_COMM_SELF, &children,
                           MPI_ERRCODES_IGNORE);
            talk(children, 1 + round);
            MPI_Comm_disconnect(&children);
        }
    }
    again = parent;
    MPI_Comm_disconnect(&parent);
    CHECK(parent == MPI_COMM_NULL && again != MPI_COMM_NULL);
    MPI_Comm_get_parent(&again);
    CHECK(again == MPI_COMM_NULL);
    MPI_Finalize();
    return 0;
}

static void one_program(void) {
    for (int count = 1; count <= 3; count++) {
        char *words[] = {"child", "0", NULL};
        int codes[3] = {7, 7, 7};
        MPI_Comm children;
        int root = check_size - 1;
        MPI_Comm_spawn(self, check_rank == root ? words : NULL, check_rank == root ? count : -1, MPI_INFO_NULL, root,
                       MPI_COMM_WORLD, &children, codes);
        for (int i = 0; i < 3; i++) CHECK(codes[i] == (i < count ? MPI_SUCCESS : 7));
        talk(children, count);
        MPI_Comm_disconnect(&children);
        CHECK(children == MPI_COMM_NULL);
    }
}

static void several_programs(void) {
    char folder[] = "/", *commands[] = {self, self}, *first[] = {"child", "0", NULL}, *second[] = {"child", "1", folder, NULL};
    char **words[] = {first, second};
    int counts[] = {1, 2}, codes[3] = {7, 7, 7};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Info_create(&infos[1]);
    MPI_Info_set(infos[1], "wdir", folder);
    MPI_Comm children;
    MPI_Comm_spawn_multiple(2, commands, words, counts, infos, 0, MPI_COMM_WORLD, &children, codes);
    for (int i = 0; i < 3; i++) CHECK(codes[i] == MPI_SUCCESS);
    talk(children, 3);
    MPI_Comm_disconnect(&children);
    MPI_Info_free(&infos[1]);
}

/* Found by the info key path, by its bare name; in another folder. */
static void found_by_path(void) {
    char folder[PATH_MAX], *words[] = {"child", "0", NULL};
    strcpy(folder, self);
    char *slash = strrchr(folder, '/');
    *slash = 0;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "path", folder);
    MPI_Comm children;
    MPI_Comm_spawn(slash + 1, words, 1, info, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    talk(children, 1);
    MPI_Comm_disconnect(&children);
    /* The info key soft: the largest number that is possible. */
    MPI_Info_set(info, "soft", "1:2");
    int codes[4];
    MPI_Comm_spawn(slash + 1, words, 4, info, 0, MPI_COMM_SELF, &children, codes);
    for (int i = 0; i < 4; i++) CHECK(class_of(codes[i]) == (i < 2 ? MPI_SUCCESS : MPI_ERR_SPAWN));
    talk(children, 2);
    MPI_Comm_disconnect(&children);
    MPI_Info_free(&info);
}

/* The info key mpi_initial_errhandler is for those that are started with it alone. */
static void handlers(void) {
    char *commands[] = {self, self}, *first[] = {"returning", "0", NULL}, *second[] = {"child", "1", NULL};
    char **words[] = {first, second};
    int counts[] = {1, 1};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Info_create(&infos[0]);
    MPI_Info_set(infos[0], "mpi_initial_errhandler", "mpi_errors_return");
    MPI_Comm children;
    MPI_Comm_spawn_multiple(2, commands, words, counts, infos, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    talk(children, 2);
    MPI_Comm_disconnect(&children);
    MPI_Info_set(infos[0], "mpi_initial_errhandler", "mpi_errors_forgotten");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Comm_spawn(self, first, 1, infos[0], 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Info_free(&infos[0]);
}

static void generations(void) {
    char *words[] = {"grandchild", "0", NULL};
    MPI_Comm children;
    MPI_Comm_spawn(self, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    talk(children, 2);
    MPI_Comm_disconnect(&children);
}

static void refused(void) {
    char *words[] = {"child", "0", NULL};
    MPI_Comm children;
    int codes[2] = {7, 7};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_spawn("./no-such-program", words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
    CHECK(class_of(codes[0]) == MPI_ERR_SPAWN && class_of(codes[1]) == MPI_ERR_SPAWN);
    code = MPI_Comm_spawn(self, words, 100000, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) != MPI_SUCCESS && children == MPI_COMM_NULL);
    code = MPI_Comm_spawn(self, words, 10000, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN);
    static const char *pairs[][2] = {{"wdir", "/no/such/folder"}, {"host", "no-such-host"}, {"arch", "vax"}, {"soft", "0"}};
    for (int i = 0; i < 4; i++) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, pairs[i][0], pairs[i][1]);
        code = MPI_Comm_spawn(self, words, 1, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
        MPI_Info_free(&info);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length] = 0;
    if (argc > 2) return child(argc, argv);
    if (argc > 1) {
        /* So many times, by rank 0 alone while the others wait, and by all. */
        int rounds = atoi(argv[1]);
        char *words[] = {"child", "0", NULL};
        for (int round = 0; round < rounds; round++) {
            MPI_Comm children;
            if (round % 2) {
                MPI_Comm_spawn(self, words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
            } else if (check_rank == 0) {
                MPI_Comm_spawn(self, words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
            } else {
                continue;
            }
            talk(children, 1);
            MPI_Comm_disconnect(&children);
        }
        check_done("spawn");
        return 0;
    }
    int *universe, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    CHECK(flag && *universe >= check_size);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    one_program();
    several_programs();
    found_by_path();
    handlers();
    generations();
    refused();
    check_done("spawn");
    return 0;
}
