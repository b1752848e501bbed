/* One rank uses only a session, the others MPI_Init: no rank waits for it in MPI_Finalize. It is rank 1, or the one in WHO. The argument
 * is one of:
 *   early    it ends before the others initialise
 *   late     it begins when they wait in MPI_Finalize already
 *   stays    it continues for a while without MPI
 *   returns  it initialises MPI after its session, and finalises that
 *   meets    the session has a communicator with all of them, who use sessions as well
 *   awaits   it continues without MPI until the others have finalised, which a file shows
 *   met      they have exchanged messages with it before, over a communicator of their sessions; then as awaits
 *   alone    all use sessions only, and it ends its own when the others have, which a file shows
 *   wanted   the lowest other rank waits for a message of it, which never comes
 *   missed   the same, and it has ended before that one initialises
 * A second argument names the file. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void sleep_ms(long time)
{
	struct timespec left = { time / 1000, time % 1000 * 1000000 };
	while (nanosleep(&left, &left) != 0)
		;
}

/* Shows that a rank has come to its end. */
static void show(const char *file)
{
	FILE *made = file ? fopen(file, "w") : NULL;
	if (made)
		fclose(made);
}

/* Waits until another rank has. */
static void await(const char *file)
{
	for (int left = 3000; access(file, F_OK) != 0; left--) {
		if (left == 0) {
			fputs("the others wait\n", stderr);
			exit(5);
		}
		sleep_ms(10);
	}
}

static void session(int meets, const char *until)
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
	if (until)
		await(until);
	MPI_Session_finalize(&session);
}

/* The number of this process from its launcher, before it asks MPI. */
static const char *rank_by_launcher(void)
{
	const char *names[] = { "WEFT_RANK", "PMI_RANK", "PMIX_RANK" }, *found = NULL;
	for (size_t name = 0; !found && name < sizeof names / sizeof *names; name++)
		found = getenv(names[name]);
	return found;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "early", *file = argc > 2 ? argv[2] : NULL;
	const char *number = rank_by_launcher(), *who = getenv("WHO");
	const int beside = who ? atoi(who) : 1, is_beside = number && atoi(number) == beside;
	const int awaits = strcmp(what, "awaits") == 0 || strcmp(what, "met") == 0, alone = strcmp(what, "alone") == 0;
	const int meets = strcmp(what, "meets") == 0 || strcmp(what, "met") == 0;
	if (is_beside) {
		if (strcmp(what, "late") == 0)
			sleep_ms(300);
		session(meets, alone ? file : NULL);
		if (strcmp(what, "stays") == 0)
			sleep_ms(1000);
		if (awaits)
			await(file);
		if (strcmp(what, "returns") == 0) {
			MPI_Init(&argc, &argv);
			MPI_Finalize();
		}
		puts("beside");
		return 0;
	}
	const int missed = strcmp(what, "missed") == 0;
	if (missed || strcmp(what, "early") == 0)
		sleep_ms(300);
	if (alone) {
		session(0, NULL);
		show(file);
		puts("finalised");
		return 0;
	}
	MPI_Init(&argc, &argv);
	if (meets)
		session(1, NULL);
	int rank, value;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if ((missed || strcmp(what, "wanted") == 0) && rank == (beside == 0))
		MPI_Recv(&value, 1, MPI_INT, beside, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Finalize();
	show(file);
	puts("finalised");
	return 0;
}
