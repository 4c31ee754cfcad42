#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
#define ONE(name, out_t, in_t) extern "C" __global__ void name(out_t* out, const in_t* in, int n)
#define TWO(name, out_t, in_t) extern "C" __global__ void name(out_t* out, const in_t* a, const in_t* b, int n)
typedef unsigned u32;
ONE(abs_wrap, int, int) { EACH out[i] = in[i] < 0 ? (int)(0u - (u32)in[i]) : in[i]; }
ONE(abs_u32, u32, int) { EACH out[i] = in[i] < 0 ? 0u - (u32)in[i] : (u32)in[i]; }
ONE(abs_saturate, u32, int) { EACH out[i] = (u32)max(in[i], in[i] == -2147483647 - 1 ? 2147483647 : -in[i]); }
ONE(abs_i8, signed char, signed char) { EACH const int v = in[i] < 0 ? -in[i] : in[i]; out[i] = (signed char)v; }
ONE(clz_lib, int, u32) { EACH out[i] = __clz((int)in[i]); }
ONE(clz_float, int, u32) { EACH const u32 v = in[i]; out[i] = v ? 158 - (int)(__float_as_uint(__uint2float_rz(v)) >> 23) : 32; }
ONE(clz_round, int, u32) { EACH const u32 v = in[i]; out[i] = v ? 158 - (int)(__float_as_uint(__uint2float_rn(v)) >> 23) : 32; }
ONE(ctz, int, u32) { EACH out[i] = in[i] ? __ffs((int)in[i]) - 1 : 32; }
ONE(ctz_ffs, int, u32) { EACH out[i] = __ffs((int)in[i]) - 1; }
ONE(popc, int, u32) { EACH out[i] = __popc(in[i]); }
ONE(popc_swar, int, u32) { EACH u32 v = in[i]; v -= v >> 1 & 0x55555555u; v = (v & 0x33333333u) + (v >> 2 & 0x33333333u); v = v + (v >> 4) & 0x0f0f0f0fu; out[i] = (int)(v * 0x01010101u >> 24); }
ONE(popc_nibbles, int, u32) { EACH u32 v = in[i]; v -= v >> 1 & 0x55555555u; v = (v & 0x33333333u) + (v >> 2 & 0x33333333u); v = (v + (v >> 4)) & 0x0f0f0f0fu; v += v >> 8; v += v >> 16; out[i] = (int)(v & 31u); }
TWO(mulhi_lib, int, int) { EACH out[i] = __mulhi(a[i], b[i]); }
TWO(mulhi_unsigned, int, int) { EACH u32 h = __umulhi((u32)a[i], (u32)b[i]); if (a[i] < 0) h -= (u32)b[i]; if (b[i] < 0) h -= (u32)a[i]; out[i] = (int)h; }
TWO(add_saturate, int, int) { EACH const long long s = (long long)a[i] + b[i]; out[i] = (int)(s > 2147483647LL ? 2147483647LL : s < -2147483648LL ? -2147483648LL : s); }
TWO(add_saturate_bits, int, int) { EACH const u32 s = (u32)a[i] + (u32)b[i]; const u32 over = ~((u32)a[i] ^ (u32)b[i]) & ((u32)a[i] ^ s); out[i] = over >> 31 ? (a[i] < 0 ? -2147483647 - 1 : 2147483647) : (int)s; }
TWO(add_saturate_low, int, int) { EACH const long long s = (long long)a[i] + b[i]; out[i] = (int)(s > 2147483647LL ? 2147483647LL : s < -2147483647LL ? -2147483647LL : s); }
TWO(rotate, u32, u32) { EACH const u32 k = b[i] & 31u; out[i] = __funnelshift_l(a[i], a[i], k); }
TWO(rotate_shift, u32, u32) { EACH const u32 k = b[i]; out[i] = k < 32u ? (k ? a[i] << k | a[i] >> (32u - k) : a[i]) : (a[i] << (k & 31u) | a[i] >> (31u - (k & 31u)) >> 1u); }
TWO(shift_wide, u32, u32) { EACH out[i] = b[i] < 32u ? a[i] << b[i] : 0u; }
TWO(shift_masked, u32, u32) { EACH out[i] = a[i] << (b[i] & 31u); }
TWO(average_floor, int, int) { EACH out[i] = (a[i] & b[i]) + ((a[i] ^ b[i]) >> 1); }
TWO(divide_floor, int, int) { EACH const long long v = a[i], d = b[i] | 1; long long q = v / d; if (v % d != 0 && (v < 0) != (d < 0)) --q; out[i] = (int)q; }
TWO(divide_trunc, int, int) { EACH const int d = (b[i] & 1023) + 1; out[i] = a[i] / d - (a[i] < 0); }
TWO(divide_float, u32, u32) { EACH out[i] = (u32)__double2uint_rz((double)a[i] / (double)(b[i] | 1u)); }
TWO(gcd_u32, u32, u32) { EACH u32 x = a[i], y = b[i]; while (y) { const u32 t = x % y; x = y; y = t; } out[i] = x; }
TWO(gcd_binary, u32, u32) { EACH u32 x = a[i], y = b[i]; if (x == 0u || y == 0u) { out[i] = x | y; return; } const int s = __ffs((int)(x | y)) - 1; x >>= __ffs((int)x) - 1; while (y) { y >>= __ffs((int)y) - 1; if (x > y) { const u32 t = x; x = y; y = t; } y -= x; } out[i] = x << s; }
TWO(gcd_zero, u32, u32) { EACH u32 x = a[i], y = b[i]; if (x == 0u || y == 0u) { out[i] = 0u; return; } while (y) { const u32 t = x % y; x = y; y = t; } out[i] = x; }
TWO(gcd_steps, u32, u32) { EACH u32 x = a[i], y = b[i]; for (int k = 0; k < 32 && y; ++k) { const u32 t = x % y; x = y; y = t; } out[i] = x; }
