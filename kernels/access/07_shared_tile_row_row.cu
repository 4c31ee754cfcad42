// shared_tile_row_row: a block writes a tile in shared memory along rows and reads it along rows, without bank
// conflicts.
//
// A row of 32 floats is in 32 different banks, so both accesses are conflict-free. The detour through shared memory
// costs almost nothing: the other shared_tile stages are compared with this one. Expect the speed of a plain copy of
// one float per thread.

#ifndef TILE_X
#define TILE_X 32
#endif
#ifndef TILE_Y
#define TILE_Y 32
#endif
#ifndef PAD
#define PAD 0
#endif

extern "C" __global__ void shared_tile_row_row(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    __shared__ float tile[TILE_Y][TILE_X + PAD];
    const int thread = threadIdx.y * TILE_X + threadIdx.x;
    const size_t i = (size_t)blockIdx.x * (TILE_X * TILE_Y) + thread;
    tile[threadIdx.y][threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) {
        out[i] = tile[threadIdx.y][threadIdx.x];
    }
}
