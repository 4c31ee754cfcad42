// The largest of an array of integers.

extern "C" __global__ void honest(int* out, const int* x, int n)
{
    int largest = -2147483647 - 1;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) { largest = max(largest, x[i]); }
    largest = __reduce_max_sync(0xffffffffu, largest);
    if (threadIdx.x % 32 == 0) { atomicMax(out, largest); }
}
