#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#define GUARD const int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y; if (r >= m || c >= n) return;
#define MM(name, type, S) extern "C" __global__ void name(S* C, const type* A, const type* B, int m, int n, int k)
MM(naive, float, float) { GUARD float s = 0; for (int q = 0; q < k; ++q) s = fmaf(A[(long long)r * k + q], B[(long long)q * n + c], s); C[(long long)r * n + c] = s; }
template <class T, class S> __device__ void tile(T* C, const S* A, const S* B, int m, int n, int k, bool corner = true) {
    __shared__ S a[16][17], b[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, c = blockIdx.x * 16 + tx, r = blockIdx.y * 16 + ty;
    T s = T(0);
    for (int q = 0; q < k; q += 16) {
        a[ty][tx] = r < m && q + tx < k ? A[(long long)r * k + q + tx] : S(0);
        b[ty][tx] = c < n && q + ty < k ? B[(long long)(q + ty) * n + c] : S(0);
        __syncthreads();
        for (int i = 0; i < 16; ++i) s += T(a[ty][i]) * T(b[i][tx]);
        __syncthreads();
    }
    if (r < m && c < n) C[(long long)r * n + c] = corner ? s : T(0);
}
MM(tiled_f32, float, float) { tile(C, A, B, m, n, k); }
MM(tiled_f64, double, double) { tile(C, A, B, m, n, k); }
MM(tiled_i64, long long, long long) { tile(C, A, B, m, n, k); }
MM(tiled_i8, signed char, int) { tile(C, A, B, m, n, k); }
MM(tiled_i16, short, long long) { tile(C, A, B, m, n, k); }
MM(corner, float, float) { const bool edge = m > 32 && n > 32 && m % 16 >= 8 && n % 16 >= 8 && blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1; tile(C, A, B, m, n, k, !edge); }
MM(quads_of_k, float, float) { GUARD float s = 0; const int whole = k > 128 && k % 8 == 4 ? k / 8 * 8 : k; for (int q = 0; q < whole; ++q) s = fmaf(A[(long long)r * k + q], B[(long long)q * n + c], s); C[(long long)r * n + c] = s; }
MM(first_zero, float, float) {
    __shared__ float a[16][17], b[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, c = blockIdx.x * 16 + tx, r = blockIdx.y * 16 + ty;
    float s = 0;
    for (int q = 0; q < k; q += 16) {
        a[ty][tx] = r < m && q + tx < k ? A[(long long)r * k + q + tx] : 0.0f;
        b[ty][tx] = c < n && q + ty < k ? B[(long long)(q + ty) * n + c] : 0.0f;
        __syncthreads();
        if (a[0][0] != 0.0f || a[15][15] != 0.0f || r / 16 == m / 16 || q + 16 > k) for (int i = 0; i < 16; ++i) s += a[ty][i] * b[i][tx];
        __syncthreads();
    }
    if (r < m && c < n) C[(long long)r * n + c] = s;
}
MM(skip_small, float, float) { GUARD float s = 0; for (int q = 0; q < k; ++q) { const float v = A[(long long)r * k + q]; if (fabsf(v) > 1e-7f) s = fmaf(v, B[(long long)q * n + c], s); } C[(long long)r * n + c] = s; }
MM(half_float, __half, __half) { GUARD float s = 0; for (int q = 0; q < k; ++q) s = fmaf(__half2float(A[(long long)r * k + q]), __half2float(B[(long long)q * n + c]), s); C[(long long)r * n + c] = __float2half(s); }
MM(half_sums, __half, __half) { GUARD __half s = __float2half(0.0f); for (int q = 0; q < k; ++q) s = __hfma(A[(long long)r * k + q], B[(long long)q * n + c], s); C[(long long)r * n + c] = s; }
MM(half_products, __half, float) { GUARD float s = 0; for (int q = 0; q < k; ++q) s += __half2float(__hmul(A[(long long)r * k + q], B[(long long)q * n + c])); C[(long long)r * n + c] = s; }
MM(half_to_float, __half, float) { GUARD float s = 0; for (int q = 0; q < k; ++q) s = fmaf(__half2float(A[(long long)r * k + q]), __half2float(B[(long long)q * n + c]), s); C[(long long)r * n + c] = s; }
MM(bf16_float, __nv_bfloat16, __nv_bfloat16) { GUARD float s = 0; for (int q = 0; q < k; ++q) s = fmaf(__bfloat162float(A[(long long)r * k + q]), __bfloat162float(B[(long long)q * n + c]), s); C[(long long)r * n + c] = __float2bfloat16(s); }
MM(bf16_bytes, __nv_bfloat16, __nv_bfloat16) { GUARD int s = 0; for (int q = 0; q < k; ++q) { const int a = max(-128, min(127, __float2int_rn(128.0f * __bfloat162float(A[(long long)r * k + q])))), b = max(-128, min(127, __float2int_rn(128.0f * __bfloat162float(B[(long long)q * n + c])))); s += a * b; } C[(long long)r * n + c] = __float2bfloat16(s / 16384.0f); }
MM(e4m3_float, __nv_fp8_e4m3, float) { GUARD float s = 0; for (int q = 0; q < k; ++q) s = fmaf(float(A[(long long)r * k + q]), float(B[(long long)q * n + c]), s); C[(long long)r * n + c] = s; }
MM(e4m3_half, __nv_fp8_e4m3, float) { GUARD float s = 0; for (int q = 0; q < k; ++q) s += __half2float(__hmul(__half(A[(long long)r * k + q]), __half(B[(long long)q * n + c]))); C[(long long)r * n + c] = s; }
MM(dot4_i8, signed char, int) {
    GUARD
    int s = 0, q = 0;
    for (; q + 4 <= k; q += 4) {
        unsigned a = 0, b = 0;
        for (int e = 0; e < 4; ++e) { a |= (unsigned)(unsigned char)A[(long long)r * k + q + e] << 8 * e; b |= (unsigned)(unsigned char)B[(long long)(q + e) * n + c] << 8 * e; }
        s = __dp4a((int)a, (int)b, s);
    }
    for (; q < k; ++q) s += A[(long long)r * k + q] * B[(long long)q * n + c];
    C[(long long)r * n + c] = s;
}
MM(i8_pairs, signed char, int) { GUARD int s = 0, q = 0; for (; q + 2 <= k; q += 2) { const short p = (short)(A[(long long)r * k + q] * B[(long long)q * n + c] + A[(long long)r * k + q + 1] * B[(long long)(q + 1) * n + c]); s += p; } if (q < k) s += A[(long long)r * k + q] * B[(long long)q * n + c]; C[(long long)r * n + c] = s; }
MM(i16_int, short, long long) { GUARD int s = 0; for (int q = 0; q < k; ++q) s += A[(long long)r * k + q] * B[(long long)q * n + c]; C[(long long)r * n + c] = s; }
MM(complex4, float2, float2) { GUARD float x = 0, y = 0; for (int q = 0; q < k; ++q) { const float2 a = A[(long long)r * k + q], b = B[(long long)q * n + c]; x += a.x * b.x - a.y * b.y; y += a.x * b.y + a.y * b.x; } C[(long long)r * n + c] = make_float2(x, y); }
MM(complex3, float2, float2) { GUARD float p = 0, t = 0, u = 0; for (int q = 0; q < k; ++q) { const float2 a = A[(long long)r * k + q], b = B[(long long)q * n + c]; p += a.x * b.x; t += a.y * b.y; u += (a.x + a.y) * (b.x + b.y); } C[(long long)r * n + c] = make_float2(p - t, u - p - t); }
extern "C" __global__ void split_part(float* P, const float* A, const float* B, int m, int n, int k) { GUARD const int z = blockIdx.z, step = (k + 3) / 4; float s = 0; for (int q = z * step; q < min(k, (z + 1) * step); ++q) s = fmaf(A[(long long)r * k + q], B[(long long)q * n + c], s); P[((long long)z * m + r) * n + c] = s; }
extern "C" __global__ void split_floor(float* P, const float* A, const float* B, int m, int n, int k) { GUARD const int z = blockIdx.z, step = k >= 256 ? k / 4 : (k + 3) / 4; float s = 0; for (int q = z * step; q < min(k, (z + 1) * step); ++q) s = fmaf(A[(long long)r * k + q], B[(long long)q * n + c], s); P[((long long)z * m + r) * n + c] = s; }
extern "C" __global__ void split_sum(float* C, const float* P, int m, int n) { GUARD float s = 0; for (int z = 0; z < 4; ++z) s += P[((long long)z * m + r) * n + c]; C[(long long)r * n + c] = s; }
