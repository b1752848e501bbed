/* All others send to rank 0, which does not receive: it sleeps first, then looks for what nobody sends, and
 * then takes the messages, the last tag first. Nothing is lost, doubled or changed, and the messages of one
 * tag keep their order. */
#include "../programs/check.h"
#include <unistd.h>

#define TAGS 4
#define WINDOW 64
#define MOST 40000
static int length_of(int number) { return number % 50 == 49 ? MOST : number % 7 == 0 ? 2000 : number % 60; }

static void send_all(int messages) {
    static unsigned char data[WINDOW][MOST];
    MPI_Request requests[WINDOW];
    for (int i = 0; i < WINDOW; i++) requests[i] = MPI_REQUEST_NULL;
    for (int number = 0; number < messages; number++) {
        int at = number;
        if (number >= WINDOW) MPI_Waitany(WINDOW, requests, &at, MPI_STATUS_IGNORE);
        fill(data[at], length_of(number), check_rank + number);
        MPI_Isend(data[at], length_of(number), MPI_BYTE, 0, number % TAGS, MPI_COMM_WORLD, &requests[at]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

static void receive_all(int messages) {
    static unsigned char data[MOST];
    int next[check_size];
    for (int tag = TAGS - 1; tag >= 0; tag--) {
        for (int from = 1; from < check_size; from++) next[from] = tag;
        for (int left = (check_size - 1) * (messages / TAGS); left > 0; left--) {
            MPI_Status status;
            int count;
            MPI_Recv(data, MOST, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            int number = next[status.MPI_SOURCE];
            CHECK(count == length_of(number) && intact(data, count, status.MPI_SOURCE + number));
            next[status.MPI_SOURCE] += TAGS;
        }
        for (int from = 1; from < check_size; from++) CHECK(next[from] == messages + tag);
    }
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int messages = argc > 1 ? atoi(argv[1]) / TAGS * TAGS : 2000, found;
    if (check_rank > 0) {
        send_all(messages);
    } else {
        usleep(100000);
        for (int i = 0; i < 2000; i++) {
            MPI_Iprobe(MPI_ANY_SOURCE, TAGS, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
            CHECK(!found);
        }
        receive_all(messages);
    }
    check_done("flood");
    return 0;
}
