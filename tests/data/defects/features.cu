// One kernel for each row of the emulator's table of features. Each stores 1 where the feature works, element by element.
#include "features.cuh"

struct Pair {
    int first;
    double second;
};

template <int N, class F> __device__ __forceinline__ int repeat(F function) {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += function(i);
    return sum;
}

__constant__ float powers[4] = {1.0f, 2.0f, 4.0f, 8.0f};
__device__ int calls;

static_assert(sizeof(float2) == 8 && alignof(float2) == 8, "float2");
static_assert(sizeof(float3) == 12 && alignof(float3) == 4, "float3");
static_assert(sizeof(float4) == 16 && alignof(float4) == 16, "float4");
static_assert(sizeof(double2) == 16 && alignof(double2) == 16, "double2");
static_assert(sizeof(ushort4) == 8 && alignof(ushort4) == 8, "ushort4");
static_assert(sizeof(uchar4) == 4 && alignof(uchar4) == 4, "uchar4");
static_assert(sizeof(uint3) == 12 && sizeof(dim3) == 12, "uint3, dim3");
static_assert(sizeof(size_t) == 8 && sizeof(int64_t) == 8, "size_t, int64_t");

extern "C" __global__ void __launch_bounds__(64, 2) keywords(int* __restrict__ ok, const float* __restrict__ in) {
    __shared__ alignas(16) float aligned[4];
    __shared__ __align__(16) float also_aligned[4];
    ok[0] = reinterpret_cast<size_t>(aligned) % 16 == 0 && reinterpret_cast<size_t>(also_aligned) % 16 == 0;
    ok[1] = PEAKGATE_EMULATED == 1;
    ok[2] = FROM_HEADER == 3 && FROM_DEFINE == 5;
    ok[3] = repeat<4>([&](int i) { return i * 2; }) == 12;
    ok[4] = powers[3] == 8.0f;
    ok[5] = ++calls > 0;
    ok[6] = warpSize == 32;
    ok[7] = __ldg(&in[1]) == 1.0f && __ldg(reinterpret_cast<const float4*>(in)).w == 3.0f;
}

