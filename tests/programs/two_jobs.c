/* One of two jobs that are connected by the name of a port, which goes by a file.
   serve FILE ROUNDS | ask FILE ROUNDS: both use what they have in common in all ways, then disconnect.
   late FILE ROUNDS: as ask, and does nothing for six seconds after it has connected.
   stuck FILE: accepts, disconnects, and then waits for each other in its own job.
   free FILE: accepts.   freed FILE: connects. Both free the communicator while messages are under way on it.
   mourn FILE: accepts, and waits for one that is killed.   stay FILE: connects, says so, and waits.
   leave FILE: connects, sends, and ends without disconnecting.   reap FILE: accepts, receives, and waits for one that ends.
   doors: where a port listens, as info keys say; to be run where nobody else listens.
   wrong NAME: connects to a port that is none of its own, and says why that fails. */
#define _GNU_SOURCE
#include "two_jobs.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Each rank of one side with each of the other one, short and long; from MPI_ANY_SOURCE, too. */
static void messages(MPI_Comm between, int side) {
    int remote, rank;
    MPI_Comm_remote_size(between, &remote);
    MPI_Comm_rank(between, &rank);
    for (int other = 0; other < remote; other++) {
        int out = 100 * rank + other, into = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, other, 3, &into, 1, MPI_INT, other, 3, between, MPI_STATUS_IGNORE);
        CHECK(into == 100 * other + rank);
        size_t many = 300000 + 1000 * (size_t)(rank + other);
        unsigned char *bytes = malloc(many), *theirs = malloc(many);
        fill(bytes, many, side);
        MPI_Sendrecv(bytes, (int)many, MPI_BYTE, other, 4, theirs, (int)many, MPI_BYTE, other, 4, between, MPI_STATUS_IGNORE);
        CHECK(intact(theirs, many, 1 - side));
        free(bytes), free(theirs);
    }
    MPI_Datatype gaps;
    MPI_Type_vector(5000, 1, 3, MPI_DOUBLE, &gaps);
    MPI_Type_commit(&gaps);
    double *spread = calloc(15000, sizeof *spread);
    if (side == 0) {
        for (int i = 0; i < 5000; i++) spread[3 * i] = i + 0.5;
        for (int other = 0; other < remote; other++) MPI_Ssend(spread, 1, gaps, other, 5, between);
    } else {
        for (int k = 0; k < remote; k++) {
            MPI_Status status;
            memset(spread, 0, 15000 * sizeof *spread);
            MPI_Recv(spread, 1, gaps, MPI_ANY_SOURCE, 5, between, &status);
            for (int i = 0; i < 5000; i++) CHECK(spread[3 * i] == i + 0.5);
        }
    }
    free(spread);
    MPI_Type_free(&gaps);
}

static void collectives(MPI_Comm between) {
    int size, remote, rank, sum = 0;
    MPI_Comm_size(between, &size);
    MPI_Comm_remote_size(between, &remote);
    MPI_Comm_rank(between, &rank);
    int one = rank + 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between);
    CHECK(sum == remote * (remote + 1) / 2);
    int *all = malloc(sizeof *all * remote);
    MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, between);
    for (int i = 0; i < remote; i++) CHECK(all[i] == i + 1);
    free(all);
    MPI_Barrier(between);
}

