/* Groups that share no communicator meet: by ports, by names of services, by a socket. */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Both groups tell each other how many they are; then the first of each a longer message. */
static void greet(MPI_Comm between, int own, int other) {
    int size, remote, sum = 0;
    MPI_Comm_size(between, &size);
    MPI_Comm_remote_size(between, &remote);
    CHECK(size == own && remote == other);
    int one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between);
    CHECK(sum == other);
    int rank;
    MPI_Comm_rank(between, &rank);
    if (rank == 0) {
        size_t many = 300000;
        unsigned char *out = malloc(many), *into = malloc(many);
        fill(out, many, own);
        MPI_Sendrecv(out, (int)many, MPI_BYTE, 0, 1, into, (int)many, MPI_BYTE, 0, 1, between, MPI_STATUS_IGNORE);
        CHECK(intact(into, many, other));
        free(out), free(into);
    }
}

/* The even and the odd ranks; either side accepts. */
static void halves(int odd_accepts) {
    MPI_Comm half, between;
    int odd = check_rank % 2, size, rank, others;
    MPI_Comm_split(MPI_COMM_WORLD, odd, 0, &half);
    MPI_Comm_size(half, &size);
    MPI_Comm_rank(half, &rank);
    others = check_size - size;
    char port[MPI_MAX_PORT_NAME] = "";
    int root = size - 1;
    if (odd == odd_accepts) {
        if (rank == root) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Publish_name("halves", MPI_INFO_NULL, port);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_accept(port, MPI_INFO_NULL, root, half, &between);
        greet(between, size, others);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == root) {
            MPI_Unpublish_name("halves", MPI_INFO_NULL, port);
            MPI_Close_port(port);
        }
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == root) MPI_Lookup_name("halves", MPI_INFO_NULL, port);
        MPI_Comm_connect(port, MPI_INFO_NULL, root, half, &between);
        greet(between, size, others);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_disconnect(&between);
    MPI_Comm_free(&half);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One server, all others connect one by one, many times. */
static void server(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    if (check_rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    int rounds = 20;
    MPI_Comm client;
    if (check_rank == 0) {
        int seen = 0;
        for (int round = 0; round < rounds * (check_size - 1); round++) {
            int who;
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &client);
            MPI_Recv(&who, 1, MPI_INT, 0, 0, client, MPI_STATUS_IGNORE);
            seen += who;
            MPI_Comm_disconnect(&client);
        }
        CHECK(seen == rounds * check_size * (check_size - 1) / 2);
        MPI_Close_port(port);
    } else {
        for (int round = 0; round < rounds; round++) {
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &client);
            MPI_Send(&check_rank, 1, MPI_INT, 0, 0, client);
            MPI_Comm_disconnect(&client);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Two groups that were started apart meet, without those who started them. */
static void strangers(const char *self) {
    char *accepts[] = {"accepts", "x", NULL}, *connects[] = {"connects", "x", NULL};
    MPI_Comm one, two;
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm_spawn(self, accepts, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &one, MPI_ERRCODES_IGNORE);
    MPI_Comm_spawn(self, connects, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &two, MPI_ERRCODES_IGNORE);
    if (check_rank == 0) {
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, one, MPI_STATUS_IGNORE);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 0, two);
    }
    MPI_Comm_disconnect(&two);
    MPI_Comm_disconnect(&one);
}

static int stranger(const char *what) {
    MPI_Comm parent, between;
    MPI_Comm_get_parent(&parent);
    CHECK(parent != MPI_COMM_NULL);
    char port[MPI_MAX_PORT_NAME] = "";
    if (strcmp(what, "accepts") == 0) {
        if (check_rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Send(port, sizeof port, MPI_CHAR, 0, 0, parent);
        }
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
    } else {
        if (check_rank == 0) MPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, parent, MPI_STATUS_IGNORE);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
    }
    MPI_Comm_disconnect(&parent);
    greet(between, check_size, 5 - check_size);
    MPI_Comm_disconnect(&between);
    MPI_Finalize();
    return 0;
}

