/* Heat in a plate, which a grid of ranks shares: each exchanges the edges of its part with its neighbours.
 *
 *     mpicc examples/heat.c -o heat && mpiexec -n 4 ./heat
 */
#include <mpi.h>
#include <stdio.h>

enum { N = 32, STEPS = 200 };
static double now[N + 2][N + 2], next[N + 2][N + 2];

int main(int argc, char **argv) {
    int size, rank, lengths[2] = {0, 0}, periodic[2] = {1, 1}, up, down, left, right;
    MPI_Comm grid;
    MPI_Datatype column;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, lengths);
    MPI_Cart_create(MPI_COMM_WORLD, 2, lengths, periodic, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    /* A row lies in one piece, a column has gaps. */
    MPI_Type_vector(N, 1, N + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);

    if (rank == 0) now[N / 2][N / 2] = 1000;
    for (int step = 0; step < STEPS; step++) {
        MPI_Request edges[8];
        MPI_Irecv(&now[0][1], N, MPI_DOUBLE, up, 0, grid, &edges[0]);
        MPI_Irecv(&now[N + 1][1], N, MPI_DOUBLE, down, 1, grid, &edges[1]);
        MPI_Irecv(&now[1][0], 1, column, left, 2, grid, &edges[2]);
        MPI_Irecv(&now[1][N + 1], 1, column, right, 3, grid, &edges[3]);
        MPI_Isend(&now[N][1], N, MPI_DOUBLE, down, 0, grid, &edges[4]);
        MPI_Isend(&now[1][1], N, MPI_DOUBLE, up, 1, grid, &edges[5]);
        MPI_Isend(&now[1][N], 1, column, right, 2, grid, &edges[6]);
        MPI_Isend(&now[1][1], 1, column, left, 3, grid, &edges[7]);
        MPI_Waitall(8, edges, MPI_STATUSES_IGNORE);
        for (int i = 1; i <= N; i++)
            for (int k = 1; k <= N; k++)
                next[i][k] = now[i][k] + (now[i - 1][k] + now[i + 1][k] + now[i][k - 1] + now[i][k + 1] - 4 * now[i][k]) / 8;
        for (int i = 1; i <= N; i++)
            for (int k = 1; k <= N; k++) now[i][k] = next[i][k];
    }

    double heat = 0, all, hottest = 0;
    for (int i = 1; i <= N; i++)
        for (int k = 1; k <= N; k++) {
            heat += now[i][k];
            if (now[i][k] > hottest) hottest = now[i][k];
        }
    MPI_Reduce(&heat, &all, 1, MPI_DOUBLE, MPI_SUM, 0, grid);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &hottest, &hottest, 1, MPI_DOUBLE, MPI_MAX, 0, grid);
    if (rank == 0) printf("%.3f in all, the hottest place has %.3f\n", all, hottest);
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
