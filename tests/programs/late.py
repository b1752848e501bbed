"""Rank 1 is late for a collective, and then with a message, for a profile that names it."""

from mpi4py import MPI
import time
comm = MPI.COMM_WORLD
if comm.rank == 1:
    time.sleep(0.05)
print(comm.allreduce(comm.rank))
if comm.rank == 1:
    time.sleep(0.05)
    comm.send("x" * 100, dest=0)
elif comm.rank == 0:
    comm.recv(source=MPI.ANY_SOURCE)
