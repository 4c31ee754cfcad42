// naive: C = A.B^T in bfloat16 with float sums, one thread per element of C: the first stage.
//
// A is M x K and B is N x K, both with k along the rows, as the weights of a linear layer are stored. Every
// multiply-add loads two elements of 2 bytes, and neighbouring threads, which compute neighbouring columns of C, read
// different rows of B. Expect the load/store units to be the limit, far below a hundredth of the rate of the tensor
// cores.
//
// Launch: a block of 32 x 32 threads for 32 x 32 elements of C; grid (ceil(N / 32), ceil(M / 32)).

#include "../common/bf16.cuh"

extern "C" __global__ void naive(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A,
                                 const __nv_bfloat16* __restrict__ B, int M, int N, int K) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) {
        return;
    }

    const __nv_bfloat16* row_of_a = A + static_cast<size_t>(row) * K;
    const __nv_bfloat16* row_of_b = B + static_cast<size_t>(col) * K;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += __bfloat162float(row_of_a[k]) * __bfloat162float(row_of_b[k]);
    }
    C[static_cast<size_t>(row) * N + col] = __float2bfloat16(sum);
}
