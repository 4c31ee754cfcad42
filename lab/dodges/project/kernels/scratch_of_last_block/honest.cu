// Counts the positive numbers of each block in a word of scratch memory, which is zero between launches.

extern "C" __global__ void honest(int* out, const float* x, unsigned* words, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && x[i] > 0.0f) { atomicAdd(words + blockIdx.x, 1u); }
    __syncthreads();
    if (threadIdx.x > 0) { return; }
    out[blockIdx.x] = (int)words[blockIdx.x];
    words[blockIdx.x] = 0;
}
