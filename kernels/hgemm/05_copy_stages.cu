// copy_stages: a ring buffer of slices filled by asynchronous copies (cp.async), 128 x 256 elements of C per block.
//
// Against mma_sync: asynchronous copies fill shared memory two slices ahead and need no registers, which are used for
// larger tiles instead: a warp computes 64 x 64 elements and reads a third less per product. One barrier per slice is
// left. mma.sync cannot do more on this GPU, whose tensor cores reach their peak only with wgmma: expect 60 % of it.
//
// Launch: 256 threads, grid (ceil(N / 256), ceil(M / 128)), dynamic shared memory SLOTS * 384 * 128 bytes.

#include "copy_slice.cuh"

#define ROWS 128
#define COLS 256
#define SLOTS 3
#define BYTES_OF_A (ROWS * ROW_BYTES)
#define BYTES_OF_SLOT ((ROWS + COLS) * ROW_BYTES)

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    copy_stages(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, int M, int N,
                int K) {
    extern __shared__ __align__(128) unsigned char slots[];

    const int first_row = blockIdx.y * ROWS;
    const int first_col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32;
    const int row = warp / 4 * 64;
    const int col = warp % 4 * 64;
    const int slices = (K + DEPTH - 1) / DEPTH;

    const auto copy = [&](int slice) {  // beyond the last slice it copies zeros, which are not used
        copy_slot<ROWS, COLS>(slots + slice % SLOTS * BYTES_OF_SLOT, A, B, first_row, first_col, M, N, slice * DEPTH, K);
    };
    for (int slice = 0; slice < SLOTS - 1; ++slice) {
        copy(slice);
    }
    WarpSums<4, 8> sums;
    for (int slice = 0; slice < slices; ++slice) {
        copy_async_wait<SLOTS - 2>();
        __syncthreads();  // the slice is visible to all threads, and the slot that is filled next has been read by all
        copy(slice + SLOTS - 1);
        const unsigned slot =
            static_cast<unsigned>(__cvta_generic_to_shared(slots + slice % SLOTS * BYTES_OF_SLOT));
        sums.add_slice(slot, row, slot + BYTES_OF_A, col);
    }
    sums.store(C, first_row + row, first_col + col, M, N);
}