static void names(void) {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char service[64], port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME];
    snprintf(service, sizeof service, "service of rank %d", check_rank);
    CHECK(class_of(MPI_Lookup_name(service, MPI_INFO_NULL, found)) == MPI_ERR_NAME);
    CHECK(class_of(MPI_Unpublish_name(service, MPI_INFO_NULL, "x")) == MPI_ERR_SERVICE);
    MPI_Open_port(MPI_INFO_NULL, port);
    CHECK(MPI_Publish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS);
    CHECK(class_of(MPI_Publish_name(service, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    CHECK(MPI_Lookup_name(service, MPI_INFO_NULL, found) == MPI_SUCCESS && strcmp(port, found) == 0);
    CHECK(class_of(MPI_Unpublish_name(service, MPI_INFO_NULL, "another port")) == MPI_ERR_SERVICE);
    CHECK(MPI_Unpublish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS);
    CHECK(class_of(MPI_Lookup_name(service, MPI_INFO_NULL, found)) == MPI_ERR_NAME);
    CHECK(MPI_Close_port(port) == MPI_SUCCESS);
    CHECK(class_of(MPI_Close_port(port)) == MPI_ERR_PORT);
    MPI_Comm none;
    CHECK(class_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &none)) == MPI_ERR_PORT);
    CHECK(none == MPI_COMM_NULL);
    CHECK(class_of(MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &none)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_accept("weft:00:0:1", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &none)) == MPI_ERR_PORT);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A process that has connected to a port gets an error when the port is closed. */
static void closed_before_accepted(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    if (check_rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Comm none;
    if (check_rank == 1) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        CHECK(class_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &none)) == MPI_ERR_PORT);
    } else if (check_rank == 0) {
        usleep(200000);
        MPI_Close_port(port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* An address of this host, which others can reach if it has one. */
static struct sockaddr_in own_address(void) {
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct ifaddrs *all, *one;
    CHECK(getifaddrs(&all) == 0);
    for (one = all; one; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && !(one->ifa_flags & IFF_LOOPBACK) && one->ifa_flags & IFF_UP)
            found.sin_addr = ((struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr;
    freeifaddrs(all);
    found.sin_port = 0;
    return found;
}

/* The first and the last rank, which may be on different hosts. */
static void join(void) {
    int fd = -1, last = check_size - 1;
    struct sockaddr_in address;
    if (check_rank == 0) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        address = own_address();
        socklen_t length = sizeof address;
        CHECK(bind(listener, (void *)&address, length) == 0 && listen(listener, 1) == 0);
        getsockname(listener, (void *)&address, &length);
        MPI_Send(&address, sizeof address, MPI_BYTE, last, 0, MPI_COMM_WORLD);
        fd = accept(listener, NULL, NULL);
        close(listener);
    } else if (check_rank == last) {
        MPI_Recv(&address, sizeof address, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (void *)&address, sizeof address) == 0);
    }
    if (fd >= 0) {
        MPI_Comm other;
        MPI_Comm_join(fd, &other);
        CHECK(other != MPI_COMM_NULL);
        greet(other, 1, 1);
        MPI_Comm_disconnect(&other);
        /* The socket is as it was. */
        char letter = 'x';
        CHECK(write(fd, &letter, 1) == 1 && read(fd, &letter, 1) == 1 && letter == 'x');
        close(fd);
        int pipes[2];
        CHECK(pipe(pipes) == 0);
        CHECK(class_of(MPI_Comm_join(pipes[0], &other)) == MPI_ERR_OTHER);
        close(pipes[0]), close(pipes[1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length] = 0;
    if (argc > 2) return stranger(argv[1]);
    names();
    if (check_size > 1) {
        for (int round = 0; round < 3; round++) halves(round % 2);
        server();
        closed_before_accepted();
        if (argc < 2) join();
    }
    if (argc < 2) strangers(self);
    check_done("ports");
    return 0;
}
