/* What Weft offers to C programs beside MPI. The symbols stand in libmpi_abi.so.1, next to those of mpi.h:
 * a program may use either or both. */
#ifndef WEFT_H
#define WEFT_H

/* ---- Fibers -------------------------------------------------------------------------------------- */
#include "weft_fiber.h"

#endif
