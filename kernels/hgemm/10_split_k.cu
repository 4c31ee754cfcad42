// split_k: the blocks of a cluster share one tile of C, each with a part of k: for layers with few rows.
//
// Against clusters: a layer with 16 or 64 rows has 64 tiles of 64 x 64 with sums of thousands of products, so half of
// the SMs would be idle while the others read all the weights. Here SPLIT blocks share a tile, each with a part of the
// slices. At the end every block sends its sums to the blocks that add them up, by stores to their shared memory: block
// r gets its SHARE of the rows from all blocks, adds them in the order of the blocks, so that results are bitwise
// repeatable, and writes them. This needs no global memory, no flags and no second launch. Expect the time in which
// memory delivers the bytes of B.
//
// Launch: THREADS threads, grid (ceil(N / COLS), ceil(M / ROWS), SPLIT), dynamic shared memory for SLOTS slices, the
// sums of a tile, and two barriers for each slot. Tensor maps of A with boxes of ROWS x 64 and of B with COLS x 64, in
// the 128-byte swizzle.

#ifndef SPLIT
#define SPLIT 4
#endif
#define PITCH (COLS + 4)  // rows of sums in shared memory begin 4 banks apart
#define BYTES_BESIDE (ROWS * PITCH * 4)
#define TOGETHER __cluster_dims__(1, 1, SPLIT)

#include "specialised.cuh"

#define SHARE (ROWS / SPLIT)  // rows of a tile that each block adds up

// Sends the group's sums to the blocks that add them up: block r gets SHARE rows from each block.
__device__ __forceinline__ void send_sums(const float (&sums)[SUMS], float* shares, unsigned rank, unsigned group) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
        const unsigned row = group * 64 + threadIdx.x % 128 / 32 * 16 + half * 8 + lane / 4;
        const float* const place = shares + (rank * SHARE + row % SHARE) * PITCH + lane % 4 * 2;
        const unsigned to = address_in_block(place, row / SHARE);
#pragma unroll
        for (unsigned j = 0; j < COLS / 8; ++j) {
            store_in_block(to + 32 * j, make_float2(sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]));
        }
    }
}

// Adds up the block's rows of C from the sums that all blocks have sent, in the order of the blocks, and stores them.
__device__ __forceinline__ void add_shares(const float* shares, __nv_bfloat16* __restrict__ C, int M, int N,
                                           int first_row, int first_col) {
    constexpr int quads_of_row = COLS / 4;
    for (int i = threadIdx.x; i < SHARE * quads_of_row; i += THREADS) {
        const int row = first_row + i / quads_of_row;
        const int col = first_col + i % quads_of_row * 4;
        const float* const from = shares + i / quads_of_row * PITCH + i % quads_of_row * 4;
        float4 sum = *reinterpret_cast<const float4*>(from);
#pragma unroll
        for (unsigned rank = 1; rank < SPLIT; ++rank) {
            const float4 part = *reinterpret_cast<const float4*>(from + rank * SHARE * PITCH);
            sum.x += part.x;
            sum.y += part.y;
            sum.z += part.z;
            sum.w += part.w;
        }
        if (row < M && col < N) {
            *reinterpret_cast<uint2*>(C + static_cast<size_t>(row) * N + col) =
                make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
        }
    }
}

extern "C" __global__ TOGETHER void __launch_bounds__(THREADS, 1)
    split_k(__nv_bfloat16* __restrict__ C, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, int M,
            int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];

    cluster_arrive();
    const Ring ring = {memory};
    const int first_row = blockIdx.y * ROWS;
    const int first_col = blockIdx.x * COLS;
    const int slices = (K + DEPTH - 1) / DEPTH;
    const int first_slice = slices * blockIdx.z / SPLIT;
    const int end_slice = slices * (blockIdx.z + 1) / SPLIT;
    const unsigned group = threadIdx.x / 128;
    float* const shares = reinterpret_cast<float*>(ring.beside());

    Turn turn;
    const int requested = start_ring(ring, turn, &a, &b, first_row, first_col, first_slice, end_slice);
    if (group == GROUPS) {
        if (threadIdx.x == PRODUCER) {
            bring_slices(ring, turn, &a, &b, first_row, first_col, requested, end_slice);
        }
        cluster_wait();
    } else {
        float sums[SUMS];
        if (first_slice < end_slice) {
            multiply_slices(sums, ring, turn, group, end_slice - first_slice);
        } else {
            for (float& sum : sums) {
                sum = 0.0f;
            }
        }
        cluster_wait();
        send_sums(sums, shares, blockIdx.z, group);
    }
    cluster_sync();
    add_shares(shares, C, M, N, first_row + blockIdx.z * SHARE, first_col);
}
