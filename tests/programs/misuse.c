/* Things that a program must not do, so that a sanitizer finds something in the library: one thread writes
 * into a buffer while another sends it, and then it is sent once more after it was freed. */
#include "check.h"
#include <pthread.h>

static int *data;

static void *write_on(void *argument) {
    for (int i = 0; i < 1000; i++) data[i % 16] = i;
    return argument;
}

int main(int argc, char **argv) {
    int provided, into[16];
    pthread_t writer;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    data = calloc(16, sizeof *data);
    pthread_create(&writer, NULL, write_on, NULL);
    MPI_Sendrecv(data, 16, MPI_INT, 0, 0, into, 16, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    pthread_join(writer, NULL);
    MPI_Request request;
    MPI_Send_init(data, 16, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    free(data);
    MPI_Start(&request);
    MPI_Recv(into, 16, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
