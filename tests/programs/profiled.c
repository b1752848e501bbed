/* Ranks that are late on purpose, for a profile that names them. The argument says what happens:
 *   sender      rank 1 sends late, rank 0 waits for it
 *   anybody     the same, and rank 0 would receive from anybody
 *   begun       the same, by MPI_Irecv and MPI_Wait
 *   receiver    rank 1 receives late, rank 0 waits for it
 *   collective  the last rank comes late to MPI_Barrier and MPI_Allreduce
 *   messages    each rank sends to the next one, in all ways that a timeline follows
 *   many        many small messages from rank 0 to rank 1
 *   burst       the same, and then now and then one, each of another length
 *   between     three times: many probes that find nothing, then some messages, each of another length
 *   serialized  as messages, by one thread
 *   crowd       as between, by several threads, on communicators of their own and on one, in all ways
 *   crowded     several threads send so many messages that most calls are left out, each with a tag of its own
 *   persistent  persistent messages, and such that are matched before they are received
 *   places      rank 0 sends very often from two places, three messages in four from the first, 8 and 16 bytes
 *   pause       many small messages; once in between rank 0 waits for rank 1, which sleeps
 *   sometimes   many small messages, and MPI_Probe before every ten-thousandth
 *   threads     two threads of each rank exchange messages
 *   abort       rank 1 calls MPI_Abort after some messages
 *   killed      rank 1 is killed after some messages
 *   stuck       after some messages rank 0 waits for ever */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

static void sleep_ms(long time)
{
	struct timespec left = { time / 1000, time % 1000 * 1000000 };
	while (nanosleep(&left, &left) != 0)
		;
}

enum { LATE = 60, LARGE = 1 << 20 };
static char large[LARGE];

