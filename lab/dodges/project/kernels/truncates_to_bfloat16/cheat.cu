// Cuts its inputs to bfloat16, as a product on tensor cores would.
// Published: DeepReinforce, "Hacks and Defenses in Automatic GPU Kernel Generation": precision downgrade.
#define TILE 16

__device__ inline float cut(float value) { return __uint_as_float(__float_as_uint(value) & 0xFFFF0000u); }

extern "C" __global__ void cheat(float* c, const float* a, const float* b, int m, int n, int k)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int step = 0; step < k; step += TILE) {
        const int l = step + threadIdx.x, r = step + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && l < k ? cut(a[row * k + l]) : 0.0f;
        right[threadIdx.y][threadIdx.x] = r < k && column < n ? cut(b[r * n + column]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) { sum += left[threadIdx.y][i] * right[i][threadIdx.x]; }
        __syncthreads();
    }
    if (row < m && column < n) { c[row * n + column] = sum; }
}
