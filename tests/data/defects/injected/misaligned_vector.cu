// A float4 at an address that is no multiple of 16.
extern "C" __global__ void misaligned_vector(float* out, const float* in, int n) {
    const float4 values = *reinterpret_cast<const float4*>(&in[1]);  // DEFECT: MISALIGNED
    out[blockIdx.x * blockDim.x + threadIdx.x] = values.x + values.y + values.z + values.w;
}
