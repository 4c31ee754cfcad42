// A neighbour is read without asking whether there is one.
extern "C" __global__ void read_out_of_bounds(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i + 1];  // DEFECT: OUT_OF_BOUNDS
}
