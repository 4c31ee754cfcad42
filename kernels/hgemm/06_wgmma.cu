// wgmma: four warps multiply 64 x 256 x 16 with one instruction that reads both operands from shared memory.
//
// Against copy_stages: no ldmatrix and no fragments in registers, and the only instruction that reaches the peak of
// this GPU. It is asynchronous: the warps issue the products of a slice and do other work until they wait for them. The
// swizzle of warp_mma.cuh is the 128-byte pattern of the tensor cores themselves. What cp.async has written needs a
// fence before wgmma reads it, because wgmma accesses shared memory through the async proxy, as the copy engine does.
// Copies still cost every thread addresses, bounds checks and instructions, and the barrier of each slice stops both
// groups: expect less than half of the gain that the instruction promises.
//
// Launch: 256 threads, grid (ceil(N / 256), ceil(M / 128)), dynamic shared memory SLOTS * 384 * 128 bytes.

#include "copy_slice.cuh"
#include "group_sums.cuh"

#define ROWS 128
#define COLS 256
#define SLOTS 4
#define BYTES_OF_A (ROWS * ROW_BYTES)
#define BYTES_OF_SLOT ((ROWS + COLS) * ROW_BYTES)

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char slots[];

    const int first_row = blockIdx.y * ROWS;
    const int first_col = blockIdx.x * COLS;
    const int group = threadIdx.x / 128;
    const int slices = (K + DEPTH - 1) / DEPTH;

    const auto copy = [&](int slice) {  // beyond the last slice it copies zeros, which are not used
        copy_slot<ROWS, COLS>(slots + slice % SLOTS * BYTES_OF_SLOT, A, B, first_row, first_col, M, N, slice * DEPTH, K);
    };
    for (int slice = 0; slice < SLOTS - 2; ++slice) {
        copy(slice);
    }
    float sums[COLS / 2];
    for (int slice = 0; slice < slices; ++slice) {
        copy_async_wait<SLOTS - 3>();
        fence_async_proxy();
        __syncthreads();  // the slice is visible to all threads, and both groups have read the slot that is filled next
        copy(slice + SLOTS - 2);
        const unsigned char* const slot = slots + slice % SLOTS * BYTES_OF_SLOT;
        const unsigned long long a = tile_descriptor(slot + group * (64 * ROW_BYTES));
        const unsigned long long b = tile_descriptor(slot + BYTES_OF_A);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            multiply_bf16(sums, a + 2 * step, b + 2 * step, slice > 0 || step > 0);
        }
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    store_group(sums, C, M, N, first_row + group * 64, first_col);
}
