! Memory that MPI gives: its address is an integer to module mpi, or of type(c_ptr).
program addresses
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: e, r, n, window, unit, i
  integer, pointer :: cells(:)
  type(c_ptr) :: place
  integer(kind=MPI_ADDRESS_KIND) :: number, bytes
  call MPI_Init(e)
  call MPI_Comm_rank(MPI_COMM_WORLD, r, e)
  call MPI_Comm_size(MPI_COMM_WORLD, n, e)
  bytes = 40
  call MPI_Alloc_mem(bytes, MPI_INFO_NULL, place, e)
  call c_f_pointer(place, cells, [10])
  cells = r
  call MPI_Get_address(cells, number, e)
  if (transfer(place, number) /= number) stop 11
  call MPI_Free_mem(cells, e)
  call PMPI_Alloc_mem(bytes, MPI_INFO_NULL, number, e)
  place = transfer(number, place)
  call c_f_pointer(place, cells, [10])
  cells = 3
  call MPI_Free_mem(cells, e)

  call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, place, window, e)
  call c_f_pointer(place, cells, [10])
  cells = 0
  call MPI_Win_fence(0, window, e)
  number = 2
  call MPI_Put(r, 1, MPI_INTEGER, mod(r + 1, n), number, 1, MPI_INTEGER, window, e)
  call MPI_Win_fence(0, window, e)
  if (cells(3) /= mod(r + n - 1, n) .or. cells(2) /= 0) stop 12
  call MPI_Win_free(window, e)

  call MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, place, window, e)
  call c_f_pointer(place, cells, [10])
  call MPI_Win_lock_all(0, window, e)
  cells = 10 * r
  call MPI_Win_sync(window, e)
  call MPI_Barrier(MPI_COMM_WORLD, e)
  call MPI_Win_sync(window, e)
  do i = 0, n - 1
    call MPI_Win_shared_query(window, i, bytes, unit, place, e)
    call c_f_pointer(place, cells, [10])
    if (bytes /= 40 .or. unit /= 4 .or. any(cells /= 10 * i)) stop 13
    call PMPI_Win_shared_query(window, i, bytes, unit, number, e)
    if (transfer(place, number) /= number) stop 14
  end do
  call MPI_Win_unlock_all(window, e)
  call MPI_Win_free(window, e)
  call MPI_Finalize(e)
  if (r == 0) print *, "addresses ok"
end program
