program h
  use mpi
  implicit none
  integer :: r, n, i, s, idx, i_e
  integer :: a(10), b(10)
  integer :: q(2)
  integer :: st(MPI_STATUS_SIZE)
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  logical :: f
  call MPI_Init(i_e)
  call MPI_Comm_rank(MPI_COMM_WORLD, r, i_e)
  call MPI_Comm_size(MPI_COMM_WORLD, n, i_e)
  a = r + 1; b = 0
  call MPI_Irecv(b, 10, MPI_INTEGER, mod(r+n-1,n), 5, MPI_COMM_WORLD, q(1), i_e)
  call MPI_Isend(a, 10, MPI_INTEGER, mod(r+1,n), 5, MPI_COMM_WORLD, q(2), i_e)
  do i = 1, 2
    call MPI_Waitany(2, q, idx, st, i_e)
    if (idx < 1 .or. idx > 2) stop 3
  end do
  if (any(b /= mod(r+n-1,n) + 1)) stop 4
  call MPI_Allreduce(MPI_IN_PLACE, a, 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, i_e)
  if (a(1) /= n*(n+1)/2) stop 5
  call MPI_Get_processor_name(name, s, i_e)
  call MPI_Initialized(f, i_e)
  call MPI_Barrier(MPI_COMM_WORLD, i_e)
  if (r == 0) print *, 'mpi ok', n, f, q(1) == MPI_REQUEST_NULL, len_trim(name) == s
  call MPI_Finalize(i_e)
end program
