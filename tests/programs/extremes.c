/* Every function with the extremes of every argument: each call ends in success or in an error of MPI,
 * never in a signal, a hang or the end of the process.
 *
 *     extremes                            all functions
 *     extremes NAME…                      these functions, and how long each takes
 *     extremes -v                         all functions, and how long each takes
 *     extremes -1 NAME ARGUMENT EXTREME   one call in this process, for a debugger
 *
 * Files of gigabytes are written by two functions that write alone and together; the others have little space for a file,
 * unless WEFT_LARGE_FILES is set.
 *
 * A process for each function makes its calls one after the other; if it dies or stands still, that is
 * noted, and another one goes on with the next call. It has little memory of its own, so that what a
 * call needs for a count that it was given cannot always be had. */
#define _GNU_SOURCE
#include "extremes.h"

#include "extremes_calls.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* Seconds that a call may take. Those that look at 2^31 elements take a few. */
#define LIMIT 60
/* Memory that a process may have for itself. */
#define MEMORY ((rlim_t)1 << 30)
/* Bytes that a file may have which most functions write. */
#define FILE_SIZE ((rlim_t)1 << 26)

/* The progress of a process, for the one that watches it. */
struct progress {
    volatile struct choice at;
    volatile int calls, refused, wrong;
    volatile int code;
};
static struct progress *progress;

/* Their writing takes most of the time of this program. */
static void bound_file(const char *name) {
    struct rlimit size = {FILE_SIZE, FILE_SIZE};
    if (getenv("WEFT_LARGE_FILES") || strncmp(name, "MPI_File_write", 14) || !strcmp(name, "MPI_File_write_at") ||
        !strcmp(name, "MPI_File_write_all_c"))
        return;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &size);
}

static void begin(const char *name) {
    struct rlimit memory = {MEMORY, MEMORY}, core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    MPI_Init(NULL, NULL);
    make_objects();
    setrlimit(RLIMIT_DATA, &memory);
    bound_file(name);
}

/* One call; reports a result that is no error code of MPI. */
static int make_call(const struct function *function, struct choice *choice) {
    int class = -1, length = 0;
    char text[MPI_MAX_ERROR_STRING];
    int code = function->call(choice);
    progress->code = code;
    if (choice->over || code == MPI_SUCCESS || !strncmp(function->name, "MPI_T_", 6)) return code;
    if (MPI_Error_class(code, &class) != MPI_SUCCESS || class <= MPI_SUCCESS ||
        MPI_Error_string(code, text, &length) != MPI_SUCCESS || length == 0) {
        printf("%s: argument %d, extreme %d: returns %d, which is no error\n", function->name, choice->argument,
               choice->extreme, code);
        progress->wrong++;
    }
    return code;
}

/* All calls from this one on. */
static void make_calls(const struct function *function, struct choice from) {
    struct choice choice = from;
    for (; choice.argument < function->arguments; choice.argument++, choice.extreme = 0)
        for (choice.over = 0;; choice.extreme++) {
            progress->at = choice;
            int code = make_call(function, &choice);
            if (choice.over || choice.argument < 0) break;
            progress->calls++;
            if (code != MPI_SUCCESS) progress->refused++;
            MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Waits for a process; ends it when one call takes too long. */
static int watch(pid_t process) {
    struct choice last = progress->at;
    double since = now();
    for (int status;;) {
        if (waitpid(process, &status, WNOHANG) == process) return status;
        struct choice at = progress->at;
        if (memcmp(&at, &last, sizeof at)) last = at, since = now();
        if (now() - since > LIMIT) kill(process, SIGALRM);
        usleep(now() - since < 0.1 ? 200 : 5000);
    }
}

static int run(const struct function *function, int verbose) {
    struct choice from = {-1, 0, 0};
    double begun = now();
    int failures = 0;
    memset((void *)progress, 0, sizeof *progress);
    for (;;) {
        fflush(stdout);
        progress->at = from;
        pid_t process = fork();
        if (process == 0) {
            signal(SIGALRM, SIG_DFL);
            begin(function->name);
            make_calls(function, from);
            fflush(stdout);
            _exit(0);
        }
        int status = watch(process);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        from = progress->at;
        failures++;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            printf("%s: argument %d, extreme %d: stands still\n", function->name, from.argument, from.extreme);
        else if (WIFSIGNALED(status))
            printf("%s: argument %d, extreme %d: signal %d\n", function->name, from.argument, from.extreme,
                   WTERMSIG(status));
        else
            printf("%s: argument %d, extreme %d: the process ends with %d\n", function->name, from.argument,
                   from.extreme, WEXITSTATUS(status));
        if (from.argument < 0) {
            from.argument = 0;
            from.extreme = 0;
        } else {
            from.extreme++;
        }
    }
    if (verbose)
        printf("%s: %d calls, %d refused, %.2f s\n", function->name, progress->calls, progress->refused,
               now() - begun);
    return failures + progress->wrong;
}

static int wanted(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name) || !strcmp(argv[i], "-v")) return 1;
    return argc == 1;
}

int main(int argc, char **argv) {
    int failures = 0, calls = 0, refused = 0, number = 0;
    int one = argc == 5 && !strcmp(argv[1], "-1");
    make_memory();
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < NUMBER_OF(functions); i++) {
        const struct function *function = &functions[i];
        if (one && !strcmp(function->name, argv[2])) {
            struct choice choice = {atoi(argv[3]), atoi(argv[4]), 0};
            begin(function->name);
            make_call(function, &choice);
            printf("returned %d%s\n", progress->code, choice.over ? ", there is no such extreme" : "");
            return 0;
        }
        if (one || !wanted(argc, argv, function->name)) continue;
        failures += run(function, argc > 1);
        calls += progress->calls;
        refused += progress->refused;
        number++;
    }
    printf("extremes: %d functions, %d calls, %d refused, %d failures\n", number, calls, refused, failures);
    return failures != 0;
}
