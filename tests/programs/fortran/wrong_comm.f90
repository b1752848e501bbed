! Calls on MPI_COMM_NULL whose entry points use the communicator before the C function does. The first argument says which; with a second
! one a handler counts the errors.
module counted
  use mpi_f08
  implicit none
  integer :: errors = 0
contains
  subroutine count_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    errors = errors + 1
  end subroutine
end module

program wrong_comm
  use counted
  implicit none
  type(MPI_Errhandler) :: handler
  type(MPI_Comm) :: children
  type(MPI_Datatype) :: kinds(1)
  integer :: x(1), y(1), none(1), codes(1)
  integer(kind=MPI_ADDRESS_KIND) :: places(1)
  character(len=10) :: call, lists(1, 1), commands(1)
  call MPI_Init()
  call get_command_argument(1, call)
  if (command_argument_count() > 1) then
    call MPI_Comm_create_errhandler(count_error, handler)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)
  end if
  kinds = MPI_INTEGER
  none = 0
  places = 0
  lists = ' '
  commands = 'nothing'
  select case (call)
  case ('spawn')
    call MPI_Comm_spawn('nothing', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_NULL, children, codes)
  case ('multiple')
    call MPI_Comm_spawn_multiple(1, commands, lists, [1], [MPI_INFO_NULL], 0, MPI_COMM_NULL, children, codes)
  case ('alltoallw')
    call MPI_Alltoallw(x, none, none, kinds, y, none, none, kinds, MPI_COMM_NULL)
  case ('neighbor')
    call MPI_Neighbor_alltoallw(x, none, places, kinds, y, none, places, kinds, MPI_COMM_NULL)
  end select
  print '(a, i0)', 'errors ', errors
  call MPI_Finalize()
end program
