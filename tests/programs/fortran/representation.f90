! A data representation of the program: in the file integers are negated, each after four bytes of zero.
module conversions
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: asked = 0, converted = 0
contains
  subroutine bytes_in_file(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    asked = asked + 1
    extent = 8
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER .or. extra_state /= 7000000000_MPI_ADDRESS_KIND) ierror = MPI_ERR_TYPE
  end subroutine

  subroutine reads(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: values(:), cells(:)
    integer :: i
    call c_f_pointer(userbuf, values, [int(position) + count])
    call c_f_pointer(filebuf, cells, [2 * count])
    do i = 1, count
      values(position + i) = -cells(2 * i)
    end do
    converted = converted + count
    ierror = MPI_SUCCESS
    if (extra_state /= 7000000000_MPI_ADDRESS_KIND) ierror = MPI_ERR_OTHER
  end subroutine

  subroutine writes(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: values(:), cells(:)
    integer :: i
    call c_f_pointer(userbuf, values, [int(position) + count])
    call c_f_pointer(filebuf, cells, [2 * count])
    do i = 1, count
      cells(2 * i - 1) = 0
      cells(2 * i) = -values(position + i)
    end do
    ierror = MPI_SUCCESS
    if (values(1) == 666) ierror = MPI_ERR_CONVERSION
  end subroutine

  subroutine refuses(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_COUNT_KIND) :: count
    integer :: ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    ierror = MPI_ERR_CONVERSION
    if (count /= 3 .or. extra_state /= 1) ierror = MPI_ERR_COUNT
  end subroutine

  subroutine as_in_memory(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    extent = 4
    ierror = MPI_SUCCESS
  end subroutine
end module

program representation
  use conversions
  implicit none
  type(MPI_File) :: file
  character(len=1000) :: path
  integer :: values(3), cells(6), e, class
  integer(kind=MPI_ADDRESS_KIND) :: extra
  integer(kind=MPI_OFFSET_KIND) :: size
  call MPI_Init()
  call get_command_argument(1, path)
  extra = 7000000000_MPI_ADDRESS_KIND
  call MPI_Register_datarep("negated  ", reads, writes, bytes_in_file, extra, e)
  if (e /= MPI_SUCCESS) stop 11
  call MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, "negated", MPI_INFO_NULL)
  values = [1, 2, 3]
  call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, values, 3, MPI_INTEGER, MPI_STATUS_IGNORE)
  values = 0
  call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, values, 3, MPI_INTEGER, MPI_STATUS_IGNORE)
  if (any(values /= [1, 2, 3]) .or. asked == 0 .or. converted /= 3) stop 12
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, "native", MPI_INFO_NULL)
  call MPI_File_get_size(file, size)
  call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, cells, 6, MPI_INTEGER, MPI_STATUS_IGNORE)
  if (size /= 24 .or. any(cells /= [0, -1, 0, -2, 0, -3])) stop 13
  ! The error code of a callback is returned.
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, "negated", MPI_INFO_NULL)
  values = 666
  call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, values, 3, MPI_INTEGER, MPI_STATUS_IGNORE, e)
  call MPI_Error_class(e, class)
  if (class /= MPI_ERR_CONVERSION) stop 14
  ! Nothing to convert, in one direction and in the large form.
  extra = 1
  call MPI_Register_datarep_c("plain", MPI_CONVERSION_FN_NULL_C, refuses, as_in_memory, extra)
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, "plain", MPI_INFO_NULL)
  call MPI_File_read_at(file, 4_MPI_OFFSET_KIND, values, 2, MPI_INTEGER, MPI_STATUS_IGNORE)
  if (any(values(1:2) /= [0, -3])) stop 15
  call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, values, 3, MPI_INTEGER, MPI_STATUS_IGNORE, e)
  call MPI_Error_class(e, class)
  if (class /= MPI_ERR_CONVERSION) stop 16
  call MPI_File_close(file)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Register_datarep("negated", MPI_CONVERSION_FN_NULL, writes, bytes_in_file, extra, e)
  call MPI_Error_class(e, class)
  if (class /= MPI_ERR_DUP_DATAREP) stop 17
  call MPI_Finalize()
  print *, "representation ok"
end program
