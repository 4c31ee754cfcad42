__global__ void shared(float* c, const float* a, const float* b, int m, int n, int k)
{
    __shared__ float left[16][16], right[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
    float sum = 0;
    for (int start = 0; start < k; start += 16) {
        left[ty][tx] = row < m && start + tx < k ? a[(size_t)row * k + start + tx] : 0;
        right[ty][tx] = start + ty < k && col < n ? b[(size_t)(start + ty) * n + col] : 0;
        __syncthreads();
        for (int at = 0; at < 16; ++at) {
            sum += left[ty][at] * right[at][tx];
        }
        __syncthreads();
    }
    if (row < m && col < n) {
        c[(size_t)row * n + col] = sum;
    }
}
