! Requirements of the standard for Fortran: each part stops with a number of its own.
module sums
contains
  subroutine larger(a, b, n, datatype)
    integer :: n, datatype
    integer :: a(n), b(n)
    b = max(a, b)
  end subroutine
end module

program breadth
  use mpi
  use sums
  implicit none
  integer :: r, n, e, i, x, y, class, length, comm, group, world, sub, info, kind_of, op, request, file, window
  integer :: st(MPI_STATUS_SIZE), many(MPI_STATUS_SIZE, 2), requests(2), cell(4)
  integer(kind=MPI_ADDRESS_KIND) :: lower, extent, bytes, place
  integer(kind=MPI_OFFSET_KIND) :: at
  logical :: flag, periods(1)
  character(len=40) :: text
  character(len=MPI_MAX_ERROR_STRING) :: said
  double precision :: since

  call MPI_Init(e)
  call PMPI_Comm_rank(MPI_COMM_WORLD, r, e)
  call MPI_Comm_size(MPI_COMM_WORLD, n, e)
  since = MPI_Wtime()

  ! Statuses, of one and of several; a probe.
  cell = r
  call MPI_Isend(cell, 4, MPI_INTEGER, mod(r + 1, n), 7, MPI_COMM_WORLD, requests(1), e)
  call MPI_Probe(mod(r + n - 1, n), MPI_ANY_TAG, MPI_COMM_WORLD, st, e)
  call MPI_Get_count(st, MPI_INTEGER, x, e)
  if (x /= 4 .or. st(MPI_TAG) /= 7 .or. st(MPI_SOURCE) /= mod(r + n - 1, n)) stop 11
  call MPI_Irecv(many(:, 1), 4, MPI_INTEGER, mod(r + n - 1, n), 7, MPI_COMM_WORLD, requests(2), e)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, e)
  if (any(many(1:4, 1) /= mod(r + n - 1, n)) .or. any(requests /= MPI_REQUEST_NULL)) stop 12

  ! A datatype of every second element, and one at an absolute address.
  call MPI_Type_vector(2, 1, 2, MPI_INTEGER, kind_of, e)
  call MPI_Type_commit(kind_of, e)
  call MPI_Type_get_extent(kind_of, lower, extent, e)
  if (extent /= 12) stop 13
  cell = [1, 2, 3, 4]
  call MPI_Sendrecv(cell, 1, kind_of, r, 1, many, 2, MPI_INTEGER, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, e)
  if (many(1, 1) /= 1 .or. many(2, 1) /= 3) stop 14
  call MPI_Type_free(kind_of, e)
  x = r
  call MPI_Get_address(x, place, e)
  call MPI_Type_create_hindexed(1, [1], [place], MPI_INTEGER, kind_of, e)
  call MPI_Type_commit(kind_of, e)
  call MPI_Bcast(MPI_BOTTOM, 1, kind_of, 1, MPI_COMM_WORLD, e)
  if (x /= 1) stop 15

  ! An operation of the program, in place.
  call MPI_Op_create(larger, .true., op, e)
  x = r
  call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, op, MPI_COMM_WORLD, e)
  if (x /= n - 1) stop 16
  call MPI_Op_free(op, e)

  ! Errors are returned, with their strings.
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, e)
  call MPI_Send(x, 1, MPI_INTEGER, n, 0, MPI_COMM_WORLD, e)
  call MPI_Error_class(e, class, i)
  if (class /= MPI_ERR_RANK) stop 17
  call MPI_Error_string(e, said, length, i)
  if (length == 0 .or. said(length + 1:) /= ' ') stop 18
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, e)

  ! Communicators, groups, topologies, names.
  call MPI_Comm_split(MPI_COMM_WORLD, mod(r, 2), r, comm, e)
  call MPI_Comm_size(comm, x, e)
  if (x /= (n + 1 - mod(r, 2)) / 2) stop 19
  call MPI_Comm_set_name(comm, 'half   ', e)
  call MPI_Comm_get_name(comm, text, length, e)
  if (text /= 'half' .or. length /= 4) stop 20
  call MPI_Comm_free(comm, e)
  call MPI_Comm_group(MPI_COMM_WORLD, world, e)
  call MPI_Group_incl(world, 1, [0], group, e)
  call MPI_Comm_create(MPI_COMM_WORLD, group, sub, e)
  if ((sub == MPI_COMM_NULL) .neqv. (r /= 0)) stop 21
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [n], [.true.], .false., comm, e)
  call MPI_Cart_get(comm, 1, cell, periods, cell(2), e)
  if (.not. periods(1) .or. cell(1) /= n) stop 22

  ! Texts that are padded.
  call MPI_Info_create(info, e)
  call MPI_Info_set(info, 'key  ', ' value ', e)
  call MPI_Info_get(info, 'key', 40, text, flag, e)
  if (.not. flag .or. text /= 'value') stop 23
  call MPI_Info_get(info, 'other', 40, text, flag, e)
  if (flag) stop 24

  ! One-sided.
  cell = -1
  bytes = 16
  call MPI_Win_create(cell, bytes, 4, info, MPI_COMM_WORLD, window, e)
  call MPI_Win_fence(0, window, e)
  place = 2
  call MPI_Put(r, 1, MPI_INTEGER, mod(r + 1, n), place, 1, MPI_INTEGER, window, e)
  call MPI_Win_fence(0, window, e)
  if (cell(3) /= mod(r + n - 1, n)) stop 25
  call MPI_Win_free(window, e)

  ! Files.
  call get_command_argument(1, said)
  call MPI_File_open(MPI_COMM_WORLD, said, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
                     MPI_INFO_NULL, file, e)
  if (e /= MPI_SUCCESS) stop 26
  at = 4 * r
  call MPI_File_write_at_all(file, at, r, 1, MPI_INTEGER, MPI_STATUS_IGNORE, e)
  call MPI_File_get_size(file, at, e)
  if (at /= 4 * n) stop 27
  call MPI_File_close(file, e)

  ! A non-blocking barrier.
  call MPI_Ibarrier(MPI_COMM_WORLD, request, e)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(request, flag, st, e)
  end do
  if (MPI_Wtime() < since) stop 28
  if (r == 0) print *, 'breadth ok'
  call MPI_Finalize(e)
end program
