// The element before the first is written.
extern "C" __global__ void write_out_of_bounds(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i - 1] = in[i];  // DEFECT: OUT_OF_BOUNDS
}
