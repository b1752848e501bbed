! Both ranks wait for each other.
program stuck
  use mpi_f08
  implicit none
  integer :: r, x
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, r)
  call MPI_Recv(x, 1, MPI_INTEGER, 1 - r, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Finalize()
end program
