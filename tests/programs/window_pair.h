/* Two words at the beginning of the memory of each rank in a window, which are equal for the holder of its lock. */
#ifndef WEFT_WINDOW_PAIR_H
#define WEFT_WINDOW_PAIR_H
#include "check.h"

/* One more in both words, each read and written apart, under an exclusive lock. */
static inline void change_pair(int target, MPI_Win win) {
    long pair[2];
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    for (int word = 0; word < 2; word++) {
        MPI_Get(&pair[word], 1, MPI_LONG, target, word, 1, MPI_LONG, win);
        MPI_Win_flush(target, win);
        pair[word]++;
        MPI_Put(&pair[word], 1, MPI_LONG, target, word, 1, MPI_LONG, win);
        MPI_Win_flush(target, win);
    }
    MPI_Win_unlock(target, win);
    CHECK(pair[0] == pair[1]);
}
#endif
