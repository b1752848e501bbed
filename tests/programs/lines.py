"""Mistakes of a program in Python that calls the library through ctypes: what is said of them names its lines."""

import ctypes
import os
import sys

mpi = ctypes.CDLL("libmpi_abi.so.1")
WORLD, BYTE = ctypes.c_void_p(0x101), ctypes.c_void_p(0x247)
rank = int(os.environ["PMI_RANK"])
buffer = ctypes.create_string_buffer(8)


def exchange(peer):
    mpi.MPI_Recv(buffer, 8, BYTE, peer, 0, WORLD, None)


def send(peer):
    mpi.MPI_Send(buffer, 8, BYTE, peer, 0, WORLD)


mpi.MPI_Init(None, None)
if sys.argv[1] == "stuck":
    exchange(1 - rank)
elif rank == 1:
    send(99)
mpi.MPI_Finalize()
