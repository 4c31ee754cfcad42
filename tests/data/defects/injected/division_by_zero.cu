extern "C" __global__ void division_by_zero(float* out, const float* in, int n) {
    const int zero = in[0];
    out[threadIdx.x + 64 * blockIdx.x] = n / zero; // DEFECT: FAULT
}
