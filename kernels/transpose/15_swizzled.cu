// swizzled: vectorized with float4 accesses to shared memory too, made conflict-free by an XOR swizzle.
//
// Each thread transposes a 4 x 4 block in registers, so shared memory is written and read in 16-byte pieces: 8 shared
// memory instructions per thread, where vectorized has 32, each with a 2-way bank conflict. Padding cannot make float4
// accesses conflict-free in both directions without breaking their alignment; an XOR of the piece's index can, and
// needs no space. Accesses to global memory are unchanged, so the gain is what shared memory had cost.

#include "../common/swizzled_tile.cuh"

extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    swizzled(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    transpose_swizzled_tile<load_plain>(out, in, nx, ny, blockIdx.x, blockIdx.y);
}
