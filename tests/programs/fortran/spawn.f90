! A program that starts itself: texts are padded, lists of arguments end with a blank one.
module waits
  use mpi_f08
  implicit none
  integer :: freed = 0
contains
  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = 17
    ierror = MPI_SUCCESS
  end subroutine
  subroutine release(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine
end module

program spawn
  use waits
  implicit none
  type(MPI_Comm) :: parent, children
  type(MPI_Info) :: info(2)
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(MPI_Datatype) :: kind_of, of(1)
  integer :: rank, x, i, codes(3), ints(3)
  integer(kind=MPI_ADDRESS_KIND) :: extra, places(1)
  character(len=500) :: me
  character(len=10) :: list(3), lists(2, 2), given
  call MPI_Init()
  call MPI_Comm_get_parent(parent)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  if (parent /= MPI_COMM_NULL) then
    call get_command_argument(1, given)
    i = command_argument_count()
    x = merge(100 * i + rank, -1, given == 'first' .or. given == 'other')
    call MPI_Send(x, 1, MPI_INTEGER, 0, 1, parent)
    call MPI_Comm_disconnect(parent)
    call MPI_Finalize()
    stop
  end if
  call get_command_argument(0, me)
  list = [character(len=10) :: 'first', 'second', ' ']
  codes = -1
  call MPI_Comm_spawn(me, list, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, codes)
  if (any(codes(1:2) /= MPI_SUCCESS)) stop 11
  do i = 0, 1
    call MPI_Recv(x, 1, MPI_INTEGER, i, 1, children, status)
    if (x /= 200 + i) stop 12
  end do
  call MPI_Comm_disconnect(children)
  lists(1, :) = [character(len=10) :: 'first', ' ']
  lists(2, :) = [character(len=10) :: 'other', ' ']
  info = MPI_INFO_NULL
  call MPI_Comm_spawn_multiple(2, [me, me], lists, [1, 2], info, 0, MPI_COMM_WORLD, children, MPI_ERRCODES_IGNORE)
  do i = 0, 2
    call MPI_Recv(x, 1, MPI_INTEGER, i, 1, children, status)
    if (x /= 100 + i) stop 13
  end do
  call MPI_Comm_disconnect(children)
  ! A request of the program.
  extra = 3
  call MPI_Grequest_start(query, release, cancel, extra, request)
  call MPI_Grequest_complete(request)
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, x)
  if (x /= 3 .or. status%MPI_SOURCE /= 17 .or. freed /= 1) stop 14
  ! The contents of a datatype.
  call MPI_Type_vector(2, 3, 4, MPI_INTEGER, kind_of)
  call MPI_Type_get_contents(kind_of, 3, 1, 1, ints, places, of)
  if (any(ints /= [2, 3, 4]) .or. of(1) /= MPI_INTEGER) stop 15
  call MPI_Type_free(kind_of)
  print *, 'spawn ok'
  call MPI_Finalize()
end program
