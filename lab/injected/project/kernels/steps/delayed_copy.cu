// delayed_copy: a copy that begins after a chain of dependent multiply-adds.
//
// Purpose: a slowdown of known length. The whole grid is resident, one warp of each block executes `links` links of a
// chain that nothing can overlap, and the others wait at the barrier, so a link adds the same few nanoseconds to the
// launch however long its copy is.
//
// Each block also writes how many SM cycles passed until its copy began: the ground truth of the injected slowdown,
// independent of any timing of launches. Slowed or not, read or not, it is the same machine code.

extern "C" __global__ void __launch_bounds__(256)
    delayed_copy(float4* __restrict__ out, const float4* __restrict__ in, size_t quads, int links,
                 long long* __restrict__ cycles) {
    __shared__ float ends[32];
    const long long start = clock64();
    if (threadIdx.x < 32) {
        float value = (float)threadIdx.x;
#pragma unroll 1
        for (int link = 0; link < links; ++link) {
            value = value * 0.5f + 1.0f;
        }
        ends[threadIdx.x] = value;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        cycles[blockIdx.x] = clock64() - start;
    }
    // Never taken, since no value is negative; the compiler cannot know and so keeps the chain.
    const size_t delay = ends[threadIdx.x % 32] < 0.0f ? 1 : 0;
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x + delay; i < quads; i += stride) {
        out[i] = in[i];
    }
}
