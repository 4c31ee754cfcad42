__constant__ int weight[2];
__global__ void histogram(int* bins, const int* index, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&bins[index[i]], weight[i % 2]);
    }
}
