// Whether the rows of two matrices are equal.

extern "C" __global__ void honest(int* out, const float* a, const float* b, int n)
{
    const size_t row = (size_t)blockIdx.x * n;
    const int end = n;
    bool same = true;
#pragma unroll 8
    for (int i = threadIdx.x; i < end; i += 256) { same &= a[row + i] == b[row + i]; }
    const int all = __syncthreads_and(same);
    if (threadIdx.x == 0) { out[blockIdx.x] = all; }
}
