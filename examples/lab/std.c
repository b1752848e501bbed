/* Standard send, as in the report "MPI: point-to-point communication" (experiment send-standard).
 * The master sends SAMPLES messages of every size from 0 to 2 KiB to the slave, which only receives,
 * and writes the delay of an empty message and the bandwidth of each size to std.dat.
 *
 *     mpicc -O2 -Wall std.c -o std && mpiexec -n 2 ./std
 */
#include <mpi.h>
#include <stdio.h>

#define MSG_MAX_LEN 2 * 1024
#define SAMPLES 20000
#define MSG_ID 0
#define MASTER 0
#define SLAVE 1

int main(int argc, char **argv)
{
    char buffer[MSG_MAX_LEN] = {0};
    int rank, numprocs, current_size, counter;
    double t1, t2;
    FILE *pFile;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &numprocs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    if (numprocs != 2) {
        fprintf(stderr, "World size must be 2 for %s\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1; /* some implementations return from MPI_Abort before they end the job */
    }

    if (rank == MASTER) {
        pFile = fopen("std.dat", "w");
        if (pFile == NULL) {
            perror("std.dat");
            MPI_Abort(MPI_COMM_WORLD, 1);
            return 1;
        }

        /* delay */
        t1 = MPI_Wtime();
        for (counter = 0; counter < SAMPLES; counter++) {
            MPI_Send(buffer, 0, MPI_CHAR, SLAVE, MSG_ID, MPI_COMM_WORLD);
        }
        t2 = MPI_Wtime();
        fprintf(pFile, "Delay - %f[ms]\n\n", (t2 - t1) * 1000 / SAMPLES);

        /* bandwidth: 8 * size * samples / 2^20 / seconds, where 2^20 / 8 = 131072 */
        fprintf(pFile, "Message[B]\tBandwidth[Mbps]\n0\t0\n");
        for (current_size = 1; current_size <= MSG_MAX_LEN; current_size++) {
            t1 = MPI_Wtime();
            for (counter = 0; counter < SAMPLES; counter++) {
                MPI_Send(buffer, current_size, MPI_CHAR, SLAVE, MSG_ID, MPI_COMM_WORLD);
            }
            t2 = MPI_Wtime();
            fprintf(pFile, "%d\t%.2f\n", current_size, current_size * SAMPLES / ((t2 - t1) * 131072));
        }
        fclose(pFile);
    } else {
        for (counter = 0; counter < SAMPLES; counter++) {
            MPI_Recv(buffer, 0, MPI_CHAR, MASTER, MSG_ID, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (current_size = 1; current_size <= MSG_MAX_LEN; current_size++) {
            for (counter = 0; counter < SAMPLES; counter++) {
                MPI_Recv(buffer, current_size, MPI_CHAR, MASTER, MSG_ID, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            }
        }
    }

    MPI_Finalize();
    return 0;
}
