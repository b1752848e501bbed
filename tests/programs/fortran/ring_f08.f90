program h
  use mpi_f08
  implicit none
  integer :: r, n, i, s, idx
  integer :: a(10), b(10)
  type(MPI_Request) :: q(2)
  type(MPI_Status) :: st
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  logical :: f
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, r)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  a = r + 1; b = 0
  call MPI_Irecv(b, 10, MPI_INTEGER, mod(r+n-1,n), 5, MPI_COMM_WORLD, q(1))
  call MPI_Isend(a, 10_MPI_COUNT_KIND, MPI_INTEGER, mod(r+1,n), 5, MPI_COMM_WORLD, q(2))
  do i = 1, 2
    call MPI_Waitany(2, q, idx, st)
    if (idx < 1 .or. idx > 2) stop 3
  end do
  if (any(b /= mod(r+n-1,n) + 1)) stop 4
  call MPI_Allreduce(MPI_IN_PLACE, a, 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (a(1) /= n*(n+1)/2) stop 5
  call MPI_Get_processor_name(name, s)
  call MPI_Initialized(f)
  call MPI_Barrier(MPI_COMM_WORLD)
  if (r == 0) print *, 'f08 ok', n, f, q(1) == MPI_REQUEST_NULL, len_trim(name) == s
  call MPI_Finalize()
end program
