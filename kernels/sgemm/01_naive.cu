// naive: C = A.B, one thread per element of C: the first stage, limited by load instructions.
//
// Each thread walks along a row of A and down a column of B. Neighbouring threads compute neighbouring columns, so
// accesses to B and C are coalesced into whole 128-byte lines, and A is one address per warp. It is slow all the same:
// every fused multiply-add needs two loads, so the load/store units are the limit and the FMA units wait. Expect a
// tenth of the FMA peak or less.
//
// Launch: a block of 32 x 32 threads for 32 x 32 elements of C; grid (ceil(N / 32), ceil(M / 32)).

extern "C" __global__ void naive(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M,
                                 int N, int K) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) {
        return;
    }

    const float* row_of_a = A + static_cast<size_t>(row) * K;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += row_of_a[k] * B[static_cast<size_t>(k) * N + col];
    }
    C[static_cast<size_t>(row) * N + col] = sum;
}
