! Ten messages from rank 1 to rank 0, each by a call of one line, for profiles.
program counted
    use mpi_f08
    integer :: rank, number, i
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    do i = 1, 10
        if (rank == 1) then
            call MPI_Send(number, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD)
        else
            call MPI_Recv(number, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        end if
    end do
    call MPI_Finalize()
end program
