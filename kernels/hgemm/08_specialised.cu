// specialised: warp specialisation: one warp only requests slices, groups of four warps only multiply
// (specialised.cuh).
//
// Against tma: no __syncthreads() is left in the loop. The producer waits until a slot is empty and requests the next
// slice; the groups wait until a slot is full, multiply, and mark it empty. setmaxnreg moves registers from the
// producer, which needs 40, to the groups, which need 128 for the sums alone. The first slices are requested before the
// warps of the block meet. C is stored by the copy engine through the shared memory of slices that have been read, so
// the ring buffer has all of it; blocks that run at the same time are above one another and share columns of B. Expect
// about the rate of cuBLAS. What is left is the start and the end of each block, when the tensor cores have nothing to
// do, because one block fills an SM.
//
// Launch: THREADS threads, grid (ceil(M / ROWS), ceil(N / COLS)), dynamic shared memory for SLOTS slices and two
// barriers for each. Tensor maps of C with boxes of 64 x STORE_COLS, of A with ROWS x 64 and of B with COLS x 64, in
// the 128-byte swizzle; that of C has no swizzle where STORE_COLS is not 64.

#include "specialised.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    specialised(const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap a,
                const __grid_constant__ CUtensorMap b, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];

    const Ring ring = {memory};
    const int slices = (K + DEPTH - 1) / DEPTH;
    const int first_row = blockIdx.x * ROWS;
    const int first_col = blockIdx.y * COLS;
    const unsigned group = threadIdx.x / 128;

    Turn turn;
    const int requested = start_ring(ring, turn, &a, &b, first_row, first_col, 0, slices);
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == PRODUCER) {
            bring_slices(ring, turn, &a, &b, first_row, first_col, requested, slices);
        }
    } else {
        take_registers<GROUP_REGISTERS>();
        float sums[SUMS];
        multiply_slices(sums, ring, turn, group, slices);
        store_last_sums(sums, ring, &c, group, first_row, first_col);
    }
}
