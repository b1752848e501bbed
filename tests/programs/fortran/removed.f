* Procedures that MPI 3 removed.
      subroutine fails(comm, code)
      implicit none
      integer comm, code, seen
      common /handled/ seen
      seen = code
      end

      program old
      implicit none
      include 'mpif.h'
      external fails
      integer e, t, s, lengths(3), places(3), types(3), x, y, h, g
      integer pair(4), class, st(MPI_STATUS_SIZE), seen, i
      integer cells(4)
      common /cells/ cells
      common /handled/ seen
      call MPI_INIT(e)
      call MPI_ERRHANDLER_CREATE(fails, h, e)
      call MPI_ERRHANDLER_SET(MPI_COMM_WORLD, h, e)
      call MPI_ERRHANDLER_GET(MPI_COMM_WORLD, g, e)
      if (g .ne. h) stop 11
      call MPI_SEND(cells, 1, MPI_INTEGER, 77, 1, MPI_COMM_WORLD, e)
      call MPI_ERROR_CLASS(e, class, i)
      if (class .ne. MPI_ERR_RANK .or. seen .ne. e) stop 12
* A structure with bounds: one integer, with four more bytes at its end.
      lengths(1) = 1
      lengths(2) = 1
      lengths(3) = 1
      places(1) = -4
      places(2) = 0
      places(3) = 8
      types(1) = MPI_LB
      types(2) = MPI_INTEGER
      types(3) = MPI_UB
      call MPI_TYPE_STRUCT(3, lengths, places, types, s, e)
      if (e .ne. MPI_SUCCESS) stop 13
      call MPI_TYPE_EXTENT(s, x, e)
      call MPI_TYPE_LB(s, y, e)
      if (x .ne. 12 .or. y .ne. -4) stop 14
      call MPI_TYPE_UB(s, y, e)
      if (y .ne. 8) stop 15
      call MPI_TYPE_FREE(s, e)
* Without bounds it is an ordinary one.
      call MPI_TYPE_STRUCT(1, lengths(2), places(2), types(2), s, e)
      call MPI_TYPE_EXTENT(s, x, e)
      if (x .ne. 4) stop 16
      call MPI_TYPE_FREE(s, e)
* Two datatypes that are not bounds.
      lengths(1) = 1
      lengths(2) = 2
      places(1) = 0
      places(2) = 8
      types(1) = MPI_INTEGER
      types(2) = MPI_DOUBLE_PRECISION
      call MPI_TYPE_STRUCT(2, lengths, places, types, s, e)
      if (e .ne. MPI_SUCCESS) stop 31
      call MPI_TYPE_SIZE(s, x, e)
      if (x .ne. 20) stop 32
      call MPI_TYPE_EXTENT(s, x, e)
      if (x .ne. 24) stop 33
      call MPI_TYPE_FREE(s, e)
      lengths(2) = 1
* Every second element, by two ways.
      call MPI_TYPE_HVECTOR(2, 1, 8, MPI_INTEGER, t, e)
      places(1) = 0
      places(2) = 8
      call MPI_TYPE_HINDEXED(2, lengths, places, MPI_INTEGER, s, e)
      call MPI_TYPE_COMMIT(t, e)
      call MPI_TYPE_COMMIT(s, e)
      do 10 i = 1, 4
        cells(i) = i
        pair(i) = 0
10    continue
      call MPI_SENDRECV(cells, 1, t, 0, 1, pair, 1, s, 0, 1,
     & MPI_COMM_SELF, st, e)
      if (pair(1) .ne. 1 .or. pair(3) .ne. 3) stop 17
      if (pair(2) .ne. 0 .or. pair(4) .ne. 0) stop 18
      call MPI_TYPE_FREE(t, e)
      call MPI_TYPE_FREE(s, e)
* An address has eight bytes: what does not fit is an error.
      call MPI_ERRHANDLER_SET(MPI_COMM_SELF, MPI_ERRORS_RETURN, e)
      call MPI_ADDRESS(cells, x, e)
      if (e .eq. MPI_SUCCESS) then
        if (x .lt. 4096) stop 19
      else
        call MPI_ERROR_CLASS(e, class, i)
        if (class .ne. MPI_ERR_ARG) stop 20
      end if
      call MPI_ERRHANDLER_FREE(h, e)
      call MPI_ERRHANDLER_FREE(g, e)
      call MPI_FINALIZE(e)
      print *, 'removed ok'
      end
