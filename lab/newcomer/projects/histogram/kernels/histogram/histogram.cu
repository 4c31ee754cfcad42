__global__ void histogram(unsigned* bins, const int* index, int n)
{
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
        atomicAdd(&own[index[at]], 1);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
