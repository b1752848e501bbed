/*
 * Calls from threads that the level asked for does not allow.
 * options: --check
 *
 * run: 1 single
 * says: weft: warning: rank 0: MPI_Comm_rank at check-threads.c:
 * says: (call) is called by a second thread, but the level asked for is MPI_THREAD_SINGLE
 *
 * run: 1 funneled
 * says: is called by a thread that has not called MPI_Init_thread, but the level asked for is MPI_THREAD_FUNNELED
 *
 * run: 1 serialized
 * says: is called by a thread while another one is inside of a call, but the level asked for is MPI_THREAD_SERIALIZED
 *
 * run: 1 turns
 * never: weft
 *
 * run: 1 multiple
 * never: weft
 *
 * run: 1 asking
 * never: weft
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *call(void *argument) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return argument;
}

static void *ask(void *argument) {
    int flag;
    MPI_Initialized(&flag);
    MPI_Is_thread_main(&flag);
    return argument;
}

static void in_thread(void *(*run)(void *)) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
}

/* Called from within MPI_Comm_delete_attr: another thread makes its call meanwhile. */
static int meanwhile(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)value, (void)state;
    in_thread(call);
    return MPI_SUCCESS;
}

static void inside_of_a_call(void) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, meanwhile, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_delete_attr(MPI_COMM_SELF, key);
    MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv) {
    int level = MPI_THREAD_SINGLE, provided;
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "funneled") == 0 || strcmp(name, "asking") == 0)
        level = MPI_THREAD_FUNNELED;
    if (strcmp(name, "serialized") == 0 || strcmp(name, "turns") == 0)
        level = MPI_THREAD_SERIALIZED;
    if (strcmp(name, "multiple") == 0)
        level = MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, level, &provided);
    if (strcmp(name, "asking") == 0)
        in_thread(ask);
    else if (strcmp(name, "serialized") == 0 || strcmp(name, "multiple") == 0)
        inside_of_a_call();
    else
        in_thread(call);
    MPI_Finalize();
    return 0;
}
