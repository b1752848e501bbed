      program h
      implicit none
      include 'mpif.h'
      integer ie, r, n, x, st(MPI_STATUS_SIZE)
      call MPI_INIT(ie)
      call MPI_COMM_RANK(MPI_COMM_WORLD, r, ie)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, n, ie)
      x = r
      call MPI_SENDRECV_REPLACE(x, 1, MPI_INTEGER, mod(r+1,n), 1,
     & mod(r+n-1,n), 1, MPI_COMM_WORLD, st, ie)
      if (x .ne. mod(r+n-1,n) .or. st(MPI_SOURCE) .ne. x) stop 3
      call MPI_BARRIER(MPI_COMM_WORLD, ie)
      if (r .eq. 0) print *, 'mpif.h ok', n
      call MPI_FINALIZE(ie)
      end
