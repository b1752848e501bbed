program wrong_rank
  use mpi_f08
  implicit none
  integer :: x
  call MPI_Init()
  x = 1
  call MPI_Send(x, 1, MPI_INTEGER, 77, 0, MPI_COMM_WORLD)
  call MPI_Finalize()
end program
