// tma: one thread requests whole tiles from the copy engine (TMA); no other thread copies.
//
// Against wgmma: a tensor map describes the matrix, its rows and its edges, so a copy of 16 KiB is one instruction
// without addresses, bounds checks or registers; it swizzles, and fills with zeros outside the matrix. Its bytes are
// counted by the barrier of the slot (mbarrier), at which the groups wait instead of waiting for each other. What is
// left is one __syncthreads() per slice: the thread that requests the next slice has to know that both groups have read
// the slot.
//
// Launch: 256 threads, grid (ceil(N / 256), ceil(M / 128)), dynamic shared memory SLOTS * (384 * 128 + 8) bytes. Tensor
// maps of A with boxes of 128 x 64 elements and of B with 256 x 64, both in the 128-byte swizzle.

#include "group_sums.cuh"

#define ROWS 128
#define COLS 256
#define DEPTH 64
#define SLOTS 4
#define THREADS 256
#define BYTES_OF_A (ROWS * DEPTH * 2)
#define BYTES_OF_SLOT ((ROWS + COLS) * DEPTH * 2)

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tma(__nv_bfloat16* __restrict__ C, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, int M,
        int N, int K) {
    extern __shared__ __align__(1024) unsigned char slots[];
    Barrier* const full = reinterpret_cast<Barrier*>(slots + SLOTS * BYTES_OF_SLOT);

    const int first_row = blockIdx.y * ROWS;
    const int first_col = blockIdx.x * COLS;
    const int group = threadIdx.x / 128;
    const int slices = (K + DEPTH - 1) / DEPTH;

    const auto bring = [&](int slice) {
        if (threadIdx.x == 0 && slice < slices) {
            unsigned char* const slot = slots + slice % SLOTS * BYTES_OF_SLOT;
            barrier_expect(full + slice % SLOTS, BYTES_OF_SLOT);
            load_tile(slot, &a, slice * DEPTH, first_row, full + slice % SLOTS);
            load_tile(slot + BYTES_OF_A, &b, slice * DEPTH, first_col, full + slice % SLOTS);
        }
    };
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            barrier_init(full + slot, 1);
        }
        fence_barrier_init();
    }
    for (int slice = 0; slice < SLOTS - 2; ++slice) {
        bring(slice);
    }
    float sums[COLS / 2];
    for (int slice = 0; slice < slices; ++slice) {
        __syncthreads();  // the barriers are initialised, and both groups have read the slot that is filled next
        bring(slice + SLOTS - 2);
        barrier_wait(full + slice % SLOTS, slice / SLOTS % 2);
        const unsigned char* const slot = slots + slice % SLOTS * BYTES_OF_SLOT;
        const unsigned long long tile_of_a = tile_descriptor(slot + group * (64 * DEPTH * 2));
        const unsigned long long tile_of_b = tile_descriptor(slot + BYTES_OF_A);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            multiply_bf16(sums, tile_of_a + 2 * step, tile_of_b + 2 * step, slice > 0 || step > 0);
        }
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    store_group(sums, C, M, N, first_row + group * 64, first_col);
}
