/* Start, connection to the harness, and the loop that serves its requests. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LINE 1024
#define MAX_SAMPLES 4096

static const struct {
    const char *verb;
    void (*run)(struct task *task);
} workloads[] = {
    {"pingpong", pingpong}, {"bandwidth", bandwidth}, {"copy", copy},   {"stream", stream},
    {"exchange", exchange}, {"collective", collective}, {"form", collective_form}, {"routine", routine}, {"oneway", oneway}, {"matching", matching}, {"idle", idle},
    {"settle", settle},     {"burn", burn},         {"threads", threads}, {"carried", carried},
    {"raw", raw},           {"switches", switches}, {"flags", flags},         {"instructions", instructions},
    {"packing", packing},   {"gaps", gaps},
    {"rma", rma},
    {"io", io},
    {"beside", beside},     {"polling", polling},
};

static int world_rank;
static pid_t world_process;

double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "measure: rank %d: ", world_rank);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    fflush(stderr);
    va_end(arguments);
    if (getpid() != world_process)
        _exit(3); /* a child of a rank, which says so */
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

char *buffer(size_t bytes)
{
    void *memory;
    size_t rounded = (bytes + 4095) / 4096 * 4096 + 4096;
    if (posix_memalign(&memory, 4096, rounded))
        fail("no memory for a buffer of %zu bytes", bytes);
    memset(memory, 0, rounded);
    return memory;
}

static char pattern_byte(size_t index, unsigned seed)
{
    return (char)((index * 31 + (index >> 8) * 7 + seed) & 0xff);
}

void pattern_fill(char *bytes, size_t length, unsigned seed)
{
    for (size_t index = 0; index < length; index++)
        bytes[index] = pattern_byte(index, seed);
}

void pattern_check(const char *bytes, size_t length, unsigned seed, const char *where)
{
    for (size_t index = 0; index < length; index++)
        if (bytes[index] != pattern_byte(index, seed))
            fail("%s of %zu bytes: byte %zu is %d, expected %d: the implementation delivered wrong data",
                 where, length, index, bytes[index], pattern_byte(index, seed));
}

const char *task_text(const struct task *task, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = strchr(task->request, ' '); at; at = strchr(at + 1, ' '))
        if (!strncmp(at + 1, key, length) && at[1 + length] == '=')
            return at + length + 2;
    return NULL;
}

long task_number(const struct task *task, const char *key, long fallback)
{
    const char *value = task_text(task, key);
    return value ? strtol(value, NULL, 10) : fallback;
}

int task_is(const struct task *task, const char *key, const char *word)
{
    const char *value = task_text(task, key);
    size_t length = strlen(word);
    return value && !strncmp(value, word, length) && (value[length] == ' ' || value[length] == 0);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path)
        fail("the path of the harness is too long: %s", path);
    strcpy(address.sun_path, path);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address))
        fail("cannot reach the harness at %s: %s", path, strerror(errno));
    return descriptor;
}

static void serve(FILE *answers, struct task *task)
{
    const char *line = task->request;
    size_t verb = strcspn(line, " ");
    task->samples = (int)task_number(task, "samples", 1);
    task->iterations = (int)task_number(task, "iterations", 1);
    task->warmup = (int)task_number(task, "warmup", 0);
    if (task->samples < 1 || task->samples > MAX_SAMPLES || task->iterations < 1)
        fail("not a request: %s", line);
    for (size_t index = 0; index < sizeof workloads / sizeof *workloads; index++) {
        if (strlen(workloads[index].verb) != verb || strncmp(line, workloads[index].verb, verb))
            continue;
        MPI_Barrier(MPI_COMM_WORLD);
        workloads[index].run(task);
        if (task->rank == 0) {
            fprintf(answers, "ok");
            for (int sample = 0; sample < task->samples; sample++)
                fprintf(answers, " %.3f", task->values[sample]);
            fprintf(answers, "\n");
            fflush(answers);
        }
        return;
    }
    fail("no workload of that name: %s", line);
}

/* The first line of the library's own name, without what would break the protocol's lines. */
static void library(char *name, size_t room)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    snprintf(name, room, "%.*s", (int)strcspn(text, "\n\r"), text);
    for (char *at = name; *at; at++)
        if (*at == '\t')
            *at = ' ';
}

/* Counts the instructions of each request, and prints the fewest of three samples: rare extra work of a call
 * (a lane with room again) is in the others. */
static void count_all(struct task *task, char **requests)
{
    double values[3];
    task->values = values;
    task->samples = 3;
    for (; *requests; requests++) {
        task->request = *requests;
        instructions(task);
        double fewest = values[0];
        for (int sample = 1; sample < task->samples; sample++)
            fewest = values[sample] < fewest ? values[sample] : fewest;
        if (task->rank == 0)
            printf("%s\t%.1f\n", *requests, fewest);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct task task = {0};
    char line[LINE], name[256];
    int provided = MPI_THREAD_SINGLE;
    int multiple = argc > 2 && !strcmp(argv[2], "multiple");

    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &task.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &task.ranks);
    world_rank = task.rank;
    world_process = getpid();
    if (argc < 2) { /* the empty program of the start-up experiment */
        MPI_Finalize();
        return 0;
    }
    if (!strcmp(argv[1], "form")) { /* the same, once each rank has heard from each other */
        task.request = "settle";
        task.values = calloc(1, sizeof *task.values);
        task.samples = 1;
        settle(&task);
        MPI_Finalize();
        return 0;
    }
    if (multiple && provided != MPI_THREAD_MULTIPLE)
        fail("MPI_THREAD_MULTIPLE was asked for, level %d was given", provided);
    if (!strcmp(argv[1], "count")) { /* instructions, without the harness */
        count_all(&task, argv + 3);
        MPI_Finalize();
        return 0;
    }

    int channel = connect_to(argv[1]);
    FILE *requests = fdopen(channel, "r"), *answers = fdopen(dup(channel), "w");
    if (!requests || !answers)
        fail("no stream for the harness: %s", strerror(errno));
    library(name, sizeof name);
    fprintf(answers, "hello\t%d\t%d\t%ld\t%s\n", task.rank, task.ranks, (long)getpid(), name);
    fflush(answers);
    task.values = calloc(MAX_SAMPLES, sizeof *task.values);
    if (!task.values)
        fail("no memory for %d samples", MAX_SAMPLES);
    while (fgets(line, sizeof line, requests)) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "quit")) {
            MPI_Finalize();
            return 0;
        }
        task.request = line;
        serve(answers, &task);
    }
    _exit(4); /* the harness is gone: end at once, without a collective that others cannot join */
}
