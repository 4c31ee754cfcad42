// swizzled: vectorized with float4 in shared memory too.
//
// Each thread transposes a 4 x 4 block in registers, so shared memory is written and read in 16-byte pieces: 8 shared
// instructions per thread where vectorized has 32, each of those with a two-way bank conflict. Padding cannot make
// float4 free of conflicts in both directions without breaking its alignment; an XOR of the piece's index can, and
// takes no room. The memory side is unchanged, so the gain is what shared memory had cost.

#include "../common/swizzled_tile.cuh"

extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    swizzled(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    transpose_swizzled_tile<load_plain>(out, in, nx, ny, blockIdx.x, blockIdx.y);
}
