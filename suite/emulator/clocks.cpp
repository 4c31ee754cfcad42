// What the threads of a block know of one another: vector clocks, one row a thread. A barrier of the whole block needs
// none, for it ends an epoch.
#include "runtime.h"

#include <string.h>

namespace peakgate {
namespace {

constexpr int PADDING = 16; // or the rows would compete for the same few cache sets
uint32_t clocks[MAX_THREADS][MAX_THREADS + PADDING];
int used_rows; // the first so many may not be zero

int first_of_warp(int thread) { return thread - thread % WARP; }

} // namespace

void use_clock_of(int thread) { state.known = clocks[thread]; }

void begin_block_of_clocks() {
    for (int i = 0; i < state.thread_count; ++i) state.threads[i].stamp = 0;
    for (int i = 0; i < used_rows; ++i) {
        if (state.crossed)
            memset(clocks[i], 0, sizeof clocks[i]);
        else // only its own warp's have been in use
            memset(&clocks[i][first_of_warp(i)], 0, WARP * sizeof(uint32_t));
    }
    state.crossed = false;
    used_rows = 0;
}

void threads_met(const int* threads, int count) {
    used_rows = state.thread_count;
    const int warp = first_of_warp(threads[0]);
    bool within_warp = true;
    for (int i = 0; i < count; ++i) within_warp &= first_of_warp(threads[i]) == warp;
    state.crossed |= !within_warp;
    const int begin = state.crossed ? 0 : warp;
    const int columns = state.crossed ? state.thread_count : WARP;
    uint32_t joined[MAX_THREADS];
    memcpy(joined, &clocks[threads[0]][begin], static_cast<size_t>(columns) * sizeof *joined);
    // Of the threads that met, each knows best about itself: where a whole warp has met, that is all there is to know.
    if (state.crossed || count < WARP) {
        for (int i = 1; i < count; ++i) {
            const uint32_t* row = &clocks[threads[i]][begin];
            for (int column = 0; column < columns; ++column)
                joined[column] = row[column] > joined[column] ? row[column] : joined[column];
        }
    }
    for (int i = 0; i < count; ++i) joined[threads[i] - begin] = ++state.threads[threads[i]].stamp;
    for (int i = 0; i < count; ++i)
        memcpy(&clocks[threads[i]][begin], joined, static_cast<size_t>(columns) * sizeof *joined);
}

void publish_to(uint32_t* known) {
    const int self = state.current;
    state.crossed = true;
    used_rows = state.thread_count;
    clocks[self][self] = ++state.threads[self].stamp;
    for (int i = 0; i < state.thread_count; ++i) known[i] = clocks[self][i] > known[i] ? clocks[self][i] : known[i];
}

void acquire_from(const uint32_t* known) {
    used_rows = state.thread_count;
    uint32_t* own = clocks[state.current];
    for (int i = 0; i < state.thread_count; ++i) own[i] = known[i] > own[i] ? known[i] : own[i];
}

} // namespace peakgate
