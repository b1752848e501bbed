/* Files: all ranks write or read one file, each its blocks, which alternate in the file. The file is on a file system in
 * memory if there is one, so that the calls are measured and not a disk. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;

    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fail("%s: %s", what, text);
}

/* call=write_all, read_all, write, read; block=bytes of a block; bytes=those of each rank. A value is the time of one call of all
 * ranks, with the barrier after it. */
void io(struct task *task)
{
    long block = task_number(task, "block", 64), bytes = task_number(task, "bytes", 1 << 20);
    int writes = task_is(task, "call", "write_all") || task_is(task, "call", "write");
    int together = task_is(task, "call", "write_all") || task_is(task, "call", "read_all");
    char path[256];
    char *data = buffer((size_t)bytes);
    int process = (int)getpid();
    MPI_Datatype contiguous, tile;
    MPI_File file;

    if (bytes % block)
        fail("%ld bytes are no whole number of blocks of %ld", bytes, block);
    MPI_Bcast(&process, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/weft-measure-io-%d", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", process);
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), "MPI_File_open");
    /* All have it open: from here on no file is left behind, however this process ends. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (task->rank == 0 && unlink(path))
        fail("%s cannot be removed", path);
    MPI_Type_contiguous((int)block, MPI_CHAR, &contiguous);
    MPI_Type_create_resized(contiguous, 0, (MPI_Aint)block * task->ranks, &tile);
    MPI_Type_commit(&tile);
    check(MPI_File_set_view(file, (MPI_Offset)block * task->rank, MPI_CHAR, tile, "native", MPI_INFO_NULL),
          "MPI_File_set_view");
    /* Once with known data, read in another way than they were written. */
    pattern_fill(data, (size_t)bytes, (unsigned)task->rank);
    if (together)
        check(MPI_File_write_at_all(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE), "write");
    else
        check(MPI_File_write_at(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE), "write");
    MPI_Barrier(MPI_COMM_WORLD);
    memset(data, 0, (size_t)bytes);
    if (together)
        check(MPI_File_read_at(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE), "read");
    else
        check(MPI_File_read_at_all(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE), "read");
    pattern_check(data, (size_t)bytes, (unsigned)task->rank, "file");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int sample = -1; sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup + 1 : task->iterations;
        double start = now();
        for (int index = 0; index < count; index++) {
            int code;
            if (writes && together)
                code = MPI_File_write_at_all(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE);
            else if (writes)
                code = MPI_File_write_at(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE);
            else if (together)
                code = MPI_File_read_at_all(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE);
            else
                code = MPI_File_read_at(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE);
            check(code, "access");
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (sample >= 0 && task->rank == 0)
            task->values[sample] = (now() - start) / task->iterations;
    }
    MPI_File_close(&file);
    MPI_Type_free(&contiguous);
    MPI_Type_free(&tile);
    free(data);
}
