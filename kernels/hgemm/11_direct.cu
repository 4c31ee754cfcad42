// direct: for small problems, fragments straight from device memory, and no shared memory before the sums.
//
// Against split_k: at 256 all of the time is latency: a descriptor to fetch, barriers to set up, a slice to wait for. Here
// each warp takes its own slices of k, and a lane loads 16 bytes of a row. The order of k inside a product does not
// matter as long as A and B agree, so those eight values are what the lane holds of two products: no ldmatrix, no copy
// to shared memory, and all loads of a slice are under way before the first product. The warps' sums meet in shared
// memory at the end, and are added in the order of the warps. Larger problems would read every row from L2 too often.
//
// Launch: THREADS threads, grid (ceil(N / COLS), ceil(M / ROWS)), dynamic shared memory WARPS * ROWS * PITCH * 4 bytes.

#include "warp_mma.cuh"

#ifndef ROWS
#define ROWS 32
#endif
#ifndef COLS
#define COLS 32
#endif
#ifndef WARPS
#define WARPS 8
#endif
#define THREADS (32 * WARPS)
#define PITCH (COLS + 4)  // rows of sums begin 4 banks apart

extern "C" __global__ void __launch_bounds__(THREADS)
    direct(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
           int M, int N, int K) {
    extern __shared__ __align__(16) float left[];  // sums of the warps: WARPS x ROWS x PITCH
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int first_row = blockIdx.y * ROWS;
    const int first_col = blockIdx.x * COLS;

    float sums[ROWS / 16][COLS / 8][4] = {};
    for (int slice = warp; 32 * slice < K; slice += WARPS) {
        const int k = 32 * slice + lane % 4 * 8;
        uint4 a[ROWS / 8], b[COLS / 8];
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i) {
            a[i] = load_eight(A, first_row + 8 * i + lane / 4, M, k, K);
        }
#pragma unroll
        for (int j = 0; j < COLS / 8; ++j) {
            b[j] = load_eight(B, first_col + 8 * j + lane / 4, N, k, K);
        }
#pragma unroll
        for (int i = 0; i < ROWS / 16; ++i) {
#pragma unroll
            for (int j = 0; j < COLS / 8; ++j) {
                multiply(sums[i][j], {a[2 * i].x, a[2 * i + 1].x, a[2 * i].y, a[2 * i + 1].y}, b[j].x, b[j].y);
                multiply(sums[i][j], {a[2 * i].z, a[2 * i + 1].z, a[2 * i].w, a[2 * i + 1].w}, b[j].z, b[j].w);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS / 16; ++i) {
#pragma unroll
        for (int j = 0; j < COLS / 8; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *reinterpret_cast<float2*>(left + (warp * ROWS + 16 * i + 8 * half + lane / 4) * PITCH + 8 * j + lane % 4 * 2) =
                    make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int quad = threadIdx.x; quad < ROWS * COLS / 4; quad += THREADS) {
        const int row = quad / (COLS / 4);
        const int col = quad % (COLS / 4) * 4;
        float4 sum = *reinterpret_cast<const float4*>(left + row * PITCH + col);
#pragma unroll
        for (int other = 1; other < WARPS; ++other) {
            const float4 part = *reinterpret_cast<const float4*>(left + (other * ROWS + row) * PITCH + col);
            sum.x += part.x;
            sum.y += part.y;
            sum.z += part.z;
            sum.w += part.w;
        }
        if (first_row + row < M && first_col + col < N) {
            *reinterpret_cast<uint2*>(C + static_cast<size_t>(first_row + row) * N + first_col + col) =
                make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
        }
    }
}
