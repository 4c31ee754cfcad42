// clusters: the blocks of a cluster share a row, and exchange their statistics through distributed shared memory.
//
// In registers a row of 65536 elements needs a block that fills an SM, so that nothing overlaps its waits. Here CLUSTER
// blocks have a part of the row each, and several blocks are resident on an SM. A warp sends its statistics to every
// block of the cluster, one barrier of the cluster follows, and each thread merges the received statistics in the order
// of the warps. Nothing passes through global memory. The norms take fewer instructions (quick_norms.cuh). Expect long
// rows at the rate of short ones.

#include "../common/hopper.cuh"
#include "quick_norms.cuh"

#ifndef NORM
#define NORM Softmax
#endif
#ifndef ELEMENT
#define ELEMENT bfloat16
#endif
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef VECTORS
#define VECTORS 1
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif
#if CLUSTER > 1
#define TOGETHER __cluster_dims__(CLUSTER)
#else
#define TOGETHER
#endif

using Chosen = Quick<NORM>;

constexpr int STEP = CLUSTER * BLOCK * PER_VECTOR<ELEMENT>;
constexpr int WARPS = CLUSTER * BLOCK / 32;

__device__ __forceinline__ void normalise(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in,
                                          const ELEMENT* __restrict__ weight, const ELEMENT* __restrict__ bias, int n,
                                          float2* of_warps) {
    const unsigned rank = blockIdx.x % CLUSTER;
    const unsigned lane = threadIdx.x % 32;
    const int first = (rank * BLOCK + threadIdx.x) * PER_VECTOR<ELEMENT>;
    uint4 row[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        row[k] = load_vector(in, first + k * STEP, n);
    }
    const Statistics own = Chosen::merge_warp(statistics_of<Chosen, ELEMENT>(row, first, STEP, n));
    keep_packed(row);
    cluster_wait();
    if (lane < CLUSTER) {
        const unsigned to = address_in_block(of_warps + 2 * (rank * (BLOCK / 32) + threadIdx.x / 32), lane);
        store_in_block(to, make_float2(own.sum, own.centre));
        store_in_block(to + sizeof(float2), make_float2(own.count, 0.0f));
    }
    cluster_sync();
    Statistics of_row = nothing<Chosen>();
#pragma unroll
    for (int warp = lane; warp < WARPS; warp += 32) {
        const float2 sums = of_warps[2 * warp];
        of_row = Chosen::merge(of_row, {sums.x, sums.y, of_warps[2 * warp + 1].x});
    }
    const Factors factors = Chosen::factors(Chosen::merge_warp(of_row), n);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        store_normalised<Chosen>(out, row[k], factors, weight, bias, first + k * STEP, n);
    }
}

extern "C" __global__ TOGETHER void __launch_bounds__(BLOCK, MIN_BLOCKS)
    clusters(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ weight,
             const ELEMENT* __restrict__ bias, int, int n) {
    __shared__ __align__(16) float2 of_warps[2 * WARPS];

    cluster_arrive();
    in += static_cast<size_t>(blockIdx.x / CLUSTER) * n;
    out += static_cast<size_t>(blockIdx.x / CLUSTER) * n;
    if (n == VECTORS * STEP) {
        normalise(out, in, weight, bias, VECTORS * STEP, of_warps);
    } else {
        normalise(out, in, weight, bias, n, of_warps);
    }
}
