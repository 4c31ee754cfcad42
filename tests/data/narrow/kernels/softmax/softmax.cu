// A softmax of rows in bfloat16, summed in float32.
#include <cuda_bf16.h>
extern "C" __global__ void softmax(__nv_bfloat16* out, const __nv_bfloat16* in, int columns) {
    __shared__ float partial[64];
    const __nv_bfloat16* row = in + (size_t)blockIdx.x * columns;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += 64) { sum += expf(__bfloat162float(row[c])); }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) { partial[threadIdx.x] += partial[threadIdx.x + half]; }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < columns; c += 64) {
        out[(size_t)blockIdx.x * columns + c] = __float2bfloat16(expf(__bfloat162float(row[c])) / partial[0]);
    }
}
