/* Ranks write one table together, each its columns, and read it back by rows.
 *
 *     mpicc examples/files.c -o files && mpiexec -n 4 ./files /tmp/table
 */
#include <mpi.h>
#include <stdio.h>

#define ROWS 8
#define MINE 2

int main(int argc, char **argv) {
    int rank, size, columns[ROWS][MINE], row[64 * MINE];
    MPI_File file;
    MPI_Datatype pair, part;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || size > 64) {
        if (rank == 0) fprintf(stderr, "give the name of a file, and at most 64 ranks\n");
        MPI_Finalize();
        return 2;
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < MINE; k++) columns[i][k] = 100 * i + rank * MINE + k;

    /* Each row has MINE numbers of each rank. */
    MPI_Type_contiguous(MINE, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, (MPI_Aint)(size * MINE * sizeof(int)), &part);
    MPI_Type_commit(&part);

    /* Errors of files are returned; here they end the program. */
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, (MPI_Offset)(rank * MINE * sizeof(int)), MPI_INT, part, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, columns, ROWS * MINE, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);

    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, (MPI_Offset)rank * size * MINE, row, size * MINE, MPI_INT, MPI_STATUS_IGNORE);
    printf("row %d: %d to %d\n", rank, row[0], row[size * MINE - 1]);
    MPI_File_close(&file);
    MPI_Type_free(&pair);
    MPI_Type_free(&part);
    MPI_Finalize();
    return 0;
}
