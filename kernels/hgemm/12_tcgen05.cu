// tcgen05: one thread multiplies for the whole block, and the sums are in tensor memory, not in registers.
//
// For Blackwell (10.0), against tma for Hopper: a product of 128 x 256 x 16 is one instruction of one thread, and needs
// no register: its operands are in shared memory, its 128 x 256 sums fill half of the SM's tensor memory. So the thread
// that requests slices also multiplies them, and no __syncthreads() is left in the loop: when the products of a slice
// have ended, they arrive at the barrier `empty` of its slot themselves (commit). The thread waits for those of the
// slice before, while the ones that it has just issued keep the tensor cores busy. At the end each of four warps loads
// the 32 rows that it can reach. What is left: nothing multiplies while a block begins and while it stores C.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.
//
// Launch: 128 threads, grid (ceil(N / 256), ceil(M / 128)), dynamic shared memory SLOTS * (384 * 128 + 16) + 16 bytes.
// Tensor maps of A with boxes of 128 x 64 elements and of B with 256 x 64, both in the 128-byte swizzle.

#include "tensor_sums.cuh"

#define ROWS 128
#define COLS 256
#define DEPTH 64
#define SLOTS 4
#define THREADS 128
#define BYTES_OF_A (ROWS * DEPTH * 2)
#define BYTES_OF_SLOT ((ROWS + COLS) * DEPTH * 2)

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tcgen05(__nv_bfloat16* __restrict__ C, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, int M,
            int N, int K) {
    extern __shared__ __align__(1024) unsigned char slots[];
    Barrier* const full = reinterpret_cast<Barrier*>(slots + SLOTS * BYTES_OF_SLOT);
    Barrier* const empty = full + SLOTS;
    Barrier* const made = empty + SLOTS;
    unsigned* const address = reinterpret_cast<unsigned*>(made + 1);

    const int first_row = blockIdx.y * ROWS;
    const int first_col = blockIdx.x * COLS;
    const int slices = (K + DEPTH - 1) / DEPTH;

    if (threadIdx.x == 0) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            barrier_init(full + slot, 1);
            barrier_init(empty + slot, 1);
        }
        barrier_init(made, 1);
        fence_barrier_init();
    }
    if (threadIdx.x < 32) {
        allocate_columns<COLS>(address);
    }
    sync_tensors();
    const unsigned sums = *address;

    if (threadIdx.x == 0) {
        constexpr unsigned product = products_of<ROWS, COLS>(FLOAT_SUMS, BF16_OPERANDS);
        const auto bring = [&](int slice) {
            unsigned char* const slot = slots + slice % SLOTS * BYTES_OF_SLOT;
            barrier_expect(full + slice % SLOTS, BYTES_OF_SLOT);
            load_tile(slot, &a, slice * DEPTH, first_row, full + slice % SLOTS);
            load_tile(slot + BYTES_OF_A, &b, slice * DEPTH, first_col, full + slice % SLOTS);
        };
        for (int slice = 0; slice < min(slices, SLOTS - 1); ++slice) {
            bring(slice);
        }
        for (int slice = 0; slice < slices; ++slice) {
            barrier_wait(full + slice % SLOTS, slice / SLOTS % 2);
            const unsigned char* const slot = slots + slice % SLOTS * BYTES_OF_SLOT;
            const unsigned long long tile_of_a = operand_descriptor(slot);
            const unsigned long long tile_of_b = operand_descriptor(slot + BYTES_OF_A);
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                multiply_16_bits(sums, tile_of_a + 2 * step, tile_of_b + 2 * step, product, slice > 0 || step > 0);
            }
            commit_products(empty + slice % SLOTS);
            const int next = slice + SLOTS - 1;
            if (next < slices) {
                if (slice > 0) {
                    barrier_wait(empty + next % SLOTS, (slice - 1) / SLOTS % 2);
                }
                bring(next);
            }
        }
        commit_products(made);
    }
    __syncwarp();
    wait_for_tensors(made, 0);

    const int row = first_row + threadIdx.x;
#pragma unroll 1
    for (int first = 0; first < COLS; first += 32) {
        float s[32];
        load_columns(s, sums + first);
        wait_tensor_loads();
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            const int col = first_col + first + i;
            if (row < M && col < N) {
                *reinterpret_cast<uint4*>(C + static_cast<size_t>(row) * N + col) = pack_eight(s, i);
            }
        }
    }
    sync_tensors();
    if (threadIdx.x < 32) {
        free_columns<COLS>(sums);
    }
}
