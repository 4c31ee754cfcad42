// Tiles of the tcgen05 stages: a thread multiplies the same tiles repeatedly, both in shared memory.
//
// Whatever the type, a row of A or B has 128 bytes, 32 in each of four steps along k, in the 128-byte swizzle. A pass is
// four instructions of 128 x 256, and is issued while the pass before it is still executing, so the tensor cores never
// wait. Each pass begins from zero, so the result is that of a single pass.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "blackwell.cuh"

constexpr int rows = 128, columns = 256, row_bytes = 128;

// Codes of sums and operands are those of products_of.
#define TYPE(NAME, SUM, SUMS, OPERANDS, MULTIPLY)                                                                   \
    struct NAME {                                                                                                   \
        static constexpr bool scaled = false;                                                                       \
        typedef SUM Sum;                                                                                            \
        static __device__ __forceinline__ void multiply(unsigned sums, unsigned long long a, unsigned long long b,  \
                                                        bool add) {                                                 \
            MULTIPLY(sums, a, b, products_of<rows, columns>(SUMS, OPERANDS), add);                                  \
        }                                                                                                           \
    };

TYPE(Tf32Type, float, 1, 2, multiply_tf32)
TYPE(Bf16Type, float, 1, 1, multiply_16_bits)
TYPE(Fp16Type, float, 1, 0, multiply_16_bits)
TYPE(Fp8Type, float, 1, 0, multiply_fp8)
TYPE(Int8Type, int, 2, 1, multiply_int8)
#undef TYPE

// Numbers of 4 bits, two in a byte. All scales are 1: four in a column of 32 rows, after the sums.
struct Fp4Type {
    static constexpr bool scaled = true;
    static constexpr int scale_columns = (rows + columns) / 32;
    typedef float Sum;
    static __device__ __forceinline__ void multiply(unsigned sums, unsigned long long a, unsigned long long b,
                                                    bool add) {
        const unsigned scales = sums + columns;
        multiply_nvfp4(sums, a, b, scaled_products_of<rows, columns>(), scales, scales + rows / 32, add);
    }
};

__device__ __forceinline__ void add_bits(float& sum, float loaded) {
    sum += loaded;
}

__device__ __forceinline__ void add_bits(int& sum, float loaded) {
    sum += __float_as_int(loaded);
}

// Copies `count` rows to a tile in the 128-byte swizzle.
__device__ __forceinline__ void copy_rows(unsigned char* tile, const uint4* __restrict__ from, int count) {
    for (int i = threadIdx.x; i < count * (row_bytes / 16); i += blockDim.x) {
        const int row = i / 8, chunk = i % 8;
        *reinterpret_cast<uint4*>(tile + row * row_bytes + (chunk ^ row % 8) * 16) = from[i];
    }
}

// out[row][t] is the sum of the columns 8 n + 2 t and 8 n + 2 t + 1 of A.B^T, over all n. 128 threads, dynamic shared
// memory for both tiles, three barriers and an address.
template <typename Type, typename Element>
__device__ __forceinline__ void multiply_tiles(unsigned char* memory, typename Type::Sum* __restrict__ out,
                                               const Element* __restrict__ left, const Element* __restrict__ right,
                                               int tiles, int passes) {
    unsigned char *const a = memory, *const b = a + rows * row_bytes;
    Barrier *const passed = reinterpret_cast<Barrier*>(b + columns * row_bytes), *const made = passed + 2;
    unsigned* const address = reinterpret_cast<unsigned*>(made + 1);
    if (threadIdx.x == 0) {
        barrier_init(passed, 1);
        barrier_init(passed + 1, 1);
        barrier_init(made, 1);
        fence_barrier_init();
    }
    constexpr unsigned allocated = Type::scaled ? 2 * columns : columns;
    if (threadIdx.x < 32) {
        allocate_columns<allocated>(address);
    }
    copy_rows(a, reinterpret_cast<const uint4*>(left) + blockIdx.x % tiles * (rows * row_bytes / 16), rows);
    copy_rows(b, reinterpret_cast<const uint4*>(right), columns);
    fence_async_proxy();
    sync_tensors();
    const unsigned sums = *address;
    if constexpr (Type::scaled) {
        fill_columns(sums + columns, Type::scale_columns / 4, 0x38383838);
        wait_tensor_stores();
        sync_tensors();
    }
    if (threadIdx.x == 0) {
        const unsigned long long tile_of_a = operand_descriptor(a), tile_of_b = operand_descriptor(b);
#pragma unroll 1
        for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                Type::multiply(sums, tile_of_a + 2 * step, tile_of_b + 2 * step, step > 0);
            }
            commit_products(passed + pass % 2);
            if (pass > 0) {
                barrier_wait(passed + (pass - 1) % 2, (pass - 1) / 2 % 2);
            }
        }
        commit_products(made);
    }
    __syncwarp();
    wait_for_tensors(made, 0);
    typename Type::Sum found[4] = {};
#pragma unroll 1
    for (int first = 0; first < columns; first += 32) {
        float s[32];
        load_columns(s, sums + first);
        wait_tensor_loads();
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            add_bits(found[i % 8 / 2], s[i]);
        }
    }
    const size_t row = static_cast<size_t>(blockIdx.x) * rows + threadIdx.x;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        out[row * 4 + t] = found[t];
    }
    sync_tensors();
    if (threadIdx.x < 32) {
        free_columns<allocated>(sums);
    }
}
