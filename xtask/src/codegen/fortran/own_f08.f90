
  ! What C does not have.
  interface MPI_Sizeof
    subroutine weft_mpi_sizeof(x, size, ierror) bind(C, name="weft_mpi_sizeof")
      type(*), dimension(..), intent(in) :: x
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine weft_mpi_sizeof
  end interface MPI_Sizeof
  interface PMPI_Sizeof
    procedure :: weft_mpi_sizeof
  end interface PMPI_Sizeof
  interface MPI_F_sync_reg
    subroutine MPI_F_sync_reg_f08(buf)
      !DIR$ IGNORE_TKR buf
      !DEC$ ATTRIBUTES NO_ARG_CHECK :: buf
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*), asynchronous :: buf
    end subroutine MPI_F_sync_reg_f08
  end interface MPI_F_sync_reg
  interface MPI_Status_f2f08
    subroutine MPI_Status_f2f08_f08(f_status, f08_status, ierror)
      import :: MPI_Status, MPI_STATUS_SIZE
      integer, intent(in) :: f_status(MPI_STATUS_SIZE)
      type(MPI_Status), intent(out) :: f08_status
      integer, optional, intent(out) :: ierror
    end subroutine MPI_Status_f2f08_f08
  end interface MPI_Status_f2f08
  interface MPI_Status_f082f
    subroutine MPI_Status_f082f_f08(f08_status, f_status, ierror)
      import :: MPI_Status, MPI_STATUS_SIZE
      type(MPI_Status), intent(in) :: f08_status
      integer, intent(out) :: f_status(MPI_STATUS_SIZE)
      integer, optional, intent(out) :: ierror
    end subroutine MPI_Status_f082f_f08
  end interface MPI_Status_f082f
