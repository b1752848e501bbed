/*
 * Wrong calls on files.
 * says: place     files-calls.c:
 *
 * run: 1 no-file
 * exit: 42
 * says: call      MPI_File_open
 * says: class     MPI_ERR_NO_SUCH_FILE
 * says: could not open
 *
 * run: 1 no-mode
 * exit: 21
 * says: call      MPI_File_open
 * says: class     MPI_ERR_AMODE
 * says: the access mode says neither read nor write; give one of
 *
 * run: 1 two-modes
 * exit: 21
 * says: call      MPI_File_open
 * says: class     MPI_ERR_AMODE
 * says: the access mode has more than one of MPI_MODE_RDONLY,
 *
 * run: 1 read-create
 * exit: 21
 * says: call      MPI_File_open
 * says: class     MPI_ERR_AMODE
 * says: the access mode has MPI_MODE_CREATE or MPI_MODE_EXCL with
 *
 * run: 1 sequential
 * exit: 21
 * says: call      MPI_File_open
 * says: class     MPI_ERR_AMODE
 * says: the access mode has MPI_MODE_SEQUENTIAL with MPI_MODE_RDWR;
 *
 * run: 1 no-comm
 * exit: 5
 * says: call      MPI_File_open
 * says: class     MPI_ERR_COMM
 * says: argument  comm
 *
 * run: 1 delete-none
 * exit: 42
 * says: call      MPI_File_delete
 * says: class     MPI_ERR_NO_SUCH_FILE
 * says: could not remove
 *
 * run: 1 write-read-only
 * exit: 45
 * says: call      MPI_File_write
 * says: class     MPI_ERR_READ_ONLY
 * says: /dev/null is open for reading only; open it with M
 *
 * run: 1 read-write-only
 * exit: 20
 * says: call      MPI_File_read
 * says: class     MPI_ERR_ACCESS
 * says: /dev/null is open for writing only; open it with M
 *
 * run: 1 exclusive
 * exit: 28
 * says: call      MPI_File_open
 * says: class     MPI_ERR_FILE_EXISTS
 * says: could not open
 *
 * run: 1 seek-before
 * exit: 13
 * says: call      MPI_File_seek
 * says: class     MPI_ERR_ARG
 * says: a seek by -4 from etype 0 leads before the beginni
 *
 * run: 1 seek-how
 * exit: 13
 * says: call      MPI_File_seek
 * says: class     MPI_ERR_ARG
 * says: argument  whence
 *
 * run: 1 offset
 * exit: 13
 * says: call      MPI_File_read_at
 * says: class     MPI_ERR_ARG
 * says: no file has a place -
 *
 * run: 1 count
 * exit: 2
 * says: call      MPI_File_write
 * says: class     MPI_ERR_COUNT
 * says: argument  count
 *
 * run: 1 datatype
 * exit: 3
 * says: call      MPI_File_write
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 1 buffer
 * exit: 1
 * says: call      MPI_File_write
 * says: class     MPI_ERR_BUFFER
 * says: argument  buf
 *
 * run: 1 size
 * exit: 13
 * says: call      MPI_File_set_size
 * says: class     MPI_ERR_ARG
 * says: a size of -1 bytes; give at least 0
 *
 * run: 1 view-uncommitted
 * exit: 3
 * says: call      MPI_File_set_view
 * says: class     MPI_ERR_TYPE
 * says: etype or filetype is not committed; call MPI_Type_commit
 *
 * run: 1 view-etype
 * exit: 3
 * says: call      MPI_File_set_view
 * says: class     MPI_ERR_TYPE
 * says: a filetype with
 *
 * run: 1 view-representation
 * exit: 54
 * says: call      MPI_File_set_view
 * says: class     MPI_ERR_UNSUPPORTED_DATAREP
 * says: there is no data representation
 *
 * run: 1 view-place
 * exit: 13
 * says: call      MPI_File_set_view
 * says: class     MPI_ERR_ARG
 * says: a displacement of -
 *
 * run: 1 view-part
 * exit: 35
 * says: call      MPI_File_write
 * says: class     MPI_ERR_IO
 * says: 3 bytes are no whole number of etypes of 4 bytes;
 *
 * run: 1 split-twice
 * exit: 35
 * says: call      MPI_File_write_all_begin
 * says: class     MPI_ERR_IO
 * says: MPI_File_write_all_begin is under way on this file; a file
 *
 * run: 1 split-end
 * exit: 35
 * says: call      MPI_File_write_all_end
 * says: class     MPI_ERR_IO
 * says: MPI_File_write_all_end without its beginning on this
 *
 * run: 1 split-other
 * exit: 35
 * says: call      MPI_File_read_all_end
 * says: class     MPI_ERR_IO
 * says: MPI_File_read_all_end without its beginning on this
 *
 * run: 1 close-split
 * exit: 35
 * says: call      MPI_File_close
 * says: class     MPI_ERR_IO
 * says: MPI_File_close while a split collective access is under
 *
 * run: 1 closed
 * exit: 30
 * says: call      MPI_File_get_position
 * says: class     MPI_ERR_FILE
 * says: argument  fh
 *
 * run: 1 null
 * exit: 30
 * says: call      MPI_File_write
 * says: class     MPI_ERR_FILE
 * says: argument  fh
 *
 * run: 1 iwrite-count
 * exit: 2
 * says: call      MPI_File_iwrite
 * says: class     MPI_ERR_COUNT
 * says: argument  count
 *
 * run: 2 modes
 * exit: 40
 * says: call      MPI_File_open
 * says: class     MPI_ERR_NOT_SAME
 * says: open /dev/null with different access modes
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *wanted;
static int values[64];

static int is(const char *name) { return strcmp(wanted, name) == 0; }

/* One wrong call on a file, whose errors are fatal. */
int main(int argc, char **argv) {
    MPI_File file, second;
    MPI_Datatype type;
    MPI_Request request;
    MPI_Offset position;
    MPI_Status status;
    int rank, mode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    char name[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    wanted = argv[1];
    snprintf(name, sizeof name, "/tmp/weft-wrong-%d", (int)getpid());
    if (is("no-file")) MPI_File_open(MPI_COMM_SELF, "/nowhere/no-file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (is("no-mode")) MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    if (is("two-modes")) MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    if (is("read-create")) MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    if (is("sequential")) MPI_File_open(MPI_COMM_SELF, name, mode | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file);
    if (is("modes")) MPI_File_open(MPI_COMM_WORLD, "/dev/null", rank ? MPI_MODE_RDWR : MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (is("no-comm")) MPI_File_open(MPI_COMM_NULL, name, mode, MPI_INFO_NULL, &file);
    if (is("delete-none")) MPI_File_delete("/nowhere/no-file", MPI_INFO_NULL);
    if (is("write-read-only") || is("read-write-only")) {
        MPI_File_open(MPI_COMM_SELF, "/dev/null", is("write-read-only") ? MPI_MODE_RDONLY : MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
        MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
        if (is("write-read-only")) MPI_File_write(file, values, 1, MPI_INT, &status);
        else MPI_File_read(file, values, 1, MPI_INT, &status);
    }
    MPI_File_open(MPI_COMM_SELF, name, mode, MPI_INFO_NULL, &file);
    unlink(name);
    MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    if (is("exclusive")) MPI_File_open(MPI_COMM_SELF, "/dev/null", mode | MPI_MODE_EXCL, MPI_INFO_NULL, &second);
    if (is("seek-before")) MPI_File_seek(file, -4, MPI_SEEK_SET);
    if (is("seek-how")) MPI_File_seek(file, 0, 77);
    if (is("offset")) MPI_File_read_at(file, -8, values, 1, MPI_INT, &status);
    if (is("count")) MPI_File_write(file, values, -1, MPI_INT, &status);
    if (is("datatype")) MPI_File_write(file, values, 1, MPI_DATATYPE_NULL, &status);
    if (is("buffer")) MPI_File_write(file, NULL, 4, MPI_INT, &status);
    if (is("size")) MPI_File_set_size(file, -1);
    if (is("view-uncommitted")) { MPI_Type_contiguous(2, MPI_INT, &type); MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL); }
    if (is("view-etype")) { MPI_File_set_view(file, 0, MPI_INT, MPI_CHAR, "native", MPI_INFO_NULL); }
    if (is("view-representation")) MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nobody's", MPI_INFO_NULL);
    if (is("view-place")) MPI_File_set_view(file, -8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    if (is("view-part")) { MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL); MPI_File_write(file, values, 3, MPI_CHAR, &status); }
    if (is("split-twice")) { MPI_File_write_all_begin(file, values, 1, MPI_INT); MPI_File_write_all_begin(file, values, 1, MPI_INT); }
    if (is("split-end")) MPI_File_write_all_end(file, values, &status);
    if (is("split-other")) { MPI_File_write_all_begin(file, values, 1, MPI_INT); MPI_File_read_all_end(file, values, &status); }
    if (is("close-split")) { MPI_File_write_all_begin(file, values, 1, MPI_INT); MPI_File_close(&file); }
    if (is("closed")) { second = file; MPI_File_close(&file); MPI_File_get_position(second, &position); }
    if (is("null")) MPI_File_write(MPI_FILE_NULL, values, 1, MPI_INT, &status);
    if (is("iwrite-count")) MPI_File_iwrite(file, values, -3, MPI_INT, &request);
    MPI_File_close(&file);
    return 1;
}