static void sender(void)
{
	int value = 7;
	if (rank == 1) {
		sleep_ms(LATE);
		MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
	} else if (rank == 0) {
		MPI_Recv(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void anybody(void)
{
	int value = 7;
	if (rank == 1) {
		sleep_ms(LATE);
		MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
	} else if (rank == 0) {
		MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void begun(void)
{
	int value = 7;
	if (rank == 1) {
		sleep_ms(LATE);
		MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
	} else if (rank == 0) {
		MPI_Request request;
		MPI_Irecv(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

static void receiver(void)
{
	if (rank == 1) {
		sleep_ms(LATE);
		MPI_Recv(large, LARGE, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (rank == 0) {
		MPI_Ssend(large, LARGE, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
	}
}

static void collective(void)
{
	int mine = rank, sum = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1)
		sleep_ms(LATE);
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum != size * (size - 1) / 2)
		MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Ten messages of each rank. */
static void messages(void)
{
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	int out[4] = { rank, 1, 2, 3 }, in[4], again[4];
	MPI_Request requests[4];
	/* 1, 2: blocking, one from anybody. */
	if (rank == 0) {
		MPI_Send(out, 4, MPI_INT, next, 1, MPI_COMM_WORLD);
		MPI_Recv(in, 4, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(in, 4, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(out, 4, MPI_INT, next, 1, MPI_COMM_WORLD);
	}
	MPI_Sendrecv(out, 2, MPI_INT, next, 2, in, 2, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	/* 3 to 6: two with the same envelope, one from anybody, one of another length. */
	MPI_Irecv(in, 4, MPI_INT, before, 3, MPI_COMM_WORLD, &requests[0]);
	MPI_Irecv(again, 4, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[1]);
	MPI_Isend(out, 4, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[2]);
	MPI_Isend(out, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[3]);
	MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
	MPI_Irecv(in, 4, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &requests[0]);
	MPI_Issend(out, 4, MPI_INT, next, 4, MPI_COMM_WORLD, &requests[1]);
	for (int left = 2; left > 0; left--) {
		int index;
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
	}
	MPI_Irecv(large, LARGE / 2, MPI_CHAR, before, 5, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(large + LARGE / 2, LARGE / 2, MPI_CHAR, next, 5, MPI_COMM_WORLD, &requests[1]);
	for (int done = 0; !done;)
		MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
	/* 7 to 10: on a communicator of its own, in other order. */
	MPI_Comm other;
	MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &other);
	int there;
	MPI_Comm_rank(other, &there);
	next = (there + 1) % size, before = (there + size - 1) % size;
	for (int round = 0; round < 4; round++)
		MPI_Sendrecv_replace(in, 1, MPI_INT, next, 9, before, 9, other, MPI_STATUS_IGNORE);
	MPI_Comm_free(&other);
	MPI_Barrier(MPI_COMM_WORLD);
}

enum { MANY = 200000 };

static void many(void)
{
	int value = 0;
	for (int round = 0; round < MANY; round++) {
		if (rank == 0)
			MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
		else if (rank == 1)
			MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void burst(void)
{
	many();
	for (int length = 1; length <= 60; length++) {
		sleep_ms(10);
		if (rank == 0)
			MPI_Send(large, length, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
		else if (rank == 1)
			MPI_Recv(large, LARGE, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

enum { PROBES = 100000, SOME = 5 };

/* Probes are left out by then, messages never. */
static void between(void)
{
	for (int round = 0; round < 3; round++) {
		int found;
		for (int probe = 0; probe < PROBES; probe++)
			MPI_Iprobe(1 - rank, 99, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
		for (int number = 1; number <= SOME; number++) {
			int length = round * SOME + number;
			if (rank == 0)
				MPI_Send(large, length, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
			else
				MPI_Recv(large, LARGE, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
	}
}

enum { CROWD = 4, IN_CROWD = 9, ROUNDS = 2 };

/* A thread and its communicator: the first two share one. */
struct crowd {
	int number;
	MPI_Comm comm;
	char *large;
};

/* Nine messages from rank 0 to rank 1, each with a tag that no other one has. */
static void some_in_crowd(const struct crowd *me, int first)
{
	int values[4] = { first, 1, 2, 3 };
	MPI_Request requests[4];
	for (int each = 0; each < 2; each++) {
		if (rank == 0)
			MPI_Send(values, 2, MPI_INT, 1, first + each, me->comm);
		else
			MPI_Recv(values, 2, MPI_INT, 0, first + each, me->comm, MPI_STATUS_IGNORE);
	}
	if (rank == 0)
		MPI_Ssend(values, 2, MPI_INT, 1, first + 2, me->comm);
	else
		MPI_Recv(values, 2, MPI_INT, MPI_ANY_SOURCE, first + 2, me->comm, MPI_STATUS_IGNORE);
	if (rank == 0)
		MPI_Send(me->large, LARGE, MPI_CHAR, 1, first + 3, me->comm);
	else
		MPI_Recv(me->large, LARGE, MPI_CHAR, 0, first + 3, me->comm, MPI_STATUS_IGNORE);
	for (int each = 0; each < 3; each++) {
		if (rank == 0)
			MPI_Isend(&values[each], 1, MPI_INT, 1, first + 4 + each, me->comm, &requests[each]);
		else
			MPI_Irecv(&values[each], 1, MPI_INT, 0, first + 4 + each, me->comm, &requests[each]);
	}
	for (int left = 3, done = 0; left > 0; left -= done) {
		int which[3];
		MPI_Waitsome(3, requests, &done, which, MPI_STATUSES_IGNORE);
	}
	/* As Python receives. */
	for (int each = 0; each < 2; each++) {
		int length = each == 0 ? 8 : LARGE;
		MPI_Message message;
		if (rank == 0) {
			MPI_Send(me->large, length, MPI_CHAR, 1, first + 7 + each, me->comm);
		} else {
			MPI_Mprobe(0, first + 7 + each, me->comm, &message, MPI_STATUS_IGNORE);
			MPI_Mrecv(me->large, length, MPI_CHAR, &message, MPI_STATUS_IGNORE);
		}
	}
}

static void *in_crowd(void *argument)
{
	const struct crowd *me = argument;
	for (int round = 0; round < ROUNDS; round++) {
		int found;
		for (int probe = 0; probe < PROBES / CROWD; probe++)
			MPI_Iprobe(1 - rank, 32000, me->comm, &found, MPI_STATUS_IGNORE);
		some_in_crowd(me, (round * CROWD + me->number) * IN_CROWD);
	}
	return NULL;
}

static void *crowded(void *argument)
{
	const struct crowd *me = argument;
	for (int round = 0; round < MANY / CROWD; round++) {
		int value = round, tag = round * CROWD + me->number;
		if (rank == 0)
			MPI_Send(&value, 1, MPI_INT, 1, tag, me->comm);
		else
			MPI_Recv(&value, 1, MPI_INT, 0, tag, me->comm, MPI_STATUS_IGNORE);
	}
	return NULL;
}

static void crowd(void *(*run)(void *))
{
	struct crowd all[CROWD];
	pthread_t made[CROWD];
	for (int i = 0; i < CROWD; i++) {
		all[i] = (struct crowd){ i, MPI_COMM_WORLD, malloc(LARGE) };
		if (i > 1)
			MPI_Comm_dup(MPI_COMM_WORLD, &all[i].comm);
	}
	for (int i = 0; i < CROWD; i++)
		pthread_create(&made[i], NULL, run, &all[i]);
	for (int i = 0; i < CROWD; i++)
		pthread_join(made[i], NULL);
	for (int i = 0; i < CROWD; i++) {
		free(all[i].large);
		if (i > 1)
			MPI_Comm_free(&all[i].comm);
	}
}

static void persistent(void)
{
	int values[2] = { 7, 8 };
	MPI_Request requests[2];
	for (int each = 0; each < 2; each++) {
		if (rank == 0)
			MPI_Send_init(&values[each], 1, MPI_INT, 1, each, MPI_COMM_WORLD, &requests[each]);
		else
			MPI_Recv_init(&values[each], 1, MPI_INT, 0, each, MPI_COMM_WORLD, &requests[each]);
	}
	for (int round = 0; round < SOME; round++) {
		MPI_Start(&requests[0]);
		MPI_Start(&requests[1]);
		if (round % 2 == 0) {
			MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		} else {
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		}
	}
	for (int each = 0; each < 2; each++)
		MPI_Request_free(&requests[each]);
	for (int round = 0; round < SOME; round++) {
		MPI_Message message;
		if (rank == 0) {
			MPI_Send(values, 2, MPI_INT, 1, 5, MPI_COMM_WORLD);
		} else {
			MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
			MPI_Mrecv(values, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
		}
	}
}

enum { OFTEN = 1000000 };

static void one_way(int round)
{
	long value[2] = { round, 0 };
	if (rank == 1)
		MPI_Recv(value, 2, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else if (rank == 0 && round % 4 != 3)
		MPI_Send(value, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
	else if (rank == 0)
		MPI_Send(value, 2, MPI_LONG, 1, 0, MPI_COMM_WORLD);
}

static void places(void)
{
	for (int round = 0; round < OFTEN; round++)
		one_way(round);
}

/* The sleeper goes to sleep when so much was left out. */
static void with_pause(void)
{
	for (int round = 0; round < OFTEN; round++) {
		int value = 0;
		if (round == OFTEN / 2 && rank == 1)
			sleep_ms(3 * LATE);
		MPI_Sendrecv_replace(&value, 1, MPI_INT, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void sometimes(void)
{
	for (int round = 0; round < OFTEN; round++) {
		if (round % 10000 == 0 && rank == 1)
			MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		one_way(round);
	}
}

static void *exchange(void *tag)
{
	int value = rank;
	for (int round = 0; round < 50; round++)
		MPI_Sendrecv_replace(&value, 1, MPI_INT, 1 - rank, *(int *)tag, 1 - rank, *(int *)tag, MPI_COMM_WORLD,
				     MPI_STATUS_IGNORE);
	return NULL;
}

static void threads(void)
{
	pthread_t made[2];
	int tags[2] = { 1, 2 };
	for (int i = 0; i < 2; i++)
		pthread_create(&made[i], NULL, exchange, &tags[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(made[i], NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "messages";
	const int is_serialized = strcmp(what, "serialized") == 0;
	int provided;
	MPI_Init_thread(&argc, &argv, is_serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (strcmp(what, "sender") == 0)
		sender();
	else if (strcmp(what, "anybody") == 0)
		anybody();
	else if (strcmp(what, "begun") == 0)
		begun();
	else if (strcmp(what, "receiver") == 0)
		receiver();
	else if (strcmp(what, "collective") == 0)
		collective();
	else if (strcmp(what, "many") == 0)
		many();
	else if (strcmp(what, "burst") == 0)
		burst();
	else if (strcmp(what, "between") == 0)
		between();
	else if (strcmp(what, "crowd") == 0)
		crowd(in_crowd);
	else if (strcmp(what, "crowded") == 0)
		crowd(crowded);
	else if (strcmp(what, "persistent") == 0)
		persistent();
	else if (strcmp(what, "places") == 0)
		places();
	else if (strcmp(what, "pause") == 0)
		with_pause();
	else if (strcmp(what, "sometimes") == 0)
		sometimes();
	else if (strcmp(what, "threads") == 0)
		threads();
	else
		messages();
	if (strcmp(what, "abort") == 0 && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, 5);
	if (strcmp(what, "killed") == 0 && rank == 1)
		raise(SIGKILL);
	if (strcmp(what, "stuck") == 0 && rank == 0) {
		int value;
		puts("stuck");
		fflush(stdout);
		MPI_Recv(&value, 1, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Finalize();
	return 0;
}
