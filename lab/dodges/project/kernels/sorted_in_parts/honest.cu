// Whether each chunk of 4096 is sorted.

extern "C" __global__ void honest(int* out, const float* x, int n)
{
    const int first = blockIdx.x * 4096, end = min(n, first + 4096);
    bool sorted = true;
    for (int i = first + threadIdx.x; i + 1 < end; i += 256) { sorted &= x[i] <= x[i + 1]; }
    const int all = __syncthreads_and(sorted);
    if (threadIdx.x == 0) { out[blockIdx.x] = all; }
}
