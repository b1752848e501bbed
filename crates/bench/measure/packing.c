/* Data with gaps: MPI_Pack and MPI_Unpack beside a loop written by hand, and messages of such data.
 *
 * shape=vector     pieces, as much room between them as they are long
 * shape=nested     rows of four such pieces, with as much room between the rows as they are long: a vector of vectors
 * shape=structs    elements of two pieces, one twice as long as the other, and gaps of one piece: a vector of structs
 * shape=indexed    pieces at displacements without any rule: blocks of equal length */
#include "measure.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROW 4
#define TAG 1

enum shape { VECTOR, NESTED, STRUCTS, INDEXED };

struct gaps {
    enum shape shape;
    size_t piece;       /* bytes */
    size_t pieces;      /* all of them; of structs, elements */
    size_t packed;      /* bytes of data */
    size_t length;      /* bytes of memory that they and their gaps take */
    int *displacements; /* indexed: in bytes */
    MPI_Datatype type;
};

static void shape_of(struct gaps *gaps, const struct task *task)
{
    size_t size = (size_t)task_number(task, "size", 1 << 20), piece = (size_t)task_number(task, "piece", 8);
    gaps->piece = piece;
    if (task_is(task, "shape", "nested")) {
        MPI_Datatype row;
        gaps->shape = NESTED;
        gaps->pieces = size / piece / ROW * ROW;
        gaps->length = gaps->pieces * piece * 4;
        MPI_Type_vector(ROW, (int)piece, (int)piece * 2, MPI_BYTE, &row);
        MPI_Type_create_hvector((int)gaps->pieces / ROW, 1, (MPI_Aint)(piece * 4 * ROW), row, &gaps->type);
        MPI_Type_free(&row);
    } else if (task_is(task, "shape", "structs")) {
        int blocks[2] = {(int)piece, (int)piece * 2};
        MPI_Aint displacements[2] = {0, (MPI_Aint)piece * 2};
        MPI_Datatype types[2] = {MPI_BYTE, MPI_BYTE}, one;
        gaps->shape = STRUCTS;
        gaps->pieces = size / piece / 3;
        gaps->length = gaps->pieces * piece * 5;
        MPI_Type_create_struct(2, blocks, displacements, types, &one);
        MPI_Type_create_hvector((int)gaps->pieces, 1, (MPI_Aint)piece * 5, one, &gaps->type);
        MPI_Type_free(&one);
    } else if (task_is(task, "shape", "indexed")) {
        uint64_t state = 88172645463325252u;
        size_t at = 0;
        gaps->shape = INDEXED;
        gaps->pieces = size / piece;
        gaps->displacements = malloc(gaps->pieces * sizeof *gaps->displacements);
        if (!gaps->displacements)
            fail("no memory for %zu displacements", gaps->pieces);
        for (size_t index = 0; index < gaps->pieces; index++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            at += 1 + state % (piece * 2);
            gaps->displacements[index] = (int)at;
            at += piece;
        }
        gaps->length = at;
        MPI_Type_create_indexed_block((int)gaps->pieces, (int)piece, gaps->displacements, MPI_BYTE, &gaps->type);
    } else {
        gaps->shape = VECTOR;
        gaps->pieces = size / piece;
        gaps->length = gaps->pieces * piece * 2;
        MPI_Type_vector((int)gaps->pieces, (int)piece, (int)piece * 2, MPI_BYTE, &gaps->type);
    }
    gaps->packed = gaps->pieces * piece * (gaps->shape == STRUCTS ? 3 : 1);
    MPI_Type_commit(&gaps->type);
}

static void end(struct gaps *gaps)
{
    MPI_Type_free(&gaps->type);
    free(gaps->displacements);
}

/* The loops that a program would write that knows how long its pieces are: packing if `there`, else unpacking. */
#define MOVE(bytes, there, packed, memory) \
    ((there) ? memcpy(packed, memory, bytes) : memcpy(memory, packed, bytes))
