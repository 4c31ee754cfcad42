#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
#define ONE(name, out_t, in_t) extern "C" __global__ void name(out_t* out, const in_t* in, int n)
#define TWO(name, out_t, in_t) extern "C" __global__ void name(out_t* out, const in_t* a, const in_t* b, int n)
typedef unsigned long long u64;
typedef long long i64;
ONE(triple, i64, i64) { EACH out[i] = (i64)((u64)in[i] * 3u); }
ONE(popc64, int, u64) { EACH out[i] = __popcll(in[i]); }
ONE(popc64_words, int, u64) { EACH out[i] = __popc((unsigned)(in[i] >> 32)) + __popc((unsigned)in[i]); }
ONE(clz64_words, int, u64) { EACH const unsigned h = (unsigned)(in[i] >> 32); out[i] = h ? __clz((int)h) : 32 + __clz((int)(unsigned)in[i]); }
ONE(clz64_double, int, u64) { EACH const u64 v = in[i]; out[i] = v ? 1086 - (int)((u64)__double_as_longlong((double)v) >> 52) : 64; }
TWO(mulhi64, u64, u64) { EACH out[i] = __umul64hi(a[i], b[i]); }
TWO(mulhi64_words, u64, u64) { EACH const u64 x = a[i], y = b[i], m = 0xffffffffu; const u64 p = (x & m) * (y & m), q = (x >> 32) * (y & m) + (p >> 32), r = (x & m) * (y >> 32) + (q & m); out[i] = (x >> 32) * (y >> 32) + (q >> 32) + (r >> 32); }
TWO(mulhi64_carry, u64, u64) { EACH const u64 x = a[i], y = b[i], m = 0xffffffffu; const u64 q = (x >> 32) * (y & m), r = (x & m) * (y >> 32); out[i] = (x >> 32) * (y >> 32) + (q >> 32) + (r >> 32) + (((q & m) + (r & m)) >> 32); }
TWO(gcd64, u64, u64) { EACH u64 x = a[i], y = b[i]; while (y) { const u64 t = x % y; x = y; y = t; } out[i] = x; }
TWO(gcd64_first, u64, u64) { EACH u64 x = a[i], y = b[i]; if (y) { const u64 t = x % y; x = y; y = t; } unsigned p = (unsigned)x, q = (unsigned)y; if (x >> 32 == 0) { while (q) { const unsigned t = p % q; p = q; q = t; } out[i] = p; return; } while (y >> 32) { const u64 t = x % y; x = y; y = t; } if (y) { p = (unsigned)y; q = (unsigned)(x % y); while (q) { const unsigned t = p % q; p = q; q = t; } out[i] = p; } else { out[i] = (unsigned)x; } }
TWO(max64, i64, i64) { EACH out[i] = a[i] > b[i] ? a[i] : b[i]; }
TWO(max64_words, i64, i64) { EACH const int p = (int)(a[i] >> 32), q = (int)(b[i] >> 32); out[i] = p != q ? (p > q ? a[i] : b[i]) : ((int)a[i] > (int)b[i] ? a[i] : b[i]); }
TWO(equal64, int, i64) { EACH out[i] = (int)a[i] == (int)b[i] && (a[i] ^ b[i]) >> 63 == 0; }
TWO(compare64, int, i64) { EACH out[i] = (a[i] > b[i]) - (a[i] < b[i]); }
TWO(mod_mul, u64, u64) { EACH const u64 p = 0x7fffffffu; out[i] = (a[i] % p) * (b[i] % p) % p; }
TWO(mod_mul_late, u64, u64) { EACH const u64 p = 0x7fffffffu; u64 v = (a[i] % p) * (b[i] % p); v = (v & p) + (v >> 31); out[i] = v; }
TWO(average64, i64, i64) { EACH out[i] = (a[i] & b[i]) + ((a[i] ^ b[i]) >> 1); }
ONE(swap_bytes, u64, u64) { EACH const u64 v = in[i]; out[i] = (u64)__byte_perm((unsigned)v, 0, 0x0123) << 32 | __byte_perm((unsigned)(v >> 32), 0, 0x0123); }
ONE(isqrt, unsigned, u64) { EACH const u64 v = in[i]; u64 r = (u64)sqrt((double)v); if (r > 0xffffffffu) r = 0xffffffffu; while (r * r > v) --r; while (r < 0xffffffffu && (r + 1) * (r + 1) <= v) ++r; out[i] = (unsigned)r; }
ONE(isqrt_double, unsigned, u64) { EACH out[i] = (unsigned)fmin(sqrt((double)in[i]), 4294967295.0); }
TWO(dot_u16, unsigned, unsigned short) { EACH out[i] = (unsigned)a[i] * b[i]; }
TWO(sat_u16, unsigned short, unsigned short) { EACH const unsigned s = (unsigned)a[i] + b[i]; out[i] = (unsigned short)min(s, 65535u); }
TWO(sat_i16, short, short) { EACH const int s = a[i] - b[i]; out[i] = (short)min(max(s, -32767), 32767); }
TWO(sat_i8x4, signed char, signed char) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < n / 4) reinterpret_cast<unsigned*>(out)[i] = __vaddss4(reinterpret_cast<const unsigned*>(a)[i], reinterpret_cast<const unsigned*>(b)[i]); if (i < n % 4) { const int k = n / 4 * 4 + i; out[k] = (signed char)min(max(a[k] + b[k], -128), 127); } }
