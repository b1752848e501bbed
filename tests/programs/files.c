/* Files: opening and its errors, views, the three kinds of pointers, collective, non-blocking and split access,
 * representations, large offsets, error handlers. Arguments: a folder; and "full" if its file system is nearly full. */
#include "check.h"

#define NAME 4096
static char path[NAME];
static MPI_File file;

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static int open_as(int mode) {
    return class_of(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
}

static void reopen(int mode) { CHECK(open_as(mode) == MPI_SUCCESS); }

static void close_file(void) {
    char text[MPI_MAX_ERROR_STRING];
    int code = MPI_File_close(&file), length;
    MPI_Error_string(code, text, &length);
    if (code != MPI_SUCCESS) fprintf(stderr, "MPI_File_close: %s\n", text);
    CHECK(code == MPI_SUCCESS);
    CHECK(file == MPI_FILE_NULL);
}

static void opening(void) {
    int mode, code;
    char text[MPI_MAX_ERROR_STRING];
    CHECK(open_as(MPI_MODE_RDWR) == MPI_ERR_NO_SUCH_FILE && file == MPI_FILE_NULL);
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_Error_string(code, text, &mode);
    CHECK(strstr(text, path) != NULL);
    CHECK(open_as(0) == MPI_ERR_AMODE);
    CHECK(open_as(1 << 20) == MPI_ERR_AMODE);
    CHECK(open_as(MPI_MODE_RDWR | MPI_MODE_WRONLY) == MPI_ERR_AMODE);
    CHECK(open_as(MPI_MODE_RDONLY | MPI_MODE_CREATE) == MPI_ERR_AMODE);
    CHECK(open_as(MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL) == MPI_ERR_AMODE);
    reopen(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL);
    MPI_File_get_amode(file, &mode);
    CHECK(mode == (MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL));
    close_file();
    CHECK(open_as(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL) == MPI_ERR_FILE_EXISTS);
    if (check_size > 1) {
        mode = check_rank == 1 ? MPI_MODE_RDONLY : MPI_MODE_RDWR;
        CHECK(open_as(mode) == MPI_ERR_NOT_SAME);
    }
    reopen(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    close_file();
    CHECK(class_of(MPI_File_delete(path, MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE || check_rank > 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void modes(void) {
    char byte = 0;
    MPI_Offset offset;
    reopen(MPI_MODE_WRONLY | MPI_MODE_CREATE);
    CHECK(class_of(MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE)) == MPI_ERR_ACCESS);
    close_file();
    reopen(MPI_MODE_RDONLY);
    CHECK(class_of(MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE)) == MPI_ERR_READ_ONLY);
    CHECK(class_of(MPI_File_write_at_all(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE)) == MPI_ERR_READ_ONLY);
    CHECK(class_of(MPI_File_set_size(file, 10)) == MPI_ERR_READ_ONLY);
    close_file();
    reopen(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    CHECK(class_of(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE)) == MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(class_of(MPI_File_get_position(file, &offset)) == MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(MPI_File_write_shared(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    close_file();
    reopen(MPI_MODE_RDWR | MPI_MODE_APPEND);
    MPI_File_get_position(file, &offset);
    CHECK(offset == check_size);
    MPI_File_get_position_shared(file, &offset);
    CHECK(offset == check_size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_size(file, 0);
    close_file();
}

/* Blocks of `block` ints in turn, by each kind of call. */
static void interleaved(int block, int blocks) {
    int count = block * blocks, got, *out = malloc(count * sizeof(int)), *in = malloc(count * sizeof(int));
    MPI_Datatype tile, filetype;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset offset;
    MPI_Type_contiguous(block, MPI_INT, &tile);
    MPI_Type_create_resized(tile, 0, (MPI_Aint)block * check_size * sizeof(int), &filetype);
    MPI_Type_commit(&filetype);
    for (int kind = 0; kind < 6; kind++) {
        reopen(MPI_MODE_RDWR | MPI_MODE_CREATE);
        MPI_File_set_size(file, 0);
        CHECK(MPI_File_set_view(file, (MPI_Offset)check_rank * block * sizeof(int), MPI_INT, filetype, "native",
                                MPI_INFO_NULL) == MPI_SUCCESS);
        for (int i = 0; i < count; i++) out[i] = check_rank * 1000003 + i + kind;
        memset(in, 0, count * sizeof(int));
        switch (kind) {
        case 0: MPI_File_write_all(file, out, count, MPI_INT, &status); break;
        case 1: MPI_File_write_at(file, 0, out, count, MPI_INT, &status); break;
        case 2: MPI_File_iwrite_all(file, out, count, MPI_INT, &request); MPI_Wait(&request, &status); break;
        case 3: MPI_File_iwrite(file, out, count, MPI_INT, &request); MPI_Wait(&request, &status); break;
        case 4:
            CHECK(MPI_File_write_at_all_begin(file, 0, out, count, MPI_INT) == MPI_SUCCESS);
            CHECK(class_of(MPI_File_write_all_begin(file, out, count, MPI_INT)) == MPI_ERR_IO);
            CHECK(MPI_File_write_at_all_end(file, out, &status) == MPI_SUCCESS);
            break;
        default: MPI_File_iwrite_at_all(file, 0, out, count, MPI_INT, &request); MPI_Wait(&request, &status);
        }
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK(got == count);
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_get_size(file, &offset);
        CHECK(offset == (MPI_Offset)count * check_size * (MPI_Offset)sizeof(int));
        MPI_File_get_byte_offset(file, block, &offset);
        CHECK(offset == (MPI_Offset)(check_size + check_rank) * block * (MPI_Offset)sizeof(int));
        MPI_File_seek(file, 0, MPI_SEEK_END);
        MPI_File_get_position(file, &offset);
        CHECK(offset == count);
        MPI_File_seek(file, 0, MPI_SEEK_SET);
        if (kind % 2)
            MPI_File_read_all(file, in, count, MPI_INT, &status);
        else
            MPI_File_read(file, in, count, MPI_INT, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK(got == count && memcmp(in, out, count * sizeof(int)) == 0);
        MPI_File_read_all(file, in, count, MPI_INT, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK(got == 0);
        close_file();
    }
    MPI_Type_free(&tile);
    MPI_Type_free(&filetype);
    free(out);
    free(in);
}

static void shared(void) {
    enum { TURNS = 20 };
    int mine[2] = {check_rank, 0}, all[2 * TURNS * 64], seen[64] = {0}, got;
    MPI_Offset offset;
    MPI_Status status;
    MPI_Request request;
    reopen(MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_File_set_size(file, 0);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        mine[1] = turn;
        if (turn % 2) {
            CHECK(MPI_File_write_shared(file, mine, 2, MPI_INT, &status) == MPI_SUCCESS);
        } else {
            MPI_File_iwrite_shared(file, mine, 2, MPI_INT, &request);
            MPI_Wait(&request, &status);
        }
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK(got == 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &offset);
    CHECK(offset == 2 * TURNS * check_size);
    MPI_File_read_at_all(file, 0, all, 2 * TURNS * check_size, MPI_INT, &status);
    for (int i = 0; i < TURNS * check_size; i++) {
        CHECK(all[2 * i] >= 0 && all[2 * i] < check_size);
        CHECK(all[2 * i + 1] == seen[all[2 * i]]++);
    }
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    /* In the order of ranks, each as many ints as its rank and one. */
    for (int i = 0; i <= check_rank; i++) all[i] = check_rank * 100 + i;
    MPI_File_write_ordered(file, all, check_rank + 1, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK(got == check_rank + 1);
    MPI_File_get_position_shared(file, &offset);
    CHECK(offset == check_size * (check_size + 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    memset(all, 0, sizeof all);
    MPI_File_read_ordered_begin(file, all, check_rank + 1, MPI_INT);
    MPI_File_read_ordered_end(file, all, &status);
    for (int i = 0; i <= check_rank; i++) CHECK(all[i] == check_rank * 100 + i);
    if (check_size > 1) CHECK(class_of(MPI_File_seek_shared(file, check_rank, MPI_SEEK_SET)) == MPI_ERR_NOT_SAME);
    close_file();
}

static void far_away(void) {
    long long value = check_rank + 77, got = 0;
    MPI_Offset place = ((MPI_Offset)5 << 30) + check_rank * 8, size;
    reopen(MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_File_write_at_all(file, place, &value, 1, MPI_LONG_LONG, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_File_read_at(file, place, &got, 1, MPI_LONG_LONG, MPI_STATUS_IGNORE);
    CHECK(got == value);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &size);
    CHECK(size == ((MPI_Offset)5 << 30) + check_size * 8);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_size(file, 0);
    CHECK(class_of(MPI_File_write_at(file, -1, &value, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_File_seek(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG);
    close_file();
}

static int conversions = 0;

static int to_file(void *user, MPI_Datatype type, int count, void *there, MPI_Offset position, void *state) {
    CHECK(type == MPI_INT && position == 0 && state == &conversions);
    for (int i = 0; i < count; i++) ((long long *)there)[i] = ((int *)user)[i] * 3LL;
    conversions++;
    return MPI_SUCCESS;
}

static int from_file(void *user, MPI_Datatype type, int count, void *there, MPI_Offset position, void *state) {
    CHECK(type == MPI_INT && position == 0 && state == &conversions);
    for (int i = 0; i < count; i++) ((int *)user)[i] = (int)(((long long *)there)[i] / 3);
    return MPI_SUCCESS;
}

static int extent(MPI_Datatype type, MPI_Aint *size, void *state) {
    int bytes;
    (void)state;
    MPI_Type_size(type, &bytes);
    *size = 2 * bytes;
    return MPI_SUCCESS;
}

static void representations(void) {
    int out[10], in[10], got;
    long long raw[10];
    MPI_Aint wide;
    MPI_Status status;
    CHECK(MPI_Register_datarep("weft-threefold", from_file, to_file, extent, &conversions) == MPI_SUCCESS);
    CHECK(class_of(MPI_Register_datarep("weft-threefold", from_file, to_file, extent, NULL)) == MPI_ERR_DUP_DATAREP);
    for (int i = 0; i < 10; i++) out[i] = check_rank * 10 + i;
    reopen(MPI_MODE_RDWR | MPI_MODE_CREATE);
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nothing", MPI_INFO_NULL)) == MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "weft-threefold", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_File_get_type_extent(file, MPI_INT, &wide);
    CHECK(wide == 8);
    CHECK(MPI_File_write_at_all(file, check_rank * 10, out, 10, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(conversions == 1);
    MPI_File_read_at_all(file, check_rank * 10, in, 10, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK(got == 10 && memcmp(in, out, sizeof in) == 0);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, check_rank * 80, raw, 80, MPI_BYTE, &status);
    for (int i = 0; i < 10; i++) CHECK(raw[i] == 3LL * out[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
    MPI_File_write_at_all(file, check_rank * 10, out, 10, MPI_INT, &status);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    unsigned char bytes[4];
    MPI_File_read_at(file, check_rank * 40 + 36, bytes, 4, MPI_BYTE, &status);
    CHECK(bytes[3] == out[9] && bytes[0] == 0);
    close_file();
}

static int handled = 0;

static void handler(MPI_File *which, int *code, ...) {
    CHECK(*which == file);
    handled = class_of(*code);
}

static void handlers(void) {
    MPI_Errhandler mine, other;
    char byte;
    MPI_Request request;
    reopen(MPI_MODE_WRONLY | MPI_MODE_CREATE);
    MPI_File_get_errhandler(file, &other);
    CHECK(other == MPI_ERRORS_RETURN);
    MPI_File_create_errhandler(handler, &mine);
    MPI_File_set_errhandler(file, mine);
    MPI_Errhandler_free(&mine);
    MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(handled == MPI_ERR_ACCESS);
    MPI_File_call_errhandler(file, MPI_ERR_OTHER);
    CHECK(handled == MPI_ERR_OTHER);
    /* The error of a request goes to the handler of its file. */
    MPI_File_iread_at_all(file, 0, &byte, 1, MPI_BYTE, &request);
    handled = 0;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(handled == MPI_ERR_ACCESS);
    close_file();
}

static void atomic(void) {
    int out[100], in[100], flag;
    reopen(MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_File_set_size(file, 0);
    CHECK(MPI_File_set_atomicity(file, 1) == MPI_SUCCESS);
    MPI_File_get_atomicity(file, &flag);
    CHECK(flag);
    for (int turn = 0; turn < 50; turn++) {
        for (int i = 0; i < 100; i++) out[i] = check_rank * 1000 + turn;
        MPI_File_write_at(file, 0, out, 100, MPI_INT, MPI_STATUS_IGNORE);
        MPI_File_read_at(file, 0, in, 100, MPI_INT, MPI_STATUS_IGNORE);
        for (int i = 1; i < 100; i++) CHECK(in[i] == in[0]);
    }
    close_file();
}

/* Each rank writes by itself, at the same time as the others, small blocks that lie in the gaps of the others'; on even turns with the
 * hint that each block is written by itself. */
static void gaps(void) {
    enum { BLOCK = 16, COUNT = 2000 };
    char *out = malloc(BLOCK * COUNT), *in = malloc(BLOCK * COUNT * (size_t)check_size);
    char *hints[] = {"disable", "automatic"};
    MPI_Datatype tile, filetype;
    MPI_Info info;
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &tile);
    MPI_Type_create_resized(tile, 0, BLOCK * check_size, &filetype);
    MPI_Type_commit(&filetype);
    reopen(MPI_MODE_RDWR | MPI_MODE_CREATE);
    for (int turn = 0; turn < 10; turn++) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "romio_ds_write", hints[turn % 2]);
        MPI_Info_set(info, "ind_wr_buffer_size", turn < 5 ? "4096" : "1048576");
        MPI_File_set_view(file, BLOCK * check_rank, MPI_BYTE, filetype, "native", info);
        MPI_Info_free(&info);
        memset(out, 1 + check_rank + turn * check_size, BLOCK * COUNT);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(MPI_File_write_at(file, 0, out, BLOCK * COUNT, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
        MPI_File_read_at(file, 0, in, BLOCK * COUNT * check_size, MPI_BYTE, MPI_STATUS_IGNORE);
        int wrong = 0;
        for (int i = 0; i < BLOCK * COUNT * check_size; i++)
            wrong += in[i] != (char)(1 + i / BLOCK % check_size + turn * check_size);
        CHECK(wrong == 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    close_file();
    MPI_Type_free(&tile);
    MPI_Type_free(&filetype);
    free(out);
    free(in);
}

/* The rank whose argument is wrong gets its class, and so do the others, who learn whose it was and which. */
static void expect_refusal(int code, int class, const char *argument) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    if (class_of(code) != class) fprintf(stderr, "expected class %d: %s\n", class, text);
    CHECK(class_of(code) == class);
    CHECK(strstr(text, argument) != NULL);
    if (check_rank != check_size - 1) {
        char whose[32];
        snprintf(whose, sizeof whose, "rank %d of the file", check_size - 1);
        CHECK(strstr(text, whose) != NULL);
    }
}

static void wrong_at_one_rank(void) {
    int wrong = check_rank == check_size - 1, buffer[4] = {0}, count = wrong ? -1 : 4, code;
    MPI_Datatype type = wrong ? MPI_DATATYPE_NULL : MPI_INT;
    MPI_Request request;
    MPI_Status status;
    code = MPI_File_open(MPI_COMM_WORLD, wrong ? NULL : path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    expect_refusal(code, MPI_ERR_ARG, "filename");
    code = MPI_File_open(MPI_COMM_WORLD, path, wrong ? 1 << 20 : MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    expect_refusal(code, MPI_ERR_AMODE, "");
    reopen(MPI_MODE_RDWR | MPI_MODE_CREATE);
    expect_refusal(MPI_File_set_view(file, 0, type, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_TYPE, "etype");
    expect_refusal(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE, "filetype");
    expect_refusal(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, wrong ? NULL : "native", MPI_INFO_NULL), MPI_ERR_ARG, "datarep");
    expect_refusal(MPI_File_set_view(file, wrong ? -7 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG, "displacement");
    expect_refusal(MPI_File_set_size(file, wrong ? -1 : 100), MPI_ERR_ARG, "size");
    expect_refusal(MPI_File_preallocate(file, wrong ? -1 : 100), MPI_ERR_ARG, "size");
    expect_refusal(MPI_File_write_at_all(file, 0, buffer, count, MPI_INT, &status), MPI_ERR_COUNT, "count");
    expect_refusal(MPI_File_write_at_all(file, 0, buffer, 4, type, &status), MPI_ERR_TYPE, "datatype");
    expect_refusal(MPI_File_read_all(file, buffer, count, MPI_INT, &status), MPI_ERR_COUNT, "count");
    expect_refusal(MPI_File_write_ordered(file, buffer, count, MPI_INT, &status), MPI_ERR_COUNT, "count");
    expect_refusal(MPI_File_write_at_all(file, wrong ? -1 : 0, buffer, 4, MPI_INT, &status), MPI_ERR_ARG, "");
    /* Non-blocking calls: the rank itself gets the error at once, the others at the end. */
    code = MPI_File_iwrite_at_all(file, 0, buffer, count, MPI_INT, &request);
    if (!wrong) code = MPI_Wait(&request, &status);
    expect_refusal(code, MPI_ERR_COUNT, "count");
    code = MPI_File_read_all_begin(file, buffer, 4, type);
    if (!wrong) code = MPI_File_read_all_end(file, buffer, &status);
    expect_refusal(code, MPI_ERR_TYPE, "datatype");
    /* All at once are refused while a split access is under way, one alone is not. */
    MPI_File_write_at_all_begin(file, 0, buffer, 4, MPI_INT);
    CHECK(class_of(MPI_File_read_at_all(file, 0, buffer, 1, MPI_INT, &status)) == MPI_ERR_IO);
    CHECK(MPI_File_read_at(file, 0, buffer, 1, MPI_INT, &status) == MPI_SUCCESS);
    MPI_File handle = file;
    CHECK(class_of(MPI_File_close(&file)) == MPI_ERR_IO && file == handle);
    CHECK(MPI_File_write_at_all_end(file, buffer, &status) == MPI_SUCCESS);
    /* Nothing of it is left. */
    CHECK(MPI_File_write_at_all(file, check_rank, &check_rank, 1, MPI_BYTE, &status) == MPI_SUCCESS);
    close_file();
}

/* On a file system of half a megabyte: data that do not fit are an error, at all ranks of a collective call. */
static void full(void) {
    enum { BYTES = 1 << 20 };
    char *data = calloc(1, BYTES);
    MPI_Request request;
    int code;
    reopen(MPI_MODE_WRONLY | MPI_MODE_CREATE);
    code = MPI_File_write_at_all(file, (MPI_Offset)check_rank * BYTES, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_NO_SPACE);
    MPI_Datatype tile, filetype;
    MPI_Type_contiguous(64, MPI_BYTE, &tile);
    MPI_Type_create_resized(tile, 0, 64 * check_size, &filetype);
    MPI_Type_commit(&filetype);
    MPI_File_set_view(file, 64 * check_rank, MPI_BYTE, filetype, "native", MPI_INFO_NULL);
    code = MPI_File_write_all(file, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_NO_SPACE);
    /* The request is never waited for: closing the file returns its error. */
    MPI_File_iwrite_at(file, 0, data, BYTES, MPI_BYTE, &request);
    MPI_Request_free(&request);
    code = MPI_File_close(&file);
    CHECK(class_of(code) == MPI_ERR_NO_SPACE && file == MPI_FILE_NULL);
    MPI_Type_free(&tile);
    MPI_Type_free(&filetype);
    free(data);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    CHECK(argc > 1);
    snprintf(path, NAME, "%s/weft-files", argv[1]);
    if (argc > 2) {
        full();
    } else {
        opening();
        modes();
        interleaved(3, 1000);
        interleaved(5000, 7);
        interleaved(20000, 2);
        shared();
        far_away();
        representations();
        handlers();
        atomic();
        wrong_at_one_rank();
        gaps();
        snprintf(path, NAME, "ufs:%s/weft-files", argv[1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) CHECK(MPI_File_delete(path, MPI_INFO_NULL) == MPI_SUCCESS);
    check_done("files");
    return 0;
}
