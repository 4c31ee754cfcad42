// vectorized: a 64 x 64 tile that is loaded and stored as float4, 16 bytes per memory instruction.
//
// Against smem_pad a memory instruction moves 16 bytes instead of 4, and a thread has four of them in flight: the
// largest step towards the roof. Shared memory is still accessed one float at a time, with rows padded to 65 floats,
// because a float4 cannot lie along a row of the tile when it is written and along a column when it is read. Tiles that
// reach over the edge, and matrices whose rows are not 16-byte aligned, are moved one float at a time.

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
    // A float4* from here on: if the loop computes the address as a float*, the compiler splits each store into four.
    float4* target = reinterpret_cast<float4*>(out + (size_t)(tile_x * TILE) * ny + tile_y * TILE + quad);
#pragma unroll
    for (int i = 0; i < TILE; i += step) {
        const int column = first + i;
        target[(size_t)column * (ny / 4)] =
            make_float4(tile[quad + 0][column], tile[quad + 1][column], tile[quad + 2][column], tile[quad + 3][column]);
    }
}
