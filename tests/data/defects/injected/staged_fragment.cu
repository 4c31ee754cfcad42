// Lanes copy a stored tile by rows, as they do everywhere, but without __syncwarp.
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void staged_fragment(float* out, const float* in, int n) {
    __shared__ float tile[2][256];
    const int warp = threadIdx.x / 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, in[0]);
    wmma::store_matrix_sync(tile[warp], sums, 16, wmma::mem_row_major);
    float sum = 0;
    for (int z = threadIdx.x % 32; z < 256; z += 32) sum += tile[warp][z];  // DEFECT: SHARED_RACE
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
