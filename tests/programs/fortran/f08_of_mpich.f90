! All that a program gets from MPICH's modules of mpi_f08: procedures with descriptors, operators, sizes, constants, callbacks.
module callbacks_of_it
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: copies = 0, deletes = 0, errors = 0
contains
  subroutine largest(from, into, many, datatype)
    type(c_ptr), value :: from, into
    integer :: many, i
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    if (datatype /= MPI_INTEGER) stop 201
    call c_f_pointer(from, a, [many])
    call c_f_pointer(into, b, [many])
    do i = 1, many
      b(i) = max(a(i), b(i))
    end do
  end subroutine

  subroutine copied(comm, key, extra, given, out, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, given, out
    logical :: flag
    if (comm == MPI_COMM_NULL) stop 202
    if (key == MPI_KEYVAL_INVALID) stop 203
    out = given + extra
    flag = .true.
    copies = copies + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine deleted(comm, key, given, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(kind=MPI_ADDRESS_KIND) :: given, extra
    if (extra /= 100 .or. given < 7 .or. comm == MPI_COMM_NULL .or. key == MPI_KEYVAL_INVALID) stop 204
    deletes = deletes + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine handled(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    if (comm /= MPI_COMM_SELF .or. code == MPI_SUCCESS) stop 205
    errors = errors + 1
  end subroutine
end module

program f08_of_mpich
  use mpi_f08
  use callbacks_of_it
  use, intrinsic :: iso_c_binding
  implicit none
  type :: particle
    integer :: number
    real(8) :: place(3)
    character(len=4) :: name
  end type
  integer, parameter :: rows = 6, columns = 8
  integer :: rank, ranks, right, left, e, i, j, n, counted, place
  integer :: matrix(rows, columns), other(rows, columns), vector(12), part(12), one, many(4)
  integer, allocatable :: gathered(:)
  complex :: waves(6), heard(6)
  real :: reals(6) = [1, 2, 3, 4, 5, 6]
  type(particle) :: ones(5), others(5)
  character(len=3) :: words(6), read_words(6)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=20) :: packed
  character(len=MPI_MAX_ERROR_STRING) :: reason
  type(MPI_Status) :: status, statuses(4)
  type(MPI_Request) :: requests(4)
  type(MPI_Comm) :: comm, again, graph
  type(MPI_Datatype) :: column, pair
  type(MPI_Op) :: op
  type(MPI_Group) :: group
  type(MPI_Info) :: info
  type(MPI_Errhandler) :: handler
  type(MPI_Win) :: win
  type(MPI_File) :: file
  integer :: key, sources(1), destinations(1), size_of
  integer(kind=MPI_ADDRESS_KIND) :: value, address, offsets(2)
  integer(kind=MPI_COUNT_KIND) :: large
  integer(kind=MPI_OFFSET_KIND) :: offset
  integer :: f_status(MPI_STATUS_SIZE)
  logical :: flag, is_mpich
  class(*), allocatable :: anything, copy_of_it
  character(len=400) :: path
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  real(16) :: wide
  real, pointer :: memory(:)
  type(c_ptr) :: base

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, e)
  if (e /= MPI_SUCCESS .or. ranks < 2) stop 1
  ! What MPICH itself does not do is left out there.
  call MPI_Get_library_version(version, n)
  is_mpich = version(1:5) == 'MPICH'
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  comm = MPI_COMM_WORLD
  if (.not. (comm == MPI_COMM_WORLD) .or. comm == MPI_COMM_SELF .or. comm /= MPI_COMM_WORLD%MPI_VAL) stop 2

  ! Sections with gaps, by descriptor, at both ends.
  do j = 1, columns
    do i = 1, rows
      matrix(i, j) = 10000 * rank + 100 * i + j
    end do
  end do
  other = -1
  call MPI_Irecv(other(2:5:3, 1:7:2), 8, MPI_INTEGER, left, 5, comm, requests(1))
  call MPI_Send(matrix(2:5:3, 1:7:2), 8, MPI_INTEGER, right, 5, comm)
  call MPI_Wait(requests(1), status)
  call MPI_F_sync_reg(other)
  if (status%MPI_SOURCE /= left .or. status%MPI_TAG /= 5) stop 11
  if (requests(1) /= MPI_REQUEST_NULL) stop 12
  call MPI_Get_count(status, MPI_INTEGER, counted)
  if (counted /= 8) stop 13
  if (any(other(2:5:3, 1:7:2) /= matrix(2:5:3, 1:7:2) + 10000 * (left - rank))) stop 14
  if (count(other == -1) /= rows * columns - 8) stop 15
  ! A component of a derived type, as integers; rows of a section in a vector without gaps.
  do i = 1, 5
    ones(i) = particle(i + 100 * rank, [1.0d0, 2.0d0, 3.0d0] * i, 'abcd')
    others(i) = particle(0, 0, '    ')
  end do
  call MPI_Sendrecv(ones%number, 5, MPI_INTEGER, right, 7, others(5:1:-1)%number, 5, MPI_INTEGER, left, 7, comm, MPI_STATUS_IGNORE)
  if (any(others%number /= [5, 4, 3, 2, 1] + 100 * left)) stop 17
  if (any(others%name /= '    ')) stop 18
  call MPI_Sendrecv(ones(2:4:2)%place(3), 2, MPI_DOUBLE_PRECISION, right, 8, others(1:2)%place(2), 2, MPI_REAL8, left, 8, &
                    comm, status)
  if (others(1)%place(2) /= 6 .or. others(2)%place(2) /= 12) stop 19
  if (.not. is_mpich) then
    ! A part of the section: one column and a half.
    other = -1
    call MPI_Sendrecv(matrix(1:6:2, 2:8:2), 5, MPI_INTEGER, right, 6, vector(12:1:-2), 5, MPI_INTEGER, left, 6, comm, status)
    if (any(vector(12:4:-2) /= 10000 * left + [102, 302, 502, 104, 304])) stop 16
    ! Elements of two numbers, and texts of three letters.
    waves = [(cmplx(i, -i), i = 1, 6)]
    heard = 0
    call MPI_Sendrecv(waves(1:5:2), 6, MPI_REAL, right, 9, heard(2:6:2), 3, MPI_COMPLEX, left, 9, comm, status)
    if (any(heard /= [cmplx(0, 0), waves(1), cmplx(0, 0), waves(3), cmplx(0, 0), waves(5)])) stop 20
    words = ['one', 'two', 'thr', 'fou', 'fiv', 'six']
    read_words = '...'
    call MPI_Sendrecv(words(1:5:2), 9, MPI_CHARACTER, right, 9, read_words(6:2:-2), 9, MPI_CHARACTER, left, 9, comm, status)
    if (any(read_words /= ['...', 'fiv', '...', 'thr', '...', 'one'])) stop 21
    ! Two elements as one of a datatype.
    call MPI_Type_contiguous(2, MPI_INTEGER, pair)
    call MPI_Type_commit(pair)
    part = 0
    call MPI_Sendrecv(matrix(1:4, 3), 2, pair, right, 10, part(1:7:2), 2, pair, left, 10, comm, status)
    if (any(part(1:7:2) /= matrix(1:4, 3) + 10000 * (left - rank)) .or. any(part(2:8:2) /= 0)) stop 22
    call MPI_Type_free(pair)
    if (pair /= MPI_DATATYPE_NULL) stop 23
  end if
  ! Counts of eight bytes.
  large = 4
  part = 0
  call MPI_Sendrecv(matrix(1, 1:7:2), large, MPI_INTEGER, right, 11, part, large, MPI_INTEGER, left, 11, comm, status)
  if (any(part(1:4) /= matrix(1, 1:7:2) + 10000 * (left - rank))) stop 24
  call PMPI_Sendrecv(rank, 1, MPI_INTEGER, right, 12, one, 1, MPI_INTEGER, left, 12, comm, MPI_STATUS_IGNORE)
  if (one /= left) stop 25

  ! Several requests, with and without statuses.
  do i = 1, 4
    call MPI_Irecv(many(i), 1, MPI_INTEGER, left, 20 + i, comm, requests(i))
  end do
  do i = 4, 1, -1
    call MPI_Send(1000 * rank + i, 1, MPI_INTEGER, right, 20 + i, comm)
  end do
  call MPI_Waitany(4, requests, place, status)
  ! MPICH 4.0 counts from zero here.
  if (is_mpich) place = place + 1
  if (status%MPI_TAG /= 20 + place) stop 31
  call MPI_Waitall(4, requests, statuses)
  call MPI_F_sync_reg(many)
  if (any(many /= 1000 * left + [1, 2, 3, 4])) stop 32
  do i = 1, 4
    if (i /= place .and. statuses(i)%MPI_TAG /= 20 + i) stop 33
  end do
  call MPI_Isend(matrix(1:5:2, 1), 3, MPI_INTEGER, right, 30, comm, requests(1))
  call MPI_Irecv(vector(1:9:4), 3, MPI_INTEGER, left, 30, comm, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, e)
  call MPI_F_sync_reg(vector)
  if (e /= MPI_SUCCESS .or. any(vector(1:9:4) /= 10000 * left + [101, 301, 501])) stop 34
  call MPI_Recv_init(vector(2:4:2), 2, MPI_INTEGER, left, 31, comm, requests(1))
  do n = 1, 3
    call MPI_Start(requests(1))
    call MPI_Send([n, rank], 2, MPI_INTEGER, right, 31, comm)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call MPI_F_sync_reg(vector)
    if (vector(2) /= n .or. vector(4) /= left) stop 35
  end do
  call MPI_Request_free(requests(1))
  call MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, flag, status)
  if (flag) stop 36
  call MPI_Status_f082f(statuses(1), f_status)
  if (f_status(MPI_SOURCE) /= statuses(1)%MPI_SOURCE) stop 37
  call MPI_Status_f2f08(f_status, status, e)
  if (status%MPI_TAG /= statuses(1)%MPI_TAG .or. e /= MPI_SUCCESS) stop 38

  ! Collectives: in place, with sections whose next part begins where the last one has ended.
  one = rank + 1
  call MPI_Allreduce(MPI_IN_PLACE, one, 1, MPI_INTEGER, MPI_SUM, comm)
  if (one /= ranks * (ranks + 1) / 2) stop 41
  allocate(gathered(4 * ranks))
  gathered = -1
  if (.not. is_mpich) call MPI_Gather([rank, -rank], 2, MPI_INTEGER, gathered(1::2), 2, MPI_INTEGER, 0, comm)
  if (rank == 0 .and. .not. is_mpich) then
    if (any(gathered(1::4) /= [(i, i = 0, ranks - 1)])) stop 42
    if (any(gathered(3::4) /= [(-i, i = 0, ranks - 1)])) stop 43
    if (any(gathered(2::2) /= -1)) stop 44
  end if
  if (rank == 0) gathered = [(i, i = 1, 4 * ranks)]
  call MPI_Bcast(gathered(2::2), 2 * ranks, MPI_INTEGER, 0, comm)
  if (any(gathered(2::2) /= [(2 * i, i = 1, 2 * ranks)])) stop 45
  gathered = 0
  gathered(rank + 1) = rank + 1
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered, 1, MPI_INTEGER, comm)
  if (any(gathered(1:ranks) /= [(i, i = 1, ranks)])) stop 46
  call MPI_Ibarrier(comm, requests(1))
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call MPI_Op_create(largest, .true., op)
  one = mod(rank * 7, 5)
  call MPI_Reduce(one, n, 1, MPI_INTEGER, op, 0, comm)
  if (rank == 0) then
    if (n /= maxval([(mod(i * 7, 5), i = 0, ranks - 1)])) stop 47
  end if
  call MPI_Op_free(op)
  if (op /= MPI_OP_NULL) stop 48

  if (.not. is_mpich) then
    ! A reduction combines elements without gaps; what it cannot do is an error, and nothing is written.
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)
    other = -1
    call MPI_Allreduce(matrix(1, 1:4), other(1, 1:4), 4, MPI_INTEGER, MPI_SUM, comm, e)
    call MPI_Error_class(e, n)
    if (n /= MPI_ERR_BUFFER .or. any(other /= -1)) stop 49
    call MPI_Error_string(e, reason, n)
    if (reason(1:16) /= 'an array section') stop 50
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL)
  end if

  ! MPI_BOTTOM.
  vector(1:2) = [rank, rank + 50]
  call MPI_Get_address(vector(1), offsets(1))
  call MPI_Get_address(vector(2), offsets(2))
  if (MPI_Aint_diff(offsets(2), offsets(1)) /= 4) stop 51
  call MPI_Type_create_struct(2, [1, 1], offsets, [MPI_INTEGER, MPI_INTEGER], column)
  call MPI_Type_commit(column)
  call MPI_Bcast(MPI_BOTTOM, 1, column, ranks - 1, comm)
  call MPI_F_sync_reg(vector)
  if (any(vector(1:2) /= [ranks - 1, ranks + 49])) stop 52
  call MPI_Type_free(column)

  ! Attributes, names, error handlers, information.
  call MPI_Comm_get_attr(comm, MPI_TAG_UB, value, flag)
  if (.not. flag .or. value < 32767) stop 61
  call MPI_Comm_create_keyval(copied, deleted, key, 100_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, key, 7_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, again)
  call MPI_Comm_get_attr(again, key, value, flag)
  if (.not. flag .or. value /= 107 .or. copies /= 1) stop 62
  call MPI_Comm_set_name(again, 'another')
  call MPI_Comm_get_name(again, name, n)
  if (name /= 'another' .or. n /= 7) stop 63
  call MPI_Comm_compare(comm, again, n)
  if (n /= MPI_CONGRUENT) stop 64
  call MPI_Comm_free(again)
  call MPI_Comm_delete_attr(comm, key)
  if (deletes /= 2 .or. again /= MPI_COMM_NULL) stop 65
  call MPI_Comm_free_keyval(key)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, key, 9_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, again)
  call MPI_Comm_get_attr(again, key, value, flag)
  if (.not. flag .or. value /= 9) stop 66
  call MPI_Comm_free(again)
  call MPI_Comm_create_errhandler(handled, handler)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)
  call MPI_Send(one, 1, MPI_INTEGER, 17, 0, MPI_COMM_SELF, e)
  if (e == MPI_SUCCESS .or. errors /= 1) stop 67
  call MPI_Error_class(e, n)
  if (n /= MPI_ERR_RANK) stop 68
  call MPI_Info_create(info)
  call MPI_Info_set(info, 'key', 'some value')
  call MPI_Info_get(info, 'key', len(packed), packed, flag)
  if (.not. flag .or. packed /= 'some value') stop 69
  call MPI_Info_free(info)
  if (info /= MPI_INFO_NULL) stop 70
  call MPI_Comm_group(comm, group)
  call MPI_Group_size(group, n)
  if (n /= ranks .or. group == MPI_GROUP_EMPTY) stop 71
  call MPI_Group_free(group)
  call MPI_Dist_graph_create_adjacent(comm, 1, [left], MPI_UNWEIGHTED, 1, [right], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
  call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED)
  if (sources(1) /= left .or. destinations(1) /= right) stop 72
  call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, one, 1, MPI_INTEGER, graph)
  if (one /= left) stop 73
  call MPI_Comm_free(graph)

  ! Sizes, handles in variables of any type.
  call MPI_Sizeof(matrix, size_of)
  if (size_of /= 4) stop 81
  call MPI_Sizeof(wide, size_of, e)
  if (size_of /= 16 .or. e /= MPI_SUCCESS) stop 82
  call MPI_Sizeof(waves(1:3:2), size_of)
  if (size_of /= 8) stop 83
  call MPI_Sizeof('a', size_of)
  if (size_of /= 1) stop 84
  allocate(anything, source=comm)
  allocate(copy_of_it, source=anything)
  if (storage_size(copy_of_it) /= 32) stop 85

  ! Packing, memory, a window, a file.
  place = 0
  call MPI_Pack(matrix(1, 1:3:2), 2, MPI_INTEGER, packed, len(packed), place, comm)
  n = 0
  call MPI_Unpack(packed, place, n, part(1:3:2), 2, MPI_INTEGER, comm)
  if (n /= place .or. (any(part(1:3:2) /= matrix(1, 1:3:2)) .and. .not. is_mpich)) stop 91
  call MPI_Alloc_mem(40_MPI_ADDRESS_KIND, MPI_INFO_NULL, base)
  call c_f_pointer(base, memory, [10])
  memory = rank
  call MPI_Win_create(memory, 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, comm, win)
  call MPI_Win_fence(0, win)
  call MPI_Put(reals(1:5:2), 3, MPI_REAL, right, 2_MPI_ADDRESS_KIND, 3, MPI_REAL, win)
  call MPI_Put(reals(6:1:-5), 2, MPI_REAL, right, 6_MPI_ADDRESS_KIND, 2, MPI_REAL, win)
  call MPI_Win_fence(0, win)
  if (any(memory /= [real(rank), real(rank), 1.0, 3.0, 5.0, real(rank), 6.0, 1.0, real(rank), real(rank)])) stop 92
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
  if (.not. flag .or. value /= 40) stop 93
  call MPI_Win_free(win)
  call MPI_Free_mem(memory)
  call get_command_argument(1, path)
  call MPI_File_open(comm, trim(path), ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file)
  offset = 8 * rank
  call MPI_File_write_at_all(file, offset, matrix(3, 2:4:2), 2, MPI_INTEGER, MPI_STATUS_IGNORE)
  call MPI_File_sync(file)
  call MPI_Barrier(comm)
  part = 0
  call MPI_File_read_at(file, 8_MPI_OFFSET_KIND * left, part(2:3), 2, MPI_INTEGER, status)
  if (any(part(1:4) /= [0, 10000 * left + 302, 10000 * left + 304, 0])) stop 94
  call MPI_File_close(file)
  if (file /= MPI_FILE_NULL) stop 95

  call MPI_Barrier(comm)
  call MPI_Finalize(e)
  if (rank == 0) print '(a)', 'f08 of mpich ok'
end program
