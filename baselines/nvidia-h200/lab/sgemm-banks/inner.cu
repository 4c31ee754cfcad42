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
#ifndef OPAQUE
#define OPAQUE 0
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
#ifndef DEPTH
#define DEPTH 8
#endif
#ifdef INNER
#define PITCH (ROWS + 4 + COLS)
#define PITCH_B PITCH
#define FIRST_B (4 * (ROWS + 4))
#define A_FLOATS (PITCH * DEPTH)
#undef B_FLOATS
#define B_FLOATS 0
#else
#define PITCH (ROWS + 4)
#define A_FLOATS (PITCH * DEPTH)
#define PITCH_B COLS
#define FIRST_B (4 * A_FLOATS)
#endif
#ifndef INNER
#define B_FLOATS (COLS * DEPTH)
#endif
#define RAW_BYTES (4 * (A_FLOATS + B_FLOATS) + 16)
#define SLOT_BYTES RAW_BYTES
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
    __syncthreads();
    const auto row_of_a = [&](int n) { return (t + n * THREADS) / 2 % ROWS; };
    const auto k_of_a = [&](int n) { return ((t + n * THREADS) / 2 / ROWS * 2 + (t + n * THREADS) % 2) * 4; };
    const float* from_a = A + (size_t)(tile_row * ROWS + row_of_a(0)) * K + k_of_a(0);
    const float* from_b = B + (size_t)(t / 32) * N + tile_col * COLS + t % 32 * 4;
    const u32 to_a = base + (k_of_a(0) * PITCH + row_of_a(0)) * 4, to_b = base + FIRST_B + (t / 32 * PITCH_B + t % 32 * 4) * 4;
    const long long step_b = (long long)N * 4 * 8;
    float4 next_a[A_COPIES] = {}; float4 next_b[B_COPIES] = {};
    // copies of A: 8 k each; copies of B: two for each 8 k
    const auto fetch_a = [&](int n, int wanted) { ldg4(next_a[n], from_a, wanted); from_a += 8; };
    const auto fetch_b = [&](int n, int wanted) { ldg4(next_b[n], from_b + n % 2 * 128, wanted); if (n % 2) from_b = (const float*)((const char*)from_b + step_b); };
    const auto write_a = [&](int n, u32 slot) { const u32 to = to_a + slot + n * 32 * PITCH; sts1(to, next_a[n].x); sts1(to + PITCH * 4, next_a[n].y); sts1(to + PITCH * 8, next_a[n].z); sts1(to + PITCH * 12, next_a[n].w); };
    const auto write_b = [&](int n, u32 slot) { sts4(to_b + slot + n / 2 * 32 * PITCH + n % 2 * 512, next_b[n]); };
    float c[TR][TC] = {}; float a[2][TR] = {}; float b[2][TC] = {};
#if APOS == 2
    float a2[TR][4] = {};
#endif
    const int slices = K / DEPTH;
    const auto fetch = [&](int wanted) {
#pragma unroll
        for (int n = 0; n < A_COPIES; ++n) fetch_a(n, wanted);
#pragma unroll
        for (int n = 0; n < B_COPIES; ++n) fetch_b(n, wanted);
    };
    const auto write = [&](u32 slot) {
#pragma unroll
        for (int n = 0; n < A_COPIES; ++n) write_a(n, slot);
#pragma unroll
        for (int n = 0; n < B_COPIES; ++n) write_b(n, slot);
    };
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        fetch(slices - s);
        write(s * SLOT_BYTES);
        arrive(base + s * SLOT_BYTES + 4 * (A_FLOATS + B_FLOATS));
    }
    fetch(slices - 2);
    u32 slot = 0, later = 2 * SLOT_BYTES, parity = 0;
    int left = slices - 3;
    const u32 my_a = (warp % WD * (TR * LD) + lane / LA * 4) * 4;
    const u32 my_b = FIRST_B + (warp / WD * (TC * LA) + lane % LA * 4) * 4;
    const auto read_a = [&](u32 slot, int k, int i) {
        const float4 v = lds4(sm, slot + (k * PITCH + i * 4 * LD) * 4);
        a[k % 2][4 * i] = v.x; a[k % 2][4 * i + 1] = v.y; a[k % 2][4 * i + 2] = v.z; a[k % 2][4 * i + 3] = v.w;
    };
    const auto read_b = [&](u32 slot, int k, int j) {
        const float4 v = lds4(sm, slot + (k * PITCH_B + j * 4 * LA) * 4);
        b[k % 2][4 * j] = v.x; b[k % 2][4 * j + 1] = v.y; b[k % 2][4 * j + 2] = v.z; b[k % 2][4 * j + 3] = v.w;
    };
    const auto read_f = [&](u32 at_a, u32 at_b, int k, int f) { if (f < TR / 4) read_a(at_a, k, f); else if (f < TR / 4 + TC / 4) read_b(at_b, k, f - TR / 4); };
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
    const auto step = [&](int k, u32 at_a, u32 at_b, int next_k) {
        if (BSEL == 0) {
#pragma unroll
            for (int f = 0; f < TR / 4 + TC / 4; ++f) read_f(at_a, at_b, next_k, f);
        }
#if ORD == 0
#pragma unroll
        for (int i = 0; i < TR; ++i) {
#pragma unroll
            for (int n = 0; n < TC; ++n) fma(i, SERP && (i + k * TR) % 2 ? TC - 1 - n : n, k);
            if (BSEL > 0 && i >= BSEL - 1) read_f(at_a, at_b, next_k, i - (BSEL - 1));
        }
#else
#pragma unroll
        for (int j = 0; j < TC; ++j) {
#pragma unroll
            for (int n = 0; n < TR; ++n) fma(SERP && (j + k * TC) % 2 ? TR - 1 - n : n, j, k);
            if (BSEL > 0 && j >= BSEL - 1) read_f(at_a, at_b, next_k, j - (BSEL - 1));
        }
#endif
        if (PIN == 2) { pin(true); pin(false); }
    };
#if PIN >= 4
    asm volatile("st.shared.b64 [%0],%1;" :: "r"(base + SLOTS * SLOT_BYTES + t * 8), "l"(0ull) : "memory");
#pragma unroll
    for (int p = 0; p < TR * TC / 2; ++p) { asm volatile("ld.shared.b64 %0,[%1];" : "=l"(pair[p]) : "r"(base + SLOTS * SLOT_BYTES + t * 8)); }
    pin(false);
#else
    if (PIN) pin(true);
#endif
#pragma unroll 1
    do {
        if (PIN && PIN < 3) pin(false);
        wait(base + slot + 4 * (A_FLOATS + B_FLOATS), parity);
        write(later); arrive(base + later + 4 * (A_FLOATS + B_FLOATS)); fetch(left);
        later += SLOT_BYTES; if (later == SLOTS * SLOT_BYTES) later = 0;
        u32 at_a = slot + my_a, at_b = slot + my_b;
        slot += SLOT_BYTES; if (slot == SLOTS * SLOT_BYTES) { slot = 0; parity ^= 1; }
        const u32 stop = at_a + DEPTH * 4 * PITCH;
#pragma unroll 1
        do {
#pragma unroll
            for (int k = 0; k < INNER; ++k) step((k + 7) % 8, at_a, at_b, k);
            at_a += INNER * 4 * PITCH; at_b += INNER * 4 * PITCH;
#if OPAQUE
            asm volatile("" : "+r"(at_a), "+r"(at_b));
#endif
        } while (at_a != stop);
    } while (--left > -3);
#if PIN >= 5
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
