// What the backward pass needs besides the forward pass: products of tiles that are both stored along the other axis,
// additions to global memory, and the launches before and after that of the products.
//
// The gradient of the queries is summed in float over blocks, in the order in which threads hold it and not in that of
// the array: a unit is 64 queries by 64 columns, and its sums 4 j to 4 j + 3 of thread t are vector 128 j + t of the
// unit. So each warp adds to 512 contiguous bytes.
#pragma once

#include "../common/bf16.cuh"
#include "../common/bulk.cuh"
#include "../common/hopper.cuh"
#include "problem.cuh"

#ifndef QUERIES
#define QUERIES (HEAD == 64 ? 128 : 64)
#endif

#define PIECES (HEAD / 64)  // of 64 columns each, the width of the swizzle
#define UNITS (QUERIES / 64 * PIECES)
#define BYTES_OF_QUERIES (QUERIES * HEAD * 2)
#define SCALE (HEAD == 64 ? 0.125f : 0.08838834764f)  // 1 / sqrt(HEAD)

// sums = a^T . b (+ sums if `add`): 16 rows of each of two tiles of columns_descriptor, 64 columns of `a`.
HOPPER_PRODUCT(multiply_columns, "m64n64k16", "bf16.bf16", 32, "%32", "%33", "%34", ", 1, 1")

// Adds to 16 aligned bytes of global memory; the order of additions by different threads is undefined.
__device__ __forceinline__ void add_to(float4* to, float a, float b, float c, float d) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
}

// Stores 64 rows of a group's sums, times `factor`, as bfloat16 to shared memory in the 128-byte swizzle; the next 64
// columns are `bytes` further on.
template <int SUMS>
__device__ __forceinline__ void store_rounded(unsigned char* to, const float (&sums)[SUMS], float factor,
                                              unsigned bytes) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned row = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < SUMS / 4; j += 2) {
        const float* from = sums + 4 * j;
        const unsigned chunk = (j % 8 + lane / 16) ^ (row % 8);
        store_matrices(shared_address(to) + j / 8 * bytes + row * 128 + chunk * 16,
                       pack_bf16(from[0] * factor, from[1] * factor), pack_bf16(from[2] * factor, from[3] * factor),
                       pack_bf16(from[4] * factor, from[5] * factor), pack_bf16(from[6] * factor, from[7] * factor));
    }
}

// The launch before: for each query the binary logarithm of its sum of exponentials and the sum `delta` of its result
// times the gradient of that, and zeros for the sums of gradients. HEAD / 8 threads have a query; `rows` are the queries
// of a head, rounded up to whole tiles. A query outside the array gets an infinite logarithm, so that its weights are
// zero.
extern "C" __global__ void __launch_bounds__(256)
    begin_gradients(float4* __restrict__ sums, float* __restrict__ logs, float* __restrict__ deltas,
                    const __nv_bfloat16* __restrict__ out, const __nv_bfloat16* __restrict__ out_gradient,
                    const float* __restrict__ natural_logs, int n, int rows) {
    constexpr unsigned together = HEAD / 8;
    const unsigned thread = blockIdx.x * 256 + threadIdx.x;
    const unsigned row = thread / together, column = thread % together * 8;
    const unsigned head = row / rows, query = row % rows;
    const bool inside = query < n;
    const size_t place = static_cast<size_t>(head) * n + query;
    float delta = 0.0f;
    if (inside) {
        const uint4 a = *reinterpret_cast<const uint4*>(out + place * HEAD + column);
        const uint4 b = *reinterpret_cast<const uint4*>(out_gradient + place * HEAD + column);
        const unsigned left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 x = unpack_bf16(left[i]), y = unpack_bf16(right[i]);
            delta = fmaf(x.x, y.x, fmaf(x.y, y.y, delta));
        }
    }
#pragma unroll
    for (int distance = together / 2; distance > 0; distance /= 2) {
        delta += __shfl_xor_sync(0xffffffffu, delta, distance);
    }
    if (column == 0) {
        logs[row] = inside ? natural_logs[place] * 1.44269504089f : INFINITY;
        deltas[row] = delta;
    }
    const size_t first = static_cast<size_t>(blockIdx.x) * 512 + threadIdx.x;
    sums[first] = sums[first + 256] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// The launch after: rounds a unit of the sums per block to the gradient of the queries.
extern "C" __global__ void __launch_bounds__(128)
    round_gradients(const __grid_constant__ CUtensorMap gradient, const float4* __restrict__ sums, int tiles) {
    __shared__ __align__(1024) unsigned char memory[64 * 128];

    float unit[32];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const float4 four = sums[static_cast<size_t>(blockIdx.x) * 1024 + 128 * j + threadIdx.x];
        unit[4 * j] = four.x, unit[4 * j + 1] = four.y, unit[4 * j + 2] = four.z, unit[4 * j + 3] = four.w;
    }
    store_rounded(memory, unit, SCALE, 0);
    fence_async_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        const int tile = blockIdx.x / UNITS, in_tile = blockIdx.x % UNITS;
        store_tile(&gradient, memory, in_tile % PIECES * 64, tile % tiles * QUERIES + in_tile / PIECES * 64,
                   tile / tiles);
        commit_stores();
        wait_stores_read<0>();
    }
}
