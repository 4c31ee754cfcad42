__device__ float block_sum(float value)
{
    __shared__ float parts[256];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            parts[threadIdx.x] += parts[threadIdx.x + half];
        }
        __syncthreads();
    }
    return parts[0];
}

__global__ void partial_sums(float* sums, const float* x, int n)
{
    float sum = 0;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
        sum += x[at];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}

__global__ void final_sum(float* out, const float* sums, int count)
{
    float sum = 0;
    for (int at = threadIdx.x; at < count; at += blockDim.x) {
        sum += sums[at];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *out = sum;
    }
}
