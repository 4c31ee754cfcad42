// vectorized: a 64 x 64 tile, float4 on both sides of global memory.
//
// Against smem_pad a memory instruction carries 16 bytes, not 4, and a thread has four of them in flight: the largest
// step towards the roof. Shared memory is still accessed float by float, padded to 65: a float4 cannot run along the
// tile's rows on the way in and along its columns on the way out. Tiles that reach over the edge, and
// matrices whose rows are not 16-byte aligned, go float by float.

#include "../common/tile64.cuh"

extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    vectorized(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    __shared__ float tile[TILE][TILE + 1];
    const int tile_x = blockIdx.x;
    const int tile_y = blockIdx.y;
    if (!moves_in_float4(out, in, nx, ny, tile_x, tile_y)) {
        transpose_ragged_tile(out, in, nx, ny, tile_x, tile_y, &tile[0][0]);
        return;
    }
    const int quad = threadIdx.x % QUADS * 4;
    const int first = threadIdx.x / QUADS;
    constexpr int step = TILE_THREADS / QUADS;
    const float* source = in + (size_t)(tile_y * TILE) * nx + tile_x * TILE + quad;
#pragma unroll
    for (int i = 0; i < TILE; i += step) {
        const int row = first + i;
        const float4 value = *reinterpret_cast<const float4*>(source + (size_t)row * nx);
        tile[row][quad + 0] = value.x;
        tile[row][quad + 1] = value.y;
        tile[row][quad + 2] = value.z;
        tile[row][quad + 3] = value.w;
    }
    __syncthreads();
    // A float4* from here on: computed as float* in the loop, the stores come out of the compiler in four pieces each.
    float4* target = reinterpret_cast<float4*>(out + (size_t)(tile_x * TILE) * ny + tile_y * TILE + quad);
#pragma unroll
    for (int i = 0; i < TILE; i += step) {
        const int column = first + i;
        target[(size_t)column * (ny / 4)] =
            make_float4(tile[quad + 0][column], tile[quad + 1][column], tile[quad + 2][column], tile[quad + 3][column]);
    }
}
