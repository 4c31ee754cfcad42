// Lab kernel: whole tiles only (M % TILE_ROWS == 0, N % TILE_COLS == 0, K % 8 == 0).
#ifndef TR
#define TR 8
#endif
#ifndef TC
#define TC 16
#endif
#ifndef WD
#define WD 4
#endif
#ifndef WA
#define WA 2
#endif
#ifndef AHEAD
#define AHEAD 2
#endif
#ifndef ORD   // 0: along rows of sums (a stays), 1: along columns (b stays)
#define ORD 1
#endif
#ifndef OPS   // operand order of the multiply-add
#define OPS 0
#endif
#ifndef BSEL  // where fragments of B are read: 0 at the head of each k, n: behind row n
#define BSEL 0
#endif
#ifndef APOS  // 0: a whole 4-k of A at the head; 1: each row's next quad as soon as the row is done
#define APOS 1
#endif
#ifndef CPOS  // at which k of the slice the copies are issued
#define CPOS 1
#endif
#ifndef VOL
#define VOL 1
#endif
#ifndef PIN   // 0: none; 1: sums in pairs at the loop's edge, odd one low; 2: also inside, at each k
#define PIN 1
#endif
#ifndef PAIR  // pairs of sums: 0 down a column (rows 2m, 2m + 1), 1 along a row
#define PAIR 0
#endif
#ifndef LOWODD
#define LOWODD 1
#endif
#ifndef SERP
#define SERP 1
#endif
#ifndef BLK
#define BLK TR
#endif
#ifndef ZIG
#define ZIG 0
#endif
#ifndef ROT
#define ROT 0
#endif
#ifndef XJ
#define XJ 0
#endif
#ifndef PH
#define PH 0
#endif
#ifndef ARRK
#define ARRK (CPOS + B_COPIES - 1)
#endif
#ifndef BGAP
#define BGAP 1
#endif
#ifndef VP
#define VP 0
#endif
#ifndef FL
#define FL 0
#endif
#ifndef CINIT
#define CINIT 0
#endif
#ifndef WF
#define WF 0
#endif
#ifndef WARPARR
#define WARPARR 0
#endif
#ifndef RASTER_ROWS
#define RASTER_ROWS 8
#endif
#define LD 4
#define LA 8
#define THREADS (32 * WD * WA)
#define ROWS (TR * LD * WD)
#define COLS (TC * LA * WA)
#define DEPTH 8
#define PITCH (ROWS + 4)
#define A_FLOATS (PITCH * DEPTH)
#define B_FLOATS (COLS * DEPTH)
#define RAW_BYTES (4 * (A_FLOATS + B_FLOATS) + 16)
#define SLOT_BYTES (RAW_BYTES <= 8192 ? 8192 : RAW_BYTES <= 16384 ? 16384 : 32768)
#ifndef SLOTS
#define SLOTS 8
#endif
#define MASK (SLOTS * SLOT_BYTES - 1)
#define A_COPIES (ROWS * DEPTH / 4 / THREADS)
#define B_COPIES (COLS * DEPTH / 4 / THREADS)
typedef unsigned u32;
__device__ __forceinline__ float4 lds4(const char* sm, u32 at) {
#if VOL
    float4 v; u32 s = (u32)__cvta_generic_to_shared(sm) + at;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(s));
    return v;
#else
    return *reinterpret_cast<const float4*>(sm + at);
