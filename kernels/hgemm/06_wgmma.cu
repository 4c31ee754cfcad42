// wgmma: four warps multiply 64 x 256 x 16 with one instruction that reads both operands from shared memory.
//
// Against copy_stages: no ldmatrix, no fragments in registers, and the only instruction that reaches this GPU's peak.
// It is asynchronous: the warps issue a slice's products, and do something else until they wait for them. Tiles are
// swizzled exactly as warp_mma.cuh has it, which is the tensor cores' own 128-byte pattern; what cp.async has written
// must be fenced for them, since they read shared memory as the copy engine does, past the threads' order.
// Copies still cost every thread addresses, bounds and instructions, and the barrier of each slice stops both groups:
// expect less than half of the step that the instruction promises.
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

    const auto copy = [&](int slice) {  // past the last one zeros, which nobody reads
        copy_slot<ROWS, COLS>(slots + slice % SLOTS * BYTES_OF_SLOT, A, B, first_row, first_col, M, N, slice * DEPTH, K);
    };
    for (int slice = 0; slice < SLOTS - 2; ++slice) {
        copy(slice);
    }
    float sums[COLS / 2];
    for (int slice = 0; slice < slices; ++slice) {
        copy_async_wait<SLOTS - 3>();
        fence_async_proxy();
        __syncthreads();  // the slice is there for all, and both groups are done with the slot that is filled next
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