extern "C" __global__ void geometry(int* ok, const float* in) {
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    ok[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1;
}

extern "C" __global__ void vectors(int* ok, const float* in) {
    const float4 quad = *reinterpret_cast<const float4*>(in + 4);
    ok[0] = quad.x == 4.0f && quad.w == 7.0f;
    ok[1] = make_float2(1.0f, 2.0f).y == 2.0f;
    ok[2] = make_double2(1.0, 2.0).y == 2.0;
    ok[3] = make_ushort4(1, 2, 3, 4).z == 3;
    ok[4] = make_int3(1, 2, 3).z == 3;
    const dim3 size = blockDim;
    ok[5] = size.y == 1;
    float4 copy = quad;
    copy.y = 1.0f;
    ok[6] = copy.y == 1.0f && quad.y == 5.0f;
    ok[7] = make_uint2(1, 2).x == 1u;
}

extern "C" __global__ void hints(float* out, const float* in) {
    const int i = threadIdx.x;
    const float sum = __ldcs(in + i) + __ldcg(in + i) + __ldca(in + i) + __ldlu(in + i);
    if (i % 3 == 0) __stcs(out + i, sum);
    if (i % 3 == 1) __stcg(out + i, sum);
    if (i % 3 == 2) __stwt(out + i, sum);
}

extern "C" __global__ void arithmetic(int* ok, const float* in) {
    ok[0] = fmaf(2.0f, 3.0f, in[1]) == 7.0f && fma(2.0, 3.0, 1.0) == 7.0 && __fmaf_rn(2.0f, 3.0f, 1.0f) == 7.0f;
    ok[1] = min(3, 4u) == 3u && max(in[2], in[3]) == 3.0f && min(2ll, 3ll) == 2ll && max(1.0, 2.0) == 2.0;
    ok[2] = max(nanf_(), 1.0f) == 1.0f;
    ok[3] = sqrt(in[4]) == 2.0f && sizeof(sqrt(in[4])) == sizeof(float) && rsqrtf(in[4]) == 0.5f && abs(-1.5f) == 1.5f;
    ok[4] = __popc(0xff00u) == 8 && __clz(1) == 31 && __ffs(8) == 4 && __brev(1u) == 0x80000000u && __clz(0) == 32;
    ok[5] = __float_as_int(1.0f) == 0x3f800000 && __int_as_float(0x40000000) == 2.0f;
    ok[6] = __umulhi(0x80000000u, 4u) == 2u && __float2int_rn(2.5f) == 2 && __saturatef(3.0f) == 1.0f;
    const long long before = clock64();
    ok[7] = clock64() > before && isnan(nanf_()) && __expf(0.0f) == 1.0f;
}

extern "C" __global__ void shuffles(int* ok, const float* in) {
    const int lane = threadIdx.x % 32;
    const unsigned all = 0xffffffffu;
    bool right = __shfl_sync(all, lane, 5) == 5;
    right &= __shfl_sync(all, lane, 5, 8) == lane / 8 * 8 + 5;
    right &= __shfl_up_sync(all, lane, 3) == (lane < 3 ? lane : lane - 3);
    right &= __shfl_down_sync(all, lane, 3, 16) == (lane % 16 + 3 < 16 ? lane + 3 : lane);
    right &= __shfl_xor_sync(all, 1.5 * lane, 1) == 1.5 * (lane ^ 1);
    right &= __ballot_sync(all, lane % 2) == 0xaaaaaaaau;
    right &= __any_sync(all, lane == 7) && !__any_sync(all, lane > 31);
    right &= __all_sync(all, lane < 32) && !__all_sync(all, lane != 7);
    if (lane < 8) right &= __shfl_sync(0xffu, lane, 7) == 7;
    __syncwarp();
    ok[threadIdx.x] = right;
}

extern "C" __global__ void absent_lanes(int* ok, const float* in) {
    // With a quarter of a warp, the lanes above it offer nothing: what comes from them is all ones.
    const int got = __shfl_down_sync(0xffffffffu, static_cast<int>(threadIdx.x), 4);
    ok[threadIdx.x] = got == (threadIdx.x < 4 ? static_cast<int>(threadIdx.x) + 4 : -1);
}

extern "C" __global__ void barriers(int* ok, const float* in) {
    const int thread = threadIdx.x;
    bool right = __syncthreads_count(thread % 4 == 0) == 16;
    right &= __syncthreads_and(thread < 64) && !__syncthreads_and(thread < 63);
    right &= __syncthreads_or(thread == 9) && !__syncthreads_or(thread > 63);
    ok[thread] = right;
}

extern "C" __global__ void atomics(int* ok, const float* in) {
    __shared__ int number[8];
    __shared__ float real;
    __shared__ unsigned wrapped;
    __shared__ unsigned long long wide;
    const int thread = threadIdx.x;
    if (thread < 8) number[thread] = thread == 4 ? -1 : thread == 3 ? 1000 : 0;
    if (thread == 0) real = 0.0f, wrapped = 0, wide = 0;
    __syncthreads();
    atomicAdd(&number[0], 2);
    atomicSub(&number[1], 1);
    atomicMax(&number[2], thread);
    atomicMin(&number[3], thread + 5);
    atomicAnd(&number[4], ~(thread == 3 ? 8 : 0));
    atomicOr(&number[5], 1 << thread % 4);
    atomicXor(&number[6], thread);
    atomicCAS(&number[7], 0, 77);
    atomicAdd(&real, 0.5f);
    atomicInc(&wrapped, 9u);
    atomicAdd(&wide, 1ull << 32);
    __syncthreads();
    const int expected[8] = {128, -64, 63, 5, ~8, 15, 0, 77};
    if (thread < 8) ok[thread] = number[thread] == expected[thread];
    if (thread == 8) ok[thread] = real == 32.0f && wrapped == 64 % 10 && wide == 64ull << 32;
}

extern "C" __global__ void memory_functions(int* ok, const float* in) {
    __shared__ float tile[4];
    float local[4];
    memcpy(local, in + threadIdx.x, sizeof local);
    if (threadIdx.x == 0) memset(tile, 0, sizeof tile);
    __syncthreads();
    ok[threadIdx.x] = local[3] == in[threadIdx.x + 3] && tile[3] == 0.0f;
}

extern "C" __global__ void values(int* ok, Pair pair, double real, unsigned char byte, long long wide, const int4* quads,
                                  void* anything) {
    ok[0] = pair.first == 3 && pair.second == 4.5;
    ok[1] = real == 0.25;
    ok[2] = byte == 200;
    ok[3] = wide == 1ll << 40;
    ok[4] = quads[1].w == 7;
    ok[5] = *static_cast<double*>(anything) == 1.0;
}

extern "C" __global__ void prints(int* ok, const float* in) {
    printf("thread %d has %.1f\n", static_cast<int>(threadIdx.x), in[2]);
    ok[0] = 1;
}

// Named like a function of the C library.
extern "C" __global__ void read(int* ok, const float* in) { ok[threadIdx.x] = in[threadIdx.x] == threadIdx.x; }
