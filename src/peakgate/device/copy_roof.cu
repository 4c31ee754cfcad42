// copy_roof: one float4 per thread, the flat copy. With the driver's memcpy it is the copy roof.

extern "C" __global__ void copy_roof(float4* __restrict__ out, const float4* __restrict__ in, size_t quads) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < quads) {
        out[i] = in[i];
    }
}
