/* A manager that starts its workers: each gets a number, all send the square back.
 *
 *   mpicc examples/spawn.c -o spawn && mpiexec -n 1 ./spawn 4
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void work(MPI_Comm manager) {
    int number;
    MPI_Scatter(NULL, 0, MPI_INT, &number, 1, MPI_INT, 0, manager);
    number *= number;
    MPI_Gather(&number, 1, MPI_INT, NULL, 0, MPI_INT, 0, manager);
    MPI_Comm_disconnect(&manager);
}

static void manage(char *program, int workers) {
    MPI_Comm group;
    MPI_Comm_spawn(program, MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, MPI_COMM_SELF, &group, MPI_ERRCODES_IGNORE);
    int *numbers = malloc(sizeof(int) * (size_t)workers);
    for (int i = 0; i < workers; i++) numbers[i] = i + 1;
    MPI_Scatter(numbers, 1, MPI_INT, NULL, 0, MPI_INT, MPI_ROOT, group);
    MPI_Gather(NULL, 0, MPI_INT, numbers, 1, MPI_INT, MPI_ROOT, group);
    for (int i = 0; i < workers; i++) printf("worker %d says %d\n", i, numbers[i]);
    free(numbers);
    MPI_Comm_disconnect(&group);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL)
        manage(argv[0], argc > 1 ? atoi(argv[1]) : 3);
    else
        work(parent);
    MPI_Finalize();
    return 0;
}