#define LOOPS(bytes)                                                                                         \
    static inline void loop_##bytes(const struct gaps *gaps, char *memory, char *packed, const int there)    \
    {                                                                                                        \
        switch (gaps->shape) {                                                                               \
        case VECTOR:                                                                                         \
            for (size_t index = 0; index < gaps->pieces; index++, packed += bytes, memory += bytes * 2)      \
                MOVE(bytes, there, packed, memory);                                                          \
            break;                                                                                           \
        case NESTED:                                                                                         \
            for (size_t row = 0; row < gaps->pieces / ROW; row++, memory += bytes * 4 * ROW)                 \
                for (size_t index = 0; index < ROW; index++, packed += bytes)                                \
                    MOVE(bytes, there, packed, memory + index * bytes * 2);                                  \
            break;                                                                                           \
        case STRUCTS:                                                                                        \
            for (size_t index = 0; index < gaps->pieces; index++, packed += bytes * 3, memory += bytes * 5) { \
                MOVE(bytes, there, packed, memory);                                                          \
                MOVE(bytes * 2, there, packed + bytes, memory + bytes * 2);                                  \
            }                                                                                                \
            break;                                                                                           \
        case INDEXED:                                                                                        \
            for (size_t index = 0; index < gaps->pieces; index++, packed += bytes)                           \
                MOVE(bytes, there, packed, memory + gaps->displacements[index]);                             \
            break;                                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    __attribute__((noinline)) static void pack_##bytes(const struct gaps *gaps, char *memory, char *packed)   \
    {                                                                                                        \
        loop_##bytes(gaps, memory, packed, 1);                                                               \
    }                                                                                                        \
    __attribute__((noinline)) static void unpack_##bytes(const struct gaps *gaps, char *memory, char *packed) \
    {                                                                                                        \
        loop_##bytes(gaps, memory, packed, 0);                                                               \
    }
#define TEN(each, tens) \
    each(tens##0) each(tens##1) each(tens##2) each(tens##3) each(tens##4) each(tens##5) each(tens##6) each(tens##7) each(tens##8) \
        each(tens##9)
#define UP_TO_NINE(each) each(1) each(2) each(3) each(4) each(5) each(6) each(7) each(8) each(9)
#define UP_TO_64(each) \
    UP_TO_NINE(each) TEN(each, 1) TEN(each, 2) TEN(each, 3) TEN(each, 4) TEN(each, 5) each(60) each(61) each(62) each(63) each(64)
#define ALL(each) UP_TO_64(each) each(128) each(512) each(4096)
ALL(LOOPS)

typedef void loop(const struct gaps *gaps, char *memory, char *packed);

static const struct {
    size_t bytes;
    loop *pack, *unpack;
} loops[] = {
#define ROWS(bytes) {bytes, pack_##bytes, unpack_##bytes},
    ALL(ROWS)
};

static loop *by_hand(const struct gaps *gaps, int there)
{
    for (size_t index = 0; index < sizeof loops / sizeof *loops; index++)
        if (loops[index].bytes == gaps->piece)
            return there ? loops[index].pack : loops[index].unpack;
    fail("there is no loop for pieces of %zu bytes", gaps->piece);
}

/* way=pack or way=unpack; by=hand or by=mpi. The result of MPI is compared with that of the loop first. */
void packing(struct task *task)
{
    struct gaps gaps = {0};
    int there = task_is(task, "way", "pack"), hand = task_is(task, "by", "hand"), position;
    shape_of(&gaps, task);
    loop *loop = by_hand(&gaps, there);
    char *memory = buffer(gaps.length), *packed = buffer(gaps.packed);
    char *other = buffer(there ? gaps.packed : gaps.length);

    for (int sample = -2; sample < task->samples && task->rank == 0; sample++) {
        int count = sample == -2 ? 1 : sample < 0 ? task->warmup : task->iterations;
        char *into = sample == -2 ? other : there ? packed : memory;
        if (sample == -2)
            pattern_fill(there ? memory : packed, there ? gaps.length : gaps.packed, 1);
        double start = now();
        for (int index = 0; index < count; index++) {
            position = 0;
            if (hand && there)
                loop(&gaps, memory, into);
            else if (hand)
                loop(&gaps, into, packed);
            else if (there)
                MPI_Pack(memory, 1, gaps.type, into, (int)gaps.packed, &position, MPI_COMM_SELF);
            else
                MPI_Unpack(packed, (int)gaps.packed, &position, into, 1, gaps.type, MPI_COMM_SELF);
        }
        if (sample >= 0)
            task->values[sample] = (now() - start) / count;
        if (sample == -2) {
            loop(&gaps, memory, packed);
            if (memcmp(there ? packed : memory, other, there ? gaps.packed : gaps.length))
                fail("%s: the data are not those of the loop: %s", there ? "MPI_Pack" : "MPI_Unpack", task->request);
        }
    }
    free(memory);
    free(packed);
    free(other);
    end(&gaps);
}

/* A message of such data there and back between two ranks; a value is half of that. flat=1: the receiver's have none. */
void gaps(struct task *task)
{
    struct gaps gaps = {0};
    shape_of(&gaps, task);
    char *memory = buffer(gaps.length), *packed = buffer(gaps.packed);
    int flat = (int)task_number(task, "flat", 0), peer = 1 - task->rank;
    MPI_Datatype in = flat ? MPI_BYTE : gaps.type;
    char *into = flat ? packed : memory;
    int count = flat ? (int)gaps.packed : 1;

    if (task->ranks != 2)
        fail("two ranks are needed: %s", task->request);
    for (int sample = -1; sample < task->samples; sample++) {
        int turns = sample < 0 ? task->warmup : task->iterations;
        double start = now();
        for (int index = 0; index < turns; index++) {
            if (task->rank == 0)
                MPI_Send(memory, 1, gaps.type, peer, TAG, MPI_COMM_WORLD);
            MPI_Recv(into, count, in, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (task->rank == 1)
                MPI_Send(memory, 1, gaps.type, peer, TAG, MPI_COMM_WORLD);
        }
        if (sample >= 0 && task->rank == 0)
            task->values[sample] = (now() - start) / task->iterations / 2;
    }
    free(memory);
    free(packed);
    end(&gaps);
}
