// Blocks of a cooperative launch that wait for the grid: set aside with their shared memory, and taken up again.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {

bool suspend_block(Suspended& block, uint3 index, int alive) {
    const auto threads = static_cast<size_t>(state.thread_count);
    if (!block.threads) {
        block.threads = static_cast<Thread*>(malloc(threads * sizeof(Thread)));
        block.shared = static_cast<char*>(malloc(state.shared_size + shared_shadow_size()));
        if (!block.threads || !block.shared) return false;
    }
    block.index = index;
    block.alive = alive;
    block.shared_since = state.shared_since;
    memcpy(block.threads, state.threads, threads * sizeof(Thread));
    memcpy(block.shared, reinterpret_cast<const void*>(state.shared), state.shared_size);
    memcpy(block.shared + state.shared_size, shared_shadow_start(), shared_shadow_size());
    return true;
}

void resume_block(Suspended& block) {
    memcpy(state.threads, block.threads, static_cast<size_t>(state.thread_count) * sizeof(Thread));
    memcpy(reinterpret_cast<void*>(state.shared), block.shared, state.shared_size);
    memcpy(shared_shadow_start(), block.shared + state.shared_size, shared_shadow_size());
    state.shared_since = block.shared_since;
}

} // namespace peakgate