#endif
}
__device__ __forceinline__ void ldg4(float4& v, const float* p, int wanted) {
    asm volatile("{\n.reg .pred p;\nsetp.gt.s32 p,%5,0;\n@p ld.global.nc.v4.f32 {%0,%1,%2,%3},[%4];\n}" : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w) : "l"(p), "r"(wanted));
}
__device__ __forceinline__ void sts4(u32 s, float4 v) { asm volatile("st.shared.v4.f32 [%4],{%0,%1,%2,%3};" ::"f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(s)); }
__device__ __forceinline__ void sts1(u32 s, float v) { asm volatile("st.shared.f32 [%1],%0;" ::"f"(v), "r"(s)); }
__device__ __forceinline__ void arrive(u32 bar) {
#if WARPARR
    __syncwarp();
    asm volatile("{\n.reg .pred p;\nsetp.eq.s32 p,%1,0;\n@p mbarrier.arrive.shared.b64 _,[%0];\n}" ::"r"(bar), "r"(threadIdx.x % 32) : "memory");
#else
    asm volatile("{\n.reg .b64 s;\nmbarrier.arrive.shared.b64 s, [%0];\n}" ::"r"(bar) : "memory");
#endif
}
typedef unsigned long long u64;
__device__ __forceinline__ u64 pack2(float lo, float hi) { u64 r; asm volatile("mov.b64 %0,{%1,%2};" : "=l"(r) : "f"(lo), "f"(hi)); return r; }
__device__ __forceinline__ void unpack2(u64 r, float& lo, float& hi) { asm volatile("mov.b64 {%0,%1},%2;" : "=f"(lo), "=f"(hi) : "l"(r)); }
__device__ __forceinline__ void wait(u32 bar, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ float4 detached(const float* s) { return make_float4(s[0] + 0.0f, s[1] + 0.0f, s[2] + 0.0f, s[3] + 0.0f); }

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sgemm(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    extern __shared__ __align__(16) char sm[];
    const u32 base = (u32)__cvta_generic_to_shared(sm);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    if (t < SLOTS) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(base + t * SLOT_BYTES + 4 * (A_FLOATS + B_FLOATS)), "r"(WARPARR ? THREADS / 32 : THREADS) : "memory");
    int tile_row, tile_col;
    {
        const int gx = gridDim.x, gy = gridDim.y, id = blockIdx.y * gx + blockIdx.x, per = RASTER_ROWS * gx, band = id / per, r = id - band * per;
        const int h = min(RASTER_ROWS, gy - band * RASTER_ROWS);
        tile_row = band * RASTER_ROWS + r % h; tile_col = r / h;
    }
#if PIN == 10
    asm volatile("st.shared.v4.f32 [%0],{%1,%1,%1,%1};" :: "r"(base + SLOTS * SLOT_BYTES + t * 16), "f"(0.0f) : "memory");
#elif PIN == 11 || PIN == 5 || PIN == 4
    asm volatile("st.shared.b64 [%0],%1;" :: "r"(base + SLOTS * SLOT_BYTES + t * 8), "l"(0ull) : "memory");
#endif
    __syncthreads();
    const auto row_of_a = [&](int n) { return (t + n * THREADS) / 2 % ROWS; };
    const auto k_of_a = [&](int n) { return ((t + n * THREADS) / 2 / ROWS * 2 + (t + n * THREADS) % 2) * 4; };
    const float* from_a = A + (size_t)(tile_row * ROWS + row_of_a(0)) * K + k_of_a(0);
    const float* from_b = B + (size_t)(t / 32) * N + tile_col * COLS + t % 32 * 4;
    const u32 to_a = base + (k_of_a(0) * PITCH + row_of_a(0)) * 4, to_b = base + 4 * A_FLOATS + (t / 32 * COLS + t % 32 * 4) * 4;
    const long long step_b = (long long)N * 4 * DEPTH;
    static_assert(A_COPIES == 1 && THREADS == 32 * DEPTH, "one float4 of A");
    float4 next_a = {}; float4 next_b[B_COPIES] = {};
    const auto fetch_a = [&](int wanted) { ldg4(next_a, from_a, wanted); if (VP) asm volatile("add.s64 %0,%0,%1;" : "+l"(from_a) : "l"((long long)DEPTH * 4)); else from_a += DEPTH; };
    const auto fetch_b = [&](int n, int wanted) { ldg4(next_b[n], from_b + n * 128, wanted); if (n == B_COPIES - 1) { if (VP) asm volatile("add.s64 %0,%0,%1;" : "+l"(from_b) : "l"(step_b)); else from_b = (const float*)((const char*)from_b + step_b); } };
    const auto write_a = [&](u32 slot) { sts1(to_a + slot, next_a.x); sts1(to_a + slot + PITCH * 4, next_a.y); sts1(to_a + slot + PITCH * 8, next_a.z); sts1(to_a + slot + PITCH * 12, next_a.w); };
    const auto write_b = [&](int n, u32 slot) { sts4(to_b + slot + n * 512, next_b[n]); };
    float c[TR][TC] = {}; float a[2][TR] = {}; float b[2][TC] = {};
#if APOS == 2
    float a2[TR][4] = {};
#endif
    const int slices = K / DEPTH;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        fetch_a(slices - s);
#pragma unroll
        for (int n = 0; n < B_COPIES; ++n) fetch_b(n, slices - s);
        write_a(s * SLOT_BYTES);
#pragma unroll
        for (int n = 0; n < B_COPIES; ++n) write_b(n, s * SLOT_BYTES);
        arrive(base + s * SLOT_BYTES + 4 * (A_FLOATS + B_FLOATS));
    }
    fetch_a(slices - 2);
#pragma unroll
    for (int n = 0; n < B_COPIES; ++n) fetch_b(n, slices - 2);
    u32 off = 0;
    int left = slices - 3;
    const u32 my_a = (warp % WD * (TR * LD) + lane / LA * 4) * 4;
    const u32 my_b = 4 * A_FLOATS + (warp / WD * (TC * LA) + lane % LA * 4) * 4;
    const auto read_a = [&](u32 slot, int k, int i) {
        const float4 v = lds4(sm, slot + my_a + (k * PITCH + i * 4 * LD) * 4);
        a[k % 2][4 * i] = v.x; a[k % 2][4 * i + 1] = v.y; a[k % 2][4 * i + 2] = v.z; a[k % 2][4 * i + 3] = v.w;
    };
    const auto read_b = [&](u32 slot, int k, int j) {
        const float4 v = lds4(sm, slot + my_b + (k * COLS + j * 4 * LA) * 4);
        b[k % 2][4 * j] = v.x; b[k % 2][4 * j + 1] = v.y; b[k % 2][4 * j + 2] = v.z; b[k % 2][4 * j + 3] = v.w;
    };
    const auto read_f = [&](u32 slot, int k, int f) { if (FL == 1) { if (f < TC / 4) read_b(slot, k, f); else if (f < TR / 4 + TC / 4) read_a(slot, k, f - TC / 4); } else if (FL == 2) { if (f == 0) read_a(slot, k, 0); else if (f <= TC / 4) read_b(slot, k, f - 1); else if (f < TR / 4 + TC / 4) read_a(slot, k, f - TC / 4); } else { if (f < TR / 4) read_a(slot, k, f); else if (f < TR / 4 + TC / 4) read_b(slot, k, f - TR / 4); } };
    const auto fma = [&](int i, int j, int k) {
        if (OPS) c[i][j] = fmaf(b[k % 2][j], a[k % 2][i], c[i][j]); else c[i][j] = fmaf(a[k % 2][i], b[k % 2][j], c[i][j]);
    };
    u64 pair[TR * TC / 2];
    const auto pin = [&](bool in) {
#pragma unroll
        for (int p = 0; p < TR * TC / 2; ++p) {
            float& even = PAIR ? c[p / (TC / 2)][p % (TC / 2) * 2] : c[p % (TR / 2) * 2][p / (TR / 2)];
            float& odd = PAIR ? c[p / (TC / 2)][p % (TC / 2) * 2 + 1] : c[p % (TR / 2) * 2 + 1][p / (TR / 2)];
            if (in) pair[p] = LOWODD ? pack2(odd, even) : pack2(even, odd);
            else if (LOWODD) unpack2(pair[p], odd, even); else unpack2(pair[p], even, odd);
        }
    };
    const auto step = [&](int k, u32 slot, int next_k) {
        if (BSEL == 0) {
#pragma unroll
            for (int f = 0; f < TR / 4 + TC / 4; ++f) read_f(slot, next_k, f);
        }
#if ORD == 0
#pragma unroll
        for (int i = 0; i < TR; ++i) {
#pragma unroll
            for (int n = 0; n < TC; ++n) fma(i, SERP && (i + k * TR) % 2 ? TC - 1 - n : n, k);
            if (BSEL > 0 && i >= BSEL - 1) read_f(slot, next_k, i - (BSEL - 1));
        }
#else
#pragma unroll
        for (int q = 0; q < TR / BLK; ++q)
#pragma unroll
        for (int jj = 0; jj < TC; ++jj) {
            const int j1 = (ZIG && k % 2) ? TC - 1 - jj : jj;
            const int j = ((j1 + ROT * k) % TC) ^ XJ;
#pragma unroll
            for (int n = 0; n < BLK; ++n) fma(q * BLK + (SERP && (jj + PH) % 2 ? BLK - 1 - n : n), j, k);
            if (BSEL > 0 && q == 0 && jj >= BSEL - 1) read_f(slot, next_k, jj - (BSEL - 1));
        }
#endif
        if (PIN == 2) { pin(true); pin(false); }
    };
#if PIN == 10
#pragma unroll
    for (int j = 0; j < TC; ++j) {
#pragma unroll
    for (int i = 0; i < TR; i += 4) asm volatile("ld.shared.v4.f32 {%1,%0,%3,%2},[%4];" : "=f"(c[i][j]), "=f"(c[i+1][j]), "=f"(c[i+2][j]), "=f"(c[i+3][j]) : "r"(base + SLOTS * SLOT_BYTES + t * 16)); }
#elif PIN == 11
#pragma unroll
    for (int p = 0; p < TR * TC / 2; ++p) { asm volatile("ld.shared.b64 %0,[%1];" : "=l"(pair[p]) : "r"(base + SLOTS * SLOT_BYTES + t * 8)); }
    pin(false);
#elif PIN >= 6
#elif PIN >= 4
#pragma unroll
    for (int p = 0; p < TR * TC / 2; ++p) { asm volatile("ld.shared.b64 %0,[%1];" : "=l"(pair[p]) : "r"(base + SLOTS * SLOT_BYTES + t * 8)); }
    pin(false);
#else
    if (PIN) pin(true);
#endif
#pragma unroll 1
    do {
        if (PIN && PIN < 3) pin(false);
        const u32 slot = off & MASK;
        const u32 later = (off + 2 * SLOT_BYTES) & MASK;
        wait(base + slot + 4 * (A_FLOATS + B_FLOATS), (off / (SLOTS * SLOT_BYTES)) & 1);
        step(7, slot, 0);
#pragma unroll
        for (int k = 0; k < 7; ++k) {
            step(k, slot, k + 1);
            if (k == CPOS) { write_a(later); fetch_a(left); }
#pragma unroll
            for (int n = 0; n < B_COPIES; ++n) if (k == CPOS + BGAP * n) { write_b(n, later); fetch_b(n, left); }
            if (k == CPOS + BGAP * (B_COPIES - 1)) arrive(base + later + 4 * (A_FLOATS + B_FLOATS));
        }
        off += SLOT_BYTES;
        if (PIN && PIN < 3) pin(true);
    } while (--left > -3);
#if PIN == 7 || PIN == 11
    pin(true);
#pragma unroll
    for (int p = 0; p < TR * TC / 2; ++p) asm volatile("{st.shared.b64 [%1],%0;\n ld.shared.b64 %0,[%1];}" : "+l"(pair[p]) : "r"(base + SLOTS * SLOT_BYTES + t * 8));
    pin(false);
#elif PIN == 8
    if (M < 0) {
    pin(true);
#pragma unroll
    for (int p = 0; p < TR * TC / 2; ++p) asm volatile("st.shared.b64 [%1],%0;" :: "l"(pair[p]), "r"(base + SLOTS * SLOT_BYTES + t * 8 + 2048 * p));
    }
#elif PIN == 9 || PIN == 10
#pragma unroll
    for (int j = 0; j < TC; ++j) {
#pragma unroll
    for (int i = 0; i < TR; i += 4) { asm volatile("st.shared.v4.f32 [%4],{%1,%0,%3,%2};\n ld.shared.v4.f32 {%1,%0,%3,%2},[%4];" : "+f"(c[i][j]), "+f"(c[i+1][j]), "+f"(c[i+2][j]), "+f"(c[i+3][j]) : "r"(base + SLOTS * SLOT_BYTES + t * 16)); } }
#elif PIN >= 6
    {
        const u32 zero = (u32)K >> 31;
        pin(true);
#pragma unroll
        for (int p = 0; p < TR * TC / 2; ++p) asm volatile("mad.wide.u32 %0, %1, %1, %0;" : "+l"(pair[p]) : "r"(zero));
        pin(false);
    }
#elif PIN >= 5
    pin(true);
#pragma unroll
    for (int p = 0; p < TR * TC / 2; ++p) { asm volatile("st.shared.b64 [%1],%0;" :: "l"(pair[p]), "r"(base + SLOTS * SLOT_BYTES + t * 8)); asm volatile("ld.shared.b64 %0,[%1];" : "=l"(pair[p]) : "r"(base + SLOTS * SLOT_BYTES + t * 8)); }
    pin(false);
#elif PIN < 4
    if (PIN) pin(false);
#endif
#pragma unroll
    for (int i = 0; i < TR; ++i)
#pragma unroll
        for (int n = 0; n < TC; ++n) fma(i, n, 7);
    float* to = C + (size_t)(tile_row * ROWS + warp % WD * (TR * LD) + lane / LA * 4) * N + tile_col * COLS + warp / WD * (TC * LA) + lane % LA * 4;
#pragma unroll
    for (int i = 0; i < TR; ++i)
#pragma unroll
        for (int j = 0; j < TC / 4; ++j) *reinterpret_cast<float4*>(to + (size_t)(i / 4 * 4 * LD + i % 4) * N + j * 4 * LA) = detached(&c[i][4 * j]);
}
