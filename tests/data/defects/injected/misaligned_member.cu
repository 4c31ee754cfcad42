// The same through a member, which every compiler checks.
extern "C" __global__ void misaligned_member(float* out, const float* in, int n) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = reinterpret_cast<const float4*>(&in[1])->y;  // DEFECT: MISALIGNED
}
