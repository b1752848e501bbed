! Attributes with callbacks, buffers that are detached, process sets.
module callbacks
  use mpi_f08
  implicit none
  integer :: copied = 0, deleted = 0
  logical :: refuses = .false.
contains
  subroutine copies(comm, keyval, extra_state, value_in, value_out, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    copied = copied + 1
    value_out = value_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine deletes(comm, keyval, value, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    deleted = deleted + 1
    ierror = MPI_SUCCESS
    if (refuses) ierror = MPI_ERR_OTHER
  end subroutine
end module

program attributes
  use callbacks
  use, intrinsic :: iso_c_binding
  implicit none
  integer(kind=MPI_ADDRESS_KIND) :: value, extra
  integer :: keyval, other, e, size, length
  integer, target :: room(1000)
  type(MPI_Comm) :: comm
  type(MPI_Win) :: window
  type(MPI_Session) :: session
  type(c_ptr) :: place
  logical :: flag
  character(len=60) :: name
  call MPI_Init()
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  if (.not. flag .or. value < 32767) stop 11
  extra = 100
  call MPI_Comm_create_keyval(copies, deletes, keyval, extra)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, value, flag)
  if (flag) stop 12
  value = 7000000000_MPI_ADDRESS_KIND
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_get_attr(comm, keyval, value, flag)
  if (.not. flag .or. value /= 7000000100_MPI_ADDRESS_KIND .or. copied /= 1) stop 13
  value = 5
  call MPI_Comm_set_attr(comm, keyval, value)
  if (deleted /= 1) stop 14
  call MPI_Comm_free(comm)
  if (deleted /= 2) stop 15
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval)
  if (deleted /= 3) stop 16
  ! A callback that refuses.
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  value = -1
  call MPI_Comm_set_attr(MPI_COMM_SELF, keyval, value)
  refuses = .true.
  call MPI_Comm_delete_attr(MPI_COMM_SELF, keyval, e)
  refuses = .false.
  if (e == MPI_SUCCESS) stop 17
  value = 0
  call MPI_Comm_get_attr(MPI_COMM_SELF, keyval, value, flag)
  if (.not. flag .or. value /= -1) stop 18
  ! Functions that the standard has.
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, other, extra)
  value = 3
  call MPI_Comm_set_attr(MPI_COMM_WORLD, other, value)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  value = 0
  call MPI_Comm_get_attr(comm, other, value, flag)
  if (.not. flag .or. value /= 3) stop 19
  call MPI_Comm_free(comm)
  call MPI_Comm_free_keyval(other)
  if (other /= MPI_KEYVAL_INVALID) stop 20
  ! Of windows: some are numbers, one is an address.
  value = 4000
  call MPI_Win_create(room, value, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window)
  call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, flag)
  if (.not. flag .or. value /= 4000) stop 21
  call MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, value, flag)
  if (.not. flag .or. value /= 4) stop 22
  call MPI_Win_get_attr(window, MPI_WIN_BASE, value, flag)
  if (.not. flag .or. value /= transfer(c_loc(room), value)) stop 23
  call MPI_Win_free(window)
  ! Buffers.
  call MPI_Buffer_attach(room, 4000)
  call MPI_Buffer_detach(place, size)
  if (size /= 4000 .or. .not. c_associated(place, c_loc(room))) stop 24
  call MPI_Comm_attach_buffer(MPI_COMM_WORLD, room, 4000)
  call MPI_Comm_detach_buffer(MPI_COMM_WORLD, place, size)
  if (size /= 4000 .or. .not. c_associated(place, c_loc(room))) stop 25
  ! Process sets.
  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
  length = 0
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
  if (len_trim(name) /= length .or. length == 0) stop 26
  call MPI_Session_finalize(session)
  print *, 'attributes ok'
  call MPI_Finalize()
end program
