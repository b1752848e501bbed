! Calls of older programs, by module mpi.
program attributes_old
  use mpi
  implicit none
  integer :: keyval, value, comm, info, e, size
  integer :: room(1000)
  logical :: flag
  call MPI_Init(e)
  call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, keyval, 0, e)
  call MPI_Attr_put(MPI_COMM_WORLD, keyval, -5, e)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, e)
  call MPI_Attr_get(comm, keyval, value, flag, e)
  if (.not. flag .or. value /= -5) stop 11
  call MPI_Attr_delete(comm, keyval, e)
  call MPI_Attr_get(comm, keyval, value, flag, e)
  if (flag) stop 12
  call MPI_Keyval_free(keyval, e)
  call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, e)
  if (.not. flag .or. value < 32767) stop 13
  call MPI_Buffer_attach(room, 4000, e)
  call MPI_Buffer_detach(room, size, e)
  if (size /= 4000) stop 14
  call MPI_Info_create_env(info, e)
  if (info == MPI_INFO_NULL) stop 15
  call MPI_Info_free(info, e)
  print *, 'old ok'
  call MPI_Finalize(e)
end program
