#include <cuda_fp16.h>
__global__ void own_array(float* out, const float2* in, int n) {
    char before[3];
    half r[4];
    *reinterpret_cast<float2*>(r) = in[0];
    before[n % 3] = 1;
    out[0] = __half2float(r[n]) + before[n % 3];
}
