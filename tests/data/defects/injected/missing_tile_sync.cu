#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void missing_tile_sync(float* out, const float* in, int n) {
    __shared__ float tile[64];
    const cg::thread_block block = cg::this_thread_block();
    tile[block.thread_rank()] = in[block.thread_rank()];
    cg::tiled_partition<32>(block).sync(); // not the whole block
    out[64 * blockIdx.x + block.thread_rank()] = tile[63 - block.thread_rank()]; // DEFECT: SHARED_RACE
}
