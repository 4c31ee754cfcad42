#define HD __host__ __device__ inline
#define KERNEL extern "C" __global__
HD int called(cudaError_t e) { return 1; }
KERNEL void k() {}
int main() { cudaFree(0); }  // HOST