/* Communicators of both sides, made of each other. */
static void together(MPI_Comm between, int side) {
    int size, remote, rank, both, sum = 0;
    MPI_Comm_size(between, &size);
    MPI_Comm_remote_size(between, &remote);
    MPI_Comm one, copy, half, later, pair;
    MPI_Intercomm_merge(between, side, &one);
    MPI_Comm_size(one, &both);
    MPI_Comm_rank(one, &rank);
    CHECK(both == size + remote && rank == check_rank + (side ? remote : 0));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, one);
    CHECK(sum == both * (both - 1) / 2);
    MPI_Comm_dup(one, &copy);
    MPI_Request request;
    MPI_Comm_idup(copy, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_split(later, rank % 2, -rank, &half);
    int in_half, first = rank;
    MPI_Comm_size(half, &in_half);
    CHECK(in_half == (both + 1 - rank % 2) / 2);
    MPI_Bcast(&first, 1, MPI_INT, 0, half);
    CHECK(first % 2 == rank % 2 && first >= both - 2);
    int *blocks = malloc(sizeof *blocks * both), *got = malloc(sizeof *got * both);
    for (int i = 0; i < both; i++) blocks[i] = 1000 * rank + i;
    MPI_Alltoall(blocks, 1, MPI_INT, got, 1, MPI_INT, copy);
    for (int i = 0; i < both; i++) CHECK(got[i] == 1000 * i + rank);
    free(blocks), free(got);
    /* Each side's own world, with the other one's: the leaders are in the common communicator. */
    MPI_Intercomm_create(MPI_COMM_WORLD, 0, one, side ? 0 : size, 9, &pair);
    messages(pair, side);
    collectives(pair);
    MPI_Group ours, world;
    MPI_Comm_group(pair, &ours);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int same;
    MPI_Group_compare(ours, world, &same);
    CHECK(same == MPI_IDENT);
    MPI_Group_free(&ours), MPI_Group_free(&world);
    MPI_Comm_free(&half), MPI_Comm_free(&later), MPI_Comm_free(&copy), MPI_Comm_free(&pair);
    MPI_Comm_disconnect(&one);
}

/* Operations under way on a communicator continue after it was freed. */
static void freed_early(MPI_Comm between) {
    static int out[400000], into[400000];
    int remote;
    MPI_Comm_remote_size(between, &remote);
    CHECK(remote == 1 && check_size == 1);
    for (int i = 0; i < 400000; i++) out[i] = i;
    MPI_Request both[2];
    MPI_Irecv(into, 400000, MPI_INT, 0, 6, between, &both[0]);
    MPI_Isend(out, 400000, MPI_INT, 0, 6, between, &both[1]);
    MPI_Comm_free(&between);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 400000; i++) CHECK(into[i] == i);
}

static void connect_and_use(int side, int rounds, int idle) {
    for (int round = 0; round < rounds; round++) {
        MPI_Comm between;
        int root = side == 0 ? check_size - 1 : 0;
        if (side == 0)
            MPI_Comm_accept(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &between);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &between);
        sleep((unsigned)idle);
        messages(between, side);
        collectives(between);
        together(between, side);
        MPI_Comm_disconnect(&between);
        CHECK(between == MPI_COMM_NULL);
    }
}

/* Two processes with a socket in common. */
static void join(const char *file, int serves) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", file);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (serves) {
        CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0);
        fd = accept(fd, NULL, NULL);
    } else {
        while (connect(fd, (struct sockaddr *)&address, sizeof address)) usleep(2000);
    }
    MPI_Comm between;
    MPI_Comm_join(fd, &between);
    CHECK(between != MPI_COMM_NULL);
    int out = serves, into = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, 0, 0, &into, 1, MPI_INT, 0, 0, between, MPI_STATUS_IGNORE);
    CHECK(into == !serves);
    MPI_Comm_disconnect(&between);
}

/* Sockets of this network namespace that listen. */
static int listening(void) {
    int found = 0;
    const char *files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (int i = 0; i < 2; i++) {
        FILE *in = fopen(files[i], "r");
        char line[512], state[8];
        if (!in) continue;
        while (fgets(line, sizeof line, in))
            if (sscanf(line, "%*s %*s %*s %7s", state) == 1 && !strcmp(state, "0A")) found++;
        fclose(in);
    }
    return found;
}

static int open_with(const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    int code = MPI_Open_port(info, port);
    MPI_Info_free(&info);
    return code;
}

