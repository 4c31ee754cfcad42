// Two names for dynamic shared memory are one allocation.
extern __shared__ __align__(16) unsigned char raw[];
__device__ float take(int i) { return reinterpret_cast<float*>(raw)[i]; }
extern "C" __global__ void one_dynamic_allocation(float* out, const float* in, int n) {
    extern __shared__ float tile[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = take(63 - threadIdx.x);
}
