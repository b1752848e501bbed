/* Prints the MPI library that it runs on, and adds up the ranks. */
#include "check.h"

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, sum = 0, abi_major = -1, abi_minor = -1;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
#ifndef OPEN_MPI
    MPI_Abi_get_version(&abi_major, &abi_minor);
#endif
    MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == check_size * (check_size - 1) / 2);
    if (check_rank == 0) printf("on: %s, ABI %d.%d\n", version, abi_major, abi_minor);
    check_done("identity");
    return 0;
}
