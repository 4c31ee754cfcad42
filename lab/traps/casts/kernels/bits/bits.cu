#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
typedef signed char i8;
typedef unsigned char u8;
extern "C" __global__ void e4m3_encode(__nv_fp8_e4m3* out, const float* in, int n) { EACH out[i] = __nv_fp8_e4m3(in[i] * 8.0f); }
extern "C" __global__ void e4m3_decode(float* out, const u8* in, int n) { EACH const unsigned b = in[i]; out[i] = 256.0f * __half2float(__ushort_as_half((unsigned short)((b & 0x80u) << 8 | (b & 0x7fu) << 7))); }
extern "C" __global__ void e4m3_decode_bits(float* out, const u8* in, int n) { EACH const unsigned b = in[i]; const float v = ldexpf(1.0f + (b & 7u) / 8.0f, (int)(b >> 3 & 15u) - 7); out[i] = (b & 0x7fu) == 0 ? 0.0f : b & 0x80u ? -v : v; }
extern "C" __global__ void e5m2_decode(float* out, const u8* in, int n) { EACH out[i] = __half2float(__ushort_as_half((unsigned short)(in[i] << 8))); }
extern "C" __global__ void e5m2_decode_bits(float* out, const u8* in, int n) { EACH const unsigned b = in[i]; const unsigned e = b >> 2 & 31u; const float v = e ? __uint_as_float((e + 112u) << 23 | (b & 3u) << 21) : 0.0f; out[i] = b & 0x80u ? -v : v; }
extern "C" __global__ void unpack4(float* out, const u8* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n / 2) return; const int b = (i8)in[i]; out[2 * i] = (float)((b << 28) >> 28); out[2 * i + 1] = (float)(b >> 4); }
extern "C" __global__ void unpack4_xor(float* out, const u8* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n / 2) return; const int b = in[i]; out[2 * i] = (float)(((b & 15) ^ 8) - 8); out[2 * i + 1] = (float)((b >> 4 ^ 8) - 8); }
extern "C" __global__ void unpack4_limit(float* out, const u8* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n / 2) return; const int lo = in[i] & 15, hi = in[i] >> 4; out[2 * i] = (float)(lo > 8 ? lo - 16 : lo); out[2 * i + 1] = (float)(hi > 8 ? hi - 16 : hi); }
extern "C" __global__ void pack4(u8* out, const float* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n / 2) return; const int lo = (int)fminf(fmaxf(rintf(8.0f * in[2 * i]), -8.0f), 7.0f), hi = (int)fminf(fmaxf(rintf(8.0f * in[2 * i + 1]), -8.0f), 7.0f); out[i] = (u8)((lo & 15) | hi << 4); }
extern "C" __global__ void pack4_wraps(u8* out, const float* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n / 2) return; const int lo = (int)rintf(8.0f * in[2 * i]), hi = (int)rintf(8.0f * in[2 * i + 1]); out[i] = (u8)((lo > 7 ? 7 : lo & 15) | (hi > 7 ? 7 : hi) << 4); }
extern "C" __global__ void half_by_int(__half* out, const int* in, int n) { EACH out[i] = __int2half_rn(in[i]); }
extern "C" __global__ void average_u8(u8* out, const u8* a, const u8* b, int n) { EACH out[i] = (u8)((a[i] + b[i] + 1) >> 1); }
extern "C" __global__ void average_u8_bits(u8* out, const u8* a, const u8* b, int n) { EACH out[i] = (u8)((a[i] | b[i]) - ((a[i] ^ b[i]) >> 1)); }
extern "C" __global__ void average_i16(short* out, const short* a, const short* b, int n) { EACH const short s = (short)(a[i] + b[i]); out[i] = (short)(s >> 1); }
