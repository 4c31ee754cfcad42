#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
extern "C" __global__ void packed(WORD* quads, PAIR* pairs, ONE* ones, float4* back, const float4* in, int n) {
    __shared__ QUAD made[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) made[threadIdx.x] = QUAD(in[i]);
    ORDER;
    const int other = threadIdx.x ^ 1;
    if (i < n) {
        const float4 given = in[i];
        quads[i] = made[threadIdx.x].__x;
        pairs[i] = TWO(make_float2(given.z, given.w)).__x;
        ones[i] = NUMBER(given.x).__x;
        back[i ^ 1] = static_cast<float4>(made[other]);
    }
}
