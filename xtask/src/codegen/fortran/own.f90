
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
  interface
    subroutine MPI_F_sync_reg(buf)
      !DIR$ IGNORE_TKR buf
      !DEC$ ATTRIBUTES NO_ARG_CHECK :: buf
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
    end subroutine MPI_F_sync_reg
    subroutine MPI_Status_f2f08(f_status, f08_status, ierror)
      import :: MPI_Status, MPI_STATUS_SIZE
      integer, intent(in) :: f_status(MPI_STATUS_SIZE)
      type(MPI_Status), intent(out) :: f08_status
      integer :: ierror
    end subroutine MPI_Status_f2f08
    subroutine MPI_Status_f082f(f08_status, f_status, ierror)
      import :: MPI_Status, MPI_STATUS_SIZE
      type(MPI_Status), intent(in) :: f08_status
      integer, intent(out) :: f_status(MPI_STATUS_SIZE)
      integer :: ierror
    end subroutine MPI_Status_f082f
  end interface

  ! What the standard has removed, for programs that are older. Addresses have the default kind there, and do not fit.
  interface
    subroutine MPI_Address(location, address, ierror)
      !DIR$ IGNORE_TKR location
      !DEC$ ATTRIBUTES NO_ARG_CHECK :: location
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: location
      type(*), dimension(*) :: location
      integer :: address, ierror
    end subroutine MPI_Address
    subroutine MPI_Errhandler_create(handler_fn, errhandler, ierror)
      external :: handler_fn
      integer :: errhandler, ierror
    end subroutine MPI_Errhandler_create
    subroutine MPI_Errhandler_get(comm, errhandler, ierror)
      integer :: comm, errhandler, ierror
    end subroutine MPI_Errhandler_get
    subroutine MPI_Errhandler_set(comm, errhandler, ierror)
      integer :: comm, errhandler, ierror
    end subroutine MPI_Errhandler_set
    subroutine MPI_Type_extent(datatype, extent, ierror)
      integer :: datatype, extent, ierror
    end subroutine MPI_Type_extent
    subroutine MPI_Type_lb(datatype, displacement, ierror)
      integer :: datatype, displacement, ierror
    end subroutine MPI_Type_lb
    subroutine MPI_Type_ub(datatype, displacement, ierror)
      integer :: datatype, displacement, ierror
    end subroutine MPI_Type_ub
    subroutine MPI_Type_hvector(count, blocklength, stride, oldtype, newtype, ierror)
      integer :: count, blocklength, stride, oldtype, newtype, ierror
    end subroutine MPI_Type_hvector
    subroutine MPI_Type_hindexed(count, array_of_blocklengths, array_of_displacements, oldtype, newtype, ierror)
      integer :: count, array_of_blocklengths(*), array_of_displacements(*), oldtype, newtype, ierror
    end subroutine MPI_Type_hindexed
    subroutine MPI_Type_struct(count, array_of_blocklengths, array_of_displacements, array_of_types, newtype, ierror)
      integer :: count, array_of_blocklengths(*), array_of_displacements(*), array_of_types(*), newtype, ierror
    end subroutine MPI_Type_struct
  end interface
