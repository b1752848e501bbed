! Error handlers of all kinds of objects, keys of datatypes and windows, types of given precision, sizes, large counts.
module called
  use mpi_f08
  implicit none
  integer :: comm_code = 0, win_code = 0, file_code = 0, session_code = 0, copied = 0, ended = 0
  type(MPI_Comm) :: failed_on
contains
  subroutine on_comm(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    failed_on = comm
    comm_code = error_code
  end subroutine
  subroutine on_win(win, error_code)
    type(MPI_Win) :: win
    integer :: error_code
    win_code = error_code
  end subroutine
  subroutine on_file(file, error_code)
    type(MPI_File) :: file
    integer :: error_code
    file_code = error_code
  end subroutine
  subroutine on_session(session, error_code)
    type(MPI_Session) :: session
    integer :: error_code
    session_code = error_code
  end subroutine
  subroutine copies(oldtype, keyval, extra_state, value_in, value_out, flag, ierror)
    type(MPI_Datatype) :: oldtype
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    copied = copied + 1
    value_out = value_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine ends(datatype, keyval, value, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    ended = ended + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine ends_win(win, keyval, value, extra_state, ierror)
    type(MPI_Win) :: win
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    ended = ended + int(value)
    ierror = MPI_SUCCESS
  end subroutine
end module

program handlers
  use called
  use, intrinsic :: iso_fortran_env
  implicit none
  type(MPI_Errhandler) :: handler
  type(MPI_Win) :: window
  type(MPI_File) :: file
  type(MPI_Session) :: session
  type(MPI_Group) :: group
  type(MPI_Datatype) :: one, other
  type(MPI_Status) :: status
  integer, allocatable, asynchronous :: cells(:), got(:)
  integer :: e, class, keyval, bytes, given(2), want
  integer(kind=MPI_COUNT_KIND) :: many
  integer(kind=MPI_ADDRESS_KIND) :: extra, value
  character(len=1000) :: path
  double precision :: x, y
  complex(kind=real64) :: z(3)
  integer(kind=int64) :: i
  logical :: flag
  allocate(cells(10), got(10))
  call MPI_Init()
  call get_command_argument(1, path)

  call MPI_Comm_create_errhandler(on_comm, handler)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)
  call MPI_Errhandler_free(handler)
  if (handler /= MPI_ERRHANDLER_NULL) stop 11
  call MPI_Send(cells, 1, MPI_INTEGER, 5, 0, MPI_COMM_SELF, e)
  call MPI_Error_class(e, class)
  if (class /= MPI_ERR_RANK .or. comm_code /= e .or. failed_on /= MPI_COMM_SELF) stop 12

  call MPI_Win_create_errhandler(on_win, handler)
  call MPI_Win_create(cells, 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, window)
  call MPI_Win_set_errhandler(window, handler)
  call MPI_Errhandler_free(handler)
  call MPI_Put(cells, 1, MPI_INTEGER, 9, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window, e)
  if (win_code == 0 .or. win_code /= e) stop 13

  call MPI_File_create_errhandler(on_file, handler)
  call MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file)
  call MPI_File_set_errhandler(file, handler)
  call MPI_Errhandler_free(handler)
  call MPI_File_read(file, cells, 1, MPI_INTEGER, status, e)
  if (file_code == 0 .or. file_code /= e) stop 14
  call MPI_File_close(file)

  call MPI_Session_create_errhandler(on_session, handler)
  call MPI_Session_init(MPI_INFO_NULL, handler, session)
  call MPI_Errhandler_free(handler)
  call MPI_Group_from_session_pset(session, "mpi://nowhere", group, e)
  if (session_code == 0 .or. session_code /= e) stop 15
  call MPI_Session_finalize(session)

  extra = 5
  call MPI_Type_create_keyval(copies, ends, keyval, extra)
  call MPI_Type_contiguous(3, MPI_INTEGER, one)
  call MPI_Type_set_attr(one, keyval, 7000000000_MPI_ADDRESS_KIND)
  call MPI_Type_dup(one, other)
  call MPI_Type_get_attr(other, keyval, value, flag)
  if (.not. flag .or. value /= 7000000005_MPI_ADDRESS_KIND .or. copied /= 1) stop 16
  call MPI_Type_free(one)
  call MPI_Type_free(other)
  if (ended /= 2) stop 17
  call MPI_Type_free_keyval(keyval)
  if (keyval /= MPI_KEYVAL_INVALID) stop 18

  call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, ends_win, keyval, extra)
  call MPI_Win_set_attr(window, keyval, 40_MPI_ADDRESS_KIND)
  call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, flag)
  if (.not. flag .or. value /= 40) stop 19
  call MPI_Win_free(window)
  if (ended /= 42) stop 20
  call MPI_Win_free_keyval(keyval)

  ! Types of at least a given precision and range, and their contents.
  call MPI_Type_create_f90_real(12, 100, one)
  call MPI_Type_create_f90_real(12, 100, other)
  if (one /= other) stop 21
  call MPI_Type_get_extent(one, value, extra)
  if (extra /= 8) stop 22
  call MPI_Type_get_envelope(one, class, bytes, want, keyval)
  if (keyval /= MPI_COMBINER_F90_REAL .or. class /= 2) stop 23
  x = 1.5d0
  call MPI_Sendrecv(x, 1, one, 0, 1, y, 1, other, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
  if (x /= y) stop 24
  call MPI_Type_create_f90_complex(6, MPI_UNDEFINED, one)
  call MPI_Type_get_extent(one, value, extra)
  if (extra /= 8) stop 25
  call MPI_Type_create_f90_integer(15, one)
  call MPI_Type_get_extent(one, value, extra)
  if (extra /= 8) stop 26
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Type_create_f90_integer(99, one, e)
  if (e == MPI_SUCCESS) stop 27

  call MPI_Sizeof(x, bytes)
  if (bytes /= 8) stop 28
  call MPI_Sizeof(z, bytes)
  if (bytes /= 16) stop 29
  call MPI_Sizeof(cells(1:9:2), bytes, e)
  if (bytes /= 4 .or. e /= MPI_SUCCESS) stop 30
  call MPI_Sizeof(i, bytes)
  call MPI_Type_match_size(MPI_TYPECLASS_INTEGER, bytes, one)
  call MPI_Type_get_extent(one, value, extra)
  if (extra /= 8) stop 31

  ! Counts of eight bytes choose the large forms.
  cells = [(class, class = 1, 10)]
  got = 0
  many = 10
  call MPI_Sendrecv(cells, many, MPI_INTEGER, 0, 2, got, many, MPI_INTEGER, 0, 2, MPI_COMM_SELF, status)
  if (any(got /= cells)) stop 32
  many = 0
  call MPI_Get_count(status, MPI_INTEGER, many)
  if (many /= 10) stop 33
  call MPI_Type_contiguous(3000000000_MPI_COUNT_KIND, MPI_INTEGER, one)
  call MPI_Type_size(one, many)
  if (many /= 12000000000_MPI_COUNT_KIND) stop 34
  call MPI_Type_size(one, bytes)
  if (bytes /= MPI_UNDEFINED) stop 35
  call MPI_Type_free(one)
  given = 0
  call MPI_Reduce(cells, given, 2_MPI_COUNT_KIND, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_SELF)
  if (any(given /= [1, 2])) stop 36
  call MPI_Finalize()
  print *, "handlers ok"
end program