/* A network port is open as long as a port is, and only then; info keys say where. */
static void doors(void) {
    CHECK(listening() == 0);
    CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
    CHECK(strchr(port, '/') && strlen(port) < 256 && listening() == 1);
    MPI_Close_port(port);
    while (listening()) usleep(2000);
    CHECK(open_with("ip_address", "127.0.0.1") == MPI_SUCCESS);
    CHECK(!strchr(port, '/') && listening() == 0);
    MPI_Close_port(port);
    CHECK(open_with("ip_port", "45454") == MPI_SUCCESS);
    CHECK(strstr(port, "/45454,") && listening() == 1);
    MPI_Close_port(port);
    while (listening()) usleep(2000);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(open_with("ip_address", "nowhere")) == MPI_ERR_INFO_VALUE);
    CHECK(class_of(open_with("ip_port", "65536")) == MPI_ERR_INFO_VALUE);
    /* An address for documentation, of no host. */
    CHECK(class_of(open_with("ip_address", "192.0.2.1")) == MPI_ERR_OTHER);
    CHECK(listening() == 0);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "doors")) {
        doors();
        check_done("doors");
        return 0;
    }
    CHECK(argc > 2);
    const char *what = argv[1], *file = argv[2];
    int accepts = !strcmp(what, "serve") || !strcmp(what, "stuck") || !strcmp(what, "free") || !strcmp(what, "mourn") || !strcmp(what, "reap");
    int root = accepts ? check_size - 1 : 0;
    if (accepts && check_rank == root) {
        MPI_Open_port(MPI_INFO_NULL, port);
        tell(file);
    } else if (check_rank == root && strcmp(what, "wrong") && strncmp(what, "join", 4)) {
        learn(file);
    }
    MPI_Comm between = MPI_COMM_NULL;
    if (!strcmp(what, "serve") || !strcmp(what, "ask") || !strcmp(what, "late")) {
        connect_and_use(!accepts, atoi(argv[3]), strcmp(what, "late") ? 0 : 6);
    } else if (!strcmp(what, "stuck")) {
        connect_and_use(0, 1, 0);
        int value;
        MPI_Recv(&value, 1, MPI_INT, !check_rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strncmp(what, "free", 4)) {
        if (accepts)
            MPI_Comm_accept(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &between);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &between);
        freed_early(between);
    } else if (!strncmp(what, "join", 4)) {
        join(file, !strcmp(what, "join-serve"));
    } else if (!strcmp(what, "wrong")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int code = MPI_Comm_connect(file, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between), length;
        char text[MPI_MAX_ERROR_STRING];
        MPI_Error_string(code, text, &length);
        CHECK(class_of(code) == MPI_ERR_PORT);
        if (check_rank == 0) puts(text);
    } else if (accepts) {
        MPI_Comm_accept(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &between);
        MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
        int value = -1, code;
        if (!strcmp(what, "reap")) {
            MPI_Recv(&value, 1, MPI_INT, 0, 1, between, MPI_STATUS_IGNORE);
            CHECK(value == check_rank + 7);
        }
        /* Half of them wait for one rank, half for MPI_ANY_SOURCE. */
        code = MPI_Recv(&value, 1, MPI_INT, check_rank % 2 ? MPI_ANY_SOURCE : 0, 2, between, MPI_STATUS_IGNORE);
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        CHECK(code != MPI_SUCCESS);
        if (check_rank == 0) puts(text);
        MPI_Comm_free(&between);
    } else {
        MPI_Comm_connect(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &between);
        if (!strcmp(what, "leave")) {
            int remote;
            MPI_Comm_remote_size(between, &remote);
            for (int other = 0; other < remote && check_rank == 0; other++) {
                int value = other + 7;
                MPI_Send(&value, 1, MPI_INT, other, 1, between);
            }
        } else {
            if (check_rank == 0) {
                puts("connected");
                fflush(stdout);
            }
            int value;
            MPI_Recv(&value, 1, MPI_INT, 0, 2, between, MPI_STATUS_IGNORE);
        }
    }
    if (accepts && check_rank == root) MPI_Close_port(port);
    check_done(what);
    return 0;
}
