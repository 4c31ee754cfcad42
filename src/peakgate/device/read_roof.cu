// read_roof: four float4 loads in flight per thread; each warp writes the sum of what it read, so that no load is dead.

__device__ __forceinline__ float quad_sum(float4 value) {
    return (value.x + value.y) + (value.z + value.w);
}

extern "C" __global__ void read_roof(float* __restrict__ sums, const float4* __restrict__ in, size_t quads) {
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    float sum = 0.0f;
    size_t i = thread;
#pragma unroll 1
    for (; i + 3 * stride < quads; i += 4 * stride) {
        const float4 a = in[i];
        const float4 b = in[i + stride];
        const float4 c = in[i + 2 * stride];
        const float4 d = in[i + 3 * stride];
        sum += (quad_sum(a) + quad_sum(b)) + (quad_sum(c) + quad_sum(d));
    }
    for (; i < quads; i += stride) {
        sum += quad_sum(in[i]);
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    }
    if (threadIdx.x % 32 == 0) {
        sums[thread / 32] = sum;
    }
}
