/* The wrong argument of every function gets its error class and a remedy: one wrong argument at a time, all others such
 * that the call may have them.
 *
 *     wrong            all functions that are implemented
 *     wrong NAME…      these
 *
 * Which parameters, which values and which classes: wrong_calls.h, made from the tables. */
#define _GNU_SOURCE
#include "extremes.h"

#include "extremes_calls.h"

struct wrong_call {
    const char *name;
    int (*call)(struct choice *);
    int argument;
    const char *parameter;
    enum wrong wrong;
    int class;
};

#include "wrong_calls.h"

static const char *const ways[] = {"right", "null", "no number", "no handle"};

/* The beginning of a remedy, or a part of it. */
static int has_remedy(const char *text) {
    const char *remedy = strrchr(text, ';');
    return remedy && strlen(remedy) > 10;
}

int main(int argc, char **argv) {
    int failures = 0, calls = 0, skipped = 0;
    make_memory();
    MPI_Init(NULL, NULL);
    make_objects();
    for (int i = 0; i < NUMBER_OF(wrong_calls); i++) {
        const struct wrong_call *call = &wrong_calls[i];
        struct choice choice = {call->argument, 0, 0, call->wrong};
        int wanted = argc < 2, class = -1, length = 0;
        char text[MPI_MAX_ERROR_STRING] = "";
        for (int j = 1; j < argc; j++) wanted |= !strcmp(argv[j], call->name);
        if (!wanted) continue;
        /* Objects that cannot be made yet have no functions that could be called correctly. */
        int about_window = !strncmp(call->name, "MPI_Win_", 8) && window == MPI_WIN_NULL;
        int about_file = !strncmp(call->name, "MPI_File_", 9) && file == MPI_FILE_NULL;
        if ((about_window || about_file) && call->class != MPI_ERR_WIN && call->class != MPI_ERR_FILE) {
            skipped++;
            continue;
        }
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int code = call->call(&choice);
        calls++;
        if (code != MPI_SUCCESS) {
            MPI_Error_class(code, &class);
            MPI_Error_string(code, text, &length);
        }
        if (class != call->class || !strstr(text, call->parameter) || !has_remedy(text)) {
            printf("%s: %s is %s: expected class %d, found %d: %s\n", call->name, call->parameter, ways[call->wrong],
                   call->class, class, text);
            failures++;
        }
        fflush(stdout);
    }
    printf("wrong: %d calls, %d skipped, %d failures\n", calls, skipped, failures);
    /* Requests of such calls may still be under way. */
    fflush(stdout);
    _exit(failures != 0);
}
