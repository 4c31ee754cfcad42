// tiled: tiles of 128 x 128 in shared memory, 8 x 8 elements per thread, without tensor cores.
//
// Against naive: every loaded element is used 128 times, and loads are of 16 bytes. The multiply-adds are still those
// of the FP32 units, whose peak is a fifteenth of the tensor cores': expect three quarters of 67 TFLOP/s at best,
// whatever the loop. Tiles are stored as floats, transposed, so that the inner loop converts nothing.
//
// Launch: 256 threads, grid (ceil(N / 128), ceil(M / 128)).

#include "../common/bf16.cuh"

#define SIDE 128
#define DEPTH 16
#define PITCH (SIDE + 4)

__device__ __forceinline__ void keep_turned(float (*tile)[PITCH], int row, int k, uint4 eight) {
    const unsigned packed[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack_bf16(packed[i]);
        tile[k + 2 * i][row] = pair.x;
        tile[k + 2 * i + 1][row] = pair.y;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    tiled(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(16) float tile_of_a[DEPTH][PITCH];
    __shared__ __align__(16) float tile_of_b[DEPTH][PITCH];

    const int first_row = blockIdx.y * SIDE;
    const int first_col = blockIdx.x * SIDE;
    const int loaded_row = threadIdx.x / 2;
    const int loaded_k = threadIdx.x % 2 * 8;
    const int row = threadIdx.x / 16 * 8;
    const int col = threadIdx.x % 16 * 8;

    float sum[8][8] = {};
    for (int k = 0; k < K; k += DEPTH) {
        keep_turned(tile_of_a, loaded_row, loaded_k, load_eight(A, first_row + loaded_row, M, k + loaded_k, K));
        keep_turned(tile_of_b, loaded_row, loaded_k, load_eight(B, first_col + loaded_row, N, k + loaded_k, K));
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < DEPTH; ++depth) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    sum[i][j] += tile_of_a[depth][row + i] * tile_of_b[depth][col + j];
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            store_pair(C, first_row + row + i, first_col + col + j, M, N, sum[i][j], sum[i][j + 1]);
        }
    }
}
