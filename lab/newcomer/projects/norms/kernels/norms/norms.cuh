#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

// The sum or the largest value of a block's threads, in all of them.
template <int THREADS, typename T, typename Op>
__device__ T of_block(T value, Op op)
{
    __shared__ T parts[THREADS / 32];
    const auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    value = cg::reduce(warp, value, op);
    block.sync(); // the last call's parts have been read
    if (warp.thread_rank() == 0) {
        parts[threadIdx.x / 32] = value;
    }
    block.sync();
    value = parts[0];
    for (int at = 1; at < THREADS / 32; ++at) {
        value = op(value, parts[at]);
    }
    return value;
}
