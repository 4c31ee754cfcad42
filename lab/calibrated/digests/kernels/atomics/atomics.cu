extern "C" __global__ void atomics(int* found, float* sums, unsigned long long* wide, const int* in, int n) {
    __shared__ int counts[8];
    if (threadIdx.x < 8) counts[threadIdx.x] = 0;
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int v = in[i];
        atomicAdd_block(&counts[v % 8], 1);
        atomicMax(&found[8], v);
        atomicMin(&found[9], v);
        atomicXor(&found[10], v);
        atomicOr(&found[11], v);
        atomicAnd(&found[12], v);
        atomicSub(&found[13], v);
        atomicInc((unsigned*)&found[14], 999);
        atomicCAS(&found[15], i, v);
        atomicAdd(&sums[v % 4], 1.0f);
        atomicAdd_system(&wide[v % 2], 1ull << v % 40);
    }
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&found[threadIdx.x], counts[threadIdx.x]);
}
