/* Rank 1 uses a session only, the others MPI_Init: nobody waits for it in MPI_Finalize. The argument says what else:
 *   early    it ends before the others initialise
 *   late     it begins when they wait in MPI_Finalize already
 *   stays    it goes on for a while without MPI
 *   returns  it initialises MPI after its session, and finalises that
 *   meets    the session has a communicator with all of them, who use sessions as well
 *   wanted   rank 0 waits for a message of it, which never comes */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void sleep_ms(long time)
{
	struct timespec left = { time / 1000, time % 1000 * 1000000 };
	while (nanosleep(&left, &left) != 0)
		;
}

static void session(int meets)
{
	MPI_Session session;
	if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS)
		exit(3);
	if (meets) {
		MPI_Group group;
		MPI_Comm all;
		int mine = 1, sum = 0, size;
		MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
		MPI_Comm_create_from_group(group, "beside", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
		MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
		MPI_Comm_size(all, &size);
		if (sum != size)
			exit(4);
		MPI_Comm_disconnect(&all);
		MPI_Group_free(&group);
	}
	MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "early", *number = getenv("WEFT_RANK");
	const int is_beside = number && atoi(number) == 1, meets = strcmp(what, "meets") == 0;
	if (is_beside) {
		if (strcmp(what, "late") == 0)
			sleep_ms(300);
		session(meets);
		if (strcmp(what, "stays") == 0)
			sleep_ms(1000);
		if (strcmp(what, "returns") == 0) {
			MPI_Init(&argc, &argv);
			MPI_Finalize();
		}
		puts("beside");
		return 0;
	}
	if (strcmp(what, "early") == 0)
		sleep_ms(300);
	MPI_Init(&argc, &argv);
	if (meets)
		session(1);
	int rank, value;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (strcmp(what, "wanted") == 0 && rank == 0)
		MPI_Recv(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Finalize();
	puts("finalised");
	return 0;
}
