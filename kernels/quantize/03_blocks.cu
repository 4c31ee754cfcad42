// blocks: a scale for each 128 elements of a row, found by 16 lanes.
//
// Against registers an outlier spoils 128 elements, not a row, and nobody waits for anybody outside its half of a warp:
// no barrier, no limit to the length of a row, one vector for each thread. The scales are 4 bytes for 128 elements more.
// Expect the roof again.

#include "codes.cuh"

#ifndef KIND
#define KIND E4m3
#endif
#ifndef BLOCK
#define BLOCK 256
#endif

constexpr int ELEMENTS = 128;  // with one scale
constexpr int LANES = ELEMENTS / 8;

extern "C" __global__ void __launch_bounds__(BLOCK, 2048 / BLOCK)
    blocks(unsigned char* __restrict__ codes, float* __restrict__ scales, const bfloat16* __restrict__ in, int rows, int n) {
    const unsigned in_row = (n + ELEMENTS - 1) / ELEMENTS;
    const unsigned group = blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
    const unsigned row = group / in_row;
    const int length = row < rows ? n : 0;  // all lanes of a warp take part in its shuffles
    const int first = group % in_row * ELEMENTS + threadIdx.x % LANES * 8;
    const uint4 vector = load_vector(in + static_cast<size_t>(row) * n, first, length);
    const Scaling scaling = scaling_of<KIND>(largest_lane<LANES>(largest_of(vector)));
    store_codes<KIND>(codes + static_cast<size_t>(row) * n, vector, scaling.inverse, first, length);
    if (threadIdx.x % LANES == 0 && row < rows) {
        scales[group] = scaling.scale;
    }
}
