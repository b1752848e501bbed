/* Extensions of this library to the standard, for programs that test for them in the way of Open MPI: mpi.h declares
 * their functions and error classes. */
#ifndef MPI_EXT_H
#define MPI_EXT_H

#include <mpi.h>

/* Fault tolerance (User Level Failure Mitigation). */
#define OMPI_HAVE_MPI_EXT_FTMPI 1
#define OMPI_HAVE_MPIX_COMM_GET_FAILED 1
#define OMPI_HAVE_MPIX_COMM_ACK_FAILED 1
#define OMPI_HAVE_MPIX_COMM_ISHRINK 1

#define MPI_ERR_PROC_FAILED MPIX_ERR_PROC_FAILED
#define MPI_ERR_PROC_FAILED_PENDING MPIX_ERR_PROC_FAILED_PENDING
#define MPI_ERR_REVOKED MPIX_ERR_REVOKED

#endif
