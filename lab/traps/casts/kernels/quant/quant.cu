#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
typedef signed char i8;
typedef unsigned char u8;
#define Q8(name) extern "C" __global__ void name(i8* out, const float* in, int n)
Q8(round_even) { EACH out[i] = (i8)fminf(fmaxf(rintf(in[i] * 16.0f), -128.0f), 127.0f); }
Q8(round_even_int) { EACH const int q = __float2int_rn(in[i] * 16.0f); out[i] = (i8)min(max(q, -128), 127); }
Q8(round_away) { EACH out[i] = (i8)fminf(fmaxf(roundf(in[i] * 16.0f), -128.0f), 127.0f); }
Q8(round_floor_half) { EACH out[i] = (i8)fminf(fmaxf(floorf(in[i] * 16.0f + 0.5f), -128.0f), 127.0f); }
Q8(no_low_clamp) { EACH out[i] = (i8)(int)fminf(rintf(in[i] * 16.0f), 127.0f); }
Q8(clamp_127) { EACH out[i] = (i8)fminf(fmaxf(rintf(in[i] * 16.0f), -127.0f), 127.0f); }
extern "C" __global__ void to_u32(unsigned* out, const float* in, int n) { EACH out[i] = (unsigned)fmaxf(in[i], 0.0f); }
extern "C" __global__ void to_u32_by_int(unsigned* out, const float* in, int n) { EACH out[i] = (unsigned)(int)fmaxf(in[i], 0.0f); }
extern "C" __global__ void dequant(float* out, const i8* q, int n) { EACH out[i] = 0.05f * (float)(q[i] - 3); }
extern "C" __global__ void dequant_wraps(float* out, const i8* q, int n) { EACH const i8 d = (i8)(q[i] - 3); out[i] = 0.05f * (float)d; }
extern "C" __global__ void u32_to_float(float* out, const unsigned* in, int n) { EACH out[i] = __uint2float_rn(in[i]); }
extern "C" __global__ void u32_to_float_signed(float* out, const unsigned* in, int n) { EACH out[i] = __int2float_rn((int)in[i]); }
extern "C" __global__ void u64_to_double(double* out, const unsigned long long* in, int n) { EACH const unsigned long long v = in[i]; out[i] = (double)(unsigned)(v >> 32) * 4294967296.0 + (double)(unsigned)v; }
extern "C" __global__ void i64_saturate(int* out, const long long* in, int n) { EACH const long long v = in[i]; out[i] = v > 2147483647LL ? 2147483647 : v < -2147483648LL ? -2147483647 - 1 : (int)v; }
extern "C" __global__ void i64_saturate_high(int* out, const long long* in, int n) { EACH const long long v = in[i]; out[i] = (v >> 32) == ((int)v >> 31) ? (int)v : (v >> 32) >= 0 ? 2147483647 : -2147483647 - 1; }
extern "C" __global__ void i64_saturate_word(int* out, const long long* in, int n) { EACH const long long v = in[i]; const int h = (int)(v >> 32); out[i] = h > 0 ? 2147483647 : h < -1 ? -2147483647 - 1 : (int)v; }
extern "C" __global__ void triple_bf16(__nv_bfloat16* out, const __nv_bfloat16* in, int n) { EACH out[i] = __float2bfloat16(3.0f * __bfloat162float(in[i])); }
extern "C" __global__ void triple_bf16_fixed(__nv_bfloat16* out, const __nv_bfloat16* in, int n) { EACH const int q = __float2int_rn(128.0f * __bfloat162float(in[i])); out[i] = __float2bfloat16((3 * q) / 128.0f); }
extern "C" __global__ void triple_half_fixed(__half* out, const __half* in, int n) { EACH const short q = (short)__float2int_rn(2048.0f * __half2float(in[i])); out[i] = __float2half((3 * q) / 2048.0f); }
extern "C" __global__ void bf16_by_bits(__nv_bfloat16* out, const float* in, int n) { EACH unsigned u = __float_as_uint(in[i]); u += 0x7fffu + (u >> 16 & 1u); reinterpret_cast<unsigned short*>(out)[i] = (unsigned short)(u >> 16); }
