! Variables that MPI writes after the call that was given their address. Nothing but that call has the address, and nothing but the comparison
! reads them, so that a compiler that takes the address for forgotten compares what was there before.
module old
  use mpi
  implicit none
contains
  subroutine receives()
    integer :: x, before, sent, request, e
    sent = 42
    x = 1
    call MPI_Irecv(x, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF, request, e)
    before = x
    call MPI_Send(sent, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF, e)
    call MPI_Wait(request, MPI_STATUS_IGNORE, e)
    if (x == before) stop 11
  end subroutine
  subroutine has_an_address()
    integer :: x, before, kind_of, sent, e
    integer(kind=MPI_ADDRESS_KIND) :: place
    x = 1
    sent = 42
    call MPI_Get_address(x, place, e)
    call MPI_Type_create_hindexed(1, [1], [place], MPI_INTEGER, kind_of, e)
    call MPI_Type_commit(kind_of, e)
    before = x
    call MPI_Sendrecv(sent, 1, MPI_INTEGER, 0, 0, MPI_BOTTOM, 1, kind_of, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE, e)
    if (x == before) stop 12
    call MPI_Type_free(kind_of, e)
  end subroutine
end module

module modern
  use mpi_f08
  implicit none
contains
  subroutine receives_modern()
    integer :: x, before, sent
    type(MPI_Request) :: request
    sent = 42
    x = 1
    call MPI_Irecv(x, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF, request)
    before = x
    call MPI_Send(sent, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (x == before) stop 13
  end subroutine
  subroutine has_an_address_modern()
    integer :: x, before, sent
    integer(kind=MPI_ADDRESS_KIND) :: place
    type(MPI_Datatype) :: kind_of
    x = 1
    sent = 42
    call MPI_Get_address(x, place)
    call MPI_Type_create_hindexed(1, [1], [place], MPI_INTEGER, kind_of)
    call MPI_Type_commit(kind_of)
    before = x
    call MPI_Sendrecv(sent, 1, MPI_INTEGER, 0, 0, MPI_BOTTOM, 1, kind_of, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    if (x == before) stop 14
    call MPI_Type_free(kind_of)
  end subroutine
  subroutine is_a_window()
    integer :: x, before, sent
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    type(MPI_Win) :: window
    x = 1
    sent = 42
    bytes = 4
    call MPI_Win_create(x, bytes, 4, MPI_INFO_NULL, MPI_COMM_SELF, window)
    call MPI_Win_fence(0, window)
    before = x
    bytes = 0
    call MPI_Put(sent, 1, MPI_INTEGER, 0, bytes, 1, MPI_INTEGER, window)
    call MPI_Win_fence(0, window)
    if (x == before) stop 15
    call MPI_Win_free(window)
  end subroutine
end module

program late
  use old, only: receives, has_an_address
  use modern, only: receives_modern, has_an_address_modern, is_a_window
  use mpi_f08, only: MPI_Init, MPI_Finalize
  implicit none
  call MPI_Init()
  call receives()
  call has_an_address()
  call receives_modern()
  call has_an_address_modern()
  call is_a_window()
  print *, 'late ok'
  call MPI_Finalize()
end program
