// A variable in constant memory is for the host to set.
__constant__ float scale[2];
extern "C" __global__ void write_to_constant(float* out, const float* in, int n) {
    if (in[0] >= 0) scale[threadIdx.x % 2] = 1.0f;  // DEFECT: CONST_WRITE
    out[blockIdx.x * blockDim.x + threadIdx.x] = scale[0];
}
