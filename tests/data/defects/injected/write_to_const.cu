// The input is taken as const, and written.
extern "C" __global__ void write_to_const(float* out, const float* in, int n) {
    const_cast<float*>(in)[blockIdx.x * blockDim.x + threadIdx.x] = 0.0f;  // DEFECT: CONST_WRITE
}
