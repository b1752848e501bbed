! Special addresses, keys, and arrays of handles, which differ between the ABIs.
program sentinels
  implicit none
  include 'mpif.h'
  integer, parameter :: many = 20
  integer :: e, r, n, i, place, counted, graph, type, parent, children, old
  integer :: requests(many), values(many), one(1), lengths(1), degrees(3)
  integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, many), places(many)
  integer(kind=MPI_ADDRESS_KIND) :: value, address(1)
  logical :: flag
  character(len=200) :: command

  call MPI_Init(e)
  call MPI_Comm_get_parent(parent, e)
  if (parent /= MPI_COMM_NULL) then
    call MPI_Barrier(parent, e)
    call MPI_Comm_disconnect(parent, e)
    call MPI_Finalize(e)
    stop
  end if
  call MPI_Comm_rank(MPI_COMM_WORLD, r, e)
  call MPI_Comm_size(MPI_COMM_WORLD, n, e)

  ! MPI_IN_PLACE, at both ends.
  one = r + 1
  call MPI_Allreduce(MPI_IN_PLACE, one, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e)
  if (one(1) /= n * (n + 1) / 2) stop 11

  ! Arrays of more handles than are kept on the stack; indices count from one.
  do i = 1, many
    call MPI_Irecv(values(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, requests(i), e)
  end do
  do i = many, 1, -1
    call MPI_Send(100 * r + i, 1, MPI_INTEGER, mod(r + 1, n), i, MPI_COMM_WORLD, e)
  end do
  call MPI_Waitany(many, requests, place, status, e)
  if (place < 1 .or. place > many) stop 21
  if (status(MPI_TAG) /= place .or. status(MPI_SOURCE) /= mod(r + n - 1, n)) stop 22
  if (requests(place) /= MPI_REQUEST_NULL) stop 23
  call MPI_Get_count(status, MPI_INTEGER, counted, e)
  if (counted /= 1) stop 24
  call MPI_Waitsome(many, requests, counted, places, statuses, e)
  if (counted < 1) stop 25
  do i = 1, counted
    if (statuses(MPI_TAG, i) /= places(i)) stop 26
  end do
  call MPI_Waitall(many, requests, MPI_STATUSES_IGNORE, e)
  call MPI_Waitany(many, requests, place, MPI_STATUS_IGNORE, e)
  if (place /= MPI_UNDEFINED) stop 27
  if (any(values /= [(100 * mod(r + n - 1, n) + i, i = 1, many)])) stop 28

  ! MPI_BOTTOM.
  values(1) = 7 + r
  call MPI_Get_address(values(1), address(1), e)
  lengths = 1
  call MPI_Type_create_hindexed(1, lengths, address, MPI_INTEGER, type, e)
  call MPI_Type_commit(type, e)
  call MPI_Bcast(MPI_BOTTOM, 1, type, n - 1, MPI_COMM_WORLD, e)
  if (values(1) /= 7 + n - 1) stop 31
  call MPI_Type_free(type, e)

  ! Predefined attributes.
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, e)
  if (.not. flag .or. value < 32767) stop 41
  call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, old, flag, e)
  if (.not. flag .or. old /= value) stop 42
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag, e)
  if (.not. flag .or. value < 0 .or. value > 1) stop 43

  ! MPI_UNWEIGHTED, and MPI_WEIGHTS_EMPTY.
  one = mod(r + n - 1, n)
  places(1) = mod(r + 1, n)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, one, MPI_UNWEIGHTED, 1, places, MPI_UNWEIGHTED, &
                                      MPI_INFO_NULL, .false., graph, e)
  call MPI_Dist_graph_neighbors_count(graph, degrees(1), degrees(2), flag, e)
  if (degrees(1) /= 1 .or. degrees(2) /= 1 .or. flag) stop 51
  call MPI_Comm_free(graph, e)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, one, MPI_WEIGHTS_EMPTY, 0, places, MPI_WEIGHTS_EMPTY, &
                                      MPI_INFO_NULL, .false., graph, e)
  call MPI_Dist_graph_neighbors_count(graph, degrees(1), degrees(2), flag, e)
  if (degrees(1) /= 0 .or. .not. flag) stop 52
  call MPI_Comm_free(graph, e)

  ! No arguments, and no codes.
  call get_command_argument(0, command)
  call MPI_Comm_spawn(command, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, MPI_ERRCODES_IGNORE, e)
  call MPI_Barrier(children, e)
  call MPI_Comm_disconnect(children, e)

  if (r == 0) print *, 'sentinels ok'
  call MPI_Finalize(e)
end program
